#!/usr/bin/env bash
# Builds the Dockerfile without a registry and uses the image: the self-test, the tool, and the README's training. Its
# base image is made by debootstrap, with Debian's Python in place of python.org's. Knows debootstrap and buildah, which
# builds it in a chroot.
#
#   container.sh SOURCE_DIR WORK_DIR [OPTION OF BUILDAH'S BUILD...]
#
# Takes 20 to 40 minutes on two cores, and downloads 1 GB of Debian's packages and up to 3 GB for PyTorch. It needs root
# and 20 GB in WORK_DIR. PYTORCH names PyTorch's version. KEEP=1 leaves the image in WORK_DIR. PIP_CERT is pip's file of
# certificates inside, too. Exit code 3, and the reason, if a tool or a right is missing.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
source=$(cd "${1:?the source folder}" && pwd)
mkdir -p "${2:?a folder to work in}"
work=$(cd "$2" && pwd)
shift 2
say() { echo "container, $((SECONDS / 60)) min $((SECONDS % 60)) s: $*"; }
for tool in debootstrap buildah; do
  command -v $tool >/dev/null || { echo "skipped: no $tool (apt-get install debootstrap buildah)" && exit 3; }
done
((EUID == 0)) || { echo "skipped: debootstrap needs root" && exit 3; }

store() { buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs "$@"; }
remove() { store rm --all >/dev/null 2>&1 || true; rm -rf "$work/store" "$work/run" "$work/context"; }
trap '[[ -n ${KEEP:-} ]] || remove' EXIT
remove

base=docker.io/library/python:3.11-bookworm
say "making $base with debootstrap (150 MB are downloaded)"
container=$(store from scratch)
root=$(store mount "$container")
debootstrap --variant=minbase --include=ca-certificates,python-is-python3,python3-dev,python3-pip,python3-venv bookworm "$root" \
  >"$work/debootstrap.log" || { tail -5 "$work/debootstrap.log" && exit 1; }
rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED "$root"/var/cache/apt/archives/*.deb  # pip installs as in the real image
store umount "$container" >/dev/null
store commit --quiet --rm "$container" "$base" >/dev/null

say "building the image from the Dockerfile, with what git has of $source"
mkdir "$work/context"
git -C "$source" archive HEAD | tar -x -C "$work/context"
options=(${PYTORCH:+--build-arg "TORCH=$PYTORCH"})
if [[ -n ${PIP_CERT:-} ]]; then options+=(--volume "$PIP_CERT:/tmp/pip.crt:ro" --env PIP_CERT=/tmp/pip.crt); fi
store bud --isolation chroot --pull-never --tag stepfuse "${options[@]}" "$@" "$work/context"

say "using the image"
container=$(store from --pull-never stepfuse)
inside() { store run --isolation chroot "$container" -- "$@"; }
# A container starts with the self-test, which is also its health check.
store inspect --type image --format '{{.OCIv1.Config.Cmd}}' stepfuse | grep -q stepfuse.selftest
inside python -m stepfuse.selftest
inside stepfuse --version
inside stepfuse run adamw --clip --params 100000 --steps 2 --digest
inside python -c "$(sed -n '/^```python$/,/^```$/{/^```/!p}' "$source/README.md")"
[[ -z $(inside sh -c 'command -v g++; command -v llvm-config-19; command -v ninja' || true) ]] || { echo "container: the image has a compiler" >&2 && exit 1; }
say "done; the image has $(store images --format '{{.Size}}' stepfuse)"
