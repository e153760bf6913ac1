"""Nodes that both branches of an ``If`` have, once, before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.ir import Constant, Node, Variable, edit, walk
from onnx_gs.ops import traits
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.rewriting import may_have_16_bits, mentions_16_bits, moves
from onnx_gs.passes.share_subexpressions import attribute_key

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report

_LARGEST_KEY = 1 << 12


@dataclass(frozen=True)
class HoistCommon(Pass):
    """Move what both branches of an ``If`` compute in front of it.

    Matches:   a node of the then-branch and one of the else-branch with the same operator, attributes and inputs, all from outside the branches.
    Rewrites:  one of them goes before the ``If``, the other goes, and both branches capture the result; so on with what reads it.
    Requires:  deterministic operators without bodies. As one of the branches runs in any case, nothing is computed that was not before.
    Declines:  what computes 16-bit floats; what is not common stays.
    TensorRT:  takes both; fewer layers are inside the conditional.

    Before::                                                     After::
        y = If (c) <then: { r = Exp (x)  a = Neg (r) },              r = Exp (x)
                    else: { s = Exp (x)  b = Abs (s) }>              y = If (c) <then: { a = Neg (r) }, else: { b = Abs (r) }>
    """

    name: ClassVar[str] = "hoist-common"
    needs: ClassVar[frozenset[str]] = frozenset({"If"})

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                choices = list(walk.nodes(root, op="If"))
                narrow = bool(choices) and mentions_16_bits(root)
                for owner, node in reversed(choices):  # inner ones first
                    if all(b in node.attrs for b in ("then_branch", "else_branch")):
                        pairs = _pairs(node, narrow)
                        if pairs:
                            report.rewrote(owner, node, f"{len(pairs)} common nodes")
                            _hoist(editor, owner, node, pairs)


def _pairs(node: Node, narrow: bool) -> list[tuple[Node, Node]]:
    """List the nodes that both branches have, in order."""
    then, other = node.attrs["then_branch"], node.attrs["else_branch"]
    local = {id(t) for body in (then, other) for n in body.nodes for t in n.outputs}
    stands: dict[int, int] = {}  # output of the else-branch's node -> id of the then-branch's
    waiting: dict[Any, list[Node]] = {}
    pairs: list[tuple[Node, Node]] = []
    shared: set[int] = set()

    def key(n: Node) -> Any:
        inputs = [stands.get(id(t), id(t)) for t in n.inputs]
        if any(id(t) in local and i not in shared for t, i in zip(n.inputs, inputs)):
            return None
        attributes = attribute_key(n)
        if attributes is None or not _movable(n) or _is_rounded(n, narrow):
            return None
        return (n.op, n.overload, attributes, tuple(input_key(t, i) for t, i in zip(n.inputs, inputs)))

    # The nodes of a branch are in order, so each is ready once those it reads were paired: go through both in step, by rounds.
    left, right = list(then.nodes), list(other.nodes)
    while True:
        waiting = {}
        for n in left:
            k = key(n)
            if k is not None:
                waiting.setdefault(k, []).append(n)
        matched: set[int] = set()
        for m in right:
            k = key(m)
            if k is not None and waiting.get(k):
                n = waiting[k].pop(0)
                if [bool(t.name) for t in n.outputs] != [bool(t.name) for t in m.outputs]:
                    continue
                pairs.append((n, m))
                matched |= {id(n), id(m)}
                for a, b in zip(n.outputs, m.outputs):
                    stands[id(b)] = id(a)
                    shared.add(id(a))
        if not matched:
            return pairs
        left = [n for n in left if id(n) not in matched]
        right = [n for n in right if id(n) not in matched]


def input_key(t: Tensor, identity: int) -> Any:
    """Small weights count by value: each branch has its own of them."""
    if isinstance(t, Constant) and t.nbytes <= _LARGEST_KEY and t.dtype != np.dtype(object) and t.export_dtype == t.dtype:
        values = np.asarray(t.values)  # which keeps a scalar one
        return ("weight", str(values.dtype), values.shape, values.tobytes())
    return identity if t.name else ""


def _movable(n: Node) -> bool:
    return n.is_onnx and not n.has_body and not traits.is_random(n) and n.op not in traits.STATEFUL and not traits.trains(n)


def _is_rounded(n: Node, narrow: bool) -> bool:
    """Say whether a result may be of 16 bits: a runtime rounds it where a branch reads it from outside, but not between computations."""
    return narrow and not moves(n) and any(may_have_16_bits(t, narrow) for t in n.outputs)


def _hoist(editor: Editor, owner: Graph, node: Node, pairs: list[tuple[Node, Node]]) -> None:
    then, other = node.attrs["then_branch"], node.attrs["else_branch"]
    for n, m in pairs:
        for a, b in zip(list(n.outputs), list(m.outputs)):
            if b.name:
                _return_copy(editor, other, b)
                _return_copy(editor, then, a)
                edit.move_consumers(b, a)
        editor.remove(other, m)
        moved = Node(n.op, n.name, n.attrs, domain=n.domain)
        moved._facts = dict(n.facts())
        inputs, outputs = list(n.inputs), list(n.outputs)
        editor.remove(then, n)
        moved.inputs[:] = inputs
        moved.outputs[:] = outputs
        editor.insert_before(owner, node, [moved])


def _return_copy(editor: Editor, body: Graph, t: Tensor) -> None:
    """Let a body that returns a tensor return an Identity of it, as the tensor moves out."""
    if not any(o is t for o in body.outputs):
        return
    emit = Emitter(editor.names, editor.root.opset, t.name)
    copy = emit.identity(t)
    if isinstance(t, Variable):
        copy.dtype = t.dtype
    editor.append(body, emit.nodes)
    editor.set_outputs(body, [copy if o is t else o for o in body.outputs])
