"""State of FlashOptim's optimizers to this package's. Knows torch only, not FlashOptim.

Its compressed moments are formats int8_f16 and sqrt8_f16 bit for bit, and the error bits of bf16 weights are state `correction`, of 8
bits for master_weight_bits=24 and 16 bits for 32. So only names and types change here; the library converts what an optimizer stores
otherwise.
"""

from __future__ import annotations

from typing import Any

import torch

CODES, SCALES, ERRORS = "::quantized", "::scales", "error_bits"
FORMS = {torch.int8: "int8_f16", torch.uint8: "sqrt8_f16"}  # by the type of the codes
BF16_BYTES = 2


def renamed(index: int, values: dict[str, Any], bytes_of_master: int | None) -> dict[str, Any]:
    """A parameter's state with this package's names; as it is where it has none of FlashOptim's."""
    made = {}
    for name, value in values.items():
        if name.endswith(CODES):
            moment = name.removesuffix(CODES)
            scales = values.get(moment + SCALES)
            if value.dtype not in FORMS or scales is None:
                raise ValueError(f"state '{name}' of parameter {index} is {value.dtype}, with '{moment + SCALES}' {'missing' if scales is None else 'there'}: "
                                 "FlashOptim's codes are int8 or uint8, with scales; save the state again with its own library")
            form = FORMS[value.dtype]
            made[f"{moment}.{form}.code"] = value
            made[f"{moment}.{form}.scale"] = scales.view(torch.float16)  # saved as bfloat16 of the same bits for bf16 parameters
        elif name == ERRORS:
            if bytes_of_master is None:
                continue  # which FlashOptim ignores, too
            if bytes_of_master - BF16_BYTES == 1:
                made["correction"] = value.to(torch.int8)  # saved as numbers of the parameter's type
            else:
                made["correction16"] = value.view(torch.int16)
        elif not name.endswith(SCALES):
            made[name] = value
    return made


def unwrapped(state_dict: dict[str, Any]) -> dict[str, Any]:
    """A state_dict whose FlashOptim arrays are this package's; any other as it is."""
    masters = {index: group.get("master_bytewidth") for group in state_dict["param_groups"] for index in group["params"]}
    state = {index: renamed(index, values, masters.get(index)) if isinstance(values, dict) else values
             for index, values in state_dict["state"].items()}
    groups = [{key: value for key, value in group.items() if key != "master_bytewidth"} for group in state_dict["param_groups"]]
    return {**state_dict, "state": state, "param_groups": groups}
