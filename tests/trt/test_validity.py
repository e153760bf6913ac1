from __future__ import annotations

import pytest

import onnx_gs as gs
from onnx_gs.trt.readiness import check
from tests.support.rewrites import parse

RTX = "rtx-1.7"

#: Models that are not valid ONNX; TensorRT's parser crashes at the first.
INVALID = {
    "a body without its state": "g (float[2] x, int64 m) => (float[2] y) <bool c = {1}> "
    "{ y = Loop <body = b (int64 i, bool ci) => (bool co) { co = Identity (ci) }> (m, c, x) }",
    "no body": "g (float[2] x, int64 m, bool c) => (float[2] y) { y = Loop (m, c, x) }",
    "a value made nowhere": "g (float[2] x) => (float[2] y) { y = Add (x, nothere) }",
    "a value made nowhere, in a body": "g (float[2] x, bool p) => (float[2] y) { y = If (p) <then_branch = t () => (float[2] a) { a = Neg (z) }, "
    "else_branch = e () => (float[2] b) { b = Abs (x) }> }",
    "an output made nowhere": "g (float[2] x) => (float[2] y) { z = Neg (x) }",
    "too few inputs": "g (float[2] x) => (float[2] y) { y = Add (x) }",
    "no attribute": "g (float[2] x) => (float[2] y) { y = Cast (x) }",
}


@pytest.mark.parametrize("name", INVALID)
def test_what_is_not_valid_is_said_and_nothing_else_is_asked(name):
    from onnx_gs.trt import prepare

    graph = parse(INVALID[name])
    found = check(graph, RTX)
    assert {b.id for b in found.blockers} == {"invalid-onnx"}
    assert found.checked_by == ["table"]
    assert found.blockers[0].path.startswith("graph 'g'")
    with pytest.raises(gs.GraphError, match="not valid ONNX"):
        prepare(graph, RTX)
    pytest.importorskip("tensorrt_rtx")
    for call in (gs.trt.build, gs.trt.describe):
        with pytest.raises(gs.GraphError, match="not valid ONNX"):
            call(graph)


def test_what_is_made_in_a_scope_around_is_made():
    text = """g (float[2] x, bool p, int64 m) => (float[2] y) <float[2] w = {1,2}, bool c = {1}> {
        h = Neg (x)
        y = Loop <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) { co = Identity (ci)
            so = If (p) <then_branch = t () => (float[2] a) { a = Add (h, s) }, else_branch = e () => (float[2] d) { d = Add (w, x) }> }> (m, c, x) }"""
    assert check(parse(text), RTX, static=True).ready
    functions = '<opset_import: ["" : 18], domain: "local"> f (a) => (b) { b = Neg (a) }'
    assert check(parse("g (float[2] x) => (float[2] y) { y = local.f (x) }", functions=functions), RTX, static=True).ready
