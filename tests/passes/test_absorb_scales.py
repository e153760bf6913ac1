"""Factors that weights take over."""

import numpy as np
import pytest

from onnx_gs.passes.absorb_scales import _halved


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("times", [1, 3, 40, 140, 1000])
def test_halving_by_the_exponent_is_multiplication(dtype, times):
    size = np.dtype(dtype).itemsize
    rng = np.random.default_rng(times)
    values = rng.integers(0, 256, (64, 33 * size), dtype=np.uint8).view(dtype)
    values = np.where(np.isfinite(values), values, dtype(1.5))
    values[0, :6] = [0.0, -0.0, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max, -1.0]
    for shaped in (values, values.T, values[:, ::2]):
        expected = np.ldexp(shaped, -times)
        assert np.array_equal(_halved(shaped, times), expected)
        assert np.array_equal(np.signbit(_halved(shaped, times)), np.signbit(expected))
    for special in (np.inf, np.nan):
        assert _halved(np.array([1.0, special], dtype), times) is None
