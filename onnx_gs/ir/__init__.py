"""The graph as data: numpy and ml_dtypes only."""

from onnx_gs.ir.attribute import AttributeRef
from onnx_gs.ir.function import Function
from onnx_gs.ir.graph import Graph
from onnx_gs.ir.model import ImportRecord, Model
from onnx_gs.ir.node import Node
from onnx_gs.ir.synchronized_list import SynchronizedList
from onnx_gs.ir.tensor import Constant, Tensor, Variable
from onnx_gs.ir.types import ValueType
from onnx_gs.ir.values import LazyValues, SparseValues

__all__ = [
    "AttributeRef", "Constant", "Function", "Graph", "ImportRecord", "LazyValues", "Model", "Node", "SparseValues", "SynchronizedList", "Tensor",
    "ValueType", "Variable",
]  # fmt: skip
