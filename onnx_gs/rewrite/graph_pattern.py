"""Patterns of nodes, and their matches in a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphError
from onnx_gs.ir import scopes
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node


class DuplicateNameError(GraphError, AssertionError):
    """Two nodes of a pattern have one name."""


class UnknownTensorError(GraphError, AssertionError, KeyError):
    """A pattern is told of a tensor that it does not have."""

    __str__ = GraphError.__str__


class PatternMapping(dict[str, Any]):
    """One match: pattern node name to what it matched.

    Attributes:
        inputs: the tensors that the pattern's variables stand for, in their order.
        outputs: the tensors that the pattern's outputs stand for, in their order.
        constants: name to tensor, for the pattern's constants.
        onnx_node: the graph's node, where this stands for a single node; else None.
    """

    def __init__(self, onnx_node: Node | None = None) -> None:
        """Start a mapping of a single node, or an empty one."""
        super().__init__()
        self.onnx_node = onnx_node
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.constants: dict[str, Tensor] = {}

    def get(self, name: str) -> Any:  # type: ignore[override]
        """Give the node that a pattern node matched, or the mapping of a subpattern.

        Raises:
            KeyError: the pattern has no node of that name.
        """
        if name not in self:
            raise KeyError(f"the pattern has no node '{name}'; it has {list(self)}")
        found = self[name]
        return found if found.onnx_node is None else found.onnx_node

    def _get_node(self) -> Node | None:
        """Give ``onnx_node``; existing tools ask this way."""
        return self.onnx_node

    def __str__(self) -> str:
        """Show pattern node names and the names of the matched nodes."""
        if self.onnx_node is not None:
            return self.onnx_node.name
        return "{" + ", ".join(f"{name}: {mapping}" for name, mapping in self.items()) + "}"

    __repr__ = __str__


@dataclass(frozen=True)
class PatternNode:
    """One node of a pattern.

    Attributes:
        op: operator type, or the pattern that stands for several nodes.
        check_func: asked for a candidate node.
        inputs: ids of the tensors that it reads.
        outputs: ids of the tensors that it makes.
    """

    op: str | GraphPattern
    check_func: Callable[[Node], bool] | None
    inputs: list[int]
    outputs: list[int]


@dataclass
class _Step:
    """One node of a flattened pattern: what it must be, and the tensors around it by number."""

    path: tuple[str, ...]
    op: str
    check: Callable[[Node], bool] | None
    inputs: list[int]
    outputs: list[int]


@dataclass
class _Flat:
    """A pattern with its subpatterns spelled out."""

    steps: list[_Step] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    subpatterns: list[tuple[tuple[str, ...], list[int], list[int], dict[int, str]]] = field(default_factory=list)
    count: int = 0

    def tensor(self) -> int:
        self.count += 1
        return self.count - 1


class GraphPattern:
    """A pattern of nodes: operators, how they are connected, and which tensors may be used outside.

    Variables match any tensor; constants match only ``Constant`` objects. A node matches with exactly as many inputs and outputs as the pattern
    says, operands in order, whatever its domain. A tensor inside the pattern that is no output of it must have no consumer outside the match and
    be no graph output. Branches that part and join again match too.

    Example:
        >>> import onnx_gs as gs
        >>> pattern = GraphPattern()
        >>> x = pattern.variable()
        >>> pattern.set_output_tensors([pattern.add("act", "Relu", inputs=[pattern.add("neg", "Neg", inputs=[x])])])
        >>> a, b, c = gs.Variable("a"), gs.Variable("b"), gs.Variable("c")
        >>> graph = gs.Graph([gs.Node("Neg", "n", inputs=[a], outputs=[b]), gs.Node("Relu", "r", inputs=[b], outputs=[c])], [a], [c])
        >>> [match.get("act").name for match in pattern.match_all(graph)]
        ['r']
    """

    def __init__(self) -> None:
        """Start an empty pattern."""
        self._count = 0
        self._variables: list[int] = []
        self._constants: dict[int, str] = {}
        self._nodes: dict[str, tuple[str | GraphPattern, Callable[[Node], bool] | None, list[int], list[int]]] = {}
        self._outputs: list[int] = []

    @property
    def nodes(self) -> dict[str, PatternNode]:
        """The pattern's nodes by name; scripts read a node's ``op`` here."""
        return {name: PatternNode(*entry) for name, entry in self._nodes.items()}

    @property
    def input_tensors(self) -> list[int]:
        """The ids of the pattern's variables."""
        return list(self._variables)

    @property
    def output_tensors(self) -> list[int]:
        """The ids of the tensors that may be used outside."""
        return list(self._outputs)

    def _tensor(self) -> int:
        self._count += 1
        return self._count - 1

    def variable(self) -> int:
        """Add an input of the pattern and give its id; it matches any tensor, constants included."""
        new = self._tensor()
        self._variables.append(new)
        return new

    def constant(self, name: str | None = None) -> int:
        """Add a tensor that must be a ``Constant``, and give its id.

        Args:
            name: under which ``PatternMapping.constants`` has the tensor; by default ``unnamed_constant_tensor_<id>``.
        """
        new = self._tensor()
        self._constants[new] = name if name is not None else f"unnamed_constant_tensor_{new}"
        return new

    def add(
        self,
        name: str,
        op: str | GraphPattern,
        check_func: Callable[[Node], bool] | None = None,
        inputs: Sequence[int] | None = None,
        num_output_tensors: int = 1,
    ) -> Any:
        """Add a node, or a whole pattern as one.

        Args:
            name: the pattern node's name, unique in the pattern.
            op: operator type, or a pattern, whose variables ``inputs`` then follow.
            check_func: asked for a candidate node; false means no match.
            inputs: ids of tensors of this pattern.
            num_output_tensors: how many outputs the node has.

        Returns:
            None, one id, or a tuple of ids.

        Raises:
            AssertionError: the name is in use, or an input is no tensor of this pattern.
        """
        if name in self._nodes:
            raise DuplicateNameError(f"the pattern has two nodes named '{name}'", fix="give each node of a pattern its own name")
        read = list(inputs) if inputs is not None else []
        self._check_ids(read)
        outputs = [self._tensor() for _ in range(num_output_tensors)]
        self._nodes[name] = (op, check_func, read, outputs)
        if not outputs:
            return None
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def set_output_tensors(self, output_tensors: Iterable[int]) -> None:
        """Say which tensors may have consumers outside the match, or be graph outputs.

        Raises:
            AssertionError: an id is none of this pattern.
        """
        wanted = list(output_tensors)
        self._check_ids(wanted)
        self._outputs = wanted

    def _check_ids(self, tensors: Iterable[int]) -> None:
        for tensor in tensors:
            if tensor not in range(self._count):
                raise UnknownTensorError(f"the pattern has no tensor {tensor!r}", fix="give what variable(), constant() or add() gave")

    # -- matching ---------------------------------------------------------------------------------

    def match_all(self, graph: Graph) -> list[PatternMapping]:
        """List the matches in a graph's own nodes, in their order; matches may overlap."""
        flat = _Flat()
        variables = {v: flat.tensor() for v in self._variables}
        root = self._flatten(flat, (), variables)
        if not flat.steps:
            return []
        matcher = _Matcher(flat, graph, {root[t] for t in self._outputs if t in root}, self._anchor(flat, variables))
        found = (matcher.match(node) for node in graph.nodes)
        return [self._mapping(match, flat, root) for match in found if match is not None]

    def _anchor(self, flat: _Flat, variables: dict[int, int]) -> int:
        for variable in self._variables:
            for at, step in enumerate(flat.steps):
                if variables[variable] in step.inputs:
                    return at
        return 0

    def _flatten(self, flat: _Flat, path: tuple[str, ...], known: dict[int, int]) -> dict[int, int]:
        """Spell the pattern out into ``flat``; ``known`` are the flat numbers of tensors that the pattern around it gives. Give all numbers."""
        numbers = dict(known)

        def number(tensor: int) -> int:
            if tensor not in numbers:
                numbers[tensor] = flat.tensor()
            return numbers[tensor]

        for constant in self._constants:
            flat.constants.add(number(constant))
        for name, (op, check, inputs, outputs) in self._nodes.items():
            read = [number(t) for t in inputs]
            made = [number(t) for t in outputs]
            if isinstance(op, str):
                flat.steps.append(_Step((*path, name), op, check, read, made))
                continue
            given = dict(zip(op._variables, read))
            given.update(zip(op._outputs, made))
            inner = op._flatten(flat, (*path, name), given)
            flat.subpatterns.append(
                ((*path, name), [inner[v] for v in op._variables if v in inner], [inner[t] for t in op._outputs],
                 {inner[c]: label for c, label in op._constants.items()})
            )  # fmt: skip
        return numbers

    def _mapping(self, match: _Match, flat: _Flat, root: dict[int, int]) -> PatternMapping:
        whole = PatternMapping()
        places: dict[tuple[str, ...], PatternMapping] = {(): whole}

        def place(path: tuple[str, ...]) -> PatternMapping:
            if path not in places:
                places[path] = place(path[:-1]).setdefault(path[-1], PatternMapping())
            return places[path]

        for step, node in zip(flat.steps, match.nodes):
            leaf = PatternMapping(node)
            leaf.inputs, leaf.outputs = node.inputs, node.outputs
            place(step.path[:-1])[step.path[-1]] = leaf
        everything = [*flat.subpatterns, ((), [root[v] for v in self._variables if v in root], [root[t] for t in self._outputs],
                                          {root[c]: label for c, label in self._constants.items()})]  # fmt: skip
        for path, inputs, outputs, constants in everything:
            mapping = place(path)
            mapping.inputs = [match.tensors[t] for t in inputs if t in match.tensors]
            mapping.outputs = [match.tensors[t] for t in outputs if t in match.tensors]
            mapping.constants = {label: match.tensors[t] for t, label in constants.items() if t in match.tensors}
        return whole


@dataclass
class _Match:
    nodes: list[Node]
    tensors: dict[int, Tensor]


class _Matcher:
    """Finds one match from a start node, trying alternatives where a tensor has several consumers; iterative."""

    def __init__(self, flat: _Flat, graph: Graph, outputs: set[int], anchor: int) -> None:
        self.flat = flat
        self.graph = graph
        self.open = outputs
        self.present = {id(node) for node in graph.nodes}
        self.listed = scopes.output_uses(graph)
        self.plan = self._plan(anchor)

    def _plan(self, anchor: int) -> list[tuple[int, str, int, int]]:
        """Order the steps so that each is reached from an earlier one: (step, how, tensor number, position)."""
        steps = self.flat.steps
        makers = {t: (at, k) for at, step in enumerate(steps) for k, t in enumerate(step.outputs)}
        readers: dict[int, list[tuple[int, int]]] = {}
        for at, step in enumerate(steps):
            for k, t in enumerate(step.inputs):
                readers.setdefault(t, []).append((at, k))
        plan = [(anchor, "start", -1, -1)]
        done = {anchor}
        at_plan = 0
        while len(done) < len(steps):
            if at_plan == len(plan):  # a part that nothing connects to the others
                loose = next(at for at in range(len(steps)) if at not in done)
                plan.append((loose, "anywhere", -1, -1))
                done.add(loose)
            step = steps[plan[at_plan][0]]
            at_plan += 1
            for t in step.inputs:
                if t in makers and makers[t][0] not in done:
                    done.add(makers[t][0])
                    plan.append((makers[t][0], "producer", t, makers[t][1]))
            for t in (*step.outputs, *step.inputs):
                for reader, k in readers.get(t, ()):
                    if reader not in done:
                        done.add(reader)
                        plan.append((reader, "consumer", t, k))
        return plan

    def match(self, start: Node) -> _Match | None:
        steps = self.flat.steps
        nodes: list[Node | None] = [None] * len(steps)
        taken: set[int] = set()
        tensors: dict[int, Tensor] = {}
        undo: list[list[int]] = []
        choices: list[Iterator[Node]] = [iter((start,))]
        while choices:
            depth = len(choices) - 1
            if len(undo) > depth:  # coming back to this depth: take its last choice back
                for t in undo.pop():
                    del tensors[t]
                taken.discard(id(nodes[self.plan[depth][0]]))
                nodes[self.plan[depth][0]] = None
            step_at = self.plan[depth][0]
            added = None
            for candidate in choices[-1]:
                added = self._try(steps[step_at], candidate, tensors, taken)
                if added is not None:
                    nodes[step_at] = candidate
                    taken.add(id(candidate))
                    break
            if added is None:
                choices.pop()
                continue
            undo.append(added)
            if depth + 1 < len(self.plan):
                choices.append(self._candidates(self.plan[depth + 1], tensors))
                continue
            found = [node for node in nodes if node is not None]
            if self._closed(found, tensors):
                return _Match(found, tensors)
        return None

    def _candidates(self, planned: tuple[int, str, int, int], tensors: dict[int, Tensor]) -> Iterator[Node]:
        _, how, t, k = planned
        if how == "anywhere":
            return iter(self.graph.nodes)
        if how == "producer":
            return iter(list(tensors[t].inputs))
        unique = {id(n): n for n in tensors[t].outputs if len(n.inputs) > k and n.inputs[k] is tensors[t]}
        return iter(list(unique.values()))

    def _try(self, step: _Step, node: Node, tensors: dict[int, Tensor], taken: set[int]) -> list[int] | None:
        """Assign a node to a step; give the tensor numbers that this fixed, or None if it does not fit."""
        if id(node) not in self.present or node.op != step.op or len(node.inputs) != len(step.inputs) or len(node.outputs) != len(step.outputs):
            return None
        if id(node) in taken:
            return None
        added: list[int] = []
        for numbers, actual in ((step.inputs, node.inputs), (step.outputs, node.outputs)):
            for t, tensor in zip(numbers, actual):
                fits = tensors[t] is tensor if t in tensors else t not in self.flat.constants or isinstance(tensor, Constant)
                if not fits:
                    for undone in added:
                        del tensors[undone]
                    return None
                if t not in tensors:
                    tensors[t] = tensor
                    added.append(t)
        if step.check is not None and not step.check(node):
            for undone in added:
                del tensors[undone]
            return None
        return added

    def _closed(self, nodes: list[Node], tensors: dict[int, Tensor]) -> bool:
        inside = {id(node) for node in nodes}
        for step in self.flat.steps:
            for t in step.outputs:
                if t in self.open:
                    continue
                tensor = tensors[t]
                if id(tensor) in self.listed or any(id(n) not in inside for n in tensor.outputs):
                    return False
        return True
