from __future__ import annotations

import pytest

from onnx_gs.errors import GraphValueError
from onnx_gs.trt.options import BuildOptions, parse_dims, parse_size
from onnx_gs.trt.profiles import ShapeRange


def test_sizes():
    assert [parse_size(t) for t in ("7", "2k", "1.5MiB", "1G")] == [7, 2048, 1536 * 1024, 1 << 30]
    with pytest.raises(GraphValueError, match="'lots' is no size"):
        parse_size("lots")


def test_dims():
    assert parse_dims("batch=1..4..8, seq=128,w=2..3") == {"batch": (1, 4, 8), "seq": (128, 128, 128), "w": (2, 3, 3)}
    with pytest.raises(GraphValueError, match="'batch' is no range"):
        parse_dims("batch")


def test_shapes_in_every_form():
    wanted = ShapeRange((1, 3), (4, 3), (8, 3))
    assert BuildOptions(shapes="x:1x3..4x3..8x3").ranges() == [{"x": wanted}]
    assert BuildOptions(shapes={"x": wanted, "y": (2, 2), "z": ((1,), (2,))}).ranges() == [
        {"x": wanted, "y": ShapeRange((2, 2), (2, 2), (2, 2)), "z": ShapeRange((1,), (2,), (2,))}
    ]
    assert BuildOptions(shapes=("x:1", "x:2")).ranges() == [{"x": ShapeRange((1,), (1,), (1,))}, {"x": ShapeRange((2,), (2,), (2,))}]
    assert BuildOptions().ranges() == [{}]


def test_flags_that_options_stand_for():
    options = BuildOptions(flags=("tf32",), refit="identical", strip_weights=True, version_compatible=True, editable_timing_cache=True)
    assert options.flag_names() == ["TF32", "VERSION_COMPATIBLE", "STRIP_PLAN", "EDITABLE_TIMING_CACHE", "REFIT_IDENTICAL"]
    with pytest.raises(GraphValueError, match="refit is 'x'"):
        BuildOptions(refit="x").flag_names()
