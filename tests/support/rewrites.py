"""Tests of a pass as two texts: before and after, with ONNX Runtime on both sides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest

import onnx_gs as gs
from onnx_gs.analysis import shape_inference
from onnx_gs.ir import isomorphism, verify

if TYPE_CHECKING:
    from onnx_gs.passes.base import Pass, Report


def parse(text: str, opset: int = 18, ir_version: int = 9, functions: str = "") -> gs.Graph:
    """Make a graph of ONNX text; ``text`` is one graph, without the model's header."""
    return gs.import_onnx(model(text, opset, ir_version, functions))


def model(text: str, opset: int = 18, ir_version: int = 9, functions: str = "") -> onnx.ModelProto:
    """Make a model of ONNX text."""
    domains = ', "local" : 1' if functions else ""
    try:
        return onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : {opset}{domains}]>\n{text}\n{functions}')
    except onnx.parser.ParseError:
        is_newer_syntax = '""' in text + functions or re.search(r"^\s*\[\w+\]\s*\w+ = ", text + functions, re.MULTILINE)
        if is_newer_syntax and tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 20):
            pytest.skip("the text syntax of this onnx has no omitted inputs and no names of nodes")
        raise


def run(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Run a model in ONNX Runtime, graph optimizations and weight prepacking off."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", "1")
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: np.asarray(feeds[i.name]) for i in session.get_inputs() if i.name in feeds})


def assert_same(expected: list[Any], found: list[Any], tolerance: float = 0.0) -> None:
    """Compare outputs: dtype, shape and values, bit for bit unless a tolerance is given; NaN equals NaN, +0 equals -0."""
    assert len(expected) == len(found)
    for x, y in zip(expected, found):
        if isinstance(x, list):
            assert_same(x, y, tolerance)
            continue
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        if tolerance and x.dtype.kind == "f":
            np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance)
        elif x.dtype.kind == "f":
            assert np.array_equal(x, y, equal_nan=True), f"{x} against {y}"
        else:
            assert np.array_equal(x, y), f"{x} against {y}"


def feeds_of(proto: onnx.ModelProto, given: dict[str, Any]) -> list[dict[str, Any]]:
    """List feeds for a model: as given if any, every input that is not given drawn from a seed."""
    rng = np.random.default_rng(7)
    kinds = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
    weights = {t.name for t in proto.graph.initializer}
    feeds = dict(given)
    for v in proto.graph.input:
        if v.name in feeds or v.name in weights:
            continue
        shape = [d.dim_value if d.HasField("dim_value") else 3 for d in v.type.tensor_type.shape.dim]
        kind = kinds[v.type.tensor_type.elem_type]
        floats = np.issubdtype(kind, np.floating)
        feeds[v.name] = np.asarray(rng.standard_normal(shape) if floats else rng.integers(0, 2 if kind is np.bool_ else 4, shape)).astype(kind)
    return [feeds]


def assert_rewrites(
    rewrite: Pass, before: str, after: str, *, opset: int = 18, functions: str = "", tolerance: float = 0.0, more: list[dict[str, Any]] | None = None,
    **feeds: Any,
) -> Report:  # fmt: skip
    """Check that a pass turns one text into the other, soundly, with equal outputs in ONNX Runtime.

    Args:
        rewrite: the pass.
        before: the graph, as ONNX text.
        after: what it becomes, up to names of internal tensors and nodes.
        opset: version of ONNX's own operators.
        functions: local functions, as ONNX text.
        tolerance: where the pass says that it reorders arithmetic: how far outputs may differ.
        more: further feeds.
        feeds: arrays by input; what is missing is drawn from a seed.
    """
    source = model(before, opset, functions=functions)
    onnx.checker.check_model(source)
    graph = gs.import_onnx(source)
    shape_inference.infer(graph)
    report = rewrite(graph)
    assert not verify.problems(graph)
    assert report.rewritten, f"nothing was rewritten; declined: {[e.reason for e in report.declined]}"
    wanted = parse(after, opset, functions=functions)
    difference = isomorphism.difference(graph, wanted)
    assert difference is None, f"{difference}\n{show(graph)}"
    result = gs.export_onnx(graph)
    onnx.checker.check_model(result)
    _assert_interface(source, result)
    for each in [*feeds_of(source, feeds), *(more or [])]:
        assert_same(run(source, each), run(result, each), tolerance)
    return report


def assert_declines(rewrite: Pass, text: str, reason: str, *, opset: int = 18, functions: str = "") -> Report:
    """Check that a pass leaves a text as it is, and says why: ``reason`` is part of what it says; empty where it has nothing to say."""
    source = model(text, opset, functions=functions)
    graph = gs.import_onnx(source)
    shape_inference.infer(graph)
    report = rewrite(graph)
    assert not report.rewritten, [f"{e.op}: {e.reason}" for e in report.rewritten]
    difference = isomorphism.difference(graph, parse(text, opset, functions=functions))
    assert difference is None, difference
    reasons = [e.reason for e in report.declined]
    assert any(reason in r for r in reasons) if reason else not reasons, reasons
    return report


def assert_equal_outputs(rewrite: Pass, text: str, *feeds: dict[str, Any], opset: int = 18, functions: str = "", tolerance: float = 0.0) -> Report:
    """Check that a pass keeps a text sound and its outputs equal, whatever it does."""
    source = model(text, opset, functions=functions)
    graph = gs.import_onnx(source)
    shape_inference.infer(graph)
    report = rewrite(graph)
    assert not verify.problems(graph), verify.problems(graph)
    result = gs.export_onnx(graph)
    _assert_interface(source, result)
    for each in feeds or feeds_of(source, {}):
        assert_same(run(source, each), run(result, each), tolerance)
    return report


def _assert_interface(source: onnx.ModelProto, result: onnx.ModelProto) -> None:
    for x, y in ((source.graph.input, result.graph.input), (source.graph.output, result.graph.output)):
        assert [v.name for v in x] == [v.name for v in y]
        assert [v.type.tensor_type.elem_type for v in x] == [v.type.tensor_type.elem_type for v in y]


def show(graph: gs.Graph) -> str:
    """Give a graph as ONNX text."""
    return str(onnx.printer.to_text(gs.export_onnx(graph).graph))
