#!/usr/bin/env bash
# The Python package in real trainers: installs them, runs the tests here, and runs Accelerate's own
# tests with and without our optimizers instead of torch's. Knows pip and PyPI.
#
#   tests/peers/run.sh BUILD_DIR [--lightning CHECKOUT]
#
# BUILD_DIR holds a built stepfuse_core. Lightning's tests are in no package: they are run from a checkout of its
# repository at the version below, where one is named, and each case has to end with our optimizers as it does with
# torch's. Exit code 3, and the reason, where the trainers cannot be had.
set -uo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${1:?a build folder}" && pwd)
lightning=""
[[ ${2:-} == --lightning ]] && lightning=$(cd "${3:?a checkout of Lightning}" && pwd)
accelerate_version=1.15.0 transformers_version=5.23.0 lightning_version=2.6.6 megatron_version=0.16.1 torchtitan_version=0.3.0 wandb_version=0.31.0

bash "$source/tools/torch_env.sh" "$build/torch" || exit
python=$build/torch/bin/python
log=$(mktemp) && trap 'rm -f "$log"' EXIT
if ! "$python" -m pip install --quiet "accelerate==$accelerate_version" "transformers==$transformers_version" \
  "lightning==$lightning_version" "megatron-core==$megatron_version" "torchtitan==$torchtitan_version" "wandb==$wandb_version" \
  numba parameterized triton >"$log" 2>&1; then
  echo "skipped: the trainers cannot be installed: $(tail -1 "$log")"
  exit 3
fi
mkdir -p "$build/peers"
own=$build/peers/accelerate-$accelerate_version
if [[ ! -d $own ]]; then
  if "$python" -m pip download --quiet --no-deps --no-binary :all: -d "$build/peers" \
    "accelerate==$accelerate_version" >"$log" 2>&1; then
    tar -xzf "$own.tar.gz" -C "$build/peers"
  else
    echo "not run: Accelerate's own tests: $(tail -1 "$log")"
  fi
fi

if "$source/tools/static_llvm.sh" "$build/peers/_llvm.so"; then
  export STEPFUSE_LLVM_LIBRARY=$build/peers/_llvm.so
fi
export PYTHONPATH=$build/python:$source/tests/peers STEPFUSE_CACHE=off
failed=0
tests() { # WHAT FOLDER PYTEST_ARGUMENT...
  echo "--- $1"
  (cd "$2" && timeout 1500 "$python" -m pytest -q -p no:cacheprovider -W ignore "${@:3}") || failed=1
}
tests "our optimizers in the trainers" "$source/tests/peers" .
# It compares the whole machine's free memory before and after, which other processes change.
other=tests/test_accelerator.py::AcceleratorTester::test_free_memory_dereferences_prepared_components
plugins=("" drop_in)
for plugin in "${plugins[@]}"; do
  with=${plugin:+, torch.optim\'s AdamW, Adam and SGD ours}
  if [[ -d $own ]]; then
    tests "Accelerate's tests$with" "$own" ${plugin:+-p "$plugin"} --deselect "$other" tests/test_optimizer.py \
      tests/test_scheduler.py tests/test_accelerator.py tests/test_state_checkpointing.py tests/test_kwargs_handlers.py
  fi
done

cases() { # NAME FILE_OR_OPTION...: Lightning's, from its checkout; what ended how is in NAME.xml
  echo "--- Lightning's tests, $1"
  rm -f "$build/peers/$1.xml"
  (cd "$lightning/tests" && timeout 1500 "$python" -m pytest -q -p no:cacheprovider -W ignore -c /dev/null \
    --rootdir . --junitxml "$build/peers/$1.xml" "${@:2}") | tail -4
}
same() { "$python" "$source/tests/peers/same_outcomes.py" "$build/peers/$1.xml" "$build/peers/$2.xml" || failed=1; }
if [[ -n $lightning ]]; then
  amp=tests_pytorch/plugins/precision/test_amp_integration.py
  manual=tests_pytorch/trainer/optimization/test_manual_optimization.py
  files=("$amp" "$manual" tests_pytorch/plugins/precision/test_amp.py tests_pytorch/core/test_lightning_optimizer.py
    tests_pytorch/trainer/optimization/test_optimizers.py tests_pytorch/callbacks/test_finetuning_callback.py)
  cases lightning "${files[@]}"
  cases lightning-ours -p drop_in "${files[@]}"
  same lightning lightning-ours
  # Cases that ask for a GPU run on the CPU; otherwise no case uses fp16.
  cases lightning-fp16 -p gpu_is_cpu "$amp" "$manual"
  for scaler in torch ours deferred; do
    SCALER=$scaler cases "lightning-fp16-$scaler" -p gpu_is_cpu -p drop_in "$amp" "$manual"
    same lightning-fp16 "lightning-fp16-$scaler"
  done
fi
exit $failed
