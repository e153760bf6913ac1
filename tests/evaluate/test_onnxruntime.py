"""The door to ONNX Runtime: every element type in and out, weights by reference, errors by our names."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.evaluate import onnxruntime, reference
from onnx_gs.evaluate.compare import compare
from tests.support.rewrites import parse

TYPES = [
    np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_, ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.int4, ml_dtypes.uint4,
]  # fmt: skip


def transposed(tensor, dtype):
    y = gs.Variable("y", dtype)
    return gs.Graph([gs.Node("Transpose", inputs=[tensor], outputs=[y])], [tensor] if isinstance(tensor, gs.Variable) else [], [y], opset=21)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [6, 6000])
def test_every_type_goes_in_and_comes_out(dtype, count):
    if not hasattr(onnxruntime._load().OrtValue, "ortvalue_from_numpy_with_onnx_type") and np.dtype(dtype).isbuiltin != 1:
        pytest.skip("this onnxruntime takes no such values from Python")
    values = (np.arange(count) % 2).reshape(2, -1).astype(dtype)
    fed = onnxruntime.run(transposed(gs.Variable("x", dtype, (2, count // 2)), dtype), {"x": values})["y"]
    stored = onnxruntime.run(transposed(gs.Constant("w", values), dtype), {})["y"]
    for found in (fed, stored):
        assert compare(values.T, found) is None


def test_strings():
    values = np.array([["a", "b"], ["c", "é"]], object)
    graph = gs.Graph([gs.Node("Concat", attrs={"axis": 0}, inputs=[x := gs.Variable("x", object, (2, 2)), gs.Constant("w", values)],
                              outputs=[y := gs.Variable("y", object)])], [x], [y], opset=18)  # fmt: skip
    assert onnxruntime.run(graph, {"x": values})["y"].tolist() == [*values.tolist(), *values.tolist()]


def test_a_session_is_used_again_and_gives_what_is_asked():
    graph = parse("g (float[n] x) => (float[n] y, float[n] z) <float[1] a = {2}> { y = Mul (x, a) z = Neg (y) }")
    session = onnxruntime.session(graph)
    for n in (1, 3):
        assert session.run({"x": np.ones(n, np.float32)}, ["z"])["z"].tolist() == [-2] * n
    with pytest.raises(gs.EvaluationError, match="no input 'w'"):
        session.run({"w": np.ones(1)})
    with pytest.raises(gs.EvaluationError, match="'x' has no value"):
        session.run({})
    with pytest.raises(gs.EvaluationError, match="no output 'q'"):
        session.run({"x": np.ones(1, np.float32)}, ["q"])


def test_weights_shared_by_bodies_and_shadowed_names():
    graph = parse("""g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
        y = If (c) <then_branch = t () => (float[2] p) { p = Mul (x, w) }, else_branch = e () => (float[2] p) { p = Add (x, w) }> }""")
    big = np.arange(2000, dtype=np.float32)
    graph.nodes[0].attrs["then_branch"].nodes[0].inputs[1] = gs.Constant("w2", big[:2])
    for c, expected in ((True, [0, 3]), (False, [4, 5])):
        assert onnxruntime.run(graph, {"x": np.float32([3, 3]), "c": np.array(c)})["y"].tolist() == expected
    then = graph.nodes[0].attrs["then_branch"]
    then.nodes[0].inputs[1] = gs.Constant("w", np.float32([5, 5]))  # another weight of a name in use
    assert onnxruntime.run(graph, {"x": np.float32([3, 3]), "c": np.array(True)})["y"].tolist() == [15, 15]


def test_branches_may_return_outer_values_and_weights():
    graph = parse("""g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
        h = Neg (x)
        y = If (c) <then_branch = t () => (float[2] p) { p = Mul (x, w) }, else_branch = e () => (float[2] q) { q = Add (x, w) }> }""")
    node = graph.nodes[1]
    node.attrs["then_branch"].outputs = [graph.nodes[0].outputs[0]]
    node.attrs["else_branch"].outputs = [node.attrs["else_branch"].nodes[0].inputs[1]]
    assert onnxruntime.run(graph, {"x": np.float32([3, 4]), "c": np.array(True)})["y"].tolist() == [-3, -4]
    assert onnxruntime.run(graph, {"x": np.float32([3, 4]), "c": np.array(False)})["y"].tolist() == [1, 2]


def test_defaults_of_inputs_are_used_and_overridden():
    graph = parse("g (float[2] x, float[2] d) => (float[2] y) { y = Add (x, d) }")
    graph.inputs[1].default = np.float32([10, 20])
    assert onnxruntime.run(graph, {"x": np.float32([1, 1])})["y"].tolist() == [11, 21]
    assert onnxruntime.run(graph, {"x": np.float32([1, 1]), "d": np.float32([0, 0])})["y"].tolist() == [1, 1]


def test_errors_name_our_nodes_and_tensors():
    graph = parse("g (float[n] x, float[m] z) => (float[k] y) { h = Neg (x) y = Add (h, z) }")
    graph.nodes[1].name = "the_sum"
    with pytest.raises(gs.EvaluationError) as caught:
        onnxruntime.run(graph, {"x": np.ones(2, np.float32), "z": np.ones(3, np.float32)})
    assert "the_sum" in str(caught.value)
    assert caught.value.where == "graph 'g' > node 'the_sum' (Add)"
    assert "gs_n" not in str(caught.value)
    bad = parse("g (float[n] x) => (float[n] y) { y = Neg (x) }")
    bad.nodes[0].op = "NoSuchOp"
    with pytest.raises(gs.EvaluationError, match=r"ONNX Runtime cannot load the model: .*NoSuchOp"):
        onnxruntime.session(bad)


def test_large_weights_are_not_copied():
    import resource

    w = gs.Constant("w", np.ones((64, 1024, 1024), np.float32))  # 256 MiB
    x, y = gs.Variable("x", np.int64, (1,)), gs.Variable("y", np.float32)
    graph = gs.Graph([gs.Node("GatherND", inputs=[w, i := gs.Variable("i", np.int64)], outputs=[y]),
                      gs.Node("Unsqueeze", inputs=[x, gs.Constant("a", np.int64([0]))], outputs=[i])][::-1], [x], [y], opset=18)  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert onnxruntime.run(graph, {"x": np.int64([3])})["y"].shape == (1, 1024, 1024)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024


def test_a_missing_package_says_which_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(gs.MissingExtraError, match=r"onnx_gs\[cpu\]"):
        onnxruntime.session(parse("g (float[n] x) => (float[n] y) { y = Neg (x) }"))


def test_the_reference_agrees_and_reports():
    graph = parse("g (float[2] x) => (float[2] y) { y = Neg (x) }")
    assert reference.run(graph, {"x": np.float32([1, 2])})["y"].tolist() == [-1, -2]
    graph.nodes[0].op = "NoSuchOp"
    with pytest.raises(gs.EvaluationError, match="reference"):
        reference.run(graph, {"x": np.float32([1, 2])})
