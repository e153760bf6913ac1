"""Graphs to messages: ``Graph`` → ``ModelProto``.

What nobody touched is written as the message that it was read from; what was touched is compared with what its message says, and written anew
only where it differs. Neither the graph nor any message that it was read from is changed.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import onnx

from onnx_gs.errors import GraphError, GraphTypeError
from onnx_gs.io import attributes, tensor_data, types
from onnx_gs.io.fields import put, put_metadata
from onnx_gs.io.importer import DEFAULTS_SINCE
from onnx_gs.io.opsets import used_domains, write_opsets
from onnx_gs.io.weight_writer import PAYLOAD, WeightWriter
from onnx_gs.ir import order, scopes, tensor as _tensor, walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.faults import explained
from onnx_gs.ir.join import join_names
from onnx_gs.ir.show import graph_label
from onnx_gs.ir.tensor import Constant, Tensor, Variable
from onnx_gs.ir.values import SparseValues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from onnx_gs.io.writer import Payload
    from onnx_gs.ir.function import Function
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

LOGGER = logging.getLogger("onnx_gs")
Described = list[tuple[Any, "Tensor | None"]]

_UNREAD = _tensor._UNREAD
#: The IR version that lets functions describe their values.
FUNCTION_VALUES_SINCE = 10
#: How deep messages may nest for protobuf to read them again, and how deep bodies may be nested for that to be sure and to be possible at all:
#: each body takes three messages (node, attribute, graph), and what is in the innermost takes a few more.
MESSAGES_DEEP = 100
BODIES_SURE, BODIES_POSSIBLE = 28, 33


def export_onnx(graph: Graph, do_type_check: bool = True, **kwargs: Any) -> onnx.ModelProto:
    """Make a model of a graph; weights that a file holds are read into it.

    Args:
        graph: the graph; it is not changed, unless distinct tensors of one name have to be joined.
        do_type_check: refuse graph inputs and outputs of unknown element type.
        kwargs: fields of ``onnx.ModelProto`` to set, such as ``producer_name``; ``opset_imports`` replaces the graph's, ``functions`` is ignored.

    Raises:
        GraphError: the graph cannot be a model: a conflict of names, an input without a type, a dtype that ONNX lacks.
        GraphTypeError: an attribute value or a keyword that no message can hold.
        UnsupportedTypeError: the installed ``onnx`` lacks an element type.
        ModelFileError: a weight cannot be read.

    Example:
        >>> x, y = Variable("x", "float32", (2,)), Variable("y", "float32", (2,))
        >>> from onnx_gs.ir import Graph, Node
        >>> export_onnx(Graph([Node("Abs", inputs=[x], outputs=[y])], [x], [y])).graph.node[0].op_type
        'Abs'
    """
    with collector_paused(), explained(graph), _text_only():
        return Exporter(check=do_type_check).model(graph, kwargs)


def export_skeleton(
    graph: Graph, *, do_type_check: bool = True, inline_limit: int = 0, payload_from: int = PAYLOAD, keep_places: bool = False, **kwargs: Any
) -> tuple[onnx.ModelProto, list[Payload]]:
    """Make a model of a graph without its large weights.

    Args:
        graph: the graph.
        do_type_check: refuse graph inputs and outputs of unknown element type.
        inline_limit: weights in files with at most this many bytes are read into the message.
        payload_from: weights in memory with more bytes than this stay out of the message.
        keep_places: leave the note of where their bytes are with weights in files, for the writer.
        kwargs: as for ``export_onnx``.

    Returns:
        The model, and the weights that it lacks.
    """
    payloads: list[Payload] = []
    weights = WeightWriter(payloads, inline_limit=inline_limit, payload_from=payload_from, keep_places=keep_places)
    exporter = Exporter(check=do_type_check, weights=weights)
    with collector_paused(), explained(graph), _text_only():
        model = exporter.model(graph, kwargs)
    return model, payloads


@contextmanager
def _text_only() -> Iterator[None]:
    """Turn protobuf's complaint about text that is no UTF-8 into ours."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise GraphError(f"a name in the graph is no UTF-8 text: {error}", fix="rename it") from error


class Exporter:
    """Writes graphs and what they hold into messages.

    Args:
        check: refuse graph inputs and outputs of unknown element type.
        weights: what writes the weights; by default all go into the message.
    """

    def __init__(self, *, check: bool = True, weights: WeightWriter | None = None) -> None:
        """Start without an idea of any graph."""
        self.check = check
        self.weights = WeightWriter() if weights is None else weights
        self.owned: dict[int, list[Tensor]] = {}  # id of a graph -> the weights that it stores, in order of first use
        self.ir_version: int | None = None
        self.opset: int | None = None
        self._encoder = attributes.Encoder(self._body, self.weights.write)
        self._scopes: list[dict[str, Tensor]] = []
        self._deepest = 0
        self._root: Graph | None = None

    # -- the model --------------------------------------------------------------------------------

    def model(self, graph: Graph, fields: Mapping[str, Any]) -> onnx.ModelProto:
        """Give the model of a graph."""
        self._root = graph
        given = dict(fields)
        opsets = given.pop("opset_imports", None)
        given.pop("functions", None)  # always the graph's, as scripts know it
        model = onnx.ModelProto()
        base = graph.model.source if graph.model is not None else None
        if base is not None:
            model.CopyFrom(base)
        put(model, "producer_name", graph.producer_name)
        put(model, "producer_version", graph.producer_version)
        if graph.model is not None:
            put(model, "domain", graph.model.domain)
            put(model, "model_version", graph.model.version)
            put(model, "doc_string", graph.model.doc_string)
            put_metadata(model, graph.model.metadata_props)
        if graph.ir_version is not None:
            put(model, "ir_version", graph.ir_version)
        elif base is None or base.HasField("ir_version"):
            model.ir_version = onnx.IR_VERSION
        self._set(model, given)
        self.ir_version = int(model.ir_version) if model.HasField("ir_version") else None
        functions = all_functions(graph)
        if has_twins(graph, functions):
            join_names(graph)
        order.require_acyclic(graph)
        self.graph(graph, model.graph, top=True)
        if functions:
            for function in functions:
                self.function(function, model.functions.add())
        if opsets is not None:
            model.ClearField("opset_import")
            model.opset_import.extend(opsets)
        else:
            write_opsets(model.opset_import, graph, used_domains(graph))
        if self._deepest > BODIES_SURE and _depth(model) > MESSAGES_DEEP:
            raise self._too_deep(graph)
        return model

    def _too_deep(self, graph: Graph) -> GraphError:
        depth, deepest = max(((walk.depth(root), root) for root in (graph, *all_functions(graph))), key=itemgetter(0))
        return GraphError(
            f"bodies are nested {depth} deep, which nothing could read: messages may nest {MESSAGES_DEEP} deep, and a body takes three",
            where=graph_label(deepest),
            fix=f"nest bodies {BODIES_SURE} deep at most: lower control flow, or move inner bodies into local functions",
        )

    def _set(self, model: Any, given: Mapping[str, Any]) -> None:
        for field, value in given.items():
            known = model.DESCRIPTOR.fields_by_name.get(field)
            if known is None or field in {"graph", "opset_import"}:
                raise GraphTypeError(f"export_onnx has no option '{field}'", fix="give fields of onnx.ModelProto, or opset_imports")
            try:
                if field == "metadata_props" and isinstance(value, dict):
                    put_metadata(model, value)
                elif hasattr(getattr(model, field), "extend"):
                    given_items = list(value)
                    model.ClearField(field)
                    getattr(model, field).extend(given_items)
                else:
                    setattr(model, field, value)
            except (TypeError, ValueError, AttributeError) as error:
                what = f"option '{field}' of export_onnx cannot be {value!r:.60}"
                raise GraphTypeError(what, fix="give what the field of onnx.ModelProto holds") from error

    # -- graphs -----------------------------------------------------------------------------------

    def _plan(self, root: Graph) -> None:
        """Find out which graph stores which weights."""
        if not any(True for _ in root.subgraphs()):
            seen: set[int] = set()
            self.owned[id(root)] = [t for t in used_weights(root) if not (id(t) in seen or seen.add(id(t)))]  # type: ignore[func-returns-value]
            return
        owners = scopes.owners(root)
        done: set[int] = set()
        for graph in walk.graphs(root):
            self.owned.setdefault(id(graph), [])
            for t in used_weights(graph):
                if id(t) not in done:
                    done.add(id(t))
                    self.owned.setdefault(id(owners.get(id(t), graph)), []).append(t)

    def _body(self, graph: Graph, target: Any) -> None:
        target.ClearField("node")
        if id(graph) not in self.owned:  # a graph that is exported on its own
            self._plan(graph)
        self.graph(graph, target)

    def graph(self, graph: Graph, target: Any, *, top: bool = False) -> None:
        """Write a graph, or a body, into a ``GraphProto``."""
        record = graph._record
        if record is not None and record.source is not None and isinstance(record.source, onnx.GraphProto):
            target.CopyFrom(record.source)
        put(target, "name", graph.name)
        put(target, "doc_string", graph.doc_string)
        put_metadata(target, graph.metadata_props)
        if top:
            self._plan(graph)
        if len(self._scopes) > BODIES_POSSIBLE:
            raise self._too_deep(graph if self._root is None else self._root)
        self._deepest = max(self._deepest, len(self._scopes))
        owned = self.owned[id(graph)]
        self._enter(graph, owned)
        weights = in_recorded_order(owned, record)
        inputs = self._inputs(graph, weights, top=top)
        self._initializers([*weights, *(t for t in graph.inputs if t._default is not None)], graph, target)
        self._values(inputs, record.inputs if record is not None else [], target.input, graph, top=top)
        self._values(graph.outputs, record.outputs if record is not None else [], target.output, graph, top=top)
        outer_opset, self.opset = self.opset, graph.opset
        self.nodes(graph, target.node)
        self.opset = outer_opset
        self._value_info(graph, target.value_info, {*map(id, inputs), *map(id, graph.outputs)})
        if record is not None and record.quantization:
            self._quantization(graph, target)
        self._scopes.pop()

    def _enter(self, graph: Graph, owned: Iterable[Tensor]) -> None:
        """Open the scope of a graph, and see that each name in it means the tensor that is meant.

        Raises:
            GraphError: a tensor cannot be told from another of its name.
        """
        defined: dict[str, Tensor] = {}
        for t in graph.inputs:
            if defined.setdefault(t._name, t) is not t:
                raise _clash(graph, defined[t._name], t)
        for node in graph.nodes:
            for t in node._outputs:
                name = t._name
                if name and defined.setdefault(name, t) is not t:
                    raise _clash(graph, defined[name], t)
                if t.__class__ is not Variable and isinstance(t, Constant):
                    raise GraphError(
                        f"tensor '{name}' is a constant, but node '{node.name}' ({node.op}) produces it", where=graph_label(graph),
                        fix="clear its inputs, or turn it into a variable",
                    )  # fmt: skip
        for t in owned:
            if defined.setdefault(t._name, t) is not t:
                raise _clash(graph, defined[t._name], t)
        self._scopes.append(defined)
        if len(self._scopes) == 1:
            return
        for t in (*(t for node in graph.nodes for t in node._inputs), *graph.outputs):
            name = t._name
            if defined.get(name) is t or not name:
                continue
            meant = next((scope[name] for scope in reversed(self._scopes) if name in scope), t)
            if meant is not t and (t._inputs or isinstance(t, Constant)):
                raise _clash(graph, meant, t)

    def _inputs(self, graph: Graph, weights: Sequence[Tensor], *, top: bool) -> list[Tensor]:
        """List what the graph declares as inputs: before IR 4, weights are inputs too; where no IR version is known, those that were."""
        if self.ir_version is None:
            top = False
            if not any(isinstance(t, Constant) for _, t in (graph._record.inputs if graph._record is not None else ())):
                return graph.inputs
        elif self.ir_version >= DEFAULTS_SINCE:
            return graph.inputs
        listed = {id(t): at for at, t in enumerate(graph.inputs)}
        stored = {id(t) for t in weights}
        merged: list[Tensor] = []
        done = 0
        for _, t in graph._record.inputs if graph._record is not None else ():
            at = listed.get(id(t))
            if at is not None:
                merged.extend(graph.inputs[done : at + 1])
                done = max(done, at + 1)
            elif id(t) in stored and t is not None:
                merged.append(t)
        merged.extend(graph.inputs[done:])
        if top:
            present = {id(t) for t in merged}
            merged.extend(t for t in weights if id(t) not in present)
        return merged

    def _initializers(self, weights: Sequence[Tensor], graph: Graph, target: Any) -> None:
        recorded = {id(t): at for at, t in enumerate(graph._record.initializers)} if graph._record is not None else {}
        if any(t._default is not None for t in weights):
            weights = sorted(weights, key=lambda t: recorded.get(id(t), len(recorded)))
        for t in weights:
            stored = t.lazy if isinstance(t, Constant) else t._default
            if isinstance(stored, SparseValues) and not (isinstance(t, Constant) and attributes._converted(t)):
                self.weights.write(t, target.sparse_initializer.add())
            else:
                self.weights.write(t, target.initializer.add())

    # -- values -----------------------------------------------------------------------------------

    def _values(self, tensors: Sequence[Tensor], recorded: Described, target: Any, graph: Graph, *, top: bool) -> None:
        """Describe inputs or outputs."""
        known: dict[int, list[Any]] = {}
        for message, t in reversed(recorded):
            if t is not None:
                known.setdefault(id(t), []).append(message)
        for t in tensors:
            messages = known.get(id(t))
            base = messages.pop() if messages and len(messages) > 1 else messages[0] if messages else None
            message = target.add()
            self.value(t, message, base)
            if top and self.check and _untyped(message) and (base is None or not _untyped(base)):
                raise GraphError(
                    f"tensor '{t._name}' is an input or output of the graph, but its element type is unknown", where=graph_label(graph),
                    fix="set its dtype, or export with do_type_check=False",
                )  # fmt: skip

    def value(self, tensor: Tensor, target: Any, base: Any = None) -> None:
        """Write a ``ValueInfoProto`` for a tensor.

        Args:
            tensor: the tensor.
            target: the message, empty.
            base: what once described the tensor here.
        """
        source = tensor._source
        if base is None and isinstance(source, onnx.ValueInfoProto):
            base = source
        if base is not None:
            target.CopyFrom(base)
        if target.name != tensor._name or base is None:
            target.name = tensor._name
        if tensor._doc is not None and tensor._doc != _doc_of(source):
            put(target, "doc_string", tensor._doc)
        if base is not None and _as_read(tensor):
            return
        wanted = types.type_of(tensor)
        if base is not None and types.same(types.decode_value(base), wanted):
            return
        if wanted is None:
            if source is not None or base is None:  # what was never known of the tensor itself does not unsay what is said here
                target.ClearField("type")
        elif wanted.kind == "tensor_type" and wanted.dtype is None and (base is None or not _untyped(base)):
            target.ClearField("type")  # a shape without element type is refused by runtimes that infer the type of a value without any
        else:
            try:
                types.write(target.type, wanted)
            except GraphError as error:
                error.where = error.where or f"tensor '{tensor._name}'"
                raise

    def _replayed_values(self, recorded: list[tuple[Any, Tensor | None]], present: set[int], target: Any) -> set[int]:
        """Describe again, in the old order, what a message described and is still there; give the ids of the tensors."""
        done: set[int] = set()
        for message, t in recorded:
            if t is None:
                if message.name not in self._scopes[-1]:
                    target.append(message)
            elif id(t) in present:
                done.add(id(t))
                self.value(t, target.add(), message)
        return done

    def _value_info(self, graph: Graph, target: Any, ports: set[int]) -> None:
        recorded = graph._record.value_info if graph._record is not None else []
        done = set(ports)
        if recorded:
            present = {id(t) for node in graph.nodes for t in (*node._inputs, *node._outputs)} | ports
            present.update(id(t) for t in (*self.owned[id(graph)], *graph._record.unused))  # type: ignore[union-attr]
            for body_graph in walk.graphs(graph) if any(True for _ in graph.subgraphs()) else ():
                present.update(id(t) for node in body_graph.nodes for t in node._inputs)
                present.update(id(t) for t in body_graph.outputs)
            done |= self._replayed_values(recorded, present, target)
        for node in graph.nodes:
            for t in node._outputs:
                if t._source is None and t._dtype is None and t._type == "tensor_type":
                    continue  # nothing is known, or a shape alone, which runtimes refuse
                if id(t) not in done and t._name:
                    done.add(id(t))
                    wanted = types.type_of(t)
                    if wanted is not None and not (wanted.kind == "tensor_type" and wanted.dtype is None):
                        self.value(t, target.add())

    def _quantization(self, graph: Graph, target: Any) -> None:
        assert graph._record is not None
        present = {id(t) for t in self._scopes[-1].values()}
        weights = [(t, t.lazy) for t in graph._record.initializers if isinstance(t, Constant)]
        renamed = {tensor_data.name_of(lazy._source): t._name for t, lazy in weights if lazy is not None}
        for note, t in graph._record.quantization:
            if t is not None and id(t) not in present:
                continue
            message = target.quantization_annotation.add()
            message.CopyFrom(note)
            if t is not None:
                put(message, "tensor_name", t._name)
            for entry in message.quant_parameter_tensor_names:
                put(entry, "value", renamed.get(entry.value, entry.value))

    # -- nodes ------------------------------------------------------------------------------------

    def nodes(self, graph: Graph, target: Any) -> None:
        """Write a graph's nodes, in their order."""
        append = target.append
        check_node_names(graph.nodes)
        for index, node in enumerate(graph.nodes):
            source = node._source
            if (
                source is not None
                and node._attrs is None
                and node._facts is None
                and source.op_type == node.op
                and source.name == node.name
                and (source.domain == node.domain or (node.domain is None and not source.HasField("domain")))
                and [t._name for t in node._inputs] == source.input
                and [t._name for t in node._outputs] == source.output
            ):
                append(source)
            else:
                self.node(node, target.add(), f"{graph_label(graph)} > node {index if not node.name else repr(node.name)} ({node.op})")

    def node(self, node: Node, target: Any, where: str = "") -> None:
        """Write a node into a ``NodeProto``."""
        source = node._source
        if source is not None:
            target.CopyFrom(source)
        for field, tensors in (("input", node._inputs), ("output", node._outputs)):
            names = [t._name for t in tensors]
            if getattr(target, field) != names:
                target.ClearField(field)
                getattr(target, field).extend(names)
        put(target, "op_type", node.op)
        put(target, "name", node.name or "")
        if node.domain is None:
            target.ClearField("domain")
        elif source is None or not source.HasField("domain"):
            target.domain = node.domain
        else:
            put(target, "domain", node.domain)
        if node._facts is not None:
            self._facts(node._facts, target)
        if node._attrs is None:
            return
        former = {a.name: a for a in source.attribute} if source is not None else {}
        target.ClearField("attribute")
        for name, value in node._attrs.items():
            message = target.attribute.add()
            if name in former:
                message.CopyFrom(former[name])
            self._encoder.encode(message, name, value, where, self._empty(node, name))

    def _empty(self, node: Node, name: str) -> Callable[[], int]:
        return lambda: attributes.empty_list_type(node.op, node.domain, self.opset, name)

    def _facts(self, facts: Mapping[str, Any], target: Any) -> None:
        for field, value in facts.items():
            if field == "metadata_props":
                put_metadata(target, value)
            elif field in target.DESCRIPTOR.fields_by_name:
                put(target, field, value)
            elif value:
                raise GraphError(f"the installed onnx cannot store '{field}' of a node", fix="upgrade onnx")

    # -- functions --------------------------------------------------------------------------------

    def function(self, function: Function, target: Any) -> None:
        """Write a local function into a ``FunctionProto``; its weights become ``Constant`` nodes in front."""
        record = function._record
        base = record.source if record is not None and isinstance(record.source, onnx.FunctionProto) else None
        if base is not None:
            target.CopyFrom(base)
        put(target, "name", function.name)
        if target.domain != (function.domain or "") or base is None:
            target.domain = function.domain or ""
        put(target, "doc_string", function.doc_string)
        self._facts({"overload": function.overload, "metadata_props": function.metadata_props}, target)
        target.input.extend(t._name for t in function.inputs)
        target.output.extend(t._name for t in function.outputs)
        self._function_attributes(function, target, base)
        self._plan(function)
        weights = self.owned[id(function)]
        self._enter(function, weights)
        outer_opset, self.opset = self.opset, function.opset
        for weight in weights:
            self._constant_node(weight, target.node.add())
        self.nodes(function, target.node)
        self.opset = outer_opset
        if "value_info" in target.DESCRIPTOR.fields_by_name:
            self._function_values(function, target.value_info)
        self._scopes.pop()
        used = used_domains(function)
        if weights:
            used.setdefault("")
        write_opsets(target.opset_import, function, used)

    def _function_values(self, function: Function, target: Any) -> None:
        """Describe a function's values: those that its message described, and since IR 10 whatever is known of the others."""
        recorded = function._record.value_info if function._record is not None else []
        done: set[int] = set()
        if recorded:
            present = {id(t) for node in function.nodes for t in (*node._inputs, *node._outputs)}
            present.update(id(t) for t in (*function.inputs, *function.outputs))
            done |= self._replayed_values(recorded, present, target)
        if self.ir_version is None or self.ir_version < FUNCTION_VALUES_SINCE:
            return
        for t in (*function.inputs, *(t for node in function.nodes for t in node._outputs), *function.outputs):
            if id(t) in done or not t._name or isinstance(t, Constant):
                continue
            done.add(id(t))
            wanted = types.type_of(t)
            if wanted is not None and not (wanted.kind == "tensor_type" and wanted.dtype is None):
                self.value(t, target.add())

    def _function_attributes(self, function: Function, target: Any, base: Any) -> None:
        required = [name for name, default in function.attrs.items() if default is None]
        if list(target.attribute) != required:
            target.ClearField("attribute")
            target.attribute.extend(required)
        given = {name: value for name, value in function.attrs.items() if value is not None}
        former = {a.name: a for a in getattr(base, "attribute_proto", ())} if base is not None else {}
        if not given and not former:
            return
        target.ClearField("attribute_proto")
        for name, value in given.items():
            message = target.attribute_proto.add()
            if name in former:
                message.CopyFrom(former[name])
            self._encoder.encode(message, name, value, f"function '{function.domain}::{function.name}'")

    def _constant_node(self, weight: Tensor, target: Any) -> None:
        target.op_type = "Constant"
        target.output.append(weight._name)
        attribute = target.attribute.add()
        sparse = isinstance(weight, Constant) and isinstance(weight.lazy, SparseValues) and not attributes._converted(weight)
        attribute.name = "sparse_value" if sparse else "value"
        attribute.type = onnx.AttributeProto.SPARSE_TENSOR if sparse else onnx.AttributeProto.TENSOR
        self.weights.write(weight, attribute.sparse_tensor if sparse else attribute.t)


def _doc_of(source: Any) -> str:
    return str(source.doc_string) if isinstance(source, (onnx.ValueInfoProto, onnx.TensorProto)) else ""


def _untyped(message: Any) -> bool:
    kind = message.type.WhichOneof("value")
    return kind is None or (kind == "tensor_type" and not message.type.tensor_type.elem_type)


def _as_read(tensor: Tensor) -> bool:
    """Say whether a tensor's type is still what its message says."""
    if isinstance(tensor, Constant):
        return tensor.lazy is not None and not attributes._converted(tensor)
    if tensor._source is None:
        return False
    if tensor._dtype is _UNREAD and tensor._shape is _UNREAD and tensor._type is _UNREAD:
        return True
    return types.same(types.decode_value(tensor._source), types.type_of(tensor))


def _clash(graph: Graph, first: Tensor, second: Tensor) -> GraphError:
    def told(t: Tensor) -> str:
        return f"{t}, produced by node '{t._inputs[0].name}' ({t._inputs[0].op})" if t._inputs else str(t)

    return GraphError(
        f"two different tensors are named '{first._name}': {told(first)}; {told(second)}", where=graph_label(graph),
        fix="rename one of them, or run the unique-names pass",
    )  # fmt: skip


def check_node_names(nodes: Iterable[Node], level: int = logging.WARNING) -> None:
    """Log a message where nodes share a name that is not empty."""
    names = [node.name for node in nodes if node.name]
    if len(set(names)) == len(names):
        return
    shared = sorted(name for name, count in Counter(names).items() if count > 1)
    LOGGER.log(level, "%d node names are used more than once, such as '%s'", len(shared), shared[0])


def used_weights(graph: Graph) -> Iterable[Tensor]:
    """Give the weights that a graph itself uses, once for each use, in order of use; bodies are not searched."""
    for t in graph.inputs:
        if isinstance(t, Constant):
            yield t
    inputs = {id(t) for t in graph.inputs}
    for node in graph.nodes:
        for t in node._inputs:
            if t.__class__ is Variable:
                if t._default is not None and id(t) not in inputs and not t._inputs:
                    yield t
            elif isinstance(t, Constant):
                yield t
    for t in graph.outputs:
        if isinstance(t, Constant):
            yield t


def in_recorded_order(weights: list[Tensor], record: Any) -> list[Tensor]:
    """Give weights in the order of an import, those that nothing used then included; new ones come last."""
    if record is None or not record.initializers:
        return weights
    here = {id(t) for t in weights} | {id(t) for t in record.unused}
    known = [t for t in record.initializers if id(t) in here]
    if len(known) == len(weights) and not record.unused:
        return known
    done = {id(t) for t in known}
    return known + [t for t in weights if id(t) not in done]


def has_twins(graph: Graph, functions: Iterable[Graph]) -> bool:
    """Say whether distinct tensors of one name are used in one graph, at any depth."""
    for root in (graph, *functions):
        for g in walk.graphs(root):
            seen: dict[str, Tensor] = {}
            see = seen.setdefault
            for t in (*g.inputs, *g.outputs):
                if see(t._name, t) is not t and t._name:
                    return True
            for node in g.nodes:
                for t in node._inputs:
                    if see(t._name, t) is not t and t._name:
                        return True
                for t in node._outputs:
                    if see(t._name, t) is not t and t._name:
                        return True
    return False


def all_functions(graph: Graph) -> list[Function]:
    """List the functions of a model, those that only bodies know about included."""
    found = list(graph.functions)
    keys = {f.key for f in found}
    for body in graph.subgraphs(recursive=True):
        if body._functions is graph._functions:
            continue
        for function in body._functions:
            if function.key not in keys:
                keys.add(function.key)
                found.append(function)
    return found


def _depth(message: Any) -> int:
    """Count how deep messages nest in one."""
    deepest = 0
    pending = [(message, 0)]
    while pending:
        current, depth = pending.pop()
        deepest = max(deepest, depth)
        for field, value in current.ListFields():
            if field.message_type is not None:
                pending.extend((inner, depth + 1) for inner in (value if hasattr(value, "extend") else (value,)))
    return deepest
