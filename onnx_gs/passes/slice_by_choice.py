"""A slice whose bound a condition on data chooses → an ``If`` between two slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis import constness, shape_inference
from onnx_gs.ir import Node, Variable, dtypes, edit, walk
from onnx_gs.passes.base import Pass
from onnx_gs.passes.loop_edits import body_like

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report

_BOUNDS = {1: "starts", 2: "ends"}


@dataclass(frozen=True)
class SliceByChoice(Pass):
    """Replace a ``Slice`` whose bound is a ``Where`` on data by an ``If`` between two slices with constant bounds.

    Matches:   ``ai.onnx::Slice`` one of whose ``starts`` and ``ends`` is ``Where`` of a condition of one element, which floats or a bool input
               decide, and of two constants; what else it reads are constants.
    Rewrites:  an ``If`` on the condition with the two slices as branches.
    Requires:  opset 10. Values stay to the bit.
    Declines:  nothing; a bound that integers and shapes decide stays, as TensorRT computes it.
    TensorRT:  computes sizes from integers only; branches of equal rank may differ in size.

    Before::                                                  After::
        n = Where (c, two, four)                                  y = If (c) <then: { a = Slice (x, zero, two) },
        y = Slice (x, zero, n)                                                else: { b = Slice (x, zero, four) }>
    """

    name: ClassVar[str] = "slice-by-choice"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            if root.opset < 10 or not any(_chooser(t) for _, node in walk.nodes(root, op="Slice") for t in list(node.inputs)[1:3]):
                continue
            if root is graph:
                shape_inference.infer(graph)
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                inputs = {id(t) for t in root.inputs}
                for owner, node in walk.nodes(root, op="Slice"):
                    found = _choice(node)
                    if found is not None and _data_decides(found[1].inputs[0], inputs):
                        report.rewrote(owner, node, f"an If between two values of its {_BOUNDS[found[0]]}")
                        _replace(editor, owner, node, *found)


def _choice(node: Node) -> tuple[int, Node] | None:
    """Give which input of a Slice a Where chooses, and the Where."""
    found: tuple[int, Node] | None = None
    for at, t in enumerate(list(node.inputs)[1:], 1):
        if not t.name or constness.is_constant(t):
            continue
        chooser = _chooser(t)
        if found is not None or at not in _BOUNDS or chooser is None:
            return None
        cond, a, b = chooser.inputs
        one = cond.shape is not None and all(d == 1 for d in cond.shape)
        if not one or not constness.is_constant(a) or not constness.is_constant(b) or not _same_length(t, a, b):
            return None
        found = at, chooser
    return found


def _chooser(t: Tensor) -> Node | None:
    node = t.inputs[0] if len(t.inputs) == 1 else None
    return node if node is not None and node.op == "Where" and node.is_onnx else None


def _same_length(t: Tensor, a: Tensor, b: Tensor) -> bool:
    """Say whether the Where only chooses, and broadcasts neither side."""
    first, second = constness.held(a), constness.held(b)
    return first is not None and second is not None and tuple(first.shape) == tuple(second.shape) and len(first.shape) == 1


def _data_decides(cond: Tensor, inputs: set[int]) -> bool:
    """Say whether a condition depends on floats, or on a bool that the caller gives; what only shapes are asked of does not count."""
    pending = [cond]
    seen: set[int] = set()
    while pending and len(seen) < 1000:
        t = pending.pop()
        if id(t) in seen or not t.name:
            continue
        seen.add(id(t))
        known = dtypes.of(t)
        if known is not None and not constness.is_constant(t) and (known.kind == "float" or (known is dtypes.BOOL and id(t) in inputs)):
            return True
        for node in t.inputs:
            if node.op not in {"Shape", "Size"}:
                pending.extend(node.inputs)
    return False


def _replace(editor: Editor, owner: Graph, node: Node, at: int, chooser: Node) -> None:
    names, out = editor.names, node.outputs[0]
    branches = []
    for side, value in (("then", chooser.inputs[1]), ("else", chooser.inputs[2])):
        part = Variable(names.fresh(f"{out.name}_{side}"), out.dtype if out.dtype is not None else node.inputs[0].dtype, None)
        if node.inputs[0].shape is not None:
            part.shape = [None] * len(node.inputs[0].shape)
        read = [value if k == at else t for k, t in enumerate(node.inputs)]
        cut = Node("Slice", names.fresh(f"{part.name}_node"), dict(node.attrs), read, [part])
        branches.append(body_like(editor.root, side, [cut], [], [part]))
    chosen = Variable(names.fresh(f"{out.name}_chosen"), branches[0].outputs[0].dtype, branches[0].outputs[0].shape)
    attrs = {"then_branch": branches[0], "else_branch": branches[1]}
    made = Node("If", names.fresh(f"{node.name or out.name}_if"), attrs, [chooser.inputs[0]], [chosen])
    editor.replace(owner, node, [made], [chosen])
