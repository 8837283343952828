#!/usr/bin/env bash
# Unpacks Debian's packages, or their sources, into a folder, without installing anything: also those of a different
# architecture. Knows apt, dpkg-deb and the sources that this machine has apt packages from.
#
#   tools/debian_files.sh DIR ARCHITECTURE PACKAGE...   the packages' files, below DIR/root
#   tools/debian_files.sh DIR source PACKAGE...         the sources, in DIR/PACKAGE
#
# With --with-dependencies before DIR, also what the packages depend on. apt's lists for it are in DIR/apt, and those of
# the machine stay as they are. Exit code 3, and the reason, if this is not Debian or the packages cannot be had.
set -euo pipefail
whole=0
case ${1:-} in
  -h | --help) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
  --with-dependencies) whole=1 && shift ;;
esac
[[ $# -ge 3 ]] || { echo "debian_files: expected DIR, an architecture or 'source', and packages (see --help)" >&2 && exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
architecture=$2
shift 2
for tool in apt-get dpkg-deb; do
  command -v $tool >/dev/null || { echo "skipped: debian_files needs $tool, which Debian has" && exit 3; }
done
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
apt=$dir/apt

fetch() { APT_CONFIG=$apt/apt.conf apt-get -q "$@"; }

# The distribution's own sources, for packages and sources of any architecture.
write_configuration() {
  local for_packages=$architecture
  [[ $architecture != source ]] || for_packages=$(dpkg --print-architecture)
  rm -rf "$apt"
  mkdir -p "$apt/sources.d" "$apt/lists/partial" "$apt/cache/archives/partial"
  : >"$apt/status"
  local file
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ ! -e $file ]] || awk -v RS= -v ORS='\n\n' "/(^|\\n)Suites:[^\\n]* $codename/" "$file" |
      sed -e 's/^Types:.*/Types: deb deb-src/' -e '/^Architectures:/d' >"$apt/sources.d/$(basename "$file")"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ ! -e $file ]] || grep -E "^deb (\[[^]]*\] )?[^ ]+ $codename" "$file" | sed -E 's/arch=[^] ]*//' |
      sed -e p -e 's/^deb /deb-src /' >"$apt/sources.d/$(basename "$file")" || true
  done
  find "$apt/sources.d" -empty -delete
  cat >"$apt/apt.conf" <<EOF
Dir::Etc::SourceList "-"; Dir::Etc::SourceParts "$apt/sources.d";
Dir::State "$apt"; Dir::State::Lists "$apt/lists"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
APT::Architecture "$for_packages"; APT::Architectures { "$for_packages"; };
APT::Sandbox::User ""; Acquire::Languages "none"; APT::Install-Recommends "false";
EOF
}

if [[ $(cat "$apt/made" 2>/dev/null) != "$apt $architecture $codename" ]]; then
  write_configuration
  echo "debian_files: fetching apt's lists of $codename, $architecture, into $apt (25 MB)"
  fetch update >"$apt/update.log" 2>&1 || { echo "skipped: apt-get update failed: $(tail -1 "$apt/update.log")" && exit 3; }
  echo "$apt $architecture $codename" >"$apt/made"
fi

unpack_sources() {
  local package orig
  for package in "$@"; do
    [[ ! -d $dir/$package ]] || continue
    echo "debian_files: fetching the source of $package into $dir/$package"
    rm -rf "$apt/source" && mkdir "$apt/source"
    (cd "$apt/source" && fetch source --download-only "$package" >"$apt/source.log" 2>&1) ||
      { echo "skipped: apt-get has no source of $package: $(tail -1 "$apt/source.log")" && exit 3; }
    orig=$(echo "$apt/source"/*.orig.tar.*)
    mkdir "$apt/source/unpacked"
    tar -x -f "$orig" -C "$apt/source/unpacked" --strip-components=1
    # The licence text as Debian collected it, where an installed package would have it.
    tar -x -f "$(echo "$apt/source"/*.debian.tar.*)" -C "$apt/source/unpacked" debian/copyright
    mv "$apt/source/unpacked" "$dir/$package"
  done
}

unpack_packages() {
  local debs deb say
  debs=$apt/cache/archives
  if ((whole)); then
    say=$(LC_ALL=C fetch install --assume-no "$@" 2>&1 | grep '^Need to get' || true)
    echo "debian_files: fetching $* and what they depend on for $architecture into $dir/root. ${say}"
    fetch install --yes --download-only "$@" >"$apt/install.log" 2>&1 ||
      { echo "skipped: apt-get cannot fetch $*: $(tail -1 "$apt/install.log")" && exit 3; }
  else
    say=$(fetch --print-uris download "$@" 2>/dev/null | awk '{ sum += $3 } END { print int(sum / 1e6) }')
    echo "debian_files: fetching $* for $architecture into $dir/root ($say MB, unpacked about seven times as much)"
    (cd "$debs" && fetch download "$@" >"$apt/download.log" 2>&1) ||
      { echo "skipped: apt-get cannot fetch $*: $(tail -1 "$apt/download.log")" && exit 3; }
  fi
  mkdir -p "$dir/root"
  for deb in "$debs"/*.deb; do
    dpkg-deb -x "$deb" "$dir/root" && rm "$deb"
  done
}

if [[ $architecture == source ]]; then unpack_sources "$@"; else unpack_packages "$@"; fi
