#!/usr/bin/env bash
# Builds the documentation site from the Markdown files and the sources; knows pip and Sphinx.
#
#   tools/docs.sh [BUILD_DIR]      BUILD_DIR (default build) has bin/stepfuse; the site is BUILD_DIR/docs/html
#
# Every warning is an error, a link without a target too. Exit code 3, and the reason, where Sphinx cannot be installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
build=${1:-build}
work=$build/docs
tool=$build/bin/stepfuse
[[ -x $tool ]] || { echo "docs: there is no $tool: build stepfuse_cli first, since pages are made from its help" >&2 && exit 2; }

# The environment of these very requirements, made once.
pinned=$(sha256sum tools/docs/requirements.txt)
if [[ $(cat "$work/venv/pinned" 2>/dev/null) != "$pinned" ]]; then
  mkdir -p "$work"
  if ! { python3 -m venv --clear "$work/venv" &&
    "$work/venv/bin/pip" install --quiet --require-hashes -r tools/docs/requirements.txt; } >"$work/venv.log" 2>&1; then
    echo "skipped: no Sphinx here: $(grep . "$work/venv.log" | tail -1)"
    rm -rf "$work/venv"
    exit 3
  fi
  echo "$pinned" >"$work/venv/pinned"
fi

STEPFUSE_SOURCE=$PWD
STEPFUSE_VERSION=$("$tool" --version)
STEPFUSE_VERSION=${STEPFUSE_VERSION#stepfuse }
export STEPFUSE_SOURCE STEPFUSE_VERSION
python3 tools/docs/pages.py "$tool" "$work/source"
"$work/venv/bin/sphinx-build" --quiet --fail-on-warning --keep-going --fresh-env --jobs auto \
  --conf-dir tools/docs --doctree-dir "$work/doctrees" "$work/source" "$work/html"
echo "docs: wrote $work/html/index.html"
