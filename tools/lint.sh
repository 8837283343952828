#!/usr/bin/env bash
# Runs clang-tidy-19 with the checks of .clang-tidy over the sources that a configured build compiles.
#
#   tools/lint.sh [--build-dir=DIR] [--tests] [--changed[=REF]]
#
# --tests     tests as well, which take more than half as long again as everything else
# --changed   only what differs from REF (default main), tests or not, for a quick look before a
#             commit; a changed header is linted through the sources that differ too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_dir=build
changed=""
folders="ir|compiler|runtime|tools|samples"
for option in "$@"; do
  case $option in
    --build-dir=*) build_dir=${option#*=} ;;
    --tests) folders+="|tests" ;;
    --changed) changed=main ;;
    --changed=*) changed=${option#*=} ;;
    *) sed -n '4,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done

if ! command -v run-clang-tidy-19 >/dev/null; then
  echo "lint: clang-tidy-19 is not installed; tools/setup.sh installs it" >&2
  exit 3
fi
if [[ ! -e $build_dir/compile_commands.json ]]; then
  echo "lint: no $build_dir/compile_commands.json; configure first: cmake --preset release" >&2
  exit 2
fi

files=("$PWD/($folders)/.*\.cpp$")
if [[ -n $changed ]]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$changed" -- '*.cpp' | sed "s|.*|$PWD/&$|")
  ((${#files[@]})) || { echo "lint: no source differs from $changed" && exit 0; }
fi

log=$build_dir/lint.log
# The compile commands are g++'s: clang knows other warnings, which are not what lint is for.
if ! run-clang-tidy-19 -p "$build_dir" -j "$(nproc)" -quiet \
  -extra-arg=-w "${files[@]}" >"$log" 2>&1; then
  grep -E '(warning|error):' "$log" | sort -u || cat "$log"
  echo "lint: faults above; the whole log is $log" >&2
  exit 1
fi
