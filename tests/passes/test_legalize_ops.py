from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.passes.cleanup import Cleanup
from onnx_gs.passes.legalize_ops import LegalizeOps
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites, model, run

PASS = LegalizeOps()


def skip_unless_it_runs(text, feeds, opset=18):
    """Older versions of ONNX Runtime lack kernels, or the opset, of the original."""
    try:
        run(model(text, opset), feeds)
    except Exception as error:  # noqa: BLE001 - whatever it says
        pytest.skip(f"ONNX Runtime does not run the original: {str(error)[:80]}")


def ops(text, opset=18):
    graph = gs.import_onnx(model(text, opset))
    PASS(graph)
    Cleanup()(graph)
    return [n.op for n in graph.nodes]


# -- single operators ------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_an_arg_over_a_vector_gets_a_second_axis(op, keep):
    assert_rewrites(
        PASS,
        before=f"g (float[3] x) => (int64{'[1]' * keep} y) {{ y = {op} <axis = -1, keepdims = {keep}, select_last_index = 1> (x) }}",
        after=f"""g (float[3] x) => (int64{'[1]' * keep} y) <int64[1] a = {{0}}, int64[1] b = {{0}}> {{
            u = Unsqueeze (x, a)  v = {op} <axis = 1, keepdims = {keep}, select_last_index = 1> (u)  y = Squeeze (v, b) }}""",
        x=np.float32([2, 1, 2]),
    )


def test_an_arg_over_a_matrix_stays():
    assert_declines(PASS, "g (float[3,2] x) => (int64[1,2] y) { y = ArgMax <axis = 0> (x) }", "")


def test_relu_of_integers_is_max():
    assert_rewrites(PASS, "g (int32[3] x) => (int32[3] y) { y = Relu (x) }", "g (int32[3] x) => (int32[3] y) <int32 z = {0}> { y = Max (x, z) }", x=np.int32([-1, 0, 5]))
    assert_declines(PASS, "g (float[3] x) => (float[3] y) { y = Relu (x) }", "")


def test_reductions_of_bool_go_through_int32():
    text = "g (bool[2,3] x) => (bool[2,1] y) <int64[1] a = {1}> { y = ReduceMax (x, a) }"
    assert_equal_outputs(PASS, text, {"x": np.array([[0, 1, 0], [0, 0, 0]], np.bool_)}, opset=20)


def test_unused_extra_outputs_go_and_used_ones_stay():
    text = "g (float[2,4] x) => (float[2,4] y{}) <float[4] s = {{1.0, 1.0, 1.0, 1.0}}> {{ y, m, i = LayerNormalization <axis = -1> (x, s) }}"
    assert_rewrites(PASS, text.format(""), "g (float[2,4] x) => (float[2,4] y) <float[4] s = {1.0, 1.0, 1.0, 1.0}> { y = LayerNormalization <axis = -1> (x, s) }")
    assert_declines(PASS, text.format(", float[2,1] i"), "")


# -- bits ------------------------------------------------------------------------------------------

TYPES = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int32": np.int32, "uint32": np.uint32, "int64": np.int64}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise_operators_of_two(op, kind):
    rng = np.random.default_rng(3)
    info = np.iinfo(TYPES[kind])
    edges = np.array([info.min, info.max, 0, 1, info.min + 1, info.max // 3], TYPES[kind])
    a = np.concatenate([np.repeat(edges, 6), rng.integers(info.min, info.max, 14, TYPES[kind], endpoint=True)]).reshape(5, 10)
    b = np.concatenate([np.tile(edges, 6), rng.integers(info.min, info.max, 14, TYPES[kind], endpoint=True)]).reshape(5, 10)
    text = f"g ({kind}[5,10] a, {kind}[5,10] b) => ({kind}[5,10] y) {{ y = {op} (a, b) }}"
    assert op not in ops(text)
    assert_equal_outputs(PASS, text, {"a": a, "b": b})
    assert_equal_outputs(PASS, f"g ({kind}[5,1] a, {kind}[10] b) => ({kind}[5,10] y) {{ y = {op} (a, b) }}", {"a": a[:, :1], "b": b[0]})


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64"])
def test_bitwise_not(kind):
    info = np.iinfo(TYPES[kind])
    text, x = f"g ({kind}[4] x) => ({kind}[4] y) {{ y = BitwiseNot (x) }}", np.array([info.min, info.max, 0, 5], TYPES[kind])
    graph = gs.import_onnx(model(text))
    PASS(graph)
    skip_unless_it_runs(text.replace("BitwiseNot (x)", "Sub (x, x)"), {"x": x})  # what the rewriting uses
    assert run(gs.export_onnx(graph), {"x": x})[0].tolist() == (~x).tolist()


def test_bitwise_not_is_a_subtraction():
    assert_rewrites(PASS, "g (int32[2] x) => (int32[2] y) { y = BitwiseNot (x) }", "g (int32[2] x) => (int32[2] y) <int32 o = {-1}> { y = Sub (o, x) }")


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("kind", ["uint8", "uint32"])
def test_shifts_by_a_constant(kind, direction):
    text = f'g ({kind}[4] x) => ({kind}[4] y) <{kind}[4] k = {{0, 1, 3, 7}}> {{ y = BitShift <direction = "{direction}"> (x, k) }}'
    assert_equal_outputs(PASS, text, {"x": np.array([255, 200, 77, 3], TYPES[kind])})


def test_a_computed_shift_is_declined():
    text = 'g (uint8[4] x, uint8[4] k) => (uint8[4] y) { y = BitShift <direction = "LEFT"> (x, k) }'
    assert_declines(PASS, text, "the shift is computed at run time")


# -- integer products ------------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [("2,3", "3,4"), ("5,2,3", "3,4"), ("3", "3,4"), ("2,3", "3"), ("3", "3"), ("5,2,3", "5,3,4")])
def test_matmul_of_integers(shapes):
    a, b = ([int(d) for d in s.split(",")] for s in shapes)
    out = np.matmul(np.zeros(a), np.zeros(b)).shape
    text = f"g (int64[{shapes[0]}] a, int64[{shapes[1]}] b) => (int64[{','.join(map(str, out))}] y) {{ y = MatMul (a, b) }}".replace("int64[] y", "int64 y")
    assert "MatMul" not in ops(text)
    rng = np.random.default_rng(1)
    assert_equal_outputs(PASS, text, {"a": rng.integers(-(2**30), 2**30, a), "b": rng.integers(-(2**20), 2**20, b)})


def test_matmul_of_integers_of_unknown_size_is_declined():
    assert_declines(PASS, "g (int64[N,3] a, int64[3,4] b) => (int64[N,4] y) { y = MatMul (a, b) }", "its sizes are not known")


def test_matmul_integer():
    text = "g (uint8[4,3] a, uint8[3,2] b) => (int32[4,2] y) <uint8 p = {12}, uint8 q = {0}> { y = MatMulInteger (a, b, p, q) }"
    rng = np.random.default_rng(1)
    assert_equal_outputs(PASS, text, {"a": rng.integers(0, 256, (4, 3), np.uint8), "b": rng.integers(0, 256, (3, 2), np.uint8)})
    assert ops(text).count("MatMul") == 1


@pytest.mark.parametrize("constant", [False, True])
def test_long_sums_of_matmul_integer_are_cut(constant):
    rng = np.random.default_rng(1)
    a, b = rng.integers(200, 256, (2, 1000), np.uint8), rng.integers(200, 256, (1000, 3), np.uint8)
    x, w, y = gs.Variable("a", np.uint8, (2, 1000)), gs.Constant("w", b) if constant else gs.Variable("b", np.uint8, (1000, 3)), gs.Variable("y", np.int32, (2, 3))
    graph = gs.Graph([gs.Node("MatMulInteger", inputs=[x, w], outputs=[y])], [x] if constant else [x, w], [y], opset=18, ir_version=9)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    assert expected.max() > 2**24
    PASS(graph)
    assert [n.op for n in graph.nodes].count("MatMul") == 4
    assert run(gs.export_onnx(graph), {"a": a} if constant else {"a": a, "b": b})[0].tolist() == expected.tolist()


def test_small_weights_make_long_sums_exact():
    x, w, y = gs.Variable("a", np.uint8, (2, 1000)), gs.Constant("w", np.full((1000, 3), 20, np.uint8)), gs.Variable("y", np.int32, (2, 3))
    graph = gs.Graph([gs.Node("MatMulInteger", inputs=[x, w], outputs=[y])], [x], [y], opset=18)
    PASS(graph)
    assert [n.op for n in graph.nodes].count("MatMul") == 1


def test_sums_of_open_length_are_declined():
    assert_declines(PASS, "g (uint8[1,K] a, uint8[K,1] b) => (int32[1,1] y) { y = MatMulInteger (a, b) }", "the length of the sums is not known")


def test_long_sums_of_conv_integer_are_cut():
    text = "g (uint8[1,64,4,4] x, uint8[2,64,3,3] w) => (int32[1,2,2,2] y) { y = ConvInteger (x, w) }"
    rng = np.random.default_rng(1)
    assert ops(text).count("Conv") == 3
    assert_equal_outputs(PASS, text, {"x": rng.integers(200, 256, (1, 64, 4, 4), np.uint8), "w": rng.integers(200, 256, (2, 64, 3, 3), np.uint8)})


def test_conv_integer():
    text = "g (uint8[1,1,4,4] x, uint8[2,1,3,3] w) => (int32[1,2,2,2] y) <uint8 p = {7}> { y = ConvInteger (x, w, p) }"
    rng = np.random.default_rng(1)
    assert_equal_outputs(PASS, text, {"x": rng.integers(0, 256, (1, 1, 4, 4), np.uint8), "w": rng.integers(0, 256, (2, 1, 3, 3), np.uint8)})


# -- scatters --------------------------------------------------------------------------------------


def test_scatter_nd_with_distinct_indices():
    assert_rewrites(
        PASS,
        before="""g (float[4] x, float[2] u) => (float[4] y) <int64[2,1] i = {1, 3}> { y = ScatterND <reduction = "add"> (x, i, u) }""",
        after="""g (float[4] x, float[2] u) => (float[4] y) <int64[2,1] i = {1, 3}> { a = GatherND (x, i)  b = Add (a, u)  y = ScatterND (x, i, b) }""",
    )


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize(
    ("x", "u", "indices"),
    [("4", "3", "int64[3,1] i = {1, 3, 1}"), ("4", "3", "int64[3,1] i = {1, -3, 1}"), ("4,2", "3,2", "int64[3,1] i = {1, 1, 1}"), ("4,2", "3", "int64[3,2] i = {1, 0, 1, 0, 3, 1}"),
     ("4", "2,2", "int64[2,2,1] i = {0, 1, 1, 0}"), ("4", "0", "int64[0,1] i = {}")],
)  # fmt: skip
def test_scatter_nd_with_repeated_indices(reduction, x, u, indices):
    assert_equal_outputs(PASS, f'g (float[{x}] x, float[{u}] u) => (float[{x}] y) <{indices}> {{ y = ScatterND <reduction = "{reduction}"> (x, i, u) }}', opset=18)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", ["{0, 1, 2, 0, 1, 2}", "{0, 1, 2, 1, 2, 0}", "{1, 1, 1, 1, 1, 1}", "{-1, 2, 0, 1, 1, -2}"])
def test_scatter_elements(reduction, axis, indices):
    text = f'g (float[3,3] x, float[2,3] u) => (float[3,3] y) <int64[2,3] i = {indices}> {{ y = ScatterElements <axis = {axis}, reduction = "{reduction}"> (x, i, u) }}'
    assert not {"ReduceSum"} & set(ops(text))
    assert_equal_outputs(PASS, text)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_computed_indices_are_found_under_a_mask(reduction):
    text = f'g (float[4,2] x, int64[3,1] i, float[3,2] u) => (float[4,2] y) {{ y = ScatterND <reduction = "{reduction}"> (x, i, u) }}'
    exact = 0.0 if reduction in {"max", "min"} else 1e-6  # updates of one place are joined before the data
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((4, 2)).astype(np.float32), "u": rng.standard_normal((3, 2)).astype(np.float32)}
    assert set(ops(text)) & {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"}
    assert_equal_outputs(PASS, text, *({**feeds, "i": np.int64(i).reshape(3, 1)} for i in ([0, 1, 3], [1, -3, 1])), tolerance=exact)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("reduction", "kind"), [("add", "float"), ("mul", "float"), ("max", "int32"), ("add", "int64")])
def test_computed_indices_of_elements(reduction, kind, axis):
    shape = "3,2" if axis else "2,3"
    text = f'g ({kind}[3,3] x, int64[{shape}] i, {kind}[{shape}] u) => ({kind}[3,3] y) {{ y = ScatterElements <axis = {axis}, reduction = "{reduction}"> (x, i, u) }}'
    rng = np.random.default_rng(0)
    number = {"float": np.float32, "int32": np.int32, "int64": np.int64}[kind]
    dims = [int(d) for d in shape.split(",")]
    feeds = {"x": (rng.standard_normal((3, 3)) * 9).astype(number), "u": (rng.standard_normal(dims) * 9).astype(number), "i": rng.integers(-3, 3, dims)}
    assert "ScatterElements" not in ops(text)
    assert_equal_outputs(PASS, text, feeds, tolerance=1e-6)


def test_computed_indices_without_sizes_are_declined():
    text = 'g (float[N] x, int64[2,1] i, float[2] u) => (float[N] y) { y = ScatterND <reduction = "add"> (x, i, u) }'
    assert_declines(PASS, text, "the indices are computed at run time")


# -- linear maps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["axis = 1", "axis = 2, onesided = 1", "axis = 1, inverse = 1"])
@pytest.mark.parametrize("parts", [1, 2])
def test_transforms_of_known_length(options, parts):
    if "onesided" in options and parts == 2:
        pytest.skip("a complex signal has no onesided transform")
    sizes = {"axis = 1": "2,6,5,2", "axis = 2, onesided = 1": "2,6,3,2", "axis = 1, inverse = 1": "2,6,5,2"}[options]
    text = f"g (float[2,6,5,{parts}] x) => (float[{sizes}] y) {{ y = DFT <{options}> (x) }}"
    assert "DFT" not in ops(text)
    assert_equal_outputs(PASS, text, tolerance=1e-4)  # sums in another order than a fast transform has


@pytest.mark.parametrize("length", [4, 9])
def test_a_transform_that_cuts_or_pads(length):
    text = f"g (float[1,6,1] x) => (float[1,{length},2] y) <int64 n = {{{length}}}> {{ y = DFT <axis = 1> (x, n) }}"
    assert_equal_outputs(PASS, text, tolerance=1e-4)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("size", ["scales", "sizes"])
def test_resizing_with_antialias(mode, size):
    given = "float[4] s = {1.0, 1.0, 0.5, 0.6}" if size == "scales" else "int64[4] s = {1, 2, 3, 4}"
    text = f"""g (float[1,2,6,7] x) => (float[1,2,3,4] y) <{given}> {{ y = Resize <mode = "{mode}", antialias = 1> ({'x, , s' if size == 'scales' else 'x, , , s'}) }}"""
    assert "Resize" not in ops(text)
    assert_equal_outputs(PASS, text, tolerance=1e-5)  # one axis after the other, as sums of products


def test_resizing_that_is_taken_stays():
    text = 'g (float[1,1,4,4] x) => (float[1,1,2,2] y) <int64[4] s = {1, 1, 2, 2}> { y = Resize <mode = "linear"> (x, , , s) }'
    assert_declines(PASS, text, "")


@pytest.mark.parametrize("shape", ["1,1", "2,2", "3,3", "4,3,3", "5,2,2,2"])
def test_small_determinants(shape):
    out = ",".join(shape.split(",")[:-2])
    text = f"g (float[{shape}] x) => (float{f'[{out}]' if out else ''} y) {{ y = Det (x) }}"
    assert "Det" not in ops(text)
    assert_equal_outputs(PASS, text, tolerance=1e-5)  # a sum of products, not an elimination


def test_larger_determinants_are_declined():
    assert_declines(PASS, "g (float[4,4] x) => (float y) { y = Det (x) }", "more than three rows")


def test_float8_and_back_is_quantization_with_scale_1():
    text = "g (float[6] x) => (float[6] y, float16[6] z) { h = Cast <to = 17> (x)  y = Cast <to = 1> (h)  z = Cast <to = 10> (h) }"
    assert "QuantizeLinear" in ops(text, 19)
    assert_equal_outputs(PASS, text, {"x": np.float32([1.06, -500, 3.3, 1e-4, 0.0, 448])}, opset=19)


# -- selections ------------------------------------------------------------------------------------


def test_nonzero_of_ones_is_a_range():
    text = """g (float[N,3] x) => (float[N,3] y) <int64[1] m = {-1}> {
        s = Shape <start = 0, end = 1> (x)  o = ConstantOfShape <value = int64[1] {1}> (s)  n = NonZero (o)  i = Reshape (n, m)  y = Gather <axis = 0> (x, i) }"""
    assert "NonZero" not in ops(text)
    assert_equal_outputs(PASS, text, *({"x": np.arange(3 * n, dtype=np.float32).reshape(n, 3)} for n in (0, 1, 4)))


def test_nonzero_of_zeros_or_of_two_axes_is_declined():
    zeros = "g (int64[1] s) => (int64[1,K] n) { o = ConstantOfShape <value = int64[1] {0}> (s)  n = NonZero (o) }"
    assert_declines(PASS, zeros, "depends on data")
    assert_declines(PASS, zeros.replace("{0}", "{1}").replace("int64[1] s", "int64[2] s").replace("int64[1,K]", "int64[2,K]"), "more than one axis")


@pytest.mark.parametrize("kind", ["float", "bool", "int32"])
def test_how_many_are_nonzero(kind):
    text = f"g ({kind}[2,3] x) => (int64 n, int64[2] s, int64 z) <int64 one = {{1}}> {{ i = NonZero (x)  s = Shape (i)  h = Shape (i)  n = Gather <axis = 0> (h, one)  z = Size (i) }}"
    assert "NonZero" not in ops(text)
    assert_equal_outputs(PASS, text, {"x": np.array([[0, 1, 2], [0, 0, -1]]).astype({"float": np.float32, "bool": np.bool_, "int32": np.int32}[kind])})


def test_not_a_number_is_not_zero():
    text = "g (float[3] x) => (int64[2] s) { i = NonZero (x)  s = Shape (i) }"
    assert_equal_outputs(PASS, text, {"x": np.float32([np.nan, -0.0, 0.0])})


@pytest.mark.parametrize("axis", ["axis = 0", "axis = 1", "axis = -1", ""])
def test_compress_by_a_known_condition(axis):
    text = f"g (float[3,3] x) => (float{'[A,B]' if axis else '[A]'} y) <bool[{'3' if axis else '5'}] c = {'{1, 0, 1}' if axis else '{1, 0, 1, 0, 1}'}> {{ y = Compress <{axis}> (x, c) }}".replace(" <> ", " ")
    assert "Compress" not in ops(text)
    assert_equal_outputs(PASS, text)


def test_compress_by_a_computed_condition_is_declined():
    assert_declines(PASS, "g (float[3] x, bool[3] c) => (float[K] y) { y = Compress <axis = 0> (x, c) }", "the condition is computed at run time")


@pytest.mark.parametrize("keep", [0, 1])
def test_the_sum_of_a_selection(keep):
    text = f"""g (float[2,3] x, bool[2,3] m) => (float{'[1]' * keep} y) {{
        n = NonZero (m)  t = Transpose (n)  s = GatherND (x, t)  y = ReduceSum <keepdims = {keep}> (s) }}"""
    assert "NonZero" not in ops(text)
    x, m = np.float32([[1, 2, 3], [4, 5, 6]]), np.array([[1, 0, 1], [0, 0, 1]], np.bool_)
    assert_equal_outputs(PASS, text, {"x": x, "m": m}, {"x": x, "m": m & False}, tolerance=1e-6)  # additions of zeros may be grouped otherwise


# -- training --------------------------------------------------------------------------------------


def test_batch_statistics_are_spelled_out():
    text = """g (float[2,3,4] x) => (float[2,3,4] y, float[3] rm, float[3] rv) <float[3] s = {1.0, 2.0, 3.0}, float[3] b = {0.5, 0.0, -1.0},
        float[3] m = {0.1, 0.2, 0.3}, float[3] v = {1.0, 1.5, 2.0}> { y, rm, rv = BatchNormalization <training_mode = 1, momentum = 0.8> (x, s, b, m, v) }"""
    assert "BatchNormalization" not in ops(text, 15)
    assert_equal_outputs(PASS, text, opset=15, tolerance=1e-5)  # sums in another order
    assert_declines(PASS, text.replace("training_mode = 1, ", "").replace(", float[3] rm, float[3] rv", "").replace(", rm, rv", ""), "", opset=15)


def test_dropout_that_drops_nothing():
    text = "g (float[3] x) => (float[3] y, bool[3] k) <float r = {0.0}, bool t = {1}> { d, k = Dropout (x, r, t)  y = Neg (d) }"
    assert "Dropout" not in ops(text)
    assert_equal_outputs(PASS, text)


def test_dropout_that_drops_is_declined():
    assert_declines(PASS, "g (float[3] x) => (float[3] y) <float r = {0.5}, bool t = {1}> { y = Dropout (x, r, t) }", "at random")


def test_a_vector_by_several_matrices():
    assert_equal_outputs(PASS, "g (float[3] a, float[2,3,4] b) => (float[2,4] y) { y = MatMul (a, b) }")
    assert_declines(PASS, "g (float[3] a, float[3,4] b) => (float[4] y) { y = MatMul (a, b) }", "")


def test_mod_of_floats_takes_the_sign_of_the_divisor():
    text = "g (float[6] a, float[6] b) => (float[6] y) { y = Mod (a, b) }"
    graph = gs.import_onnx(model(text))
    PASS(graph)
    feeds = {"a": np.float32([5.5, -5.5, 5.5, -5.5, 4, 0]), "b": np.float32([2, 2, -2, -2, 2, 3])}
    assert np.array_equal(run(gs.export_onnx(graph), feeds)[0], np.mod(feeds["a"], feeds["b"]))  # ONNX Runtime has no kernel for the original


def test_celu_of_float16_goes_through_float32():
    assert "Cast" in ops("g (float16[3] x) => (float16[3] y) { y = Celu (x) }")


@pytest.mark.parametrize("shape", ["4", "2,3", "2,3,4"])
@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_sums_along_a_computed_axis(shape, kind):
    text = f"g (float[{shape}] x, {kind} a) => (float[{shape}] y) {{ y = CumSum <reverse = 1> (x, a) }}"
    rank = len(shape.split(","))
    dims = [int(d) for d in shape.split(",")]
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    assert_equal_outputs(PASS, text, *({"x": x, "a": np.array(a, kind)} for a in range(-rank, rank)))
    assert ops(text).count("CumSum") == rank


# -- pooling ---------------------------------------------------------------------------------------

POOLS = [
    "kernel_shape = [2, 2], dilations = [2, 2]",
    "kernel_shape = [2, 3], dilations = [2, 1], strides = [2, 1], pads = [1, 1, 1, 1]",
    "kernel_shape = [3, 2], dilations = [1, 2], strides = [2, 2], ceil_mode = 1",
]


@pytest.mark.parametrize("geometry", POOLS)
@pytest.mark.parametrize(("op", "more"), [("MaxPool", ""), ("AveragePool", ", count_include_pad = 0"), ("AveragePool", ", count_include_pad = 1"), ("LpPool", ", p = 3")])
def test_pooling_with_dilations(op, more, geometry):
    text = f"g (float[1,2,7,8] x) => (float[1,2,H,W] y) {{ y = {op} <{geometry}{more}> (x) }}"
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 2, 7, 8)).astype(np.float32)}
    skip_unless_it_runs(text, feeds, 19)
    assert op not in ops(text, 19)
    assert_equal_outputs(PASS, text, feeds, opset=19, tolerance=0.0 if op == "MaxPool" else 1e-5)  # sums one after the other


@pytest.mark.parametrize("geometry", ["kernel_shape = [2, 2]", 'kernel_shape = [3, 2], strides = [2, 1], auto_pad = "SAME_UPPER"', 'kernel_shape = [2, 2], auto_pad = "SAME_LOWER"'])
def test_pooling_by_another_norm(geometry):
    text = f"g (float[1,2,7,8] x) => (float[1,2,H,W] y) {{ y = LpPool <{geometry}, p = 4> (x) }}"
    assert "LpPool" not in ops(text)
    assert_equal_outputs(PASS, text, {"x": np.random.default_rng(0).standard_normal((1, 2, 7, 8)).astype(np.float32)}, tolerance=1e-5)


def test_pooling_without_dilations_stays():
    assert_declines(PASS, "g (float[1,2,7,8] x) => (float[1,2,6,7] y) { y = MaxPool <kernel_shape = [2, 2]> (x) }", "")
