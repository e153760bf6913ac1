"""``If`` whose condition is known: the branch that it takes, in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.analysis import constness
from onnx_gs.ir import scopes, walk
from onnx_gs.ir.edit import detach, move_consumers
from onnx_gs.ir.instantiate import instantiate
from onnx_gs.ir.names import Names
from onnx_gs.ir.node import Node, is_graph
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor


class Inliner:
    """Puts taken branches in place of their ``If``; what it has to know of the model is looked up once, when first needed.

    Args:
        root: the model's graph, or a function.
    """

    def __init__(self, root: Graph) -> None:
        """Remember the root; nothing is looked up yet."""
        self.root = root
        self._ready = False
        self._names: Names
        self._owned: dict[int, list[Tensor]] = {}
        self._listed: dict[int, list[Graph]] = {}
        self._holders: dict[int, int] = {}
        self._node_names: dict[int, set[str]] = {}
        self._kept: list[Any] = []

    def _prepare(self) -> None:
        if self._ready:
            return
        self._ready = True
        self._names = Names(self.root)
        weights: dict[int, Tensor] = {}
        for graph in walk.graphs(self.root):
            for node in graph.nodes:
                weights.update((id(t), t) for t in node._inputs if isinstance(t, Constant))
                for _, body in node.bodies() if node._attrs else ():
                    self._holders[id(body)] = self._holders.get(id(body), 0) + 1
            weights.update((id(t), t) for t in graph.outputs if isinstance(t, Constant))
        for key, owner in scopes.owners(self.root).items():
            if key in weights:
                self._owned.setdefault(id(owner), []).append(weights[key])
        self._listed = scopes.output_uses(self.root, functions=False)

    def branch(self, node: Node, condition: bool) -> Graph | None:
        """Give the branch that an ``If`` takes, or None where the node has none or outputs that do not fit it."""
        branch: Any = node.attrs.get("then_branch" if condition else "else_branch")
        if not is_graph(branch) or branch.inputs or len(branch.outputs) < len(node._outputs):
            return None
        return branch  # type: ignore[no-any-return]

    def inline(self, owner: Graph, node: Node, condition: bool, index: int) -> list[Node] | None:
        """Take the nodes of the branch that an ``If`` takes, bound to the outputs of the ``If``.

        Tensors of the branch are renamed ``<name>_subg_<index>_<branch name>``; the outputs of the ``If`` keep their names.

        Args:
            owner: the graph that holds the ``If``.
            node: the ``If``; it is unlinked, with the branch not taken.
            condition: which branch.
            index: the position that the ``If`` has in the list of nodes, for names.

        Returns:
            The nodes that the caller puts in its place, in order; None where the ``If`` has to stay, unchanged.
        """
        branch = self.branch(node, condition)
        if branch is None:
            return None
        self._prepare()
        self._kept.extend([node, branch])
        if self._holders.get(id(branch), 1) > 1:  # another node has the same branch: it keeps its own
            self._holders[id(branch)] -= 1
            nodes, returned = instantiate(branch, [], self._names)
            weights: list[Tensor] = []
        else:
            nodes, returned = list(branch.nodes), list(branch.outputs)
            weights = self._owned.get(id(branch), [])
            for t in returned:
                self._listed[id(t)] = [g for g in self._listed.get(id(t), []) if g is not branch]
            branch.nodes, branch.outputs = [], []
        outputs = list(node._outputs)
        for _, body in node.bodies():
            if body is not branch:
                self._holders[id(body)] = self._holders.get(id(body), 1) - 1
        # What is unlinked with the node is what nothing else holds.
        node.attrs = {k: v for k, v in node.attrs.items() if v is not branch and not (is_graph(v) and self._holders.get(id(v), 0) > 0)}
        detach(node)
        made = {id(t) for inner in nodes for t in inner._outputs}
        taken: dict[int, Tensor] = {}
        for out, value in zip(outputs, returned):
            if out._name:
                nodes.extend(self._bind(out, value, made, taken))
        suffix = f"_subg_{index}_{branch.name}"
        for t in [*(t for inner in nodes for t in inner._outputs if id(t) in made), *weights]:
            if t._name and id(t) not in taken:
                wished = t._name + suffix
                t.name = self._names.fresh(wished)
        self._rename_nodes(owner, node, nodes)
        return nodes

    def _bind(self, out: Tensor, value: Tensor, made: set[int], taken: dict[int, Tensor]) -> list[Node]:
        """Let an output of the ``If`` be what the branch returns; give the nodes that this takes."""
        if isinstance(value, Constant):
            out.to_constant(value._values if value._values is not None else value.values)
            out._origin, out._export_dtype, out._location = value._origin, value._export_dtype, value._location
            return []
        if id(value) in made and id(value) not in taken:
            producer = value._inputs[0]
            position = next(k for k, t in enumerate(producer._outputs) if t is value)
            producer._outputs[position] = out
            move_consumers(value, out)
            for graph in self._listed.pop(id(value), []):
                graph.outputs = [out if t is value else t for t in graph.outputs]
                self._listed.setdefault(id(out), []).append(graph)
            _refine(out, value)
            taken[id(value)] = out
            self._kept.append(value)
            return []
        source = taken.get(id(value), value)
        if self._listed.get(id(out)):
            return [Node("Identity", name=self._names.fresh(f"{out._name}_identity"), inputs=[source], outputs=[out])]
        move_consumers(out, source)
        return []

    def _rename_nodes(self, owner: Graph, node: Node, nodes: list[Node]) -> None:
        present = self._node_names.get(id(owner))
        if present is None:
            present = self._node_names[id(owner)] = {n.name for n in owner.nodes if n is not node}
        for inner in nodes:
            if inner.name and inner.name in present:
                inner.name = self._names.fresh(inner.name)
            present.add(inner.name)


def _refine(out: Tensor, value: Tensor) -> None:
    """Take over what the branch knows better about its output."""
    if not isinstance(out, Variable) or not isinstance(value, Variable) or out.type != value.type or out.type != "tensor_type":
        return
    if out.dtype is None and value.dtype is not None:
        out.dtype = value.dtype
    if value.shape is None:
        return
    if out.shape is None:
        out.shape = value.shape
    elif len(out.shape) == len(value.shape) and any(is_static_dim(b) and not is_static_dim(a) for a, b in zip(out.shape, value.shape)):
        out.shape = [b if is_static_dim(b) and not is_static_dim(a) else a for a, b in zip(out.shape, value.shape)]


@dataclass(frozen=True)
class InlineIf(Pass):
    """Replace an ``If`` whose condition is known by the branch that it takes.

    Matches:   ``ai.onnx::If`` whose condition is a constant of one element.
    Rewrites:  the taken branch's nodes into the graph that holds the ``If``, under fresh names; captures stay shared.
    Requires:  as many branch outputs as node outputs; graph outputs keep their names.
    Declines:  the condition is computed at run time.
    TensorRT:  an ``If`` left over must have branch outputs of one type and rank (``IIfConditional``).

    Before::                                             After::
        y = If (true) <then_branch = t () => (a) {...}>      a = Neg (x)
    """

    name: ClassVar[str] = "inline-if"

    def run(self, graph: Graph, report: Report) -> None:
        """Inline them all, nested ones too."""
        for root in [graph, *graph.functions]:
            inliner = Inliner(root)
            pending = [root]
            while pending:
                current = pending.pop()
                self._run(current, inliner, report)
                pending.extend(body for node in current.nodes if node._attrs for _, body in node.bodies())

    def _run(self, owner: Graph, inliner: Inliner, report: Report) -> None:
        done: list[Node] = []
        waiting = list(reversed(owner.nodes))
        changed = False
        while waiting:
            node = waiting.pop()
            if node.op != "If" or not node.is_onnx or not node._inputs:
                done.append(node)
                continue
            condition = constness.scalar(node._inputs[0])
            if condition is None or inliner.branch(node, bool(condition)) is None:
                report.decline(owner, node, "the condition is computed at run time" if condition is None else "its branch does not fit its outputs")
                done.append(node)
                continue
            report.rewrote(owner, node, f"the condition is {str(bool(condition)).lower()}")
            waiting.extend(reversed(inliner.inline(owner, node, bool(condition), len(done)) or []))
            changed = True
        if changed:
            owner.nodes[:] = done
