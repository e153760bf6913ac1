from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.slice_by_counter import SliceByCounter
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites

TEXT = """g (float[6,2] x, float[%s,2] init) => (float[%s,2] y) <int64 m = {%s}, bool c = {1}, int64[1] width = {%s}, int64[1] ax = {0}, int64 two = {2}> {
    y = Loop (m, c, init) <body = b (int64 i, bool ci, float[%s,2] s) => (bool co, float[%s,2] so) {
        co = Identity (ci)  %s  i1 = Unsqueeze (k, ax)  j1 = Add (i1, width)  r = Slice (x, i1, j1, ax)  so = Add (s, r) }> }"""


def text(width: int, trips: int, start: str) -> str:
    return TEXT % (width, width, trips, width, width, width, start)


def test_a_moving_row_is_gathered():
    assert_rewrites(
        SliceByCounter(),
        before=text(1, 6, "k = Identity (i)"),
        after="""g (float[6,2] x, float[1,2] init) => (float[1,2] y) <int64 m = {6}, bool c = {1}, int64[1] width = {1}, int64[1] ax = {0}> {
            y = Loop (m, c, init) <body = b (int64 i, bool ci, float[1,2] s) => (bool co, float[1,2] so) {
                co = Identity (ci)  k = Identity (i)  i1 = Unsqueeze (k, ax)  j1 = Add (i1, width)
                r = Gather <axis = 0> (x, i1)  so = Add (s, r) }> }""",
    )


@pytest.mark.parametrize(("width", "trips", "start"), [(2, 5, "k = Identity (i)"), (3, 2, "k = Mul (i, two)"), (2, 3, "k = Add (i, two)"), (1, 0, "k = Add (i, two)")])
def test_windows(width, trips, start):
    assert assert_equal_outputs(SliceByCounter(), text(width, trips, start)).rewritten


def test_the_trip_count_is_the_dim():
    report = assert_equal_outputs(
        SliceByCounter(),
        """g (float[N,2] x) => (float[1,2] y) <bool c = {1}, float[1,2] init = {0, 0}, int64 z = {0}, int64[1] one = {1}, int64[1] ax = {0}> {
            sh = Shape (x)  m = Gather (sh, z)
            y = Loop (m, c, init) <body = b (int64 i, bool ci, float[1,2] s) => (bool co, float[1,2] so) {
                co = Identity (ci)  i1 = Unsqueeze (i, ax)  j1 = Add (i1, one)  r = Slice (x, i1, j1, ax)  so = Add (s, r) }> }""",
        *({"x": np.ones((n, 2), "f")} for n in (0, 1, 5)),
    )
    assert report.rewritten


def test_a_declared_shape_says_that_the_slice_is_whole():
    report = assert_equal_outputs(
        SliceByCounter(),
        """g (int64 m, float[1] init) => (float[1] y, float[K,1] z) <bool c = {1}, float[5] x = {1, 2, 3, 4, 5}, int64[1] one = {1}, int64[1] ax = {0}> {
            y, z = Loop (m, c, init) <body = b (int64 i, bool ci, float[1] s) => (bool co, float[1] so, float[1] o) {
                co = Identity (ci)  i1 = Unsqueeze (i, ax)  j1 = Add (i1, one)  r = Slice (x, i1, j1)  so = Add (s, r)  o = Identity (so) }> }""",
        *({"m": np.array(n), "init": np.float32([-2])} for n in (0, 1, 5)),
    )
    assert report.rewritten


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (text(2, 6, "k = Identity (i)"), "may reach past the end"),
        (text(1, 6, "k = Sub (i, two)"), "may be negative"),
        (text(1, 3, "k = Identity (i)").replace("j1 = Add (i1, width)", "j1 = Add (i1, i1)"), "width changes"),
    ],
)
def test_near_misses(given, reason):
    assert_declines(SliceByCounter(), given, reason)
