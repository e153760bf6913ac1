from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.hoist_invariants import HoistInvariants
from onnx_gs.passes.loop_to_reduce import LoopToReduce
from onnx_gs.passes.vectorize_loop import VectorizeLoop
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites

MAP = """g (float[N,2] x, float[2] w) => (%s z) <bool c = {1}, int64 z0 = {0}, int64[1] a0 = {0}, int64[1] a1 = {1}, float k = {0.5}> {
    sh = Shape (x)  m = Gather (sh, z0)
    z = Loop (m, c) <body = b (int64 i, bool ci) => (bool co, %s o) <bool co = {1}> { %s }> }"""
SIZES = [{"x": np.random.default_rng(n).standard_normal((n, 2)).astype("f"), "w": np.float32([3, -1])} for n in (0, 1, 5)]


def test_a_map_is_one_operator():
    assert_rewrites(
        VectorizeLoop(),
        MAP % ("float[N,2]", "float[2]", "r = Gather <axis = 0> (x, i)  o = Relu (r)"),
        after="g (float[N,2] x, float[2] w) => (float[N,2] z) <int64 z0 = {0}> { sh = Shape (x)  m = Gather (sh, z0)  z = Relu (x) }",
        more=SIZES,
    )


@pytest.mark.parametrize(
    ("out", "row", "body"),
    [
        ("float[N,2]", "float[2]", "r = Gather (x, i)  p = Mul (r, w)  o = Tanh (p)"),
        ("float[N,2]", "float[2]", "f = Cast <to = 1> (i)  r = Gather (x, i)  o = Add (f, r)"),
        ("float[N,1,2]", "float[1,2]", "r = Gather (x, i)  u = Unsqueeze (r, a0)  o = Add (u, k)"),
        ("float[N,2,2]", "float[2,2]", "r = Gather (x, i)  u = Unsqueeze (r, a1)  o = Mul (u, w)"),
        ("float[N,2,1]", "float[2,1]", "r = Gather (x, i)  u = Unsqueeze (r, a0)  t = Transpose <perm = [1, 0]> (u)  o = Exp (t)"),
        ("float[N,4]", "float[4]", "r = Gather (x, i)  n = Neg (r)  o = Concat <axis = -1> (r, n)"),
        ("float[N,2]", "float[2]", "o = Neg (w)"),
        ("int64[N]", "int64", "o = Mul (i, i)"),
        ("float[N,1,2]", "float[1,2]", "j = Unsqueeze (i, a0)  o = Gather (x, j)"),
        ("float[N,2]", "float[2]", "r = Gather (x, i)  l = Less (r, k)  n = Neg (r)  o = Where (l, n, r)"),
        ("float[N]", "float", "r = Gather (x, i)  o = Gather (r, z0)"),
    ],
)
def test_bodies_over_all_trips(out, row, body):
    assert assert_equal_outputs(VectorizeLoop(), MAP % (out, row, body), *SIZES).rewritten


@pytest.mark.parametrize(
    ("row", "body", "reason"),
    [
        ("float[2]", "r = Gather (x, i)  o = Log (r)", "might not give the same bits"),
        ("float[1]", "r = Gather (x, i)  o = ReduceSum (r)", "might not give the same bits"),
        ("float[2]", "r = Gather (x, i)  o = If (c) <then_branch = t () => (float[2] p) { p = Neg (r) }, else_branch = e () => (float[2] q) { q = Abs (r) }>", "a body"),
        ("float[3]", "r = Gather (x, i)  o = Concat <axis = 0> (r, a)", "the same each trip"),
    ],
)  # fmt: skip
def test_near_misses(row, body, reason):
    text = MAP % (f"float[N,{row[6:-1]}]", row, body)
    assert_declines(VectorizeLoop(), text.replace("float k = {0.5}", "float[1] a = {0.5}") if "(r, a)" in body else text, reason)


SUM = """g (%s[N] x, %s s0, int64 m) => (%s y) <bool c = {1}> {
    y = Loop (m, c, s0) <body = b (int64 i, bool ci, %s s) => (bool co, %s so) <bool co = {1}> { r = Gather (x, i)  so = %s }> }"""


@pytest.mark.parametrize("op", ["Max (s, r)", "Min (r, s)"])
def test_extremes_of_integers_are_reduced(op):
    text = SUM % (*["int64"] * 5, op)
    report = assert_equal_outputs(LoopToReduce(), text, *({"x": np.array([5, -3, 2**62, 7]), "s0": np.array(4), "m": np.array(n)} for n in (0, 1, 4)))
    assert report.rewritten


@pytest.mark.parametrize("op", ["Add (s, r)", "Mul (r, s)"])
def test_sums_of_integers_are_reduced_on_request_only(op):
    text = SUM % (*["int64"] * 5, op)
    assert_declines(LoopToReduce(), text, "another order")  # ONNX Runtime adds integers up in floating point
    feeds = [{"x": np.array([5, -3, 2, 7]), "s0": np.array(4), "m": np.array(n)} for n in (0, 1, 4)]
    assert assert_equal_outputs(LoopToReduce(reorder=True), text, *feeds).rewritten


def test_floats_are_reduced_on_request_only():
    text = SUM % (*["float"] * 5, "Add (s, r)")
    assert_declines(LoopToReduce(), text, "another order")
    feeds = [{"x": np.float32([0.1, 0.2, 0.3]), "s0": np.float32(1), "m": np.array(n)} for n in (0, 2, 3)]
    assert assert_equal_outputs(LoopToReduce(reorder=True), text, *feeds, tolerance=1e-6).rewritten


def test_partial_sums_are_no_reduction():
    assert_declines(
        LoopToReduce(),
        """g (int64[N] x, int64 s0, int64 m) => (int64 y, int64[K] z) <bool c = {1}> {
            y, z = Loop (m, c, s0) <body = b (int64 i, bool ci, int64 s) => (bool co, int64 so, int64 o) <bool co = {1}> {
                r = Gather (x, i)  so = Add (s, r)  o = Identity (so) }> }""",
        "",
    )


def test_what_each_trip_computes_alike_goes_in_front():
    assert_rewrites(
        HoistInvariants(),
        before="""g (float[2] x, float[2] w, int64 m) => (float[2] y) <bool c = {1}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) <bool co = {1}> {
                e = Exp (w)  f = Neg (e)  so = Add (s, f) }> }""",
        after="""g (float[2] x, float[2] w, int64 m) => (float[2] y) <bool c = {1}> { e = Exp (w)  f = Neg (e)
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) <bool co = {1}> { so = Add (s, f) }> }""",
        more=[{"x": np.float32([1, 2]), "w": np.float32([0, 1]), "m": np.array(n)} for n in (0, 3)],
    )


def test_what_may_fail_is_not_computed_where_no_trip_would():
    text = """g (float[2] x, float[N] w, int64 k, int64 m) => (float[2] y) <bool c = {1}> {
        y = Loop (%s, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) <bool co = {1}> { e = Gather (w, k)  so = Add (s, e) }> }"""
    assert_declines(HoistInvariants(), text % "m", "may make no trip")
    report = assert_equal_outputs(
        HoistInvariants(), (text % "two").replace("bool c = {1}", "bool c = {1}, int64 two = {2}"), {"x": np.float32([1, 2]), "w": np.float32([5]), "k": np.array(0), "m": np.array(0)}
    )
    assert report.rewritten
