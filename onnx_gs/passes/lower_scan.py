"""``Scan`` in the form that TensorRT takes, or as a ``Loop``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis import trip_counts
from onnx_gs.ir import Constant, Graph, Node, Variable, edit, walk
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.loop_edits import STATELESS, body_like

if TYPE_CHECKING:
    from onnx_gs.ir import Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class LowerScan(Pass):
    """Replace a ``Scan`` by a ``Loop`` where that helps, and make its axes non-negative where it stays.

    Matches:   ``ai.onnx::Scan``, opset 8 to now: any axes and directions, any number of states, inputs and outputs.
    Rewrites:  to a ``Loop`` over ``Gather`` of the scan inputs, counted from the end where a direction is reverse; outputs turned around and their
               axis moved by ``Slice`` and ``Transpose``. That is done where there is no state, where the length is known and unrolling fits
               ``max_nodes``, and for every Scan with ``everything``. Otherwise negative axes become non-negative. A batch (opset 8) is an outer
               ``Loop``. A body that returns its own input returns an ``Identity`` of it: ONNX Runtime leaves such an output unwritten.
    Requires:  known ranks where axes are negative or an output's axis is not 0. Arithmetic and its order stay.
    Declines:  unknown ranks; sequence lengths given (opset 8); a reversed output before opset 10.
    TensorRT:  refuses a Scan without state and negative axes, takes all other forms.

    Before::                                                             After::
        y, z = Scan (x, q) <num_scan_inputs = 1,                             y, z = Loop (3, "", x) <body = b (i, ci, s) => (co, so, o)
            body = b (s, r) => (so, o) {...}>                                    <bool co = {1}> { r = Gather <axis = 0> (q, i) ... }>

    Args:
        max_nodes: the most nodes that the unrolled loop may have for a Scan with state to become one.
        everything: make a loop of every Scan.
    """

    name: ClassVar[str] = "lower-scan"
    max_nodes: int = 2000
    everything: bool = False

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for owner, node in reversed(list(walk.nodes(root, op="Scan"))):  # inner ones first
                    self._scan(editor, owner, node, report)

    def _scan(self, editor: Editor, owner: Graph, node: Node, report: Report) -> None:
        scan = _Scan(editor, node) if editor.root.opset >= 9 else _BatchedScan(editor, node)
        problem = scan.problem()
        if problem:
            report.decline(owner, node, problem)
            return
        count = trip_counts.of_scan(node, editor.root.opset)
        size = sum(len(g.nodes) for g in walk.graphs(scan.body)) + scan.inputs
        fits = count.exact is not None and count.exact * size * scan.batch_size <= self.max_nodes
        if self.everything or scan.states == 0 or fits:
            report.rewrote(owner, node, f"a loop: {'no state' if scan.states == 0 else 'asked for' if not fits else count.why}")
            scan.to_loop(owner)
        elif scan.normalize():
            report.rewrote(owner, node, "axes non-negative, and outputs of its own")
        else:
            report.decline(owner, node, "TensorRT takes it as it is; " + (count.why if count.exact is None else "unrolled it would exceed max_nodes"))


class _Scan:
    """One Scan, its attributes resolved."""

    batch_size = 1

    def __init__(self, editor: Editor, node: Node) -> None:
        self.editor = editor
        self.node = node
        self.body: Graph = node.attrs["body"]
        self.inputs = int(node.attrs["num_scan_inputs"])
        self.states = len(node.inputs) - self.inputs
        self.outputs = len(self.body.outputs) - self.states
        while len(node.outputs) < len(self.body.outputs):
            node.outputs.append(Variable.empty())
        self.in_axes = self._list("scan_input_axes", self.inputs)
        self.out_axes = self._list("scan_output_axes", self.outputs)
        self.in_reverse = self._list("scan_input_directions", self.inputs)
        self.out_reverse = self._list("scan_output_directions", self.outputs)

    def _list(self, name: str, count: int) -> list[int]:
        given = [int(v) for v in self.node.attrs.get(name) or []]
        return given or [0] * count

    def problem(self) -> str:
        """Say why nothing can be done, or nothing."""
        if self.states < 0 or len(self.body.inputs) != len(self.node.inputs) or self.outputs < 0:
            return "the body has another number of inputs or outputs than the node"
        for k, axis in enumerate(self.in_axes):
            rank = _rank(self.scanned(k), self.body.inputs[self.states + k])
            if axis < 0 and rank is None:
                return f"axis {axis} of '{self.scanned(k).name}', whose rank is not known"
            self.in_axes[k] = axis if axis >= 0 or rank is None else axis + rank
        for j, axis in enumerate(self.out_axes):
            rank = _rank(self.node.outputs[self.states + j], self.body.outputs[self.states + j])
            if axis != 0 and rank is None:
                return f"axis {axis} of scan output '{self.node.outputs[self.states + j].name}', whose rank is not known"
            self.out_axes[j] = axis if axis >= 0 or rank is None else axis + rank
        if self.editor.root.opset < 10 and any(self.out_reverse):
            return "a reversed output needs opset 10"
        return ""

    def scanned(self, k: int) -> Tensor:
        return self.node.inputs[self.states + k]

    def normalize(self) -> bool:
        """Write non-negative axes, and outputs that are no inputs; tell whether there was something to change."""
        emit = Emitter(self.editor.names, self.editor.root.opset, self.node.name or "scan")
        formals = {id(t) for t in self.body.inputs}
        outputs = [emit.identity(t) if id(t) in formals else t for t in self.body.outputs]
        changed = bool(emit.nodes)
        if changed:  # ONNX Runtime leaves an output unwritten that is an input of the body itself
            self.editor.append(self.body, emit.nodes)
            self.editor.set_outputs(self.body, outputs)
        for name, axes in (("scan_input_axes", self.in_axes), ("scan_output_axes", self.out_axes)):
            given = self.node.attrs.get(name) or []
            if any(int(a) < 0 for a in given):
                self.node.attrs[name] = list(axes)
                changed = True
        return changed

    def to_loop(self, owner: Graph) -> None:
        """Put a Loop in the place of the Scan."""
        emit = Emitter(self.editor.names, self.editor.root.opset, self.node.name or "scan")
        trips = emit.dim(self.scanned(0), self.in_axes[0])
        made = self._loop(emit, trips, list(self.node.inputs[: self.states]), [self.scanned(k) for k in range(self.inputs)])
        self.editor.replace(owner, self.node, emit.nodes, made)

    def _loop(self, emit: Emitter, trips: Tensor, states: list[Tensor], scanned: list[Tensor]) -> list[Tensor | None]:
        """Add a Loop over the body's nodes, which move; give what stands for the outputs."""
        editor, names = self.editor, self.editor.names
        formals = list(self.body.inputs)
        number = Variable(names.fresh("scan_trip"), np.int64, [])
        cond = Variable(names.fresh("scan_going"), np.bool_, [])
        inner = Emitter(names, editor.root.opset, self.node.name or "scan")
        last = None
        for k, x in enumerate(scanned):
            index: Tensor = number
            if self.in_reverse[k]:
                if last is None:
                    one = inner.constant(np.array(1, np.int64))
                    size = inner.elementwise("Sub", trips, one)
                    last = inner.elementwise("Sub", size, number)
                index = last
            picked = inner.gather(x, index, self.in_axes[k])
            inner.nodes[-1].outputs[0] = formals[self.states + k]
            formal = formals[self.states + k]
            if isinstance(formal, Variable) and formal.shape is None:
                formal.shape = picked.shape
        rows = [self._own(inner, t, formals) for t in self.body.outputs]
        moved = [n for n in inner.nodes if n.op != "Identity"]
        identities = [n for n in inner.nodes if n.op == "Identity"]
        nodes = [*moved, *editor.take_body(self.node, self.body), *identities]
        editor.set_inputs(self.body, [])
        true = Constant(names.fresh("go_on"), np.array(True))
        body = body_like(editor.root, self.body.name, nodes, [number, cond, *formals[: self.states]], [true, *rows])
        spare = self._spare(emit, body) if not states else 0
        types: list[tuple[Any, Any]] = [(t.dtype, t.shape) for t in self.body.outputs[: self.states]]
        types += [(t.dtype, None if t.shape is None else [_static(trips), *t.shape]) for t in self.body.outputs[self.states :]]
        made = emit.ops("Loop", [trips, None, *states], types, body=body)
        if not states:
            emit.nodes[-1].inputs[:] = [trips, Variable.empty()]
            made = self._with_spare(emit, made, spare)
        results: list[Tensor | None] = list(made[: self.states])
        for j in range(self.outputs):
            results.append(self._arranged(emit, made[self.states + j], j))
        return results

    def _spare(self, emit: Emitter, body: Graph) -> int:
        """Before opset 11 a loop has to carry something: give the body a value that it hands on; tell how many."""
        if emit.opset >= STATELESS:
            return 0
        inside = Variable(emit.names.fresh("nothing"), np.int64, [])
        step = Emitter(emit.names, emit.opset, "nothing")
        after = step.identity(inside)
        body.inputs.append(inside)
        body.nodes.extend(step.nodes)
        body.outputs.insert(1, after)
        return 1

    def _with_spare(self, emit: Emitter, made: list[Variable], spare: int) -> list[Variable]:
        """Let a loop that was just made start and end its spare value."""
        if spare:
            node = emit.nodes[-1]
            node.inputs.append(emit.constant(np.array(0, np.int64)))
            node.outputs.insert(0, Variable(emit.names.fresh("nothing"), np.int64, []))
        return made

    def _own(self, inner: Emitter, t: Tensor, formals: list[Tensor]) -> Tensor:
        """Let a body return a value of its own nodes: a formal input as it is would be fine too, but not twice, and not as a row."""
        home = self.editor.home(t)
        if home is self.body and not any(t is f for f in formals):
            return t
        return inner.identity(t)

    def _arranged(self, emit: Emitter, rows: Tensor, j: int) -> Tensor:
        """Turn a stack of rows around and put its axis where the Scan has it."""
        if not self.editor.is_used(self.node.outputs[self.states + j]):
            return rows
        if self.out_reverse[j]:
            if rows.shape is None:
                high = emit.constant(np.array([np.iinfo(np.int64).min + 1], np.int64))
                minus, zero = emit.constant([-1]), emit.constant([0])
                rows = emit.op("Slice", rows, minus, high, zero, minus, dtype=rows.dtype)
            else:
                rows = emit.reverse(rows, 0)
        axis = self.out_axes[j]
        if axis == 0:
            return rows
        rank = _rank(self.node.outputs[self.states + j], self.body.outputs[self.states + j]) or 0
        return emit.transpose(rows, [*range(1, axis + 1), 0, *range(axis + 1, rank)])


class _BatchedScan(_Scan):
    """A Scan of opset 8: every input has a batch first, the scanned axis second."""

    def __init__(self, editor: Editor, node: Node) -> None:
        lengths = node.inputs[0]
        self.lengths = lengths.name
        super().__init__(editor, node)
        self.states = len(node.inputs) - 1 - self.inputs
        self.outputs = len(self.body.outputs) - self.states
        self.in_axes = [0] * self.inputs
        self.out_axes = [0] * self.outputs
        self.in_reverse = [int(v) for v in node.attrs.get("directions") or [0] * self.inputs]
        self.out_reverse = [0] * self.outputs
        first = node.inputs[1] if len(node.inputs) > 1 else None
        size = first.shape[0] if first is not None and first.shape else None
        self.batch_size = size if isinstance(size, int) else 1

    def problem(self) -> str:
        if self.lengths:
            return "sequence lengths are given (opset 8)"
        if self.states < 0 or len(self.body.inputs) != len(self.node.inputs) - 1 or self.outputs < 0:
            return "the body has another number of inputs or outputs than the node"
        return ""

    def normalize(self) -> bool:
        return False

    def scanned(self, k: int) -> Tensor:
        return self.node.inputs[1 + self.states + k]

    def to_loop(self, owner: Graph) -> None:
        """Put a Loop over the batch, around a Loop over the sequence, in the place of the Scan."""
        names, opset = self.editor.names, self.editor.root.opset
        emit = Emitter(names, opset, self.node.name or "scan")
        batch = emit.dim(self.scanned(0), 0)
        length = emit.dim(self.scanned(0), 1)
        item = Emitter(names, opset, self.node.name or "scan")
        number = Variable(names.fresh("batch_item"), np.int64, [])
        cond = Variable(names.fresh("batch_going"), np.bool_, [])
        picked = [item.gather(t, number, 0) for t in list(self.node.inputs)[1:]]
        made = self._loop(item, length, list(picked[: self.states]), list(picked[self.states :]))
        true = Constant(names.fresh("go_on"), np.array(True))
        rows = [t for t in made if t is not None]
        body = body_like(self.editor.root, "batch", item.nodes, [number, cond], [true, *rows])
        spare = self._spare(emit, body)
        types = [(t.dtype, None if t.shape is None else [_static(batch), *t.shape]) for t in rows]
        outputs = emit.ops("Loop", [batch], types, body=body)
        emit.nodes[-1].inputs.append(Variable.empty())
        self._with_spare(emit, outputs, spare)
        self.editor.replace(owner, self.node, emit.nodes, list(outputs))


def _rank(stacked: Tensor, row: Tensor) -> int | None:
    if stacked.shape is not None:
        return len(stacked.shape)
    return len(row.shape) + 1 if row.shape is not None else None


def _static(trips: Tensor) -> int | None:
    return int(np.asarray(trips.values).reshape(-1)[0]) if isinstance(trips, Constant) else None
