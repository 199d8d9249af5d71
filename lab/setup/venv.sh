#!/bin/bash
# venv.sh PYTHON: make .venv from requirements.lock (every file checked by hash), with ikeorch itself as an editable
# install. Nothing is done when lock, pyproject.toml and Python are those of the last time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
cd "$here/../.."
python=$1
command -v "$python" >/dev/null || die "there is no $python" "install Python 3.11 or newer, or say where it is: make PYTHON=..."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "$python is older than Python 3.11" "say where a newer one is: make PYTHON=..."
# The Python behind an active virtual environment, which may be the very one that is made anew.
python=$("$python" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))')
stamp=$(cat requirements.lock pyproject.toml <("$python" -VV) | sha256sum)
[ "$(cat .venv/ikeorch-stamp 2>/dev/null)" = "$stamp" ] && [ -x .venv/bin/ikeorch ] && .venv/bin/python -c '' && exit 0
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    "$here/packages.sh" "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
rm -f .venv/ikeorch-stamp
with_progress "making .venv" "$log" "$python" -m venv --clear .venv || die "the virtual environment cannot be made"
with_progress "installing the locked dependencies" "$log" .venv/bin/python -m pip install --no-deps --require-hashes \
    --disable-pip-version-check -r requirements.lock ||
    die "the locked dependencies cannot be installed" "is a package index reachable? pip's last words stand above"
with_progress "installing ikeorch itself" "$log" .venv/bin/python -m pip install --no-deps --no-build-isolation --no-index \
    --disable-pip-version-check -e . || die "ikeorch cannot be installed"
.venv/bin/python -m pip check --disable-pip-version-check >"$log" || die "$(cat "$log")" "requirements.lock is incomplete"
echo "$stamp" >.venv/ikeorch-stamp
