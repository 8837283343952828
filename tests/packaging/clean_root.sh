#!/usr/bin/env bash
# Tries each way of installing stepfuse as a new user would, in a fresh Debian 12 root per way, and prints how long each
# took. Knows debootstrap, chroot and apt.
#
#   clean_root.sh SOURCE_DIR WORK_DIR [WAY...]
#
#   deb          the Debian package DEB: the tool, and C99 and C++20 programs by pkg-config (shared, --static) and CMake
#   wheel        the wheel WHEEL on a machine without LLVM and without a compiler
#   install      cmake --install, then find_package and pkg-config, shared and --static
#   subdirectory add_subdirectory
#   clone        pip install of a clone
#
# DEB and WHEEL name the files; without them their ways are left out. The programs are compiled with -Wall -Wextra
# -Wconversion -Wshadow -Werror. Takes 10 minutes to an hour, downloads up to 1 GB of Debian's packages per way, needs
# root, and 3 GB in WORK_DIR. PIP_CERT is pip's file of certificates inside, too. Exit code 3, and the reason, if a tool
# or a right is missing.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
source=$(cd "${1:?the source folder}" && pwd)
mkdir -p "${2:?a folder to work in}"
work=$(cd "$2" && pwd)
shift 2
ways=("$@")
((${#ways[@]})) || ways=(${DEB:+deb} ${WHEEL:+wheel} install subdirectory clone)
command -v debootstrap >/dev/null || { echo "skipped: no debootstrap (apt-get install debootstrap)" && exit 3; }
((EUID == 0)) || { echo "skipped: debootstrap and chroot need root" && exit 3; }
say() { echo "clean_root, $((SECONDS / 60)) min $((SECONDS % 60)) s: $*"; }

plain=$work/plain
if [[ ! -e $plain/made ]]; then
  say "making a root with debootstrap (60 MB are downloaded)"
  rm -rf "$plain"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$plain" >"$work/debootstrap.log" ||
    { tail -5 "$work/debootstrap.log" && exit 1; }
  touch "$plain/made"
fi
root=$work/root
trap 'rm -rf "$root"' EXIT

fresh() {
  rm -rf "$root"
  cp -a "$plain" "$root"
  git -C "$source" archive --prefix=stepfuse/ HEAD | tar -x -C "$root/root"
  inside 'git --version' >/dev/null 2>&1 && exit 1  # the root is the small one
  [[ -z ${PIP_CERT:-} ]] || cp "$PIP_CERT" "$root/root/pip.crt"
  inside 'apt-get -q update'
}
# A command in the root, as root, with mounts that end with it.
inside() {
  PIP_CERT=${PIP_CERT:-} unshare --mount bash -c 'mount --make-rprivate / && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
    exec chroot "$0" env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      ${PIP_CERT:+PIP_CERT=/root/pip.crt} \
      bash -euo pipefail -c "cd; $1"' "$root" "$1" >>"$work/log" 2>&1
}
install='apt-get -q install -y --no-install-recommends'
table=()
# Times one step of a way; a step that fails ends everything, with the end of its output.
step() {
  local began=$SECONDS
  say "$1: $2"
  inside "$3" || { tail -30 "$work/log" && echo "clean_root: $1: '$2' failed; $work/log has the rest" >&2 && exit 1; }
  table+=("$1|$2|$((SECONDS - began))")
}

strict='-Wall -Wextra -Wconversion -Wshadow -Werror'
consumer='stepfuse/tests/consumer'
# Both programs, against the shared and the static library, by pkg-config and by CMake.
use_library() {
  local way=$1
  step "$way" 'pkg-config, shared' "gcc -std=c99 $strict $consumer/main.c \$(pkg-config --cflags --libs stepfuse) -o main_c
    g++ -std=c++20 $strict $consumer/main.cpp \$(pkg-config --cflags --libs stepfuse) -o cpp; ldconfig; ./main_c && ./cpp && [[ \$(ldd main_c) == *libstepfuse* ]]"
  step "$way" 'pkg-config, --static' "gcc -std=c99 $strict $consumer/main.c \$(pkg-config --static --cflags --libs stepfuse) -o main_c
    g++ -std=c++20 $strict $consumer/main.cpp \$(pkg-config --static --cflags --libs stepfuse) -o cpp; ./main_c && ./cpp && [[ \$(ldd main_c) != *libstepfuse* ]]"
  step "$way" 'find_package' "for project in c find_package; do
    cmake -S $consumer/\$project -B \$project -G Ninja -DCMAKE_C_FLAGS='$strict' -DCMAKE_CXX_FLAGS='$strict'; cmake --build \$project; \$project/consumer; done
    cmake -S $consumer/find_package -B static -G Ninja -DKIND=static -DCMAKE_CXX_FLAGS='$strict'; cmake --build static; static/consumer"
}

: >"$work/log"
for way in "${ways[@]}"; do
  fresh
  case $way in
    deb)
      cp "${DEB:?the Debian package}" "$root/root/stepfuse.deb"
      step deb 'apt-get install ./stepfuse.deb' "apt-get -q install -y ./stepfuse.deb"  # with what it recommends
      step deb 'stepfuse --version, selftest' 'stepfuse --version && stepfuse selftest && stepfuse run adamw --clip --digest --params 1000'
      step deb 'compilers' "$install g++ cmake ninja-build pkg-config libfmt-dev libtbb-dev"
      use_library deb
      ;;
    wheel)
      cp "${WHEEL:?the wheel}" "$root/root/"
      step wheel 'Python' "$install python3-venv"
      step wheel 'pip install of the wheel' "python3 -m venv env && env/bin/pip install ./$(basename "$WHEEL")"
      step wheel 'self-test, tool' "! ls /usr/lib/*/libLLVM* && ! command -v gcc &&
        env/bin/python -m stepfuse.selftest && env/bin/stepfuse --version && env/bin/stepfuse run adamw --clip --digest --params 1000"
      ;;
    install)
      step install 'tools/setup.sh --for=build' 'cd stepfuse && tools/setup.sh --for=build'
      step install 'build and cmake --install' "cd stepfuse && cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTEPFUSE_TESTS=OFF \
        -DSTEPFUSE_SAMPLES=OFF && cmake --build build && cmake --install build"
      step install 'stepfuse --version, selftest' 'ldconfig && stepfuse --version && stepfuse selftest'
      step install 'pkg-config itself' "$install pkg-config"
      use_library install
      ;;
    subdirectory)
      step subdirectory 'tools/setup.sh --for=build' 'cd stepfuse && tools/setup.sh --for=build'
      step subdirectory 'build and run' "cmake -S $consumer/add_subdirectory -B out -G Ninja -DCMAKE_BUILD_TYPE=Release &&
        cmake --build out && out/consumer"
      ;;
    clone)
      step clone 'tools/setup.sh --for=build' 'cd stepfuse && tools/setup.sh --for=build'
      step clone 'pip install .' 'python3 -m venv env && cd stepfuse && ../env/bin/pip install .'
      step clone 'self-test, tool' 'env/bin/python -m stepfuse.selftest && env/bin/stepfuse --version'
      ;;
    *) echo "clean_root: unknown way $way (see --help)" >&2 && exit 2 ;;
  esac
done
printf '\n%-14s %-32s %8s\n' way step seconds
for row in "${table[@]}"; do
  IFS='|' read -r way what seconds <<<"$row"
  printf '%-14s %-32s %8s\n' "$way" "$what" "$seconds"
done
