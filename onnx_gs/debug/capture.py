"""Record real values inside a model, in one run: at the top level, and inside bodies by trip."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import shape_inference
from onnx_gs.debug.isolate import origin
from onnx_gs.debug.selection import Index
from onnx_gs.errors import GraphError, GraphValueError
from onnx_gs.evaluate import onnxruntime
from onnx_gs.io import tensor_data
from onnx_gs.ir import dtypes, scopes, walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.copying import Twins, copy_graph
from onnx_gs.ir.edit import rename_apart
from onnx_gs.ir.names import Names
from onnx_gs.ir.node import Node
from onnx_gs.ir.tensor import Constant, Tensor, Variable
from onnx_gs.ir.types import ValueType

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from onnx_gs.ir.graph import Graph


def capture(graph: Graph, tensors: Sequence[str | Tensor], feeds: Mapping[str, Any], *, within: Graph | None = None) -> dict[str, Any]:
    """Run a model once and give the values of tensors in it.

    Only the tensors asked for are kept. A tensor inside a body has one value a time that the body ran: a list, in order of the trips; empty
    where a branch was not taken.

    Args:
        graph: the model; it stays as it is.
        tensors: names, paths ``node > body > name``, or tensor objects; a node with one output stands for that.
        feeds: values of the model's inputs, by name.
        within: a body; what it takes from the bodies around it is then given once each time that this body ran.

    Returns:
        By what was asked for (an object by its name): an array, or a list of arrays.

    Raises:
        GraphValueError: a tensor is not there.
        EvaluationError: the model does not run on these feeds.

    Example:
        >>> import numpy as np
        >>> import onnx_gs as gs
        >>> x, h, y = (gs.Variable(n, np.float32, (2,)) for n in "xhy")
        >>> graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[h]), gs.Node("Abs", inputs=[h], outputs=[y])], [x], [y], opset=18)
        >>> capture(graph, ["h"], {"x": np.float32([1, 2])})["h"].tolist()
        [-1.0, -2.0]
    """
    index = Index(graph)
    found = [index.find(t) for t in tensors]
    keys = [t if isinstance(t, str) else t.name for t in tensors]
    values: dict[str, Any] = {}
    computed: list[tuple[str, Tensor]] = []
    for key, wanted, place in zip(keys, tensors, found):
        tensor = place.tensor
        if tensor is None:
            made = [t for t in place.node._outputs if t._name] if place.node is not None else []
            if len(made) != 1:
                raise GraphValueError(f"'{wanted}' is a node with {len(made)} outputs", fix="name a tensor")
            tensor = made[0]
        if isinstance(tensor, Constant):
            values[key] = tensor.values
        else:
            computed.append((key, tensor))
    probe, names = with_outputs(graph, [t for _, t in computed], within)
    result = onnxruntime.run(probe, feeds, list(dict.fromkeys(names)))
    values.update({key: result[name] for (key, _), name in zip(computed, names)})
    return {key: values[key] for key in keys}


def with_outputs(graph: Graph, tensors: Sequence[Tensor], within: Graph | None = None) -> tuple[Graph, list[str]]:
    """Give a copy of a model that also returns inner tensors, and the names under which it returns them.

    A tensor in a body comes out as a sequence, one element a time that the body ran.

    Args:
        graph: the model; it stays as it is.
        tensors: tensors of it that are no weights.
        within: a body in which tensors of the bodies around it are looked at.
    """
    twins = Twins(None, scopes.defined_in(graph))
    with collector_paused():
        probe = copy_graph(graph, twins=twins)
    rename_apart(probe)
    inner = [twins(t) for t in tensors]
    exposing = _Exposing(probe)
    if within is not None:  # a copy has its bodies in the order of the original
        exposing.within = next((twin for g, twin in zip(walk.graphs(graph), walk.graphs(probe)) if g is within), None)
    if any(exposing.index.home[id(t)] is not probe for t in inner):
        shape_inference.infer(probe)
    returned = [exposing.expose(t) for t in inner]
    exposing.finish()
    return probe, [t.name for t in returned]


@dataclass
class _Exposing:
    """Leads inner tensors out of their bodies, through a sequence that every body on the way passes on."""

    root: Graph
    within: Graph | None = None

    def __post_init__(self) -> None:
        self.index = Index(self.root)
        self.parents = self.index.parents
        self.names = Names(self.root)
        self.before: dict[int, list[Node]] = {}
        self.after: dict[int, list[Node]] = {}
        self.last: dict[int, list[Node]] = {}
        self.touched: dict[int, Graph] = {}

    def expose(self, tensor: Tensor) -> Tensor:
        graph = self.index.home[id(tensor)]
        item, is_sequence = tensor, getattr(tensor, "type", "") == "sequence_type"
        if is_sequence and graph is not self.root:
            raise GraphError(f"'{tensor.name}' is a sequence inside a body; such values cannot be recorded", fix="record its elements")
        dtype = tensor.dtype
        if self.within is not None and graph is not self.root and graph is not self.within:
            graph, item = self.within, self._add(self.within, Node("Identity", inputs=[item]), dtype, item.shape)
        while graph is not self.root:
            parent = self.parents[id(graph)]
            if parent is None:
                raise GraphError(f"'{tensor.name}' is inside a function", fix="inline the function first")
            owner, node, attribute = parent
            if dtype is None:
                raise GraphError(f"the dtype of '{tensor.name}' is unknown", fix="set it, or register a shape function for its producer")
            item, is_sequence = self._step(owner, node, attribute, graph, item, is_sequence=is_sequence, dtype=dtype)
            graph = owner
        if not any(t is item for t in self.root.outputs):
            if any(t is item for t in self.root.inputs):
                item = self._add(self.root, Node("Identity", inputs=[item]), item.dtype, item.shape)
            self.root.outputs.append(item)
        return item

    def _step(self, owner: Graph, node: Node, attribute: str, body: Graph, item: Tensor, *, is_sequence: bool, dtype: Any) -> tuple[Tensor, bool]:
        if node.op == "If":
            return self._through_if(node, body, item, is_sequence=is_sequence, dtype=dtype), True
        if node.op == "Loop":
            return self._through_loop(owner, node, body, item, is_sequence=is_sequence, dtype=dtype), True
        if is_sequence:
            raise GraphError(f"values inside a branch or loop inside '{attribute}' of a {node.op} cannot be recorded", fix="lower or unroll it first")
        if any(t is item for t in body.inputs):
            item = self._add(body, Node("Identity", inputs=[item]), dtype, item.shape)
        body.outputs.append(item)
        if node.op == "SequenceMap":
            out = self._sequence("captured", dtype)
            node.outputs.append(out)
            return out, True
        out = Variable(self.names.fresh("captured"), dtype)
        node.outputs.append(out)
        for name in ("scan_output_axes", "scan_output_directions"):
            if name in node.attrs:
                node.attrs[name] = [*node.attrs[name], 0]
        split = Node("SplitToSequence", attrs={"axis": 0, "keepdims": 0}, inputs=[out], outputs=[self._sequence("captured", dtype)])
        self.after.setdefault(id(node), []).append(split)
        self.touched[id(owner)] = owner
        return split.outputs[0], True

    def _through_if(self, node: Node, body: Graph, item: Tensor, *, is_sequence: bool, dtype: Any) -> Tensor:
        for branch in walk.bodies(node):
            if branch is not body:
                branch.outputs.append(self._add(branch, self._empty(dtype), dtype, None, sequence=True))
                continue
            if not is_sequence:
                item = self._add(branch, Node("SequenceConstruct", inputs=[item]), dtype, None, sequence=True)
            branch.outputs.append(item)
        out = self._sequence("captured", dtype)
        node.outputs.append(out)
        return out

    def _through_loop(self, owner: Graph, node: Node, body: Graph, item: Tensor, *, is_sequence: bool, dtype: Any) -> Tensor:
        carried = len(body.inputs) - 2
        start = self._empty(dtype)
        start.outputs.append(self._sequence("captured_start", dtype))
        self.before.setdefault(id(node), []).append(start)
        self.touched[id(owner)] = owner
        so_far = self._sequence("captured_before", dtype)
        body.inputs.append(so_far)
        if is_sequence:
            grown = self._joined(body, so_far, item, dtype)
        else:
            grown = self._add(body, Node("SequenceInsert", inputs=[so_far, item]), dtype, None, sequence=True)
        body.outputs.insert(1 + carried, grown)
        while len(node.inputs) < 2 + carried:
            node.inputs.append(Variable.empty())
        node.inputs.append(start.outputs[0])
        out = self._sequence("captured", dtype)
        node.outputs.insert(carried, out)
        return out

    def _joined(self, graph: Graph, first: Tensor, second: Tensor, dtype: Any) -> Tensor:
        """Append a loop that inserts the elements of one sequence into another."""
        length = self._add(graph, Node("SequenceLength", inputs=[second]), np.int64, ())
        i, go, acc = Variable(self.names.fresh("i"), np.int64, ()), Variable(self.names.fresh("go"), np.bool_, ()), self._sequence("acc", dtype)
        inner = type(self.root)(inputs=[i, go, acc], name=self.names.fresh("join"), opset=graph.opset)
        keep = self._add(inner, Node("Identity", inputs=[go]), np.bool_, ())
        element = self._add(inner, Node("SequenceAt", inputs=[second, i]), dtype, None)
        inner.outputs = [keep, self._add(inner, Node("SequenceInsert", inputs=[acc, element]), dtype, None, sequence=True)]
        inner.nodes = self.last.pop(id(inner))
        self.touched.pop(id(inner), None)
        loop = Node("Loop", attrs={"body": inner}, inputs=[length, Variable.empty(), first])
        return self._add(graph, loop, dtype, None, sequence=True)

    def _empty(self, dtype: Any) -> Node:
        return Node("SequenceEmpty", attrs={"dtype": dtypes.require(dtype).number})

    def _sequence(self, name: str, dtype: Any) -> Variable:
        new = Variable(self.names.fresh(name))
        new.value_type = ValueType("sequence_type", element=ValueType("tensor_type", dtype, None))
        return new

    def _add(self, graph: Graph, node: Node, dtype: Any, shape: Any, *, sequence: bool = False) -> Tensor:
        """Put a node of one output at the end of a graph."""
        out = self._sequence("captured", dtype) if sequence else Variable(self.names.fresh("captured"), dtype, shape)
        node.outputs.append(out)
        node.name = self.names.fresh(f"{out.name}_{node.op}")
        self.last.setdefault(id(graph), []).append(node)
        self.touched[id(graph)] = graph
        return out

    def finish(self) -> None:
        for graph in self.touched.values():
            placed = [n for node in graph.nodes for n in (*self.before.get(id(node), ()), node, *self.after.get(id(node), ()))]
            graph.nodes[:] = [*placed, *self.last.get(id(graph), ())]


def save_test_data(
    folder: str | os.PathLike[str], inputs: Mapping[str, Any], outputs: Mapping[str, Any], *, number: int = 0, archive: bool = True
) -> list[Path]:
    """Write recorded values in the layout of ONNX's test data: ``test_data_set_N/input_K.pb`` and ``output_K.pb``.

    Args:
        folder: the model's folder, made where missing.
        inputs: arrays by name, in the order of the model's inputs.
        outputs: likewise.
        number: of the data set.
        archive: also write ``test_data_set_N.npz`` with all arrays by name.

    Returns:
        The files.
    """
    target = Path(folder) / f"test_data_set_{number}"
    target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for kind, values in (("input", inputs), ("output", outputs)):
        for at, (name, value) in enumerate(values.items()):
            file = target / f"{kind}_{at}.pb"
            file.write_bytes(tensor_data.encode(np.asarray(value), name).SerializeToString())
            written.append(file)
    if archive:
        file = Path(folder) / f"test_data_set_{number}.npz"
        arrays: dict[str, Any] = {name: np.asarray(v) for name, v in {**inputs, **outputs}.items()}
        np.savez(file, **arrays)
        written.append(file)
    return written


def record_part(graph: Graph, part: Graph, feeds: Mapping[str, Any], *, trip: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the real values at the border of a part that was isolated from a model, for running the part on its own.

    Args:
        graph: the model.
        part: what ``isolate`` gave.
        feeds: values of the model's inputs.
        trip: for a part from inside a body: which time that the body ran.

    Returns:
        Values of the part's inputs and of its outputs, by name.

    Raises:
        GraphValueError: the body did not run that often on these feeds.
    """
    index = Index(graph)
    border = [(t.name, _original(index, t)) for t in (*part.inputs, *part.outputs)]
    wanted = {id(t): t for _, t in border}
    homes = [index.home[key] for key, t in wanted.items() if not isinstance(t, Constant) and index.home[key] is not graph]
    within = max(homes, key=lambda g: _depth(index, g), default=None)
    found = _values_of(graph, index, list(wanted.values()), feeds, within)

    def value(t: Tensor) -> Any:
        kept = found[id(t)]
        if isinstance(t, Constant) or index.home[id(t)] is graph:
            return kept
        if not kept:
            what = f"the body that the part with '{t.name}' lies in did not run: its branch was not taken, or its loop made no trip"
            raise GraphValueError(what, where=index.places.graph(within or graph), fix="give feeds on which it runs")
        if trip >= len(kept):
            times = "once" if len(kept) == 1 else f"{len(kept)} times"
            raise GraphValueError(
                f"'{t.name}' was computed {times}, so there is no trip {trip}", fix=f"give a trip from 0 to {len(kept) - 1}, or other feeds"
            )
        return kept[trip]

    values = {name: value(t) for name, t in border}
    return {t.name: values[t.name] for t in part.inputs}, {t.name: values[t.name] for t in part.outputs}


def _values_of(graph: Graph, index: Index, tensors: list[Tensor], feeds: Mapping[str, Any], within: Graph | None) -> dict[int, Any]:
    computed = [t for t in tensors if not isinstance(t, Constant)]
    probe, names = with_outputs(graph, computed, within)
    result = onnxruntime.run(probe, feeds, list(dict.fromkeys(names))) if names else {}
    values = {id(t): result[name] for t, name in zip(computed, names)}
    return {**values, **{id(t): t.values for t in tensors if isinstance(t, Constant)}}


def _original(index: Index, t: Tensor) -> Tensor:
    """Give the tensor of a model that a part's input or output was cut from: the very one, else by name."""
    found = origin(t)
    if found is not None and id(found) in index.home:
        return found
    tensor = index.find(t.name if index.has_tensor(t.name) else t.name.removesuffix("_out")).tensor
    if tensor is None:
        raise GraphValueError(f"'{t.name}' is no tensor of the model", fix="give the model that the part was cut from")
    return tensor


def _depth(index: Index, graph: Graph) -> int:
    depth = 0
    while (parent := index.parents.get(id(graph))) is not None:
        graph, depth = parent[0], depth + 1
    return depth
