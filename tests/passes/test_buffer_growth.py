from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.buffer_growth import BufferGrowth
from tests.support.rewrites import assert_declines, assert_equal_outputs, assert_rewrites

GROWS = """g (float[1,2] x, int64 m%s) => (float[N,2] y) <bool c = {1}, float two = {2}, int64 one = {1}, int64 last = {-1}> {
    y = Loop (m, c, x) <body = b (int64 i, bool ci, float[K,2] s) => (bool co, float[L,2] so) <bool co = {1}, int64[1] a0 = {0}> {
        %s  u = Unsqueeze (r, a0)  v = Mul (u, two)  so = Concat <axis = 0> (s, v) }> }"""
FEEDS = [{"x": np.float32([[1, -2]]), "m": np.array(n), "k": np.array(0)} for n in (0, 1, 5)]


def test_a_value_that_is_read_by_row_becomes_a_buffer():
    assert_rewrites(
        BufferGrowth(),
        before=GROWS % ("", "r = Gather <axis = 0> (s, i)"),
        after="""g (float[1,2] x, int64 m) => (float[N,2] y) <bool c = {1}, float two = {2}, int64[1] one = {1}, int64[1] rest = {2}, float zero = {0},
                                                      int64 length = {1}> {
            trips = Reshape (m, one)  sizes = Concat <axis = 0> (trips, rest)  blank = Expand (zero, sizes)  buffer = Concat <axis = 0> (x, blank)
            y = Loop (m, c, buffer) <body = b (int64 i, bool ci, float[K,2] s) => (bool co, float[L,2] so)
                <bool co = {1}, int64[1] a0 = {0}, int64[2] at = {1, 1}> {
                r = Gather <axis = 0> (s, i)  u = Unsqueeze (r, a0)  v = Mul (u, two)  p = Add (i, length)  index = Reshape (p, at)
                so = ScatterND (s, index, v) }> }""",
        more=FEEDS,
    )


@pytest.mark.parametrize("reads", ["j = Mul (i, i)  k1 = Sub (j, j)  r = Gather (s, one)", "r0 = Gather (s, i)  r = Add (r0, two)"])
def test_other_positions(reads):
    if "one" in reads:
        reads = "z = Mul (i, one)  r = Gather (s, z)"
    assert assert_equal_outputs(BufferGrowth(), GROWS % ("", reads), *FEEDS).rewritten


def test_dims_that_are_computed():
    text = (GROWS % ("", "r = Gather (s, i)")).replace("[1,2] x", "[R,W] x").replace(",2]", ",W]")
    feeds = [{"x": np.arange(r * w, dtype=np.float32).reshape(r, w), "m": np.array(m)} for r, w, m in ((1, 3, 4), (2, 1, 0), (3, 2, 2))]
    report = assert_equal_outputs(BufferGrowth(), text, *feeds)
    assert report.rewritten


@pytest.mark.parametrize(
    ("inputs", "reads", "reason"),
    [
        ("", "r = Gather <axis = 0> (s, last)", "may count from its end"),
        (", int64 k", "r = Gather <axis = 0> (s, k)", "may count from its end"),
        ("", "r = ReduceSum <keepdims = 0> (s, a0)", "reads it whole"),
    ],
)
def test_near_misses(inputs, reads, reason):
    assert_declines(BufferGrowth(), GROWS % (inputs, reads), reason)


def test_an_early_exit_is_declined():
    text = GROWS.replace("<bool co = {1}, int64[1] a0 = {0}>", "<int64[1] a0 = {0}>") % (
        "", "r = Gather <axis = 0> (s, i)  top = ReduceMax <keepdims = 0> (r)  co = Less (top, two)"
    )  # fmt: skip
    assert_declines(BufferGrowth(), text, "the trips are not counted")
