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
if [ "$mode" = add_subdirectory ]; then
  # The parent chose no build type and no -Werror, and keeps both; its own option turns the latter on.
  grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=$' "$work/build/CMakeCache.txt" ||
    { echo "the parent's build type was changed" >&2 && exit 1; }
  ! grep -q -e -Werror "$work/build/build.ninja" ||
    { echo "a consumer's compiler gets -Werror" >&2 && exit 1; }
  cmake -S "$source/tests/consumer/$mode" -B "$work/strict" -G Ninja -DSTEPFUSE_WERROR=ON >/dev/null
  grep -q -e -Werror "$work/strict/build.ninja" ||
    { echo "STEPFUSE_WERROR=ON does nothing" >&2 && exit 1; }
fi
cmake --build "$work/build" --target consumer -j2 >/dev/null
"$(find "$work/build" -type f -name consumer -perm -u+x | head -n 1)"
