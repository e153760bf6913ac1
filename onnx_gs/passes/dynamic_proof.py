"""The proof that a fixed axis became symbolic rightly: both models run, with the old size and with twice that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import EvaluationError
from onnx_gs.evaluate import feeds, onnxruntime
from onnx_gs.evaluate.compare import compare
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx_gs.ir import Graph
    from onnx_gs.ir.tensor import Tensor

#: By how much results in narrow types may differ when more are computed at once, which adds them up in another order: a few units in the last place.
_NARROW = {dtypes.FLOAT16: 5e-3, dtypes.BFLOAT16: 4e-2}


class Unproved(Exception):  # noqa: N818 - it is an answer, not a fault of the caller
    """The axis cannot be made symbolic, and why."""


def prove(before: Graph, after: Graph, axes: Mapping[str, int], symbol: str, *, parts: bool) -> None:
    """Run both with the old size, and the new one with twice that.

    Args:
        before: the model with the fixed axis.
        after: the model with the symbolic one.
        axes: the axis, counted from the front, by the name of the input that has it.
        symbol: its name in ``after``.
        parts: whether nothing but equal results of each part of the axis proves it.

    Raises:
        Unproved: a result differs, or the model does not run.
    """
    old = next(int(t.shape[axes[t.name]]) for t in before.inputs if t.name in axes)
    for t, was in zip(after.outputs, before.outputs):
        _refuse_kept(t, was.shape, t.shape, set(axes.values()), old)
    try:
        session, changed = onnxruntime.session(before), onnxruntime.session(after)
    except EvaluationError as error:
        raise Unproved(f"it does not run: {error.what}") from error
    has_integers = any((known := dtypes.of(t)) is not None and known.kind in {"int", "uint"} for t in before.inputs)
    refused, proved = "", False
    for high in (10, 2, 1) if has_integers else (10,):  # masks hardly differ by being 0 or not when they hold up to 9, lengths may be too large
        fed = _Fed(before, axes, symbol, old, high=high)
        try:
            wanted, other = session.run(fed.first), session.run(fed.second)
        except EvaluationError as error:
            refused = refused or error.what
            continue
        _prove_on(changed, after.outputs, fed, wanted, other, parts=parts)
        proved = True
        if high == 2:
            break
    if not proved:
        raise Unproved(f"it does not run: {refused}")


class _Fed:
    """Two sets of inputs that differ in what has the axis, and both together."""

    def __init__(self, graph: Graph, axes: Mapping[str, int], symbol: str, old: int, high: int) -> None:
        self.symbol, self.old = symbol, old
        self.axes = set(axes.values())
        variant = next(i for i, size in enumerate(feeds.SIZES) if size != old)  # so that no other dim is taken for the axis
        self.first, other = (feeds.make(graph, seed, variant, high=high) for seed in (0, 1))
        self.second = {k: v if k in axes else self.first[k] for k, v in other.items()}
        self.both = {k: np.concatenate([v, self.second[k]], axis=axes[k]) if k in axes else v for k, v in self.first.items()}


def _refuse_kept(t: Tensor, was: Sequence[Any] | None, now: Sequence[Any] | None, axes: set[int], old: int) -> None:
    """See that an output with the old size on an axis follows; where the inputs have it on different axes, one of them is enough.

    Raises:
        Unproved: it has the size that it had.
    """
    kept = [axis for axis in sorted(axes) if was is not None and len(was) > axis and was[axis] == old]
    follows = [axis for axis in kept if now is not None and now[axis] != old]
    if kept and (len(follows) < len(kept) if len(axes) == 1 else not follows):
        raise Unproved(f"output '{t.name}' keeps the size {old} on axis {kept[0]}, so something between takes no more")


def _begins_with(value: Any, size: int) -> bool:
    return hasattr(value, "shape") and len(value.shape) > 0 and value.shape[0] == size


def _prove_on(changed: Any, outputs: Sequence[Tensor], fed: _Fed, wanted: dict[str, Any], other: dict[str, Any], *, parts: bool) -> None:
    """Hold the results of the changed model, with the old size and with twice that, against those of the model.

    Args:
        changed: the changed model.
        outputs: its outputs.
        fed: two sets of inputs.
        wanted: what the model gives for the first set.
        other: what it gives for the second.
        parts: as for ``prove``.

    Raises:
        Unproved: a result differs, or the model does not run.
    """
    try:
        got = changed.run(fed.first)
        for name, value in wanted.items():
            difference = compare(value, got[name])
            if difference is not None:
                raise Unproved(f"with the old size output '{name}' differs: {difference}")
        doubled = changed.run(fed.both)
    except EvaluationError as error:
        raise Unproved(f"it does not run: {error.what}") from error
    for t in outputs:
        declared, value, was = t.shape, doubled[t.name], wanted[t.name]
        if not hasattr(value, "shape"):
            continue
        _refuse_kept(t, was.shape, value.shape, fed.axes, fed.old)  # whatever is declared
        for i, d in enumerate(declared or ()):
            if d == fed.symbol and value.shape[i] != 2 * fed.old:
                raise Unproved(f"output '{t.name}' has {value.shape[i]} on axis {i}, where {2 * fed.old} was expected")
    if 0 not in fed.axes or not all(_begins_with(wanted[t.name], fed.old) and _begins_with(doubled[t.name], 2 * fed.old) for t in outputs):
        if parts:
            raise Unproved("constants pick from the axis, and only outputs that all lead with it would prove that they pick all of it")
        return
    for t in outputs:
        narrow = _NARROW.get(dtypes.of(t) or dtypes.FLOAT)
        absolute, relative = (narrow, narrow) if narrow else (1e-5, 1e-4)
        for part, expected in ((doubled[t.name][: fed.old], wanted[t.name]), (doubled[t.name][fed.old :], other[t.name])):
            difference = compare(expected, part)
            if difference is not None and not difference.within(absolute, relative):
                raise Unproved(f"output '{t.name}' of two parts together is not what each gives alone: {difference}")
