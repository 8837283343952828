#!/usr/bin/env python3
"""Writes python/stepfuse/torch/built_in.pyi, the classes of built-in formulas as an editor wants them; knows the package.

    PYTHONPATH=build/python tools/python_stubs.py
"""

import inspect
import pathlib
import textwrap

from stepfuse.torch import built_in
from stepfuse.torch.options import OPTIONS

FILE = pathlib.Path(__file__).resolve().parents[1] / "python/stepfuse/torch/built_in.pyi"
HEAD = '''"""Written by tools/python_stubs.py."""

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .formula import Formula, ScheduleFree
from .options import OptimizerOptions
'''


def argument(parameter):
    default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
    return f"{parameter.name}: {parameter.annotation}{default}"


def stub(name):
    cls = getattr(built_in, name)
    parts = ["self"]
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.name in OPTIONS:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(argument(parameter))
    parts.append("**options: Unpack[OptimizerOptions]")
    lines = textwrap.wrap(", ".join(p.replace(" ", "~") for p in parts) + ")~->~None:~...", 100)
    text = ("\n" + " " * 17).join(lines).replace("~", " ")
    return f'class {name}({cls.__base__.__name__}):\n    """{cls.__doc__}"""\n    def __init__({text}\n'


def text():
    return "\n".join([HEAD, *map(stub, built_in.__all__), f"__all__ = {built_in.__all__!r}\n"])


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
