"""stepfuse: everything between backward() and the next forward() as one kernel.

`stepfuse.torch` has the optimizers for PyTorch. `python -m stepfuse.selftest` tests the installation.
"""

import importlib.util
import os
import pathlib

from ._core import Error
from ._core import version as __version__

__all__ = ["Error", "__version__"]


def _name_compilers() -> None:
    """Finds the LLVM of a wheel, and NVRTC where pip puts it for torch, unless the environment names others."""
    own = pathlib.Path(__file__).parent / "_llvm.so"
    if own.exists():
        os.environ.setdefault("STEPFUSE_LLVM_LIBRARY", str(own))
    nvidia = importlib.util.find_spec("nvidia")
    homes = (nvidia.submodule_search_locations or []) if nvidia is not None else []
    found = [file for home in homes for file in pathlib.Path(home).glob("*/lib/libnvrtc.so.1[23]")]
    if found:
        os.environ.setdefault("STEPFUSE_NVRTC_DIR", str(max(found, key=lambda file: file.name).parent))


_name_compilers()
