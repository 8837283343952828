#!/usr/bin/env bash
# Runs the real kernels on the PTX machine over the full product of recipe options (a pairwise covering set), modes (the
# forms and the split phase), archs, layouts, inputs and grids, with 20 interleavings each. Pairs come first. The
# progress file lists finished runs, and the next start continues from there. The script prints its coverage at the end.
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
    *) sed -n '7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done
progress=${progress:-$build_dir/soak_ptx.txt}

# Keeps freed memory in the process, because every launch allocates its threads again.
export GLIBC_TUNABLES=glibc.malloc.trim_threshold=4294967296:glibc.malloc.mmap_threshold=4294967296
export STEPFUSE_PTX_SOAK=$progress STEPFUSE_PTX_SOAK_MINUTES=$minutes
exec "$build_dir/bin/ptx_test" -tc='soak*'
