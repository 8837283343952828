"""One thread, so that the tests take seconds on a busy machine too; what depends on threads asks for more.

STEPFUSE_TEST_DRIVER=1: every step runs on CUDA, on the tests' driver, which shares memory with the host.
STEPFUSE_TEST_DEVICE=cuda: tests create their tensors on a GPU. Those that start ranks are left out.
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
ON_GPU = os.environ.get("STEPFUSE_TEST_DEVICE") == "cuda"
if ON_GPU:
    torch.set_default_device("cuda")

    class Generator(torch.Generator):
        def __new__(cls, device="cuda"):
            return super().__new__(cls, device)

    torch.Generator = Generator


def pytest_ignore_collect(collection_path):
    """Ranks are processes of their own, on the CPU."""
    starts_ranks = ON_GPU and collection_path.suffix == ".py" and "from processes import" in collection_path.read_text(encoding="utf-8")
    return True if starts_ranks else None
