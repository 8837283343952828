#!/usr/bin/env bash
# Sets up, builds, and shows the main job: a real training run whose optimizer step is one kernel.
#
#   tools/demo.sh            a few minutes, most of them the build
#   tools/demo.sh --quick    smaller sizes for the speed comparison
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

params=16000000
case ${1:-} in
  "") ;;
  --quick) params=1000000 ;;
  -h | --help) usage && exit 0 ;;
  *) echo "demo: unknown option $1" >&2 && usage >&2 && exit 2 ;;
esac

title() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() { printf '$ ' && printf '%q ' "$@" && echo && "$@"; }

title "1. Set up and build"
bash tools/setup.sh --for=build
# As tools/test.sh does, so that it compiles nothing of this again.
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DSTEPFUSE_UNITY=ON >build/configure.log ||
  { cat build/configure.log && exit 1; }
ninja -C build -j "$(nproc)" stepfuse_cli fused_vs_unfused train_digits embed
out=build/demo
mkdir -p "$out"

recipe=(adamw --grad f16 --master --loss-scale --check --clip)
any_grad=(adamw --grad 'f16|bf16|f32' --master --loss-scale --check --clip)  # as the layout says

title "2. A mixed-precision optimizer step as a program, and as one kernel"
show build/bin/stepfuse env
show build/bin/stepfuse explain "${recipe[@]}" --layout samples/layouts/gpt2.json
for stage in ir passes schedule cuda llvm; do
  build/bin/stepfuse dump "${recipe[@]}" --emit=$stage -o "$out/adamw.$stage"
done
show build/bin/stepfuse dump "${recipe[@]}" --emit=cubin --arch=sm_90 -o "$out/adamw.sm_90.cubin" ||
  echo "(no cubin without NVRTC, which the set-up above could not fetch)"
echo "kernel functions in the generated CUDA text: $(grep -c __global__ "$out/adamw.cuda")"

title "3. Every form and backend computes the same bits"
for form in fused split unfused; do
  show build/bin/stepfuse run "${any_grad[@]}" --backend=cpu --form=$form \
    --layout samples/layouts/mixed_dtypes.json --steps 3 --inputs=special --digest
done
show build/bin/stepfuse run "${any_grad[@]}" --backend=interpret \
  --layout samples/layouts/mixed_dtypes.json --steps 3 --inputs=special --digest

title "4. Fused against unfused, on this machine"
show build/bin/fused_vs_unfused --params "$params"

title "5. Training on real data: handwritten digits with f16 gradients and loss scaling"
show build/bin/train_digits --out "$out"

title "Done"
echo "The stages of the step, and the training as train_digits.svg, are in $out/; README.md says what to try next."
