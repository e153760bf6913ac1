from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.errors import GraphValueError
from onnx_gs.trt.builder import build
from onnx_gs.trt.readiness import check
from onnx_gs.trt.recipe import Prepare, prepare, readiness_of
from tests.support.rewrites import parse

RTX = "rtx-1.7"

#: Models that TensorRT refuses, one for each kind of pass that a blocker may name.
BLOCKED = {
    "argmax of a vector": "g (float[4] x) => (int64[1] y) { y = ArgMax <axis = 0> (x) }",
    "dead node": "g (float[2,2] x) => (float[2,2] y) { d = Det (x) y = Neg (x) }",
    "a sequence": "g (float[2] x) => (float[4] y) { s = SequenceConstruct (x, x) y = ConcatFromSequence <axis = 0> (s) }",
    "axes from shapes": "g (float[2,3] x) => (float[2,1] y) <int64[1] one = {1}> { s = Shape (x) t = Shape (s) a = Sub (t, one) y = ReduceSum (x, a) }",
    "a value that grows": "g (float[1,2] x) => (float[4,2] y) <int64 m = {3}, bool c = {1}> { y = Loop <body = b (int64 i, bool ci, float[j,2] s) => (bool co, float[l,2] so) "
    "{ co = Identity (ci) so = Concat <axis = 0> (s, x) }> (m, c, x) }",
    "an operator that is a function": "g (float[2,3] x, int64[2] t) => (float l) { l = NegativeLogLikelihoodLoss (x, t) }",
    "relu of integers": "g (int32[2] x) => (int32[2] y) { y = Relu (x) }",
    "a scan without a state": "g (float[3,2] x) => (float[3,2] y) { y = Scan <num_scan_inputs = 1, body = b (float[2] r) => (float[2] o) { o = Neg (r) }> (x) }",
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_what_blocks_is_removed(name):
    graph = parse(BLOCKED[name])
    assert not check(graph, RTX, static=True).ready
    report = prepare(graph, RTX, verify=True)
    assert readiness_of(report).ready, str(readiness_of(report))
    pytest.importorskip("tensorrt_rtx")
    assert build(graph).size > 0


def test_what_is_spelled_out_is_verified_closely_and_all_else_exactly(monkeypatch):
    from onnx_gs.evaluate import verify

    bounds = []
    require_same = verify.require_same
    monkeypatch.setattr(verify, "require_same", lambda *graphs, **options: bounds.append(options) or require_same(*graphs, **options))
    assert readiness_of(prepare(parse("g (float[3,3] x) => (float y) { y = Det (x) }"), RTX, verify=True)).ready
    assert readiness_of(prepare(parse("g (float[4] x) => (int64[1] y) { y = ArgMax <axis = 0> (x) }"), RTX, verify=True)).ready
    prepare(parse("g (float[3] x) => (float[3] y) { y = Neg (x) }"), RTX, verify=True, fuse=True)
    assert bounds == [{"absolute": 1e-5, "relative": 1e-3}, {}, {"absolute": 1e-5, "relative": 1e-3}]


def test_what_is_left_is_told_with_its_row():
    report = prepare(parse("g (float[6] x) => (float[n] y) { y = Unique (x) }"), RTX)
    assert [b.id for b in readiness_of(report).blockers] == ["unsupported-op"]


def test_nothing_is_legalized_where_nothing_blocks():
    graph = parse("g (float[2,4] x) => (int64[2,1] y) { y = ArgMax <axis = 1> (x) }")
    report = prepare(graph, RTX)
    assert [n.op for n in graph.nodes] == ["ArgMax"]
    assert not [e for e in report.rewritten if e.pass_name.startswith("legalize")]


def test_the_interface_stays():
    graph = parse(BLOCKED["a value that grows"])
    before = [(t.name, t.dtype, t.shape) for t in (*graph.inputs, *graph.outputs)]
    prepare(graph, RTX)
    assert [(t.name, t.dtype, t.shape) for t in (*graph.inputs, *graph.outputs)] == before


def test_targets_differ():
    text = "g (float[2] x) => (int64[1,n] y) { y = NonZero (x) }"
    assert readiness_of(prepare(parse(text), "tensorrt-11.4")).ready
    assert not readiness_of(prepare(parse(text), RTX)).ready


def test_options_reach_their_passes():
    graph = parse("g (float[n,2] x) => (float[n,2] y) { y = Neg (x) }")
    prepare(graph, RTX, bind={"n": 3})
    assert list(graph.inputs[0].shape) == [3, 2]
    with pytest.raises(GraphValueError, match="'typo' is no option of prepare") as raised:
        prepare(graph, RTX, typo=1)
    assert "max_nodes" in raised.value.fix


def test_it_is_a_pass():
    graph = parse(BLOCKED["argmax of a vector"])
    report = Prepare(RTX)(graph)
    assert readiness_of(report).ready
    x = np.float32([1, 5, 2, 3])
    from onnx_gs.evaluate import onnxruntime

    assert onnxruntime.run(graph, {"x": x})["y"].tolist() == [1]
    assert isinstance(graph, gs.Graph)
