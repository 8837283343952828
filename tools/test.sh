#!/usr/bin/env bash
# Sets up, builds and tests everything, from a fresh clone on; the last line printed is the count.
#
#   tools/test.sh                 the usual run; lint covers what differs from the last release point
#   tools/test.sh --quick         without lint, and without tests that have the label slow
#   tools/test.sh --long          everything that there is: hours (CONTRIBUTING.md lists what it adds)
#   tools/test.sh --with-torch    with a PyTorch in build/torch and a JAX in build/jax to compare with
#   tools/test.sh --label=REGEX   only tests with such a label, and no other check
#   tools/test.sh --sanitize=KIND only the tests, built under a sanitizer in a folder of its own:
#                                 address, undefined, thread, or address,undefined in one
#   tools/test.sh --clang         with --sanitize: clang's sanitizers, not g++'s; they see other faults
#
# The summary has the time of each part and the ten slowest items; build/times.txt has all of them.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

usage() { sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

quick=0
long=0
with_torch=0
label=""
sanitize=""
clang=()
excluded=(--label-exclude '^long$')  # tests that only --long runs
for option in "$@"; do
  case $option in
    --quick) quick=1 excluded=(--label-exclude '^(long|slow)$') ;;
    --long) long=1 with_torch=1 excluded=() && export STEPFUSE_LONG=1 ;;
    --with-torch) with_torch=1 ;;
    --label=*)
      label=${option#*=}
      [[ $label == *long* ]] && excluded=()
      ;;
    --sanitize=address | --sanitize=undefined | --sanitize=thread | --sanitize=address,undefined)
      sanitize=${option#*=}
      ;;
    --clang) clang=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19) ;;
    -h | --help) usage && exit 0 ;;
    *) echo "test: unknown option $option" >&2 && usage >&2 && exit 2 ;;
  esac
done

checks=()  # what tools/test_summary.py adds up
started=$SECONDS
mkdir -p build

step() { printf '\n== %s (at %ds)\n' "$*" $((SECONDS - started)); }

note() {  # note NAME EXIT_CODE SECONDS: exit code 3 means that a check cannot run here
  local result=failed
  case $2 in
    0) result=passed ;;
    3) result=skipped ;;
  esac
  checks+=(--check "$1" "$result" "$3")
  [[ $result != failed ]]
}

# check NAME COMMAND...: runs it and notes how it went and how long it took.
check() {
  local name=$1 begin=$SECONDS
  shift
  "$@"
  note "$name" $? $((SECONDS - begin))
}

# in_background NAME COMMAND...: starts a check that needs one core. `gather` waits for all of these and notes how they
# went.
running=()
in_background() {
  local name=$1
  shift
  running+=("$name")
  (SECONDS=0 && "$@" &>"build/$name.log"; echo $? $SECONDS >"build/$name.result") &
}
gather() {
  local name status seconds
  wait
  for name in "${running[@]}"; do
    step "$name"
    cat "build/$name.log"
    read -r status seconds <"build/$name.result"
    note "$name" "$status" "$seconds"
  done
  running=()
}

finish() {
  local result budgets=()
  # A sanitizer and the long run have no budgets: they take what they take.
  if [[ -z $sanitize ]] && ((!long)); then budgets=(--budgets tests/seconds.txt); fi
  ((long)) && echo $((SECONDS - started)) >build/long.seconds
  step summary
  python3 tools/test_summary.py --times build/times.txt "${budgets[@]}" "${checks[@]}"
  result=$?
  exit $result
}

build() {  # build DIR CMAKE_OPTION...
  local folder=$1
  shift
  cmake -S . -B "$folder" -G Ninja "$@" >"$folder/configure.log" ||
    { cat "$folder/configure.log" && return 1; }
  ninja -C "$folder" -j "$(nproc)"
}

run_tests() {  # run_tests DIR CTEST_OPTION...
  local folder=$1
  shift
  # The summary counts test cases from what the tests print, so none of it may be cut.
  ctest --test-dir "$folder" --output-on-failure --output-junit tests.xml --timeout 3600 \
    --parallel "$(nproc)" --test-output-size-passed 10000000 --test-output-size-failed 10000000 \
    "${excluded[@]}" "$@"
  checks+=(--ctest "$folder" "$folder/tests.xml")
}

build_and_test() {  # build_and_test DIR "CMAKE_OPTIONS" CTEST_OPTION...
  local folder=$1 options begin
  read -ra options <<<"$2"
  shift 2
  mkdir -p "$folder"
  step "build $folder"
  check "build $folder" build "$folder" "${options[@]}" || return
  step "tests of $folder"
  begin=$SECONDS
  run_tests "$folder" "$@"
  checks+=(--part "all tests of $folder" $((SECONDS - begin)))
}

if ((long)); then
  if [[ -e build/long.seconds ]]; then
    echo "The last long run here took $(($(<build/long.seconds) / 60)) minutes."
  else
    echo "A long run takes several hours on two cores, one or two of them for the planted faults."
  fi
fi

test_sanitized() {  # test_sanitized KIND
  local all=("${excluded[@]}")
  # Executing kernels is the work of one thread, and under ThreadSanitizer it takes half an hour.
  [[ $1 == thread ]] && excluded+=(--exclude-regex '^ptx\.')
  build_and_test "build-${1/,/-}${clang:+-clang}" \
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTEPFUSE_SANITIZE=$1 ${clang[*]}" \
    ${label:+--label-regex "$label"}
  excluded=("${all[@]}")
}

step set-up
if ! bash tools/setup.sh --for=test; then
  echo "0 passed, 1 failed"
  exit 1
fi
checks+=(--part set-up $((SECONDS - started)))
# Python keeps what it compiles, even where the system tells it not to: otherwise each process that imports PyTorch
# compiles a thousand modules first, in two to six seconds.
export PYTHONDONTWRITEBYTECODE="" PYTHONPYCACHEPREFIX=$PWD/build/pycache
[[ -d build/nvrtc ]] && export STEPFUSE_NVRTC_DIR=$PWD/build/nvrtc  # for the other build folders too
command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache

torch_python="" jax_python=""  # of the system
if ((with_torch)); then
  # Installing mostly waits, so both run in the background, during the build.
  bash tools/torch_env.sh &>/dev/null &
  bash tools/jax_env.sh &>/dev/null &
fi
await_pythons() {
  ((with_torch)) || return 0
  step "PyTorch and JAX"
  wait
  check "PyTorch in build/torch" bash tools/torch_env.sh
  check "JAX in build/jax" bash tools/jax_env.sh
  [[ -x build/torch/bin/python ]] && torch_python=$PWD/build/torch/bin/python
  [[ -x build/jax/bin/python ]] && jax_python=$PWD/build/jax/bin/python
}

if [[ -n $sanitize ]]; then
  await_pythons
  test_sanitized "$sanitize"
  finish
fi
release="-DCMAKE_BUILD_TYPE=Release -DSTEPFUSE_UNITY=ON"
test_release() {  # test_release CTEST_OPTION...
  await_pythons
  # Old PyTorchs are needed after the tests.
  if ((with_torch)) && [[ -z $label ]]; then bash tools/torch_versions.sh --prepare &>/dev/null & fi
  build_and_test build "$release -DSTEPFUSE_TORCH_PYTHON=$torch_python -DSTEPFUSE_JAX_PYTHON=$jax_python" "$@"
}
if [[ -n $label ]]; then
  test_release --label-regex "$label"
  finish
fi

in_background layers python3 tools/check_layers.py
in_background layouts python3 tools/make_layouts.py --check
in_background mutations python3 tests/mutations/mutate.py --check
in_background format bash tools/format.sh --check
# A first build needs nothing of the two. A later one may include JAX's headers.
if ((with_torch)) && [[ ! -e build/CMakeCache.txt ]]; then
  step "build without stepfuse.jax"
  read -ra options <<<"$release"
  check build build build "${options[@]}" || finish
fi
test_release
gather
if ((with_torch)); then in_background "oldest and newest PyTorch" bash tools/torch_versions.sh; fi
if ((long)); then
  step "lint of the whole tree"
  check lint bash tools/lint.sh
  # The checks below find other faults than the full sets do. With those, they would take hours.
  unset STEPFUSE_LONG
  excluded=(--label-exclude '^long$')
  for kind in address,undefined thread; do test_sanitized "$kind"; done
  step "planted faults"
  check "planted faults" python3 tests/mutations/mutate.py --jobs 2
elif ((!quick)); then
  step lint
  check lint bash tools/lint.sh --changed
fi
gather
finish
