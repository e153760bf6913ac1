"""Corners of simplification, ONNX Runtime on both sides: what it must keep, decline or not trip over."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from onnx_gs.passes.simplify import Simplify
from tests.support.rewrites import assert_equal_outputs

REFERENCES = [
    (18, "k = 1", "y = Concat <axis: int = @k> (x, x)"),
    (10, "k = [0, 0, 0, 0, 0, 0]", "y = Pad <pads: ints = @k> (x)"),
    (9, "k = [0]", "t = Slice <starts: ints = @k, ends: ints = [2]> (x) y = Slice <starts: ints = @k, ends: ints = [2]> (t)"),
    (18, "k = [0, 2, 1]", "t = Transpose <perm: ints = @k> (x) y = Transpose <perm: ints = @k> (t)"),
    (18, "k = 1", "i = Constant <value_int: int = 1> () t = Gather <axis: int = @k> (x, i) a = Constant <value_ints: ints = [1]> () y = Unsqueeze (t, a)"),
    (13, "k = 0", "t = ReduceMax <axes: ints = [1], keepdims: int = @k> (x) a = Constant <value_ints: ints = [1]> () y = Unsqueeze (t, a)"),
    (18, "k = 7", "a = Cast <to: int = @k> (x) y = Cast <to: int = 1> (a)"),
    (18, "k = 1.0", "w = Constant <value_floats: floats = [3.0, 4.0, 5.0]> () t = BatchNormalization <epsilon: float = @k> (x, w, w, w, w) y = Add (t, t)"),
]  # fmt: skip


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize(("opset", "call", "body"), REFERENCES)
def test_attributes_that_a_call_gives_are_no_facts(opset, call, body, fuse):
    functions = f'<domain: "local", opset_import: ["" : {opset}]> f <k> (x) => (y) {{ {body} }}'
    text = f"g (float[2, 3, 4] x) => (float y) {{ y = local.f <{call}> (x) }}"
    assert_equal_outputs(Simplify(fuse=fuse), text, opset=opset, functions=functions, tolerance=1e-5 if fuse else 0.0)


@pytest.mark.parametrize("declared", ["float w", "float[1, 4] w", "float[7, 7] w", "float[n, 5] w"])
@pytest.mark.parametrize(
    "text",
    [
        "g (float[n, 4] x) => (float[] y, int64[] s) <DECLARED> { w = Relu (x) s = Shape (w) y = Neg (w) }",
        "g (float[3, 4] x) => (float[] y, int64[] s) <DECLARED> { w = Relu (x) s = Size (w) y = Neg (w) }",
        "g (float[n, 4] x) => (DECLARED, int64[] s) { w = Relu (x) s = Shape (w) }",
    ],
)
def test_a_wrong_declaration_is_told_and_not_believed(declared, text):
    report = assert_equal_outputs(Simplify(), text.replace("DECLARED", declared))
    assert all("'w' is declared" in w for w in report.warnings)


NARROW = [
    ("int8", 3, "q = Add (a, one) c = Less (q, zero)"),
    ("uint8", 2, "q = Sub (one, a) c = Greater (q, one)"),
    ("uint8", 2, "q = Mul (a, one) c = Less (q, zero)"),
    ("uint32", 12, "q = Sub (one, a) c = Greater (q, one)"),
]


@pytest.mark.parametrize(("kind", "number", "text"), NARROW)
def test_sizes_wrap_around_in_narrow_types(kind, number, text):
    head = f"g (float[n] x) => ({kind}[] q, bool[] c, int64[] w) <{kind}[1] one = {{1}}, {kind}[1] zero = {{0}}>"
    body = f"{{ s = Shape (x) a = Cast <to = {number}> (s) {text} w = Cast <to = 7> (q) }}"
    assert_equal_outputs(Simplify(), f"{head} {body}", *({"x": np.zeros(n, np.float32)} for n in (0, 1, 3, 130, 300)))


MISTAKEN = [  # ONNX's own inference is wrong about these
    pytest.param(
        23,
        ("g (float[2, a, b] k, float[2, a, b] v) => (float[] y, int64[] s) <float[2, 1, 4] q = {1, 2, 3, 4, 5, 6, 7, 8}>"
        "{ y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v) s = Shape (y) }"),
        {"k": np.ones((2, 3, 4), np.float32), "v": np.ones((2, 3, 4), np.float32)},
        marks=pytest.mark.skipif(onnx.defs.onnx_opset_version() < 23, reason="this version of onnx has no Attention"),
    ),
    (
        17,
        ("g (float[1, n, 1] x) => (float[] y, int64[] s) <int64 step = {4}, float[8] w = {1, 1, 1, 1, 1, 1, 1, 1}>"
        "{ y = STFT (x, step, w) s = Shape (y) }"),
        {"x": np.ones((1, 40, 1), np.float32)},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "text", "feeds"), MISTAKEN)
def test_our_own_shapes_come_before_those_of_onnx(opset, text, feeds):
    assert_equal_outputs(Simplify(), text, feeds, opset=opset)


@pytest.mark.parametrize(
    ("opset", "nodes"),
    [
        (9, "y, a, b, c, d = BatchNormalization (x, s, s, s, s)"),
        (18, "y, a, b = BatchNormalization <training_mode = 1> (x, s, s, s, s)"),
        (18, "t = Conv (x, w) y, a, b = BatchNormalization <training_mode = 1> (t, s, s, s, s)"),
    ],
)
@pytest.mark.parametrize("fuse", [False, True])
def test_batch_normalization_goes_on_training(opset, nodes, fuse):
    head = "g (float[2, 3, 4] x) => (float[] y) <float[3] s = {1, 2, 3}, float[3, 3, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}>"
    assert_equal_outputs(Simplify(fuse=fuse), f"{head} {{ {nodes} }}", opset=opset)


@pytest.mark.parametrize(("a", "b"), [("1e30", "1e30"), ("1e-30", "1e-30"), ("1e38", "10")])
def test_constants_are_not_fused_beyond_the_range_of_their_type(a, b):
    text = f"g (float[3] x) => (float[] y) <float a = {{{a}}}, float b = {{{b}}}> {{ t = Mul (x, a) y = Mul (t, b) }}"
    assert_equal_outputs(Simplify(fuse=True), text, {"x": np.array([1e-38, 1.0, 1e38], np.float32)}, tolerance=1e-3)


def test_weights_are_not_fused_beyond_the_range_of_their_type():
    text = """g (float[2, 1, 4] x) => (float[] y) <float[1, 1, 1] w = {1e30}, float[1] s = {1e20}, float[1] z = {0}, float[1] v = {1}>
              { t = Conv (x, w) y = BatchNormalization (t, s, z, z, v) }"""
    report = assert_equal_outputs(Simplify(fuse=True), text, {"x": np.full((2, 1, 4), 1e-30, np.float32)}, tolerance=1e-2)
    assert not report.rewritten


def test_an_exponent_stays_expanded():
    text = "g (float[n] x) => (float[] y) <float three = {3}> { s = Shape (x) e = Expand (three, s) y = Pow (x, e) }"
    assert_equal_outputs(Simplify(), text, {"x": np.linspace(0.1, 2, 1000, dtype=np.float32)})


def test_a_computed_size_of_zero_keeps_a_dim_beside_an_inferred_one():
    text = """g (float[n, 4] x) => (float[] y) <int64[1] rest = {-1}, int64[1] first = {0}>
              { s = Shape (x) n = Gather (s, first) t = Concat <axis = 0> (rest, n) y = Reshape (x, t) }"""
    assert_equal_outputs(Simplify(), text, *({"x": np.ones((n, 4), np.float32)} for n in (0, 1, 3)))


def test_an_empty_operand_of_concat_says_nothing_about_the_other_dims():
    text = """g (float[n, 3] x) => (float[] y, int64[] s) <float[2, 0] e = {}, int64[1] zero = {0}, int64[1] two = {2}>
              { c = Concat <axis = 1> (x, e) s = Shape (c) y = Slice (c, zero, two) }"""
    assert_equal_outputs(Simplify(), text, *({"x": np.ones((n, 3), np.float32)} for n in (1, 2, 4)))


def test_a_view_between_a_cast_to_16_bits_and_a_computation_stays():
    text = "g (float[n, 4] x) => (float16[] y) { h = Cast <to = 10> (x) f = Flatten (h) y = Mul (f, h) }"
    assert_equal_outputs(Simplify(), text, {"x": np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)})


def test_a_computed_size_of_zero_keeps_a_dim_that_has_elements():
    text = """g (int64 k) => (int64[] y) <int64 zero = {0}, int64 one = {1}, int64[1] c = {7}>
              { r = Range (zero, k, one) s = Shape (r) t = Reshape (c, s) y = Shape (t) }"""
    assert_equal_outputs(Simplify(), text, *({"k": np.array(k, np.int64)} for k in (0, 1)))


@pytest.mark.parametrize("options", [{"only": ("fold-constants",)}, {"skip": ("cleanup",)}])
def test_a_model_is_whole_without_the_cleanup(options):
    text = "g (float[n] x) => (float[] y) <float a = {2}> { c = Constant <value_float = 3.0> () b = Mul (a, c) s = Add (x, b) y = Relu (s) }"
    assert_equal_outputs(Simplify(**options), text)


def test_computations_of_16_bits_stay_in_the_branches():
    text = """g (float[n, 4] x, bool c) => (float16[n, 4] z) {
        h = Cast <to = 10> (x)
        z = If (c) <then_branch = a () => (float16[n, 4] u) { d = Exp (h) u = Exp (d) },
                    else_branch = b () => (float16[n, 4] v) { e = Exp (h) v = Sin (e) }> }"""
    x = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)
    assert_equal_outputs(Simplify(), text, *({"x": x, "c": np.array(c)} for c in (True, False)))


def test_an_index_and_a_list_of_one_index_are_not_the_same_to_both_branches():
    text = """g (int64[n] z, bool c) => (int64[] s) <int64 zero = {0}> {
        t = If (c) <then_branch = a () => (int64 u) <int64 i = {0}> { u = Gather (z, i) },
                    else_branch = b () => (int64[1] v) <int64[1] j = {0}> { v = Gather (z, j) }>
        s = Shape (t) }"""
    assert_equal_outputs(Simplify(), text, *({"z": np.array([4, 5]), "c": np.array(c)} for c in (True, False)))


def test_a_loop_without_trips_says_no_sizes():
    text = """g (float[3] x) => (float[] y, int64[] s) <int64 none = {0}, bool t = {1}> {
        y, r = Loop (none, t, x) <body = b (int64 i, bool c, float[k] a) => (bool d, float[k] e, float[q] o) { d = Identity (c) e = Neg (a) o = Exp (a) }>
        s = Shape (r) }"""
    assert_equal_outputs(Simplify(), text)


def test_weights_of_constant_nodes_count_before_and_after():
    big = np.ones((512, 1024), np.float32)  # 2 MB, more than the model may grow
    x, w, h = gs.Variable("x", np.float32, (4, 512)), gs.Variable("w"), gs.Variable("h", np.float32, (4, 1024))
    size, ones, y = gs.Variable("size"), gs.Variable("ones"), gs.Variable("y", np.float32, (4, 1024))
    nodes = [
        gs.Node("Constant", attrs={"value": gs.Constant("", big)}, outputs=[w]),
        gs.Node("MatMul", inputs=[x, w], outputs=[h]),
        gs.Node("Shape", inputs=[h], outputs=[size]),
        gs.Node("ConstantOfShape", attrs={"value": gs.Constant("", np.ones(1, np.float32))}, inputs=[size], outputs=[ones]),
        gs.Node("Max", inputs=[h, ones], outputs=[y]),
    ]
    graph = gs.Graph(nodes, [x], [y], opset=18)
    report = Simplify()(graph)
    assert [node.op for node in graph.nodes] == ["MatMul", "Max"]
    assert not report.declined
