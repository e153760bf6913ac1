"""A graph as plain data for the page: nodes, tensors, bodies, groups of nodes, marks, statistics of weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.node import ONNX_DOMAINS, is_graph
from onnx_gs.ir.show import Places
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

#: More children of one group than this are put into runs of neighbors, so that no step of opening groups shows more.
FAN_OUT = 60
RUN = 30
#: Weights of up to so many elements are shown as they are.
SHOWN_ELEMENTS = 16
TEXT_LIMIT = 400
CHUNK = 1 << 22
BINS = 24


@dataclass(frozen=True)
class Mark:
    """Something to point out at a node.

    Attributes:
        kind: ``blocker``, ``warning``, ``added``, ``removed`` or ``changed``.
        text: what there is to say.
    """

    kind: str
    text: str


@dataclass
class Marks:
    """Marks by the ``id`` of their node, and those of the model as a whole."""

    nodes: dict[int, list[Mark]] = field(default_factory=dict)
    model: list[Mark] = field(default_factory=list)

    def add(self, node: Node | None, mark: Mark) -> None:
        """Put a mark on a node, or on the model."""
        (self.model if node is None else self.nodes.setdefault(id(node), [])).append(mark)


def model_data(graph: Graph, *, title: str = "", weights: bool = False, marks: Marks | None = None) -> dict[str, Any]:
    """Give all that the page shows of a model, as plain data for JSON.

    Args:
        graph: the model.
        title: what it is called.
        weights: also compute statistics of every weight, which reads them all, a few megabytes at a time.
        marks: what to point out.

    Example:
        >>> import onnx_gs as gs
        >>> x, y = gs.Variable("x"), gs.Variable("y")
        >>> data = model_data(gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y]))
        >>> data["nodes"][0]["o"], [t[0] for t in data["tensors"]]
        ('Neg', ['x', 'y'])
    """
    return _Collector(graph, marks or Marks(), weights=weights).collect(title)


def node_numbers(graph: Graph) -> dict[int, int]:
    """Map the ``id`` of every node to its number in the page's data."""
    return {id(node): k for k, (_, node) in enumerate((g, n) for g in walk.graphs(graph, functions=True) for n in g.nodes)}


class _Collector:
    def __init__(self, graph: Graph, marks: Marks, *, weights: bool) -> None:
        self.graph, self.marks, self.weights = graph, marks, weights
        self.places = Places(graph)
        self.graphs = list(walk.graphs(graph, functions=True))
        self.number = {id(g): k for k, g in enumerate(self.graphs)}
        self.parents = walk.parents(graph, functions=True)
        self.functions = {f.key: self.number[id(f)] for f in graph.functions}
        self.node_number = node_numbers(graph)
        self.tensor_number: dict[int, int] = {}
        self.tensors: list[list[Any]] = []
        self.kept: list[Tensor] = []

    def collect(self, title: str) -> dict[str, Any]:
        nodes = [self._node(k, g, n) for k, g in enumerate(self.graphs) for n in g.nodes]
        self._stored(nodes)
        graphs = [self._graph(g, nodes) for g in self.graphs]
        for described in graphs:
            for number, group in described.pop("members"):
                nodes[number]["s"] = group
        values, statistics = self._values()
        return {
            "title": title or self.graph.name,
            "facts": self._facts(),
            "graphs": graphs,
            "nodes": nodes,
            "tensors": self.tensors,
            "values": values,
            "statistics": statistics,
            "marks": [[m.kind, m.text] for m in self.marks.model],
        }

    def _facts(self) -> dict[str, Any]:
        g = self.graph
        facts: dict[str, Any] = {
            "graph": g.name,
            "nodes": f"{sum(len(h.nodes) for h in self.graphs):,}",
            "opsets": ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in g.opset_versions().items()),
            "IR version": g.ir_version,
            "producer": " ".join(filter(None, (g.producer_name, g.producer_version))),
            "doc string": g.doc_string,
            **g.metadata_props,
            **(g.model.metadata_props if g.model is not None else {}),
        }
        return {key: _short(str(value)) for key, value in facts.items() if value not in (None, "")}

    def _graph(self, graph: Graph, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        parent = self.parents.get(id(graph))
        groups, members = _Groups(graph.nodes, [at for at, n in enumerate(graph.nodes) if "q" not in nodes[self.node_number[id(n)]]]).tree()
        return {
            "name": graph.name,
            "path": self.places.graph(graph),
            "owner": -1 if parent is None else self.node_number[id(parent[1])],
            "attribute": "" if parent is None else parent[2],
            "inputs": [self._tensor(t) for t in graph.inputs],
            "outputs": [self._tensor(t) for t in graph.outputs],
            "groups": groups,
            "members": [(self.node_number[id(graph.nodes[at])], group) for at, group in members],
        }

    def _node(self, number: int, graph: Graph, node: Node) -> dict[str, Any]:
        bodies = [[name, self.number[id(body)]] for name, body in node.bodies()] if node._attrs else []
        attributes = {name: _attribute(value) for name, value in node.attrs.items() if not is_graph(value)}
        found: dict[str, Any] = {
            "g": number,
            "n": node.name,
            "o": node.op,
            "d": "" if node.domain in ONNX_DOMAINS else node.domain,
            "i": [self._tensor(t) for t in node._inputs],
            "u": [self._tensor(t) for t in node._outputs],
        }
        if attributes:
            found["a"] = attributes
        if bodies:
            found["b"] = bodies
        function = self.functions.get((node.domain or "", node.op, node.overload)) if self.functions else None
        if function is not None:
            found["f"] = function
        if node.metadata_props:
            found["m"] = {key: _short(value) for key, value in node.metadata_props.items()}
        if node.doc_string:
            found["doc"] = _short(node.doc_string)
        if id(node) in self.marks.nodes:
            found["k"] = [[m.kind, m.text] for m in self.marks.nodes[id(node)]]
        return found

    def _stored(self, nodes: list[dict[str, Any]]) -> None:
        """Mark nodes that only hand a stored value on: those that read it show it, as they show a weight."""
        self.shown: dict[int, str] = {}
        at = 0
        returned = {id(t) for graph in self.graphs for t in graph.outputs}
        for graph in self.graphs:
            for node in graph.nodes:
                described, at = nodes[at], at + 1
                if any(id(t) in returned or (t._name and not t._outputs) for t in node._outputs):
                    continue
                if node.op not in {"Constant", "Identity"} or described["d"] or not described["u"] or described["u"][0] < 0:
                    continue
                out = described["u"][0]
                if node.op == "Constant":
                    text = next(iter(described.get("a", {}).values()), "")
                elif described["i"] and described["i"][0] >= 0 and self.tensors[described["i"][0]][2]:
                    text = self.tensors[described["i"][0]][1]
                else:
                    continue
                described["q"] = 1
                self.tensors[out][2] = 2
                self.tensors[out][1] = self.tensors[out][1] or text
                self.shown[out] = text

    def _tensor(self, t: Tensor) -> int:
        """Give a tensor's number; -1 for one that is left out."""
        if not t._name:
            return -1
        known = self.tensor_number.get(id(t))
        if known is None:
            known = self.tensor_number[id(t)] = len(self.tensors)
            self.tensors.append([t._name, type_text(t), int(isinstance(t, Constant))])
            self.kept.append(t)
        return known

    def _values(self) -> tuple[dict[int, str], dict[int, dict[str, Any]]]:
        shown = self.shown
        statistics: dict[int, dict[str, Any]] = {}
        for k, t in enumerate(self.kept):
            if not isinstance(t, Constant):
                continue
            count = int(np.prod(t.shape, dtype=np.int64))
            if count <= SHOWN_ELEMENTS:
                shown[k] = _array_text(t.values)
            if self.weights and count:
                found = weight_statistics(t)
                if found:
                    statistics[k] = found
        return shown, statistics


def type_text(t: Tensor) -> str:
    """Spell a tensor's type: ``float32[batch, 3]``; what is unknown as ``?``.

    Example:
        >>> import onnx_gs as gs
        >>> type_text(gs.Variable("x", "float32", ("batch", None)))
        'float32[batch, ?]'
    """
    known = dtypes.of(t)
    name = "?" if known is None else "string" if known is dtypes.STRING else known.numpy.name
    shape = "[…]" if t.shape is None else "[" + ", ".join("?" if d in (None, "", -1) else str(d) for d in t.shape) + "]"
    kind = getattr(t, "type", "tensor_type")
    if kind == "tensor_type":
        return "" if known is None and t.shape is None else name + shape
    return f"{kind.removesuffix('_type')}({name}{'' if t.shape is None else shape})"


def _attribute(value: Any) -> str:
    if isinstance(value, Constant):
        text = type_text(value)
        return f"{text} {_array_text(value.values)}" if int(np.prod(value.shape, dtype=np.int64)) <= SHOWN_ELEMENTS else text
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, (list, tuple)):
        return _short("[" + ", ".join(_attribute(v) for v in value[:100]) + (", …]" if len(value) > 100 else "]"))
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


def _array_text(values: Any) -> str:
    array = np.asarray(values)
    if array.dtype.kind == "f":
        array = array.astype(np.float64) if array.dtype.itemsize > 4 else array
    return _short(np.array2string(array, separator=", ", threshold=SHOWN_ELEMENTS, max_line_width=80))


def weight_statistics(weight: Constant) -> dict[str, Any] | None:
    """Compute a weight's smallest, largest and mean value, spread, zeros, NaNs, infinities and histogram, a few megabytes at a time.

    Returns:
        The figures; None for strings and complex numbers, which have none.

    Example:
        >>> import onnx_gs as gs
        >>> found = weight_statistics(gs.Constant("w", np.float32([0, 1, 3])))
        >>> found["min"], found["max"], found["zeros"]
        (0.0, 3.0, 1)
    """
    known = dtypes.of(weight)
    if known is None or known is dtypes.STRING or "complex" in known.numpy.name:
        return None
    flat = np.asarray(weight.values).reshape(-1)
    low, high, total, squares = np.inf, -np.inf, 0.0, 0.0
    finite = zeros = nans = 0
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK].astype(np.float64)
        zeros += int(np.count_nonzero(part == 0))
        nans += int(np.count_nonzero(np.isnan(part)))
        part = part[np.isfinite(part)]
        if part.size:
            finite += part.size
            low, high = min(low, float(part.min())), max(high, float(part.max()))
            total += float(part.sum())
            squares += float(np.square(part).sum())
    figures: dict[str, Any] = {"zeros": zeros, "NaN": nans, "infinite": flat.size - finite - nans}
    if not finite:
        return figures
    mean = total / finite
    figures.update({"min": low, "max": high, "mean": mean, "std": max(0.0, squares / finite - mean * mean) ** 0.5})
    bins = np.zeros(BINS, np.int64)
    if high > low and np.isfinite(high - low):
        for start in range(0, flat.size, CHUNK):
            part = flat[start : start + CHUNK].astype(np.float64)
            bins += np.histogram(part[np.isfinite(part)], BINS, (low, high))[0]
        figures["histogram"] = bins.tolist()
    return figures


# -- groups ---------------------------------------------------------------------------------------


def scope_of(node: Node) -> tuple[str, ...]:
    """Give the scopes that a node says it belongs to: by PyTorch's ``namespace``, else by the slashes in its name.

    Example:
        >>> import onnx_gs as gs
        >>> scope_of(gs.Node("Add", "/encoder/layer.0/Add"))
        ('encoder', 'layer.0')
    """
    namespace = node.metadata_props.get("namespace", "")
    if namespace:
        return tuple(part.partition(":")[0].strip() for part in namespace.split("/")[:-1] if part.partition(":")[0].strip())
    return tuple(part for part in node.name.split("/")[:-1] if part)


@dataclass
class _Group:
    label: str
    kind: str
    first: int = 0
    members: list[_Group | int] = field(default_factory=list)


class _Groups:
    """The tree of a graph's name scopes, of the nodes that are drawn; where a group has too many members, runs of neighbors are groups too."""

    def __init__(self, nodes: Sequence[Node], drawn: Sequence[int]) -> None:
        self.nodes, self.drawn = nodes, drawn

    def tree(self) -> tuple[list[list[Any]], list[tuple[int, int]]]:
        """Give groups as ``[label, kind, parent]``, parents first, and the group of every node, both with -1 for the graph itself."""
        root = _Group("", "graph")
        by_scope: dict[tuple[str, ...], _Group] = {(): root}
        for at in self.drawn:
            self._scope(scope_of(self.nodes[at]), by_scope, at).members.append(at)
        for group in reversed(by_scope.values()):  # inner before outer
            group.members = [_lifted(m) for m in group.members]
        while len(root.members) == 1 and isinstance(root.members[0], _Group):
            root.members = root.members[0].members
        groups: list[list[Any]] = []
        members: list[tuple[int, int]] = []
        pending: list[tuple[_Group, int]] = [(root, -1)]
        while pending:
            group, number = pending.pop()
            for member in self._runs(group.members):
                if isinstance(member, int):
                    members.append((member, number))
                else:
                    pending.append((member, len(groups)))
                    groups.append([member.label, member.kind, number])
        return groups, members

    @staticmethod
    def _scope(path: tuple[str, ...], by_scope: dict[tuple[str, ...], _Group], at: int) -> _Group:
        found = by_scope.get(path)
        if found is None:
            depth = next(d for d in range(len(path) - 1, -1, -1) if path[:d] in by_scope)
            for d in range(depth, len(path)):
                found = by_scope[path[: d + 1]] = _Group(path[d], "scope", at)
                by_scope[path[:d]].members.append(found)
        assert found is not None
        return found

    def _runs(self, members: list[_Group | int]) -> list[_Group | int]:
        while len(members) > FAN_OUT:
            size = max(RUN, -(-len(members) // FAN_OUT) if len(members) < FAN_OUT * RUN else RUN)
            members = [self._run(members[k : k + size]) for k in range(0, len(members), size)]
        return members

    def _run(self, members: list[_Group | int]) -> _Group | int:
        if len(members) == 1:
            return members[0]
        first, last = _first(members[0]), _last(members[-1])
        ops = Counter(self.nodes[m].op for m in members if isinstance(m, int)).most_common(3)
        what = ", ".join(f"{op} ×{count}" for op, count in ops)
        return _Group(f"#{first}–#{last}" + (f" {what}" if what else ""), "run", first, members)


def _lifted(member: _Group | int) -> _Group | int:
    """Give what stands for a group with a single member: the member; a scope within a scope keeps both names."""
    if isinstance(member, _Group) and len(member.members) == 1:
        only = member.members[0]
        if isinstance(only, _Group):
            only.label = f"{member.label}/{only.label}" if not only.label.startswith(f"{member.label}.") else only.label
        return only
    return member


def _first(member: _Group | int) -> int:
    return member if isinstance(member, int) else member.first


def _last(member: _Group | int) -> int:
    while not isinstance(member, int):
        member = member.members[-1]
    return member


def finding_marks(graph: Graph, findings: Iterable[tuple[str, Any]], marks: Marks) -> None:
    """Put findings of ``trt.check`` on their nodes.

    Args:
        graph: the model.
        findings: ``blocker`` or ``warning``, and the finding.
        marks: added to.
    """
    places = Places(graph)
    by_path = {places.node(g, n): n for g in walk.graphs(graph, functions=True) for n in g.nodes}
    for kind, found in findings:
        tensor = f" (tensor '{found.tensor}')" if found.tensor else ""
        text = f"{found.title}: {found.reason}{tensor}" + (f"; {found.advice}" if found.remedy else "")
        node = by_path.get(found.path)
        marks.add(node, Mark(kind, text if node is not None else f"{found.path}: {text}"))


def difference_marks(changes: Iterable[Any], before: Marks, after: Marks) -> None:
    """Put the differences of two models on their nodes.

    Args:
        changes: those of ``debug.diff``.
        before: marks of the first model, added to.
        after: of the second.
    """
    for change in changes:
        x, y = change.nodes
        mark = Mark(change.kind, f"{change.what}: {change.detail}" if change.detail else change.what)
        if x is None and y is None:
            mark = Mark(change.kind, f"{change.what}: {change.path}" + (f": {change.detail}" if change.detail else ""))
            for marks in (before, after):
                marks.add(None, mark)
        if x is not None:
            before.add(x, mark)
        if y is not None:
            after.add(y, mark)


def pair_numbers(pairs: Iterable[tuple[Node, Node]], ours: Mapping[int, int], theirs: Mapping[int, int]) -> list[tuple[int, int]]:
    """Give the numbers of nodes that belong together in two models."""
    return [(ours[id(x)], theirs[id(y)]) for x, y in pairs if id(x) in ours and id(y) in theirs]
