"""``If`` without what its condition, or nobody, needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis.loops import origin
from onnx_gs.ir import Constant, Node, edit, walk
from onnx_gs.ir.shapes import is_static
from onnx_gs.passes.base import Pass
from onnx_gs.passes.loop_edits import drop_dead_nodes

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report

BRANCHES = ("then_branch", "else_branch")
_BOOL = 9


@dataclass(frozen=True)
class NormalizeIf(Pass):
    """Let the branches of an ``If`` know what its condition says, and drop the outputs that nothing needs.

    Matches:   ``ai.onnx::If``, at any depth.
    Rewrites:  inside the branch that runs when the condition is true, the condition, what it is the negation of, and (for ``And``) what must be true
               then, become constants, and likewise in the other branch: an inner ``If`` that asks again is decided. Outputs that nothing reads go,
               with the nodes that only they needed; an output for which both branches return the same outer tensor is that tensor.
    Requires:  a condition of one element, as ONNX asks.
    Declines:  nothing; an ``If`` that gains nothing stays.
    TensorRT:  refuses an inner ``If`` on the outer condition.

    Before::                                                        After::
        y = If (c) <then_branch = t () => (a) {                         y = If (c) <then_branch = t () => (a) { a = Neg (x) },
               a = If (c) <then: Neg (x), else: Abs (x)> }, ...>            ...>
    """

    name: ClassVar[str] = "normalize-if"
    needs: ClassVar[frozenset[str]] = frozenset({"If"})

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                facts: dict[tuple[int, bool], list[tuple[Tensor, bool]]] = {}
                for owner, node in walk.nodes(root, op="If"):
                    if editor.is_removed(node) or not node.attrs or not all(b in node.attrs for b in BRANCHES):
                        continue
                    cond = node.inputs[0]
                    told = 0
                    for branch, value in zip(BRANCHES, (True, False)):
                        known = facts.get((id(cond), value))
                        if known is None:
                            known = facts[id(cond), value] = _facts(cond, value)
                        told += _tell(editor, node.attrs[branch], known)
                    same, dead = _same(editor, node), _dead(editor, node)
                    done = [f"{told} uses of the condition inside are decided"] if told else []
                    done += [f"{same} outputs are the same either way"] if same else []
                    done += [f"{dead} outputs that nothing reads"] if dead else []
                    if done:
                        report.rewrote(owner, node, ", ".join(done))
                    if not node.outputs:
                        editor.remove(owner, node)


def _facts(cond: Tensor, value: bool) -> list[tuple[Tensor, bool]]:
    """List what is known where a condition has a value: upwards through what made it, then one step down through negations."""
    found: dict[int, tuple[Tensor, bool]] = {}
    pending = [(cond, value)]
    while pending:
        t, v = pending.pop()
        if id(t) in found or isinstance(t, Constant) or not t.name:
            continue
        found[id(t)] = (t, v)
        node = t.inputs[0] if len(t.inputs) == 1 and t.inputs[0].is_onnx else None
        if node is None:
            continue
        if node.op == "Not":
            pending.append((node.inputs[0], not v))
        elif node.op == "Identity" or _is_bool_cast(node):
            pending.append((node.inputs[0], v))
        elif (node.op == "And" and v) or (node.op == "Or" and not v):
            pending.extend((x, v) for x in node.inputs)
    for t, v in list(found.values()):
        for node in list(t.outputs):
            if node.is_onnx and (node.op in {"Not", "Identity"} or _is_bool_cast(node)) and node.outputs:
                out = node.outputs[0]
                found.setdefault(id(out), (out, not v if node.op == "Not" else v))
    return list(found.values())


def _is_bool_cast(node: Node) -> bool:
    return node.op == "Cast" and node.attrs.get("to") == _BOOL and node.inputs[0].dtype == np.bool_


def _tell(editor: Editor, branch: Graph, facts: list[tuple[Tensor, bool]]) -> int:
    """Put what is known into a branch; give how many uses were replaced."""
    graphs = list(walk.graphs(branch))
    inside = {id(g) for g in graphs}
    size = sum(len(g.nodes) for g in graphs)
    count = 0
    for t, value in facts:
        if len(t.outputs) > size:
            readers = {id(n): n for g in graphs for n in g.nodes if any(x is t for x in n.inputs)}
        else:
            readers = {id(n): n for n in t.outputs if id(editor.holder.get(id(n))) in inside}
        known: Constant | None = None
        for reader in readers.values():
            if t.shape is None and reader.op not in {"If", "Loop"}:
                continue
            if t.shape is not None and (not is_static(t.shape) or any(d != 1 for d in t.shape)):
                continue
            for at, x in enumerate(list(reader.inputs)):
                if x is t:
                    if known is None:
                        known = Constant(editor.names.fresh(f"{t.name}_is_{str(value).lower()}"), np.full(tuple(t.shape or ()), value, np.bool_))
                    reader.inputs[at] = known
                    count += 1
    return count


def _same(editor: Editor, node: Node) -> int:
    """Replace outputs for which both branches return the same outer tensor."""
    then, other = (node.attrs[b] for b in BRANCHES)
    count = 0
    for out, a, b in zip(list(node.outputs), then.outputs, other.outputs):
        first, second = origin(a), origin(b)
        if first is not second or not out.name or not editor.is_used(out):
            continue
        if editor.home(first) is then or (isinstance(first, Constant) and any(first is t for t in (a, b))):
            continue
        slot = next(at for at, t in enumerate(node.outputs) if t is out)
        editor.replace_uses(out, first)
        if slot < len(node.outputs) and node.outputs[slot] is out:
            node.outputs[slot] = type(out).empty() if hasattr(type(out), "empty") else out  # type: ignore[attr-defined]
        count += 1
    return count


def _dead(editor: Editor, node: Node) -> int:
    """Drop outputs that nothing reads, in the node and in both branches."""
    gone = {at for at, t in enumerate(node.outputs) if not t.name or not editor.is_used(t)}
    if not gone:
        return 0
    for branch in BRANCHES:
        body = node.attrs[branch]
        editor.set_outputs(body, [t for at, t in enumerate(body.outputs) if at not in gone and at < len(node.outputs)])
        drop_dead_nodes(editor, body)
    node.outputs[:] = [t for at, t in enumerate(node.outputs) if at not in gone]
    return len(gone)
