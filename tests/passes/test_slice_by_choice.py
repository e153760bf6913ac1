from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.passes.slice_by_choice import SliceByChoice
from tests.support.rewrites import assert_declines, assert_rewrites

TEXT = """g (float[4,3] x%s) => (float[N,3] y) <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, float limit = {0}, int64 none = {0}> {
    %s  n = Where (c, two, four)  y = Slice (x, zero, n, zero) }"""


def test_data_chooses_between_two_slices():
    assert_rewrites(
        SliceByChoice(),
        before=TEXT % ("", "r = ReduceSum <keepdims = 0> (x)  c = Greater (r, limit)"),
        after="""g (float[4,3] x) => (float[N,3] y) <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, float limit = {0}> {
            r = ReduceSum <keepdims = 0> (x)  c = Greater (r, limit)  n = Where (c, two, four)
            y = If (c) <then_branch = t () => (float[2,3] a) { a = Slice (x, zero, two, zero) },
                        else_branch = e () => (float[4,3] b) { b = Slice (x, zero, four, zero) }> }""",
        more=[{"x": np.full((4, 3), v, np.float32)} for v in (1, -1)],
    )


@pytest.mark.parametrize(
    ("inputs", "condition"),
    [
        (", int64 k", "c = Greater (k, none)"),
        ("", "s = Shape (x)  d = Gather (s, none)  c = Greater (d, none)"),
        (", int64 k", "f = Cast <to = 9> (k)  c = Not (f)"),
    ],
)
def test_integers_and_shapes_may_choose(inputs, condition):
    assert_declines(SliceByChoice(), TEXT % (inputs, condition), "")
