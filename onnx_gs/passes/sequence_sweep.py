"""Taking out what makes sequences or optionals that nothing reads any more: nodes, outputs of an ``If``, values that a ``Loop`` carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onnx_gs.analysis.loops import LoopParts
from onnx_gs.ir import walk
from onnx_gs.passes.sequence_tracking import MAKERS as SEQUENCE_MAKERS

MAKERS = SEQUENCE_MAKERS | {"Optional"}

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.ir.edit import Editor

Holds = Callable[["Tensor"], bool]


def sweep(edit: Editor, holds: Holds, made: set[int]) -> None:
    """Remove sequences and optionals that nothing reads; the editor's edits are to be committed before, and are after.

    Args:
        edit: the editor of the model.
        holds: says whether a tensor stands for a sequence or an optional.
        made: ids of further nodes that may go where nothing uses them.
    """
    changed = True
    while changed:
        changed = False
        for graph in reversed(list(walk.graphs(edit.root))):
            for node in reversed(graph.nodes):
                if not edit.is_removed(node):
                    changed |= _sweep_node(edit, holds, made, graph, node)
        edit.commit()


def _sweep_node(edit: Editor, holds: Holds, made: set[int], graph: Graph, node: Node) -> bool:
    if not node.is_onnx and id(node) not in made:
        return False
    unused = [k for k, t in enumerate(node.outputs) if not edit.is_used(t)]
    passes_on = node.op in MAKERS or id(node) in made or (node.op == "Identity" and holds(node.inputs[0]))
    if passes_on and len(unused) == len(node.outputs):
        edit.remove(graph, node)
        return True
    if node.op == "If":
        gone = [k for k in unused if holds(node.outputs[k])]
        if gone:
            _drop_if_outputs(edit, graph, node, gone)
        return bool(gone)
    if node.op == "Loop":
        return _sweep_loop(edit, holds, node)
    return False


def _drop_if_outputs(edit: Editor, graph: Graph, node: Node, gone: list[int]) -> None:
    for branch in walk.bodies(node):
        edit.set_outputs(branch, [t for k, t in enumerate(branch.outputs) if k not in gone])
    node.outputs = [t for k, t in enumerate(node.outputs) if k not in gone]
    if not node.outputs:
        edit.remove(graph, node)


def _sweep_loop(edit: Editor, holds: Holds, node: Node) -> bool:
    parts = LoopParts(node)
    idle = [k for k in range(parts.carried) if holds(parts.state_in(k)) and not edit.is_used(parts.final(k))]
    return any(_drop_state(edit, parts, k) for k in idle)


def _drop_state(edit: Editor, parts: LoopParts, index: int) -> bool:
    """Take out a value that a loop carries for itself alone; say whether it was one."""
    chain = _Chain(edit, parts, index)
    if not chain.is_closed:
        return False
    for owner, node, outputs in chain.ifs.values():
        _drop_if_outputs(edit, owner, node, sorted(outputs))
    for owner, node in chain.nodes.values():
        edit.remove(owner, node)
    loops = {id(inner.node): inner for inner, _ in chain.states}
    for key, inner in loops.items():
        _drop_states(edit, inner, {k for p, k in chain.states if id(p.node) == key})
    return True


def _drop_states(edit: Editor, parts: LoopParts, gone: set[int]) -> None:
    body, node = parts.body, parts.node
    edit.set_outputs(body, [t for at, t in enumerate(body.outputs) if at - 1 not in gone])
    edit.set_inputs(body, [t for at, t in enumerate(body.inputs) if at - 2 not in gone])
    node.outputs = [t for at, t in enumerate(node.outputs) if at not in gone]
    node.inputs = [t for at, t in enumerate(node.inputs) if at - 2 not in gone]
    if not node.outputs:
        edit.remove(edit.holder[id(node)], node)


class _Chain:
    """Everything that a loop's state flows into; ``is_closed`` where that ends in the same state and nowhere else."""

    def __init__(self, edit: Editor, parts: LoopParts, index: int) -> None:
        self.nodes: dict[int, tuple[Graph, Node]] = {}
        self.ifs: dict[int, tuple[Graph, Node, set[int]]] = {}
        self.states: list[tuple[LoopParts, int]] = []
        self._edit = edit
        self._parents = walk.parents(edit.root)
        self._seen: set[tuple[int, int]] = set()
        self._pending: list[Tensor] = []
        self._state(parts, index)
        self.is_closed = True
        seen: set[int] = set()
        while self._pending and self.is_closed:
            t = self._pending.pop()
            if id(t) not in seen:
                seen.add(id(t))
                self.is_closed = self._follow(t)

    def _state(self, parts: LoopParts, k: int) -> None:
        if (id(parts.node), k) not in self._seen:
            self._seen.add((id(parts.node), k))
            self.states.append((parts, k))
            self._pending.extend([parts.state_in(k), parts.final(k)])

    def _follow(self, tensor: Tensor) -> bool:
        for graph in self._edit.listed_by(tensor):
            held = self._parents.get(id(graph))
            if held is None:
                return False
            owner, node, _ = held
            for at, t in enumerate(graph.outputs):
                if t is tensor and not self._returned(owner, node, at):
                    return False
        for node in tensor.outputs:
            if node.op == "Loop" and node.is_onnx:
                inner = LoopParts(node)
                if any(node.inputs[at] is tensor for at in range(2)):
                    return False
                for at, t in enumerate(node.inputs):
                    if t is tensor:
                        self._state(inner, at - 2)
            elif node.is_onnx and (node.op in MAKERS or node.op == "Identity") and node.inputs[0] is tensor:
                self.nodes[id(node)] = (self._edit.holder[id(node)], node)
                self._pending.extend(node.outputs)
            else:
                return False
        return True

    def _returned(self, owner: Graph, node: Node, at: int) -> bool:
        if node.op == "If":
            _, _, outputs = self.ifs.setdefault(id(node), (owner, node, set()))
            outputs.add(at)
            self._pending.append(node.outputs[at])
            return True
        if node.op == "Loop":
            parts = LoopParts(node)
            if not 1 <= at <= parts.carried:
                return False
            self._state(parts, at - 1)
            return True
        return False


