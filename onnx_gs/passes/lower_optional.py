"""Optionals into what they hold, where their presence is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis.loops import LoopParts, origin
from onnx_gs.ir import Tensor, Variable, dtypes, edit, walk
from onnx_gs.ir.shapes import same_shape
from onnx_gs.passes.base import Pass
from onnx_gs.passes.sequence_sweep import sweep
from onnx_gs.passes.sequence_values import Undecided, Workshop

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node
    from onnx_gs.passes.base import Report

READERS = frozenset({"OptionalHasElement", "OptionalGetElement"})


@dataclass(frozen=True)
class LowerOptional(Pass):
    """Replace reads of optionals by what they hold, and the question whether they hold something by its answer.

    Matches:   ``OptionalHasElement`` and ``OptionalGetElement`` over optionals that are made in the model by ``Optional``, also across
               bodies, and (opset 18) over values that are no optionals at all.
    Rewrites:  the element into the value that was wrapped; presence into a constant, or into the condition of the ``If`` that chose.
    Declines:  optionals of the model's interface, and those that a ``Loop`` replaces by others.
    TensorRT:  has no optionals.

    Before::                                             After::
        o = Optional (x)                                     y = Neg (x)
        e = OptionalGetElement (o)
        y = Neg (e)
    """

    name: ClassVar[str] = "lower-optional"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph and the functions of its model."""
        for root in [graph, *graph.functions]:
            if any(n.is_onnx and n.op in READERS for _, n in walk.nodes(root)):
                edit.rename_apart(root)
                _Lowering(root, report).run()


class _Holding:
    """What an optional holds: a tensor, nothing (None), or what an ``If`` chose."""

    def __init__(self, value: Tensor | None, node: Node | None = None, branches: tuple[_Holding, _Holding] | None = None) -> None:
        self.value, self.node, self.branches = value, node, branches
        self.chosen: Tensor | None = None

    def presence(self) -> bool | None:
        """Say whether there is an element; None where that depends on the run."""
        if self.branches is None:
            return self.value is not None
        a, b = (branch.presence() for branch in self.branches)
        return a if a == b else None

    def element(self, shop: Workshop) -> Tensor:
        if self.branches is None or self.node is None:
            if self.value is None:
                raise Undecided("the optional is empty, so reading it fails")
            return self.value
        if self.chosen is None:
            answers = [branch.element(shop) for branch in self.branches]
            types = [dtypes.of(t) for t in answers]
            if types[0] is not None and types[1] is not None and types[0] is not types[1]:
                raise Undecided("the branches hold elements of different types")
            for branch, answer in zip(("then_branch", "else_branch"), answers):
                shop.give(self.node.attrs[branch], answer)
            shape = list(answers[0].shape) if same_shape(answers[0].shape, answers[1].shape) else None
            made = Variable(shop.edit.names.fresh(f"{self.node.name or 'if'}_element"), answers[0].dtype, shape)
            if isinstance(answers[0], Variable) and answers[0].type != "tensor_type":
                made.value_type = answers[0].value_type
            self.node.outputs.append(made)
            self.chosen = made
        return self.chosen


class _Lowering:
    def __init__(self, root: Graph, report: Report) -> None:
        self.root, self.report = root, report
        self.edit = edit.Editor(root)
        self.shop = Workshop(self.edit, root.opset)
        self.known: dict[int, _Holding | None] = {}
        self.kept: list[Tensor] = []
        for t in root.inputs:
            if isinstance(t, Variable) and t.type == "optional_type":
                self._set(t, None)
        self._look(root)

    def _set(self, tensor: Tensor, value: _Holding | None) -> None:
        self.known[id(tensor)] = value
        self.kept.append(tensor)

    def _holds(self, tensor: Tensor) -> bool:
        return id(tensor) in self.known

    def _look(self, graph: Graph) -> None:
        for node in graph.nodes:
            if not node.is_onnx:
                continue
            if node.op == "Optional":
                self._set(node.outputs[0], _Holding(node.inputs[0] if node.inputs and node.inputs[0].name else None))
            elif node.op == "Identity" and self._holds(node.inputs[0]):
                self._set(node.outputs[0], self.known[id(node.inputs[0])])
            elif node.op == "If":
                self._if(node)
            elif node.op == "Loop":
                self._loop(node)
            elif node._attrs:
                for body in walk.bodies(node):
                    self._look(body)

    def _if(self, node: Node) -> None:
        branches = [node.attrs["then_branch"], node.attrs["else_branch"]]
        for branch in branches:
            self._look(branch)
        for k, out in enumerate(node.outputs):
            ends = [branch.outputs[k] for branch in branches if k < len(branch.outputs)]
            if any(self._holds(t) for t in ends):
                found = [self.known.get(id(t)) for t in ends]
                both = len(found) == len(branches) and found[0] is not None and found[1] is not None
                self._set(out, _Holding(None, node, (found[0], found[1])) if both else None)  # type: ignore[arg-type]

    def _loop(self, node: Node) -> None:
        parts = LoopParts(node)
        if not parts.well_formed:
            return
        for k in range(parts.carried):
            formal = parts.state_in(k)
            if self._holds(parts.initial(k)) or (isinstance(formal, Variable) and formal.type == "optional_type"):
                stays = origin(parts.state_out(k)) is formal
                value = self.known.get(id(parts.initial(k))) if stays else None
                self._set(formal, value)
                self._set(parts.final(k), value)
        self._look(parts.body)

    def run(self) -> None:
        before = self.report.changed
        for graph in list(walk.graphs(self.root))[::-1]:
            for node in list(graph.nodes):
                if node.op in READERS and node.is_onnx:
                    self._read(graph, node)
        self.edit.commit()
        if self.report.changed != before:
            sweep(self.edit, self._holds, {id(node) for _, node in self.shop.made})

    def _read(self, graph: Graph, node: Node) -> None:
        source = node.inputs[0] if node.inputs and node.inputs[0].name else None
        if source is None:
            holding: _Holding | None = _Holding(None)
        elif self._holds(source):
            holding = self.known[id(source)]
        elif isinstance(source, Variable) and source.type != "optional_type" and self._is_made_here(source):
            holding = _Holding(source)
        else:
            holding = None
        if holding is None:
            self.report.decline(graph, node, "whether the optional holds an element is not known: it comes from outside, or a loop changes it")
            return
        emit = self.shop.emitter(node.outputs[0].name)
        try:
            made = holding.element(self.shop) if node.op == "OptionalGetElement" else self._presence(holding, emit)
        except Undecided as why:
            self.report.decline(graph, node, str(why))
            return
        self.report.rewrote(graph, node)
        self.edit.replace(graph, node, emit.nodes, [made])

    def _is_made_here(self, source: Variable) -> bool:
        """Say whether a value that no ``Optional`` made is surely none: an operator of ONNX gives it, or its type says so."""
        if source.dtype is not None or source.type == "sequence_type":
            return True
        producers = list(source.inputs)
        return bool(producers) and all(p.is_onnx and p.op not in {"If", "Loop", "OptionalGetElement"} for p in producers)

    def _presence(self, holding: _Holding, emit: object) -> Tensor:
        presence = holding.presence()
        if presence is not None:
            return self.shop.emitter("has_element").constant(np.bool_(presence))
        if holding.node is None or holding.branches is None or any(b.branches is not None for b in holding.branches):
            raise Undecided("whether the optional holds an element depends on several conditions")
        then, _ = (b.presence() for b in holding.branches)
        home = self.edit.holder[id(holding.node)]
        made = self.shop.emitter("has_element")
        condition = holding.node.inputs[0]
        scalar: Tensor = condition if condition.shape is not None and len(condition.shape) == 0 else made.reshape(
            condition, made.constant(np.zeros(0, np.int64)), []
        )  # fmt: skip
        if not then:
            scalar = made.op("Not", scalar, dtype=np.bool_, shape=[])
        self.shop.after((home, holding.node), made)
        return scalar
