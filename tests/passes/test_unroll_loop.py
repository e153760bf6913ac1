from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.unroll_loop import UnrollLoop
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites


def test_each_trip_becomes_a_copy_of_the_body():
    assert_rewrites(
        UnrollLoop(),
        before="""g (float[2] x, float[2] w) => (float[2] y) <int64 m = {3}, bool c = {1}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                co = Identity (ci)  so = Mul (s, w) }> }""",
        after="""g (float[2] x, float[2] w) => (float[2] y) <bool c = {1}> {
            c0 = Identity (c)  a = Mul (x, w)  c1 = Identity (c)  b = Mul (a, w)  c2 = Identity (c)  y = Mul (b, w) }""",
        x=np.float32([1, -2]),
    )


def test_rows_are_stacked_and_the_iteration_number_is_a_constant():
    assert_rewrites(
        UnrollLoop(),
        before="""g (float[3,2] x) => (float[2,2] z) <int64 m = {2}, bool c = {1}> {
            z = Loop (m, c) <body = b (int64 i, bool ci) => (bool co, float[2] o) <bool co = {1}> { o = Gather <axis = 0> (x, i) }> }""",
        after="""g (float[3,2] x) => (float[2,2] z) <int64 i0 = {0}, int64 i1 = {1}, int64[1] a = {0}, int64[1] b = {0}> {
            r0 = Gather <axis = 0> (x, i0)  u0 = Unsqueeze (r0, a)  r1 = Gather <axis = 0> (x, i1)  u1 = Unsqueeze (r1, b)
            z = Concat <axis = 0> (u0, u1) }""",
    )


def test_no_trip_gives_the_initial_values_and_no_rows():
    assert_rewrites(
        UnrollLoop(),
        before="""g (float[2] x) => (float[2] y, float[K,2] z) <int64 m = {0}, bool c = {1}> {
            y, z = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so, float[2] o) {
                co = Identity (ci)  so = Add (s, s)  o = Neg (s) }> }""",
        after="""g (float[2] x) => (float[2] y, float[K,2] z) <float[0,2] z = {}> { y = Identity (x) }""",
    )


def test_both_outputs_of_one_value_are_kept():
    assert_equal_outputs(
        UnrollLoop(),
        """g (float[2] x) => (float[2] y, float[2] v, float[2,2] z) <int64 m = {2}, bool c = {1}> {
            y, v, z = Loop (m, c, x, x) <body = b (int64 i, bool ci, float[2] s, float[2] q) => (bool co, float[2] so, float[2] qo, float[2] o) {
                co = Identity (ci)  so = Add (s, q)  qo = Identity (so)  o = Identity (so) }> }""",
    )
    assert_equal_outputs(
        UnrollLoop(),
        """g (float[2] x) => (float[2] y, float[2] v) <int64 m = {2}, bool c = {1}> {
            a, v = Loop (m, c, x, x) <body = b (int64 i, bool ci, float[2] s, float[2] q) => (bool co, float[2] so, float[2] s) {
                co = Identity (ci)  so = Add (s, q) }>  y = Neg (a) }""",
    )


def test_inner_loops_first_also_triangular_ones():
    report = assert_equal_outputs(
        UnrollLoop(),
        """g (float[2] x) => (float[2] y) <int64 m = {3}, bool c = {1}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                co = Identity (ci)
                so = Loop (i, ci, s) <body = bb (int64 j, bool di, float[2] t) => (bool do, float[2] to) { do = Identity (di)  to = Add (t, x) }> }> }""",
    )
    assert len(report.rewritten) == 4
    nested = """g (float[2] x) => (float[2] y, float[3,2,2] z) <int64 m = {3}, int64 k = {2}, bool c = {1}> {
        y, z = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so, float[2,2] zo) {
            co = Identity (ci)
            so, zo = Loop (k, c, s) <body = bb (int64 j, bool di, float[2] t) => (bool do, float[2] to, float[2] w) {
                do = Identity (di)  to = Add (t, s)  w = Neg (t) }> }> }"""
    assert len(assert_equal_outputs(UnrollLoop(), nested).rewritten) == 2


def test_a_counting_condition_is_evaluated():
    report = assert_equal_outputs(
        UnrollLoop(),
        """g (float[2] x) => (float[2] y, int64 n) <bool c = {1}, int64 j0 = {0}, int64 one = {1}, int64 five = {5}> {
            n, y = Loop ("", c, j0, x) <body = b (int64 i, bool ci, int64 k, float[2] s) => (bool co, int64 ko, float[2] so) {
                ko = Add (k, one)  co = Less (ko, five)  so = Add (s, s) }> }""",
    )
    assert "5 trips" in report.rewritten[0].reason


def test_one_trip_of_shape_one_numbers():
    assert_equal_outputs(
        UnrollLoop(),
        """g (float[2] x) => (int64[1,1] y) <int64[1] m = {1}, bool[1] c = {1}> {
            y = Loop (m, c) <body = b (int64[1] i, bool[1] ci) => (bool[1] co, int64[1] o) { co = Identity (ci)  o = Shape (i) }> }""",
    )


STATE = """g (float[2] x, int64 m, bool c) => (float[2] y) <int64 k = {%s}, bool t = {1}, float top = {9}> {
    y = Loop (%s, %s, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
        so = Add (s, s)  r = ReduceMax <keepdims = 0> (so)  co = %s }> }"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (STATE % (3, "m", "t", "Identity (ci)"), "the trip count is computed at run time"),
        (STATE % (3, "k", "c", "Identity (ci)"), "at most 3 trips"),
        (STATE % (9000, "k", "t", "Identity (ci)"), "more than 2000 nodes"),
        (STATE % (4, "k", '""', "Less (r, top)"), "ONNX ignores it"),
        (STATE % (4, '""', "t", "Less (r, top)"), "condition is computed at run time"),
    ],
)
def test_near_misses(text, reason):
    assert_declines(UnrollLoop(), text, reason)


def test_rows_of_unknown_shape_that_no_trip_makes():
    text = """g (float[N] x) => (float[K,N] z) <int64 m = {0}, bool c = {1}> {
        z = Loop (m, c) <body = b (int64 i, bool ci) => (bool co, float[N] o) { co = Identity (ci)  o = Neg (x) }> }"""
    assert_declines(UnrollLoop(), text, "rows is not known")
