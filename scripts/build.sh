#!/usr/bin/env bash
# Configures and builds in build/release; quick when nothing has changed.
#   scripts/build.sh [target …]   everything unless targets are named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
options=()
[[ -n ${XT_TORCH_ROOT:-} ]] && options+=("-DXT_TORCH_ROOT=$XT_TORCH_ROOT")
command -v ccache >/dev/null && options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake --preset release "${options[@]}" >/dev/null
cmake --build --preset release ${1:+--target "$@"}
