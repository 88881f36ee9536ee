#!/usr/bin/env bash
# Installs what the tests need, builds, and passes all tests. Reads no clock.
#   scripts/test.sh [ctest arguments, such as -R conformance]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh test
scripts/build.sh
export OMP_NUM_THREADS=1
ctest --preset release "$@"
