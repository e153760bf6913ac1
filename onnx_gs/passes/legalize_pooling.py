"""Pooling with dilations, or with a norm that TensorRT lacks: the shifted copies of the input, joined element by element."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Tensor

_MOST_PLACES = 64
_NORMS = (1, 2)


class _Windows:
    """The geometry of a pooling operator, all sizes known."""

    def __init__(self, case: Case) -> None:
        shape, out = case.shape(case.node.inputs[0]), case.shape(case.node.outputs[0])
        if shape is None or out is None or any(d is None for d in (*shape[2:], *out[2:])):
            raise Declined("the sizes are not known")
        self.kernel = [int(k) for k in case.node.attrs["kernel_shape"]]
        axes = len(self.kernel)
        self.strides = [int(s) for s in case.node.attrs.get("strides") or [1] * axes]
        self.dilations = [int(d) for d in case.node.attrs.get("dilations") or [1] * axes]
        self.sizes, self.out = [int(d) for d in shape[2:]], [int(d) for d in out[2:]]
        if int(np.prod(self.kernel)) > _MOST_PLACES:
            raise Declined("the window is large")
        self.reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(self.out, self.strides, self.kernel, self.dilations)]
        self.before, self.given_after = self._pads(case)
        # what the last window reaches beyond, by rounding up, is padding that does not count
        self.after = [max(r - b - n, 0) for r, b, n in zip(self.reach, self.before, self.sizes)]

    def _pads(self, case: Case) -> tuple[list[int], list[int]]:
        axes = len(self.kernel)
        mode = case.attribute("auto_pad") or "NOTSET"
        if mode in {"SAME_UPPER", "SAME_LOWER"}:
            if any(d != 1 for d in self.dilations):
                raise Declined("automatic padding with dilations, of which there are two readings")
            total = [max(r - n, 0) for r, n in zip(self.reach, self.sizes)]
            small, large = [t // 2 for t in total], [t - t // 2 for t in total]
            return (small, large) if mode == "SAME_UPPER" else (large, small)
        pads = [int(p) for p in case.node.attrs.get("pads") or [0] * (2 * axes)] if mode == "NOTSET" else [0] * (2 * axes)
        return pads[:axes], pads[axes:]

    def shifted(self, case: Case, x: Tensor, filler: np.ndarray[Any, Any]) -> list[Tensor]:
        """Give one tensor of the output's shape for each place of the window."""
        emit = case.emit
        if any(self.before) or any(self.after):
            pads = emit.constant(np.array([0, 0, *self.before, 0, 0, *self.after], np.int64))
            padded = [None if d is None else d for d in x.shape[:2]] + [b + n + a for b, n, a in zip(self.before, self.sizes, self.after)]
            x = emit.op("Pad", x, pads, emit.constant(filler), dtype=x.dtype, shape=padded)
        made: list[Tensor] = []
        axes = emit.constant(np.arange(2, 2 + len(self.kernel), dtype=np.int64))
        steps = emit.constant(np.array(self.strides, np.int64))
        for place in itertools.product(*map(range, self.kernel)):
            starts = [p * d for p, d in zip(place, self.dilations)]
            ends = [s + (o - 1) * step + 1 for s, o, step in zip(starts, self.out, self.strides)]
            bounds = [emit.constant(np.array(b, np.int64)) for b in (starts, ends)]
            made.append(emit.op("Slice", x, *bounds, axes, steps, dtype=x.dtype, shape=[*x.shape[:2], *self.out]))
        return made

    def counts(self, *, with_pads: bool) -> np.ndarray[Any, Any]:
        """Give how many elements each window averages."""
        found: np.ndarray[Any, Any] = np.ones((), np.float64)
        for k, size in enumerate(self.sizes):
            low, high = (-self.before[k], size + self.given_after[k]) if with_pads else (0, size)
            starts = np.arange(self.out[k]) * self.strides[k] - self.before[k]
            places = starts[:, None] + np.arange(self.kernel[k])[None, :] * self.dilations[k]
            found = found[..., None] * ((places >= low) & (places < high)).sum(1)
        return found


def _is_dilated(case: Case) -> bool:
    return any(int(d) != 1 for d in case.node.attrs.get("dilations") or ())


def _joined(case: Case, op: str, parts: list[Tensor]) -> Tensor:
    made = parts[0]
    for part in parts[1:]:
        made = case.emit.elementwise(op, made, part)
    return made


def _typed(case: Case) -> tuple[Tensor, np.dtype[Any]]:
    x = case.typed(case.node.inputs[0])
    dtype = case.dtype(x)
    if dtype not in {dtypes.FLOAT, dtypes.FLOAT16} or dtype is None or x.shape is None:
        raise Declined("the element type is no float, or the rank is not known")
    return x, dtype.numpy


def _max_pool(case: Case) -> Sequence[Tensor | None] | None:
    """The maximum of the shifted copies: TensorRT's pooling has no dilations."""
    if not _is_dilated(case) or case.is_used(1) or len(case.node.outputs) > 1:
        return None
    x, dtype = _typed(case)
    return [_joined(case, "Max", _Windows(case).shifted(case, x, np.array(-np.inf, dtype)))]


def _average_pool(case: Case) -> Sequence[Tensor | None] | None:
    """The sum of the shifted copies, divided by how many there are: TensorRT's pooling has no dilations."""
    if not _is_dilated(case):
        return None
    x, dtype = _typed(case)
    windows = _Windows(case)
    total = _joined(case, "Add", windows.shifted(case, x, np.zeros((), dtype)))
    counts = windows.counts(with_pads=bool(case.attribute("count_include_pad")))
    return [case.emit.elementwise("Div", total, case.emit.constant(counts.astype(dtype)))]


def _lp_pool(case: Case) -> Sequence[Tensor | None] | None:
    """The root of the sum of powers: TensorRT has the norms 1 and 2, without dilations."""
    p = int(case.attribute("p") or 2)
    if p in _NORMS and not _is_dilated(case):
        return None
    x, dtype = _typed(case)
    emit = case.emit
    powers = emit.elementwise("Pow", emit.elementwise("Abs", x), emit.constant(np.array(p, dtype)))
    total = _joined(case, "Add", _Windows(case).shifted(case, powers, np.zeros((), dtype)))
    return [emit.elementwise("Pow", total, emit.constant(np.array(1 / p, dtype)))]


RULES: dict[str, tuple[Rule, ...]] = {"MaxPool": (_max_pool,), "AveragePool": (_average_pool,), "LpPool": (_lp_pool,)}
