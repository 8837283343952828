#!/usr/bin/env bash
# Builds and runs the consumer against an installed stepfuse, or as a subdirectory.
#   run.sh find_package|add_subdirectory SOURCE_DIR BUILD_DIR
set -euo pipefail
mode=$1 source=$2 build=$3
work=$build/consumer-$mode
mkdir -p "$work"
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
if [ "$mode" = find_package ]; then
  cmake --install "$build" --prefix "$work/prefix" >/dev/null
  prefix=(-DCMAKE_PREFIX_PATH="$work/prefix")
else
  prefix=()
fi
cmake -S "$source/tests/consumer/$mode" -B "$work/build" -G Ninja "${prefix[@]}" "${launcher[@]}" >/dev/null
cmake --build "$work/build" --target consumer -j2 >/dev/null
"$(find "$work/build" -type f -name consumer -perm -u+x | head -n 1)"
