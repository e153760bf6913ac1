"""Models exported from scripted PyTorch: each lowered as far as it goes, equal in ONNX Runtime, and built where a TensorRT library is installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from onnx_gs.passes.lower_control_flow import LowerControlFlow, left_by_op
from tests.support.rewrites import assert_same, run

pytestmark = pytest.mark.corpus

FOLDER = Path(os.environ.get("ONNX_GS_CORPUS", "."))
#: model -> sizes of the symbolic dims to run with, the symbols' sizes for a bound run, what an open length leaves
MODELS: dict[str, tuple[list[dict[str, int]], dict[str, int], dict[str, int]]] = {
    "sum_even_ts": ([{"n": k} for k in (0, 1, 5, 12)], {"n": 5}, {"Loop": 1}),
    "sum_even_items_ts": ([{"n": k} for k in (0, 1, 7)], {"n": 7}, {"Loop": 1}),
    "lstm_loop_ts": ([{"t": k} for k in (1, 2, 9)], {"t": 9}, {"Loop": 1}),
    "gru_loop_ts": ([{"t": k} for k in (1, 2, 9)], {"t": 9}, {"Loop": 1}),
    "greedy_decode_ts": ([{}] * 4, {}, {"Loop": 1}),
    "nested_loops_ts": ([{"n": n, "m": m} for n, m in ((3, 4), (1, 1), (5, 2))], {"n": 3, "m": 4}, {"Loop": 2, "If": 1}),
    "while_norm_ts": ([{}] * 3, {}, {"Loop": 1}),
    "cond_hop_dyn": ([{}] * 3, {}, {"If": 1}),
    "scan_hop_dyn": ([{}] * 2, {}, {}),
}


def found(name: str) -> Path:
    path = next((p for p in (FOLDER / "exp" / f"{name}.onnx", FOLDER / f"{name}.onnx") if p.exists()), None)
    if path is None:
        pytest.skip(f"{name}.onnx is not in {FOLDER}")
    return path


def feeds(model: onnx.ModelProto, dims: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    made = {}
    for v in model.graph.input:
        shape = [d.dim_value if d.HasField("dim_value") else dims[d.dim_param] for d in v.type.tensor_type.shape.dim]
        whole = v.type.tensor_type.elem_type == onnx.TensorProto.INT64
        made[v.name] = rng.integers(0, 4, shape) if whole else np.round(rng.standard_normal(shape) * 4).astype(np.float32)
    return made


@pytest.mark.parametrize("name", MODELS)
def test_for_any_length(name):
    source = onnx.load(found(name))
    sizes, _, left = MODELS[name]
    graph = gs.import_onnx(source)
    report = LowerControlFlow()(graph)
    assert left_by_op(report.left) == left
    result = gs.export_onnx(graph)
    for seed, dims in enumerate(sizes):
        each = feeds(source, dims, seed)
        assert_same(run(source, each), run(result, each))
    if importlib.util.find_spec("tensorrt_rtx"):
        from onnx_gs.trt.builder import build

        open_inputs = [t for t in graph.inputs if any(isinstance(d, str) for d in t.shape)]
        ranges = {t.name: [tuple(n if isinstance(d, str) else d for d in t.shape) for n in (1, 4, 8)] for t in open_inputs}
        assert build(graph, **({"shapes": ranges} if ranges else {})).size


@pytest.mark.parametrize("name", MODELS)
def test_for_a_stated_length(name):
    source = onnx.load(found(name))
    _, bound, _ = MODELS[name]
    if not bound:
        pytest.skip("no dim is symbolic")
    graph = gs.import_onnx(source)
    report = LowerControlFlow(bind=bound, where=40)(graph)
    assert not {"Loop", "Scan"} & set(left_by_op(report.left))
    each = feeds(source, bound, 3)
    assert_same(run(source, each), run(gs.export_onnx(graph), each))
