"""One thread, so that the tests take seconds on a busy machine too; what depends on threads asks for more."""

import torch

torch.set_num_threads(1)
