"""A look at a whole model that costs little: which element types and how many dims may occur in it at all.

Most rules are about types and ranks that most models have nowhere. The survey says so from what enters the model (inputs, weights, constants) and
from the operators in it, without asking for the facts of a single tensor. It may name more than there is, never less. Of most large models a
message tells it as well as a graph (``io/glance.py``), and where no rule has a word about them none has to be built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_gs.io import tensor_data
from onnx_gs.ir import Constant, dtypes
from onnx_gs.ir.node import ONNX_DOMAINS
from onnx_gs.ops import domains, schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from onnx_gs.io.glance import Glance
    from onnx_gs.ir import Graph, Node, Tensor

#: Operators none of whose outputs has more dims than the input with the most, or than a few.
_KEEP_RANK = frozenset({
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "BatchNormalization", "BitShift",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Compress", "Concat", "Constant", "Conv",
    "ConvTranspose", "Cos", "Cosh", "CumSum", "DequantizeLinear", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Flatten", "Floor", "Gelu",
    "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Hardmax", "Identity", "If",
    "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul",
    "Max", "MaxPool", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "NonZero", "Not", "Or", "PRelu", "Pad", "Pow", "QuantizeLinear", "Range",
    "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Relu", "Resize", "Round", "Selu", "Shape", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Slice", "Softmax",
    "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tan", "Tanh", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu",
    "Upsample", "Where", "Xor",
})  # fmt: skip
_FEW = 4  # the most dims that one of these makes of fewer


#: Types that stand anywhere in a network.
PLAIN = frozenset(t.name for t in (dtypes.FLOAT, dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.DOUBLE, dtypes.INT32, dtypes.INT64, dtypes.BOOL))


@dataclass(frozen=True)
class Survey:
    """What may occur in a model.

    Attributes:
        types: names of the element types that its tensors may have; None where that takes more than a look.
        rank: a number of dims that no tensor exceeds; None where that takes more than a look.
        opset: the oldest version of ONNX's operators that it uses.
    """

    types: frozenset[str] | None = None
    rank: int | None = None
    opset: int = 0

    @staticmethod
    def of(graph: Graph) -> Survey:
        """Look at a graph: at inputs, weights and operators."""
        opset = min(g.opset for g in (graph, *graph.functions))
        nodes: dict[str, list[Node]] = {}
        weights = _group(graph, nodes)
        entering = None if weights is None else _declared(graph)
        made = None if entering is None else _made(domains.version(graph, ""), nodes)
        if weights is None or entering is None or made is None:
            return Survey(opset=opset)
        kinds = tensor_data.kinds_of(weights) | entering
        return _summed(made.union(number for number, _ in kinds), max((rank for _, rank in kinds), default=0), nodes, opset)

    @staticmethod
    def at(glance: Glance) -> Survey:
        """Take what a look at a message told."""
        made = _made(glance.opset, dict.fromkeys(glance.operators, ()))
        return Survey(opset=glance.opset) if made is None else _summed(glance.types | made, glance.rank, glance.operators, glance.opset)

    def only(self, types: AbstractSet[str]) -> bool:
        """Say whether no tensor can have an element type beyond these; False also where that takes more than a look."""
        return self.types is not None and self.types <= types

    def lacks(self, types: AbstractSet[str]) -> bool:
        """Say whether no tensor can have one of these element types; False also where that takes more than a look."""
        return self.types is not None and self.types.isdisjoint(types)

    @property
    def all_plain(self) -> bool:
        """Say whether every element type in the model is one that stands anywhere in a network."""
        return self.only(PLAIN)

    def stays_below(self, rank: int) -> bool:
        """Say whether no tensor has more dims than so many; False also where that takes more than a look."""
        return self.rank is not None and self.rank <= rank


def _summed(numbers: Iterable[int], rank: int, operators: Iterable[str], opset: int) -> Survey:
    known = [dtypes.BY_NUMBER.get(number) for number in numbers]
    types = None if None in known else frozenset(t.name for t in known if t is not None)
    keeps = types is not None and _KEEP_RANK.issuperset(operators)
    return Survey(types, max(_FEW, rank) if keeps else None, opset)


def _group(graph: Graph, nodes: dict[str, list[Node]]) -> list[Constant] | None:
    """Group the nodes of the model and its bodies by operator, and list its weights; None where nodes are calls, or of other domains."""
    if graph.functions:
        return None
    weights: list[Constant] = []
    pending = [graph]
    while pending:
        current = pending.pop()
        weights += [t for t in current.outputs if isinstance(t, Constant)]
        for node in current.nodes:
            if node.domain not in ONNX_DOMAINS:
                return None
            try:
                nodes[node.op].append(node)
            except KeyError:
                nodes[node.op] = [node]
            if node._attrs:
                pending.extend(body for _, body in node.bodies())
            for t in node._inputs:
                if t.__class__ is Constant:
                    weights.append(t)
    for node in nodes.get("Constant", ()):
        value = node.attrs.get("value")
        if len(node.attrs) != 1 or not isinstance(value, Constant):
            return None
        weights.append(value)
    return weights


def _declared(graph: Graph) -> set[tuple[int, int]] | None:
    """Give the types and ranks of the model's inputs; None where one does not say."""
    found = set()
    for t in graph.inputs:
        if t.type != "tensor_type" or (dtype := dtypes.of(t)) is None or t.shape is None:
            return None
        found.add((dtype.number, len(t.shape)))
    return found


def _made(version: int | None, nodes: Mapping[str, Sequence[Node] | tuple[()]]) -> set[int] | None:
    """Give the types that nodes make and do not take over from what they read; None where that cannot be told by the operator."""
    made: set[int] = set()
    for op, found in nodes.items():
        reader = _BY_NODE.get(op)
        if reader is not None:
            told: Any = {reader(node) for node in found} or None  # the operator alone does not say it
        else:
            told = None if version is None else _by_schema(op, version)
        if told is None or None in told:
            return None
        made |= told
    return made


def _cast(node: Node) -> int | None:
    dtype = dtypes.find(node.attrs.get("to"))
    return None if dtype is None else dtype.number


def _filled(node: Node) -> int | None:
    value: Tensor | None = node.attrs.get("value")
    dtype = dtypes.FLOAT if value is None else dtypes.of(value) if isinstance(value, Constant) else None
    return None if dtype is None else dtype.number


#: Operators whose attributes say the type; and those that hand on what their bodies make, with what they give to their bodies.
_BY_NODE: dict[str, Any] = {"Cast": _cast, "ConstantOfShape": _filled}
_FIXED: dict[str, frozenset[int]] = {
    "Constant": frozenset(),  # its value is among the weights
    "If": frozenset(),
    "Loop": frozenset({dtypes.INT64.number, dtypes.BOOL.number}),
}


def _by_schema(op: str, version: int) -> frozenset[int] | None:
    """Give the types that an operator may make beyond those of the inputs that it must have; None where they may be anything but tensors."""
    if op in _FIXED:
        return _FIXED[op]
    known = schema.find(op, version)
    if known is None or (op == "Scan" and version < 9):  # the first Scan says less about its body
        return None
    read = {f.type_var for f in known.inputs if not f.is_optional}
    free = {name for f in known.outputs if f.type_var not in read for name in f.types}
    made = [schema.element_type(name) for name in free]
    return None if None in made else frozenset(t.number for t in made if t is not None)
