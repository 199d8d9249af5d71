# `make help` lists the targets. PYTHON names the Python that .venv is made of.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# sbin is not in every user's PATH.
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: help setup demo test lab bench check unit clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what is needed: packages, .venv, a lab kernel (1 s when it is all there)
	@lab/setup/setup.sh "$(PYTHON)"

demo: setup ## two sites, four tunnels, real traffic: watch it work
	@$(BIN)/ikeorch lab run --timeout 300 -- python -m lab.scenarios.demo

test: setup ## format, lint, types, contracts and all tests, as CI does
	@lab/setup/test.sh

lab: setup ## leave the two sites running, with a shell in them
	@$(BIN)/ikeorch lab up
	@trap '$(BIN)/ikeorch lab down' EXIT; $(BIN)/ikeorch lab shell || true

bench: setup ## run one benchmark: make bench NAME=bringup
	@test -n "$(NAME)" || { echo "say which: make bench NAME=bringup" >&2; exit 64; }
	@$(BIN)/python -m lab.bench "$(NAME)"

check: setup ## format, lint, types and import contracts
	@lab/setup/check.sh

unit: setup ## the tests that need no lab kernel
	@$(BIN)/pytest tests -m "not lab and not charon and not guests"

clean: ## remove what was built or installed in this folder (not the cached lab kernel)
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
