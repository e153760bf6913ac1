"""Since which version ONNX has an operator: a table, so that the answer does not depend on the installed ``onnx``, and no schema is set up for it."""

from __future__ import annotations

#: Operators of ONNX's own domain by the version that each came with; also those that were deprecated later. Source: ``onnx.defs`` of onnx 1.23.
_BY_VERSION = {
    1: (
        "Abs Add And ArgMax ArgMin AveragePool BatchNormalization Cast Ceil Clip Concat Constant Conv ConvTranspose DepthToSpace Div Dropout Elu "
        "Equal Exp Flatten Floor GRU Gather Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater HardSigmoid Hardmax Identity If "
        "InstanceNormalization LRN LSTM LeakyRelu Less Log LogSoftmax Loop LpNormalization LpPool MatMul Max MaxPool MaxRoiPool Mean Min Mul Neg "
        "Not Or PRelu Pad Pow RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike Reciprocal ReduceL1 ReduceL2 ReduceLogSum "
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Selu Shape Sigmoid Size Slice Softmax "
        "Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tanh Tile TopK Transpose Unsqueeze Upsample Xor"
    ),
    7: "Acos Asin Atan Cos Multinomial Sin Tan",
    8: "Expand Scan",
    9: (
        "Acosh Asinh Atanh Compress ConstantOfShape Cosh Erf EyeLike IsNaN MaxUnpool MeanVarianceNormalization NonZero OneHot Scatter Shrink "
        "Sign Sinh TfIdfVectorizer Where"
    ),
    10: (
        "ConvInteger DequantizeLinear IsInf MatMulInteger Mod NonMaxSuppression QLinearConv QLinearMatMul QuantizeLinear Resize ReverseSequence "
        "RoiAlign StringNormalizer ThresholdedRelu"
    ),
    11: (
        "BitShift ConcatFromSequence CumSum Det DynamicQuantizeLinear GatherElements GatherND Range Round ScatterElements ScatterND SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence Unique"
    ),
    12: "Celu Einsum GreaterOrEqual LessOrEqual NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    14: "HardSwish Trilu",
    15: "Bernoulli CastLike Optional OptionalGetElement OptionalHasElement",
    16: "GridSample",
    17: "BlackmanWindow DFT HammingWindow HannWindow LayerNormalization MelWeightMatrix STFT SequenceMap",
    18: "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im GroupNormalization Mish",
    19: "DeformConv",
    20: "AffineGrid Gelu ImageDecoder RegexFullMatch StringConcat StringSplit",
    23: "Attention RMSNormalization RotaryEmbedding",
    24: "Swish TensorScatter",
    26: "BitCast CumProd",
    27: "CausalConvWithState LinearAttention",
    28: "SwiGLU",
}
SINCE: dict[str, int] = {op: version for version, ops in _BY_VERSION.items() for op in ops.split()}


def exists(op: str, version: int) -> bool:
    """Say whether ONNX's own domain has an operator at a version; the installed ``onnx`` is asked about what the table does not know.

    Example:
        >>> exists("Relu", 1), exists("Rleu", 20), exists("Gelu", 13), exists("Gelu", 20)
        (True, False, False, True)
    """
    since = SINCE.get(op)
    if since is not None:
        return since <= version
    from onnx_gs.ops import schema

    return schema.find(op, version) is not None


def why_unknown(op: str, version: int) -> str:
    """Say what is wrong with an operator that ONNX's own domain does not have at a version.

    Example:
        >>> print(why_unknown("Gelu", 13))
        Gelu came with version 20 of ONNX's operators, and the model imports 13
        >>> print(why_unknown("Rleu", 13))
        ONNX has no operator 'Rleu'
    """
    import onnx.defs

    if op in SINCE:
        return f"{op} came with version {SINCE[op]} of ONNX's operators, and the model imports {version}"
    known = onnx.defs.onnx_opset_version()
    if version > max(known, *_BY_VERSION):
        return f"'{op}' is unknown to the installed onnx {onnx.__version__}, whose operators are of version {known}; the model imports {version}"
    return f"ONNX has no operator '{op}'"


def nearest(op: str, version: int) -> str | None:
    """Give the operator at a version whose name is most like one; None where none is.

    Example:
        >>> nearest("Rleu", 13), nearest("relu", 13), nearest("Frobnicate", 13)
        ('Relu', 'Relu', None)
    """
    from difflib import get_close_matches

    there = {known.lower(): known for known, since in SINCE.items() if since <= version}
    found = get_close_matches(op.lower(), there, n=1, cutoff=0.7)
    return there[found[0]] if found else None
