#!/usr/bin/env bash
# Runs random programs against passes and kernels, and every fuzzer of tests/fuzz, in blocks of seeds. The default is a
# million seeds. It stops at the first fault, and continues there when called again.
#
#   tools/fuzz.sh                        seeds 1 … 1,000,000
#   tools/fuzz.sh --first=N --count=N    other seeds
#   tools/fuzz.sh --block=N              seeds per process (default 2000)
#   tools/fuzz.sh --only=PATTERN         only such test cases, as in --only='fuzz: ELF*'
#   tools/fuzz.sh --list                 what there is
#   tools/fuzz.sh --build=DIR            the build folder (default build)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

first=1
count=1000000
block=2000
build=build
only='random programs*,fuzz:*'
list=0
for argument in "$@"; do
  case "$argument" in
    --first=*) first="${argument#*=}" ;;
    --count=*) count="${argument#*=}" ;;
    --block=*) block="${argument#*=}" ;;
    --only=*) only="${argument#*=}" ;;
    --build=*) build="${argument#*=}" ;;
    --list) list=1 ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "tools/fuzz.sh: unknown argument '$argument'; see tools/fuzz.sh --help" >&2; exit 2 ;;
  esac
done

binaries=("$build/bin/differential_test" "$build/bin/fuzz_test")
for binary in "${binaries[@]}"; do
  if [[ ! -x "$binary" ]]; then
    echo "tools/fuzz.sh: $binary is missing; build it first: cmake --build $build --target $(basename "$binary")" >&2
    exit 2
  fi
done
if ((list)); then
  for binary in "${binaries[@]}"; do "$binary" --list-test-cases -tc="$only" | grep -v doctest; done
  exit
fi

mkdir -p "$build/fuzz"
export STEPFUSE_CACHE=off
# The next seed of this range of these cases.
progress="$build/fuzz/done_${first}_${count}_$(cksum <<<"$only" | cut -d' ' -f1)"
seed="$first"
[[ -f "$progress" ]] && seed="$(cat "$progress")"
last=$((first + count))
[[ "$seed" -gt "$first" ]] && echo "continuing at seed $seed (delete $progress to start again)"

begin="$(date +%s)"
started="$seed"
while [[ "$seed" -lt "$last" ]]; do
  n=$((last - seed < block ? last - seed : block))
  for binary in "${binaries[@]}"; do
    log="$build/fuzz/seeds_${seed}.txt"
    # A case that hangs is a fault, too.
    if ! STEPFUSE_SEEDS="$seed:$n" timeout 3600 "$binary" -tc="$only" >"$log" 2>&1; then
      cat "$log"
      echo "tools/fuzz.sh: a fault in seeds $seed … $((seed + n - 1)) of $binary; the text above says how to replay it"
      exit 1
    fi
    rm -f "$log"
  done
  seed=$((seed + n))
  echo "$seed" >"$progress"
  seconds=$(($(date +%s) - begin))
  printf '\r%d of %d seeds, %d a minute, no fault ' $((seed - first)) "$count" \
    $(((seed - started) * 60 / (seconds > 0 ? seconds : 1)))
done
echo
echo "tools/fuzz.sh: $count seeds from $first on, no fault"
