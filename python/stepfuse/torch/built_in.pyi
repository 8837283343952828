"""Written by tools/python_stubs.py."""

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .formula import Formula, ScheduleFree
from .options import OptimizerOptions

class ADOPT(Formula):
    """ADOPT: Adam that converges with any beta2. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.9999),
                 eps: float = 1e-06, weight_decay: float = 0.0, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class AdEMAMix(Formula):
    """AdEMAMix: Adam with a second, slow momentum. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *,
                 betas: tuple[float, float, float] = (0.9, 0.999, 0.9999), alpha: float = 5.0, eps: float = 1e-08,
                 weight_decay: float = 0.0, maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None: ...

class AdaBelief(Formula):
    """AdaBelief: the second moment is that of the prediction error. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-16, weight_decay: float = 0.0, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class AdamWCautiousDecay(Formula):
    """AdamW Cautious Decay: weight decay where the update agrees. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.1, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class AdamWIndependentDecay(Formula):
    """AdamW Independent Decay: weight decay that lr does not scale. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.0001, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class Adammini(Formula):
    """Adam-mini: one second moment per tensor. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.0, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class Adan(Formula):
    """Adan: adaptive Nesterov momentum. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *,
                 betas: tuple[float, float, float] = (0.98, 0.92, 0.99), eps: float = 1e-08,
                 weight_decay: float = 0.0, maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None: ...

class CautiousAdamW(Formula):
    """Cautious AdamW: only where momentum and gradient agree. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.01, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class CautiousLion(Formula):
    """Cautious Lion: only where direction and gradient agree. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0001, *, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None: ...

class LAMB(Formula):
    """LAMB: layer-wise rates for large batches. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-06, weight_decay: float = 0.01, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class LARS(Formula):
    """LARS: layer-wise rates for SGD. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.01, *, momentum: float = 0.9, dampening: float = 0.0,
                 weight_decay: float = 0.0, trust_coefficient: float = 0.001, eps: float = 1e-08,
                 maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None: ...

class Lion(Formula):
    """Lion: the sign of the interpolated momentum. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0001, *, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None: ...

class MARS(Formula):
    """MARS: AdamW with variance reduction. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.003, *, betas: tuple[float, float] = (0.95, 0.99),
                 gamma: float = 0.025, eps: float = 1e-08, weight_decay: float = 0.0, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class NovoGrad(Formula):
    """NovoGrad: one second moment per tensor. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.01, *, betas: tuple[float, float] = (0.95, 0.98),
                 eps: float = 1e-08, weight_decay: float = 0.0, grad_averaging: bool = False, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class Prodigy(Formula):
    """Prodigy: Adam without a learning rate to tune. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, *,
                 betas: tuple[float, float, float] = (0.9, 0.999, 0.9994998749), eps: float = 1e-08,
                 weight_decay: float = 0.0, d_coef: float = 1.0, growth_rate: float = 1e+300, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class SM3(Formula):
    """SM3: per-row and per-column second moments; elements use the smaller one. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.1, *, beta: float = 0.0, eps: float = 1e-30,
                 momentum: float = 0.0, maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None: ...

class ScheduleFreeAdamW(ScheduleFree):
    """Schedule-Free AdamW: an average instead of a schedule. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0025, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.0, warmup_steps: float = 0.0, r: float = 0.0,
                 weight_lr_power: float = 2.0, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class ScheduleFreeSGD(ScheduleFree):
    """Schedule-Free SGD: an average instead of a schedule. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, *, momentum: float = 0.9,
                 warmup_steps: float = 0.0, r: float = 0.0, weight_lr_power: float = 2.0, weight_decay: float = 0.0,
                 maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None: ...

class Signum(Formula):
    """Signum: the sign of the momentum. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, momentum: float = 0.9,
                 weight_decay: float = 0.0, maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None: ...

class Sophia(Formula):
    """Sophia: clipped steps by the Hessian's diagonal. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0006, *, beta1: float = 0.965, gamma: float = 0.01,
                 eps: float = 1e-12, weight_decay: float = 0.1, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

class StableAdamW(Formula):
    """StableAdamW: AdamW that large gradients slow down. Options: OptimizerOptions."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.99),
                 eps: float = 1e-06, weight_decay: float = 0.01, maximize: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None: ...

__all__ = ['ADOPT', 'AdEMAMix', 'AdaBelief', 'AdamWCautiousDecay', 'AdamWIndependentDecay', 'Adammini', 'Adan', 'CautiousAdamW', 'CautiousLion', 'LAMB', 'LARS', 'Lion', 'MARS', 'NovoGrad', 'Prodigy', 'SM3', 'ScheduleFreeAdamW', 'ScheduleFreeSGD', 'Signum', 'Sophia', 'StableAdamW']
