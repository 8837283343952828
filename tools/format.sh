#!/usr/bin/env bash
# Formats the C++ sources with clang-format-19, or only says which are not formatted (--check).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(-i)
case ${1:-} in
  "") ;;
  --check) mode=(--dry-run --Werror) ;;
  *) echo "usage: tools/format.sh [--check]" >&2 && exit 2 ;;
esac

# Other versions format some lines differently, so there is no falling back to one.
if ! command -v clang-format-19 >/dev/null; then
  echo "format: clang-format-19 is not installed; tools/setup.sh installs it" >&2
  exit 3
fi

mapfile -d '' -t files < <(
  find ir compiler runtime python tools samples tests \
    \( -name '*.cpp' -o -name '*.hpp' -o -name '*.c' -o -name '*.h' -o -name '*.cuh' \) -print0 2>/dev/null | sort -z
)
((${#files[@]})) || exit 0
if ! clang-format-19 "${mode[@]}" "${files[@]}"; then
  echo "format: run tools/format.sh and commit what it changes" >&2
  exit 1
fi
