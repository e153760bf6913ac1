"""How often a ``Loop`` or ``Scan`` runs: exactly, at most, or unknown, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis.known_values import KnownValues, supported
from onnx_gs.analysis.loops import ENDLESS, LoopParts, is_true, origin
from onnx_gs.ir.scopes import captures
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.walk import bodies

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node, Tensor

_MOST_TRIPS = 100_000
_MOST_STEPS = 400_000  # nodes evaluated for one condition
_MOST_OPEN_STEPS = 40_000  # the same once it is known that the condition depends on run time, and only a bound is sought
#: Operators that may have a known value though an input is unknown.
_LENIENT = frozenset({"And", "Or", "If", "Where"})


@dataclass(frozen=True)
class TripCount:
    """How often a loop runs.

    Attributes:
        exact: the number of trips, where it is known.
        at_most: an upper bound, where one is known; equal to ``exact`` where that is.
        why: where it is not exact, what decides it; otherwise what it was found from.
        runs_out: whether the given trip count alone decides (the condition never stops the loop early).
    """

    exact: int | None
    at_most: int | None
    why: str
    runs_out: bool = False


def of_loop(node: Node, known: KnownValues | None = None) -> TripCount:
    """Tell how often a ``Loop`` runs.

    From its trip count and conditions where they are constants or static dims, else by evaluating the condition trip by trip, as far as it depends on
    carried values that start known. A condition that is false in some trip whatever the unknown values are bounds the loop.

    Args:
        node: the ``Loop``.
        known: what is known of the tensors around it.
    """
    known = known or KnownValues()
    loop = LoopParts(node)
    limit, given = _limit(loop, known)
    if limit == 0:
        return TripCount(0, 0, "the trip count is 0", runs_out=True)
    start = known.scalar(loop.cond) if loop.cond.name else True
    if start is False:
        return TripCount(0, 0, "the condition is false from the start")
    if is_true(loop.cond_out) or origin(loop.cond_out) is loop.cond_in:
        return _counted(limit, given, start)
    if not loop.cond.name:
        return TripCount(None, limit, "the condition input is absent though the body computes a condition: ONNX ignores it, runtimes obey it")
    return _by_evaluation(loop, known, limit, given, start)


def _limit(loop: LoopParts, known: KnownValues) -> tuple[int | None, bool]:
    """Give the trip count, None where unknown or endless, and whether one is given at all."""
    if not loop.trip.name:
        return None, False
    found = known.scalar(loop.trip)
    if found is None:
        return None, True
    return (None, False) if found == ENDLESS else (max(0, int(found)), True)


def _counted(limit: int | None, given: bool, start: bool | None) -> TripCount:
    if start is None:
        return TripCount(None, limit, "whether it runs at all is computed at run time")
    if not given:
        return TripCount(None, None, "neither a trip count nor a condition ends it")
    if limit is None:
        return TripCount(None, None, "the trip count is computed at run time", runs_out=True)
    return TripCount(limit, limit, "the trip count is constant", runs_out=True)


def _by_evaluation(loop: LoopParts, known: KnownValues, limit: int | None, given: bool, start: bool | None) -> TripCount:
    nodes, needed = _condition_cone(loop)
    unknown = given and limit is None
    state: dict[int, Any] = {k: known.of(loop.initial(k)) for k in needed}
    shape = loop.iteration.shape
    dims = [1] if shape is not None and len(shape) == 1 else []
    sure = start is not None and not unknown
    reason = "the trip count is computed at run time" if unknown else "whether it runs at all is computed at run time" if start is None else ""
    trips = 0
    most = min(_MOST_TRIPS, _MOST_STEPS // max(1, len(nodes)))
    known_before: list[Any] = []
    lenient = any(node.op in _LENIENT for node in nodes)
    while trips < most:
        if limit is not None and trips >= limit:
            return TripCount(limit if sure else None, limit, reason or "the trip count is constant", runs_out=sure)
        values: dict[int, Any] = {id(loop.iteration): np.full(dims, trips, np.int64), id(loop.cond_in): np.array(True)}
        for k in range(loop.carried):
            values[id(loop.state_in(k))] = state.get(k)
        known.evaluate(nodes, values)
        trips += 1
        going = values[id(loop.cond_out)] if id(loop.cond_out) in values else known.of(loop.cond_out)
        if going is not None and going.size == 1 and not going.reshape(-1)[0]:
            return TripCount(trips if sure else None, trips, reason or "found by evaluating the condition")
        if going is None and sure:
            sure, reason = False, "the condition is computed at run time"
        state = {k: values[id(loop.state_out(k))] if id(loop.state_out(k)) in values else known.of(loop.state_out(k)) for k in needed}
        if going is None:
            most = min(most, _MOST_OPEN_STEPS // max(1, len(nodes)))
            if not lenient or not _moving(loop, nodes, state, known_before, trips):
                break
    return TripCount(None, limit, reason or "the condition stays true for as long as it was evaluated")


def _moving(loop: LoopParts, nodes: list[Node], state: dict[int, Any], before: list[Any], trips: int) -> bool:
    """Say whether later trips may decide what this one left open: something known must change, or the iteration number be read."""
    if any(t is loop.iteration for node in nodes for t in node.inputs):
        return True
    now = [None if v is None else v.tobytes() for v in state.values()]
    same = bool(before) and before[-1] == now
    before[:] = [now]
    return not same or trips < 2


def _condition_cone(loop: LoopParts) -> tuple[list[Node], list[int]]:
    """List the body's nodes that the condition depends on, through carried values too, in order, and the carried values among them."""
    producer = {id(t): node for node in loop.body.nodes for t in node.outputs}
    carried = {id(loop.state_in(k)): k for k in range(loop.carried)}
    wanted: set[int] = set()
    needed: list[int] = []
    pending: list[Tensor] = [loop.cond_out]
    seen: set[int] = set()
    while pending:
        t = pending.pop()
        if id(t) in seen:
            continue
        seen.add(id(t))
        k = carried.get(id(t))
        if k is not None:
            needed.append(k)
            pending.append(loop.state_out(k))
            continue
        node = producer.get(id(t))
        if node is None or id(node) in wanted or not supported(node):
            continue
        wanted.add(id(node))
        pending.extend(node.inputs)
        for body in bodies(node) if node.has_body else ():
            pending.extend(captures(body, constants=False))
    return [node for node in loop.body.nodes if id(node) in wanted], sorted(needed)


def of_scan(node: Node, opset: int) -> TripCount:
    """Tell how often a ``Scan`` runs: the length of its scan inputs.

    Args:
        node: the ``Scan``.
        opset: the version of ONNX's operators; before 9 a ``Scan`` has a batch.
    """
    body: Graph = node.attrs["body"]
    count = int(node.attrs["num_scan_inputs"])
    first = len(node.inputs) - count
    axes = list(node.attrs.get("scan_input_axes") or [0] * count) if opset >= 9 else [1] * count
    for t, axis in zip(node.inputs[first:], axes):
        shape = t.shape
        if shape is not None and -len(shape) <= axis < len(shape) and is_static_dim(shape[axis]):
            length = int(shape[axis])
            return TripCount(length, length, f"'{t.name}' has length {length}", runs_out=True)
    return TripCount(None, None, f"the length of the scan inputs is unknown ({len(body.nodes)} nodes a trip)", runs_out=True)


def dim_source(tensor: Tensor) -> tuple[Tensor, int] | None:
    """Tell which dim of which tensor a size is: ``(x, axis)`` for ``Gather(Shape(x), axis)`` and what only reshapes or renames that.

    Args:
        tensor: an int64 tensor of one element.

    Returns:
        The tensor and the axis, at least 0; None where it is something else.
    """
    known = KnownValues()
    for _ in range(50):
        if len(tensor.inputs) != 1 or not tensor.inputs[0].is_onnx:
            return None
        node = tensor.inputs[0]
        if node.op in {"Identity", "Squeeze", "Unsqueeze", "Reshape"} or (node.op == "Cast" and node.attrs.get("to") == 7):
            tensor = node.inputs[0]
            continue
        if node.op == "Gather":
            index = known.scalar(node.inputs[1])
            shape_node = node.inputs[0].inputs[0] if len(node.inputs[0].inputs) == 1 else None
            if index is None or shape_node is None or shape_node.op != "Shape" or not shape_node.is_onnx:
                return None
            first = shape_node.attrs.get("start", 0)
            source = shape_node.inputs[0]
            if index < 0 or first < 0:
                if source.shape is None or "start" in shape_node.attrs or "end" in shape_node.attrs:
                    return None
                return source, int(index) % len(source.shape)
            return source, int(index) + int(first)
        if node.op == "Shape":
            first, last = node.attrs.get("start", 0), node.attrs.get("end")
            return (node.inputs[0], int(first)) if last is not None and first >= 0 and last == first + 1 else None
        return None
    return None
