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
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0) -> None: ...

class AdEMAMix(Formula):
    """AdEMAMix: Adam with a second, slow momentum. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *,
                 betas: tuple[float, float, float] = (0.9, 0.999, 0.9999), alpha: float = 5.0, eps: float = 1e-08,
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0) -> None: ...

class AdaBelief(Formula):
    """AdaBelief: steps by how the gradient was predicted. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-16, weight_decay: float = 0.0, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0) -> None: ...

class Adan(Formula):
    """Adan: adaptive Nesterov momentum. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *,
                 betas: tuple[float, float, float] = (0.98, 0.92, 0.99), eps: float = 1e-08,
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0) -> None: ...

class LAMB(Formula):
    """LAMB: layer-wise rates for large batches. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-06, weight_decay: float = 0.01, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0) -> None: ...

class LARS(Formula):
    """LARS: layer-wise rates for SGD. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.01, *, momentum: float = 0.9, dampening: float = 0.0,
                 weight_decay: float = 0.0, trust_coefficient: float = 0.001, eps: float = 1e-08,
                 maximize: bool = False, max_norm: float | None = None, norm_type: float = 2.0,
                 external_norm: bool = False, scaler: LossScaler | None = None, weight_rounding: str | None = None,
                 seed: int = 0) -> None: ...

class Lion(Formula):
    """Lion: the sign of the interpolated momentum. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0001, *, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0) -> None: ...

class ScheduleFreeAdamW(ScheduleFree):
    """Schedule-Free AdamW: an average in place of a schedule. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.0025, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-08, weight_decay: float = 0.0, maximize: bool = False,
                 max_norm: float | None = None, norm_type: float = 2.0, external_norm: bool = False,
                 scaler: LossScaler | None = None, weight_rounding: str | None = None, seed: int = 0) -> None: ...

class ScheduleFreeSGD(ScheduleFree):
    """Schedule-Free SGD: an average in place of a schedule. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, *, momentum: float = 0.9,
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0) -> None: ...

class Signum(Formula):
    """Signum: the sign of the momentum. Further arguments as of AdamW."""
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.001, *, momentum: float = 0.9,
                 weight_decay: float = 0.0, maximize: bool = False, max_norm: float | None = None,
                 norm_type: float = 2.0, external_norm: bool = False, scaler: LossScaler | None = None,
                 weight_rounding: str | None = None, seed: int = 0) -> None: ...

__all__ = ['ADOPT', 'AdEMAMix', 'AdaBelief', 'Adan', 'LAMB', 'LARS', 'Lion', 'ScheduleFreeAdamW', 'ScheduleFreeSGD', 'Signum']
