"""One thread, so that the tests take seconds on a busy machine too; what depends on threads asks for more."""

import pathlib
import sys

import torch

torch.set_num_threads(1)
sys.path.append(str(pathlib.Path(__file__).parents[2] / "tools/peers"))  # how torch's own side is run
