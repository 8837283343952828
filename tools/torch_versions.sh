#!/usr/bin/env bash
# Tries the Python package in the oldest PyTorch that docs/install.md promises, and in the newest; knows pip and pytest.
#
#   tools/torch_versions.sh [BUILD_DIR]    the package is BUILD_DIR/python (default build); PyTorchs go to BUILD_DIR
#   tools/torch_versions.sh --prepare      only installs the PyTorchs in build
#
# For each PyTorch it runs the import, the self-test, and the tests of the optimizers: bits, hooks, state dicts. If a
# PyTorch cannot be installed, it prints the reason and exits with 3. It loads about a gigabyte and takes a minute or
# two the first time.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

prepare=0
[[ ${1:-} == --prepare ]] && prepare=1 && shift
build=${1:-build}
oldest=2.4.1
newest=2.15.0
tests=(tests/python/test_process.py::test_selftest_compiles_though_the_cache_has_the_kernel tests/python/test_optimizers.py)
result=0
for version in $oldest $newest; do
  echo "PyTorch $version"
  tools/torch_env.sh "$build/torch-$version" "$version"
  status=$?
  if ((status == 0 && !prepare)); then
    PYTHONPATH=$PWD/$build/python "$build/torch-$version/bin/python" tests/python/run.py "${tests[@]}"
    status=$?
  fi
  # A failure is more than what could not be tried.
  if ((status != 0 && (status != 3 || result == 0))); then result=$status; fi
done
exit $result
