"""Scatters with a reduction: gather, reduce, scatter; repeated indices in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Tensor

_OPS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_MOST_ROUNDS = 16
_MOST_INDICES = 1 << 16


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
        raise Declined("the indices are computed at run time")
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
        raise Declined("the indices are computed at run time")
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


RULES: dict[str, tuple[Rule, ...]] = {"ScatterND": (_scatter_nd,), "ScatterElements": (_scatter_elements,)}
