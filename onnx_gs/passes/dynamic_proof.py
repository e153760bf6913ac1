"""The proof that a fixed axis became symbolic rightly: both models run, with the old size and with twice that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import EvaluationError
from onnx_gs.evaluate import feeds, onnxruntime
from onnx_gs.evaluate.compare import compare
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Graph
    from onnx_gs.ir.tensor import Tensor

#: By how much results in narrow types may differ when more are computed at once, which adds them up in another order: a few units in the last place.
_NARROW = {dtypes.FLOAT16: 5e-3, dtypes.BFLOAT16: 4e-2}


class Unproved(Exception):  # noqa: N818 - it is an answer, not a fault of the caller
    """The axis cannot be made symbolic, and why."""


def prove(before: Graph, after: Graph, names: list[str], axis: int, symbol: str, *, parts: bool) -> None:
    """Run both with the old size, and the new one with twice that.

    Args:
        before: the model with the fixed axis.
        after: the model with the symbolic one.
        names: the inputs that have the axis.
        axis: the axis of these inputs.
        symbol: its name in ``after``.
        parts: whether nothing but equal results of each part of the axis proves it.

    Raises:
        Unproved: a result differs, or the model does not run.
    """
    old = next(int(t.shape[axis]) for t in before.inputs if t.name in names)
    for t, was in zip(after.outputs, before.outputs):
        if was.shape is not None and len(was.shape) > axis and was.shape[axis] == old and (t.shape is None or t.shape[axis] == old):
            raise Unproved(f"output '{t.name}' keeps the size {old} on axis {axis}, so something between takes no more")
    try:
        session, changed = onnxruntime.session(before), onnxruntime.session(after)
    except EvaluationError as error:
        raise Unproved(f"it does not run: {error.what}") from error
    _prove_on(session, changed, after.outputs, _Fed(before, names, axis, symbol, old, high=10), parts=parts)
    masks = [t for t in before.inputs if (known := dtypes.of(t)) is not None and known.kind in {"int", "uint"}]
    if masks:  # which hardly differ by being 0 or not when they hold up to 9
        fed = _Fed(before, names, axis, symbol, old, high=2)
        try:
            session.run(fed.first)
        except EvaluationError:
            return
        _prove_on(session, changed, after.outputs, fed, parts=parts)


class _Fed:
    """Two sets of inputs that differ in what has the axis, and both together."""

    def __init__(self, graph: Graph, names: list[str], axis: int, symbol: str, old: int, high: int) -> None:
        self.symbol, self.old = symbol, old
        rank = next(len(t.shape) for t in graph.inputs if t.name in names)
        self.axis = axis % rank
        self.first, other = (feeds.make(graph, seed, 0, high=high) for seed in (0, 1))
        self.second = {k: v if k in names else self.first[k] for k, v in other.items()}
        self.both = {k: np.concatenate([v, self.second[k]], axis=axis) if k in names else v for k, v in self.first.items()}


def _begins_with(value: Any, size: int) -> bool:
    return hasattr(value, "shape") and len(value.shape) > 0 and value.shape[0] == size


def _prove_on(session: Any, changed: Any, outputs: Sequence[Tensor], fed: _Fed, *, parts: bool) -> None:
    """Hold the results of the changed model, with the old size and with twice that, against those of the model.

    Raises:
        Unproved: a result differs, or the model does not run.
    """
    try:
        wanted, got = session.run(fed.first), changed.run(fed.first)
        for name, value in wanted.items():
            difference = compare(value, got[name])
            if difference is not None:
                raise Unproved(f"with the old size output '{name}' differs: {difference}")
        other = session.run(fed.second)
        doubled = changed.run(fed.both)
    except EvaluationError as error:
        raise Unproved(f"it does not run: {error.what}") from error
    for t in outputs:
        declared, value, was = t.shape, doubled[t.name], wanted[t.name]
        if not hasattr(value, "shape"):
            continue
        if len(was.shape) > fed.axis and was.shape[fed.axis] == value.shape[fed.axis] == fed.old:  # whatever is declared
            raise Unproved(f"output '{t.name}' keeps the size {fed.old} on axis {fed.axis}, so something between takes no more")
        for i, d in enumerate(declared or ()):
            if d == fed.symbol and value.shape[i] != 2 * fed.old:
                raise Unproved(f"output '{t.name}' has {value.shape[i]} on axis {i}, where {2 * fed.old} was expected")
    if fed.axis or not all(_begins_with(wanted[t.name], fed.old) and _begins_with(doubled[t.name], 2 * fed.old) for t in outputs):
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
