#!/usr/bin/env bash
# Makes a folder that links programs for an old glibc: `g++ -B DIR` then finds the symbols of that version and no newer
# ones, and start files that run a program's constructors there. Knows pip, and zig, whose wheel has the symbol lists of
# every glibc.
#
#   tools/glibc_stubs.sh DIR [VERSION [ARCHITECTURE]]   the defaults are 2.28 and this machine's architecture
#
# CC compiles for the architecture (default: gcc). Exit code 3, and the reason, where zig cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:?the folder to make} in -h | --help) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
out=$1
version=${2:-2.28}
architecture=${3:-$(uname -m)}
zig=ziglang==0.17.1

mkdir -p "$out"
out=$(cd "$out" && pwd)
if [[ $(cat "$out/made" 2>/dev/null) == "$version $architecture $zig" ]]; then exit 0; fi
[[ -x $out/venv/bin/python ]] || python3 -m venv "$out/venv"
"$out/venv/bin/pip" install --quiet "$zig" >"$out/pip.log" 2>&1 ||
  { echo "skipped: $zig cannot be installed: $(grep . "$out/pip.log" | tail -1)" && exit 3; }

# zig makes the libraries while it links a program, and says where.
echo 'int main(void) { return 0; }' >"$out/main.c"
linked=$(ZIG_LOCAL_CACHE_DIR=$out/cache ZIG_GLOBAL_CACHE_DIR=$out/cache \
  "$out/venv/bin/python" -m ziglang cc -target "$architecture-linux-gnu.$version" -pie -fPIE -v -o "$out/main" "$out/main.c" -lm 2>&1 |
  grep -oE '[^ ]+/lib(c|m|dl|rt|pthread|ld)\.so\.[0-9]+|[^ ]+/(libc_nonshared\.a|Scrt1\.o)' | sort -u)
[[ $(wc -l <<<"$linked") == 8 ]] || { echo "glibc_stubs: zig linked other libraries than expected: $linked" >&2 && exit 1; }
for file in $linked; do cp "$file" "$out/"; done
"${CC:-gcc}" -O2 -fPIC -c -o "$out/compat.o" tools/glibc_stubs.c
rm -f "$out/libcompat.a"
ar rc "$out/libcompat.a" "$out/compat.o"

for name in m pthread dl rt; do ln -sf "$(basename "$out"/lib$name.so.*)" "$out/lib$name.so"; done
rest=("$out"/libpthread.so.0 "$out"/libdl.so.2 "$out"/librt.so.1 "$out"/libld.so.2)
echo "GROUP ( $out/libc.so.6 $out/libc_nonshared.a $out/libcompat.a AS_NEEDED ( ${rest[*]} ) )" >"$out/libc.so"
rm -rf "$out/cache" "$out/venv" "$out/main" "$out/main.c"  # zig is 400 MB
echo "$version $architecture $zig" >"$out/made"
