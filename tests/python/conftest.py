"""One thread, so that the tests take seconds on a busy machine too; what depends on threads asks for more.

STEPFUSE_TEST_DRIVER=1: every step runs on CUDA, on the tests' driver, which shares memory with the host.
"""

import os
import pathlib
import sys

import torch

import stepfuse.torch.parts

torch.set_num_threads(1)
sys.path.append(str(pathlib.Path(__file__).parents[2] / "tools/peers"))  # how torch's own side is run
if os.environ.get("STEPFUSE_TEST_DRIVER") == "1":
    stepfuse.torch.parts.on_cuda = lambda device: True
