#!/usr/bin/env bash
# Makes a virtual environment with the PyTorch that the comparisons are made with; knows pip.
#
#   tools/torch_env.sh [DIR]      DIR (default build/torch) then has bin/python
#
# Exit code 3, and the reason, where it cannot be had. Which wheel PyPI gives is pip's to decide; for the small one
# without CUDA: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu tools/torch_env.sh
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

version=2.13.0
folder=${1:-build/torch}
usable() {
  "$folder/bin/python" -c "import expecttest, numpy, pytest, safetensors, torch, xxhash; assert torch.__version__.split('+')[0] == '$version'" 2>/dev/null
}

usable && exit
log=$(mktemp) && trap 'rm -f "$log"' EXIT
if ! { python3 -m venv --clear "$folder" &&
  "$folder/bin/pip" install --quiet "torch==$version" expecttest numpy pytest safetensors \
    tensorboard xxhash; } >"$log" 2>&1; then
  rm -rf "$folder"
  echo "skipped: no PyTorch $version in $folder: $(grep . "$log" | tail -1)"
  exit 3
fi
usable && exit
echo "skipped: PyTorch $version was installed into $folder and does not start"
exit 3
