"""Written by tools/python_stubs.py."""

from torch import Tensor
from torch.optim.optimizer import ParamsT

from .formula import Formula, ScheduleFree
from .scaler import LossScaler

class ADOPT(Formula):
    """ADOPT: Adam that converges with any beta2. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.9999),
                 eps: float = 1e-06, weight_decay: float = 0.0, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class AdEMAMix(Formula):
    """AdEMAMix: Adam with a second, slow momentum. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *,
                 betas: tuple[float, float, float] = (0.9, 0.999, 0.9999), alpha: float = 5.0, eps: float = 1e-08,
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0, ema_decay: float | None = None,
                 moments: str | None = None, moments_min: int = 4096, master: str | None = None,
                 clip_factor: float | None = None, copy_scale: str | None = None) -> None: ...

class AdaBelief(Formula):
    """AdaBelief: steps by how the gradient was predicted. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-16, weight_decay: float = 0.0, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class AdamWCautiousDecay(Formula):
    """AdamW Cautious Decay: weight decay where the update agrees. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.1, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class AdamWIndependentDecay(Formula):
    """AdamW Independent Decay: weight decay that lr does not scale. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.0001, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class Adammini(Formula):
    """Adam-mini: one second moment for each tensor. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.0, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class Adan(Formula):
    """Adan: adaptive Nesterov momentum. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *,
                 betas: tuple[float, float, float] = (0.98, 0.92, 0.99), eps: float = 1e-08,
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0, ema_decay: float | None = None,
                 moments: str | None = None, moments_min: int = 4096, master: str | None = None,
                 clip_factor: float | None = None, copy_scale: str | None = None) -> None: ...

class CautiousAdamW(Formula):
    """Cautious AdamW: only where momentum and gradient agree. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.01, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class CautiousLion(Formula):
    """Cautious Lion: only where direction and gradient agree. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0001, *, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0, ema_decay: float | None = None,
                 moments: str | None = None, moments_min: int = 4096, master: str | None = None,
                 clip_factor: float | None = None, copy_scale: str | None = None) -> None: ...

class LAMB(Formula):
    """LAMB: layer-wise rates for large batches. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-06, weight_decay: float = 0.01, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class LARS(Formula):
    """LARS: layer-wise rates for SGD. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.01, *, momentum: float = 0.9, dampening: float = 0.0,
                 weight_decay: float = 0.0, trust_coefficient: float = 0.001, eps: float = 1e-08,
                 maximize: bool = False, max_norm: float | None = None, norm_type: float = 2.0,
                 external_norm: bool = False, scaler: LossScaler | None = None, weight_rounding: str | None = None,
                 seed: int = 0, ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class Lion(Formula):
    """Lion: the sign of the interpolated momentum. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0001, *, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0, ema_decay: float | None = None,
                 moments: str | None = None, moments_min: int = 4096, master: str | None = None,
                 clip_factor: float | None = None, copy_scale: str | None = None) -> None: ...

class MARS(Formula):
    """MARS: AdamW with variance reduction. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.003, *, betas: tuple[float, float] = (0.95, 0.99),
                 gamma: float = 0.025, eps: float = 1e-08, weight_decay: float = 0.0, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class NovoGrad(Formula):
    """NovoGrad: second moments of whole tensors. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.01, *, betas: tuple[float, float] = (0.95, 0.98),
                 eps: float = 1e-08, weight_decay: float = 0.0, grad_averaging: bool = False, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class Prodigy(Formula):
    """Prodigy: Adam without a learning rate to tune. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, *,
                 betas: tuple[float, float, float] = (0.9, 0.999, 0.9994998749), eps: float = 1e-08,
                 weight_decay: float = 0.0, d_coef: float = 1.0, growth_rate: float = 1e+300, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class SM3(Formula):
    """SM3: second moments of rows and columns, the smaller one counts. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.1, *, beta: float = 0.0, eps: float = 1e-30,
                 momentum: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0, ema_decay: float | None = None,
                 moments: str | None = None, moments_min: int = 4096, master: str | None = None,
                 clip_factor: float | None = None, copy_scale: str | None = None) -> None: ...

class ScheduleFreeAdamW(ScheduleFree):
    """Schedule-Free AdamW: an average in place of a schedule. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0025, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.0, warmup_steps: float = 0.0, r: float = 0.0,
                 weight_lr_power: float = 2.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0, ema_decay: float | None = None,
                 moments: str | None = None, moments_min: int = 4096, master: str | None = None,
                 clip_factor: float | None = None, copy_scale: str | None = None) -> None: ...

class ScheduleFreeSGD(ScheduleFree):
    """Schedule-Free SGD: an average in place of a schedule. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, *, momentum: float = 0.9,
                 warmup_steps: float = 0.0, r: float = 0.0, weight_lr_power: float = 2.0, weight_decay: float = 0.0,
                 maximize: bool = False, max_norm: float | None = None, norm_type: float = 2.0,
                 external_norm: bool = False, scaler: LossScaler | None = None, weight_rounding: str | None = None,
                 seed: int = 0, ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class Signum(Formula):
    """Signum: the sign of the momentum. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, momentum: float = 0.9,
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0, ema_decay: float | None = None,
                 moments: str | None = None, moments_min: int = 4096, master: str | None = None,
                 clip_factor: float | None = None, copy_scale: str | None = None) -> None: ...

class Sophia(Formula):
    """Sophia: clipped steps by the Hessian's diagonal. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0006, *, beta1: float = 0.965, gamma: float = 0.01,
                 eps: float = 1e-12, weight_decay: float = 0.1, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

class StableAdamW(Formula):
    """StableAdamW: AdamW that large gradients slow down. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.99),
                 eps: float = 1e-06, weight_decay: float = 0.01, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0,
                 ema_decay: float | None = None, moments: str | None = None, moments_min: int = 4096,
                 master: str | None = None, clip_factor: float | None = None,
                 copy_scale: str | None = None) -> None: ...

__all__ = ['ADOPT', 'AdEMAMix', 'AdaBelief', 'AdamWCautiousDecay', 'AdamWIndependentDecay', 'Adammini', 'Adan', 'CautiousAdamW', 'CautiousLion', 'LAMB', 'LARS', 'Lion', 'MARS', 'NovoGrad', 'Prodigy', 'SM3', 'ScheduleFreeAdamW', 'ScheduleFreeSGD', 'Signum', 'Sophia', 'StableAdamW']
