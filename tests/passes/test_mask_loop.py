from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.lower_control_flow import LowerControlFlow
from onnx_gs.passes.mask_loop import MaskLoop
from tests.support.rewrites import assert_declines, assert_equal_outputs

TEXT = """g (float[2] x, bool c, int64 m, float k) => (float[2] y, int64 n, bool z) <int64 zero = {0}, int64 one = {1}, int64 six = {6}, bool no = {0}> {
    y, n, z = Loop (%s, c, x, zero, no) <body = b (int64 i, bool ci, float[2] s, int64 j, bool f) => (bool co, float[2] so, int64 jo, bool fo) {
        %s  jo = Add (j, one)  r = ReduceMax <keepdims = 0> (so)  fo = Less (r, k)  short = Less (jo, six)  co = And (fo, short) }> }"""
FEEDS = [
    {"x": np.float32([1, 2]), "c": np.array(c), "m": np.array(m), "k": np.float32(k)} for c in (True, False) for m in (0, 1, 3, 9) for k in (1, 9, 1e9)
]


@pytest.mark.parametrize("trip", ['""', "m", "six"])
@pytest.mark.parametrize("step", ["so = Add (s, s)", "f32 = Cast <to = 1> (i)  so = Add (s, f32)"])
def test_trips_that_may_be_made_stand_behind_masks(trip, step):
    report = assert_equal_outputs(MaskLoop(), TEXT % (trip, step), *FEEDS)
    assert "6 trips behind masks" in report.rewritten[0].reason


def test_lowering_does_it_on_request():
    text = TEXT % ('""', "so = Mul (s, s)")
    assert [e.op for e in assert_equal_outputs(LowerControlFlow(), text, *FEEDS).left] == ["Loop"]
    assert not assert_equal_outputs(LowerControlFlow(mask=True), text, *FEEDS).left


@pytest.mark.parametrize(
    ("step", "reason", "options"),
    [
        ("so = Add (s, s)", "more than 10", {"max_nodes": 10}),
        ("d = Div (j, j)  e = Cast <to = 1> (d)  so = Add (s, e)", "divide by zero in a trip that is not made", {}),
    ],
)
def test_near_misses(step, reason, options):
    assert_declines(MaskLoop(**options), TEXT % ('""', step), reason)


def test_without_a_bound_it_is_declined():
    assert_declines(
        MaskLoop(),
        """g (float[2] x) => (float[2] y) <bool c = {1}, float k = {100}> {
            y = Loop ("", c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) {
                so = Add (s, s)  r = ReduceMax <keepdims = 0> (so)  co = Less (r, k) }> }""",
        "nothing bounds its trips",
    )
