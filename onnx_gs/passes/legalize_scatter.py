"""Scatters with a reduction: gather, reduce, scatter; repeated indices in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.ir.shapes import broadcast
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Tensor
    from onnx_gs.ir.dtypes import DataType

_OPS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_MOST_ROUNDS = 16
_MOST_INDICES = 1 << 16
_MOST_PRODUCTS = 1 << 20


def _reduction(case: Case) -> str | None:
    value = case.attribute("reduction") or "none"
    return None if value == "none" else _OPS.get(str(value))


def _scatter_nd(case: Case) -> Sequence[Tensor | None] | None:
    """Gather, reduce, scatter: the indices are known, and each is used once a round."""
    op = _reduction(case)
    if op is None:
        return None
    indices = case.array(1)
    if indices is None:
        return [_masked_nd(case, op)]
    x, updates = case.typed(case.node.inputs[0]), case.typed(case.node.inputs[2])
    return [_in_rounds(case, op, x, _positive(case, indices, range(indices.shape[-1])), updates)]


def _positive(case: Case, indices: np.ndarray[Any, Any], axes: Sequence[int]) -> np.ndarray[Any, Any]:
    """Count negative indices from the front, for comparing."""
    if not (indices < 0).any():
        return indices
    shape = case.shape(case.node.inputs[0])
    if shape is None or any(shape[a] is None for a in axes):
        raise Declined("negative indices into dims of unknown size")
    sizes = np.array([shape[a] for a in axes], np.int64)
    return np.where(indices < 0, indices + sizes, indices)


def _in_rounds(case: Case, op: str, x: Tensor, indices: np.ndarray[Any, Any], updates: Tensor) -> Tensor:
    depth = indices.shape[-1]
    rows = indices.reshape(-1, depth)
    if len(rows) == 0:
        return case.emit.identity(x)
    rounds = _rounds(rows)
    if len(rounds) == 1:
        return _one_round(case, op, x, indices, updates)
    if len(rounds) > _MOST_ROUNDS:
        raise Declined(f"an index is repeated {len(rounds)} times")
    if indices.ndim != 2:
        shape = case.shape(x)
        if shape is None or any(d is None for d in shape[depth:]):
            raise Declined("an index is repeated, and the sizes of what is scattered are not known")
        updates = case.emit.reshape(updates, [len(rows), *(int(d) for d in shape[depth:])])
    for members in rounds:
        part = case.emit.gather(updates, case.emit.constant(np.array(members, np.int64)), 0)
        x = _one_round(case, op, x, rows[members], part)
    return x


def _rounds(rows: np.ndarray[Any, Any]) -> list[list[int]]:
    """Sort row numbers into rounds in which no row is repeated, earlier ones first."""
    seen: dict[bytes, int] = {}
    rounds: list[list[int]] = []
    for k, row in enumerate(rows):
        key = row.tobytes()
        turn = seen.get(key, 0)
        seen[key] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(k)
    return rounds


def _one_round(case: Case, op: str, x: Tensor, indices: np.ndarray[Any, Any], updates: Tensor) -> Tensor:
    emit = case.emit
    where = emit.constant(indices.astype(np.int64))
    present = emit.op("GatherND", x, where, dtype=x.dtype, shape=None if updates.shape is None else list(updates.shape))
    reduced = emit.elementwise(op, present, updates)
    return emit.op("ScatterND", x, where, reduced, dtype=x.dtype, shape=None if x.shape is None else list(x.shape))


def _scatter_elements(case: Case) -> Sequence[Tensor | None] | None:
    """Gather, reduce, scatter: the indices are known; repeated ones as rows of ScatterND, in rounds."""
    op = _reduction(case)
    if op is None:
        return None
    given = case.array(1)
    if given is None:
        return [_masked_elements(case, op)]
    if given.size > _MOST_INDICES:
        raise Declined(f"{given.size} indices are too many to look through")
    axis = int(case.attribute("axis")) % given.ndim
    x, updates = case.typed(case.node.inputs[0]), case.typed(case.node.inputs[2])
    indices = _positive(case, given[..., None], [axis])[..., 0]
    full = np.stack(np.meshgrid(*(np.arange(d) for d in given.shape), indexing="ij"), -1).astype(np.int64)
    full[..., axis] = indices
    rows = full.reshape(-1, given.ndim)
    if len(_rounds(rows)) == 1:
        emit = case.emit
        where = emit.constant(indices.astype(np.int64))
        present = emit.op("GatherElements", x, where, dtype=x.dtype, shape=list(given.shape), axis=axis)
        reduced = emit.elementwise(op, present, updates)
        return [emit.op("ScatterElements", x, where, reduced, dtype=x.dtype, shape=None if x.shape is None else list(x.shape), axis=axis)]
    return [_in_rounds(case, op, x, rows, case.emit.reshape(updates, [len(rows)]))]


_REDUCE = {"Add": "ReduceSum", "Mul": "ReduceProd", "Max": "ReduceMax", "Min": "ReduceMin"}


def _neutral(op: str, dtype: DataType) -> np.ndarray[Any, Any]:
    """Give the element that changes nothing."""
    if op in {"Add", "Mul"}:
        return np.array(op == "Mul", dtype.numpy)
    if dtype.kind == "float":
        return np.array(-np.inf if op == "Max" else np.inf, dtype.numpy)
    info = np.iinfo(dtype.numpy)
    return np.array(info.min if op == "Max" else info.max, dtype.numpy)


def _sizes(case: Case) -> tuple[list[int], list[int], DataType]:
    """Give the sizes of data and indices, and the element type."""
    found = [case.shape(case.node.inputs[k]) for k in range(2)]
    dtype = case.dtype(case.node.inputs[0])
    if dtype is None or dtype.kind not in {"float", "int"} or any(s is None or any(d is None for d in s) for s in found):
        raise Declined("the indices are computed at run time, and the sizes are not known")
    data, indices = ([int(d) for d in s or ()] for s in found)
    return data, indices, dtype


def _reduced(case: Case, op: str, x: Tensor, hits: Tensor, updates: Tensor, axis: int, dtype: DataType) -> Tensor:
    """Reduce the updates that hit each place, and reduce the result with what is there."""
    emit = case.emit
    chosen = emit.op("Where", hits, updates, emit.constant(_neutral(op, dtype)), dtype=dtype, shape=broadcast(hits.shape, updates.shape))
    return emit.elementwise(op, x, emit.reduce(_REDUCE[op], chosen, [axis], keepdims=False))


def _from_front(case: Case, indices: Tensor, size: Tensor) -> Tensor:
    """Count negative indices from the front."""
    emit = case.emit
    negative = emit.elementwise("Less", indices, emit.constant(np.int64(0)), dtype=np.bool_)
    return emit.op("Where", negative, emit.elementwise("Add", indices, size), indices, dtype=np.int64, shape=indices.shape)


def _masked_nd(case: Case, op: str) -> Tensor:
    """Reduce under a mask of which update hits which row, for indices that are computed."""
    data, indices, dtype = _sizes(case)
    depth, count = indices[-1], int(np.prod(indices[:-1]))
    rows, rest = int(np.prod(data[:depth])), int(np.prod(data[depth:]))
    if rows * count * max(rest, 1) > _MOST_PRODUCTS or 0 in (rows, count, rest):
        raise Declined("the indices are computed at run time, and a mask of all places would be large, or there are none")
    emit = case.emit
    x, where, given = (case.typed(t) for t in case.node.inputs)
    places = _from_front(case, emit.cast(where, dtypes.INT64), emit.constant(np.array(data[:depth], np.int64)))
    strides = np.array([int(np.prod(data[k + 1 : depth])) for k in range(depth)], np.int64)
    flat = emit.reduce("ReduceSum", emit.elementwise("Mul", places, emit.constant(strides)), [len(indices) - 1], keepdims=False)
    column = emit.reshape(flat, [count, 1, 1])
    hits = emit.elementwise("Equal", column, emit.constant(np.arange(rows, dtype=np.int64).reshape(1, rows, 1)), dtype=np.bool_)
    made = _reduced(case, op, emit.reshape(x, [rows, rest]), hits, emit.reshape(given, [count, 1, rest]), 0, dtype)
    return emit.reshape(made, emit.constant(np.array(data, np.int64)), data)


def _masked_elements(case: Case, op: str) -> Tensor:
    """Reduce under a mask of which update hits which place along the axis, for indices that are computed."""
    data, indices, dtype = _sizes(case)
    axis = int(case.attribute("axis")) % len(data)
    if any(a != b for k, (a, b) in enumerate(zip(data, indices)) if k != axis):
        raise Declined("the indices are computed at run time, and reach part of the data only")
    if int(np.prod(indices)) * data[axis] > _MOST_PRODUCTS or 0 in (*data, *indices):
        raise Declined("the indices are computed at run time, and a mask of all places would be large, or there are none")
    emit = case.emit
    x, where, given = (case.typed(t) for t in case.node.inputs)
    places = _from_front(case, emit.cast(where, dtypes.INT64), emit.constant(np.int64(data[axis])))
    # updates on a new axis before the data's
    shape = [1] * (len(data) + 1)
    shape[axis + 1] = data[axis]
    numbers = emit.constant(np.arange(data[axis], dtype=np.int64).reshape(shape))
    hits = emit.elementwise("Equal", emit.unsqueeze(places, [axis + 1]), numbers, dtype=np.bool_)
    made = _reduced(case, op, x, hits, emit.unsqueeze(given, [axis + 1]), axis, dtype)
    made.shape = data
    return made


RULES: dict[str, tuple[Rule, ...]] = {"ScatterND": (_scatter_nd,), "ScatterElements": (_scatter_elements,)}
