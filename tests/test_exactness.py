"""Folding and cleaning changes no output of any model that ONNX ships tests for, and of a folder of real ones, and loses none."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest

import onnx_gs as gs
from onnx_gs.evaluate import onnxruntime
from onnx_gs.evaluate.compare import compare
from onnx_gs.evaluate.verify import verify

STORED = Path(onnx.backend.test.__file__).parent / "data"
#: One in this many of the generated node tests runs by default; all of them are marked slow.
SAMPLE = 12


def generated():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators compute NaNs and overflows on purpose
        cases = collect_testcases(None)
    return [(c.name, c.model, list(c.data_sets[0][0]) if c.data_sets else []) for c in cases if c.model is not None]


def stored():
    from onnx.numpy_helper import to_array

    for folder in sorted(STORED.glob("pytorch-*/*")) + sorted(STORED.glob("simple/*")):
        model = onnx.load(folder / "model.onnx")
        values = []
        for k, described in enumerate(model.graph.input):
            path = folder / "test_data_set_0" / f"input_{k}.pb"
            if not path.exists():
                break
            if described.type.HasField("sequence_type"):
                values.append([to_array(t) for t in onnx.SequenceProto.FromString(path.read_bytes()).tensor_values])
            else:
                values.append(to_array(onnx.TensorProto.FromString(path.read_bytes())))
        yield folder.name, model, values


def check(name, model, values, *, constant):
    """Fold a model, its inputs constant or not; say what went wrong, None if nothing, and whether it ran."""
    before, after = gs.import_onnx(model), gs.import_onnx(model)
    given = {i.name: v for i, v in zip(model.graph.input, values)}
    if constant:
        for t in list(after.inputs):
            value = given.get(t.name)
            if isinstance(value, (np.ndarray, np.generic)):
                array = np.asarray(value)
                t.to_constant(array.astype(object) if array.dtype.kind in "US" else array)
                after.inputs.remove(t)
    after.infer_shapes()
    after.fold_constants().cleanup()
    exported = gs.export_onnx(after)
    if [t.name for t in before.outputs] != [t.name for t in after.outputs]:
        return f"{name}: outputs are renamed", False
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        pass
    else:
        onnx.checker.check_model(exported)
    try:
        session = onnxruntime.session(before)
        expected = session.compute([(t, given[t.name]) for t in session.inputs if t.name in given], session.outputs)
    except gs.EvaluationError:
        return None, False  # ONNX Runtime has no kernel, or the test wants an error
    session = onnxruntime.session(after)
    found = session.compute([(t, given[t.name]) for t in session.inputs if t.name in given], session.outputs)
    for t, x, y in zip(before.outputs, expected, found):
        difference = compare(x, y)
        if difference is not None:
            return f"{name}: output '{t.name}': {difference}", True
    return None, True


def check_all(cases, *, constant, least):
    problems, ran = [], 0
    for name, model, values in cases:
        problem, did_run = check(name, model, values, constant=constant)
        ran += did_run
        if problem:
            problems.append(problem)
    assert not problems, "\n".join(problems)
    assert ran >= least


@pytest.mark.parametrize("constant", [False, True])
def test_stored_models(constant):
    check_all(stored(), constant=constant, least=100)


def test_a_sample_of_the_generated_models():
    cases = generated()
    check_all(cases[::SAMPLE], constant=False, least=100)
    check_all(cases[SAMPLE // 2 :: SAMPLE], constant=True, least=100)


@pytest.mark.slow
@pytest.mark.parametrize("constant", [False, True])
def test_all_generated_models(constant):
    check_all(generated(), constant=constant, least=1500)


def corpus():
    """List the models, one of each name, whose two sessions fit into an ordinary machine's memory."""
    folder = os.environ.get("ONNX_GS_CORPUS")
    found = {}
    for path in sorted(Path(folder).rglob("*.onnx")) if folder else []:
        if sum(p.stat().st_size for p in path.parent.glob(path.name + "*")) < 200e6:
            found.setdefault(path.stem, path)
    return list(found.values())


@pytest.mark.corpus
@pytest.mark.skipif(not corpus(), reason="ONNX_GS_CORPUS names no folder of models")
@pytest.mark.parametrize("path", corpus(), ids=lambda p: p.stem)
def test_corpus(path):
    if path.stem.endswith(("100k", "100k_init")):
        pytest.skip("ONNX Runtime takes very long to load a chain of 100,000 nodes")
    before, after = gs.load(path), gs.load(path)
    after.infer_shapes()
    after.fold_constants().cleanup()
    assert [t.name for t in after.outputs] == [t.name for t in before.outputs]
    try:
        found = verify(before, after, sets=2)
    except gs.EvaluationError:
        pytest.skip("ONNX Runtime does not load the original")
    assert not found.outputs, str(found)
