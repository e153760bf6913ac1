"""Every model of ONNX's own backend tests through ``simplify``: none lost, none changed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.evaluate.compare import compare
from tests.support.rewrites import run

RANDOM = ("bernoulli", "random", "multinomial", "training_dropout")


def cases():
    loader = pytest.importorskip("onnx.backend.test.loader")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loader.load_model_tests(kind="node")


def feeds_of(case):
    inputs = case.data_sets[0][0]
    return {v.name: value if value is None or isinstance(value, (list, np.ndarray)) else np.asarray(value) for v, value in zip(case.model.graph.input, inputs)}


def verdict(case):
    """Give None where the model is as it was, else what is wrong; models that ONNX Runtime does not run need only survive."""
    model = case.model
    graph = gs.import_onnx(model).simplify()
    result = gs.export_onnx(graph)
    weights = {w.name for w in model.graph.initializer}
    if [v.name for v in result.graph.input if v.name not in weights] != [v.name for v in model.graph.input if v.name not in weights]:
        return "inputs changed"
    if [(v.name, v.type) for v in result.graph.output] != [(v.name, v.type) for v in model.graph.output]:
        return "outputs changed"
    try:
        expected = run(model, feeds_of(case))
    except Exception:  # noqa: BLE001 - ONNX Runtime lacks many of these
        return None
    found = run(result, feeds_of(case))
    if any(word in case.name for word in RANDOM):
        return None
    differences = [str(d) for d in map(compare, expected, found) if d is not None]
    return differences[0] if differences else None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_model_is_lost_or_changed():
    wrong = {}
    seen = 0
    for case in cases():
        try:
            seen += 1
            found = verdict(case)
        except Exception as error:  # noqa: BLE001 - one bad case must not hide the others
            found = f"{type(error).__name__}: {error}"
        if found is not None:
            wrong[case.name] = found[:200]
    assert seen > 1000
    assert not wrong, wrong


