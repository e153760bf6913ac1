"""Contents of shape tensors and shapes, as expressions: right for every size that ONNX Runtime is asked about."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.shape_values import ShapeFacts, public_shape, register_shape_function
from onnx_gs.ir import Constant, Graph, Node, Variable
from tests.support.rewrites import model, parse, run

CHAINS = {
    "gather": ("s = Shape (x) y = Gather (s, i1)", "<int64 i1 = {1}>"),
    "slice": ("s = Shape (x) y = Slice (s, b, e)", "<int64[1] b = {1}, int64[1] e = {9223372036854775807}>"),
    "concat": ("s = Shape (x) t = Gather (s, i0) u = Unsqueeze (t, ax) y = Concat <axis = 0> (u, c)", "<int64 i0 = {0}, int64[1] ax = {0}, int64[2] c = {-1, 7}>"),
    "arithmetic": ("s = Shape (x) p = Mul (s, two) q = Add (p, s) y = Sub (q, one)", "<int64 two = {2}, int64 one = {1}>"),
    "div": ("s = Shape (x) p = Mul (s, four) y = Div (p, two)", "<int64 two = {2}, int64 four = {4}>"),
    "floor": ("s = Shape (x) y = Div (s, two)", "<int64 two = {2}>"),
    "mod": ("s = Shape (x) y = Mod (s, two)", "<int64 two = {2}>"),
    "min": ("s = Shape (x) y = Min (s, two)", "<int64 two = {2}>"),
    "max": ("s = Shape (x) y = Max (s, two)", "<int64 two = {2}>"),
    "size": ("y = Size (x)", "<int64 unused = {2}>"),
    "prod": ("s = Shape (x) y = ReduceProd <keepdims = 0> (s)", "<int64 unused = {2}>"),
    "where": ("s = Shape (x) c = Equal (s, minus) y = Where (c, minus, s)", "<int64 minus = {-1}>"),
    "cast": ("s = Shape (x) t = Cast <to = 6> (s) y = Cast <to = 7> (t)", "<int64 unused = {2}>"),
    "split": ("s = Shape (x) y, z = Split <num_outputs = 2> (s)", "<int64 unused = {2}>"),
    "tile": ("s = Shape (x) y = Tile (s, two)", "<int64[1] two = {2}>"),
    "expand": ("s = Shape (x) t = Gather (s, i0) y = Expand (t, three)", "<int64 i0 = {0}, int64[1] three = {3}>"),
    "squeeze": ("s = Shape <start = 0, end = 1> (x) y = Squeeze (s)", "<int64 unused = {2}>"),
    "identity": ("s = Shape (x) y = Identity (s)", "<int64 unused = {2}>"),
    "reshape": ("s = Shape (x) y = Reshape (s, t)", "<int64[2] t = {2, 1}>"),
    "transpose": ("s = Shape (x) t = Reshape (s, r) y = Transpose <perm = [1, 0]> (t)", "<int64[2] r = {2, 1}>"),
    "fill": ("s = Shape (x) r = Shape (s) y = ConstantOfShape <value = int64[1] {5}> (r)", "<int64 unused = {2}>"),
    "range": ("s = Shape (x) r = Size (s) y = Range (zero, r, one)", "<int64 zero = {0}, int64 one = {1}>"),
}


@pytest.mark.parametrize("name", CHAINS)
def test_contents_are_what_onnx_runtime_computes(name):
    nodes, weights = CHAINS[name]
    text = f"g (float[n, m] x) => (int64[] y) {weights} {{ {nodes} }}".replace("int64[] y", "int64 y")
    graph = parse(text)
    facts = ShapeFacts(graph)
    held = facts.contents(graph.outputs[0])
    assert held is not None
    assert all(item is not None for item in held.items)
    proto = model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for n, m in ((1, 1), (2, 3), (5, 4), (0, 3)):
        (found,) = run(proto, {"x": np.zeros((n, m), np.float32)})
        assert found.shape == held.shape
        assert found.ravel().tolist() == [dim_expr.substitute(i, {"n": n, "m": m}) for i in held.items]


SHAPES = {
    "conv": ("y = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)", "<float[8, 4, 3, 3] w>", (8, 4, 3, 3)),
    "pool": ("y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)", "", None),
    "transposed": ("y = ConvTranspose <strides = [2, 2]> (x, w)", "<float[4, 5, 3, 3] w>", (4, 5, 3, 3)),
    "flatten": ("y = Flatten (x)", "", None),
    "mean": ("y = ReduceMean (x)", "", None),
    "shuffled": ("y = Transpose <perm = [2, 0, 3, 1]> (x)", "", None),
    "depth": ("y = SpaceToDepth <blocksize = 2> (x)", "", None),
    "global": ("y = GlobalAveragePool (x)", "", None),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_what_onnx_runtime_computes(name):
    nodes, _, weight = SHAPES[name]
    inputs = "float[n, 4, h, 8] x" + (f", float{list(weight)} w" if weight else "")
    text = f"g ({inputs}) => (float y) {{ {nodes} }}"
    graph = parse(text)
    shape = ShapeFacts(graph).shape(graph.outputs[0])
    assert shape is not None
    proto = model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for n, h in ((1, 4), (3, 6)):
        feeds = {"x": np.ones((n, 4, h, 8), np.float32)}
        if weight:
            feeds["w"] = np.ones(weight, np.float32)
        (found,) = run(proto, feeds)
        assert found.shape == tuple(dim_expr.substitute(d, {"n": n, "h": h}) for d in shape)


def test_a_tensor_of_unknown_size_agrees_with_itself_only():
    graph = parse("g (float[n] x, float[m] z) => (float y) { a = NonZero (x) b = NonZero (z) c = Neg (a) y = Cast <to = 1> (c) }")
    facts = ShapeFacts(graph)
    a, b, c = (facts.shape(node.outputs[0]) for node in graph.nodes[:3])
    assert a == c
    assert a != b
    assert public_shape(a) == [1, None]


def test_a_loop_keeps_what_every_trip_keeps():
    graph = parse("""g (float[n, 3] x, int64 trips) => (float y, float z) <bool go = {1}> {
        y, z = Loop (trips, go, x) <body = b (int64 i, bool c, float[a, 3] v) => (bool d, float[a, 3] w, float s) {
            d = Identity (c) w = Neg (v) s = ReduceSum <keepdims = 0> (v) }> }""")
    facts = ShapeFacts(graph)
    assert public_shape(facts.shape(graph.outputs[0])) == ["n", 3]
    assert len(facts.shape(graph.outputs[1])) == 1


def test_a_carried_value_that_grows_is_unknown_where_it_grows():
    graph = parse("""g (float[n, 3] x, int64 trips) => (float y) <bool go = {1}> {
        y = Loop (trips, go, x) <body = b (int64 i, bool c, float v) => (bool d, float w) { d = Identity (c) w = Concat <axis = 0> (v, v) }> }""")
    assert public_shape(ShapeFacts(graph).shape(graph.outputs[0])) == [None, 3]


def test_a_declared_size_fills_a_gap_and_a_wrong_rank_is_told():
    x, y, z = gs.Variable("x", np.float32, ("n",)), gs.Variable("y", np.float32, (5,)), gs.Variable("z", np.float32, (1, 2, 3))
    nodes = [gs.Node("Custom", domain="my", inputs=[x], outputs=[y]), gs.Node("Neg", inputs=[y], outputs=[z])]
    facts = ShapeFacts(gs.Graph(nodes, [x], [z]))
    assert facts.shape(y) == (5,)
    assert facts.shape(z) == (5,)


def test_a_registered_function_lets_inference_go_on():
    @register_shape_function("test.values", "Halve")
    def halve(node, shapes):
        return [(np.float16, (dim_expr.floordiv(shapes[0][0], 2), *shapes[0][1:]))]

    x, y, s = gs.Variable("x", np.float32, ("n", 4)), gs.Variable("y"), gs.Variable("s")
    graph = gs.Graph([gs.Node("Halve", domain="test.values", inputs=[x], outputs=[y]), gs.Node("Shape", inputs=[y], outputs=[s])], [x], [s])
    facts = ShapeFacts(graph)
    assert str(facts.contents(s).items) == "(floor(n/2), 4)"
    assert facts.dtype(y).name == "FLOAT16"


def test_an_operator_without_a_function_is_left_to_the_inference_of_onnx():
    text = "g (float[n, 2, 5, 6] x) => (float y) <int64[1] b = {0}, int64[1] e = {5}, int64[1] a = {3}> { w = Slice (x, b, e, a) d = Det (w) y = Neg (d) }"
    graph = parse(text)
    assert public_shape(ShapeFacts(graph).shape(graph.nodes[1].outputs[0])) == ["n", 2]


@pytest.mark.parametrize("op", ["Squeeze (x, none)", "Slice (x, start, end, axis, minus)"])
def test_a_shape_that_runtimes_disagree_about_is_unknown(op):
    graph = parse(f"""g (float[1, 3] x) => (float[] y) <int64[0] none = {{}}, int64[1] axis = {{1}}, int64[1] minus = {{-1}}, int64[1] start = {{2}},
        int64[1] end = {{9223372036854775807}}> {{ y = {op} }}""")
    shape = ShapeFacts(graph).shape(graph.outputs[0])
    assert shape is None or not isinstance(shape[1], int)


def test_an_axis_of_a_scalar_is_not_looked_for():
    assert ShapeFacts(parse("g (float x) => (int64[k] y) { y = ArgMax <axis = 0> (x) }"))


def test_elements_of_a_split_are_followed():
    x, s = Variable("x", np.float32, ("n", 6, 4)), Variable("s")
    a, b = Variable("a"), Variable("b")
    nodes = [
        Node("SplitToSequence", inputs=[x, Constant("two", np.array(2))], outputs=[s], attrs={"axis": 1}),
        Node("SequenceAt", inputs=[s, Constant("i", np.array(1))], outputs=[a]),
        Node("SequenceAt", inputs=[s, Constant("j", np.array(0))], outputs=[b]),
    ]
    facts = ShapeFacts(Graph(nodes, [x], [a, b], opset=18))
    assert [str(d) for d in facts.shape(a)] == ["n", "2", "4"]
    assert facts._fallback is None
    nodes[0].inputs[1] = Constant("four", np.array(4))  # 4 and 2
    facts = ShapeFacts(Graph(nodes, [x], [a, b], opset=18))
    assert facts.shape(a)[2] == 4
    assert facts.shape(a)[1] != facts.shape(b)[1]


def test_whole_floats_cast_to_integers_are_contents():
    y, z = Variable("y"), Variable("z")
    nodes = [
        Node("Cast", inputs=[Constant("c", np.array([3.0, -1.0], np.float32))], outputs=[y], attrs={"to": 7}),
        Node("Cast", inputs=[Constant("d", np.array([3.5], np.float32))], outputs=[z], attrs={"to": 7}),
    ]
    facts = ShapeFacts(Graph(nodes, [], [y, z], opset=18))
    assert facts.contents(y).items == (3, -1)
    assert facts.contents(z) is None


def test_operands_were_spread_one_way_before_opset_7():
    x, b, y = gs.Variable("x", np.float32, ("n", 1)), gs.Constant("b", np.zeros(3, np.float32)), gs.Variable("y")
    graph = gs.Graph([gs.Node("Add", attrs={"broadcast": 1, "axis": 0}, inputs=[x, b], outputs=[y])], [x], [y], opset=6)
    assert [str(d) for d in ShapeFacts(graph).shape(y)] == ["n", "1"]


def test_a_shape_function_that_fails_is_named_and_stops_nothing(caplog):
    @register_shape_function("failing.domain", "Fails")
    def fails(node, shapes):
        raise RuntimeError("no idea")

    x, y, s = gs.Variable("x", np.float32, ("n", 4)), gs.Variable("y"), gs.Variable("s", np.int64)
    nodes = [gs.Node("Fails", "odd", domain="failing.domain", inputs=[x], outputs=[y]), gs.Node("Shape", inputs=[y], outputs=[s])]
    with caplog.at_level("WARNING", logger="onnx_gs"):
        graph = gs.Graph(nodes, [x], [s], opset=18).simplify()
    assert [n.op for n in graph.nodes] == ["Fails", "Shape"]
    assert "failing.domain::Fails fails at node 'odd': RuntimeError: no idea" in caplog.text
