from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.passes.expand_function_ops import ExpandFunctionOps
from tests.support.rewrites import assert_declines, assert_equal_outputs, model, run


def ops(text, opset=18, **options):
    graph = gs.import_onnx(model(text, opset))
    ExpandFunctionOps(**options)(graph)
    return [n.op for n in graph.nodes]


def test_nothing_is_expanded_unless_asked():
    assert ops("g (float[2] x) => (float[2] y) { y = Softmax (x) }") == ["Softmax"]
    assert "Softmax" not in ops("g (float[2] x) => (float[2] y) { y = Softmax (x) }", ops=("Softmax",))


@pytest.mark.parametrize(
    ("op", "opset", "tolerance"),
    [("ThresholdedRelu", 22, 0.0), ("Elu", 18, 1e-6), ("Celu", 18, 1e-6), ("HardSwish", 18, 1e-6), ("Softsign", 22, 1e-6), ("Mish", 18, 1e-6), ("Gelu", 20, 1e-5)],
)
def test_the_body_computes_the_same(op, opset, tolerance):
    text = f"g (float[2,3] x) => (float[2,3] y) {{ y = {op} (x) }}"
    feeds = {"x": np.float32([[-2, -1, 0], [1, 2, 3]])}
    try:
        run(model(text, opset), feeds)
    except Exception as error:  # noqa: BLE001 - whatever it says
        pytest.skip(f"ONNX Runtime does not run the original: {str(error)[:80]}")
    report = assert_equal_outputs(ExpandFunctionOps(ops=(op,)), text, feeds, opset=opset, tolerance=tolerance)
    assert report.rewritten


def test_attributes_have_the_defaults_of_the_specification():
    text = "g (float[4] x) => (float[4] y) { y = HardSigmoid (x) }"
    assert_equal_outputs(ExpandFunctionOps(ops=("HardSigmoid",)), text, {"x": np.float32([-9, -1, 1, 9])}, opset=18, tolerance=1e-6)


def test_a_body_that_depends_on_attributes_and_types():
    text = """g (float[3,5] x, int64[3] t) => (float y) { y = SoftmaxCrossEntropyLoss <reduction = "mean"> (x, t) }"""
    feeds = {"x": np.arange(15, dtype=np.float32).reshape(3, 5) / 7, "t": np.int64([0, 4, 2])}
    report = assert_equal_outputs(ExpandFunctionOps(ops=("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")), text, feeds, opset=13, tolerance=1e-6)
    assert len(report.rewritten) == 2  # the loss, and the loss inside


def test_only_where_extra_outputs_are_used():
    text = "g (float[2,4] x) => (float[2,4] y{}) <float[4] s = {{1.0, 2.0, 3.0, 4.0}}> {{ y, m, i = LayerNormalization (x, s) }}"
    both = {"ops": (), "only_extra_outputs": ("LayerNormalization",)}
    assert ops(text.format(""), **both) == ["LayerNormalization"]
    assert "LayerNormalization" not in ops(text.format(", float[2,1] m"), **both)


def test_no_body_is_declined():
    assert_declines(ExpandFunctionOps(ops=("Conv",)), "g (float[1,1,4] x) => (float[1,1,2] y) <float[1,1,3] w = {1.0, 2.0, 3.0}> { y = Conv (x, w) }", "by no function body")


def test_inside_a_body():
    text = """g (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = ThresholdedRelu (x) }, else_branch = e () => (float[2] b) { b = Neg (x) }> }"""
    for c in (True, False):
        assert_equal_outputs(ExpandFunctionOps(ops=("ThresholdedRelu",)), text, {"x": np.float32([0.5, 2]), "c": np.bool_(c)})
