"""Other LLVMs in the process: triton's, whose C++ symbols are visible, and numba's; in either order, and opened for all to see."""

import itertools
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")
pytest.importorskip("numba")
if "STEPFUSE_LLVM_LIBRARY" not in os.environ:
    pytest.skip("STEPFUSE_LLVM_LIBRARY names no LLVM of tools/static_llvm.sh", allow_module_level=True)

PROGRAM = """
import os, sys
if sys.argv[2] == "global":
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)

def ours():
    from stepfuse import selftest
    assert selftest.digits(selftest.CPU) == selftest.digits(selftest.INTERPRETER)

def theirs():
    import numba, triton._C.libtriton
    assert numba.njit(lambda x: x * 2 + 1)(20) == 41
    triton._C.libtriton.llvm.init_targets()

for name in sys.argv[1].split():
    {"ours": ours, "theirs": theirs}[name]()
assert "_llvm" in open("/proc/self/maps").read()
"""


@pytest.mark.parametrize(("order", "how"), list(itertools.product(
    ("ours theirs ours", "theirs ours theirs"), ("local", "global"))))
def test_both_compile(order, how):
    done = subprocess.run([sys.executable, "-c", PROGRAM, order, how], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "STEPFUSE_CACHE": "off"})
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
