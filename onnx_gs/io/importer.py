"""Messages to graphs: ``ModelProto`` → ``Graph``.

Objects are built in bulk, without the funnel that keeps single edits in step, and keep the messages that they were read from: attributes,
types and numbers are decoded when they are touched.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

import onnx

from onnx_gs.errors import GraphError, GraphTypeError
from onnx_gs.io import attributes, tensor_data
from onnx_gs.io.attributes import NotTextError
from onnx_gs.io.outline import inline_region
from onnx_gs.io.plain_ops import PLAIN
from onnx_gs.io.regions import Region
from onnx_gs.ir import tensor as _tensor
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.function import Function
from onnx_gs.ir.graph import Graph
from onnx_gs.ir.model import ImportRecord, Model
from onnx_gs.ir.node import ONNX_DOMAINS, Node
from onnx_gs.ir.synchronized_list import SynchronizedList, linked
from onnx_gs.ir.tensor import Constant, Tensor, Variable
from onnx_gs.ir.values import LazyValues, SparseValues

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Iterable, Sequence

    from onnx_gs.io.regions import AbsentFile

LOGGER = logging.getLogger("onnx_gs")
G = TypeVar("G", bound=Graph)
Scope = dict[str, Tensor]

_UNREAD = _tensor._UNREAD
_TENSOR = int(onnx.AttributeProto.TENSOR)
#: From this IR version on, an initializer that is also an input is a default that callers may override.
DEFAULTS_SINCE = 4


def opset_of(proto: Any) -> int | None:
    """Give the version of ONNX's own operators that a model or function imports, None where it imports none."""
    return next((int(entry.version) for entry in proto.opset_import if entry.domain in ONNX_DOMAINS), None)


def import_onnx(model_proto: onnx.ModelProto, **options: Any) -> Graph:
    """Make a graph of a model. The model is copied once, so neither side sees later changes of the other.

    Args:
        model_proto: the model.
        options: as for ``import_model``, apart from ``owned``.

    Raises:
        GraphTypeError: the argument is no ``onnx.ModelProto``.
        GraphError: the model is malformed.
    """
    return import_model(model_proto, owned=False, **options)


def import_model(
    model_proto: onnx.ModelProto,
    *,
    graph_type: type[Graph] = Graph,
    function_type: type[Function] = Function,
    base_dir: str | None = None,
    source_file: Any = None,
    in_attributes: bool = True,
    owned: bool = False,
    absent: dict[str, AbsentFile] | None = None,
) -> Graph:
    """Make a graph of a model.

    Args:
        model_proto: the model.
        graph_type: the class of the graph and of all bodies.
        function_type: the class of the local functions.
        base_dir: the model's folder, where external data is; None for a model that came without one.
        source_file: the model's file, where large weights were left in it.
        in_attributes: some of them may be in attributes.
        owned: the message is the importer's to keep and to take apart.
        absent: where data files that are missing or too short are put, by location; the weights in them raise when they are read.

    Returns:
        The graph.

    Raises:
        GraphTypeError: the argument is no ``onnx.ModelProto``.
        GraphError: the model is malformed.
        ModelFileError: external data is missing or not allowed.
    """
    if not isinstance(model_proto, onnx.ModelProto):
        raise GraphTypeError(
            f"{type(model_proto).__name__} is no onnx.ModelProto", fix="import a model: onnx.load(path) gives one, and gs.load(path) reads a file"
        )
    if not owned:
        copied = onnx.ModelProto()
        copied.CopyFrom(model_proto)
        model_proto = copied
    with collector_paused():
        try:
            return _Importer(graph_type, function_type, base_dir, source_file, absent=absent, in_attributes=in_attributes).model(model_proto)
        except UnicodeDecodeError as error:
            raise NotTextError(str(error)) from error


class Importer:
    """Builds graphs and what they hold.

    Args:
        graph_type: the class of graphs.
        function_type: the class of local functions.
        base_dir: the model's folder, or None.
        source_file: the model's file, where large weights were left in it.
        ir_version: decides what an initializer means that is also an input.
        absent: where data files that are missing are put; None raises.
        in_attributes: large weights that were left in the file may be in attributes.
    """

    def __init__(
        self,
        graph_type: type[Graph] = Graph,
        function_type: type[Function] = Function,
        base_dir: str | None = None,
        source_file: Any = None,
        ir_version: int | None = None,
        absent: dict[str, AbsentFile] | None = None,
        *,
        in_attributes: bool = True,
    ) -> None:
        """Keep what all graphs of a model share."""
        self.graph_type = graph_type
        self.function_type = function_type
        self.base_dir = base_dir
        self.source_file = source_file
        self.ir_version = ir_version
        self.absent = absent
        self._are_plain = source_file is None or not in_attributes  # no attribute of a plain operator has a weight that only this importer finds
        self.opset: int | None = None
        self.domains: Any = None
        self.functions: list[Function] = []
        self.model_fields: Model | None = None

    # -- weights ----------------------------------------------------------------------------------

    def region(self, proto: Any) -> Any:
        """Give the file region that holds a dense weight, None where the message holds it."""
        if self.source_file is not None and proto.external_data:
            inline = inline_region(proto)
            if inline is not None:
                return Region(self.source_file, *inline)
        if self.base_dir is not None and proto.data_location == tensor_data.EXTERNAL:
            from onnx_gs.io import external_data

            return external_data.locate(proto, self.base_dir, self.absent)
        return None

    def weight(self, proto: Any) -> LazyValues:
        """Give lazy values for a weight, dense or sparse."""
        if not tensor_data.is_sparse(proto):
            return LazyValues(proto, self.region(proto))
        regions = (self.region(proto.values), self.region(proto.indices))
        return SparseValues(proto, regions if any(r is not None for r in regions) else None)

    def _needs_decoding(self, proto: Any) -> bool:
        """Say whether a node's attributes cannot wait: bodies link to tensors, and weights in files need what only this importer knows."""
        files = self.base_dir is not None or self.source_file is not None
        for attribute in proto.attribute:
            kind = attribute.type or attributes.kind_of(attribute)
            if kind == _TENSOR:
                if files and attribute.t.external_data:
                    return True
            elif kind in attributes.BODIES or (files and kind in attributes.WEIGHTS and _names_files(attribute)):
                return True
        return False

    def attributes(self, proto: Any, scopes: Sequence[Scope]) -> OrderedDict[str, Any]:
        """Decode a node's attributes; bodies look up what they capture in ``scopes``, innermost last."""

        def body(message: Any) -> Graph:
            return self.graph(message, self.graph_type(name=message.name), scopes)

        return attributes.decode_all(proto.attribute, body, self.weight)

    def nodes(self, protos: Iterable[Any], local: Scope, outer: Sequence[Scope], described: dict[str, Any]) -> tuple[list[Node], list[Node]]:
        """Build nodes and link them.

        Args:
            protos: the nodes' messages.
            local: the tensors of the graph by name; those that the nodes produce are added.
            outer: the enclosing graphs' tensors, outermost first.
            described: messages that describe values, by name.

        Returns:
            The nodes, and those among them whose attributes still have to be decoded.

        Raises:
            GraphError: a tensor is produced twice.
        """
        made: list[Node] = []
        waiting: list[Node] = []
        new, find, describe = object.__new__, local.get, described.get
        new_list, append = SynchronizedList.__new__, list.append
        plain = PLAIN
        are_plain = self._are_plain
        for proto in protos:
            node = new(Node)
            node.op = op = proto.op_type
            node.name = proto.name
            node._attrs = node._facts = None
            node._source = proto
            inputs = node._inputs = new_list(SynchronizedList)
            inputs.parent_obj = node
            inputs.field_name = "inputs"
            for name in proto.input[:]:  # a slice is a plain list, made in C
                tensor = find(name)
                if tensor is None:
                    tensor = self._unknown(name, local, outer, describe(name))
                append(inputs, tensor)
                append(tensor._outputs, node)
            outputs = node._outputs = new_list(SynchronizedList)
            outputs.parent_obj = node
            outputs.field_name = "outputs"
            for name in proto.output[:]:
                tensor = find(name)
                if tensor is None:
                    tensor = new(Variable)
                    tensor._name = name
                    message = tensor._source = describe(name)
                    if message is None:
                        tensor._dtype = tensor._shape = None
                        tensor._type = "tensor_type"
                    else:
                        tensor._dtype = tensor._shape = tensor._type = _UNREAD
                    links = tensor._outputs = new_list(SynchronizedList)
                    links.parent_obj = tensor
                    links.field_name = "outputs"
                    links = tensor._inputs = new_list(SynchronizedList)
                    links.parent_obj = tensor
                    links.field_name = "inputs"
                    if name:
                        local[name] = tensor
                else:
                    links = tensor._inputs
                    if links:
                        raise GraphError(
                            f"tensor '{name}' is produced twice, by node '{links[0].name}' ({links[0].op}) and node '{node.name}' ({node.op})",
                            fix="rename one of the outputs",
                        )
                append(links, node)
                append(outputs, tensor)
            append(made, node)
            if proto.HasField("domain"):
                node.domain = proto.domain
            else:
                node.domain = None
                if are_plain and op in plain:
                    continue
            if proto.attribute and self._needs_decoding(proto):
                append(waiting, node)
        return made, waiting

    def _unknown(self, name: str, local: Scope, outer: Sequence[Scope], message: Any) -> Tensor:
        """Give the tensor that a node reads under a name not yet seen in its graph."""
        if not name:
            return Variable("")
        for scope in reversed(outer):
            found = scope.get(name)
            if found is not None:
                return found
        tensor = variable(name, message)
        local[name] = tensor
        return tensor

    # -- graphs -----------------------------------------------------------------------------------

    def graph(self, proto: Any, graph: Graph, outer: Sequence[Scope] = ()) -> Graph:
        """Fill an empty graph from a ``GraphProto``, which is taken apart."""
        graph.name = proto.name
        graph.doc_string = proto.doc_string
        graph.metadata_props = metadata_of(proto)
        self._share(graph)
        record = ImportRecord()
        local: Scope = {}
        values = list(proto.value_info)
        names = [v.name for v in values]
        described = dict(zip(names, values))
        described.update((v.name, v) for v in proto.output)
        weights = self._weights(proto, record)
        defaults: dict[int, Tensor] = {}
        overridable = self.ir_version is None or self.ir_version >= DEFAULTS_SINCE
        for value in proto.input:
            stored = weights.get(value.name)
            if stored is not None and not overridable:
                record.inputs.append((value, stored))
                continue
            tensor = variable(value.name, value)
            if stored is not None:
                tensor._default = stored._values
                defaults[id(stored)] = tensor
                del weights[value.name]
            local.setdefault(value.name, tensor)
            graph._inputs.append(tensor)
            record.inputs.append((value, tensor))
        if defaults:
            record.initializers = [defaults.get(id(t), t) for t in record.initializers]
        local.update(weights)
        self._body(graph, proto, local, outer, described)
        for value in proto.output:
            tensor = local.get(value.name) or self._unknown(value.name, local, outer, value)  # type: ignore[assignment]
            graph._outputs.append(tensor)
            record.outputs.append((value, tensor))
        attributes.check_names([proto.name, *(v.name for v in proto.output), *names, *(n.tensor_name for n in proto.quantization_annotation)])
        returned = {id(t) for t in graph._outputs}
        record.unused = [t for t in record.initializers if isinstance(t, Constant) and not t._outputs and id(t) not in returned]
        record.value_info = [(value, local.get(name) or _lookup(name, local, outer)) for value, name in zip(values, names)]
        record.quantization = [(note, _lookup(note.tensor_name, local, outer)) for note in proto.quantization_annotation]
        for field in ("node", "initializer", "sparse_initializer", "input", "output", "value_info", "quantization_annotation"):
            proto.ClearField(field)
        record.source = proto
        graph._record = record
        return graph

    def _share(self, graph: Graph) -> None:
        graph._functions = self.functions
        graph.model = self.model_fields
        if self.opset is not None:
            graph._opset = self.opset
        graph._import_domains = self.domains
        graph._opset_imported = graph._opset if self.domains is not None else None

    def _weights(self, proto: Any, record: ImportRecord) -> dict[str, Constant]:
        """Make the constants of a graph; a repeated name is recorded, but stays without readers."""
        new, new_list = object.__new__, SynchronizedList.__new__
        in_files = self.base_dir is not None or self.source_file is not None
        found: dict[str, Constant] = {}
        for stored in proto.initializer:
            tensor = new(Constant)
            tensor._name = name = stored.name
            tensor._source = stored  # where no file is asked, the lazy values are made when they are touched
            if in_files:
                region = self.region(stored)
                if region is not None:
                    tensor._values = LazyValues(stored, region)
            links = tensor._outputs = new_list(SynchronizedList)
            links.parent_obj = tensor
            links.field_name = "outputs"
            found.setdefault(name, tensor)
            record.initializers.append(tensor)
        for stored in proto.sparse_initializer:
            tensor = Constant(stored.values.name, self.weight(stored))
            found.setdefault(stored.values.name, tensor)
            record.initializers.append(tensor)
        return found

    def _body(self, graph: Graph, proto: Any, local: Scope, outer: Sequence[Scope], described: dict[str, Any]) -> None:
        if outer:  # what the body produces hides outer names, wherever in the body it is listed
            for node in proto.node:
                for name in node.output:
                    if name and name not in local:
                        local[name] = variable(name, described.get(name))
        try:
            graph.nodes, waiting = self.nodes(proto.node, local, outer, described)
        except GraphError as error:
            error.where = error.where or f"{'function' if isinstance(graph, Function) else 'graph'} '{graph.name}'"
            raise
        attributes.check_names([*local, *[text for node in graph.nodes for text in (node.op, node.name, node.domain)]])
        scopes = (*outer, local)
        for node in waiting:
            node._attrs = self.attributes(node._source, scopes)

    def function(self, proto: Any, opset: int | None = None, domains: Any = None) -> Function:
        """Make a local function of a ``FunctionProto``, which is taken apart."""
        own = opset_of(proto)
        has_own = bool(proto.opset_import)
        function = self.function_type(proto.name, domain=proto.domain, overload=getattr(proto, "overload", ""))
        function.doc_string = proto.doc_string
        function.metadata_props = metadata_of(proto)
        before = self.opset, self.domains
        self.opset = own if own is not None else opset
        self.domains = list(proto.opset_import) if has_own else domains
        self._share(function)
        function.attrs = dict.fromkeys(proto.attribute)
        for attribute in getattr(proto, "attribute_proto", ()):
            function.attrs[attribute.name] = attributes.decode(attribute, lambda g: self.graph(g, self.graph_type(name=g.name)), self.weight)
        record = ImportRecord()
        described = {v.name: v for v in getattr(proto, "value_info", ())}
        local: Scope = {}
        for name in proto.input:
            tensor = variable(name, described.get(name))
            local.setdefault(name, tensor)
            function._inputs.append(tensor)
        attributes.check_names([proto.name, proto.domain, *proto.input, *proto.output, *function.attrs])
        self._body(function, proto, local, (), described)
        for name in proto.output:
            function._outputs.append(local.get(name) or self._unknown(name, local, (), described.get(name)))
        record.value_info = [(value, local.get(value.name)) for value in getattr(proto, "value_info", ())]
        self.opset, self.domains = before
        for field in ("node", "input", "output", "value_info"):
            if field in proto.DESCRIPTOR.fields_by_name:
                proto.ClearField(field)
        record.source = proto
        function._record = record
        return function


class _Importer(Importer):
    """Builds the graph of a whole model."""

    def model(self, proto: Any) -> Graph:
        """Make a graph of a model that is this importer's own."""
        self.ir_version = int(proto.ir_version) if proto.HasField("ir_version") else None
        self.opset = opset_of(proto)
        self.domains = list(proto.opset_import)
        if self.opset is None and not self.domains:
            self.opset = 1  # what ONNX says of a model that imports nothing
            self.domains = None
        self.model_fields = Model(proto.domain, int(proto.model_version), proto.doc_string, metadata_of(proto), proto)
        graph = self.graph_type(
            producer_name=proto.producer_name, producer_version=proto.producer_version, ir_version=self.ir_version, name=proto.graph.name
        )
        self.graph(proto.graph, graph)
        self.functions.extend(self.function(f, self.opset, self.domains) for f in getattr(proto, "functions", ()))
        proto.ClearField("graph")
        if self.functions:
            proto.ClearField("functions")
        return graph


def _names_files(attribute: Any) -> bool:
    """Say whether a weight in an attribute is in a file."""
    weights = [attribute.t, *attribute.tensors]
    for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
        weights += (sparse.values, sparse.indices)
    return any(proto.external_data for proto in weights)


def _lookup(name: str, local: Scope, outer: Sequence[Scope]) -> Tensor | None:
    found = local.get(name)
    for scope in reversed(outer):
        if found is not None:
            break
        found = scope.get(name)
    return found


def variable(name: str, message: Any = None) -> Variable:
    """Make an unlinked variable that reads its type from a message when it is asked."""
    new = object.__new__(Variable)
    new._name = name
    new._inputs = linked(new, "inputs")
    new._outputs = linked(new, "outputs")
    new._values = None
    new._source = message
    new._dtype = new._shape = None if message is None else _UNREAD
    new._type = "tensor_type" if message is None else _UNREAD
    return new


def metadata_of(proto: Any) -> dict[str, str]:
    """Give the metadata of a message by key; nothing where the installed ``onnx`` has no field for it."""
    return {entry.key: entry.value for entry in getattr(proto, "metadata_props", ())}


