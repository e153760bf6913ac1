from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.bound_loop import BoundLoop
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites

WHILE_SCAN = """g (float[2] x) => (float[2] y, float[K,2] z) <bool c = {1}, float k = {20}> {
    [while] y, z = Loop ("", c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so, float[2] o) {
        so = Add (s, s)  o = Identity (so)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }"""


@pytest.mark.parametrize("rewrite", [BoundLoop({"while": 8}), BoundLoop(max_trips=8)])
def test_a_stated_bound_a_counter_and_a_slice(rewrite):
    assert_rewrites(
        rewrite,
        WHILE_SCAN,
        after="""g (float[2] x) => (float[2] y, float[K,2] z) <bool c = {1}, float k = {20}, int64 m = {8}, int64 zero = {0}, int64[1] one = {1},
                                                       int64[1] first = {0}, int64[1] axis = {0}> {
            y, n, rows = Loop (m, c, x, zero) <body = b (int64 i, bool ci, float[2] s, int64 j) => (bool co, float[2] so, int64 jo, float[2] o)
                <int64 step = {1}> {
                so = Add (s, s)  o = Identity (so)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k)  jo = Add (j, step) }>
            end = Reshape (n, one)
            z = Slice (rows, first, end, axis) }""",
        more=[{"x": np.float32(v)} for v in ([1, 2], [30, 1], [5, 5])],
        x=np.float32([0.5, 1]),
    )


def test_a_counter_for_the_iteration_number():
    assert_rewrites(
        BoundLoop(),
        before="""g (float[2] x) => (float[2] y) <bool c = {1}, float k = {100}> {
            y = Loop ("", c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                f = Cast <to = 1> (i)  so = Add (s, f)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        after="""g (float[2] x) => (float[2] y) <bool c = {1}, float k = {100}, int64 zero = {0}> {
            y, n = Loop ("", c, x, zero) <body = b (int64 i, bool ci, float[2] s, int64 j) => (bool co, float[2] so, int64 jo) <int64 step = {1}> {
                f = Cast <to = 1> (j)  so = Add (s, f)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k)  jo = Add (j, step) }> }""",
    )


def test_the_bound_of_a_counting_part_of_the_condition_and_only_once():
    text = """g (float[2] x, float top) => (float[2] y, float[K,2] z) <bool c = {1}, int64 j0 = {0}, int64 one = {1}, int64 five = {5}> {
        y, j, z = Loop ("", c, x, j0) <body = b (int64 i, bool ci, float[2] s, int64 k) => (bool co, float[2] so, int64 ko, float[2] o) {
            so = Add (s, s)  o = Neg (so)  ko = Add (k, one)  r = ReduceMax <keepdims = 0> (so)  small = Less (r, top)  more = Less (ko, five)
            co = And (small, more) }> }"""
    feeds = [{"x": np.float32([1, 2]), "top": np.float32(t)} for t in (1, 9, 1e9)]
    report = assert_equal_outputs(BoundLoop(), text, *feeds)
    assert "5 trips at most" in report.rewritten[0].reason

    class Twice(BoundLoop):
        def run(self, graph, report):
            super().run(graph, report)
            before = report.changed
            super().run(graph, report)
            assert report.changed == before

    assert_equal_outputs(Twice(), text, *feeds)


def test_early_exit_under_a_trip_count():
    report = assert_equal_outputs(
        BoundLoop(),
        """g (float[2] x, int64 m, bool c) => (float[2] y, float[K,2] z) <float k = {20}> {
            y, z = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so, float[2] o) {
                so = Add (s, s)  o = Identity (so)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        *({"x": np.float32([1, 2]), "m": np.array(m), "c": np.array(c)} for m in (0, 1, 2, 9) for c in (True, False)),
    )
    assert report.rewritten


def test_without_a_bound_it_is_declined():
    assert_declines(BoundLoop(), WHILE_SCAN, "state a bound")


def test_a_loop_without_scan_outputs_stays():
    assert_declines(
        BoundLoop(),
        """g (float[2] x) => (float[2] y) <bool c = {1}, float k = {100}> {
            y = Loop ("", c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                so = Add (s, s)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        "",
    )
