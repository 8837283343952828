#!/usr/bin/env bash
# Runs random programs against passes and kernels in blocks of seeds, a million by default; stops at the first fault, and goes on where it stopped when called again.
#
#   tools/fuzz.sh                        seeds 1 … 1,000,000
#   tools/fuzz.sh --first=N --count=N    other seeds
#   tools/fuzz.sh --block=N              seeds per process (default 2000)
#   tools/fuzz.sh --build=DIR            the build folder (default build)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

first=1
count=1000000
block=2000
build=build
for argument in "$@"; do
  case "$argument" in
    --first=*) first="${argument#*=}" ;;
    --count=*) count="${argument#*=}" ;;
    --block=*) block="${argument#*=}" ;;
    --build=*) build="${argument#*=}" ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "tools/fuzz.sh: unknown argument '$argument'; see tools/fuzz.sh --help" >&2; exit 2 ;;
  esac
done

binary="$build/bin/differential_test"
if [[ ! -x "$binary" ]]; then
  echo "tools/fuzz.sh: $binary is missing; build it first: cmake --build $build --target differential_test" >&2
  exit 2
fi
mkdir -p "$build/fuzz"
progress="$build/fuzz/done_${first}_${count}"  # the next seed of this range
seed="$first"
[[ -f "$progress" ]] && seed="$(cat "$progress")"
last=$((first + count))
[[ "$seed" -gt "$first" ]] && echo "going on at seed $seed (delete $progress to begin again)"

begin="$(date +%s)"
started="$seed"
while [[ "$seed" -lt "$last" ]]; do
  n=$((last - seed < block ? last - seed : block))
  log="$build/fuzz/seeds_${seed}.txt"
  if ! STEPFUSE_SEEDS="$seed:$n" "$binary" -tc='random programs*' > "$log" 2>&1; then
    cat "$log"
    echo "tools/fuzz.sh: a fault in seeds $seed … $((seed + n - 1)); the text above says how to replay it"
    exit 1
  fi
  rm -f "$log"
  seed=$((seed + n))
  echo "$seed" > "$progress"
  seconds=$(($(date +%s) - begin))
  printf '\r%d of %d programs, %d a minute, no fault ' $((seed - first)) "$count" \
    $(((seed - started) * 60 / (seconds > 0 ? seconds : 1)))
done
echo
echo "tools/fuzz.sh: $count programs from seed $first on, no fault"
