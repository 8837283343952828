#!/usr/bin/env bash
# Runs the real kernels on the PTX machine over the full product of recipe options (a pairwise
# covering set), forms, archs, layouts, inputs and grids, 20 interleavings each. Resumable: what is
# done stands in the progress file, and the next start goes on from there.
#
#   tools/soak_ptx.sh [--build-dir=DIR] [--progress=FILE] [--minutes=N]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build_dir=build
progress=""
minutes=0
for option in "$@"; do
  case $option in
    --build-dir=*) build_dir=${option#*=} ;;
    --progress=*) progress=${option#*=} ;;
    --minutes=*) minutes=${option#*=} ;;
    *) sed -n '6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done
progress=${progress:-$build_dir/soak_ptx.txt}

runner=("$build_dir/bin/ptx_test" -tc='soak*')
if ((minutes)); then runner=(timeout --signal=INT "${minutes}m" "${runner[@]}"); fi
status=0
STEPFUSE_PTX_SOAK=$progress "${runner[@]}" || status=$?
echo "soak: $(grep -c '^done' "$progress" || true) units done, $(grep -c '^FAULT' "$progress" || true) faults; $progress" >&2
# 124: the time was up, which is no fault.
if grep -q '^FAULT' "$progress"; then exit 1; fi
[[ $status -eq 124 ]] && exit 0
exit "$status"
