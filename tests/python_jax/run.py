#!/usr/bin/env python3
"""Runs the tests of stepfuse.jax in this Python; exit code 77, and the reason, if it has no JAX or the package was built without it.

    run.py [PYTEST ARGUMENT]...     all files, or those named
"""

import importlib.util
import pathlib
import sys


def main() -> int:
    missing = [name for name in ("jax", "optax", "pytest") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {' and no '.join(missing)}; tools/jax_env.sh makes one that does")
        return 77
    import pytest

    import stepfuse

    if not (pathlib.Path(stepfuse.__file__).parent / "_jax.so").exists():
        print("skipped: stepfuse.jax was not built: name this Python in STEPFUSE_JAX_PYTHON and configure again")
        return 77
    import jax

    print(f"stepfuse {stepfuse.__version__} from {stepfuse.__file__}, jax {jax.__version__}")
    times = ["--durations=0", "--durations-min=1"]  # tools/test_summary.py reads them
    return pytest.main(["-q", "-p", "no:cacheprovider", *times, *(sys.argv[1:] or [str(pathlib.Path(__file__).parent)])])


if __name__ == "__main__":
    sys.exit(main())
