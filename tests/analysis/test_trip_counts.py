from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.analysis import shape_inference, trip_counts
from onnx_gs.analysis.known_values import KnownValues
from onnx_gs.ir import Constant, Node, Variable
from tests.support.rewrites import parse

LOOP = """g (float[2] x, float[5,N] q, int64 n, bool p, float top) => (float[2] y) <int64 m = {%s}, bool t = {1}, bool f = {0}, int64 zero = {0},
                                                                      int64 one = {1}, int64 five = {5}, float tenth = {0.1}, float first = {0}> {
    sh = Shape (q)  d0 = Gather (sh, zero)  d1 = Gather (sh, one)
    y, k, u = Loop (%s, %s, x, zero, first) <body = b (int64 i, bool ci, float[2] s, int64 j, float v) => (bool co, float[2] so, int64 jo, float vo) {
        so = Add (s, s)  jo = Add (j, one)  vo = Add (v, tenth)  r = ReduceMax <keepdims = 0> (so)  small = Less (r, top)
        co = %s }> }"""


def count(trip: str, cond: str, co: str, m: int = 3) -> trip_counts.TripCount:
    graph = parse(LOOP % (m, trip, cond, co))
    shape_inference.infer(graph)
    return trip_counts.of_loop(next(n for n in graph.nodes if n.op == "Loop"))


@pytest.mark.parametrize(
    ("trip", "cond", "co", "exact", "at_most"),
    [
        ("m", "t", "Identity (ci)", 3, 3),
        ("m", '""', "Identity (ci)", 3, 3),
        ("m", "f", "Identity (ci)", 0, 0),
        ("zero", "p", "Identity (small)", 0, 0),
        ("m", "p", "Identity (ci)", None, 3),
        ("n", "t", "Identity (ci)", None, None),
        ("d0", "t", "Identity (ci)", 5, 5),  # a static dim beside a dynamic one
        ("d1", "t", "Identity (ci)", None, None),
        ('""', "t", "Less (jo, five)", 5, 5),
        ('""', "t", "Less (i, five)", 6, 6),
        ('""', "t", "Less (vo, top)", None, None),
        ("m", "t", "Less (jo, five)", 3, 3),
        ("n", "t", "Less (jo, five)", None, 5),
        ('""', "p", "Less (jo, five)", None, 5),
        ('""', "t", "Identity (small)", None, None),
        ("m", "t", "Identity (small)", None, 3),
        ("m", '""', "Identity (small)", None, 3),
    ],
)
def test_how_often_a_loop_runs(trip, cond, co, exact, at_most):
    found = count(trip, cond, co)
    assert (found.exact, found.at_most) == (exact, at_most), found


def test_a_part_of_the_condition_bounds_it():
    assert count('""', "t", "And (small, go)".replace("go", "small")).at_most is None
    both = LOOP.replace("small = Less (r, top)", "small = Less (r, top)  go = Less (jo, five)")
    for co in ("And (small, go)", "If (small) <then_branch = a () => (bool w) { w = Identity (go) }, else_branch = e () => (bool z) { z = Identity (f) }>"):
        graph = parse(both % (3, '""', "t", co))
        assert trip_counts.of_loop(graph.nodes[-1]).at_most == 5


def test_float_counters_go_by_ieee_steps():
    graph = parse((LOOP % (3, '""', "t", "Less (vo, end)")).replace("float first", "float end = {1}, float first"))
    steps, v = 0, np.float32(0)
    while True:
        v, steps = v + np.float32(0.1), steps + 1
        if not v < 1:
            break
    assert trip_counts.of_loop(graph.nodes[-1]).exact == steps


def test_where_a_size_comes_from():
    graph = parse("g (float[N,3] x) => (int64[1] y) <int64 k = {-2}, int64[1] a = {0}> { s = Shape (x)  d = Gather (s, k)  y = Unsqueeze (d, a) }")
    assert trip_counts.dim_source(graph.outputs[0]) == (graph.inputs[0], 0)
    graph = parse("g (float[N,3] x) => (int64[1] y) { y = Shape <start = 1, end = 2> (x) }")
    assert trip_counts.dim_source(graph.outputs[0]) == (graph.inputs[0], 1)
    graph = parse("g (int64 x) => (int64 y) { y = Neg (x) }")
    assert trip_counts.dim_source(graph.outputs[0]) is None


@pytest.mark.parametrize(
    ("op", "a", "b", "value"),
    [
        ("Div", -7, 2, -3), ("Mod", -7, 2, 1), ("Div", 7, 0, None), ("Mod", 7, 0, None), ("Add", 2**63 - 1, 1, -(2**63)), ("Mul", 2**62, 4, 0),
        ("Less", 1, 2, True), ("GreaterOrEqual", 1, 2, False), ("Max", 3, 9, 9), ("Pow", 3, 2, None),
    ],
)  # fmt: skip
def test_known_values_are_those_of_a_runtime(op, a, b, value):
    out = Variable("out")
    Node(op, inputs=[Constant("a", np.array(a)), Constant("b", np.array(b))], outputs=[out])
    assert KnownValues().scalar(out) == value


def test_unknown_operands_may_not_matter():
    unknown, no, out = Variable("u", bool, []), Constant("no", np.array(False)), Variable("out")
    Node("And", inputs=[unknown, no], outputs=[out])
    assert KnownValues().scalar(out) is False
    other = Variable("other")
    Node("Or", inputs=[unknown, no], outputs=[other])
    assert KnownValues().scalar(other) is None
