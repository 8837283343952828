"""The forms of a parameter's weights, for users: f32 values, scales of 8-bit copies, averages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from . import orders, packed, packed_shards, private, stored
from .groups import find
from .tensors import is_distributed, local


class Weights:
    """A base of the optimizers, which have `state` and `param_groups`."""

    param_groups: list[dict[str, Any]]
    state: Any
    _shows_averages = False
    _scales: dict[Tensor, Tensor] | None = None  # scales of copies by parameter; these tensors are never replaced
    _packed: dict[Tensor, packed.Packed] | None = None  # copies in 4 bits, by parameter
    _ordered: dict[Tensor, orders.Ordered] | None = None  # copies in other orders, by parameter

    @torch.no_grad()
    def set_weight(self, param: Tensor | str, values: Tensor) -> None:
        """Sets a parameter to these f32 values, with its master (or missing bits) and the scale of an 8-bit copy.

        The values have the parameter's shape; others raise ValueError. A DTensor takes a DTensor that is placed like it, and
        all ranks call this. With copy_scale= they may also be the whole parameter's values.

        Example:
            >>> optimizer.set_weight(layer.weight, torch.randn(layer.weight.shape) * 0.02)
        """
        group, place = find(self.param_groups, param)
        p = group["params"][place]
        if values.shape != p.shape:
            raise ValueError(f"{type(self).__name__}.set_weight(): expected values of the parameter's shape, {tuple(p.shape)}; got {tuple(values.shape)}")
        state, way = self.state[p], stored.scale_mode(group, p)
        if way is not None:
            return stored.start_from(self._live_scales(), state, p, way, values)
        if stored.find_rest(state) is None and p.dtype != torch.float32 and not group.get("weight_rounding"):
            state["master"] = torch.empty_like(p, dtype=torch.float32)
        stored.store(state, p, values)

    def copy_scale_inv(self, param: Tensor | str) -> Tensor:
        """Returns the factor from codes to values of an 8-bit parameter with copy_scale=: always the same tensor, which steps change.

        It is one f32 number per tensor. With "mx" and "mx-rceil" it is a power of two per 32 elements (torch.float8_e8m0fnu), in the
        parameter's shape if rows are a multiple of 32 elements, and otherwise in the order of memory. With "block128" and
        "block128-f32" it is an f32 number per 128 rows by 128 columns. Columns are the last dimension, and all others count as rows;
        with three or more dimensions the order is that of memory (in channels_last, channels are columns). A parameter without a
        scale raises ValueError.
        """
        p, scales = self._scaled(param)
        return stored.to_visible_scales(scales, p)

    def dequantized(self, param: Tensor | str, dtype: torch.dtype = torch.float32, *, codes: Tensor | None = None) -> Tensor:
        """Returns an 8-bit parameter with copy_scale= times its scales, for a forward pass. The gradient is the parameter's, which has
        8 bits, too, unless `param.grad_dtype` says otherwise (torch >= 2.10).

        The result has the parameter's shape and `dtype`. A parameter without a scale raises ValueError.

        Under FSDP2 `codes` is the whole parameter that a module has in its forward pass, in any dtype. All ranks must then call it,
        because shards may have their own scales.

        Example:
            >>> linear(x, optimizer.dequantized(weight))
        """
        p, scales = self._scaled(param)
        if codes is None:
            return stored.Dequantized.apply(p, scales, dtype)
        return stored.Dequantized.apply(codes, scales.full_tensor().reshape(-1) if is_distributed(scales) else scales, dtype)

    def quantized(self, param: Tensor | str, dtype: torch.dtype = torch.float32, plain: bool = False, transposed: bool = False) -> Any:
        """Returns a parameter's copy as matrix products of few bits take it: torchao's MXTensor ("mxfp8", "mx") or NVFP4Tensor
        ("nvfp4"), whose values have `dtype`. With plain=True it is a tuple (codes, scales, tensor_scale) of torch's tensors, for every
        copy_scale, and needs no torchao. Steps write to the same memory. Ask again after anything else has written to the parameter.

        Of a parameter of shape (…, columns) the codes have shape (…, columns), or (…, columns / 2) as bytes in 4 bits, and the scales
        (…, columns / 32), or (…, columns / 16) in 4 bits. tensor_scale is one f32 number in 4 bits, and otherwise None. With
        scale_layout="swizzled" the scales of a matrix have one dimension, in cuBLASLt's order. transposed=True returns the same of the
        transposed matrix, which has shape (columns, rows) and which orientation="both" makes. If each rank of a DTensor copies its own
        rows ("mxfp8", "mx", "nvfp4"), plain=True returns these, with the tensor_scale of the whole tensor. With "nvfp4" all ranks must
        write to a parameter, and all must ask again afterwards. A parameter without such a copy raises ValueError.

        Example:
            >>> optimizer = stepfuse.torch.AdamW(model.parameters(), copy_scale="nvfp4", orientation="both", scale_layout="swizzled")
            >>> codes, scales, tensor_scale = optimizer.quantized(layer.weight, plain=True)
            >>> codes, scales, tensor_scale = optimizer.quantized(layer.weight, plain=True, transposed=True)
        """
        group, place = find(self.param_groups, param)
        p = group["params"][place]
        arrays, who = self._copy_of(p, group), f"{type(self).__name__}: a parameter of shape {tuple(p.shape)} with copy_scale={group['copy_scale']!r}"
        of_blocks = arrays.scales.element_size() == 1 and arrays.scales.shape[:-1] == arrays.codes.shape[:-1]
        if not plain and (not of_blocks or is_distributed(p)) or is_distributed(arrays.scales):
            raise ValueError(f"{who} cannot be an MX tensor, which needs copy_scale='mxfp8' or 'mx', whole blocks of 32 in each row, and no DTensor")
        swizzled = False
        if orders.options_of(group, p, group["copy_scale"]):
            ordered = self._find_ordered(p, group)[0]
            arrays, swizzled = ordered.choose(arrays, transposed), ordered.swizzles
        elif transposed:
            arrays = None
        if arrays is None:
            raise ValueError(f"{who} has no transposed copy; give its group orientation='both', which makes one of each matrix")
        return arrays if plain else packed.to_torchao(arrays, dtype, swizzled)

    def _copy_of(self, p: Tensor, group: dict[str, Any]) -> orders.Quantized:
        """Returns a parameter's copy with scales by rows."""
        if packed.scale_mode(group, p) is not None:
            return packed_shards.find(self._live_packed(), p, group["copy_scale"]).arrays(p)
        p, scales = self._scaled(p)
        scales = stored.to_visible_scales(scales, p)
        return orders.Quantized(local(p).detach(), local(scales) if is_distributed(p) and is_distributed(scales) else scales, None)

    def _find_ordered(self, p: Tensor, group: dict[str, Any]) -> tuple[orders.Ordered, Tensor, Tensor | None]:
        """Returns a parameter's copy in other orders, and the codes and scales that it is made from."""
        if self._ordered is None:
            self._ordered = {}
        codes, scales, _ = self._copy_of(p, group)
        return orders.find(self._ordered, p, group, codes, scales), codes, scales

    def _live_packed(self) -> dict[Tensor, packed.Packed]:
        if self._packed is None:
            self._packed = {}
        return self._packed

    def _scaled(self, param: Tensor | str) -> tuple[Tensor, Tensor]:
        group, place = find(self.param_groups, param)
        p = group["params"][place]
        way = stored.scale_mode(group, p)
        if way is None:
            who = f"{type(self).__name__}: a parameter of shape {tuple(p.shape)} in {p.dtype}"
            if packed.scale_mode(group, p) is not None:
                raise ValueError(f"{who} is its own master, and has no scale; quantized() returns its copy in 4 bits, with that copy's scales")
            raise ValueError(f"{who} has no scale; convert it to 8 bits, and give its group copy_scale=")
        return p, stored.current_scales(self._live_scales(), self.state.get(p), p, way)

    def _live_scales(self) -> dict[Tensor, Tensor]:
        if self._scales is None:
            self._scales = {}
        return self._scales

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside of the context, the parameters are their moving averages (ema_decay=), to evaluate or save the model.

        Example:
            >>> with optimizer.averaged():
            ...     validate(model)
        """
        states = [(p, s) for p, s in self.state.items() if "ema" in s]
        if not states:
            raise RuntimeError(f"{type(self).__name__} has no averages; pass ema_decay= to the constructor, and make a step")
        ways = {p: stored.scale_mode(g, p) for g in self.param_groups for p in g["params"]}
        for p, s in states:
            stored.convert_scales(self._live_scales(), s, p, ways.get(p))
        scaled = [(p, s) for p, s in states if ways.get(p)]
        shown = [local(p) for p, _ in states] + [local(s[stored.find_scales(s)]) for _, s in scaled]
        weights = [t.detach().clone() for t in shown]
        self._shows_averages = True
        try:
            with torch.no_grad():
                private.copy_all(shown[:len(states)], [local(s["ema"]) for _, s in states])
                for p, s in scaled:
                    stored.quantize_into(s, p, s["ema"], ways[p])
            yield
        finally:
            self._shows_averages = False
            with torch.no_grad():
                private.copy_all(shown, weights)
