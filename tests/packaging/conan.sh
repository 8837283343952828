#!/usr/bin/env bash
# Runs `conan create` on the recipe, with its test package, in an environment and a cache of its own. It does not ask
# Conan Center: a profile says that the system has the libraries. Knows conan, pip and pkg-config.
#
#   conan.sh SOURCE_DIR WORK_DIR [OPTION OF CONAN CREATE...]       as in -o "stepfuse/*:shared=True"
#
# Builds the library, which takes 5 to 10 minutes on two cores, and installs conan from PyPI (30 MB). Exit code 3, and
# the reason, if conan or a library is missing.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;; esac
source=$(cd "${1:?the source folder}" && pwd)
mkdir -p "${2:?a folder to work in}"
work=$(cd "$2" && pwd)
shift 2
[[ -x $work/venv/bin/conan ]] || {
  echo "conan: installing conan into $work/venv (30 MB)"
  python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet 'conan>=2.8,<3'
} || { echo "skipped: conan cannot be installed" && exit 3; }
export CONAN_HOME=$work/home
rm -rf "$CONAN_HOME"
conan() { "$work/venv/bin/conan" "$@"; }
conan profile detect >/dev/null 2>&1
conan remote disable '*' >/dev/null

# Debian's version where a library has no file for pkg-config.
version_of() { pkg-config --modversion "$1" 2>/dev/null || dpkg-query -W -f '${Version}' "$2" | sed 's/[-+~].*//'; }
profile=$CONAN_HOME/profiles/default
sed -i 's/^compiler.cppstd=.*/compiler.cppstd=20/' "$profile"
{
  echo '[platform_requires]'
  while read -r name module package; do
    version=$(version_of "$module" "$package") || { echo "skipped: the system has no $name (apt-get install $package)" >&2 && exit 3; }
    echo "$name/$version"
  done <<'EOF'
fmt fmt libfmt-dev
onetbb tbb libtbb-dev
nlohmann_json nlohmann_json nlohmann-json3-dev
xxhash libxxhash libxxhash-dev
cli11 CLI11 libcli11-dev
EOF
} >>"$profile"
echo "conan: $(conan --version); the profile is"
sed 's/^/  /' "$profile"
conan create "$source" "$@"
conan list 'stepfuse/*:*' --format=compact
