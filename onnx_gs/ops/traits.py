"""What kind of thing an operator is: one table, which every pass asks.

Names are those of ONNX's own domain; the sets say nothing about operators of other domains that happen to share a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.ops import domains

if TYPE_CHECKING:
    from onnx_gs.ir import Node

#: Results differ from run to run; a seed only fixes the sequence, not the place in it.
RANDOM = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"})

#: The place where a quantized network says its numbers; an engine builder needs to see them.
QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})

#: Operators with bodies.
CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})

#: Operators that touch the world beside their inputs.
STATEFUL = frozenset({"ImageDecoder"})

#: Take or give sequences.
SEQUENCE = frozenset({
    "SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength", "SplitToSequence", "ConcatFromSequence",
    "SequenceMap",
})  # fmt: skip

#: Take or give optional values.
OPTIONAL = frozenset({"Optional", "OptionalHasElement", "OptionalGetElement"})

#: Operators with several outputs of which, from opset 3 on, those after the first may be left out; and those of which none may.
OUTPUTS_SINCE = 3
ONE_REQUIRED_OUTPUT = frozenset({"Dropout", "GRU", "LSTM", "LayerNormalization", "MaxPool", "RNN", "Unique"})
ALL_REQUIRED_OUTPUTS = frozenset({"DynamicQuantizeLinear", "If", "Loop", "Scan", "SequenceMap", "Split", "StringSplit", "TopK"})

#: Move elements without computing: every output element is an input element.
MOVEMENT = frozenset({
    "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Gather", "GatherElements", "GatherND", "Concat", "Split",
    "Expand", "Tile", "Pad", "SpaceToDepth", "DepthToSpace", "ReverseSequence", "Compress", "Trilu", "CenterCropPad",
})  # fmt: skip

#: One input; each output element depends on the input element at its place alone.
UNARY_ELEMENTWISE = frozenset({
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor",
    "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu",
    "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu", "Swish",
})  # fmt: skip

#: Several inputs, broadcast against each other; each output element depends on the input elements at its place alone.
BROADCASTING = frozenset({
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Clip", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor",
})  # fmt: skip

ELEMENTWISE = UNARY_ELEMENTWISE | BROADCASTING

#: Integer division by zero ends the process on most machines, so these are never evaluated where a divisor may be zero.
DIVIDING = frozenset({"Div", "Mod"})

#: Sums or products of many numbers: the order of the additions, so the last bits, may depend on where they are computed.
REDUCING = frozenset({
    "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "MatMul", "Gemm", "Conv",
    "ConvTranspose", "Einsum", "Softmax", "LogSoftmax", "LayerNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization",
    "AveragePool", "GlobalAveragePool", "CumSum", "RNN", "LSTM", "GRU",
})  # fmt: skip


def is_random(node: Node) -> bool:
    """Say whether the results of a node, by itself, differ from run to run: random ones, and ``Dropout`` in training mode."""
    if not node.is_onnx:
        return False
    return node.op in RANDOM or (node.op == "Dropout" and trains(node))


def trains(node: Node) -> bool:
    """Say whether a ``Dropout`` or ``BatchNormalization`` is, or at run time may be, in training mode.

    Spec: ``ai.onnx::Dropout-12`` (third input), ``ai.onnx::BatchNormalization-14`` (attribute ``training_mode``), ``-7`` to ``-9`` (more than one
    output). What ``is_test`` says before opset 7 is not looked at, as its default depends on the opset.
    """
    if node.op == "Dropout":
        inputs = node.inputs
        if len(inputs) > 2 and inputs[2].name:
            from onnx_gs.ir.tensor import Constant

            mode = inputs[2]
            return not (isinstance(mode, Constant) and mode.shape in {(), (1,)} and not mode.values.item())
        return False
    if node.op == "BatchNormalization":
        mode = node.attrs.get("training_mode", 0)
        return bool(mode) or any(t.name for t in list(node.outputs)[1:]) if isinstance(mode, int) else True
    return False


def never_folds(node: Node) -> str | None:
    """Give the reason why a node of ONNX's or of another domain is never computed beforehand, whatever its inputs are; None where it may be.

    Calls of local functions are judged by what is in the function, and nodes with bodies by what is in these too; that is the caller's to do.
    """
    op = node.op
    if not node.is_onnx:
        return None if domains.canonical(node.domain) == domains.ML else f"domain '{node.domain}' is unknown"
    if op in QUANTIZING:
        return "quantization stays visible"
    if op in RANDOM:
        return "random"
    if op in STATEFUL:
        return "depends on more than its inputs"
    if op in {"Dropout", "BatchNormalization"} and trains(node):
        return "in training mode"
    return None
