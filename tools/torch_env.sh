#!/usr/bin/env bash
# Makes a virtual environment with the PyTorch that the comparisons are made with; knows pip.
#
#   tools/torch_env.sh [DIR [VERSION]]      DIR (default build/torch) then has bin/python
#
# With a VERSION, an environment to try the package in: that PyTorch, what the tests import, and none of the libraries
# of CUDA, which take gigabytes. Exit code 3, and the reason, where it cannot be had; 2 where DIR is somebody else's.
# Which wheel PyPI gives is pip's to decide; for the small one without CUDA:
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu tools/torch_env.sh
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

folder=${1:-build/torch}
version=${2:-2.13.0}
mark=$folder/made_by_torch_env
usable() {
  "$folder/bin/python" -c "import expecttest, numpy, pytest, safetensors, torch, xxhash; assert torch.__version__.split('+')[0] == '$version'" 2>/dev/null
}
# --no-compile: Python compiles the modules that it imports, and most are never imported.
install() {
  if [[ $# == 0 ]]; then
    "$folder/bin/pip" install --quiet --no-compile "torch==$version" expecttest numpy pytest safetensors tensorboard xxhash
  else
    "$folder/bin/pip" install --quiet --no-compile --no-deps "torch==$version" &&
      "$folder/bin/pip" install --quiet --no-compile expecttest filelock fsspec jinja2 networkx "numpy<2.3" pytest \
        safetensors setuptools sympy typing_extensions xxhash &&
      { usable || "$folder/bin/python" tools/torch_without_cuda.py; }
  fi
}

usable && exit
if [[ -e $folder && ! -e $mark && $folder != build/torch ]] && [[ -n $(ls -A "$folder") ]]; then
  echo "torch_env: $folder is there and was not made by this script: give another folder, or remove it" >&2
  exit 2
fi
log=$(mktemp) && trap 'rm -f "$log"' EXIT
if ! { python3 -m venv --clear "$folder" && touch "$mark" && install "${@:2}"; } >"$log" 2>&1; then
  rm -rf "$folder"
  echo "skipped: no PyTorch $version in $folder: $(grep . "$log" | tail -1)"
  exit 3
fi
usable && exit
echo "skipped: PyTorch $version was installed into $folder and does not start"
exit 3
