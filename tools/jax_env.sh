#!/usr/bin/env bash
# Makes a virtual environment with the JAX that stepfuse.jax is built and tested with; knows pip.
#
#   tools/jax_env.sh [DIR [VERSION]]      DIR (default build/jax) then has bin/python
#
# VERSION is that of jax and jaxlib; optax and numpy are those that go with it. Exit code 3, and the reason, if it
# cannot be had; 2 if DIR was made by something else.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

newest=0.10.2
folder=${1:-build/jax}
version=${2:-$newest}
mark=$folder/made_by_jax_env
usable() {
  "$folder/bin/python" -c "import jax, jaxlib, numpy, optax, pytest; assert jax.__version__ == jaxlib.__version__ == '$version'" 2>/dev/null
}
packages=("jax==$version" "jaxlib==$version" pytest)
if [[ $version == "$newest" ]]; then
  packages+=(optax==0.2.8 numpy==2.4.6 ml_dtypes==0.6.0)
else
  packages+=(optax numpy)
fi

usable && exit
if [[ -e $folder && ! -e $mark ]] && [[ -n $(ls -A "$folder") ]]; then
  echo "jax_env: $folder was not made by this script: give a different folder, or remove it" >&2
  exit 2
fi
log=$(mktemp) && trap 'rm -f "$log"' EXIT
if ! { python3 -m venv --clear "$folder" && touch "$mark" && "$folder/bin/pip" install --quiet --no-compile "${packages[@]}"; } >"$log" 2>&1; then
  rm -rf "$folder"
  echo "skipped: no JAX $version in $folder: $(grep . "$log" | tail -1)"
  exit 3
fi
usable && exit
echo "skipped: JAX $version was installed into $folder and does not start"
exit 3
