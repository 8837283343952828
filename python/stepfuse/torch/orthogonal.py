"""The iteration by Newton and Schulz, which makes matrices orthogonal. Knows torch only."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Iteration(NamedTuple):
    """Newton and Schulz's iteration, as torch.optim.Muon rounds it; of batches of matrices."""

    coefficients: tuple[float, float, float]
    steps: int
    eps: float

    def __call__(self, matrices: Tensor) -> Tensor:
        a, b, c = self.coefficients
        is_tall = matrices.size(-2) > matrices.size(-1)
        made = matrices.bfloat16()
        made = made.mT if is_tall else made
        # On the CPU torch adds up a matrix of a batch in a different order.
        norms = torch.linalg.vector_norm(made, dim=(-2, -1)) if made.is_cuda else torch.stack([matrix.norm() for matrix in made])
        made = made / norms.clamp(min=self.eps)[:, None, None]
        for _ in range(self.steps):
            gram = made @ made.mT
            made = torch.baddbmm(made, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), made, beta=a)
        return made.mT if is_tall else made
