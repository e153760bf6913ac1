"""What the static rules ask about a model: types, shapes, and what depends on what."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from onnx_gs.analysis import constness
from onnx_gs.analysis.shape_values import ShapeFacts
from onnx_gs.ir import Constant, Graph, liveness, walk
from onnx_gs.ops import traits
from onnx_gs.trt.capability import MAX_RANK
from onnx_gs.trt.places import NodeIndex
from onnx_gs.trt.survey import PLAIN, Survey

if TYPE_CHECKING:
    from onnx_gs.ir import Node, Tensor
    from onnx_gs.trt.places import Place

#: Operators whose result says how large a tensor is, not what it holds: the way from data to sizes ends here.
SHAPE_OPS = frozenset({"Shape", "Size"})


class ModelFacts:
    """Facts about one model, found once and shared by all rules.

    Args:
        graph: the model's graph; it is not changed.
    """

    def __init__(self, graph: Graph) -> None:
        """Walk the model."""
        self.graph = graph
        self.index = NodeIndex(graph)
        self._shapes: dict[int, ShapeFacts] = {}
        self._constant: dict[int, bool] = {}
        self._live: set[int] | None = None
        self.input_ids = {id(t): t for t in graph.inputs if not isinstance(t, Constant)}
        self.formal: dict[int, list[Tensor]] = {}
        self.operators: set[str] = set()
        for owner in walk.graphs(graph, functions=True):
            self.operators.update([node.op for node in owner.nodes])
            for node in owner.nodes:
                if node._attrs and node.has_body:
                    self._note(node)

    def shapes(self, place: Place) -> ShapeFacts:
        """Give the shape facts of the model, or of the local function that a node stands in."""
        root = place.function if place.function is not None else self.graph
        found = self._shapes.get(id(root))
        if found is None:
            found = self._shapes[id(root)] = ShapeFacts(root)
        return found

    def main_shapes(self) -> ShapeFacts:
        """Give the shape facts of the model itself."""
        if id(self.graph) not in self._shapes:
            self._shapes[id(self.graph)] = ShapeFacts(self.graph)
        return self._shapes[id(self.graph)]

    def _note(self, node: Node) -> None:
        """Note what enters the bodies of a node."""
        for _, body in node.bodies():
            for formal, outer in zip(body.inputs, _entering(node, body)):
                if outer is not None:
                    self.formal.setdefault(id(formal), []).append(outer)

    @cached_property
    def survey(self) -> Survey:
        """What may occur in the model at all."""
        return Survey.of(self.graph)

    def unusual(self) -> bool:
        """Say whether there are element types in the model beyond those that stand anywhere in a network, or tensors of many dims."""
        plain = self.survey.all_plain
        if plain and self.survey.stays_below(MAX_RANK):
            return False
        for place in self.index.all:
            shapes = self.shapes(place)
            for tensor in place.node.outputs:
                shape = shapes.shape(tensor)
                if (shape is not None and len(shape) > MAX_RANK) or not (plain or _is_plain(shapes, tensor)):
                    return True
            if plain:
                continue
            for tensor in place.node.inputs:
                if (isinstance(tensor, Constant) or id(tensor) in self.input_ids) and not _is_plain(shapes, tensor):
                    return True
        return False

    def is_constant(self, tensor: Tensor) -> bool:
        """Say whether a tensor depends on constants only."""
        if isinstance(tensor, Constant):
            return True
        if id(tensor) not in self._constant:
            self._decide(tensor)
        return self._constant[id(tensor)]

    def _decide(self, tensor: Tensor) -> None:
        """Find out whether a tensor is constant, and all that it depends on."""
        known = self._constant
        pending, waiting = [tensor], {id(tensor)}
        while pending:
            current = pending[-1]
            verdict = self._verdict(current, waiting)
            if isinstance(verdict, bool):
                known[id(current)] = verdict
                waiting.discard(id(current))
                pending.pop()
            else:
                pending.append(verdict)
                waiting.add(id(verdict))

    def _verdict(self, tensor: Tensor, waiting: set[int]) -> bool | Tensor:
        """Say whether a tensor is constant, or give one that must be decided before."""
        if len(tensor.inputs) != 1:
            return False
        node = tensor.inputs[0]
        if node.op == "Constant" and node.is_onnx:
            return True
        if not node.inputs or (node._attrs and node.has_body) or traits.never_folds(node) is not None:
            return False
        undecided: Tensor | None = None
        for read in node.inputs:
            if not read.name or isinstance(read, Constant):
                continue
            verdict = self._constant.get(id(read))
            if verdict is False or id(read) in waiting:  # a cycle is no constant
                return False
            if verdict is None:
                undecided = read
        return True if undecided is None else undecided

    def is_weight(self, tensor: Tensor) -> bool:
        """Say whether a tensor is an initializer or what a Constant node gives."""
        return constness.is_constant(tensor)

    def is_resolved(self, tensor: Tensor) -> bool:
        """Say whether the parser has a tensor's values at hand: a weight, also through Identity and Cast, but nothing computed from one."""
        while not self.is_weight(tensor):
            if len(tensor.inputs) != 1 or tensor.inputs[0].op not in {"Identity", "Cast"} or not tensor.inputs[0].is_onnx:
                return False
            tensor = tensor.inputs[0].inputs[0]
        return True

    def is_live(self, place: Place) -> bool:
        """Say whether anything needs a node of the main graph; nodes in bodies are taken as needed."""
        if place.outer or place.function is not None:
            return True
        if self._live is None:
            self._live = {id(n) for n in liveness.live_nodes(self.graph)}
        return id(place.node) in self._live

    def data_inputs(self, tensor: Tensor) -> list[Tensor]:
        """Give the network inputs whose values a tensor depends on, not counting what depends on their shapes only."""
        found: list[Tensor] = []
        seen: set[int] = set()
        pending: list[Tensor] = [tensor]
        while pending:
            current = pending.pop()
            if id(current) in seen or isinstance(current, Constant):
                continue
            seen.add(id(current))
            if id(current) in self.input_ids:
                found.append(current)
                continue
            pending.extend(self.formal.get(id(current), ()))
            for producer in current.inputs:
                pending.extend(_made_from(producer, current))
        return found

    def depends_on(self, tensor: Tensor, targets: set[int], *, stop_at_shapes: bool = True) -> bool:
        """Say whether a tensor's values are made from one of some tensors, by id, through nodes of any scope."""
        seen: set[int] = set()
        pending: list[Tensor] = [tensor]
        while pending:
            current = pending.pop()
            if id(current) in targets:
                return True
            if id(current) in seen or isinstance(current, Constant):
                continue
            seen.add(id(current))
            for producer in current.inputs:
                if stop_at_shapes or producer.op not in SHAPE_OPS:
                    pending.extend(_made_from(producer, current))
        return False


def _is_plain(shapes: ShapeFacts, tensor: Tensor) -> bool:
    dtype = shapes.dtype(tensor)
    return dtype is None or dtype.name in PLAIN


def _made_from(node: Node, made: Tensor) -> list[Tensor]:
    """Give the tensors whose values one output of a node is made from; what only steers control flow is not among them."""
    if not node.is_onnx:
        return list(node.inputs)
    if node.op in SHAPE_OPS:
        return []
    if node.op in {"If", "Loop"}:
        k = next((i for i, t in enumerate(node.outputs) if t is made), None)
        if k is not None:
            return _results(node, k)
    return list(node.inputs)


def _results(node: Node, k: int) -> list[Tensor]:
    if node.op == "If":
        return [body.outputs[k] for _, body in node.bodies() if k < len(body.outputs)]
    body = node.attrs.get("body")
    after = [body.outputs[k + 1]] if body is not None and hasattr(body, "nodes") and k + 1 < len(body.outputs) else []
    return after + ([node.inputs[k + 2]] if k + 2 < len(node.inputs) else [])


def _entering(node: Node, body: Graph) -> list[Tensor | None]:
    """Give the outer tensor for each formal input of a body; None where there is none."""
    if node.op == "Loop":
        return [None, None, *node.inputs[2:]]
    if node.op == "Scan":
        return list(node.inputs[-len(body.inputs) :])
    return [None] * len(body.inputs)


def known_bool(facts: ModelFacts, place: Place, tensor: Tensor) -> bool | None:
    """Give the value of a bool scalar that constants or shapes decide; None where it is decided at run time."""
    value: Any = constness.scalar(tensor)
    if value is None:
        value = facts.shapes(place).scalar(tensor)
    return bool(value) if isinstance(value, (bool, int, float)) else None
