#!/usr/bin/env bash
# Checks and times the CUDA backend on a machine with a GPU; needs no network there. Knows the build's binaries.
#
#   tools/gpu_check.sh [--build DIR] [--out DIR] [--quick | --smoke] [--only=PART,...]
#   tools/gpu_check.sh --pack FILE.tar.gz [--build DIR]
#
# The first form takes less than nine minutes. It names the parts that it cut off because they took longer.
# 1. Correctness: it compares digests with the interpreter's and runs the GPU tests. If compute-sanitizer is installed,
#    both run under it, too.
# 2. Times of copies, of each form, and of the norm (observe) and the update (after_observe) alone, from 1 M parameters
#    to what the memory holds. The out folder then has gpu_check.json (device, driver, versions, command, raw times) and
#    gpu_check.txt (the tables).
# 3. The model of the machine code with constants fitted to those times (fitted.json, fitted.txt), if nvdisasm and
#    Python are installed; the emitter's options compared (gpu_options.json and .txt); and PyTorch and optax on the same
#    layouts, if they are installed.
# --quick leaves out options, layouts and peers. --smoke shows in a minute that all parts run, on a machine with few
# threads. --only runs some of the parts: bits, tests, sanitizer, benchmark, model, options, peers.
# The second form packs everything that the first one needs, including NVRTC. A machine without the build unpacks the
# archive and runs it:  tar xf FILE.tar.gz && stepfuse_gpu/gpu_check.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ -x $here/bin/gpu_test ]]; then build=$here; else build=$here/../build; fi
out=
quick=
smoke=
pack=
parts=bits,tests,sanitizer,benchmark,model,options,peers
only=$parts
while (($#)); do
  case $1 in
    --build) build=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --pack) pack=$2 && shift 2 ;;
    --quick) quick=1 && shift ;;
    --smoke) smoke=1 && shift ;;
    --only=*) only=${1#*=} && shift ;;
    *) sed -n '2,19p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
done
for part in ${only//,/ }; do
  if [[ ,$parts, != *,$part,* ]]; then
    echo "gpu_check: --only: no part '$part'; the parts are ${parts//,/, }" >&2
    exit 2
  fi
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

nvdisasm=${STEPFUSE_NVDISASM:-}
for known in "$build/bin/nvdisasm" "$build/nvdisasm/nvdisasm"; do
  [[ -z $nvdisasm && -x $known ]] && nvdisasm=$known
done

pack_up() {
  local stage
  stage=$(mktemp -d)
  local root=$stage/stepfuse_gpu
  mkdir -p "$root/bin" "$root/lib" "$root/nvrtc"
  cp "${binaries[@]/#/$build/bin/}" "$root/bin/"
  strip "$root"/bin/* 2>/dev/null || true
  cp "${BASH_SOURCE[0]}" "$root/gpu_check.sh"
  cp "$here/fit_model.py" "$root/"
  [[ -n $nvdisasm ]] && cp -L "$nvdisasm" "$root/bin/nvdisasm"
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
[[ -n $nvdisasm ]] && export STEPFUSE_NVDISASM=$nvdisasm
out=${out:-$build/gpu_check}
mkdir -p "$out"
out=$(cd "$out" && pwd)
layouts=$here/layouts
[[ -d $layouts ]] || layouts=$here/../samples/layouts
status=0
limit=530 # seconds for all of it
patience=1
if [[ -n $smoke ]]; then limit=1200 patience=5; fi # a shared machine without a GPU

# limited SECONDS COMMAND…: ends it then, or when the time for all is over.
limited() {
  local most=$(($1 * patience)) left=$((limit - SECONDS)) code=0
  shift
  if ((left < 5)); then
    echo "gpu_check: left out, the time is over: $1" >&2
    return 0
  fi
  timeout -k 5 "$((most < left ? most : left))" "$@" || code=$?
  ((code == 124)) && echo "gpu_check: cut off after $((most < left ? most : left)) s: $1" >&2
  return "$code"
}

echo "== environment"
"$build/bin/stepfuse" env | tee "$out/environment.txt"

check_bits() {
  local params=3000017 words form expected actual verdict run more
  [[ -n $smoke ]] && params=3001
  : >"$out/bits.txt"
  for words in "adamw --loss-scale --clip" "adamw --grad f16 --master --loss-scale --clip" "adamw --moments int8 --clip" \
    "lamb --grad bf16 --master --clip" "lion --clip --inputs special"; do
    run=("$build/bin/stepfuse" run)
    read -ra more <<<"$words --params $params --steps 3 --digest"
    expected=$(limited 60 "${run[@]}" "${more[@]}" --backend=interpret) || true
    for form in fused split unfused; do
      actual=$(limited 60 "${run[@]}" "${more[@]}" --backend=cuda --form="$form") || true
      verdict="bit-identical"
      if [[ -z $expected || $actual != "$expected" ]]; then verdict="DIFFERENT BITS" status=1; fi
      echo "$verdict: $words, $form" | tee -a "$out/bits.txt"
    done
    [[ -n $smoke ]] && break
  done
  return 0
}

check_tests() {
  local tests=()
  [[ -n $smoke ]] && tests=("--source-file=*api_test*")
  limited 90 "$build/bin/gpu_test" "${tests[@]}" | tee "$out/tests.txt" || status=1
}

check_sanitizer() {
  local tool
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not installed: left out"
    return
  fi
  for tool in memcheck racecheck synccheck initcheck; do
    # Small: a kernel under it takes a hundred times as long.
    limited 20 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/bin/stepfuse" run adamw --grad f16 --master \
      --loss-scale --clip --backend=cuda --params 100003 --steps 3 --digest >"$out/sanitizer_$tool.txt" 2>&1 || status=1
    echo "$tool: $(tail -n 1 "$out/sanitizer_$tool.txt")"
    # Arguments in device memory, the split phase, and a graph of both.
    limited 20 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/bin/gpu_test" \
      --test-case='*between the phases*,*arguments in device memory*' >"$out/sanitizer_api_$tool.txt" 2>&1 || status=1
    echo "$tool: $(tail -n 1 "$out/sanitizer_api_$tool.txt")"
  done
}

sizes=(1048576 16777216 134217728 1073741824 2147483648)
grads=(f32 f16 bf16)
turns=(--rounds 15)
few=(1048576 16777216 268435456)
some=(f32 bf16)
if [[ -n $quick ]]; then
  sizes=(1048576 16777216 268435456)
  turns=(--rounds 5)
elif [[ -n $smoke ]]; then
  sizes=(1024 4096)
  few=(1024)
  grads=(f32)
  some=(f32)
  turns=(--rounds 1 --steps 1 --copy-mb 1)
fi

check_benchmark() {
  local model models=()
  for model in resnet50 bert_base gpt2 tiny_10000; do
    [[ -z $quick$smoke && -f $layouts/$model.json ]] && models+=(--layout "$layouts/$model.json")
  done
  limited 170 "$build/bin/stepfuse_gpu_bench" --params "${sizes[@]}" "${models[@]}" --grad "${grads[@]}" "${turns[@]}" \
    --json "$out/gpu_check.json" | tee "$out/gpu_check.txt" || status=1
}

# Fits the model's constants to the benchmark's times.
check_model() {
  local arch grad more code=()
  arch=$(grep -o 'sm_[0-9]*' "$out/environment.txt" | head -1) || true
  if [[ -z $nvdisasm || -z $arch || ! -s $out/gpu_check.json ]] || ! command -v python3 >/dev/null; then
    echo "no nvdisasm, no Python or no times: the model's constants are not fitted"
    return
  fi
  for grad in "${grads[@]}"; do
    more=(--grad "$grad")
    [[ $grad != f32 ]] && more+=(--master)
    "$build/bin/stepfuse" explain adamw "${more[@]}" --loss-scale --clip --arch "$arch" --sass --json >"$out/sass_$grad.json" || status=1
    code+=("$grad=$out/sass_$grad.json")
  done
  limited 30 python3 "$here/fit_model.py" "$out/gpu_check.json" "${code[@]}" --json "$out/fitted.json" |
    tee "$out/fitted.txt" || status=1
}

# Compares the emitter's options.
check_options() {
  [[ -n $quick ]] && return
  limited 110 "$build/bin/stepfuse_gpu_bench" --params "${few[@]}" --grad "${some[@]}" "${turns[@]}" \
    --cuda-options min-blocks=3 min-blocks=4 unroll=2 cache=streaming cache=evict-first reverse=off access=256 unroll=2,access=256 \
    --json "$out/gpu_options.json" | tee "$out/gpu_options.txt" || status=1
}

check_peers() {
  [[ -n $quick ]] && return
  if [[ -z $smoke && -f $here/compare_torch.py ]] && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    STEPFUSE_BUILD=$build limited 150 python3 "$here/compare_torch.py" --device cuda --rounds 5 --first-step 40 --at-once \
      --out "$out" 16M 64M resnet50 gpt2 | tee "$out/peers.txt" || status=1
  else
    echo "no PyTorch with CUDA in this python3: left out" | tee "$out/peers.txt"
  fi
}

for part in ${only//,/ }; do
  echo "== $part"
  "check_$part"
done
echo "gpu_check: results are in $out, after $SECONDS s"
exit "$status"
