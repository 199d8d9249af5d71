#!/bin/sh
# First process of the user-mode Linux guest. The root is the host's own, read-only; the kernel hands over
# ikeorch_run, a folder of the host with the file `env` (shell assignments written by lab/guest.py).
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
fail() { echo "guest init: $*" >&2; echo o >/proc/sysrq-trigger; while :; do sleep 1; done; }
mount -t proc proc /proc || fail "no /proc"
. "$ikeorch_run/env" || fail "cannot read $ikeorch_run/env"
# One tmpfs holds whatever is written: on top of the host's root in an overlay, so that no write reaches the host.
mount -t tmpfs -o mode=755 tmpfs /mnt || fail "no tmpfs"
mkdir -p /mnt/upper /mnt/work /mnt/root /mnt/repo /mnt/repo-upper /mnt/repo-work
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root || fail "no overlay"
mount -t hostfs -o "$LAB_REPO" none /mnt/repo -r || fail "cannot show $LAB_REPO"
cd /mnt/root || fail "no root"
mount -t proc proc proc && mount -t sysfs sysfs sys && mount -t devtmpfs devtmpfs dev || fail "no /proc, /sys or /dev"
mkdir -p dev/pts dev/shm
mount -t devpts -o ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
ln -sf /proc/self/fd dev/fd; ln -sf fd/0 dev/stdin; ln -sf fd/1 dev/stdout; ln -sf fd/2 dev/stderr
# The checkout as well: it may lie below a folder that was just covered.
mkdir -p "./$LAB_REPO"
mount -t overlay -o lowerdir=/mnt/repo,upperdir=/mnt/repo-upper,workdir=/mnt/repo-work overlay "./$LAB_REPO" ||
    fail "no overlay over $LAB_REPO"
for share in $LAB_SHARES; do
    mkdir -p "./$share" && mount -t hostfs -o "$share" none "./$share" || fail "cannot share $share"
done
mkdir -p .lab-old && pivot_root . .lab-old || fail "no pivot_root"
cd / && umount -l /.lab-old && rmdir /.lab-old
ip link set lo up
# No tunl0, sit0, dummy0 or ifb0: a node has the interfaces of its topology and no others.
echo 1 >/proc/sys/net/core/fb_tunnels_only_for_init_net
for name in dummy0 ifb0 ifb1; do ip link delete "$name" 2>/dev/null; done
hostname lab-guest
ulimit -n 65536
HOME=/tmp/home LAB_GUEST=1
export HOME LAB_GUEST PYTHONPATH LAB_SHARE
mkdir -p "$HOME"
cd "$LAB_REPO" || fail "no $LAB_REPO"
# charon and ping need clocks that did not just start at 0.
unshare -T --monotonic 1000000 --boottime 1000000 --fork \
    "$LAB_PYTHON" -m lab.agent --device "$LAB_DEVICE" </dev/null >"$LAB_LOG" 2>&1
sync
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
