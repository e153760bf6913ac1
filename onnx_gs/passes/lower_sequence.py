"""Sequences into tensors, where what they hold is known at compile time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis import constness, shape_inference
from onnx_gs.ir import Node, Tensor, Variable, edit, walk
from onnx_gs.ir.instantiate import Body
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.passes.base import Pass
from onnx_gs.passes.loop_edits import body_like
from onnx_gs.passes.sequence_sweep import sweep
from onnx_gs.passes.sequence_tracking import READERS, Tracker
from onnx_gs.passes.sequence_values import Seq, Undecided, Workshop

if TYPE_CHECKING:
    from onnx_gs.ir import Graph
    from onnx_gs.passes.base import Report
    from onnx_gs.passes.emitter import Emitter


_MOST_ROUNDS = 16  # one for each list whose rows' shapes depend on another list


@dataclass(frozen=True)
class LowerSequence(Pass):
    """Replace reads of sequences by reads of the tensors that they hold, and drop the sequences.

    Matches:   ``SequenceAt``, ``SequenceLength``, ``ConcatFromSequence`` and ``SequenceMap`` over sequences that are made in the model, by
               ``SequenceEmpty``, ``SequenceConstruct``, ``SequenceInsert``, ``SequenceErase`` and ``SplitToSequence``, also across bodies.
    Rewrites:  an element into the tensor itself, or ``Split``, ``Slice`` or ``Gather`` of what was split; a computed position into ``Gather``
               of the stacked elements; a join into ``Concat``, ``Reshape`` or the tensor that was split; a length into a constant or a size;
               ``SequenceMap`` into copies of its body, or a ``Scan``. What an ``If`` chooses is read in its branches. What a ``Loop`` appends
               (or puts in front) becomes a scan output; a list whose length no trip changes becomes one carried tensor a position; one to
               which some of a constant number of trips append becomes the front of a buffer.
    Requires:  known shapes, where elements are stacked or appended in a loop.
    Declines:  sequences of the model's interface; positions of ``SequenceInsert`` and ``SequenceErase`` that are computed; elements of
               different shapes read at a computed position; lists that some trips append to and others do not.
    TensorRT:  has no sequences at all. Where the model fails (a position outside the list), the rewritten one may give a value.

    Before::                                             After::
        s = SequenceConstruct (x, w)                         y = Concat <axis = 0> (x, w)
        y = ConcatFromSequence <axis = 0> (s)

    Args:
        max_elements: the longest list for which ``SequenceMap`` copies its body for each element.
    """

    name: ClassVar[str] = "lower-sequence"

    max_elements: int = 64

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph and the functions of its model."""
        kept = len(report.declined)
        for _ in range(_MOST_ROUNDS):
            roots = [root for root in [graph, *graph.functions] if _has_sequences(root)]
            if not roots:
                break
            shape_inference.infer(graph)  # what the last round made may decide shapes behind it
            before = report.changed
            report.forget_declined(kept)
            for root in roots:
                edit.rename_apart(root)
                self._expand_maps(root, report)
                _Lowering(root, report).run()
            if report.changed == before:
                break

    def _expand_maps(self, root: Graph, report: Report) -> None:
        """Spell ``SequenceMap`` out with other sequence operators, outer ones first, until none is left that can be."""
        changed = True
        while changed and any(True for _ in walk.nodes(root, "SequenceMap")):
            changed = False
            with edit.Editor(root) as editor:
                shop = Workshop(editor, root.opset)
                tracker = Tracker(root, shop)
                for owner, node in walk.nodes(root, "SequenceMap"):
                    why = _expand_map(shop, tracker, owner, node, self.max_elements, report)
                    if why is None:
                        changed = True
                        break  # its results may decide others: look again
                    report.decline(owner, node, why)


def _has_sequences(root: Graph) -> bool:
    return any(n.is_onnx and (n.op in READERS or n.op == "SequenceMap") for _, n in walk.nodes(root))


class _Lowering:
    """One run of the pass on one graph."""

    def __init__(self, root: Graph, report: Report) -> None:
        self.root = root
        self.report = report
        self.edit = edit.Editor(root)
        self.shop = Workshop(self.edit, root.opset)
        self.tracker = Tracker(root, self.shop)

    def run(self) -> None:
        order = list(walk.graphs(self.root))[::-1]  # inner before outer
        before = self.report.changed
        for graph in order:
            for node in graph.nodes:
                for fixed in self.tracker.fixed.get(id(node), []):
                    self.report.rewrote(graph, node, "a list of fixed length is carried as tensors")
                    fixed.convert(self.shop)
        for graph in order:
            for node in list(graph.nodes):
                if node.op in READERS and node.is_onnx:
                    self._read(graph, node)
        self.edit.commit()
        if self.report.changed != before:
            sweep(self.edit, self.tracker.holds, {id(node) for _, node in self.shop.made})

    def _read(self, graph: Graph, node: Node) -> None:
        seq = self.tracker.known.get(id(node.inputs[0]))
        if seq is None:
            if self.tracker.holds(node.inputs[0]):
                self.report.decline(graph, node, f"the sequence cannot be followed: {self.tracker.why_unknown(node.inputs[0])}")
            else:
                self.report.decline(graph, node, "the sequence comes from outside the model, or from an operator that is not followed")
            return
        emit = self.shop.emitter(node.outputs[0].name)
        try:
            made = _ANSWERS[node.op](self.shop, node, seq, emit)
        except Undecided as why:
            for dropped in emit.nodes:
                edit.detach(dropped)
            self.report.decline(graph, node, str(why))
            return
        self.report.rewrote(graph, node)
        self.edit.replace(graph, node, emit.nodes, [made])


def _at(shop: Workshop, node: Node, seq: Seq, emit: Emitter) -> Tensor:
    position = constness.scalar(node.inputs[1])
    return seq.at(shop, node.inputs[1], emit) if position is None else seq.element(shop, int(position))


def _length(shop: Workshop, _node: Node, seq: Seq, _emit: Emitter) -> Tensor:
    return seq.count(shop)


def _concat(shop: Workshop, node: Node, seq: Seq, _emit: Emitter) -> Tensor:
    return seq.joined(shop, int(node.attrs["axis"]), bool(node.attrs.get("new_axis", 0)))


_ANSWERS: Any = {"SequenceAt": _at, "SequenceLength": _length, "ConcatFromSequence": _concat}


def _expand_map(shop: Workshop, tracker: Tracker, owner: Graph, node: Node, limit: int, report: Report) -> str | None:
    """Spell one ``SequenceMap`` out; give the reason where that cannot be done."""
    lists = [t for k, t in enumerate(node.inputs) if k == 0 or tracker.holds(t)]
    found = [tracker.known.get(id(t)) for t in lists]
    if any(seq is None for seq in found):
        blocked = next(t for t, seq in zip(lists, found) if seq is None)
        return f"the sequence cannot be followed: {tracker.why_unknown(blocked)}"
    known = [seq for seq in found if seq is not None]
    length = known[0].length
    if length is not None and length <= limit:
        report.rewrote(owner, node, f"{length} copies of the body")
        _copy_for_each(shop, tracker, owner, node, length)
        return None
    if any(seq.element_type()[1] is None for seq in known):
        return "the list is long or of unknown length, and its elements are not all of one known shape"
    names = {d for t in shop.edit.root.inputs for d in (t.shape or ()) if isinstance(d, str)}
    body: Graph = node.attrs["body"]
    for t in body.outputs:
        if t.shape is None or not all(is_static_dim(d) or d in names for d in t.shape):
            return "the list is long or of unknown length, and its results are not all of one known shape"
    report.rewrote(owner, node, "a Scan over the stacked elements")
    _scan_over(shop, tracker, owner, node, known)
    return None


def _copy_for_each(shop: Workshop, tracker: Tracker, owner: Graph, node: Node, length: int) -> None:
    emit = shop.emitter(node.name or "map")
    template = Body(node.attrs["body"])
    columns: list[list[Tensor]] = [[] for _ in node.outputs]
    for k in range(length):
        bound = [
            emit.op("SequenceAt", t, emit.constant(np.int64(k))) if at == 0 or tracker.holds(t) else t for at, t in enumerate(node.inputs)
        ]
        nodes, results = template.instantiate(bound, shop.edit.names)
        emit.nodes.extend(nodes)
        for column, t in zip(columns, results):
            column.append(t)
    outputs = []
    for column in columns:
        outputs.append(emit.op("SequenceConstruct", *column) if column else emit.op("SequenceEmpty"))
    shop.edit.replace(owner, node, emit.nodes, outputs)


def _scan_over(shop: Workshop, tracker: Tracker, owner: Graph, node: Node, known: list[Seq]) -> None:
    emit = shop.emitter(node.name or "map")
    rows = [t for at, t in enumerate(node.inputs) if at == 0 or tracker.holds(t)]
    stacked = [emit.op("ConcatFromSequence", t, axis=0, new_axis=1) for t in rows]
    formals: list[Variable] = []
    bound: list[Tensor] = []
    for at, t in enumerate(node.inputs):
        if at == 0 or tracker.holds(t):
            dtype, shape = known[len(formals)].element_type()
            formals.append(Variable(shop.edit.names.fresh("map_element"), dtype, None if shape is None else list(shape)))
            bound.append(formals[-1])
        else:
            bound.append(t)
    nodes, results = Body(node.attrs["body"]).instantiate(bound, shop.edit.names)
    inner = shop.emitter("map_result")
    ends = [inner.identity(t) for t in results]
    for end, formal in zip(ends, node.attrs["body"].outputs):
        end.dtype, end.shape = formal.dtype, formal.shape
    body = body_like(owner, "map_body", [*nodes, *inner.nodes], formals, ends)
    types = [(t.dtype, None if t.shape is None else [None, *t.shape]) for t in ends]
    scanned = emit.ops("Scan", stacked, types, body=body, num_scan_inputs=len(stacked))
    outputs = [emit.op("SplitToSequence", t, axis=0, keepdims=0) for t in scanned]
    shop.edit.replace(owner, node, emit.nodes, outputs)
