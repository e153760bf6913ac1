from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.errors import GraphError, TensorRTError
from onnx_gs.trt.builder import build
from onnx_gs.trt.network_builder import NetworkBuilder
from tests.support.rewrites import parse

pytest.importorskip("tensorrt_rtx")


def test_a_counting_loop():
    """``for (i = j; trips < n; i += k)``."""
    net = NetworkBuilder()
    j, k, n = (net.input(name, "int64", ()) for name in "jkn")
    loop = net.loop("count")
    loop.count(n)
    i = loop.recurrence(j)
    loop.next(i, net.op("Add", i, k))
    net.output(loop.last(i), "i")
    assert net.build(dims={}).size > 0
    (found,) = net.describe().loops
    assert (found.name, [limit.kind for limit in found.trip_limits]) == ("count", ["COUNT"])
    assert found.recurrences[0].initial == "j"
    assert found.outputs[0].kind == "LAST_VALUE"


def test_a_loop_with_both_limits():
    net = NetworkBuilder()
    n = net.input("n", "int32", ())
    x = net.input("x", "float32", ())
    loop = net.loop()
    loop.count(n)
    s = loop.recurrence(x)
    going = loop.recurrence(np.bool_(True))
    doubled = net.op("Add", s, s)
    loop.next(s, doubled)
    loop.next(going, net.op("Less", doubled, 100.0))
    loop.while_(going)
    net.output(loop.last(s), "y")
    assert net.build().size > 0
    assert sorted(limit.kind for limit in net.describe().loops[0].trip_limits) == ["COUNT", "WHILE"]


def test_an_iterator_over_axis_1_in_reverse():
    net = NetworkBuilder()
    x = net.input("x", "float32", (2, 5))
    loop = net.loop()
    loop.count(5)
    row = loop.iterate(x, 1, reverse=True)
    total = loop.recurrence(np.zeros(2, np.float32))
    loop.next(total, net.op("Add", total, row))
    net.output(loop.last(total), "sum")
    net.output(loop.concatenate(net.op("Add", total, row), 5, axis=1, reverse=True), "sums")
    assert net.build().size > 0
    description = net.describe()
    (found,) = description.loops
    assert [(i.axis, i.reverse) for i in found.iterators] == [(1, True)]
    kept = [o for o in found.outputs if o.kind == "REVERSE"]
    assert [(o.axis, o.length is not None) for o in kept] == [(1, True)]
    assert description.outputs == ("sum float 2", "sums float 2x5")


def test_nested_loops_are_inferred_from_data_flow():
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    outer, inner = net.loop("outer"), net.loop("inner")
    outer.count(4)
    s = outer.recurrence(x)
    inner.count(2)
    t = inner.recurrence(s)
    inner.next(t, net.op("Mul", t, 2.0))
    outer.next(s, net.op("Add", inner.last(t), x))
    net.output(outer.last(s), "y")
    assert net.build().size > 0
    found = [(depth, c.name) for depth, c in net.describe().walk()]
    assert found == [(0, "outer"), (1, "inner")]


def test_x_plus_y_or_x_minus_y():
    net = NetworkBuilder()
    x, y = (net.input(name, "float32", (3,)) for name in "xy")
    choice = net.conditional(net.input("add", "bool", ()), "choose")
    a, b = choice.input(x), choice.input(y)
    net.output(choice.output(net.op("Add", a, b), net.op("Sub", a, b)), "z")
    assert net.build().size > 0
    (found,) = net.describe().conditionals
    assert (len(found.lazy_true), len(found.lazy_false), found.eager) == (1, 1, ())
    assert len(found.inputs) == 2
    assert found.condition == "add"


def test_an_empty_else_branch():
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    choice = net.conditional(net.input("p", "bool", ()))
    net.output(choice.output(net.op("Exp", choice.input(x)), x), "y")
    assert net.build().size > 0
    (found,) = net.describe().conditionals
    assert (len(found.lazy_true), found.lazy_false) == (1, ())
    assert found.outputs[0].when_false == "x"


def test_a_conditional_inside_a_loop():
    """Sum the even numbers of a vector."""
    net = NetworkBuilder()
    x = net.input("x", "int64", (6,))
    loop = net.loop("each")
    loop.count(6)
    number = loop.iterate(x)
    total = loop.recurrence(np.int64(0))
    half = net.op("Div", number, 2)
    even = net.op("Equal", net.op("Mul", half, 2), number)
    choice = net.conditional(even, "if even")
    loop.next(total, choice.output(net.op("Add", choice.input(total), choice.input(number)), total))
    net.output(loop.last(total), "sum")
    assert net.build().size > 0
    assert [(depth, c.name) for depth, c in net.describe().walk()] == [(0, "each"), (1, "if even")]


@pytest.mark.parametrize(("place", "lazy", "eager"), [(0, 3, 0), (1, 2, 1), (None, 0, 3)])
def test_what_is_lazy_depends_on_where_the_input_stands(place, lazy, eager):
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    choice = net.conditional(net.input("p", "bool", ()))
    value = x
    for k, op in enumerate(("Exp", "Sin", "Cos")):
        if k == place:
            value = choice.input(value)
        value = net.op(op, value, name=op)
    net.output(choice.output(value, x), "y")
    assert net.build().size > 0
    (found,) = net.describe().conditionals
    assert (len(found.lazy_true), len(found.eager)) == (lazy, eager)


def test_one_input_serves_both_branches():
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    choice = net.conditional(net.input("p", "bool", ()))
    assert choice.input(x) is choice.input(x)
    net.output(choice.output(net.op("Exp", choice.input(x)), net.op("Neg", choice.input(x))), "y")
    assert net.build().size > 0
    assert len(net.describe().conditionals[0].inputs) == 1


def test_an_edge_between_branches_is_refused():
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    choice = net.conditional(net.input("p", "bool", ()), "c")
    shared = net.op("Exp", choice.input(x), name="shared")
    net.output(choice.output(net.op("Neg", shared), net.op("Abs", shared)), "y")
    with pytest.raises(GraphError, match="belong to both branches") as raised:
        net.build()
    assert "conditional 'c'" in raised.value.what


def test_an_output_inside_a_loop_is_refused():
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    loop = net.loop("l")
    loop.count(3)
    s = loop.recurrence(x)
    inside = net.op("Add", s, x)
    loop.next(s, inside)
    net.output(loop.last(s), "y")
    net.output(inside, "z")
    with pytest.raises(GraphError, match="network output 'z' stands inside loop 'l'"):
        net.build()


def test_an_output_inside_a_branch_is_refused():
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    choice = net.conditional(net.input("p", "bool", ()), "c")
    inside = net.op("Exp", choice.input(x))
    net.output(choice.output(inside, x), "y")
    net.output(inside, "z")
    with pytest.raises(GraphError, match="network output 'z' stands inside conditional 'c'"):
        net.build()


def test_loops_that_need_each_other_are_refused():
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    a, b = net.loop("a"), net.loop("b")
    a.count(2)
    b.count(2)
    s, t = a.recurrence(x), b.recurrence(x)
    both = net.op("Add", s, t)
    a.next(s, both)
    b.next(t, both)
    net.output(a.last(s), "y")
    net.output(b.last(t), "z")
    with pytest.raises(GraphError, match="need each other's values"):
        net.build()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda _net, x, loop: loop.recurrence(x), "has no trip limit"),
        (lambda _net, x, loop: (loop.count(2), loop.recurrence(x, "r")), "recurrence 'r' of loop 'l' has no next value"),
        (lambda _net, _x, loop: (loop.count(2), loop.count(3)), "two trip limits of kind COUNT"),
        (lambda _net, x, loop: loop.last(x), "no recurrence of loop 'l'"),
        (lambda _net, x, loop: loop.next(x, x), "no recurrence of loop 'l'"),
        (lambda net, x, loop: loop.next(loop.recurrence(x), net.op("Cast", x, to="int64")), "starts as FLOAT [3], and becomes INT64 [3]"),
        (lambda _net, x, loop: loop.next(loop.recurrence(x), np.ones(2, np.float32)), "starts as FLOAT [3], and becomes FLOAT [2]"),
        (lambda _net, _x, loop: loop.count(2.5), "the trip limit of loop 'l' is float of rank 0"),
        (lambda _net, _x, loop: loop.count(None), "None is no tensor"),
        (lambda _net, _x, loop: loop.count(np.array([1, 2])), "the trip limit of loop 'l' is int64 of rank 1"),
        (lambda _net, x, loop: loop.while_(x), "the condition of loop 'l' is float of rank 1"),
        (lambda _net, x, loop: loop.iterate(x, 1), "axis 1 of an iterator of loop 'l' is out of range"),
        (lambda _net, x, loop: loop.concatenate(x, 3, 2), "axis 2 of an output of loop 'l' is out of range"),
        (lambda _net, x, loop: loop.concatenate(x, 1.5), "the length of an output of loop 'l' is float"),
        (lambda net, x, _loop: net.conditional(x, "c"), "the condition of conditional 'c' is float of rank 1"),
        (lambda net, x, _loop: net.op("Add", x), "operator 'Add' is given 1 inputs"),
        (lambda net, x, _loop: net.op("Add", x, None), "operator 'Add' is given 1 inputs"),
        (lambda net, x, _loop: net.op("Neg", x, axis=1), "operator 'Neg' has no attribute 'axis'"),
        (lambda net, x, _loop: net.op("Add", x, "a"), "'a' is no tensor, array or number"),
        (lambda net, x, _loop: (net.output(x, "y"), net.output(x, "y")), "there are two outputs 'y'"),
        (lambda net, _x, _loop: net.input("z", "float32", (1.5,)), "input 'z' has the dim 1.5"),
        (lambda _net, _x, _loop: NetworkBuilder.from_graph("model.onnx"), "a str is no graph"),
    ],
)
def test_loops_that_make_no_sense(make, what):
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    loop = net.loop("l")

    def attempt():
        make(net, x, loop)
        net.output(net.op("Neg", x), "y")
        net.build()

    with pytest.raises(GraphError) as raised:
        attempt()
    assert what in raised.value.what
    assert raised.value.fix


@pytest.mark.parametrize(
    "make",
    [
        lambda net, x: net.op("MatMul", x, np.ones((4, 4), np.float32)),
        lambda net, x: net.op("Concat", x, x, axis=5),
        lambda net, x: net.op("Reshape", x, np.array([2, 2])),
        lambda net, x: net.op("Slice", x, np.array([0]), np.array([2]), np.array([7])),
        lambda net, x: net.op("ReduceSum", x, np.array([5])),
        lambda net, x: net.op("Add", x, np.array([1, 2, 3])),
    ],
)
def test_an_operator_that_tensorrt_refuses_is_refused_where_it_is_added(make):
    net = NetworkBuilder()
    with pytest.raises(TensorRTError, match="operator"):
        make(net, net.input("x", "float32", (3,)))


def test_arrays_and_numbers_stand_for_constants_everywhere():
    net = NetworkBuilder()
    loop = net.loop("l")
    loop.count(np.int64(3))
    row = loop.iterate(np.ones((3, 2), np.float32))
    total = loop.recurrence(np.zeros(2, np.float32))
    loop.next(total, net.op("Add", total, row))
    choice = net.conditional(np.bool_(True), "c")
    net.output(choice.output(net.op("Neg", choice.input(loop.last(total))), np.zeros(2, np.float32)), "y")
    net.output(np.zeros((0, 2), np.float32), "nothing")
    assert net.build().size > 0


def test_a_network_without_outputs_is_refused():
    with pytest.raises(GraphError, match="has no outputs"):
        NetworkBuilder().build()


def test_branches_that_differ_are_refused():
    net = NetworkBuilder()
    x = net.input("x", "float32", (3,))
    choice = net.conditional(net.input("p", "bool", ()), "c")
    with pytest.raises(GraphError, match="give FLOAT and INT64"):
        choice.output(x, net.op("Cast", x, to="int64"))
    with pytest.raises(GraphError, match="give ranks 1 and 2"):
        choice.output(x, net.op("Unsqueeze", x, np.array([0])))


def test_an_lstm_cell():
    """An iterator, two recurrences, a concatenated output."""
    hidden, size = 4, 3
    rng = np.random.default_rng(0)
    net = NetworkBuilder()
    x = net.input("x", "float32", (7, 1, size))
    weights, recurrent = (net.constant(rng.standard_normal((n, 4 * hidden)).astype(np.float32)) for n in (size, hidden))
    loop = net.loop("lstm")
    loop.count(7)
    step = loop.iterate(x)
    h = loop.recurrence(np.zeros((1, hidden), np.float32), "h")
    c = loop.recurrence(np.zeros((1, hidden), np.float32), "c")
    gates = net.op("Add", net.op("MatMul", step, weights), net.op("MatMul", h, recurrent))

    def gate(k):
        return net.op("Slice", gates, np.array([k * hidden]), np.array([(k + 1) * hidden]), np.array([1]))

    i, f, o = (net.op("Sigmoid", gate(k)) for k in (0, 1, 2))
    cell = net.op("Add", net.op("Mul", f, c), net.op("Mul", i, net.op("Tanh", gate(3))))
    out = net.op("Mul", o, net.op("Tanh", cell))
    loop.next(h, out)
    loop.next(c, cell)
    net.output(loop.concatenate(out, 7), "y")
    net.output(loop.last(h), "y_h")
    assert net.build().size > 0
    description = net.describe()
    (found,) = description.loops
    assert (len(found.iterators), len(found.recurrences), [o.kind for o in found.outputs]) == (1, 2, ["CONCATENATE", "LAST_VALUE"])
    assert description.outputs == ("y float 7x1x4", "y_h float 1x4")


def test_a_value_made_by_unary_layers_only():
    net = NetworkBuilder()
    loop = net.loop()
    loop.count(3)
    s = loop.recurrence(net.input("x", "float32", (2,)))
    loop.next(s, net.op("Tanh", net.op("Neg", s)))
    net.output(loop.last(s), "y")
    assert net.build().size > 0


def test_an_operator_without_a_lowering():
    net = NetworkBuilder()
    with pytest.raises(TensorRTError, match="operator 'Conv' has no lowering") as raised:
        net.op("Conv", net.input("x", "float32", (1, 1, 4, 4)))
    assert "MatMul" in raised.value.fix


# -- from graphs --------------------------------------------------------------------------------------------------

EARLY = """g (float[2] x, int64 m) => (float[2] y, float[k,2] z) <bool c = {1}, float ten = {10}> {
    y, z = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so, float[2] row) {
        so = Add (s, s) row = Identity (so) t = ReduceSum <keepdims = 0> (so) co = Less (t, ten) }> }"""


def test_a_loop_that_the_parser_pads_keeps_only_the_rows_that_were_written():
    net = NetworkBuilder.from_graph(parse(EARLY), fallback=False)
    assert net.via == "layers"
    assert net.build().size > 0
    description = net.describe()
    (found,) = description.loops
    assert found.onnx == "graph 'g' > node #0 (Loop)"
    assert sorted(limit.kind for limit in found.trip_limits) == ["COUNT", "WHILE"]
    last = description.layers[-1]
    assert last.type in {"SLICE", "IDENTITY"} or any(layer.type == "SLICE" for layer in description.layers)
    assert [o.split()[2] for o in description.outputs] == ["2", "?x2"]


@pytest.mark.parametrize(
    "text",
    [
        # no trip limit, and the body reads the iteration number
        """g (float[2] x) => (float[2] y) <bool c = {1}, float ten = {10}> { y = Loop ("", c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
            f = Cast <to = 1> (i) so = Add (s, f) t = ReduceSum <keepdims = 0> (so) co = Less (t, ten) }> }""",
        # a Scan without a state
        """g (float[3,2] x) => (float[3,2] y) { y = Scan <num_scan_inputs = 1, body = b (float[2] r) => (float[2] o) { o = Neg (r) }> (x) }""",
        # a Scan with a negative axis
        """g (float[2] s, float[2,3] x) => (float[2] t, float[2,3] y) { t, y = Scan <num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [-1],
            body = b (float[2] a, float[2] r) => (float[2] c, float[2] o) { c = Add (a, r) o = Identity (c) }> (s, x) }""",
    ],
)
def test_control_flow_that_the_parser_refuses(text):
    graph = parse(text.replace('""', "") if '("",' not in text else text)
    with pytest.raises(TensorRTError):
        build(graph)
    net = NetworkBuilder.from_graph(graph, fallback=False)
    assert net.build().size > 0


def test_what_has_no_lowering_goes_to_the_parser():
    text = """g (float[1,2,4,4] x, bool p) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1,2,3,4}> {
        y = If (p) <then_branch = t () => (float[1,2,4,4] a) { a = Conv (x, w) }, else_branch = e () => (float[1,2,4,4] b) { b = Neg (x) }> }"""
    net = NetworkBuilder.from_graph(parse(text))
    assert net.via == "parser"
    assert "Conv" in net.reasons[0]
    assert net.describe().conditionals[0].onnx == "graph 'g' > node #0 (If)"
    assert net.build().size > 0
    with pytest.raises(TensorRTError, match="cannot be lowered to layers"):
        NetworkBuilder.from_graph(parse(text), fallback=False)


def test_only_what_uses_an_outer_value_is_lazy():
    text = """g (float[3] x, bool p) => (float[3] y) <float[3] w = {1,2,3}> {
        h = Exp (x)
        y = If (p) <then_branch = t () => (float[3] a) { k = Sin (h) a = Add (k, w) }, else_branch = e () => (float[3] b) { b = Identity (h) }> }"""
    net = NetworkBuilder.from_graph(parse(text), fallback=False)
    assert net.build().size > 0
    (found,) = net.describe().conditionals
    assert (len(found.lazy_true), len(found.inputs)) == (2, 1)
    assert len(found.eager) == 1  # Exp stands before the If in the model, too


def test_a_double_inside_goes_to_the_parser():
    assert NetworkBuilder.from_graph(parse("g (double[2] x) => (double[2] y) { y = Add (x, x) }")).via == "parser"


@pytest.mark.parametrize(
    "text",
    [
        "g (uint8[3] x) => (uint8[3] y) { y = Sub (x, x) }",
        (
            "g (float[2] x, float n) => (float[2] y, float[k,2] z) <bool c = {1}> { m = Cast <to = 7> (n) y, z = Loop <body = b (int64 i, bool ci, float[2] s) => "
            "(bool co, float[2] so, float[2] r) { co = Identity (ci) so = Add (s, s) r = Identity (so) }> (m, c, x) }"
        ),
    ],
)
def test_what_tensorrt_refuses_is_no_network_that_says_so_later(text):
    with pytest.raises(TensorRTError):
        NetworkBuilder.from_graph(parse(text))


def test_an_input_that_is_an_output_too_keeps_its_name_or_is_refused():
    with pytest.raises(GraphError, match="no output can be named 'x'"):
        NetworkBuilder.from_graph(parse("g (float[2] x) => (float[2] x, float[2] y) { y = Neg (x) }"), fallback=False)


def test_interfaces_stay():
    graph = parse("g (float[n,2] x) => (float[n,2] y, float[n,2] x2) { y = Neg (x) x2 = Identity (y) }")
    net = NetworkBuilder.from_graph(graph, fallback=False)
    assert [t.split()[0] for t in net.describe().outputs] == ["y", "x2"]
    assert net.build(shapes="x:1x2..2x2..3x2").size > 0
