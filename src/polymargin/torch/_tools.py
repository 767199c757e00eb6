"""What losses and regularisers share: precision, checks, and powers with a gradient at 0."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

_HALF = (torch.float16, torch.bfloat16)


def in_full(values: Tensor, name: str) -> Tensor:
    """Half precision as float32: sums of many classes and fourth powers leave its range."""
    if not values.is_floating_point():
        raise TypeError(f"{name} has dtype {values.dtype}; scores and weights must be floating point numbers.")
    return values.float() if values.dtype in _HALF else values


def without_autocast(values: Tensor) -> torch.autocast:
    """A context in which matrix products keep the precision of their factors."""
    return torch.autocast(values.device.type, enabled=False)


def may_look_at(values: Tensor) -> bool:
    """Whether values can be checked for free: elsewhere it would wait for the device, or break a compiled graph."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def power(base: Tensor, exponent: float) -> Tensor:
    """``base ** exponent`` for base >= 0, with the derivative 0 at 0 where autograd would say 0 * inf = NaN."""
    positive = base > 0.0
    return torch.where(positive, torch.where(positive, base, 1.0) ** exponent, 0.0)


def weight_and_bias(layer: nn.Module | Tensor, name: str) -> tuple[Tensor, Tensor | None]:
    """Class vectors ``(c, d)`` in full precision and offsets, of a layer or of a weight alone."""
    weight = layer if isinstance(layer, Tensor) else getattr(layer, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        found = f"a tensor of shape {tuple(weight.shape)}" if isinstance(weight, Tensor) else type(layer).__name__
        raise TypeError(
            f"{name} takes an nn.Linear, or its weight of shape (classes, features), one class vector a row; got {found}."
        )
    bias = None if isinstance(layer, Tensor) else getattr(layer, "bias", None)
    return in_full(weight, "the weight"), None if bias is None else in_full(bias, "the bias")


def number(
    name: str, value: Any, *, low: float, high: float = math.inf, open_low: bool = False, open_high: bool = False
) -> float:
    """A number in an interval; errors name the argument, its value and the interval."""
    x = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan  # nan is in no interval
    if not ((low < x if open_low else low <= x) and (x < high if open_high else x <= high)):
        left, right = "<" if open_low else "<=", "<" if open_high else "<="
        bounds = f"{low:g} {left} {name}" + ("" if high == math.inf and not open_high else f" {right} {high:g}")
        raise ValueError(f"{name}={value!r} is not valid: it must be a number with {bounds}.")
    return x


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not valid: use {', '.join(map(repr, choices))}.")
    return str(value)
