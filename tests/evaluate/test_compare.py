"""Comparison of values: equal as the package means it, else how far apart and where."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnx_gs.evaluate.compare import compare


@pytest.mark.parametrize(("a", "b"), [
    (np.float32([1, np.nan, np.inf]), np.float32([1, np.nan, np.inf])), (np.float32([0.0]), np.float32([-0.0])), (np.array(3), np.array(3)),
    (np.array(["a"], object), np.array([b"a"], object)), ([np.ones(2), None], [np.ones(2), None]), ({1: 2.0}, {1: 2.0}),
    (np.array([1, np.nan], ml_dtypes.bfloat16), np.array([1, np.nan], ml_dtypes.bfloat16)), (np.zeros((0, 2)), np.zeros((0, 2))),
    (np.complex64([1 + 2j]), np.complex64([1 + 2j])),
])  # fmt: skip
def test_equal(a, b):
    assert compare(a, b) is None


@pytest.mark.parametrize(("a", "b", "kind"), [
    (np.float32([1]), np.float64([1]), "dtype"), (np.ones((1, 2)), np.ones((2, 1)), "shape"), ([np.ones(1)], [], "length"), (np.ones(1), [np.ones(1)], "kind"),
    (None, np.ones(1), "kind"), (np.float32([np.nan]), np.float32([1]), "values"), (np.array([2**60]), np.array([2**60 + 1]), "values"),
    (np.array(["a"], object), np.array(["b"], object), "values"), ({1: 2.0}, {2: 2.0}, "kind"),
])  # fmt: skip
def test_different(a, b, kind):
    assert compare(a, b).kind == kind


def test_how_far_and_where():
    found = compare(np.float32([[1, 2], [4, -8]]), np.float32([[1, 2], [5, np.nextafter(np.float32(-8), np.float32(0))]]))
    assert (found.absolute, found.relative, found.count, found.first) == (1.0, 0.125, 2, (1, 0))
    assert found.ulp == 1 << 21
    assert found.within(absolute=1.0)
    assert found.within(relative=0.2)
    assert not found.within(absolute=0.5)
    assert compare(np.float32([0.0]), np.float32([np.nextafter(np.float32(0), np.float32(-1))])).ulp == 1
    assert compare(np.array([5, 7]), np.array([5, 3])).absolute == 4
    assert compare([np.ones(2), np.ones(2)], [np.ones(2), np.float64([1, 2])]).first == (1, 1)
    assert "first at [1, 0]" in str(found)
