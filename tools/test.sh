#!/usr/bin/env bash
# Sets up, builds and tests everything, from a fresh clone on; the last line printed is the count.
#
#   tools/test.sh                 all of it, in about half an hour on two cores
#   tools/test.sh --quick         without lint
#   tools/test.sh --long          with every pair of options, every float, twice the random programs,
#                                 and lint of the tests
#   tools/test.sh --with-torch    with a PyTorch of its own in build/torch to compare with
#   tools/test.sh --label=REGEX   only tests with such a label, and no other check
#   tools/test.sh --sanitize=KIND only the tests, built under a sanitizer in a folder of its own:
#                                 address, undefined, thread, or address,undefined in one
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

quick=0
with_torch=0
label=""
sanitize=""
excluded=()
linted=()
for option in "$@"; do
  case $option in
    --quick) quick=1 ;;
    --long) export STEPFUSE_LONG=1 && linted=(--tests) ;;
    --with-torch) with_torch=1 ;;
    --label=*) label=${option#*=} ;;
    --sanitize=address | --sanitize=undefined | --sanitize=thread | --sanitize=address,undefined)
      sanitize=${option#*=}
      ;;
    *) sed -n '4,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done

checks=()  # what tools/test_summary.py adds up
started=$SECONDS

step() { printf '\n== %s (at %ds)\n' "$*" $((SECONDS - started)); }

# check NAME COMMAND...: runs it and notes how it went; exit code 3 means that it cannot run here.
check() {
  local name=$1 result=failed
  shift
  "$@"
  case $? in
    0) result=passed ;;
    3) result=skipped ;;
  esac
  checks+=(--check "$name" "$result")
  [[ $result != failed ]]
}

finish() {
  step summary
  python3 tools/test_summary.py "${checks[@]}"
  exit
}

build() {  # build DIR CMAKE_OPTION...
  local folder=$1
  shift
  cmake -S . -B "$folder" -G Ninja "$@" >"$folder/configure.log" ||
    { cat "$folder/configure.log" && return 1; }
  ninja -C "$folder" --quiet -j "$(nproc)"
}

run_tests() {  # run_tests DIR CTEST_OPTION...
  local folder=$1
  shift
  # The summary counts test cases from what the tests print, so none of it may be cut.
  ctest --test-dir "$folder" --output-on-failure --output-junit tests.xml --timeout 1800 \
    --parallel "$(nproc)" --test-output-size-passed 10000000 --test-output-size-failed 10000000 \
    "${excluded[@]}" "$@"
  checks+=(--ctest "$folder" "$folder/tests.xml")
}

build_and_test() {  # build_and_test DIR "CMAKE_OPTIONS" CTEST_OPTION...
  local folder=$1 options
  read -ra options <<<"$2"
  shift 2
  mkdir -p "$folder"
  step "build $folder"
  check "build $folder" build "$folder" "${options[@]}" || return
  step "tests of $folder"
  run_tests "$folder" "$@"
}

step set-up
if ! bash tools/setup.sh --for=test; then
  echo "0 passed, 1 failed"
  exit 1
fi
[[ -d build/nvrtc ]] && export STEPFUSE_NVRTC_DIR=$PWD/build/nvrtc  # for the other build folders too
command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache

torch_python=""  # of the system
if ((with_torch)); then
  step "PyTorch"
  check "PyTorch in build/torch" bash tools/torch_env.sh
  [[ -x build/torch/bin/python ]] && torch_python=$PWD/build/torch/bin/python
fi

if [[ -n $sanitize ]]; then
  # Executing kernels is the work of one thread, and under ThreadSanitizer it takes half an hour.
  [[ $sanitize == thread ]] && excluded=(--exclude-regex '^ptx$')
  build_and_test "build-${sanitize/,/-}" \
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTEPFUSE_SANITIZE=$sanitize" \
    ${label:+--label-regex "$label"}
  finish
fi
release="-DCMAKE_BUILD_TYPE=Release -DSTEPFUSE_TORCH_PYTHON=$torch_python"
if [[ -n $label ]]; then
  build_and_test build "$release" --label-regex "$label"
  finish
fi

step "layers, sizes, opening sentences"
check layers python3 tools/check_layers.py
check layouts python3 tools/make_layouts.py --check
check mutations python3 tests/mutations/mutate.py --check
step format
check format bash tools/format.sh --check
build_and_test build "$release"
if ((with_torch)); then
  step "the oldest and the newest PyTorch"
  check "oldest and newest PyTorch" bash tools/torch_versions.sh
fi
if ((!quick)); then
  step lint
  check lint bash tools/lint.sh "${linted[@]}"
fi
finish
