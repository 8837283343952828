#!/usr/bin/env bash
# Installs what the build needs and does not find; knows Debian's and Ubuntu's packages and PyPI's NVRTC.
#
#   tools/setup.sh [--for=build|test] [--build-dir=DIR] [--check]
#
# --for=build   compiler, ccache, libraries, NVRTC, headers of Python (what tools/demo.sh and pip need)
# --for=test    the same, clang-format and clang-tidy (the default)
# --check       install nothing, only say what is missing
#
# Without a CUDA toolkit, NVRTC is put into DIR/nvrtc, where what is built in DIR looks for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

purpose="test"
build_dir=build
check_only=0
for option in "$@"; do
  case $option in
    --for=build | --for=test) purpose=${option#*=} ;;
    --build-dir=*) build_dir=${option#*=} ;;
    --check) check_only=1 ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) echo "setup: unknown option $option (see --help)" >&2 && exit 2 ;;
  esac
done

# The versions that the tests were written against; one line is a wheel for x86_64 and one for aarch64.
nvrtc="nvidia-cuda-nvrtc==13.0.88
  --hash=sha256:ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575
  --hash=sha256:d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b"
cuda_header="nvidia-cuda-runtime==13.0.96
  --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
  --hash=sha256:ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55"
nvdisasm="nvidia-cuda-nvdisasm==13.2.78
  --hash=sha256:b4ebcd3c5046bf8039ac52675b9dbefd843600969649ecaab0a42b0713a61dae
  --hash=sha256:c338282695eca43de237929c5e3963d8d04f61d578d40f01bd04aca2bc29c233"
llvm_versions=(19 20 21)  # in order of preference; 19 is the oldest that works

say() { echo "setup: $*"; }
have() { command -v "$1" >/dev/null 2>&1; }

# ---- what is there -------------------------------------------------------------------------

have_header() {
  [[ -e /usr/include/$1 || -e /usr/local/include/$1 ]] && return
  have g++ && echo "#include <$1>" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1
}

have_cxx() { have g++ && (($(g++ -dumpversion | cut -d. -f1) >= 12)); }

# CMake 3.25 is the first with presets of version 6 and is what Debian 12 has.
have_cmake() {
  have cmake && [[ $(printf '%s\n' 3.25 "$(cmake --version | awk 'NR==1{print $3}')" | sort -V | head -1) == 3.25 ]]
}

have_python() { have python3 && python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'; }

have_python_headers() {
  have python3 && [[ -e $(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]]
}

have_venv() { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }

have_llvm() {
  local version
  for version in "${llvm_versions[@]}"; do
    [[ -e /usr/lib/llvm-$version/include/llvm-c/Core.h ]] && have "llvm-config-$version" && return
  done
  have llvm-config && (($(llvm-config --version | cut -d. -f1) >= llvm_versions[0])) &&
    [[ -e $(llvm-config --includedir)/llvm-c/Core.h ]]
}

have_archive() { [[ -e $("${CXX:-g++}" -print-file-name="$1") ]]; }
have_clang_sanitizers() { have clang++-19 && [[ -e $(clang++-19 -print-resource-dir)/lib/linux/libclang_rt.asan-$(uname -m).a ]]; }
have_browser() { have chromium-headless-shell || have chromium || have google-chrome; }

# Prints the folder that holds libnvrtc.so.13 or .12, or "loader" where the dynamic loader knows it.
find_nvrtc() {
  local folder library
  for folder in "${STEPFUSE_NVRTC_DIR:-}" "$build_dir/nvrtc" "${CUDA_HOME:+$CUDA_HOME/lib64}" \
    "${CUDA_PATH:+$CUDA_PATH/lib64}" /usr/local/cuda/lib64 /usr/local/cuda-*/lib64; do
    for library in "$folder"/libnvrtc.so.1[23]; do
      [[ -n $folder && -e $library ]] && (cd "$folder" && pwd) && return
    done
  done
  local ldconfig=ldconfig
  have ldconfig || ldconfig=/sbin/ldconfig
  local known
  known=$("$ldconfig" -p 2>/dev/null) # whole first: a pipe that grep -q leaves early has failed
  [[ $known == *libnvrtc.so.1[23]* ]] && echo loader
}

# ---- what is missing -----------------------------------------------------------------------

missing=()   # what, in words
packages=()  # and the package that brings it
required=0   # how many of them nothing works without

look_for() {  # look_for PACKAGE WORDS TEST...
  local package=$1 words=$2
  shift 2
  "$@" && return
  missing+=("$words")
  packages+=("$package")
  return 1
}

need() { look_for "$@" || required=$((required + 1)); }
wish() { look_for "$@" || true; }

# The first llvm-<version>-dev that apt knows; the preferred one where it knows none.
llvm_package() {
  local version
  for version in "${llvm_versions[@]}"; do
    apt-cache show "llvm-$version-dev" >/dev/null 2>&1 && echo "llvm-$version-dev" && return
  done
  echo "llvm-${llvm_versions[0]}-dev"
}

find_missing() {
  missing=()
  packages=()
  required=0
  need g++ "g++ 12 or newer" have_cxx
  need cmake "cmake 3.25 or newer" have_cmake
  need ninja-build "ninja" have ninja
  need libfmt-dev "the fmt library (fmt/core.h)" have_header fmt/core.h
  need libtbb-dev "oneTBB (oneapi/tbb/parallel_for.h)" have_header oneapi/tbb/parallel_for.h
  need libcli11-dev "CLI11 (CLI/CLI.hpp)" have_header CLI/CLI.hpp
  need nlohmann-json3-dev "nlohmann-json (nlohmann/json.hpp)" have_header nlohmann/json.hpp
  need libxxhash-dev "xxHash (xxhash.h)" have_header xxhash.h
  need doctest-dev "doctest (doctest/doctest.h)" have_header doctest/doctest.h
  need python3 "python3 3.9 or newer" have_python
  need "$(llvm_package)" "LLVM ${llvm_versions[0]} or newer with its C headers" have_llvm
  # Both scripts build with it, or the second one would compile everything again.
  wish ccache "ccache (the tests build the library more than once)" have ccache
  wish python3-dev "Python's headers (python3-dev: the Python package)" have_python_headers
  wish python3-venv "venv (python3-venv: an environment for the Python package)" have_venv
  if [[ $purpose == test ]]; then
    wish libmpich-dev "MPI (libmpich-dev: the sample ranks)" have mpicxx
    wish mpich "mpirun (mpich: the tests of that sample)" have mpirun
    # Other versions format differently, so this one is asked for by number.
    wish clang-format-19 "clang-format-19" have clang-format-19
    wish clang-tidy-19 "clang-tidy-19 (with run-clang-tidy-19)" have run-clang-tidy-19
    wish clang-19 "clang-19 (its sanitizers: tools/test.sh --sanitize=address --clang)" have clang++-19
    wish libclang-rt-19-dev "the run-time libraries of clang-19's sanitizers" have_clang_sanitizers
    wish chromium-headless-shell "Chromium (chromium-headless-shell: the tests of stepfuse explore)" have_browser
    wish libzstd-dev "libzstd.a (libzstd-dev: the wheel's own LLVM)" have_archive libzstd.a
    wish zlib1g-dev "libz.a (zlib1g-dev: likewise)" have_archive libz.a
  fi
  if [[ -z $(find_nvrtc) ]] && ! python3 -m pip --version >/dev/null 2>&1; then
    wish python3-pip "pip (only to fetch NVRTC)" false
  fi
}

# ---- installing ----------------------------------------------------------------------------

# Sets `as_root` to the words that run a command as root; fails where nothing can.
find_root() {
  as_root=()
  ((EUID == 0)) && return
  have sudo || return 1
  as_root=(sudo)
  [[ -t 0 && -t 1 ]] || as_root=(sudo -n)  # nobody is there to type a password
  sudo -n true 2>/dev/null || [[ -t 0 && -t 1 ]]
}

# Says what is missing and ends, unless nothing of it is required: then the checks that want it are
# skipped.
give_up() {
  {
    echo "setup: $1. Missing:"
    printf '  - %s\n' "${missing[@]}"
    echo "On Debian 12 or Ubuntu 24.04 this brings them:"
    echo "  sudo apt-get install -y ${packages[*]}"
  } >&2
  ((required == 0)) && say "continuing without them" && return
  echo "Then run this command again." >&2
  exit 1
}

install_missing() {
  local package apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a apt-get -q)
  local install=("${apt[@]}" install -y --no-install-recommends)
  say "this installs with apt${as_root:+, by sudo}: ${packages[*]}"
  [[ -n $(find_nvrtc) ]] || say "and takes NVRTC from PyPI into $build_dir/nvrtc (90 MB)"
  "${apt[@]}" update || say "apt-get update failed; continuing with the old package list"
  find_missing  # a fresh list may know another LLVM
  local sizes
  sizes=$(LC_ALL=C apt-get -q --assume-no --no-install-recommends install "${packages[@]}" 2>/dev/null |
    grep -E '^(Need to get|After this operation)' || true)
  say "installing ${packages[*]}"
  [[ -z $sizes ]] || say "apt says: ${sizes//$'\n'/ }"
  "${install[@]}" "${packages[@]}" && return
  for package in "${packages[@]}"; do  # apt takes all or nothing, and one unknown name spoils the rest
    "${install[@]}" "$package" || say "apt-get could not install $package"
  done
}

# Debian's python3 may come without ensurepip, a foreign one without pip: try both ways.
pip_download() {
  python3 -m pip --version >/dev/null 2>&1 && python3 -m pip download "$@" && return
  say "pip failed; trying once more from a fresh virtual environment"
  python3 -m venv "$build_dir/nvrtc.venv" && "$build_dir/nvrtc.venv/bin/python" -m pip download "$@"
}

# fetch_wheel REQUIREMENT NAME: what is wanted of a PyPI wheel, which has one of the hashes, in a folder of that
# name; whole or not at all.
fetch_wheel() {
  local target=$build_dir/$2 work=$build_dir/$2.partial result=1
  rm -rf "$work"
  mkdir -p "$work"
  tr '\n' ' ' <<<"$1" >"$work/requirement.txt"
  if pip_download --quiet --no-deps --only-binary :all: --dest "$work" --require-hashes -r "$work/requirement.txt" &&
    python3 tools/unpack_nvrtc.py "$work"/*.whl "$work/unpacked"; then
    rm -rf "$target"
    mv "$work/unpacked" "$target"
    result=0
  fi
  rm -rf "$work" "$build_dir/nvrtc.venv"
  return $result
}

# Without NVRTC everything but the tests of CUDA text works.
fetch_nvrtc() {
  say "no CUDA toolkit found: taking ${nvrtc%%$'\n'*} from PyPI (90 MB)"
  fetch_wheel "$nvrtc" nvrtc ||
    say "warning: NVRTC could not be fetched; PTX, cubins and the tests of both will be skipped" >&2
}

# The driver's header: the tests compare with it what we declare.
fetch_cuda_header() {
  fetch_wheel "$cuda_header" cuda_header ||
    say "warning: cuda.h could not be fetched; the test of what we declare of it will be skipped" >&2
}

# The disassembler: the tests count instructions in what it prints.
fetch_nvdisasm() {
  fetch_wheel "$nvdisasm" nvdisasm ||
    say "warning: nvdisasm could not be fetched; the tests of machine code will be skipped" >&2
}

# ---- the run -------------------------------------------------------------------------------

find_missing
if ((${#missing[@]})); then
  if ((check_only)); then
    required=1 give_up "--check given, so nothing is installed"
  elif ! have apt-get; then
    give_up "there is no apt-get here"
  elif ! find_root; then
    give_up "installing needs root, and sudo cannot be used here"
  else
    install_missing
    find_missing
    ((${#missing[@]} == 0)) || give_up "after the installation something is still not found"
  fi
fi
((check_only)) && say "nothing is missing" && exit 0

mkdir -p "$build_dir"
[[ -n $(find_nvrtc) ]] || fetch_nvrtc
if [[ $purpose == test && ! -e $build_dir/cuda_header/cuda.h ]]; then fetch_cuda_header; fi
if [[ $purpose == test ]] && ! have nvdisasm && [[ ! -e $build_dir/nvdisasm/nvdisasm ]]; then fetch_nvdisasm; fi
found=$(find_nvrtc || true)
say "ready (NVRTC: ${found:-not found})"
