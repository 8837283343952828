#!/usr/bin/env bash
# Makes the wheel for AArch64 on x86-64 and tries it in an emulator: digests of CPU kernels over the covering set must
# equal this machine's, and the README's training must run with PyTorch. Knows tools/wheel.sh and pip.
#
#   aarch64.sh SOURCE_DIR BUILD_DIR [ROWS]      ROWS of the covering set (default: the usual ones, 135)
#
# BUILD_DIR has this machine's tool, bin/stepfuse. Takes an hour on two cores, half of it for the digests, and 3 GB
# in BUILD_DIR. PYTORCH names PyTorch's version; PyPI's wheels for AArch64 up to 2.8 need no CUDA. Exit code 3, and
# the reason, if something that this needs cannot be had.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
source=$(cd "${1:?the source folder}" && pwd)
build=$(cd "${2:?the build folder}" && pwd)
pytorch=${PYTORCH:-2.8.0}
[[ $(uname -m) == x86_64 ]] || { echo "skipped: this is not x86-64" && exit 3; }
say() { echo "aarch64, $((SECONDS / 60)) min $((SECONDS % 60)) s: $*"; }

say "making the wheel"
"$source/tools/wheel.sh" --arch=aarch64 "$build" "$build/wheel_aarch64/out"
work=$build/wheel_aarch64
# shellcheck source=/dev/null
. "$work/cross/environment"
export STEPFUSE_CACHE=off
python=$work/try/bin/python
package=$(cd "$work" && "$python" -c 'import stepfuse; print(stepfuse.__path__[0])')

say "comparing digests with this machine's"
# Python names the package's LLVM to the tool; here, the tool starts without Python.
python3 "$source/tests/packaging/digests.py" "$source" "$build/bin/stepfuse" \
  "env STEPFUSE_LLVM_LIBRARY=$package/_llvm.so $package/_bin/stepfuse" --cpu-level=armv8-a ${3:+--rows="$3"}

say "fetching PyTorch $pytorch for AArch64 into $work/torch (110 MB, unpacked 500 MB)"
if [[ $(cat "$work/torch/made" 2>/dev/null) != "$pytorch" ]]; then
  rm -rf "$work/torch"
  "$work/venv/bin/pip" install --quiet --no-deps --only-binary :all: --platform manylinux_2_28_aarch64 \
    --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 --python-version 3.11 --implementation cp \
    --abi cp311 --abi abi3 --abi none --target "$work/torch" "torch==$pytorch" "numpy<2.3" filelock fsspec jinja2 \
    markupsafe mpmath networkx "sympy<1.15" typing_extensions ||
    { echo "skipped: pip cannot fetch PyTorch $pytorch for AArch64" && exit 3; }
  echo "$pytorch" >"$work/torch/made"
fi
say "training with PyTorch in the emulator"
cd "$work"
PYTHONPATH=$work/torch "$python" -c "$(sed -n '/^```python$/,/^```$/{/^```/!p}' "$source/README.md")"
say "done"
