#!/usr/bin/env python3
"""Makes a release: version, changelog, commit, tag, and in dist/ the wheels, the Debian package, an SBOM and checksums. Knows git.

    tools/release.py VERSION [--dry-run] [--no-build] [--date=YYYY-MM-DD]

--dry-run does it in a clone in build/release and leaves this tree as it is. --no-build makes no wheel and no package.
The version is that of project() in CMakeLists.txt; the other files that name it are FILES below. Nothing is uploaded: the last lines
say what to push.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]

# Every line that names the version, with the version in a group of its own.
FILES = {
    "CMakeLists.txt": r"project\(stepfuse VERSION (\d+\.\d+\.\d+)",
    "runtime/include/stepfuse/version.h": r'STEPFUSE_VERSION_STRING "(\d+\.\d+\.\d+)"',
    "CITATION.cff": r"(?m)^version: (\d+\.\d+\.\d+)",
    "tools/vcpkg/stepfuse/vcpkg.json": r'"version": "(\d+\.\d+\.\d+)"',
    "README.md": r"(?m)^Version (\d+\.\d+\.\d+)",
    "docs/embedding.md": r"stepfuse_(\d+\.\d+\.\d+)_amd64\.deb",
}
# The licence and use of each library that a wheel contains.
PARTS = [
    ("LLVM", "Apache-2.0 WITH LLVM-exception", "compiles CPU kernels; linked statically"),
    ("oneTBB", "Apache-2.0", "runs CPU kernels on threads"),
    ("fmt", "MIT", "formats text"),
    ("nlohmann-json", "MIT", "reads layouts and checkpoints; headers only"),
    ("xxHash", "BSD-2-Clause", "digests; headers only"),
    ("CLI11", "BSD-3-Clause", "reads the command line; headers only"),
    ("zstd", "BSD-3-Clause", "a part of LLVM"),
    ("zlib", "Zlib", "a part of LLVM"),
    ("libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1", "C++'s library; linked statically"),
]


def stop(reason: str) -> None:
    sys.exit(f"release: {reason}")


def git(folder: pathlib.Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True)
    if done.returncode:
        stop(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def set_version(folder: pathlib.Path, version: str) -> None:
    for name, pattern in FILES.items():
        text = (folder / name).read_text(encoding="utf-8")
        found = re.search(pattern, text)
        if found is None:
            stop(f"{name} names no version: expected {pattern}")
        text = text[: found.start(1)] + version + text[found.end(1) :]
        if name.endswith("version.h"):
            for part, number in zip(("MAJOR", "MINOR", "PATCH"), numbers(version)):
                text = re.sub(rf"(STEPFUSE_VERSION_{part}) \d+", rf"\1 {number}", text)
        (folder / name).write_text(text, encoding="utf-8")


def close_changelog(folder: pathlib.Path, version: str, date: str) -> None:
    """Gives the unreleased changes the version's heading, and adds a new one for the next changes."""
    file = folder / "CHANGELOG.md"
    text = file.read_text(encoding="utf-8")
    heading = "## [Unreleased]\n"
    if text.count(heading) != 1:
        stop("CHANGELOG.md must have one heading '## [Unreleased]'")
    changes = text.split(heading)[1].split("\n## ")[0]
    if not changes.strip():
        stop("CHANGELOG.md has no change under '## [Unreleased]'")
    file.write_text(text.replace(heading, f"{heading}\n## [{version}] - {date}\n"), encoding="utf-8")


def write_sbom(file: pathlib.Path, version: str, date: str) -> None:
    """In CycloneDX 1.5."""
    parts = [{"type": "library", "name": name, "description": use, "licenses": [{"expression": licence}]} for name, licence, use in PARTS]
    main = {"type": "library", "name": "stepfuse", "version": version, "purl": f"pkg:pypi/stepfuse@{version}",
            "licenses": [{"expression": "Apache-2.0"}]}
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
           "metadata": {"timestamp": f"{date}T00:00:00Z", "component": main}, "components": parts}
    file.write_text(json.dumps(bom, indent=1) + "\n", encoding="utf-8")


def build(folder: pathlib.Path, dist: pathlib.Path) -> None:
    release = folder / "build/release_build"
    architectures = "all" if platform.machine() == "x86_64" else platform.machine()
    for command in (["tools/wheel.sh", f"--arch={architectures}", release, dist],
                    ["cmake", "-S", ".", "-B", release, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_PREFIX=/usr",
                     "-DSTEPFUSE_TESTS=OFF", "-DSTEPFUSE_SAMPLES=OFF"],
                    ["cmake", "--build", release],
                    ["cpack", "-G", "DEB", "--config", release / "CPackConfig.cmake", "-B", release / "deb"]):
        print("$", *command, flush=True)
        if subprocess.run([str(word) for word in command], cwd=folder).returncode:
            stop(f"{command[0]} failed; the tag was not made")
    for package in (release / "deb").glob("*.deb"):
        shutil.copy(package, dist)


def write_checksums(dist: pathlib.Path) -> None:
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    o = parser.parse_args()
    if not re.fullmatch(r"\d+\.\d+\.\d+", o.version):
        stop(f"VERSION: expected MAJOR.MINOR.PATCH, as in 0.2.0; got '{o.version}'")
    folder = SOURCE
    if git(folder, "status", "--porcelain", "--untracked-files=no"):
        stop("the tree has changes that are not committed: commit or stash them first")
    if o.dry_run:
        folder = SOURCE / "build/release"
        shutil.rmtree(folder, ignore_errors=True)
        git(SOURCE, "clone", "--quiet", str(SOURCE), str(folder))
        for name in ("user.name", "user.email"):  # a clone does not take them from the tree's own settings
            value = git(SOURCE, "config", "--default", "", "--get", name)
            if value:
                git(folder, "config", name, value)
    tag = f"v{o.version}"
    if git(folder, "tag", "--list", tag):
        stop(f"the tag {tag} exists: choose a later version")
    now = re.search(FILES["CMakeLists.txt"], (folder / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    if numbers(o.version) < numbers(now):
        stop(f"VERSION: {o.version} is before {now}, which CMakeLists.txt has")

    set_version(folder, o.version)
    close_changelog(folder, o.version, o.date)
    dist = folder / "build/dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    if not o.no_build:
        build(folder, dist)
    write_sbom(dist / f"stepfuse-{o.version}.cdx.json", o.version, o.date)
    write_checksums(dist)
    git(folder, "commit", "--quiet", "--all", "--message", f"Release {o.version}")
    git(folder, "tag", "--annotate", tag, "--message", f"stepfuse {o.version}")
    print(f"release: {tag} is commit {git(folder, 'rev-parse', '--short', 'HEAD')} in {folder}; its files are in {dist}")
    print(f"To publish it: git push origin HEAD {tag}; then upload the files.")


if __name__ == "__main__":
    main()
