#!/usr/bin/env bash
# Runs clang-tidy-19 with the checks of .clang-tidy over the sources that a configured build compiles.
#
#   tools/lint.sh [--build-dir=DIR] [--changed[=REF]]
#
# --changed   only what differs from REF (default main), for a quick look before a commit; a changed
#             header is linted through the sources that differ too, so CI runs over all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_dir=build
changed=""
for option in "$@"; do
  case $option in
    --build-dir=*) build_dir=${option#*=} ;;
    --changed) changed=main ;;
    --changed=*) changed=${option#*=} ;;
    *) sed -n '4,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done

if ! command -v clang-tidy-19 >/dev/null; then
  echo "lint: clang-tidy-19 is not installed; tools/setup.sh installs it" >&2
  exit 3
fi
if [[ ! -e $build_dir/compile_commands.json ]]; then
  echo "lint: no $build_dir/compile_commands.json; configure first: cmake --preset release" >&2
  exit 2
fi

files=()  # all
if [[ -n $changed ]]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$changed" -- '*.cpp')
  ((${#files[@]})) || { echo "lint: no source differs from $changed" && exit 0; }
fi
python3 tools/lint_groups.py "$build_dir" "${files[@]}"
