#!/bin/bash
# setup.sh PYTHON: everything that the demo, the tests and the lab need. A second run takes a second.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/packages.sh" charon-systemd strongswan-swanctl libstrongswan-standard-plugins nftables iproute2 tcpdump \
    iputils-ping procps util-linux xz-utils frr
"$here/venv.sh" "$1"
"$here/kernel.sh" "$here/../../.venv/bin/python"
