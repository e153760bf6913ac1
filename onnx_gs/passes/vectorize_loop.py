"""Loops without carried values → operators over all trips at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import constness, speculation, trip_counts
from onnx_gs.analysis.known_values import KnownValues
from onnx_gs.analysis.loops import LoopParts, surely_same, trusted_symbols
from onnx_gs.ir import Node, Tensor, Variable, edit, walk
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter

if TYPE_CHECKING:
    from onnx_gs.ir import Graph
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report

#: Elementwise operators whose result for an element does not depend on where in a tensor it stands, to the bit, in ONNX Runtime. (Sin, Log, Elu and
#: some others treat the last elements of a tensor by other code than the first.)
EXACT = frozenset({
    "Abs", "Add", "And", "Cast", "Ceil", "Clip", "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish",
    "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Reciprocal", "Relu", "Round",
    "Sigmoid", "Sign", "Softsign", "Sqrt", "Sub", "Tanh", "Where", "Xor",
})  # fmt: skip
_MOVES = frozenset({"Unsqueeze", "Squeeze", "Transpose", "Gather", "Concat"})


@dataclass(frozen=True)
class VectorizeLoop(Pass):
    """Replace a ``Loop`` that carries nothing by its operators applied to all trips at once.

    Matches:   ``ai.onnx::Loop`` without carried values, with a trip count and no condition, whose body gathers by the iteration number and computes
               elementwise or moves data.
    Rewrites:  the iteration number becomes a ``Range``; ``Gather(x, i)`` of a tensor of that very length becomes the tensor; each node works on a
               leading axis of trips; a row that is the same each trip is expanded.
    Requires:  known ranks. Results are equal to the bit: only operators whose result for an element does not depend on its place.
    Declines:  other operators (a batched MatMul may add in another order), computed axes and shapes, nested bodies.
    TensorRT:  takes both; vectorized, 19 network layers become 1 and the engine a quarter.

    Before::                                                        After::
        z = Loop (N, "") <body = b (i, ci) => (co, o) {                 z = Relu (x)
            r = Gather (x, i)  o = Relu (r) }>
    """

    name: ClassVar[str] = "vectorize-loop"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for owner, node in walk.nodes(root, op="Loop"):
                    loop = LoopParts(node)
                    if not loop.well_formed or loop.carried or not loop.scans:
                        continue
                    rows = [loop.row(j) for j in range(loop.scans)]
                    plan = Plan(editor, loop)
                    problem = plan.problem(rows)
                    if problem:
                        report.decline(owner, node, problem)
                        continue
                    report.rewrote(owner, node, f"{len(loop.body.nodes)} nodes over all trips")
                    emit = Emitter(editor.names, root.opset, node.name or "loop")
                    results = plan.emit(emit, rows)
                    editor.replace(owner, node, emit.nodes, list(results))


class Plan:
    """How to compute a loop's rows for all trips at once: first whether, without changing anything, then the nodes.

    Args:
        editor: the edits of the pass.
        loop: a loop whose rows depend on no carried value.
    """

    def __init__(self, editor: Editor, loop: LoopParts) -> None:
        """Look at a loop."""
        self.editor = editor
        self.loop = loop
        self.ranks: dict[int, int] = {}  # tensor of the body that differs by trip -> its rank in one trip
        self.batched: dict[int, Tensor] = {}
        self.same: set[int] = set()  # outputs of nodes that are the same each trip
        self.nodes: list[Node] = []

    # -- whether ------------------------------------------------------------------------------------------

    def problem(self, rows: list[Tensor]) -> str:
        """Tell why the rows cannot be computed at once; empty where they can."""
        loop = self.loop
        self.count = trip_counts.of_loop(loop.node, KnownValues())
        if not self.count.runs_out or (not loop.trip.name and self.count.exact is None):
            return f"not all trips are known to run: {self.count.why}"
        if self.editor.root.opset < 13:
            return f"it needs opset 13, not {self.editor.root.opset}"
        number = loop.iteration.shape
        self.ranks[id(loop.iteration)] = len(number) if number is not None else 0
        states = {id(loop.state_in(k)) for k in range(loop.carried)}
        self.nodes = self._needed(rows)
        for node in self.nodes:
            if any(id(t) in states for t in node.inputs):
                return "a row depends on a carried value"
            reason = self._node(node)
            if reason:
                return reason
        if any(id(t) in states for t in rows):
            return "a row is a carried value"
        return "a row is the condition" if any(t is loop.cond_in for t in rows) else ""

    def _needed(self, rows: list[Tensor]) -> list[Node]:
        inside = {id(n) for n in self.loop.body.nodes}
        wanted: set[int] = set()
        pending = list(rows)
        while pending:
            for node in pending.pop().inputs:
                if id(node) in inside and id(node) not in wanted:
                    wanted.add(id(node))
                    pending.extend(node.inputs)
        return [n for n in self.loop.body.nodes if id(n) in wanted]

    def _varies(self, t: Tensor) -> bool:
        return id(t) in self.ranks

    def _node(self, node: Node) -> str:
        if node.has_body or not node.is_onnx:
            return f"'{node.op}' inside has a body or is not ONNX's own"
        if any(t is self.loop.cond_in for t in node.inputs):
            return "the condition is read inside"
        if not any(self._varies(t) for t in node.inputs):
            return self._invariant(node)
        if node.op in EXACT:
            return self._elementwise(node)
        if node.op in _MOVES:
            return self._move(node)
        return f"'{node.op}' over all trips at once might not give the same bits"

    def _invariant(self, node: Node) -> str:
        hazard = speculation.hazard(node, self.editor.root.opset, trusted_symbols(self.editor.root)) if not self.count.exact else ""
        if hazard:
            return f"{hazard} where there is no trip"
        self.same.update(id(t) for t in node.outputs)
        return ""

    def _rank(self, t: Tensor) -> int | None:
        if id(t) in self.ranks:
            return self.ranks[id(t)]
        return None if t.shape is None else len(t.shape)

    def _elementwise(self, node: Node) -> str:
        ranks = [self._rank(t) for t in node.inputs if t.name]
        if any(r is None for r in ranks):
            return f"the rank of an input of '{node.name or node.op}' is not known"
        if node.op == "Clip" and any(self._varies(t) for t in node.inputs[1:]):
            return "the bounds of 'Clip' differ by trip"
        if node.op == "Cast" and node.attrs.get("to") == 8:
            return "'Cast' to string"
        if len(node.outputs) != 1:
            return f"'{node.op}' with several outputs"
        self.ranks[id(node.outputs[0])] = max(r for r in ranks if r is not None)
        return ""

    def _move(self, node: Node) -> str:
        x = node.inputs[0]
        rank = self._rank(x)
        if rank is None:
            return f"the rank of '{x.name}' is not known"
        if node.op == "Gather":
            index = self._rank(node.inputs[1])
            if index is None or (self._varies(x) and self._varies(node.inputs[1])):
                return "'Gather' of a row by a row"
            self.ranks[id(node.outputs[0])] = rank - 1 + index
            return ""
        if node.op == "Concat":
            if not all(self._varies(t) for t in node.inputs):
                return "'Concat' of rows with something that is the same each trip"
            self.ranks[id(node.outputs[0])] = rank
            return ""
        if node.op == "Transpose":
            self.ranks[id(node.outputs[0])] = rank
            return ""
        axes = constness.vector(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1].name else None
        if axes is None:
            return f"the axes of '{node.op}' are not constant"
        self.ranks[id(node.outputs[0])] = rank + len(axes) if node.op == "Unsqueeze" else rank - len(axes)
        return ""

    # -- the nodes ----------------------------------------------------------------------------------------

    def emit(self, emit: Emitter, rows: list[Tensor]) -> list[Tensor]:
        """Add the nodes, and give each row for all trips, ``[trips, d...]``; ``problem`` came first and was empty."""
        self.out = emit
        loop = self.loop
        if self.count.exact is not None:
            self.trips: Tensor = emit.constant(np.array(self.count.exact, np.int64))
        else:
            given = loop.trip
            self.trips = given if given.shape is not None and len(given.shape) == 0 else emit.reshape(given, emit.constant(np.zeros(0, np.int64)), [])
        for node in self.nodes:
            if not any(self._varies(t) for t in node.inputs):
                moved = node._twin()
                inputs = list(node.inputs)
                fresh = [Variable(self.editor.names.fresh(t.name), t.dtype, t.shape) if t.name else t for t in node.outputs]
                moved.inputs.extend(self.batched.get(id(t), t) for t in inputs)
                moved.outputs.extend(fresh)
                moved.name = self.editor.names.fresh(node.name or f"{fresh[0].name}_node")
                self.batched.update((id(t), f) for t, f in zip(node.outputs, fresh))
                emit.nodes.append(moved)
            else:
                self._emit(node)
        return [self._row(t) for t in rows]

    def _row(self, t: Tensor) -> Tensor:
        if self._varies(t):
            return self._of(t)
        outer = self.batched.get(id(t), t)
        emit = self.out
        target = emit.concat([emit.reshape(self.trips, [1]), emit.shape_of(outer)], 0)
        shape = None if outer.shape is None else [self.count.exact, *outer.shape]
        return emit.op("Expand", outer, target, dtype=outer.dtype, shape=shape)

    def _of(self, t: Tensor) -> Tensor:
        """Give what stands for a tensor of the body."""
        if t is self.loop.iteration and id(t) not in self.batched:
            self.batched[id(t)] = self._numbers()
        return self.batched.get(id(t), t)

    def _numbers(self) -> Tensor:
        emit, exact = self.out, self.count.exact
        if exact is not None:
            numbers: Tensor = emit.constant(np.arange(exact, dtype=np.int64))
        else:
            zero, one = emit.constant(np.array(0, np.int64)), emit.constant(np.array(1, np.int64))
            numbers = emit.op("Range", zero, self.trips, one, dtype=np.int64, shape=[None])
        return emit.unsqueeze(numbers, [1]) if self.ranks[id(self.loop.iteration)] == 1 else numbers

    def _emit(self, node: Node) -> None:
        emit, out = self.out, node.outputs[0]
        rank = self.ranks[id(out)]
        if node.op == "Gather":
            self.batched[id(out)] = self._gather(node)
            return
        if node.op in EXACT:
            inputs = [self._aligned(t, rank) if t.name else Variable.empty() for t in node.inputs]
            attrs = dict(node.attrs)
        elif node.op == "Concat":
            inputs = [self._of(t) for t in node.inputs]
            attrs = {"axis": node.attrs["axis"] % rank + 1}
        elif node.op == "Transpose":
            perm = node.attrs.get("perm") or list(range(rank))[::-1]
            inputs, attrs = [self._of(node.inputs[0])], {"perm": [0, *(int(p) + 1 for p in perm)]}
        else:
            whole = rank if node.op == "Unsqueeze" else self.ranks[id(node.inputs[0])]
            axes = [int(a) % whole + 1 for a in constness.vector(node.inputs[1]) or []]
            inputs, attrs = [self._of(node.inputs[0]), emit.constant(np.array(axes, np.int64))], {}
        shape = None if out.shape is None or len(out.shape) != rank else [self.count.exact, *(d if is_static_dim(d) else None for d in out.shape)]
        self.batched[id(out)] = emit.op(node.op, *inputs, dtype=out.dtype, shape=shape, **attrs)

    def _aligned(self, t: Tensor, rank: int) -> Tensor:
        """Give an operand with its trips first and its own dims last, so that it broadcasts as it did in one trip."""
        x = self._of(t)
        missing = rank - self.ranks.get(id(t), rank)
        return self.out.unsqueeze(x, list(range(1, 1 + missing))) if missing else x

    def _gather(self, node: Node) -> Tensor:
        emit = self.out
        x, index = node.inputs
        axis = int(node.attrs.get("axis", 0))
        if self._varies(x):
            return emit.gather(self._of(x), self._of(index), axis % self.ranks[id(x)] + 1)
        outer = self.batched.get(id(x), x)
        axis %= self._rank(x) or 1
        rank = self._rank(x) or 1
        front = [axis, *range(axis), *range(axis + 1, rank)]
        if index is self.loop.iteration and self.ranks[id(index)] == 0 and self._whole(outer, axis):
            return emit.transpose(outer, front)
        made = emit.gather(outer, self._of(index), axis)
        count = self.ranks[id(index)]
        return emit.transpose(made, [axis, *range(axis), *range(axis + 1, rank + count)]) if axis else made

    def _whole(self, x: Tensor, axis: int) -> bool:
        """Say whether the trips are just the length of an axis."""
        if x.shape is not None and self.count.exact is not None:
            return is_static_dim(x.shape[axis]) and int(x.shape[axis]) == self.count.exact
        source = trip_counts.dim_source(self.loop.trip)
        if source is None:
            return False
        tensor, at = source
        if tensor is x and at == axis:
            return True
        if x.shape is None or tensor.shape is None or at >= len(tensor.shape):
            return False
        return surely_same(tensor.shape[at], x.shape[axis], trusted_symbols(self.editor.root))


