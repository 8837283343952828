"""Runs clang-tidy over sources in groups: those of a folder that are compiled alike are read as one, with the headers that they share.

    tools/lint_groups.py BUILD_DIR [SOURCE...]

Without sources: over all of the project that BUILD_DIR compiles. A group whose sources define the same names is taken apart.
Exit code 1 if there was a finding; findings go to standard output.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("ir", "compiler", "runtime", "tools", "samples", "tests", "python")
OURS = rf"{re.escape(str(ROOT))}/({'|'.join(FOLDERS)})/.*\.(cpp|hpp)$"
MOST = 8  # sources of a group: what they share is then an eighth of the work for each


def flags_of(entry):
    """How it is compiled, without what and whereto."""
    words = entry.get("arguments") or shlex.split(entry["command"])
    words = [w for w in words if pathlib.Path(w).name != "ccache"]
    kept = []
    skip = False
    for word in words:
        if not skip and word not in ("-o", "-c"):
            kept.append(word)
        skip = not skip and word in ("-o", "-c")
    return tuple(kept)


def groups_of(database, wanted):
    alike = collections.defaultdict(set)
    for entry in database:
        source = pathlib.Path(entry["directory"], entry["file"])
        if re.fullmatch(OURS, str(source)) and (not wanted or source in wanted):
            alike[source.parent, entry["directory"], flags_of(entry)].add(source)
    seen = set()  # a source that several targets compile is read once
    for (_, directory, flags), sources in alike.items():
        fresh = sorted(sources - seen)
        seen |= sources
        for i in range(0, len(fresh), MOST):
            yield directory, flags, fresh[i:i + MOST]


class Linter:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, name, directory, flags, sources):
        """What clang-tidy says of sources that are read as one."""
        own = self.folder / name
        own.mkdir(exist_ok=True)
        whole = own / "group.cpp"
        whole.write_text("".join(f'#include "{s}"\n' for s in sources))
        entry = {"directory": directory, "file": str(whole), "arguments": [*flags, "-c", str(whole)]}
        (own / "compile_commands.json").write_text(json.dumps([entry]))
        # The compile commands are g++'s: clang knows other warnings, which are not what lint is for.
        return subprocess.run(["clang-tidy-19", "-quiet", "-p", own, f"--config-file={ROOT / '.clang-tidy'}", f"--header-filter={OURS}",
                               "-extra-arg=-w", whole], capture_output=True, text=True)

    def lint(self, number, group):
        directory, flags, sources = group
        done = self.read(str(number), directory, flags, sources)
        if len(sources) > 1 and "clang-diagnostic-error" in done.stdout:
            return [self.read(f"{number}.{k}", directory, flags, [s]) for k, s in enumerate(sources)]
        return [done]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    database = json.loads((build / "compile_commands.json").read_text())
    groups = list(groups_of(database, {pathlib.Path(s).resolve() for s in sys.argv[2:]}))
    linter = Linter(build / "lint")
    faults = {}  # a header's is found once for every group
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for results in pool.map(linter.lint, range(len(groups)), groups):
            for done in results:
                if done.returncode != 0:
                    faults[done.stdout or done.stderr] = True
    print("\n".join(faults))
    print(f"lint: {sum(len(g[2]) for g in groups)} sources in {len(groups)} groups", file=sys.stderr)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
