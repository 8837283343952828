#!/usr/bin/env python3
"""Draws docs/explore.png, the picture of the explore page, and keeps the facts that it shows; knows the tool and Chromium.

    tools/explore_picture.py STEPFUSE            draws docs/explore.png, and writes docs/explore.json
    tools/explore_picture.py STEPFUSE --check    exit code 1 if the page now shows other facts than docs/explore.json;
                                                 3 if this machine has no nvdisasm, or a different version of it
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
OPTIONS = ["adamw", "--grad", "f16", "--master", "--clip", "--loss-scale"]
LINE = 75  # of the IR; it is pinned
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")


def facts_of(page):
    """Returns what a reader of the picture sees of kernels, without line numbers, which comments of kernel texts move."""
    data = json.loads(re.search(r"^const data = (.*);$", page.read_text(encoding="utf-8"), re.M)[1])
    stages = {stage["name"]: stage for stage in data["stages"] if stage["name"] in ("IR", "CUDA", "SASS")}
    pinned = {name: [line[0].strip() for line in stage["lines"] if not isinstance(line, str) and LINE in line[1]]
              for name, stage in stages.items()}
    return {"title": data["title"], "machine code": stages["SASS"]["note"], "facts": data["facts"], "pinned": pinned}


def verdict(now, then):
    """Returns the exit code and the message of a comparison of the page's facts with those of the picture."""
    if then["machine code"] != now["machine code"]:
        return 3, f"skipped: the picture shows {then['machine code']}, here it is {now['machine code']}"
    if then != now:
        return 1, "docs/explore.png is stale: the page now shows different facts; run tools/explore_picture.py"
    return 0, "the picture shows what the page shows"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stepfuse", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "adamw.html")
        subprocess.run([arguments.stepfuse.resolve(), "explore", *OPTIONS, "-o", page.name], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        now, known = facts_of(page), DOCS / "explore.json"
        if not now["pinned"]["SASS"]:
            print(f"skipped: {now['machine code']}")
            return 3
        if arguments.check:
            code, message = verdict(now, json.loads(known.read_text(encoding="utf-8")))
            print(message)
            return code
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            print(f"none of {', '.join(BROWSERS)} is installed; tools/setup.sh installs the first one", file=sys.stderr)
            return 3
        subprocess.run([browser, "--headless", "--no-sandbox", "--window-size=1360,800",
                        f"--screenshot={DOCS / 'explore.png'}", f"file://{page}#L{LINE}"], check=True, capture_output=True)
        known.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
