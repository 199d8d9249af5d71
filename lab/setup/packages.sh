#!/bin/bash
# packages.sh NAME...: install the system packages that are missing, and nothing else changes on the host: no service
# is started now or at the next boot, /etc/apt is only read.
set -euo pipefail
. "$(dirname "$0")/say.sh"

command -v dpkg-query >/dev/null || die "this is no Debian or Ubuntu: install these by hand: $*" \
    "then put an empty dpkg-query before them in PATH to skip this step"

missing=()
for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] || missing+=("$name")
done
[ ${#missing[@]} -eq 0 ] && exit 0
need_root "installing ${missing[*]}"

work=$(mktemp -d)
policy=/usr/sbin/policy-rc.d
our_policy=
enabled() { find /etc/systemd/system /etc/systemd/user -type l 2>/dev/null | sort || true; }

restore() {
    trap '' INT TERM HUP
    # Units that the installation enabled for the next boot.
    if [ -f "$work/enabled" ]; then
        enabled | comm -13 "$work/enabled" - | while read -r link; do
            say "not enabled at boot: ${link##*/}"
            as_root rm -f "$link"
        done
    fi
    [ -z "$our_policy" ] || as_root rm -f "$policy"
    rm -rf "$work"
}
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\n# Put here by the set-up of ikeorch while it installs packages; removed at its end.\nexit 101\n' >"$work/policy"
    our_policy=yes
    as_root install -m 755 "$work/policy" "$policy"
fi
enabled >"$work/enabled"
apt() {
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -y -o Dpkg::Use-Pty=0 \
        -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=120 "$@"
}
with_progress "reading the package lists" "$work/log" apt update ||
    die "apt-get update failed" "correct the apt sources of this machine, or its network"
with_progress "installing ${missing[*]}" "$work/log" apt install --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install ${missing[*]}" "its last words stand above"
