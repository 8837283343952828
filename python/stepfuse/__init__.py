"""stepfuse: everything between backward() and the next forward() as one kernel.

`stepfuse.torch` has the optimizers for PyTorch; `python -m stepfuse.selftest` tries what is installed here.
"""

from ._core import Error
from ._core import version as __version__

__all__ = ["Error", "__version__"]
