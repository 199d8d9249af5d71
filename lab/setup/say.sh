# Sourced by the set-up scripts: messages, and commands as root.

say() { printf 'setup: %s\n' "$*" >&2; }

die() {
    printf 'setup: error: %s\n' "$1" >&2
    shift
    for hint in "$@"; do printf '       %s\n' "$hint" >&2; done
    exit 1
}

# as_root COMMAND...: run it as root, without ever asking for a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# need_root WHY: end with a clear message where as_root cannot work.
need_root() {
    [ "$(id -u)" -eq 0 ] && return
    command -v sudo >/dev/null || die "$1 needs root, and there is no sudo" "run \`make setup\` once as root"
    sudo -n true 2>/dev/null || die "$1 needs root, and sudo asks for a password" \
        "run \`sudo true\` first in this terminal, or \`make setup\` once as root"
}

# with_progress WHAT LOG COMMAND...: run it with its output in LOG, and say every 5 s how far it is.
with_progress() {
    local what=$1 log=$2 started=$SECONDS next=5 pid code=0
    shift 2
    say "$what"
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        if [ $((SECONDS - started)) -ge "$next" ]; then
            say "  $((SECONDS - started)) s, line $(wc -l <"$log"): $(tail -n 1 "$log" | tr -d '\r' | cut -c 1-90)"
            next=$((next + 5))
        fi
    done
    wait "$pid" || code=$?
    if [ "$code" -ne 0 ]; then
        tail -n 25 "$log" >&2
        return "$code"
    fi
    [ $((SECONDS - started)) -lt 2 ] || say "  done after $((SECONDS - started)) s"
}
