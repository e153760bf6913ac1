from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.ir import dtypes, walk
from onnx_gs.passes.legalize_dtypes import LegalizeDtypes
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites, model, run

PASS = LegalizeDtypes()


def skip_unless_it_runs(text, feeds, opset=18):
    """Older versions of ONNX Runtime lack kernels, or the opset, of the original."""
    try:
        run(model(text, opset), feeds)
    except Exception as error:  # noqa: BLE001 - whatever it says
        pytest.skip(f"ONNX Runtime does not run the original: {str(error)[:80]}")


def ops(text, opset=18):
    graph = gs.import_onnx(model(text, opset))
    PASS(graph)
    return [n.op for n in graph.nodes]


def test_sums_of_uint8_wrap_around_in_int32():
    skip_unless_it_runs("g (uint8[4] x) => (uint8[4] y) <uint8 k = {3}> { y = Add (x, k) }", {"x": np.zeros(4, np.uint8)})
    assert_rewrites(
        PASS,
        before="g (uint8[4] x) => (uint8[4] y) <uint8 k = {3}> { y = Add (x, k) }",
        after="""g (uint8[4] x) => (uint8[4] y) <int32 k = {3}, int32 m = {256}> { a = Cast <to = 6> (x)  b = Add (a, k)  c = Mod (b, m)  y = Cast <to = 2> (c) }""",
        x=np.uint8([0, 1, 253, 255]),
    )


def test_uint8_that_only_enters_and_leaves_stays():
    assert_declines(PASS, "g (uint8[4] x) => (uint8[4] y, float[4] f) { f = Cast <to = 1> (x)  h = Neg (f)  y = Cast <to = 2> (h) }", "")


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod"])
@pytest.mark.parametrize(("kind", "number"), [("uint8", 2), ("int8", 3), ("int16", 5), ("uint16", 4), ("uint32", 12)])
def test_arithmetic_of_narrow_types(op, kind, number):
    # in and out through int64, as the interface may not have these types
    text = f"""g (int64[6] a, int64[6] b) => (int64[6] y) <{kind}[6] one = {{1, 1, 1, 1, 1, 1}}> {{
        p = Cast <to = {number}> (a)  q = Cast <to = {number}> (b)  r = {op} (p, q)  s = Max (r, one)  y = Cast <to = 7> (s) }}"""
    info = np.iinfo(kind)
    a = np.array([info.max, info.min, 5, 7, info.max - 1, 100])
    b = np.array([2, 3, 7, info.max, info.max, 9])
    skip_unless_it_runs(text, {"a": a, "b": b})
    wide, small = np.full(6, 2**32 - 1), np.full(6, 2)
    if kind == "uint32" and run(model("g (int64[6] a, int64[6] b) => (int64[6] y) { y = Max (a, b) }"), {"a": wide, "b": small})[0][0] == 2:
        pytest.skip("this version of ONNX Runtime compares 32 bits of an int64")
    report = assert_equal_outputs(PASS, text, {"a": a, "b": b})
    assert report.rewritten
    graph = gs.import_onnx(model(text))
    PASS(graph)
    narrow = dtypes.find(kind)
    assert not any(dtypes.of(t) is narrow for _, n in walk.nodes(graph) for t in (*n.inputs, *n.outputs))


def test_a_cast_wraps_around():
    text = "g (int32[4] x) => (float[4] y) { h = Cast <to = 2> (x)  k = Max (h, h)  y = Cast <to = 1> (k) }"
    skip_unless_it_runs(text, {"x": np.zeros(4, np.int32)})
    assert_equal_outputs(PASS, text, {"x": np.int32([-1, 0, 256, 300])})


def test_an_int8_constant_as_a_number_is_widened():
    assert_rewrites(
        PASS,
        before="g (int64[2] i) => (float[2] y) <int8[4] w = {1, 2, -3, 4}> { h = Gather <axis = 0> (w, i)  y = Cast <to = 1> (h) }",
        after="g (int64[2] i) => (float[2] y) <int32[4] w = {1, 2, -3, 4}> { h = Gather <axis = 0> (w, i)  y = Cast <to = 1> (h) }",
        i=np.int64([2, 3]),
    )


def test_int8_between_inputs_stays():
    assert_declines(PASS, "g (int8[4] x, int8[4] w) => (int8[4] y) { y = Add (x, w) }", "")


def test_a_narrow_interface_is_declined():
    assert_declines(PASS, "g (int16[4] x) => (int16[4] y) { y = Abs (x) }", "input 'x' has the type, and the interface is kept")


def test_an_operator_without_a_rewriting_is_named():
    assert_declines(PASS, "g (uint8[2,2] a, uint8[2,2] b) => (int32[2,2] y) { y = MatMulInteger (a, b) }", "MatMulInteger has no rewriting to a wider type")


def test_uint8_through_branches_and_loops():
    text = """g (uint8[2] x, bool c, int64 m) => (uint8[2] y, uint8[P,2] z) <bool t = {1}, uint8 k = {100}> {
        h = If (c) <then_branch = p () => (uint8[2] a) { a = Add (x, k) }, else_branch = q () => (uint8[2] b) { b = Identity (x) }>
        y, z = Loop (m, t, h) <body = w (int64 i, bool ci, uint8[2] s) => (bool co, uint8[2] so, uint8[2] r) { co = Identity (ci)  so = Add (s, k)  r = Sub (k, s) }> }"""
    skip_unless_it_runs(text, {"x": np.uint8([7, 250]), "c": np.bool_(True), "m": np.int64(1)})
    for c in (True, False):
        for m in (1, 3):
            assert_equal_outputs(PASS, text, {"x": np.uint8([7, 250]), "c": np.bool_(c), "m": np.int64(m)})


# -- quantization ----------------------------------------------------------------------------------

X = np.float32([-30, -1.05, -0.05, 0.05, 0.15, 0.25, 12.7, 12.8, 40])


def test_uint8_around_128_is_int8_around_0():
    assert_rewrites(
        PASS,
        before="g (float[9] x) => (float[9] y) <float s = {0.1}, uint8 z = {128}> { q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) }",
        after="g (float[9] x) => (float[9] y) <float s = {0.1}, int8 z = {0}> { q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) }",
        x=X,
    )


def test_a_weight_around_128_is_shifted():
    text = """g (float[2,2] x) => (float[2,2] y) <uint8[2,2] w = {0, 128, 255, 130}, float s = {0.5}, uint8 z = {128}> {
        d = DequantizeLinear (w, s, z)  q = QuantizeLinear (x, s, z)  e = DequantizeLinear (q, s, z)  y = MatMul (e, d) }"""
    assert_equal_outputs(PASS, text, {"x": np.float32([[1, -2], [0.25, 80]])})
    assert ops(text) == ["DequantizeLinear", "QuantizeLinear", "DequantizeLinear", "MatMul"]


@pytest.mark.parametrize(("kind", "point"), [("uint8", 7), ("uint8", 0), ("uint8", 255), ("int8", 5), ("int8", -128)])
def test_other_zero_points_are_spelled_out(kind, point):
    text = f"g (float[9] x) => (float[9] y) <float s = {{0.1}}, {kind} z = {{{point}}}> {{ q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) }}"
    assert_equal_outputs(PASS, text, {"x": X})
    assert "QuantizeLinear" not in ops(text)


def test_int8_around_0_stays():
    text = "g (float[9] x) => (float[9] y) <float s = {0.1}, int8 z = {0}> { q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) }"
    assert_declines(PASS, text, "")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_by_axis(axis):
    text = f"""g (float[3,3] x) => (float[3,3] y) <float[3] s = {{0.1, 0.2, 0.4}}, uint8[3] z = {{1, 2, 3}}> {{
        q = QuantizeLinear <axis = {axis}> (x, s, z)  y = DequantizeLinear <axis = {axis}> (q, s, z) }}"""
    assert_equal_outputs(PASS, text, {"x": X.reshape(3, 3)})
    assert "QuantizeLinear" not in ops(text)


def test_a_quantized_output_is_cast_at_the_border():
    assert_equal_outputs(PASS, "g (float[9] x) => (uint8[9] q) <float s = {0.1}, uint8 z = {3}> { q = QuantizeLinear (x, s, z) }", {"x": X})


def test_moves_between_quantization():
    text = """g (float[1,1,3,3] x) => (float[9] y) <float s = {0.1}, uint8 z = {128}, int64[1] n = {-1}> {
        q = QuantizeLinear (x, s, z)  p = MaxPool <kernel_shape = [1, 1]> (q)  r = Reshape (p, n)  y = DequantizeLinear (r, s, z) }"""
    assert_equal_outputs(PASS, text, {"x": X.reshape(1, 1, 3, 3)})
    assert ops(text) == ["QuantizeLinear", "MaxPool", "Reshape", "DequantizeLinear"]
    assert_equal_outputs(PASS, text.replace("128", "9"), {"x": X.reshape(1, 1, 3, 3)})


def test_an_int32_bias_is_folded():
    assert_rewrites(
        PASS,
        before="g (float[4] x) => (float[4] y) <int32[4] b = {10, 20, 30, -40}, float s = {0.5}> { d = DequantizeLinear (b, s)  y = Add (x, d) }",
        after="g (float[4] x) => (float[4] y) <float[4] d = {5.0, 10.0, 15.0, -20.0}> { y = Add (x, d) }",
    )


def test_a_fused_product_is_taken_apart():
    text = """g (uint8[2,3] a, uint8[3,2] b) => (uint8[2,2] y) <float sa = {0.02}, uint8 za = {113}, float sb = {0.03}, uint8 zb = {114}, float sy = {0.05}, uint8 zy = {118}> {
        y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy) }"""
    rng = np.random.default_rng(2)
    assert "QLinearMatMul" not in ops(text)
    assert_equal_outputs(PASS, text, {"a": rng.integers(0, 256, (2, 3), np.uint8), "b": rng.integers(0, 256, (3, 2), np.uint8)})


def test_a_fused_convolution_is_taken_apart():
    text = """g (uint8[1,1,4,4] x) => (uint8[1,2,2,2] y) <float sx = {0.02}, uint8 zx = {113}, uint8[2,1,3,3] w = {1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19}, float sw = {0.03},
        uint8 zw = {10}, float sy = {0.5}, uint8 zy = {118}, int32[2] b = {100, -200}> { y = QLinearConv (x, sx, zx, w, sw, zw, sy, zy, b) }"""
    rng = np.random.default_rng(2)
    assert "QLinearConv" not in ops(text)
    assert_equal_outputs(PASS, text, {"x": rng.integers(0, 256, (1, 1, 4, 4), np.uint8)})


# -- what ONNX Runtime's quantizer makes -----------------------------------------------------------


def quantized(name, shape, scale, zero, kind=np.uint8):
    rng = np.random.default_rng(len(name))
    info = np.iinfo(kind)
    return [gs.Constant(name, rng.integers(info.min, info.max, shape, kind, endpoint=True)), gs.Constant(f"{name}_s", np.array(scale, np.float32)), gs.Constant(f"{name}_z", np.array(zero, kind))]


def result(scale, zero, kind=np.uint8):
    return [gs.Constant("y_s", np.array(scale, np.float32)), gs.Constant("y_z", np.array(zero, kind))]


FUSED = {
    "QLinearAdd": ((2, 3), lambda x: [*x, *quantized("b", (2, 3), 0.03, 120), *result(0.05, 118)], {}, (2, 3)),
    "QLinearMul": ((2, 3), lambda x: [*x, *quantized("b", (3,), 0.03, 120), *result(0.05, 118)], {}, (2, 3)),
    "QLinearSigmoid": ((2, 3), lambda x: [*x, *result(1 / 256, 0)], {}, (2, 3)),
    "QLinearLeakyRelu": ((2, 3), lambda x: [*x, *result(0.02, 60)], {"alpha": 0.25}, (2, 3)),
    "QLinearGlobalAveragePool": ((1, 2, 3, 3), lambda x: [*x, *result(0.02, 60)], {}, (1, 2, 1, 1)),
    "QLinearConcat": ((2, 3), lambda x: [*result(0.04, 100), *x, *quantized("b", (1, 3), 0.03, 120)], {"axis": 0}, (3, 3)),
    "QGemm": ((2, 3), lambda x: [*x, *quantized("b", (4, 3), 0.03, 120), gs.Constant("c", np.array([100, -300, 0, 7], np.int32)), *result(0.05, 118)], {"transB": 1}, (2, 4)),
}


@pytest.mark.parametrize("op", FUSED)
def test_fused_operators_of_the_quantizer(op):
    shape, inputs, attributes, out = FUSED[op]
    x = gs.Variable("x", np.uint8, shape)
    y = gs.Variable("y", np.uint8, out)
    operand = [x, gs.Constant("x_s", np.array(0.02, np.float32)), gs.Constant("x_z", np.array(113, np.uint8))]
    node = gs.Node(op, attrs=attributes, inputs=inputs(operand), outputs=[y], domain="com.microsoft")
    graph = gs.Graph([node], [x], [y], opset=17, ir_version=8)
    source = gs.export_onnx(graph)
    feeds = {"x": np.random.default_rng(5).integers(0, 256, shape, np.uint8)}
    try:
        expected = run(source, feeds)
    except Exception as error:  # noqa: BLE001 - whatever it says
        pytest.skip(f"ONNX Runtime does not run the original: {str(error)[:80]}")
    assert PASS(graph).rewritten
    assert not any(n.domain == "com.microsoft" or n.op.startswith("Quantize") for n in graph.nodes)
    found = run(gs.export_onnx(graph), feeds)
    assert np.abs(expected[0].astype(int) - found[0].astype(int)).max() <= 1  # a step, where rounding meets a tie


@pytest.mark.parametrize(("kind", "number"), [("uint8", 2), ("int16", 5)])
def test_values_wrap_without_mod_where_the_opset_has_none(kind, number):
    text = f"g (int64[6] x) => (int64[6] y) {{ a = Cast <to = {number}> (x)  b = Concat <axis = 0> (a)  y = Cast <to = 7> (b) }}"
    feeds = {"x": np.int64([0, 127, 128, 255, 256, 70000])}
    assert assert_equal_outputs(PASS, text, feeds, {"x": np.int64([-1, -128, -129, -256, -257, -70000])}, opset=9).rewritten
    assert "Mod" not in ops(text, 9)
    assert "Mod" in ops(text, 18)


def test_old_opsets_round_by_comparisons():
    text = "g (float[9] x) => (float[9] y) <float s = {0.1}, uint8 z = {7}> { q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) }"
    assert "Round" not in ops(text, 10)
    assert "QuantizeLinear" not in ops(text, 10)
    assert_equal_outputs(PASS, text, {"x": X}, opset=10)
    halves = text.replace("{0.1}", "{0.5}")
    for start in (-3, -0.125, 0.25):
        assert_equal_outputs(PASS, halves, {"x": np.arange(9, dtype=np.float32) / 4 + np.float32(start)}, opset=10)
