"""Shape arithmetic that the known shapes decide, without evaluating anything."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.evaluate.verify import verify
from onnx_gs.passes.fold_shapes import FoldShapes
from onnx_gs.passes.infer_shapes import InferShapes
from tests.support.rewrites import parse

WEIGHTS = "int64[1] one = {1}, int64[1] zero = {0}, int64[1] minus = {-1}, int64 at = {1}, int64[1] far = {99}, int64[1] before = {-99},\
    int64[1] end = {9223372036854775807}"


@pytest.mark.parametrize(("text", "expected"), [
    ("y = Size (z)", 6),
    ("s = Shape (x) d = Gather (s, at) u = Unsqueeze (d, zero) y = Concat <axis = 0> (u, minus)", [3, -1]),
    ("s = Shape (x) c = Cast <to = 6> (s) t = Slice (c, one, far) y = Cast <to = 7> (t)", [3, 4]),
    ("s = Shape (x) t = Slice (s, one, far) u = Gather (t, zero) y = Squeeze (u)", 3),
    ("s = Shape (x) i = Identity (s) y = Gather (i, one)", [3]),
    ("s = Shape (x) y = Slice (s, minus, zero, zero, minus)", [4, 3]),
    ("s = Shape (z) y = Slice (s, before, before, zero, minus)", [2]),
    ("s = Shape (z) y = Slice (s, far, end, zero, minus)", None),
    ("s = Shape (x) y = Gather (s, zero)", None),
    ("s = Shape (x) m = Mul (s, one) y = Gather (m, one)", None),
])  # fmt: skip
def test_what_is_static_becomes_a_weight(text, expected):
    graph = parse(f"g (float[n, 3, 4] x, float[2, 3] z) => (int64[k] y) <{WEIGHTS}> {{ {text} }}")
    graph.outputs[0].shape = None
    after = graph.copy()
    report = FoldShapes()(after)
    if expected is None:
        assert isinstance(after.outputs[0], gs.Variable)
    else:
        assert after.outputs[0].values.tolist() == expected
        assert any(e.reason == f"is {expected}" for e in report.rewritten)
    assert verify(graph, after.cleanup()).same


def test_bodies_use_the_opset_of_the_model():
    x, s, t, y = gs.Variable("x", np.float32, (1, 3)), gs.Variable("s"), gs.Variable("t"), gs.Variable("y", np.int64, ())
    body_out = gs.Variable("o", np.int64, ())
    nodes = [
        gs.Node("Shape", attrs={"end": 1}, inputs=[x], outputs=[s]), gs.Node("Squeeze", inputs=[s, gs.Constant("a", np.int64([0]))], outputs=[t]),
        gs.Node("Identity", inputs=[t], outputs=[body_out]),
    ]  # fmt: skip
    body = gs.Graph(nodes, [], [body_out])  # says opset 11, as a new graph does
    other = gs.Graph([gs.Node("Size", inputs=[x], outputs=[o := gs.Variable("p", np.int64, ())])], [], [o])
    c = gs.Variable("c", bool, ())
    graph = gs.Graph([gs.Node("If", attrs={"then_branch": body, "else_branch": other}, inputs=[c], outputs=[y])], [c, x], [y], opset=18)
    before = graph.copy()
    graph.fold_constants().cleanup()
    assert body.outputs[0].values.item() == 1
    assert other.outputs[0].values.item() == 3
    assert verify(before, graph).same


def test_inference_is_a_pass():
    graph = parse("g (float[n, 3] x) => (float[3, n] y) { h = Neg (x) y = Transpose (h) }")
    report = InferShapes()(graph)
    assert graph.tensors()["h"].shape == ["n", 3]
    assert not report.rewritten
    assert "infer-shapes" in report.seconds
