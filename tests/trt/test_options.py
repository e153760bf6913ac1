from __future__ import annotations

from dataclasses import replace

import numpy as np
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


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"workspace": -1}, "workspace is -1, which is out of range"),
        ({"workspace": 1 << 70}, "which is out of range"),
        ({"workspace": 1e9}, "workspace is 1000000000.0"),
        ({"workspace": "lots"}, "'lots' is no size"),
        ({"memory_pools": {"workspace": -2}}, "memory pool 'workspace' is -2"),
        ({"memory_pools": 5}, "memory_pools is 5"),
        ({"optimization_level": 9}, "optimization_level is 9, which is out of range"),
        ({"optimization_level": "3"}, "optimization_level is '3'"),
        ({"max_threads": 0}, "max_threads is 0"),
        ({"max_aux_streams": -1}, "max_aux_streams is -1"),
        ({"avg_timing_iterations": 0}, "avg_timing_iterations is 0"),
        ({"flags": (3,)}, "flags is"),
        ({"compute_capabilities": (8.9,)}, "compute_capabilities is"),
        ({"timing_cache": 5}, "timing_cache is 5"),
        ({"refit": "x"}, "refit is 'x'"),
        ({"dims": 5}, "dims is 5"),
        ({"dims": {"n": (1, 2.5, 3)}}, "dim 'n' is given"),
        ({"dims": {"n": (-1, 2, 3)}}, "dim 'n' is given"),
        ({"dims": {"n": ()}}, "dim 'n' is given"),
        ({"dims": "n=1,n=2"}, "dim 'n' is given two ranges"),
        ({"shapes": 5}, "shapes is 5"),
        ({"shapes": {"x": 5}}, "5 is no shape range of input 'x'"),
        ({"shapes": {"x": (1.5, 2)}}, "sizes are whole numbers"),
        ({"shapes": {"x": "1xn"}}, "is no shape range"),
        ({"shapes": "x:1,x:2"}, "input 'x' is given two ranges"),
    ],
    ids=str,
)
def test_values_of_the_wrong_kind_are_refused_where_they_are_given(settings, what):
    with pytest.raises(GraphValueError) as raised:
        BuildOptions(**settings)
    assert what in raised.value.what
    assert raised.value.fix


def test_what_may_be_spelled_in_several_ways():
    fixed = ShapeRange((1, 3), (1, 3), (1, 3))
    for shapes in ({"x": np.array([1, 3])}, {"x": [np.int64(1), 3]}, {"x": [[1, 3], [1, 3]]}, {"x": "1x3"}, ["x:1x3"], "x:1x3"):
        assert BuildOptions(shapes=shapes).ranges() == [{"x": fixed}]
    assert BuildOptions(shapes=None).ranges() == BuildOptions(shapes=()).ranges() == [{}]
    assert BuildOptions(dims={"n": 4, "m": (1, 4), "k": [1, 2, 3]}).dims == BuildOptions(dims="n=4,m=1..4,k=1..2..3").dims
    assert BuildOptions(workspace="1MiB").workspace == np.int64(1 << 20)
    assert BuildOptions(flags="tf32", tactic_sources="jit").flag_names() == ["TF32"]
    assert replace(BuildOptions(shapes="x:1x3", dims="n=4"), workspace=1).ranges() == [{"x": fixed}]
