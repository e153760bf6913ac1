from __future__ import annotations

import numpy as np

from onnx_gs.passes.normalize_loop import NormalizeLoop
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites


def test_invariant_and_dead_values_go_and_the_condition_is_true():
    assert_rewrites(
        NormalizeLoop(),
        before="""g (float[2] x, float[2] w, int64 m) => (float[2] y, float[2] v) <bool c = {1}> {
            y, v, d = Loop (m, c, x, w, x) <body = b (int64 i, bool ci, float[2] s, float[2] q, float[2] e) =>
                (bool co, float[2] so, float[2] qo, float[2] eo) { co = Identity (ci)  so = Add (s, q)  qo = Identity (q)  eo = Mul (e, so) }> }""",
        after="""g (float[2] x, float[2] w, int64 m) => (float[2] y, float[2] v) {
            v = Identity (w)
            y = Loop (m, "", x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) <bool co = {1}> { so = Add (s, w) }> }""",
        more=[{"x": np.float32([1, 2]), "w": np.float32([3, -4]), "m": np.array(n)} for n in (0, 1, 5)],
    )


def test_the_condition_inside_is_true_also_where_it_is_computed():
    assert_rewrites(
        NormalizeLoop(),
        before="""g (float[2] x, int64 m, bool c) => (float[2] y) <float k = {9}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                so = If (ci) <then_branch = t () => (float[2] a) { a = Add (s, s) }, else_branch = e () => (float[2] o) { o = Neg (s) }>
                r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        after="""g (float[2] x, int64 m, bool c) => (float[2] y) <float k = {9}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) <bool yes = {1}> {
                so = If (yes) <then_branch = t () => (float[2] a) { a = Add (s, s) }, else_branch = e () => (float[2] o) { o = Neg (s) }>
                r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        more=[{"x": np.float32([1, 2]), "m": np.array(n), "c": np.array(c)} for n in (0, 1, 7) for c in (True, False)],
    )


def test_a_condition_that_counts_becomes_a_trip_count():
    assert_rewrites(
        NormalizeLoop(),
        before="""g (float[2] x) => (float[2] y) <bool c = {1}, int64 j0 = {0}, int64 one = {1}, int64 five = {5}> {
            j, y = Loop ("", c, j0, x) <body = b (int64 i, bool ci, int64 k, float[2] s) => (bool co, int64 ko, float[2] so) {
                ko = Add (k, one)  co = Less (ko, five)  so = Add (s, s) }> }""",
        after="""g (float[2] x) => (float[2] y) <int64 m = {5}> {
            y = Loop (m, "", x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) <bool co = {1}> { so = Add (s, s) }> }""",
    )


def test_endless_limit_goes():
    assert_rewrites(
        NormalizeLoop(),
        before="""g (float[2] x) => (float[2] y) <bool c = {1}, int64 m = {9223372036854775807}, float k = {100}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                so = Add (s, s)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        after="""g (float[2] x) => (float[2] y) <bool c = {1}, float k = {100}> {
            y = Loop ("", c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                so = Add (s, s)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        x=np.float32([1, 3]),
    )


def test_values_that_only_a_condition_needs_stay():
    assert_declines(
        NormalizeLoop(),
        """g (float[2] x, float[2] w, bool c) => (float[2] y) <float k = {100}> {
            y, d = Loop ("", c, x, w) <body = b (int64 i, bool ci, float[2] s, float[2] e) => (bool co, float[2] so, float[2] eo) {
                so = Add (s, s)  eo = Add (e, e)  r = ReduceMax <keepdims = 0> (eo)  co = Less (r, k) }> }""",
        "",
    )


def test_absent_condition_with_a_computed_one_is_declined():
    assert_declines(
        NormalizeLoop(),
        """g (float[2] x, int64 m) => (float[2] y) <float k = {100}> {
            y = Loop (m, "", x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                so = Add (s, s)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        "ONNX ignores it, runtimes obey it",
    )


def test_an_invariant_value_that_is_also_a_row_and_read_in_a_branch():
    assert_equal_outputs(
        NormalizeLoop(),
        """g (float[2] x, int64 m, bool c) => (float[2] y, float[2] v, float[K,2] z) <bool t = {1}> {
            y, v, z = Loop (m, t, x, x) <body = b (int64 i, bool ci, float[2] s, float[2] q) => (bool co, float[2] so, float[2] q, float[2] o) {
                co = Identity (ci)
                so = If (c) <then_branch = t () => (float[2] a) { a = Mul (q, s) }, else_branch = e () => (float[2] n) { n = Neg (q) }>
                o = Identity (q) }> }""",
        *({"x": np.float32([1, 2]), "m": np.array(n), "c": np.array(c)} for n in (0, 1, 3) for c in (True, False)),
    )


def test_before_opset_11_a_loop_keeps_a_value_and_what_it_reads():
    report = assert_equal_outputs(
        NormalizeLoop(),
        """g (float[2] x, bool c) => (float[K,2] z) <int64 zero = {0}> {
            y, n, z = Loop ("", c, x, x) <body = b (int64 i, bool ci, float[2] s, float[2] t) => (bool co, float[2] so, float[2] to, float[2] o) {
                so = Tanh (s)  to = Add (s, t)  o = Neg (x)  co = Less (i, zero) }> }""",
        *({"x": np.float32([1, 2]), "c": np.array(c)} for c in (True, False)),
        opset=10,
    )
    assert not report.rewritten
