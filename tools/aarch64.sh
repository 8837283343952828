#!/usr/bin/env bash
# Makes a folder that builds for AArch64 on an x86-64 machine with Debian, and runs what was built in an emulator. Knows
# Debian's cross compiler, qemu-user and tools/debian_files.sh.
#
#   tools/aarch64.sh DIR           DIR/toolchain.cmake for CMake, DIR/root with the AArch64 libraries and Python
#   tools/aarch64.sh DIR --check   installs nothing; exit code 3, and the reason, if something is missing
#
# `. DIR/environment` sets what the programs need that DIR builds or runs. The compiler and the emulator are installed
# with apt, as root (80 MB, unpacked 600 MB). DIR takes 500 MB. The kernel is told to start programs for AArch64 in the
# emulator, which lasts until the next boot.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:?the folder to make} in -h | --help) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
dir=$1
say() { echo "aarch64: $*"; }

packages=()
need() { command -v "$1" >/dev/null || packages+=("$2"); }
need aarch64-linux-gnu-g++-12 g++-12-aarch64-linux-gnu
need aarch64-linux-gnu-gcc-12 gcc-12-aarch64-linux-gnu
need qemu-aarch64-static qemu-user-static
if [[ ${2:-} == --check ]]; then
  ((${#packages[@]} == 0)) && exit 0
  echo "skipped: missing for AArch64: apt-get install ${packages[*]}"
  exit 3
fi
if ((${#packages[@]})); then
  ((EUID == 0)) && command -v apt-get >/dev/null ||
    { echo "skipped: missing for AArch64, and only root can install them: apt-get install ${packages[*]}" && exit 3; }
  sizes=$(LC_ALL=C apt-get -q --assume-no --no-install-recommends install "${packages[@]}" 2>/dev/null |
    grep -E '^(Need to get|After this operation)' || true)
  say "installing ${packages[*]} with apt. ${sizes//$'\n'/ }"
  DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${packages[@]}" >/dev/null ||
    { echo "skipped: apt-get could not install ${packages[*]}" && exit 3; }
fi

# LLVM's archives are taken without the programs and libraries that they depend on.
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
archives=(llvm-19-dev libzstd-dev zlib1g-dev)
python=(python3.11 python3.11-venv libstdc++6)  # PyTorch needs the last one
if [[ $(cat "$dir/made" 2>/dev/null) != "${archives[*]} ${python[*]}" ]]; then
  rm -rf "$dir/root"
  tools/debian_files.sh "$dir" arm64 "${archives[@]}"
  tools/debian_files.sh --with-dependencies "$dir" arm64 "${python[@]}"
  echo "${archives[*]} ${python[*]}" >"$dir/made"
fi

cat >"$dir/toolchain.cmake" <<EOF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L $dir/root)
EOF
cat >"$dir/environment" <<EOF
export STEPFUSE_AARCH64=$dir           # tools/static_llvm.sh and tools/wheel.sh then build for AArch64
export QEMU_LD_PREFIX=$dir/root        # where the emulator finds the loader and the libraries
EOF
# So that programs can start other programs. Debian's package does it where systemd runs.
runs() { QEMU_LD_PREFIX=$dir/root "$dir/root/usr/bin/python3.11" -c '' 2>/dev/null; }
if ! runs && ((EUID == 0)); then
  binfmt=/proc/sys/fs/binfmt_misc
  [[ -e $binfmt/register ]] || mount -t binfmt_misc none $binfmt
  cat /usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register
fi
runs || { echo "skipped: the kernel does not start programs for AArch64; binfmt_misc must know qemu-aarch64-static" && exit 3; }
say "ready: $dir"
