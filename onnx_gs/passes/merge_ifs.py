"""Conditionals that ask the same question become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.ir import edit as ir_edit, scopes
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.rewriting import Work, works

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node

_BRANCHES = ("then_branch", "else_branch")


@dataclass(frozen=True)
class MergeIfs(Pass):
    """Join conditionals on the same condition, and turn the branches around where the condition is a negation.

    Matches:   two ``If`` of one graph on the same tensor, where all that the second one's branches capture is there before the first; an ``If`` on
               ``Not``.
    Rewrites:  the first one gets the nodes and outputs of the second; the ``If`` on a negation reads what is negated, its branches exchanged.
    Declines:  the second one needs what is computed after the first.
    """

    name: ClassVar[str] = "merge-ifs"
    needs: ClassVar[frozenset[str]] = frozenset({"If"})
    shares: ClassVar[bool] = True

    def run(self, graph: Graph, report: Report) -> None:
        """Merge in every graph."""
        for work in works(graph, report):
            ifs = work.nodes(("If",))
            if not ifs:
                continue
            for owner, node in ifs:
                self._turn(work, owner, node)
            if len(ifs) > 1:
                for owner in {id(owner): owner for owner, _ in ifs}.values():
                    self._merge(work, owner)
            work.finish()

    def _turn(self, work: Work, owner: Graph, node: Node) -> None:
        negation = work.producer(node._inputs[0], "Not")
        if negation is None or not all(b in node.attrs for b in _BRANCHES):
            return
        work.report.rewrote(owner, node, "asks without the negation")
        node._inputs[0] = negation._inputs[0]
        node.attrs["then_branch"], node.attrs["else_branch"] = node.attrs["else_branch"], node.attrs["then_branch"]

    def _merge(self, work: Work, owner: Graph) -> None:
        first: dict[int, tuple[int, Node]] = {}
        made_at = {id(t): at for at, node in enumerate(owner.nodes) for t in node._outputs}
        renamed = False
        for at, node in enumerate(owner.nodes):
            if node.op != "If" or not node.is_onnx or not node._outputs:
                continue
            earlier = first.setdefault(id(node._inputs[0]), (at, node))
            if earlier[1] is node:
                continue
            if any(made_at.get(id(t), -1) >= earlier[0] for t in scopes.node_captures(node)):
                continue
            if not renamed:
                ir_edit.rename_apart(work.root)
                renamed = True
            work.report.rewrote(owner, node, f"joins '{earlier[1].name or 'If'}' on the same condition")
            self._join(work, owner, earlier[1], node)

    def _join(self, work: Work, owner: Graph, first: Node, second: Node) -> None:
        outputs = list(second._outputs)
        for branch in _BRANCHES:
            into, out_of = first.attrs[branch], second.attrs[branch]
            returned = list(out_of.outputs)
            nodes = work.edit.take_body(second, out_of)
            into.nodes.extend(nodes)
            for inner in nodes:
                work.edit.adopt(into, inner)
            out_of.outputs = []
            work.edit.set_outputs(into, [*into.outputs, *returned])
        work.edit.remove(owner, second)
        first._outputs.extend(outputs)


