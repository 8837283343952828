#!/usr/bin/env python3
"""Runs the Python package's tests, all or those named, in this Python; exit code 77, and the reason, where it has no PyTorch or no pytest."""

import importlib.util
import pathlib
import sys


def main() -> int:
    missing = [name for name in ("torch", "pytest") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {' and no '.join(missing)}; tools/torch_env.sh makes one that does")
        return 77
    import pytest

    import stepfuse

    print(f"stepfuse {stepfuse.__version__} from {stepfuse.__file__}")
    return pytest.main(["-q", "-p", "no:cacheprovider", *(sys.argv[1:] or [str(pathlib.Path(__file__).parent)])])


if __name__ == "__main__":
    sys.exit(main())
