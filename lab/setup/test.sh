#!/bin/bash
# test.sh: what `make test` runs, after the set-up: the checks, the tests that need no lab kernel, then the others in
# lab kernels, two at a time where there are two CPUs. All parts run; the exit code is 0 only if all passed.
set -uo pipefail
cd "$(dirname "$0")/../.."
bin=.venv/bin
mkdir -p build/test
rm -f build/test/*
failed=()
total=0

# count LOG: add the tests of pytest's closing line to the total.
count() {
    local n
    for n in $(tail -n 3 "$1" 2>/dev/null | grep -oE '[0-9]+ (passed|failed|error|errors)' | cut -d ' ' -f 1); do total=$((total + n)); done
}

lab/setup/check.sh || failed+=("checks")

printf '== tests without a lab kernel\n'
$bin/pytest -q --durations=5 -m "not lab and not charon" tests 2>&1 | tee build/test/native.log || failed+=("native tests")
count build/test/native.log

# Groups of folders and files, each in a kernel of its own. Exit code 5 says that a group has no such test (yet).
group() {
    local name=$1 code=0 folder
    shift
    for folder in "$@"; do
        shift
        [ ! -e "$folder" ] || set -- "$@" "$folder"
    done
    [ $# -gt 0 ] || return 0
    $bin/ikeorch lab run --timeout 2400 -- python -m pytest -q --durations=5 -m "lab or charon" --basetemp=/tmp/pytest "$@" \
        >"build/test/$name.log" 2>&1 || code=$?
    [ "$code" -eq 5 ] && code=0
    return "$code"
}
declare -A pids=()
run_group() { group "$@" & pids[$1]=$!; }
finish() {
    local name
    for name in "${!pids[@]}"; do
        while sleep 0.5 && kill -0 "${pids[$name]}" 2>/dev/null; do
            [ $((SECONDS % 15)) -ne 0 ] || { printf '   %s tests: %s\n' "$name" "$(tail -n 1 "build/test/$name.log" | cut -c 1-90)" && sleep 1; }
        done
        wait "${pids[$name]}" || failed+=("$name tests")
        printf '== %s tests, in a lab kernel\n' "$name"
        cat "build/test/$name.log"
        count "build/test/$name.log"
    done
    pids=()
}
# What operators change is about half of the time of all lab tests.
changes=(tests/lab/test_{change,ipv6,plan,refused,rename,side_by_side,third_site,waves}.py)
mapfile -t others < <(printf '%s\n' tests/lab/test_*.py | grep -vxF "$(printf '%s\n' "${changes[@]}")")
run_group lab "${others[@]}"
[ "$(nproc)" -ge 2 ] || finish
run_group changes "${changes[@]}"
finish
run_group integration tests/contract tests/integration tests/golden tests/unit
finish

if [ ${#failed[@]} -ne 0 ]; then
    printf 'make test: %d tests ran; FAILED: %s\n' "$total" "${failed[*]}"
    exit 1
fi
printf 'make test: all %d tests passed, and all checks\n' "$total"
