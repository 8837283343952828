#!/usr/bin/env bash
# Runs clang-tidy-19 with the checks of .clang-tidy over the sources that a configured build compiles.
#
#   tools/lint.sh [--build-dir=DIR] [--changed[=REF]]
#
# --changed   only what differs from REF, for a quick look before a commit; a changed header is linted through
#             the sources that differ too. REF is by itself the newest tag below HEAD, else the point where HEAD
#             left main, else the commit before HEAD.
#
# DIR (build) needs no build: lint configures a folder of its own, DIR/lint.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_dir=build
changed=0
base=""
for option in "$@"; do
  case $option in
    --build-dir=*) build_dir=${option#*=} ;;
    --changed) changed=1 ;;
    --changed=*) changed=1 base=${option#*=} ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    *) echo "lint: unknown option $option (see --help)" >&2 && exit 2 ;;
  esac
done

if ! command -v run-clang-tidy-19 >/dev/null; then
  echo "lint: clang-tidy-19 is not installed; tools/setup.sh installs it" >&2
  exit 3
fi

# Prints the commit from which this work started, or nothing if there is no such commit.
find_base() {
  local main found head
  head=$(git rev-parse HEAD)
  git describe --tags --abbrev=0 HEAD^ 2>/dev/null && return
  for main in origin/main main; do
    found=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    [[ $found != "$head" ]] && echo "$found" && return
  done
  git rev-parse --quiet --verify HEAD^ || true
}

if ((changed)) && [[ -z $base ]]; then base=$(find_base); fi
if [[ -n $base ]]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- '*.cpp' | sed "s|.*|$PWD/&$|")
  echo "lint: what differs from $(git rev-parse --short "$base"): ${#files[@]} sources"
  ((${#files[@]})) || exit 0
else
  files=("$PWD/(ir|compiler|runtime|tools|samples|tests)/.*\.cpp$")
fi

# Only for the compile commands, without precompiled headers: those are g++'s, and clang cannot read them.
commands=$build_dir/lint
mkdir -p "$commands"
env -u CMAKE_CXX_COMPILER_LAUNCHER cmake -S . -B "$commands" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DSTEPFUSE_PCH=OFF >/dev/null

log=$build_dir/lint.log
# The compile commands are g++'s: clang knows other warnings, which are not what lint is for.
if ! run-clang-tidy-19 -p "$commands" -j "$(nproc)" -quiet \
  -extra-arg=-w "${files[@]}" >"$log" 2>&1; then
  grep -E '(warning|error):' "$log" | sort -u || cat "$log"
  echo "lint: faults above; the whole log is $log" >&2
  exit 1
fi
