#!/usr/bin/env python3
"""Compares the kernel texts of this checkout with those of another commit; knows git, CMake and tests/same_text.

    tools/same_text.py [BASE] [--objects] [--build-dir DIR]

BASE is a commit (default: HEAD). It is checked out and built in build/same_text/<commit>, once. Both builds then emit the
plan and the C, CUDA and LLVM text of every row of the covering set of recipe options, in all three forms. The result is
"the same" and exit code 0, or the list of what differs, the first differing lines, and exit code 1. --objects compares
the objects that LLVM makes, which may stay equal where its text changes.
"""

import argparse
import difflib
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*words, **more):
    return subprocess.run(words, check=True, text=True, **more)


def built(source, folder):
    """The tool of a source tree, built in `folder`."""
    if not (folder / "build.ninja").exists():
        run("cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", stdout=subprocess.DEVNULL)
    run("ninja", "-C", folder, "same_text")
    return folder / "bin" / "same_text"


def base_tool(commit, folder):
    checkout = folder / commit
    if not checkout.exists():
        checkout.mkdir(parents=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", checkout], check=True, input=archive.stdout)
    return built(checkout, checkout / "build")


def digests(tool, *options):
    lines = run(tool, *options, stdout=subprocess.PIPE).stdout.splitlines()
    return {name: digest for digest, name in (line.split(" ", 1) for line in lines)}


def first_difference(before, after):
    lines = difflib.unified_diff(before.read_text(errors="replace").splitlines(), after.read_text(errors="replace").splitlines(),
                                 "before", "after", lineterm="", n=2)
    return "\n".join(list(lines)[:40])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", default="HEAD")
    parser.add_argument("--objects", action="store_true")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    commit = run("git", "-C", ROOT, "rev-parse", "--short", arguments.base, stdout=subprocess.PIPE).stdout.strip()
    options = ["--objects"] if arguments.objects else []
    after = built(ROOT, arguments.build_dir)
    before = base_tool(commit, arguments.build_dir / "same_text")
    old, new = digests(before, *options), digests(after, *options)
    different = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if not different:
        print(f"the same: {len(new)} texts as at {commit}")
        return 0
    print("\n".join(f"differs: {name}" for name in different[:50]))
    print(f"{len(different)} of {len(new)} differ from {commit}")
    with tempfile.TemporaryDirectory() as folder:
        sides = [pathlib.Path(folder) / side for side in ("before", "after")]
        for tool, side in zip((before, after), sides):
            run(tool, *options, "--texts", side, stdout=subprocess.DEVNULL)
        name = different[0].replace(" ", ".")
        if not arguments.objects and all((side / name).exists() for side in sides):
            print(first_difference(sides[0] / name, sides[1] / name))
    return 1


if __name__ == "__main__":
    sys.exit(main())
