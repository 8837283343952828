"""Makes Megatron-Core use our FusedAdam for its optimizers."""

from __future__ import annotations

import megatron.core.optimizer as megatron
from megatron.core.optimizer import distrib_optimizer

from .fused_adam import FusedAdam


def install() -> None:
    """Makes `get_megatron_optimizer(OptimizerConfig(optimizer="adam"))` take FusedAdam of this package.

    Megatron looks the class up in two of its modules, which also have flags that say whose class it is. Ours has the
    state of TransformerEngine's, so these flags say TransformerEngine. Call it before the optimizer is made.

    Example:
        >>> import stepfuse.torch.megatron
        >>> stepfuse.torch.megatron.install()
        >>> optimizer = get_megatron_optimizer(config, model_chunks)
    """
    for module, names in ((megatron, ("Adam", "USING_PYTORCH_OPTIMIZER")),
                          (distrib_optimizer, ("Adam", "HAVE_APEX_OR_TE", "USING_TE_OPTIMIZER", "USING_APEX_OPTIMIZER"))):
        if missing := [name for name in names if not hasattr(module, name)]:
            raise RuntimeError(f"{module.__name__} has no {missing[0]}; install() supports Megatron-Core 0.16; with this version, pass FusedAdam to the "
                               "optimizer classes yourself")
    megatron.Adam = distrib_optimizer.Adam = FusedAdam
    megatron.USING_PYTORCH_OPTIMIZER = False
    distrib_optimizer.HAVE_APEX_OR_TE = distrib_optimizer.USING_TE_OPTIMIZER = True
    distrib_optimizer.USING_APEX_OPTIMIZER = False


__all__ = ["FusedAdam", "install"]
