#!/usr/bin/env bash
# Checks and times the CUDA backend on a machine with a GPU; needs no network there. Knows the build's binaries.
#
#   tools/gpu_check.sh [--build DIR] [--out DIR] [--quick]
#   tools/gpu_check.sh --pack FILE.tar.gz [--build DIR]
#
# The first form runs the GPU tests, the same under compute-sanitizer where it is installed, and the benchmark, and
# leaves gpu_check.json (device, driver, versions, command, raw times) and gpu_check.txt (the tables) in the out folder;
# gpu_options.json and .txt time the emitter's options against each other (not with --quick).
# The second form packs what the first one needs, NVRTC included, into an archive that a machine without the build can
# unpack and run:  tar xf FILE.tar.gz && stepfuse_gpu/gpu_check.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ -x $here/bin/gpu_test ]]; then build=$here; else build=$here/../build; fi
out=
quick=
pack=
while (($#)); do
  case $1 in
    --build) build=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --pack) pack=$2 && shift 2 ;;
    --quick) quick=1 && shift ;;
    *) sed -n '2,11p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done
binaries=(gpu_test stepfuse_gpu_bench stepfuse)
for binary in "${binaries[@]}"; do
  if [[ ! -x $build/bin/$binary ]]; then
    echo "gpu_check: $build/bin/$binary is missing: ninja -C $build gpu_test stepfuse_gpu_bench stepfuse_cli" >&2
    exit 3
  fi
done

# NVRTC's folder: the environment's, or the one that the set-up script fetched.
nvrtc=${STEPFUSE_NVRTC_DIR:-$build/nvrtc}

pack_up() {
  local stage
  stage=$(mktemp -d)
  local root=$stage/stepfuse_gpu
  mkdir -p "$root/bin" "$root/lib" "$root/nvrtc"
  cp "${binaries[@]/#/$build/bin/}" "$root/bin/"
  strip "$root"/bin/* 2>/dev/null || true
  cp "${BASH_SOURCE[0]}" "$root/gpu_check.sh"
  [[ -d $here/../samples/layouts ]] && cp -r "$here/../samples/layouts" "$root/layouts"
  # Shared libraries that a bare machine may lack; the C library and the loader are its own.
  for binary in "${binaries[@]}"; do
    ldd "$build/bin/$binary" | awk '/=> \//{print $3}'
  done | sort -u | grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' |
    while read -r library; do cp -L "$library" "$root/lib/"; done
  for library in "$nvrtc"/libnvrtc.so.* "$nvrtc"/libnvrtc-builtins.so.*; do
    [[ -e $library ]] && cp -L "$library" "$root/nvrtc/"
  done
  tar -C "$stage" -czf "$pack" stepfuse_gpu
  rm -rf "$stage"
  echo "gpu_check: packed $(du -h "$pack" | cut -f1) into $pack"
}

if [[ -n $pack ]]; then
  pack_up
  exit 0
fi

[[ -d $build/lib && $build == "$here" ]] && export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[[ -d $nvrtc ]] && export STEPFUSE_NVRTC_DIR=$nvrtc
out=${out:-$build/gpu_check}
mkdir -p "$out"
out=$(cd "$out" && pwd)
layouts=$here/layouts
[[ -d $layouts ]] || layouts=$here/../samples/layouts
status=0

echo "== environment"
"$build/bin/stepfuse" env | tee "$out/environment.txt"

echo "== tests"
"$build/bin/gpu_test" | tee "$out/tests.txt" || status=1

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck initcheck; do
    echo "== compute-sanitizer $tool"
    # Small: a kernel under it takes a hundred times as long.
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/bin/stepfuse" run adamw --grad f16 --master \
      --loss-scale --clip --backend=cuda --params 100003 --steps 3 --digest >"$out/sanitizer_$tool.txt" 2>&1 || status=1
    tail -n 2 "$out/sanitizer_$tool.txt"
    # Arguments in device memory, the split phase, and a graph of both.
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/bin/gpu_test" \
      --test-case='*between the phases*,*arguments in device memory*' >"$out/sanitizer_api_$tool.txt" 2>&1 || status=1
    tail -n 2 "$out/sanitizer_api_$tool.txt"
  done
else
  echo "== compute-sanitizer is not installed: left out"
fi

echo "== benchmark"
if [[ -n $quick ]]; then
  sizes=(1048576 16777216)
  rounds=5
else
  sizes=(1048576 16777216 67108864 268435456 1073741824)
  rounds=20
fi
models=()
for model in resnet50 bert_base gpt2 tiny_10000; do
  [[ -f $layouts/$model.json ]] && models+=(--layout "$layouts/$model.json")
done
[[ -n $quick ]] && models=()
"$build/bin/stepfuse_gpu_bench" --params "${sizes[@]}" "${models[@]}" --grad f32 f16 bf16 --rounds "$rounds" \
  --json "$out/gpu_check.json" | tee "$out/gpu_check.txt" || status=1

if [[ -z $quick ]]; then
  echo "== options of the emitter"
  "$build/bin/stepfuse_gpu_bench" --params 1048576 16777216 268435456 --grad f32 bf16 --rounds "$rounds" \
    --cuda-options unroll=2 min-blocks=2 cache=streaming cache=evict-first reverse=off access=256 unroll=2,access=256 \
    --json "$out/gpu_options.json" | tee "$out/gpu_options.txt" || status=1
fi
echo "gpu_check: results are in $out"
exit "$status"
