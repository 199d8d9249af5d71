#!/bin/bash
# check.sh: everything about the source that needs no test run. All checks run, then the first failure counts.
set -uo pipefail
cd "$(dirname "$0")/../.."
failed=()
check() {
    local name=$1
    shift
    printf '== %s\n' "$name"
    "$@" || failed+=("$name")
}
check "format" .venv/bin/ruff format --check --quiet .
check "lint" .venv/bin/ruff check --quiet .
check "types" .venv/bin/mypy --no-error-summary
check "import contracts" .venv/bin/lint-imports --no-cache
[ ${#failed[@]} -eq 0 ] || { printf 'check: failed: %s\n' "${failed[*]}" >&2; exit 1; }
