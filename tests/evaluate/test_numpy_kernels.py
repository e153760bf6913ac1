"""The kernels give what ONNX Runtime gives, bit for bit, or nothing."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.evaluate import numpy_kernels, onnxruntime
from onnx_gs.evaluate.compare import compare

RNG = np.random.default_rng(0)
F = RNG.standard_normal((2, 3, 4)).astype(np.float32)
D = RNG.standard_normal((2, 3, 4))
I = RNG.integers(-9, 10, (2, 3, 4))
I32 = I.astype(np.int32)
BIG = np.int64([2**62, -(2**62), 3, -3])
SPECIAL = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3.5])
B = RNG.random((2, 3, 4)) < 0.5
TEXT = np.array([["a", "b"], ["c", "d"]], object)


def ints(*values):
    return np.array(values, np.int64)


CASES = [
    ("Shape", 18, {}, [F]), ("Shape", 18, {"start": 1}, [F]), ("Shape", 18, {"start": -2, "end": -1}, [F]), ("Shape", 18, {"start": 5}, [F]), ("Size", 18, {}, [F]),
    ("Identity", 18, {}, [F]), ("Gather", 18, {"axis": 1}, [F, ints(2, -1)]), ("Gather", 18, {}, [I, np.array(1)]), ("Gather", 18, {"axis": -1}, [TEXT, ints(1)]),
    ("Gather", 18, {"axis": 2}, [F, np.int32([[0, 1], [3, -4]])]), ("GatherElements", 18, {"axis": 1}, [F, np.abs(I) % 3]),
    *(("CastLike", 18, {}, [x, like]) for x in (F * 50, I, B, D) for like in (F, I32, D, B)),
    ("GatherND", 18, {}, [F, np.int64([[0, 1], [-1, 2]])]), ("GatherND", 18, {}, [F, np.int64([[[1, 2, 3]], [[0, -3, -4]]])]), ("GatherND", 18, {}, [TEXT, np.int64([[1]])]),
    ("GatherND", 18, {"batch_dims": 1}, [F, np.int64([[1], [2]])]),
    ("Slice", 18, {}, [F, ints(1), ints(100), ints(2)]), ("Slice", 18, {}, [F, ints(-1, 0), ints(-100, 2), ints(1, 0), ints(-1, 1)]),
    ("Slice", 18, {}, [F, ints(3), ints(0), ints(2), ints(-2)]), ("Slice", 9, {"starts": [0, -2], "ends": [1, 9], "axes": [0, 1]}, [F]),
    ("Slice", 18, {}, [F, ints(-100), ints(-101), ints(1), ints(-1)]), ("Slice", 18, {}, [F, ints(100), ints(2**63 - 1), ints(1), ints(-1)]),
    ("Slice", 18, {}, [F, ints(-1), ints(2**31 - 1), ints(1), ints(-1)]), ("Slice", 18, {}, [F[:0], ints(-1), ints(-100), ints(0), ints(-1)]),
    ("Squeeze", 18, {}, [F[:1], ints()]), ("Slice", 18, {}, [F, ints(-100), ints(100), ints(0)]), ("Slice", 18, {}, [F, ints(2), ints(1), ints(1)]),
    ("Concat", 18, {"axis": 1}, [F, F]), ("Concat", 18, {"axis": -1}, [TEXT, TEXT]), ("Squeeze", 18, {}, [F[:1], ints(0)]), ("Squeeze", 18, {}, [F[:1]]),
    ("Squeeze", 11, {"axes": [0]}, [F[:1]]), ("Unsqueeze", 18, {}, [F, ints(0, -1)]), ("Unsqueeze", 11, {"axes": [1]}, [F]),
    ("Reshape", 18, {}, [F, ints(0, -1)]), ("Reshape", 18, {}, [F, ints(4, 6)]), ("Reshape", 18, {"allowzero": 1}, [F[:0], ints(0, 5)]),
    ("Flatten", 18, {"axis": 2}, [F]), ("Flatten", 18, {"axis": 0}, [F]), ("Flatten", 18, {"axis": -1}, [F]), ("Transpose", 18, {}, [F]),
    ("Transpose", 18, {"perm": [2, 0, 1]}, [I32]), ("Tile", 18, {}, [F, ints(1, 2, 3)]), ("Expand", 18, {}, [F[:, :1], ints(5, 1, 3, 1)]),
    ("ConstantOfShape", 18, {}, [ints(2, 3)]), ("ConstantOfShape", 18, {"value": gs.Constant("v", np.int32([7]))}, [ints(2, 0)]),
    ("ConstantOfShape", 18, {}, [np.zeros(0, np.int64)]), ("Trilu", 18, {"upper": 0}, [F, np.array(1)]), ("Trilu", 18, {}, [I]),
    ("Where", 18, {}, [B, F, F[:1]]), ("Where", 18, {}, [B, I, I[:, :1]]), ("NonZero", 18, {}, [B]), ("NonZero", 18, {}, [I]),
    ("Range", 18, {}, [np.array(2), np.array(11), np.array(3)]), ("Range", 18, {}, [np.array(5), np.array(1), np.array(-2)]),
    ("Range", 18, {}, [np.array(5, np.int32), np.array(1, np.int32), np.array(2, np.int32)]),
    *(("Cast", 18, {"to": to}, [x]) for to in (1, 3, 6, 7, 9, 11, 2, 5, 10) for x in (F * 50, I, I32, B, D)),
    ("Cast", 18, {"to": 1}, [SPECIAL.astype(np.float64)]), ("Cast", 18, {"to": 9}, [SPECIAL]), ("Cast", 18, {"to": 6}, [BIG]), ("Cast", 18, {"to": 11}, [F.astype(np.float16)]),
    *((op, 18, {}, [x, y]) for op in ("Add", "Sub", "Mul", "Div") for x, y in ((F, F[:, :1]), (D, D[:1]), (I, np.where(I[:1] == 0, 3, I[:1])), (I32, np.int32([3, -2, 1, 7])))),
    ("Mul", 18, {}, [BIG, BIG]), ("Add", 18, {}, [BIG, BIG]), ("Mul", 18, {}, [SPECIAL, SPECIAL[::-1].copy()]), ("Div", 18, {}, [SPECIAL, SPECIAL[::-1].copy()]),
    ("Mod", 18, {}, [I, ints(3, -3, 2, 5)]), ("Mod", 18, {"fmod": 1}, [I, ints(3, -3, 2, 5)]),
    *((op, 18, {}, [x, y]) for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual") for x, y in ((F, F[:1]), (I, I[:1]), (SPECIAL, SPECIAL[::-1].copy()))),
    *((op, 18, {}, [B, B[:1]]) for op in ("And", "Or", "Xor")), ("Not", 18, {}, [B]), ("Equal", 18, {}, [B, B[:1]]),
    *((op, 18, {}, [x]) for op in ("Neg", "Abs", "Sqrt", "Floor", "Ceil") for x in (F, D, SPECIAL, I)),
    *((op, 18, {}, xs) for op in ("Max", "Min") for xs in ([F, F[:1], F[:, :1]], [I, I[:1]], [D], [SPECIAL, SPECIAL])),
    ("Clip", 18, {}, [F, np.array(-0.5, np.float32), np.array(0.5, np.float32)]), ("Clip", 18, {}, [I, None, np.array(3)]), ("Clip", 18, {}, [I, np.array(4), np.array(1)]),
    ("Clip", 18, {}, [np.float32([1, np.inf, -np.inf]), np.array(0, np.float32)]), ("Clip", 18, {}, [np.float32([1, np.inf, -np.inf])]),
    ("CumSum", 18, {}, [I, np.array(1)]), ("CumSum", 18, {"reverse": 1}, [I, np.array(1)]),
    *((op, 18, {"keepdims": k}, [x, ints(1)]) for op in ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum") for k in (0, 1) for x in (I, F)),
    ("ReduceSum", 18, {"keepdims": 0}, [ints(2**63 - 1, -1), ints(-1)]), ("ReduceSum", 18, {}, [I]), ("ReduceSum", 18, {"noop_with_empty_axes": 1}, [I]), ("ReduceProd", 13, {"axes": [0, -1]}, [I]), ("ReduceMax", 18, {}, [SPECIAL]),
    ("ReduceProd", 18, {}, [np.zeros(0, np.int64)]),
]  # fmt: skip


def run(op, opset, attrs, arrays, outputs=1):
    inputs = [gs.Variable.empty() if x is None else gs.Constant(f"i{k}", x) for k, x in enumerate(arrays)]
    made = [gs.Variable(f"o{k}") for k in range(outputs)]
    node = gs.Node(op, attrs=attrs, inputs=inputs, outputs=made)
    found = numpy_kernels.evaluate(node, opset, arrays)
    graph = gs.Graph([node], [], made, opset=opset)
    try:
        expected = list(onnxruntime.run(graph, {}).values())
    except gs.EvaluationError:
        return None, found
    return expected, found


def test_kernels_agree_with_onnx_runtime_or_decline():
    handled = compared = 0
    for op, opset, attrs, arrays in CASES:
        expected, found = run(op, opset, attrs, arrays)
        if found is None:
            continue
        handled += 1
        if expected is None:
            continue  # ONNX Runtime has no kernel for the types
        compared += 1
        for x, y in zip(expected, found):
            difference = compare(x, y)
            assert difference is None, f"{op} {attrs} {[getattr(a, 'dtype', None) for a in arrays]}: {difference}"
    assert handled > 150
    assert compared > 140


@pytest.mark.parametrize(("opset", "attrs", "arrays", "outputs"), [
    (18, {"axis": 2}, [F, ints(1, 3)], 2), (18, {"axis": 1, "num_outputs": 2}, [F], 2), (13, {"axis": 2}, [F], 2), (11, {"axis": 1, "split": [1, 2]}, [F], 2),
])  # fmt: skip
def test_split(opset, attrs, arrays, outputs):
    expected, found = run("Split", opset, attrs, arrays, outputs)
    assert all(compare(x, y) is None for x, y in zip(expected, found))


@pytest.mark.parametrize(("op", "attrs", "arrays"), [
    ("Gather", {}, [F, ints(9)]), ("Reshape", {}, [F, ints(5, 5)]), ("Concat", {"axis": 0}, [F, D]), ("Slice", {}, [F, ints(0), ints(1), ints(0), ints(0)]),
    ("Range", {}, [np.array(0), np.array(3), np.array(0)]), ("Cast", {"to": 6}, [SPECIAL]), ("Max", {}, [SPECIAL, np.float32([1])]), ("Tile", {}, [F, ints(2)]),
    ("Transpose", {"perm": [0, 0, 1]}, [F]), ("Squeeze", {}, [F, ints(1)]), ("Add", {}, [F, D]), ("Add", {}, [F.astype(np.float16), F.astype(np.float16)]),
])  # fmt: skip
def test_what_is_not_sure_is_declined(op, attrs, arrays):
    assert numpy_kernels.evaluate(gs.Node(op, attrs=attrs, outputs=[gs.Variable("y")]), 18, arrays) is None


@pytest.mark.parametrize(("op", "a", "b"), [("Div", ints(1), ints(0)), ("Mod", ints(1), ints(0)), ("Div", ints(-(2**63)), ints(-1))])
def test_divisions_that_end_a_process_are_refused(op, a, b):
    with pytest.raises(gs.EvaluationError):
        numpy_kernels.evaluate(gs.Node(op), 18, [a, b])


def test_large_constants_take_no_memory():
    (found,) = numpy_kernels.evaluate(gs.Node("ConstantOfShape"), 18, [ints(1 << 20, 1 << 20)])
    assert found.shape == (1 << 20, 1 << 20)
