"""Verification: both graphs run on several inputs; what differs is named."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.evaluate.verify import require_same, verify
from tests.support.rewrites import parse

TEXT = "g (float[n] x) => (float[n] y, float[n] z) {{ y = Neg (x) z = {} (y) }}"


def test_same():
    found = verify(parse(TEXT.format("Exp")), parse(TEXT.format("Exp")))
    assert found.same
    assert found.ran == 3
    assert found.as_dict() == {"result": "same", "runs": 3, "skipped": [], "outputs": {}}


def test_the_output_that_differs_is_named():
    found = verify(parse(TEXT.format("Exp")), parse(TEXT.format("Abs")))
    assert list(found.outputs) == ["z"]
    assert found.result == "different"
    assert "output 'z' differs" in str(found)
    with pytest.raises(gs.VerificationError, match="output 'z'"):
        require_same(parse(TEXT.format("Exp")), parse(TEXT.format("Abs")))


def test_tolerances():
    a, b = (parse(f"g (float[n] x) => (float[n] y) <float[1] k = {{{k}}}> {{ y = Mul (x, k) }}") for k in (1.0, 1.000001))
    assert not verify(a, b).same
    found = verify(a, b, relative=1e-4)
    assert found.same
    assert 0 < found.worst < 1e-4


def test_sizes_that_only_one_graph_takes_are_found():
    fixed = parse("g (float[n] x) => (float[n] y) <float[2] k = {0, 0}> { y = Add (x, k) }")
    free = parse("g (float[n] x) => (float[n] y) <float[1] k = {0}> { y = Add (x, k) }")
    assert verify(free, fixed).result == "different"
    assert verify(fixed, free).skipped
    assert verify(fixed, free).same
    assert verify(fixed, free, dims={"n": 3}).result == "not run"


def test_a_graph_that_no_longer_loads_is_different():
    broken = parse(TEXT.format("Exp"))
    broken.nodes[1].op = "NoSuchOp"
    assert "no longer be loaded" in str(verify(parse(TEXT.format("Exp")), broken))


def test_inputs_may_be_given():
    a, b = parse(TEXT.format("Abs")), parse(TEXT.format("Neg"))
    assert verify(a, b, feeds=[{"x": np.float32([-1, -2])}]).result == "different"
    assert verify(a, b, feeds=[{"x": np.float32([1, 2])}]).result == "same"


def test_sizes_and_integers_that_both_run_on_are_looked_for():
    framed = "g (float[n, w] x) => (float[n, m, 32] y) <int64[3] s = {0, -1, 32}> { y = Reshape (x, s) }"
    found = verify(parse(framed), parse(framed))
    assert (found.result, found.ran, found.skipped) == ("same", 3, [])
    assert found.feeds[0]["x"].shape == (2, 32)
    rows = "g (float[2, 3] t, int64[n] i) => (float[n, 3] y) { y = Gather (t, i) }"
    assert verify(parse(rows), parse(rows)).same


def test_both_run_on_as_many_threads(monkeypatch):
    from onnx_gs.debug.layerwise import layerwise
    from onnx_gs.evaluate import onnxruntime
    from onnx_gs.trt.comparison import compare

    made = parse("g (float[1] x) => (float[700, 700] y) <int64[2] s = {700, 700}> { w = ConstantOfShape (s) y = Add (x, w) }")
    held = made.copy()
    held.nodes[1].inputs[1] = gs.Constant("w", np.zeros((700, 700), np.float32))
    opened = []
    session = onnxruntime.session

    def watched(graph, **options):
        opened.append(session(graph, **options))
        return opened[-1]

    monkeypatch.setattr(onnxruntime, "session", watched)
    assert session(made).threads != session(held).threads  # each on its own
    for both in ((made, held), (held, made)):
        for run in (verify, compare, layerwise):
            opened.clear()
            run(*both)
            assert len({one.threads for one in opened}) == 1
