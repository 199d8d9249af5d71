#!/bin/bash
# lock.sh [UV]: write requirements.lock anew from pyproject.toml: every dependency, the tools and the build back end,
# each with its hashes and without the address of any index.
set -euo pipefail
cd "$(dirname "$0")/../.."
"${1:-uv}" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
    --no-annotate --group dev --output-file requirements.lock pyproject.toml
sed -i '1i # Made by lab/setup/lock.sh from pyproject.toml; installed by `make setup` with pip --require-hashes.' requirements.lock
