"""The importer and exporter under the names that graph-surgery scripts know, piece by piece."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import onnx

from onnx_gs.errors import GraphError
from onnx_gs.io import attributes, exporter, tensor_data, types
from onnx_gs.io.importer import DEFAULTS_SINCE, Importer, opset_of, variable
from onnx_gs.io.opsets import used_domains
from onnx_gs.io.weight_writer import WeightWriter
from onnx_gs.ir import dtypes
from onnx_gs.ir.faults import explained
from onnx_gs.ir.function import Function
from onnx_gs.ir.graph import Graph
from onnx_gs.ir.node import ONNX_DOMAINS, Node
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LOGGER = logging.getLogger("onnx_gs")


def get_onnx_tensor_shape(onnx_tensor: Any) -> Any:
    """Give the shape that a weight or a value description states; None where it states none."""
    if not isinstance(onnx_tensor, onnx.ValueInfoProto):
        return tensor_data.shape_of(onnx_tensor)
    found = types.decode_value(onnx_tensor)
    return None if found is None else found.leaf().shape


def get_onnx_tensor_dtype(onnx_tensor: Any) -> Any:
    """Give the dtype that a weight or a value description states, as a variable shows it; None where it states none."""
    return tensor_data.dtype_of(onnx_tensor)


def get_onnx_tensor_type(onnx_tensor: Any) -> str | None:
    """Give the kind of value: the name of the ``TypeProto`` field; None where a value description states no type."""
    if isinstance(onnx_tensor, onnx.ValueInfoProto):
        kind = onnx_tensor.type.WhichOneof("value")
        return None if kind is None else str(kind)
    return "sparse_tensor_type" if tensor_data.is_sparse(onnx_tensor) else "tensor_type"


def get_numpy_type(onnx_type: Any) -> Any:
    """Give the array dtype of an enum number; None for numbers that stay numbers (bfloat16, float8, float4) and for those that mean no type."""
    if not isinstance(onnx_type, int):
        return onnx_type
    known = dtypes.BY_NUMBER.get(onnx_type)
    return None if known is None or known.by_number else known.numpy


def get_itemsize(dtype: Any) -> int:
    """Give the bytes of one element in an array."""
    return int(dtypes.require(dtype).numpy.itemsize)


def get_dtype_name(dtype: Any) -> str:
    """Give the name of a dtype: ONNX's for an enum number, else numpy's."""
    if isinstance(dtype, (int, np.integer)):
        return dtypes.require(dtype).name
    return str(np.dtype(dtype).name)


def dtype_to_onnx(dtype: Any) -> int:
    """Give the enum number of a dtype; numbers pass unchanged.

    Raises:
        GraphTypeError: it is no element type.
        UnsupportedTypeError: the installed ``onnx`` lacks it.
    """
    if isinstance(dtype, int):
        return dtype
    known = dtypes.require(dtype)
    tensor_data.check_supported(known)
    return known.number


def convert_from_onnx_attr_type(onnx_attr_type: int) -> Any:
    """Give the Python-side type of an attribute type's values; None for ``UNDEFINED``."""
    return attributes.python_type(onnx_attr_type)


def convert_to_onnx_attr_type(any_type: Any) -> int:
    """Give the attribute type for a Python-side type of values."""
    return attributes.onnx_type(any_type)


def constant_to_onnx_tensor(tensor: Constant) -> onnx.TensorProto:
    """Give a ``TensorProto`` of a constant's values, read if need be, in its ``export_dtype``."""
    return tensor_data.encode(tensor.values, tensor.name, tensor.export_dtype)


def update_import_domains(graph: Graph) -> Any:
    """Add the domains that nodes use and that are missing to ``graph.import_domains``, in place, with version 1; give the list."""
    if graph.import_domains is None:
        graph.import_domains = [onnx.helper.make_opsetid("", graph.opset)]
    present = {"" if entry.domain in ONNX_DOMAINS else entry.domain for entry in graph.import_domains}
    missing = [domain for domain in used_domains(graph) if domain not in present]
    if missing:
        graph.import_domains = [*graph.import_domains, *(onnx.helper.make_opsetid(d, graph.opset if d == "" else 1) for d in missing)]
    return graph.import_domains


def check_duplicate_node_names(nodes: Iterable[Node], level: int = logging.WARNING) -> None:
    """Log a message where nodes share a name that is not empty."""
    exporter.check_node_names(nodes, level)


class OnnxImporter:
    """Makes parts of graphs of parts of messages."""

    graph_type: ClassVar[type[Graph]] = Graph
    function_type: ClassVar[type[Function]] = Function

    @classmethod
    def _importer(cls, opset: int | None = None, domains: Any = None, ir_version: int | None = None) -> Importer:
        made = Importer(cls.graph_type, cls.function_type, ir_version=ir_version)
        made.opset, made.domains = opset, domains
        return made

    @staticmethod
    def get_opset(model_or_func: Any) -> int | None:
        """Give the version of ONNX's own operators, None, with a warning, where it is not imported."""
        found = opset_of(model_or_func)
        if found is None:
            LOGGER.warning("the model or function does not import ONNX's own operators")
        return found

    @staticmethod
    def get_import_domains(model_or_func: Any) -> Any:
        """Give the opset imports."""
        return model_or_func.opset_import

    @staticmethod
    def import_tensor(onnx_tensor: Any) -> Tensor:
        """Give a ``Constant`` with lazy values for a weight, a ``Variable`` for a value description."""
        if isinstance(onnx_tensor, onnx.ValueInfoProto):
            return variable(onnx_tensor.name, _copied(onnx_tensor))
        importer = Importer()
        return Constant(tensor_data.name_of(onnx_tensor), importer.weight(onnx_tensor), tensor_data.data_location(onnx_tensor))

    @classmethod
    def import_attributes(
        cls,
        onnx_attributes: Iterable[Any],
        tensor_map: Mapping[str, Tensor] | None = None,
        subgraph_tensor_map: dict[str, Tensor] | None = None,
        opset: int | None = None,
        import_domains: Any = None,
    ) -> dict[str, Any]:
        """Give attribute values by name; bodies find what they capture in the two maps."""
        holder = onnx.NodeProto()
        holder.attribute.extend(onnx_attributes)
        scopes = (dict(tensor_map or {}), dict(subgraph_tensor_map or {}))
        return cls._importer(opset, import_domains).attributes(holder, scopes)

    @classmethod
    def import_node(
        cls,
        onnx_node: Any,
        tensor_map: Mapping[str, Tensor] | None = None,
        subgraph_tensor_map: dict[str, Tensor] | None = None,
        opset: int | None = None,
        import_domains: Any = None,
    ) -> Node:
        """Give a node, linked to tensors of the maps; new ones go into ``subgraph_tensor_map``."""
        local = subgraph_tensor_map if subgraph_tensor_map is not None else {}
        outer = (dict(tensor_map or {}),)
        importer = cls._importer(opset, import_domains)
        nodes, waiting = importer.nodes([_copied(onnx_node)], local, outer, {})
        for node in waiting:
            node._attrs = importer.attributes(node._source, (*outer, local))
        return nodes[0]

    @classmethod
    def import_function(cls, onnx_function: Any, model_opset: int | None = None, model_import_domains: Any = None) -> Function:
        """Give a local function."""
        return cls._importer().function(_copied(onnx_function), model_opset, model_import_domains)

    @classmethod
    def import_graph(
        cls,
        onnx_graph: Any,
        tensor_map: Mapping[str, Tensor] | None = None,
        opset: int | None = None,
        import_domains: Any = None,
        producer_name: str | None = None,
        producer_version: str | None = None,
        functions: list[Function] | None = None,
        ir_version: int | None = None,
    ) -> Graph:
        """Give a graph; ``tensor_map`` has the tensors of the graphs around it, and is not changed.

        Without ``ir_version``, weights that are listed as inputs are taken for weights, as before IR 4.
        """
        importer = cls._importer(opset, import_domains, ir_version if ir_version is not None else DEFAULTS_SINCE - 1)
        if functions is not None:
            importer.functions = functions
        graph = cls.graph_type(name=onnx_graph.name, producer_name=producer_name, producer_version=producer_version, ir_version=ir_version)
        return importer.graph(_copied(onnx_graph), graph, (dict(tensor_map),) if tensor_map else ())


class OnnxExporter:
    """Makes parts of messages of parts of graphs."""

    @staticmethod
    def export_tensor_proto(tensor: Constant) -> onnx.TensorProto:
        """Give the ``TensorProto`` of a constant; lazy values are not read.

        Raises:
            UnsupportedTypeError: the installed ``onnx`` lacks its element type.
        """
        if tensor.lazy is None:
            tensor_data.check_supported(dtypes.require(tensor.export_dtype))
        proto = onnx.TensorProto()
        WeightWriter().write(tensor, proto)
        return proto

    @staticmethod
    def export_sparse_tensor_proto(tensor: Constant) -> onnx.SparseTensorProto:
        """Give the ``SparseTensorProto`` of a constant with sparse values."""
        proto = onnx.SparseTensorProto()
        WeightWriter().write(tensor, proto)
        return proto

    @staticmethod
    def export_value_info_proto(tensor: Tensor, do_type_check: bool = True) -> onnx.ValueInfoProto:
        """Give the description of a tensor.

        Raises:
            GraphError: its element type is unknown and ``do_type_check`` is set.
        """
        proto = onnx.ValueInfoProto()
        exporter.Exporter().value(tensor, proto)
        if do_type_check and exporter._untyped(proto):
            raise GraphError(f"tensor '{tensor.name}' has no element type", fix="set its dtype")
        return proto

    @staticmethod
    def export_attributes(attrs: Mapping[str, Any]) -> list[onnx.AttributeProto]:
        """Give the messages of attribute values, in their order."""
        holder = onnx.NodeProto()
        exporter.Exporter().node(Node("", attrs=dict(attrs)), holder)
        return list(holder.attribute)

    @staticmethod
    def export_node(node: Node) -> onnx.NodeProto:
        """Give the message of a node."""
        proto = onnx.NodeProto()
        exporter.Exporter().node(node, proto, f"node '{node.name}' ({node.op})")
        return proto

    @staticmethod
    def export_function(func: Function) -> onnx.FunctionProto:
        """Give the message of a local function."""
        proto = onnx.FunctionProto()
        exporter.Exporter().function(func, proto)
        return proto

    @staticmethod
    def export_graph(graph: Graph, do_type_check: bool = True) -> onnx.GraphProto:
        """Give the message of a graph."""
        proto = onnx.GraphProto()
        made = exporter.Exporter(check=do_type_check)
        made.ir_version = graph.ir_version
        made.graph(graph, proto, top=True)
        return proto


_TENSOR, _VALUE = OnnxExporter.export_tensor_proto, OnnxExporter.export_value_info_proto


class _ReplacedWeights(WeightWriter):
    """Writes constants with the function that a script has put into ``OnnxExporter``."""

    def write(self, tensor: Any, target: Any) -> None:
        if OnnxExporter.export_tensor_proto is _TENSOR or not isinstance(tensor, Constant) or isinstance(target, onnx.SparseTensorProto):
            super().write(tensor, target)
        else:
            target.CopyFrom(OnnxExporter.export_tensor_proto(tensor))


class _Replaced(exporter.Exporter):
    """Describes values with the function that a script has put into ``OnnxExporter``."""

    def value(self, tensor: Tensor, target: Any, base: Any = None) -> None:
        if OnnxExporter.export_value_info_proto is _VALUE or tensor.dtype is None or tensor.type != "tensor_type":
            super().value(tensor, target, base)
        else:
            target.CopyFrom(OnnxExporter.export_value_info_proto(tensor, False))


def export_onnx(graph: Graph, do_type_check: bool = True, **kwargs: Any) -> onnx.ModelProto:
    """Make a model of a graph; weights that a file holds are read into it.

    A script may have replaced how ``OnnxExporter`` writes a tensor; that holds here.

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
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y = Variable("x", np.float32, (2,)), Variable("y", np.float32, (2,))
        >>> export_onnx(Graph([Node("Abs", inputs=[x], outputs=[y])], [x], [y])).graph.node[0].op_type
        'Abs'
    """
    if OnnxExporter.export_tensor_proto is _TENSOR and OnnxExporter.export_value_info_proto is _VALUE:
        return exporter.export_onnx(graph, do_type_check, **kwargs)
    with explained(graph):
        return _Replaced(check=do_type_check, weights=_ReplacedWeights()).model(graph, kwargs)


def _copied(message: Any) -> Any:
    new = type(message)()
    new.CopyFrom(message)
    return new


__all__ = [
    "OnnxExporter", "OnnxImporter", "check_duplicate_node_names", "constant_to_onnx_tensor", "convert_from_onnx_attr_type",
    "convert_to_onnx_attr_type", "dtype_to_onnx", "export_onnx", "get_dtype_name", "get_itemsize", "get_numpy_type", "get_onnx_tensor_dtype",
    "get_onnx_tensor_shape", "get_onnx_tensor_type", "update_import_domains",
]  # fmt: skip
