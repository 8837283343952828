#!/usr/bin/env bash
# Links the part of LLVM that the CPU backend calls into one library with nothing else visible, from the static archives
# of Debian's llvm-19-dev, libzstd-dev and zlib1g-dev; knows llvm-config and the linker gold (Debian's binutils).
#
#   tools/static_llvm.sh OUT.so [LLVM_CONFIG]      STEPFUSE_LLVM_LIBRARY=OUT.so then names it
#   tools/static_llvm.sh --check                   only says whether it can; exit code 3, and the reason, if not
#
# STEPFUSE_GLIBC_STUBS names a folder that tools/glibc_stubs.sh made; the library then runs on that glibc, too.
# STEPFUSE_AARCH64 names a folder that tools/aarch64.sh made; the library is then for AArch64.
# LLVM of one architecture, this machine's; its C++ library is inside, since another in the process (triton's LLVM, say)
# would otherwise meet it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:?the library to write} in -h | --help) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
out=$1
config=${2:-llvm-config-19}
case $(uname -m) in
  x86_64) target=x86 ;;
  aarch64) target=aarch64 ;;
  *) echo "static_llvm: no LLVM target for $(uname -m)" >&2 && exit 2 ;;
esac
cxx=g++ gold=ld.gold root=""
if [[ -n ${STEPFUSE_AARCH64:-} ]]; then
  target=aarch64 cxx=aarch64-linux-gnu-g++-12 gold=aarch64-linux-gnu-ld.gold root=$STEPFUSE_AARCH64/root
fi
# The files of zstd and zlib; where the compiler finds none, its answer is the bare name.
find_archive() {
  local found=($root/usr/lib/*-linux-gnu/$1)
  if [[ -n $root ]]; then echo "${found[0]}"; else g++ -print-file-name="$1"; fi
}
zstd=$(find_archive libzstd.a)
zlib=$(find_archive libz.a)
if ! command -v "$config" >/dev/null || ! command -v "$gold" >/dev/null || [[ ! -e $zstd || ! -e $zlib ]]; then
  echo "skipped: static_llvm needs $config, $gold, libzstd.a and libz.a (apt install llvm-19-dev libzstd-dev zlib1g-dev)"
  exit 3
fi
[[ $out != --check ]] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' '#include "runtime/cpu/llvm_library.hpp"' '#define X(name) symbol: name' \
  'STEPFUSE_LLVM_FUNCTIONS(X)' 'STEPFUSE_LLVM_TARGET_FUNCTIONS(X)' |
  "$cxx" -std=c++20 -E -x c++ -DSTEPFUSE_HAVE_LLVM=1 -I. -Iir/include -Icompiler/include -Iruntime/include \
    -I"$("$config" --includedir)" - | grep -o 'symbol: [A-Za-z0-9]*' | cut -d' ' -f2 >"$work/names"
[[ $(wc -l <"$work/names") -gt 30 ]]

{ echo '{ global:' && sed 's/$/;/' "$work/names" && echo 'local: *; };'; } >"$work/exports"
sed 's/^/-Wl,-u,/' "$work/names" >"$work/wanted"
# For an old glibc: the static unwinder asks the new one's loader.
libgcc=(-static-libgcc)
[[ -z ${STEPFUSE_GLIBC_STUBS:-} ]] || libgcc=(-shared-libgcc -B "$STEPFUSE_GLIBC_STUBS")
# Archives by file: the system's shared libLLVM has the same names.
mapfile -t archives < <("$config" --link-static --libfiles "$target" orcjit passes irreader analysis | tr ' ' '\n' |
  sed "s:^:$root:")

"$cxx" -shared -o "$out" -fuse-ld=gold "@$work/wanted" -Wl,--start-group "${archives[@]}" -Wl,--end-group \
  -Wl,--gc-sections -Wl,--icf=safe -Wl,--version-script="$work/exports" -Wl,-O1 -Wl,-s \
  -Wl,-z,defs -static-libstdc++ "${libgcc[@]}" "$zstd" "$zlib" -lpthread -ldl -lm
ls -l "$out"
