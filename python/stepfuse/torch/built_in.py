"""Classes for the built-in formulas that torch.optim does not have. Each class is made from its formula.

The class name is the first word of the formula's help: "LAMB: layer-wise rates for large batches". built_in.pyi declares the
classes for editors; tools/python_stubs.py writes it.
"""

from .. import _core
from . import optimizers
from .formula import Formula, ScheduleFree

DROP_INS = {cls._recipe for cls in vars(optimizers).values() if hasattr(cls, "_recipe")}  # torch has them
NO_FORMULAS = {"accumulate", "loss_scale_update", "muon_momentum", "muon_update"}


def classes() -> dict[str, type[Formula]]:
    made = {}
    for recipe, help in _core.recipes().items():
        if recipe not in DROP_INS | NO_FORMULAS:
            name = help.partition(":")[0].replace(" ", "").replace("-", "")
            inside = {"__module__": __name__, "__doc__": f"{help}. Options: OptimizerOptions.", "formula": recipe}
            if recipe == "lion":
                inside["profile"] = "standard"
            made[name] = type(name, (ScheduleFree if name.startswith("ScheduleFree") else Formula,), inside)
    return made


globals().update(classes())
__all__ = sorted(classes())
