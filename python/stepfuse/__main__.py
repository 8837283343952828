"""`stepfuse` and `python -m stepfuse`: the command line tool that the package contains, with the package's LLVM and NVRTC."""

import os
import pathlib
import sys

import stepfuse

TOOL = pathlib.Path(stepfuse.__file__).parent / "_bin" / "stepfuse"


def main() -> int:
    if not TOOL.exists():
        print(f"stepfuse: the package has no command line tool: {TOOL} is missing. Install the package with `pip install .`, "
              "or build the tool (`cmake --build build --target stepfuse_cli`).", file=sys.stderr)
        return 1
    sys.stdout.flush()
    os.execv(TOOL, ["stepfuse", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
