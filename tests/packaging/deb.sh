#!/usr/bin/env bash
# Makes the Debian package, unpacks it into an empty folder, and uses what is there. Knows cpack and dpkg-deb.
#   deb.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
work=$build/deb
fail() { echo "deb: $*" >&2 && exit 1; }
for tool in dpkg-deb dpkg-shlibdeps pkg-config; do
  command -v $tool >/dev/null || { echo "skipped: no $tool" && exit 3; }
done
rm -rf "$work"
mkdir -p "$work/root"
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work" >"$work/cpack.log" || { cat "$work/cpack.log" && exit 1; }
package=$(echo "$work"/stepfuse_*.deb)
[[ $(basename "$package") == stepfuse_$(sed -n 's/^project(stepfuse VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")_*.deb ]] ||
  fail "$package has a different version than CMakeLists.txt"
depends=$(dpkg-deb -f "$package" Depends)
for name in libc6 libfmt libtbb libstdc++6; do [[ $depends == *$name* ]] || fail "it does not depend on $name: $depends"; done
[[ $(dpkg-deb -f "$package" Recommends) == *libllvm19* ]] || fail "it does not recommend LLVM"

dpkg-deb -x "$package" "$work/root"
cd "$work/root/usr"
for file in bin/stepfuse include/stepfuse/stepfuse.hpp include/stepfuse/stepfuse.h share/man/man1/stepfuse-run.1 \
  share/doc/stepfuse/copyright share/doc/stepfuse/README.md share/doc/stepfuse/docs/install.md share/doc/stepfuse/samples/embed/main.cpp; do
  [[ -s $file ]] || fail "$file is missing"
done
[[ $(ls "$work/root") == usr ]] || fail "files outside of /usr: $(ls "$work/root")"
[[ $(readelf -S bin/stepfuse) != *.debug_info* ]] || fail "the tool has debug information"
bin/stepfuse --version

PKG_CONFIG_PATH=$(dirname "$(find . -name stepfuse.pc)")
export PKG_CONFIG_PATH
read -ra shared < <(pkg-config --cflags --libs stepfuse)
gcc -std=c99 "$source/tests/consumer/main.c" "${shared[@]}" -Wl,-rpath,"$(pkg-config --variable=libdir stepfuse)" -o "$work/shared"
"$work/shared"
read -ra static < <(pkg-config --static --cflags --libs stepfuse)
gcc -std=c99 "$source/tests/consumer/main.c" "${static[@]}" -o "$work/static"
"$work/static"
