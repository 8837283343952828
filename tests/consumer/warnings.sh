#!/usr/bin/env bash
# Compiles the program that README quotes, with a user's warnings as errors: no header of ours may warn, and
# no use of them as we show it.
#   warnings.sh SOURCE_DIR
set -uo pipefail
cd "$1" || exit 2
includes=(-Iir/include -Icompiler/include -Iruntime/include -I.)
failed=0
for compiler in g++ clang++ clang++-19; do
  if ! command -v $compiler >/dev/null; then
    echo "skipped: there is no $compiler"
    continue
  fi
  for standard in c++20 c++23; do
    echo "$compiler -std=$standard"
    $compiler -std=$standard -Wall -Wextra -Wpedantic -Werror -fsyntax-only "${includes[@]}" \
      samples/embed/main.cpp || failed=1
  done
done
exit $failed
