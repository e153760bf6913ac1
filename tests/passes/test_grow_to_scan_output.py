from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.grow_to_scan_output import GrowToScanOutput
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites

TRIPS = [{"x": np.float32([[1, -2]]), "m": np.array(n)} for n in (0, 1, 4)]


def test_appending_becomes_a_scan_output():
    assert_rewrites(
        GrowToScanOutput(),
        before="""g (float[1,2] x, int64 m) => (float[N,2] y) <bool c = {1}> {
            y, n = Loop (m, c, x, x) <body = b (int64 i, bool ci, float[K,2] s, float[1,2] t) => (bool co, float[L,2] so, float[1,2] to) {
                co = Identity (ci)  to = Add (t, t)  so = Concat <axis = 0> (s, to) }> }""",
        after="""g (float[1,2] x, int64 m) => (float[N,2] y) <bool c = {1}, int64[2] shape = {-1, 2}> {
            n, rows = Loop (m, c, x) <body = b (int64 i, bool ci, float[1,2] t) => (bool co, float[1,2] to, float[1,2] row) {
                co = Identity (ci)  to = Add (t, t)  row = Identity (to) }>
            merged = Reshape (rows, shape)
            y = Concat <axis = 0> (x, merged) }""",
        more=TRIPS,
    )


@pytest.mark.parametrize("order", ["s, t", "t, s", "s, t, t", "t, x, s"])
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_both_ends_and_every_axis(order, axis):
    size = "[K,2]" if axis in {0, -2} else "[1,K]"
    report = assert_equal_outputs(
        GrowToScanOutput(),
        f"""g (float[1,2] x, int64 m) => (float[N,M] y, float[1,2] n) <bool c = {{1}}> {{
            y, n = Loop (m, c, x, x) <body = b (int64 i, bool ci, float{size} s, float[1,2] t) => (bool co, float{size} so, float[1,2] to) {{
                co = Identity (ci)  to = Add (t, t)  so = Concat <axis = {axis}> ({order}) }}> }}""",
        *TRIPS,
    )
    assert report.rewritten


def test_an_empty_start_needs_no_joining():
    assert_rewrites(
        GrowToScanOutput(),
        before="""g (float[1,2] x) => (float[N,2] y) <int64 m = {2}, bool c = {1}, float[0,2] none = {}> {
            y = Loop (m, c, none) <body = b (int64 i, bool ci, float[K,2] s) => (bool co, float[L,2] so) {
                co = Identity (ci)  so = Concat <axis = 0> (s, x) }> }""",
        after="""g (float[1,2] x) => (float[N,2] y) <int64 m = {2}, bool c = {1}, int64[2] shape = {-1, 2}> {
            rows = Loop (m, c) <body = b (int64 i, bool ci) => (bool co, float[1,2] row) { co = Identity (ci)  row = Identity (x) }>
            y = Reshape (rows, shape) }""",
    )


def test_dims_that_are_computed():
    feeds = [{"x": np.ones((r, n), np.float32), "m": np.array(t)} for r, n, t in ((1, 3, 2), (2, 1, 0), (1, 1, 1), (0, 2, 3))]
    report = assert_equal_outputs(
        GrowToScanOutput(),
        """g (float[R,N] x, int64 m) => (float[A,N] y) <bool c = {1}> {
            y = Loop (m, c, x) <body = b (int64 i, bool ci, float[K,N] s) => (bool co, float[L,N] so) {
                co = Identity (ci)  so = Concat <axis = 0> (s, x) }> }""",
        *feeds,
    )
    assert report.rewritten


GROWS = """g (float[1,2] x) => (float[N,2] y, float[A,B] z) <int64 m = {2}, bool c = {1}> {
    y, z = Loop (m, c, x, x) <body = b (int64 i, bool ci, float[K,2] s, float[P,Q] t) => (bool co, float[L,2] so, float[R,S] to) {
        co = Identity (ci)  %s }> }"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("so = Concat <axis = 0> (s, x)  to = Neg (s)", "the body reads it"),
        ("so = Concat <axis = 0> (s, x)  to = Neg (so)", "the body reads it"),
        ("so = Concat <axis = 0> (s, s)  to = Neg (t)", "joined with itself"),
        ("so = Concat <axis = 0> (x, s, x)  to = Neg (t)", "grows in the middle"),
        ("so = Concat <axis = 0> (s, x)  to = Identity (so)", "the body reads it"),
    ],
)
def test_near_misses(body, reason):
    assert_declines(GrowToScanOutput(), GROWS % body, reason)


def test_what_is_appended_may_grow_itself():
    report = assert_equal_outputs(GrowToScanOutput(), GROWS % "so = Concat <axis = 0> (s, t)  to = Concat <axis = 0> (t, x)")
    assert any("may differ" in e.reason for e in report.declined)
