#!/usr/bin/env bash
# Builds samples/libtorch on the libtorch of an installed PyTorch, and runs it and its checks.
#   run.sh PYTHON SOURCE_DIR BUILD_DIR      exit code 77, and the reason, where that Python has no PyTorch
set -euo pipefail
python=$1 source=$2 build=$3
if ! prefix=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null); then
  echo "skipped: $python has no PyTorch; tools/torch_env.sh makes one that does"
  exit 77
fi
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake -S "$source/tests/libtorch" -B "$build/libtorch" -G Ninja "${launcher[@]}" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_PREFIX_PATH="$prefix" -Dstepfuse_DIR="$build" -Wno-dev >/dev/null
cmake --build "$build/libtorch" -- --quiet
"$build/libtorch/libtorch_check"
"$build/libtorch/sample/libtorch_gpt" 40
