#!/usr/bin/env python3
"""Runs the Python package's tests in this Python; exit code 77, and the reason, where it has no PyTorch or no pytest.

    run.py [PYTEST ARGUMENT]...     all files, or those named
    run.py --share=K/N [FILE]...    of these the K-th of N about equal shares
"""

import importlib.util
import os
import pathlib
import sys


def share_of(files: list[pathlib.Path], share: str) -> list[pathlib.Path]:
    """Files whose tests start ranks come first, next to each other: each process that starts ranks imports PyTorch once more."""
    number, count = map(int, share.split("/"))
    starts_ranks = {file: "from processes import" in file.read_text(encoding="utf-8") for file in files}
    files = sorted(files, key=lambda file: (not starts_ranks[file], -file.stat().st_size, file.name))
    total, before, chosen = sum(file.stat().st_size for file in files), 0, []
    for file in files:
        if min(before * count // max(total, 1), count - 1) == number - 1:
            chosen.append(file)
        before += file.stat().st_size
    return chosen


def main() -> int:
    missing = [name for name in ("torch", "pytest") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {' and no '.join(missing)}; tools/torch_env.sh makes one that does")
        return 77
    # OpenMP's threads sleep when they wait. By default they spin, and take the processor from tests that run at the
    # same time. The programs that tests start inherit this.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import pytest

    import stepfuse

    print(f"stepfuse {stepfuse.__version__} from {stepfuse.__file__}")
    folder = pathlib.Path(__file__).parent
    arguments = sys.argv[1:] or [str(folder)]
    if arguments[0].startswith("--share="):
        files = [pathlib.Path(a) for a in arguments[1:]] or list(folder.glob("test_*.py"))
        arguments = [str(file) for file in share_of(files, arguments[0].removeprefix("--share="))]
    times = ["--durations=0", "--durations-min=1"]  # tools/test_summary.py reads them
    return pytest.main(["-q", "-p", "no:cacheprovider", *times, *arguments])


if __name__ == "__main__":
    sys.exit(main())
