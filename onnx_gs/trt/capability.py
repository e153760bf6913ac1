"""What TensorRT takes, as data: the rows that findings name, and what each version has, each with its source.

Sources: *measured* means built with TensorRT for RTX 1.7.1 (parser of the same code base as full TensorRT 11) on the 1,884 ONNX backend tests
and some 400 hand-made models; *documented* means NVIDIA's developer guide, support matrix and release notes of the version named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_gs.errors import GraphValueError
from onnx_gs.trt import tensorrt

if TYPE_CHECKING:
    from onnx_gs.trt.tensorrt import Library

MEASURED = "measured with TensorRT for RTX 1.7.1"


@dataclass(frozen=True)
class Row:
    """One kind of finding.

    Attributes:
        id: stable name.
        title: what it is, for people.
        remedy: what removes it: a pass by its command-line name, or a change to the model.
        passes: the passes among these.
        source: where the fact comes from.
        blocks: False for what builds, but is not what ONNX says.
    """

    id: str
    title: str
    remedy: str
    passes: tuple[str, ...] = ()
    source: str = MEASURED
    blocks: bool = True


def _rows(*rows: Row) -> dict[str, Row]:
    return {row.id: row for row in rows}


ROWS = _rows(
    Row("sequence-op", "sequence operators have no counterpart", "lower-sequence tracks the list at compile time", ("lower-sequence",)),
    Row(
        "sequence-state", "a loop or branch carries a sequence", "lower-sequence turns a list that only grows into a scan output", ("lower-sequence",)
    ),
    Row(
        "optional-op", "optional operators have no counterpart", "lower-optional resolves presence where it is known", ("lower-optional", "inline-if")
    ),
    Row("interface-type", "a network input or output is a sequence, optional or map", "change the interface: TensorRT passes tensors only"),
    Row(
        "if-rank",
        "the branches of an If with a run-time condition differ in rank",
        "decide the condition (fold-shapes, inline-if), or make the ranks equal inside the branches (equalize-ranks)",
        ("fold-shapes", "fold-constants", "inline-if", "equalize-ranks"),
    ),
    Row(
        "if-shape",
        "the branches of an If differ in shape",
        "make the shapes equal: this version asks for identical ones",
        ("fold-shapes", "inline-if"),
        "documented up to TensorRT 10.10: conditional outputs of identical shape",
    ),
    Row("if-type", "the branches of an If differ in element type", "cast one of them: ONNX asks for one type too"),
    Row(
        "if-same-condition", "an inner If asks the outer If's condition again", "inline-if: inside the branch the condition is known", ("inline-if",)
    ),
    Row(
        "carried-shape",
        "a loop-carried value changes its shape",
        "grow-to-scan-output, for a value that only grows; unroll-loop where the trip count is known; Expand an initial value that broadcasts",
        ("grow-to-scan-output", "normalize-loop", "unroll-loop"),
    ),
    Row("carried-type", "a loop-carried value changes its element type", "cast it back inside the body: ONNX asks for one type too"),
    Row(
        "slice-by-iteration",
        "a Slice or Range in a body has bounds made from the iteration number",
        "slice-by-counter makes a slice of constant width a Gather; otherwise unroll-loop, or mask with Where",
        ("slice-by-counter", "unroll-loop"),
    ),
    Row(
        "if-size-in-loop",
        "an If inside a loop has a branch that changes the size",
        "unroll-loop: each If then has a constant condition",
        ("unroll-loop", "inline-if"),
    ),
    Row(
        "loop-no-count",
        "a body reads the iteration number, but the loop has no trip limit",
        "normalize-loop carries a counter as a state",
        ("normalize-loop",),
    ),
    Row(
        "loop-no-condition",
        "a body hands its condition input on, but the loop is given no condition",
        "normalize-loop makes the condition a constant true",
        ("normalize-loop",),
    ),
    Row("loop-endless", "a loop has neither a trip limit nor a condition that can end it", "give it a trip count"),
    Row(
        "while-scan",
        "a loop without a trip limit has a scan output",
        "bound-loop, where the condition counts; else state a bound, count the trips, and slice the result",
        ("bound-loop",),
    ),
    Row(
        "size-from-data",
        "a size is computed from data that is no integer input",
        "an If with the alternatives as branches of equal rank; or a static bound and a mask",
    ),
    Row("size-input-type", "a network input that decides a size is no integer", "freeze the input (bind), or make it int64"),
    Row("scan-no-state", "a Scan carries no state", "lower-scan (to Loop), or vectorize the body", ("lower-scan",)),
    Row("scan-negative-axis", "a Scan has a negative axis", "lower-scan, or make the axis non-negative", ("lower-scan",)),
    Row(
        "reduce-axes",
        "the axes of a reduction are computed",
        "fold-constants, where they depend on constants and shapes; else freeze the input",
        ("fold-shapes", "fold-constants"),
    ),
    Row(
        "constant-operand",
        "an operand must be a build-time constant",
        "fold-constants, where it depends on constants and shapes; else freeze the input",
        ("fold-shapes", "fold-constants"),
    ),
    Row(
        "unsupported-op",
        "the operator has no counterpart",
        "fold-constants where its inputs are constant; legalize-ops where it can be spelled out; else rewrite it",
        ("fold-constants", "legalize-ops"),
    ),
    Row(
        "function-op",
        "the operator has no counterpart, but ONNX defines it by a function",
        "expand-function-ops spells it out with operators that TensorRT has",
        ("expand-function-ops",),
    ),
    Row(
        "unknown-op",
        "the operator is neither ONNX's, at the version that the model imports, nor a local function",
        "give TensorRT a plugin of that name (plugins=...), or define a local function",
    ),
    Row(
        "data-dependent-op",
        "the operator's output size depends on data, and this library has no such layer",
        "fold-constants over constants; legalize-ops for NonZero of ones and its Shape; a mask instead of a selection; cut the model before it",
        ("fold-constants", "legalize-ops"),
        f"{MEASURED}: no NonZero, NonMaxSuppression, RoiAlign; full TensorRT 10 and later have them",
    ),
    Row(
        "int8-number",
        "an int8 constant is used as a number",
        "fold its Cast, widen it to int32, or write it as DequantizeLinear",
        ("fold-constants", "legalize-dtypes"),
    ),
    Row(
        "uint8-inside",
        "uint8 is used inside the network",
        "legalize-dtypes computes in int32; uint8 may only enter or leave through one Cast",
        ("legalize-dtypes",),
    ),
    Row(
        "dtype",
        "an element type that TensorRT lacks",
        "fold-constants over constants; legalize-dtypes inside the network",
        ("fold-constants", "legalize-dtypes"),
    ),
    Row("interface-dtype", "a network input or output has an element type that TensorRT lacks", "change the interface, for instance to int32"),
    Row(
        "quantized-type-use",
        "a float8, float4 or int4 tensor stands elsewhere than between QuantizeLinear and DequantizeLinear",
        "keep these types between QuantizeLinear and DequantizeLinear, or cast to float16",
    ),
    Row(
        "zero-point",
        "QuantizeLinear or DequantizeLinear has a zero point other than 0",
        "legalize-dtypes: uint8 with 128 is int8 with 0; else spell it out in float",
        ("legalize-dtypes",),
    ),
    Row("int32-dequantize", "DequantizeLinear of int32", "legalize-dtypes writes it as a float constant", ("legalize-dtypes",)),
    Row(
        "extra-outputs",
        "an extra output is present",
        "legalize-ops drops it where it is unused; else expand-function-ops",
        ("legalize-ops", "expand-function-ops"),
    ),
    Row("argmax-1d", "ArgMax or ArgMin over a tensor of rank 1", "Unsqueeze, ArgMax on axis 1, Squeeze", ("legalize-ops",)),
    Row(
        "op-dtype",
        "the operator does not take this element type here",
        "legalize-ops and legalize-dtypes spell it out or cast around it",
        ("legalize-ops", "legalize-dtypes"),
    ),
    Row("scatter-reduction", "a scatter with a reduction", "legalize-ops, where the indices are constant; else a one-hot MatMul", ("legalize-ops",)),
    Row(
        "training-mode", "a node in training mode", "export for inference, or legalize-ops, which spells the batch statistics out", ("legalize-ops",)
    ),
    Row("function-missing-input", "a call of a local function leaves out an input", "inline-functions", ("inline-functions",)),
    Row("dead-node", "a node that nothing needs cannot be imported", "cleanup drops it", ("cleanup",)),
    Row(
        "constant-form",
        "a Constant in a form that TensorRT lacks (string, sparse)",
        "lower-constants and fold-constants; cleanup where it is unused",
        ("lower-constants", "fold-constants", "cleanup"),
    ),
    Row("rank-limit", "a tensor of more than 8 dims", "merge dims with Reshape"),
    Row("topk-limit", "TopK with K above 3840", "a smaller K; or sort in parts"),
    Row("attribute", "an attribute has a value that TensorRT lacks", "another mode, or spell the operator out"),
    Row(
        "attention-form",
        "an Attention in a form that TensorRT lacks",
        "expand-function-ops spells it out from ONNX's own definition",
        ("expand-function-ops",),
    ),
    Row(
        "attention-kernel",
        "no kernel for an Attention of this type or head size",
        "cast it to float16 or bfloat16 with a head size of 16 or more; or expand-function-ops spells it out from ONNX's own definition",
        ("expand-function-ops",),
    ),
    Row("old-opset", "broadcasting as before opset 7", "convert the model to a newer opset (onnx-gs convert)"),
    Row("operand-rank", "operands of ranks that this operator does not take here", "Unsqueeze the operand of lower rank, and Squeeze the result"),
    Row("out-of-range", "a constant index or slice is out of range", "correct it: TensorRT checks bounds where ONNX clamps or leaves it open"),
    Row("split-parts", "a Split into more equal parts than there are elements for", "give the sizes of the parts: the last would be negative"),
    Row(
        "loop-dtype",
        "a loop-carried value is neither float32 nor float16",
        "a newer TensorRT; or cast around the loop",
        (),
        "documented up to TensorRT 8.x: loops over FP32 and FP16 only",
    ),
    Row("bool-constant", "a bool constant", "an int32 constant and a Cast", ("legalize-dtypes",), "documented up to TensorRT 8.x: no bool constants"),
    Row("invalid-onnx", "the model is not valid ONNX", "correct the model: nothing else was looked at", (), "the ONNX specification"),
    Row("no-output", "the model has no outputs", "declare what it computes as outputs"),
    Row("external-data", "weights in another file are missing", "put the files of external data beside the model"),
    Row("profile", "the sizes of the optimization profile do not fit the model", "give shapes that the model can run with: --shapes, --dims"),
    Row(
        "layer-unimplemented", "the library has no kernel for this layer with these types or sizes", "another element type, or spell the operator out"
    ),
    Row("refused", "TensorRT refuses it", "see the message"),
    # what builds, but is not what ONNX says
    Row(
        "padded-scan",
        "a scan output is padded",
        "count the trips and slice the result (NetworkBuilder does so), or drop the condition",
        ("bound-loop",),
        blocks=False,
    ),
    Row("double-binding", "a double input or output becomes float32", "change the interface to float32", blocks=False),
    Row("double-inside", "double is computed as float32", "cast to float32 in the model, so that ONNX Runtime agrees", blocks=False),
    Row("unknown-rank", "an input of unknown rank is taken as a scalar", "declare its shape", blocks=False),
    Row("quantize-default-type", "QuantizeLinear without a zero point: uint8 in ONNX, int8 in TensorRT", "add a zero point", blocks=False),
    Row("random-seed", "a random operator: the seed is ignored", "make the random values an input", blocks=False),
    Row(
        "loop-memory",
        "a loop over tensors with two or more dynamic dims: memory as if each were the largest of them",
        "fix dims (bind), or give them close ranges",
        blocks=False,
        source="documented: developer guide, working with loops",
    ),
)


#: Operators of ONNX's own domain that the parser has no importer for. Source: ``OnnxParser.supports_operator`` of parser version 200 over all
#: operators of onnx 1.23, and the builds of the backend tests.
NO_IMPORTER = frozenset(
    {
        "AffineGrid", "Bernoulli", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "CenterCropPad", "Col2Im",
        "Compress", "ConcatFromSequence", "ConvInteger", "CumProd", "DFT", "DeformConv", "Det", "DynamicQuantizeLinear", "ImageDecoder",
        "MatMulInteger", "MaxRoiPool", "MaxUnpool", "MelWeightMatrix", "Multinomial", "NegativeLogLikelihoodLoss", "Optional",
        "OptionalGetElement", "OptionalHasElement", "QLinearConv", "QLinearMatMul", "RegexFullMatch", "SequenceAt", "SequenceConstruct",
        "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SoftmaxCrossEntropyLoss", "SplitToSequence",
        "StringConcat", "StringNormalizer", "StringSplit", "SwiGLU", "TfIdfVectorizer", "Unique",
    }
)  # fmt: skip
#: Operators that importers exist for, but that TensorRT for RTX cannot build. Source: measured.
NOT_IN_RTX = frozenset({"NonZero", "NonMaxSuppression", "RoiAlign", "LinearAttention", "CausalConvWithState", "DeformConv"})
#: Operators of full TensorRT 10 and later beyond those. Source: documented (support matrix), not measured here.
ONLY_IN_FULL = frozenset({"DeformConv"})
SEQUENCE_OPS = frozenset(
    {
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "SequenceMap",
        "SplitToSequence",
        "ConcatFromSequence",
    }
)
OPTIONAL_OPS = frozenset({"Optional", "OptionalGetElement", "OptionalHasElement"})
#: Operators of other domains that the parser imports. Source: ``supports_operator``.
FOREIGN_OPS = frozenset(
    {
        "Gelu", "LayerNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "Attention", "MultiHeadAttention",
        "GroupQueryAttention", "RotaryEmbedding", "MatMulNBits", "DequantizeLinear", "QuantizeLinear", "TRT_FP8QuantizeLinear",
        "TRT_FP8DequantizeLinear", "TRT_INT4QuantizeLinear", "TRT_INT4DequantizeLinear", "ImageScaler", "ParametricSoftplus", "ScaledTanh",
        "Upsample",
    }
)  # fmt: skip
#: Operators that the parser imports under ONNX's own domain although ONNX has them not, or not at that version: it goes by the name, and runtimes
#: have them there too. Source: ``supports_operator``.
NATIVE_OPS = FOREIGN_OPS - {"Gelu", "Attention", "RotaryEmbedding", "MultiHeadAttention", "GroupQueryAttention"}

#: Element types of tensors by ONNX name. Source: measured (``convertDtype``).
TENSOR_TYPES = frozenset(
    {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "INT32", "INT64", "BOOL", "UINT8", "FLOAT8E4M3FN", "INT4", "FLOAT4E2M1", "FLOAT8E8M0"}
)
#: Types that live only between quantize and dequantize.
QUANTIZED_TYPES = frozenset({"FLOAT8E4M3FN", "INT4", "FLOAT4E2M1", "FLOAT8E8M0"})
MAX_RANK = 8
MAX_TOPK = 3840


@dataclass(frozen=True)
class Target:
    """A TensorRT to check for.

    Attributes:
        is_rtx: TensorRT for RTX rather than full TensorRT.
        version: its version.
    """

    is_rtx: bool
    version: tuple[int, ...]

    def __str__(self) -> str:
        """Spell it as ``--target`` takes it."""
        return f"{'rtx' if self.is_rtx else 'tensorrt'}-{'.'.join(map(str, self.version[:2]))}"

    @property
    def same_branch_shapes(self) -> bool:
        """Branches must have identical shapes. Source: documented up to 10.10; newer pages ask for equal ranks."""
        return not self.is_rtx and self.version < (10, 11)

    @property
    def float_loops_only(self) -> bool:
        """Loops carry float32 and float16 only. Source: documented up to 8.x."""
        return not self.is_rtx and self.version < (9,)

    @property
    def bool_constants(self) -> bool:
        """Bool constants are taken. Source: measured in RTX; documented as missing up to 8.x."""
        return self.is_rtx or self.version >= (9,)

    def lacks(self, op: str) -> str | None:
        """Give the row for an operator that this target cannot build; None where it can."""
        if op in SEQUENCE_OPS:
            return "sequence-op"
        if op in OPTIONAL_OPS:
            return "optional-op"
        if self.is_rtx and op in NOT_IN_RTX:
            return "data-dependent-op" if op in {"NonZero", "NonMaxSuppression", "RoiAlign"} else "unsupported-op"
        if op in NO_IMPORTER and not (not self.is_rtx and op in ONLY_IN_FULL and self.version >= (10,)):
            return "unsupported-op"
        return None

    def matches(self, library: Library | None) -> bool:
        """Say whether an installed library is this target, so that its own verdict counts."""
        return library is not None and library.is_rtx == self.is_rtx and library.version[: len(self.version)] == self.version


#: The targets that the table knows, newest first.
KNOWN = (
    Target(is_rtx=False, version=(11, 4)),
    Target(is_rtx=True, version=(1, 7)),
    Target(is_rtx=False, version=(10, 10)),
    Target(is_rtx=False, version=(8, 6)),
)


#: The first versions that the rules are about, full TensorRT and RTX. What came before had no loops or conditionals, or others.
OLDEST = {False: (8,), True: (1,)}


def targets() -> list[str]:
    """List the targets that the table was written for; a version between them, or after them, is taken by the rules of its age.

    Example:
        >>> targets()
        ['tensorrt-11.4', 'rtx-1.7', 'tensorrt-10.10', 'tensorrt-8.6']
    """
    return [str(t) for t in KNOWN]


def newest(*, is_rtx: bool) -> Target:
    """Give the newest target of a library that the table was written for."""
    return next(t for t in KNOWN if t.is_rtx == is_rtx)


def target_of(text: str | Target | None, *, load: bool = True) -> Target:
    """Read a target.

    Args:
        text: such as ``"rtx-1.7"``, ``"rtx"``, ``"tensorrt-10.3"``, ``"10.3"``; None for the installed library, and full TensorRT of the newest
            version that the table knows where there is none.
        load: whether the installed library may be loaded to learn what it is.

    Raises:
        GraphValueError: it names no TensorRT, or one from before the table.

    Example:
        >>> str(target_of("tensorrt-8.6")), target_of("8.6").bool_constants
        ('tensorrt-8.6', False)
    """
    if text is None:
        library = tensorrt.installed() if load else tensorrt.described()
        return KNOWN[0] if library is None else _old_enough(Target(library.is_rtx, library.version[:2]), str(library))
    if isinstance(text, Target):
        return _old_enough(text, str(text))
    known = f"one of {', '.join(targets())}, or another version of either"
    if not isinstance(text, str):
        raise GraphValueError(f"{text!r} is no target", fix=known)
    match = re.fullmatch(r"(?:(rtx|tensorrt[-_]rtx|tensorrt|trt)(?:[-_ ]?(\d+(?:\.\d+)*))?|(\d+(?:\.\d+)*))", text.strip().lower())
    if match is None:
        raise GraphValueError(f"'{text}' is no target", fix=known)
    is_rtx = (match[1] or "").endswith("rtx")
    version = match[2] or match[3]
    return _old_enough(Target(is_rtx, tuple(map(int, version.split("."))) if version else newest(is_rtx=is_rtx).version), text)


def _old_enough(target: Target, named: str) -> Target:
    """Give the target back where the rules are about it.

    Raises:
        GraphValueError: they are about later versions only.
    """
    first = OLDEST[target.is_rtx]
    if target.version >= first:
        return target
    what = "TensorRT for RTX" if target.is_rtx else "TensorRT"
    raise GraphValueError(
        f"'{named}' is no target: nothing is known of {what} before {first[0]}.0", fix=f"one of {', '.join(targets())}, or another version of either"
    )


def note_on(target: Target) -> str | None:
    """Say that a target is newer than the table, so that it may take more or less than the table says; None where it is not.

    Example:
        >>> note_on(target_of("tensorrt-99")), note_on(target_of("tensorrt-11.4"))
        ('nothing is known of tensorrt-99: checked by the rules of tensorrt-11.4, the newest', None)
    """
    latest = newest(is_rtx=target.is_rtx)
    if target.version[:2] <= latest.version:
        return None
    return f"nothing is known of {target}: checked by the rules of {latest}, the newest"


#: TensorRT's wording → row: the first that fits. The wording is that of parser version 200 and RTX 1.7.1.
MESSAGES: tuple[tuple[str, str], ...] = (
    (r"not supported by a dedicated kernel", "attention-kernel"),
    (r"Attention nodes with one output|TensorRT Attention|IAttention|_AttentionInput", "attention-form"),
    (r"at least one output", "no-output"),
    (r"toposort\(", "invalid-onnx"),
    (r"Pre-opset 7", "old-opset"),
    (r"rank of operands should be the same|reshape changes volume|Axis must be in the range", "operand-rank"),
    (r"equal ranks when condition", "if-rank"),
    (r"IConditionalOutputLayer.*same type", "if-type"),
    (r"graphScope\.cpp::analyze", "if-same-condition"),
    (r"IRecurrenceLayer must have inputs with same shape", "carried-shape"),
    (r"IRecurrenceLayer must have.*same type|Recurrence.*same type", "carried-type"),
    (r"makeScopeNodesContiguous", "slice-by-iteration"),
    (r"Backedge detected", "if-size-in-loop"),
    (r"Node input was not registered", "loop-no-count"),
    (r"cannot infer the shape of scan output", "while-scan"),
    (r"is a shape tensor and must have type", "size-input-type"),
    (r"number of dimensions should remain the same adding inputs|illegal axis of value", "scan-negative-axis"),
    (r"Axis input must resolve to a build-time constant", "reduce-axes"),
    (
        r"axis is not a constant|must be a build time constant|must be an initializer|is not an initializer|is_weights\(\)|must resolve to",
        "constant-operand",
    ),
    (r"training_mode|isTraining|training mode", "training-mode"),
    (r"plugin creator version \d+ was not found", "data-dependent-op"),
    (r"Plugin not found|creator &&", "unknown-op"),
    (r"Quantized constant", "int8-number"),
    (r"UINT8 types for intermediate|legalUINT8|must have same input types.*UInt8", "uint8-inside"),
    (r"Failed to convert ONNX dat\w+ type", "interface-dtype"),
    (
        r"convertDtype|Unsupported data type for the Cast|Failed to import initializer|convertOnnxWeights|[Uu]nsupported.*data type",
        "dtype",
    ),
    (r"[Nn]on-zero zero point|shiftIsAllZeros|asymmetric", "zero-point"),
    (r"input has type Int32 but must have type", "int32-dequantize"),
    (r"mode than 1 outputs|more than 1 output", "extra-outputs"),
    (r"at least 2 dimensions are required", "argmax-1d"),
    (r"has datatype (FP8|Int4|FP4|E8M0)|4-bit quantization", "quantized-type-use"),
    (r"with reduction is not supported|Unsupported reduction type", "scatter-reduction"),
    (r"node\.input\(\)\.size\(\) == function\.input", "function-missing-input"),
    (r"sparse_value|value_string", "constant-form"),
    (r"Failed to convert ONNX dimensions", "rank-limit"),
    (r"K exceeds the maximum", "topk-limit"),
    (r"importInitializers|[Ff]ailed to open file|external data|weights\.cpp|Failed to read", "external-data"),
    (r"values for profile|dimensions must be equal", "profile"),
    (r"last chunk size", "split-parts"),
    (r"out of bounds|out-of-bounds|exceeds or equals length|executeGather", "out-of-range"),
    (r"unsupported input type|must have type|must have same input types|Float only|only supports|of type|Unsupported type", "op-dtype"),
    (r"no runners that implement|layerImpls\.empty|no implementation", "layer-unimplemented"),
    (r"missing a trip limit", "loop-endless"),
    (r"no importer for|^false$", "unsupported-op"),
    (r"==|is not supported|not supported|[Oo]nly .*support", "attribute"),
)


def row_of_message(text: str, op: str) -> Row:
    """Give the row that a message of TensorRT's is about."""
    if op in SEQUENCE_OPS:
        return ROWS["sequence-op"]
    if op in OPTIONAL_OPS:
        return ROWS["optional-op"]
    if op in NO_IMPORTER:
        return ROWS["unsupported-op"]
    if op == "Scan" and "Invalid Node" in text:
        return ROWS["scan-no-state"]
    for pattern, name in MESSAGES:
        if re.search(pattern, text):
            return ROWS[name]
    return ROWS["refused"]
