"""Local functions on the way to TensorRT: opened where something inside blocks, left alone elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.trt import recipe
from tests.support.rewrites import assert_same, model, run

HEAD = '<domain: "local", opset_import: ["" : 18]>'
FUNCTIONS = {
    "Best": f"{HEAD} Best (a) => (b) {{ b = ArgMax <axis = 0, keepdims = 0> (a) }}",
    "Pair": f"{HEAD} Pair (a) => (b) {{ s = SequenceConstruct (a, a)  b = ConcatFromSequence <axis = 0> (s) }}",
    "Limit": f"{HEAD} Limit (a, lo, hi) => (b) {{ b = Clip (a, lo, hi) }}",
    "Twice": f"{HEAD} Twice (a) => (b) {{ b = Add (a, a) }}",
}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("g (float[3] x) => (float[3] y) { y = local.Twice (x) }", ["Twice"]),
        ("g (float[3] x) => (int64 y) { h = local.Twice (x)  y = local.Best (h) }", ["Twice"]),
        ("g (float[3] x) => (float[6] y) { h = local.Twice (x)  y = local.Pair (h) }", ["Pair", "Twice"]),  # lowered where it stands
        ("g (float[3] x) => (float[3] y) <float hi = {1.0}> { h = local.Twice (x)  y = local.Limit (h, , hi) }", ["Twice"]),
    ],
)
def test_only_what_blocks_is_opened(text, left):
    used = " ".join(body for name, body in FUNCTIONS.items() if f"local.{name} " in text)
    source = model(text, functions=used)
    graph = gs.import_onnx(source)
    report = recipe.prepare(graph, "rtx-1.7")
    assert report.shared["readiness"].ready
    assert [f.name for f in graph.functions] == left
    feeds = {"x": np.float32([0.25, -1, 2])}
    assert_same(run(source, feeds), run(gs.export_onnx(graph), feeds))


def test_what_was_opened_builds():
    pytest.importorskip("tensorrt_rtx")
    used = f"{FUNCTIONS['Twice']} {FUNCTIONS['Best']}"
    graph = gs.import_onnx(model("g (float[3] x) => (int64 y) { h = local.Twice (x)  y = local.Best (h) }", functions=used))
    recipe.prepare(graph, "rtx-1.7")
    assert gs.trt.build(graph)
