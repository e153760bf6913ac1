"""Selections by mask, where the mask is known or only how many it selects matters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.ir import dtypes
from onnx_gs.ops import schema
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Node, Tensor


def _nonzero(case: Case) -> Sequence[Tensor | None] | None:
    """Range: every element of the vector is nonzero."""
    producer = case.work.producer(case.node.inputs[0], "ConstantOfShape", "Expand", "Cast")
    while producer is not None and producer.op == "Cast":
        producer = case.work.producer(producer.inputs[0], "ConstantOfShape", "Expand", "Cast")
    if producer is None or not _fills_with_nonzero(producer):
        raise Declined("how many elements are nonzero depends on data")
    shape = producer.inputs[0 if producer.op == "ConstantOfShape" else 1]
    known = case.shape(shape)
    if known != [1]:
        raise Declined("the tensor of ones has more than one axis, or an unknown number of them")
    emit = case.emit
    count = emit.reshape(shape, emit.constant(np.zeros(0, np.int64)), [])
    positions = emit.op("Range", emit.constant(np.int64(0)), count, emit.constant(np.int64(1)), dtype=np.int64, shape=[None])
    return [emit.unsqueeze(positions, [0])]


def _fills_with_nonzero(producer: Node) -> bool:
    if producer.op == "Expand":
        value = constness.scalar(producer.inputs[0])
        return value is not None and bool(value)
    value = producer.attrs.get("value")
    held: Any = getattr(value, "values", None)
    return held is not None and bool(np.asarray(held).astype(bool).all())


def _shape_of_nonzero(case: Case) -> Sequence[Tensor | None] | None:
    """The rank, and the count of the elements that are not zero."""
    producer = case.work.producer(case.node.inputs[0], "NonZero")
    if producer is None or case.node.attrs:
        return None
    x = producer.inputs[0]
    rank = case.rank(x)
    if rank is None:
        raise Declined("the rank is not known")
    emit = case.emit
    flags = emit.cast(case.typed(x), dtypes.BOOL)
    count = emit.reduce("ReduceSum", emit.cast(flags, dtypes.INT64), None, keepdims=False)
    return [emit.concat([emit.constant(np.array([rank], np.int64)), emit.unsqueeze(count, [0])], 0)]


def _size_of_nonzero(case: Case) -> Sequence[Tensor | None] | None:
    """The count of the elements that are not zero, times the rank."""
    producer = case.work.producer(case.node.inputs[0], "NonZero")
    rank = case.rank(producer.inputs[0]) if producer is not None else None
    if producer is None or rank is None:
        return None
    emit = case.emit
    count = emit.reduce("ReduceSum", emit.cast(emit.cast(case.typed(producer.inputs[0]), dtypes.BOOL), dtypes.INT64), None, keepdims=False)
    return [count if rank == 1 else emit.elementwise("Mul", count, emit.constant(np.int64(rank)))]


def _dim_of_nonzero(case: Case) -> Sequence[Tensor | None] | None:
    """The count of the elements that are not zero, without the shape around it."""
    shape = case.work.producer(case.node.inputs[0], "Shape")
    producer = case.work.producer(shape.inputs[0], "NonZero") if shape is not None and not shape.attrs else None
    index = case.array(1)
    if producer is None or index is None or index.ndim or int(index) not in {1, -1}:
        return None
    emit = case.emit
    flags = emit.cast(case.typed(producer.inputs[0]), dtypes.BOOL)
    return [emit.reduce("ReduceSum", emit.cast(flags, dtypes.INT64), None, keepdims=False)]


def _compress(case: Case) -> Sequence[Tensor | None] | None:
    """Gather at the positions that the known condition selects."""
    condition = case.array(1)
    if condition is None:
        raise Declined("the condition is computed at run time")
    x = case.typed(case.node.inputs[0])
    axis = case.node.attrs.get("axis")
    where = case.emit.constant(np.flatnonzero(condition.reshape(-1)).astype(np.int64))
    if axis is None:
        return [case.emit.gather(case.emit.reshape(x, [-1], [None]), where, 0)]
    return [case.emit.gather(x, where, int(axis))]


def _sum_of_selection(case: Case) -> Sequence[Tensor | None] | None:
    """The sum over all elements, those that are not selected as 0."""
    source = case.work.producer(case.node.inputs[0], "Compress", "GatherND")
    if source is None or not _sums_everything(case):
        return None
    x = source.inputs[0]
    dtype = case.dtype(x)
    mask = _mask(case, source)
    if mask is None or dtype is None or dtype.kind not in {"float", "int"} or case.rank(x) != case.rank(mask) or case.rank(x) is None:
        return None
    emit = case.emit
    chosen = emit.op("Where", case.typed(mask), case.typed(x), emit.constant(np.zeros((), dtype.numpy)), dtype=dtype, shape=case.shape(x))
    # the selected elements are a vector, so keepdims leaves one dim
    summed: Tensor = emit.reduce("ReduceSum", chosen, None, keepdims=False)
    if schema.attribute(case.owner, case.node, "keepdims"):
        summed = emit.reshape(summed, [1])
    return [summed]


def _sums_everything(case: Case) -> bool:
    if case.rank(case.node.inputs[0]) != 1:
        return False
    axes = case.array(1)
    if case.input(1) is not None:
        return axes is not None and (axes.size == 1 or (axes.size == 0 and not case.attribute("noop_with_empty_axes")))
    return not case.attribute("noop_with_empty_axes")


def _mask(case: Case, source: Node) -> Tensor | None:
    """Give the bool tensor, of the shape of what is selected from, that selects."""
    if source.op == "Compress":
        shapes = [case.shape(t) for t in source.inputs]
        same = shapes[0] is not None and len(shapes[0]) == 1 and shapes[0] == shapes[1] and None not in shapes[0]
        return source.inputs[1] if same else None
    if source.attrs.get("batch_dims", 0):
        return None
    turned = case.work.producer(source.inputs[1], "Transpose")
    found = case.work.producer(turned.inputs[0], "NonZero") if turned is not None and turned.attrs.get("perm", [1, 0]) == [1, 0] else None
    if found is None or case.dtype(found.inputs[0]) is not dtypes.BOOL:
        return None
    facts = case.work.facts
    a, b = facts.shape(found.inputs[0]), facts.shape(source.inputs[0])
    return found.inputs[0] if a is not None and a == b else None


# readers before what they read, which is dead then
RULES: dict[str, tuple[Rule, ...]] = {
    "Gather": (_dim_of_nonzero,),
    "ReduceSum": (_sum_of_selection,),
    "Shape": (_shape_of_nonzero,),
    "Size": (_size_of_nonzero,),
    "Compress": (_compress,),
    "NonZero": (_nonzero,),
}
