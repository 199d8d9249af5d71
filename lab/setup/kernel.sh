#!/bin/bash
# kernel.sh PYTHON: provide a kernel for the lab. Where the host's can do everything, or a user-mode Linux one is there
# (IKEORCH_LAB_KERNEL, or the cache), nothing is done; else one is built from the distribution's kernel source. The
# source comes from a newer suite if need be, by an apt root of its own: /etc/apt is only read.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
python=$1
repo=$(cd "$here/../.." && pwd)
minimum=6.19 # the first with what lab/kernel/uml_defconfig asks for
suites="trixie-backports forky-backports"
cd "$repo"
"$python" -m lab.kernel.find && exit 0
[ -z "${IKEORCH_LAB_KERNEL:-}" ] || exit 1
[ "$(uname -m)" = x86_64 ] || die "user-mode Linux runs on x86_64 only, this is $(uname -m)" \
    "use a host whose kernel has XFRM interfaces and netem, as root"
say "this host's kernel cannot run the lab: building a user-mode Linux kernel, once, in about 7 minutes"
"$here/packages.sh" flex bison bc libelf-dev libssl-dev gcc libc6-dev make xz-utils perl

cache=${XDG_CACHE_HOME:-$HOME/.cache}/ikeorch
mkdir -p "$cache"
[ "$(df --output=avail -BM "$cache" | tail -n 1 | tr -dc 0-9)" -ge 4000 ] || die "less than 4 GB are free in $cache" \
    "make room, or set XDG_CACHE_HOME"
exec 9>"$cache/build.lock"
flock -n 9 || { say "waiting for another build"; flock 9; "$python" -m lab.kernel.find && exit 0; }
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# 1. The newest linux-source that is recent enough: of the configured suites, else of a newer one.
options=()
newest() {
    apt-cache "${options[@]}" pkgnames linux-source- | sed -n 's/^linux-source-\([0-9][0-9.]*\)$/\1/p' | sort -V | tail -n 1
}
recent() { [ -n "$1" ] && [ "$(printf '%s\n' "$minimum" "$1" | sort -V | head -n 1)" = "$minimum" ]; }
version=$(newest)
if ! recent "$version"; then
    mirrors=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | sort -u | grep -v security || true)
    if [ -z "$mirrors" ]; then # no lists yet: read the configuration itself, in both its formats
        mirrors=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
            sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\) .*/\2/p' | sort -u | grep -v security || true)
    fi
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -n "$mirrors" ] && [ -r "$keyring" ] || die "apt is not configured for a Debian mirror" \
        "give a user-mode Linux kernel with IKEORCH_LAB_KERNEL, or use a host whose own kernel can do it"
    root=$work/apt
    mkdir -p "$root/lists/partial" "$root/archives/partial"
    : >"$root/status"
    options=(-o "Dir::Etc::SourceList=$root/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State=$root"
        -o "Dir::State::Lists=$root/lists" -o "Dir::State::Status=$root/status" -o "Dir::Cache=$root"
        -o "Dir::Cache::Archives=$root/archives" -o APT::Sandbox::User= -o Acquire::Languages=none)
    for mirror in $mirrors; do
        for suite in $suites; do
            recent "$version" && break 2
            printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" >"$root/sources.list"
            with_progress "reading the package list of $suite" "$work/log" apt-get "${options[@]}" update || true
            version=$(newest)
        done
    done
fi
recent "$version" || die "no linux-source of version $minimum or newer can be had from this machine's mirrors" \
    "give a user-mode Linux kernel with IKEORCH_LAB_KERNEL"

# 2. Its source.
cd "$work"
with_progress "fetching linux-source-$version (about 170 MB)" "$work/log" \
    apt-get "${options[@]}" -q download "linux-source-$version" || die "the download of linux-source-$version failed"
unpack() { dpkg-deb -x linux-source-*.deb deb && rm linux-source-*.deb && mkdir tree && tar -xf deb/usr/src/linux-source-*.tar.xz -C tree --strip-components 1; }
with_progress "unpacking it" "$work/log" unpack || die "the source cannot be unpacked"

# 3. The kernel, tried before it is kept.
cp "$repo/lab/kernel/uml_defconfig" tree/arch/um/configs/ikeorch_defconfig
cd tree
with_progress "configuring it" "$work/log" make ARCH=um ikeorch_defconfig || die "the kernel cannot be configured"
with_progress "compiling it" "$work/log" make ARCH=um "-j$(nproc)" linux || die "the kernel does not compile"
strip linux
cd "$repo"
IKEORCH_LAB_KERNEL=$work/tree/linux "$python" -m lab.kernel.trial || die "the kernel that was built does not work"
mv "$work/tree/linux" "$cache/linux"
say "the lab's kernel $version is ready: $cache/linux"
