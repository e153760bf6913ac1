"""Every example runs as its README says, and makes what it claims, in ONNX Runtime."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import sys
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import onnx_gs as gs

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path for path in (ROOT / "examples").glob("[0-9][0-9]_*") if path.is_dir())
COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)


def commands(folder: Path) -> list[list[str]]:
    text = (folder / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in COMMAND.findall(block)]


def run(command: list[str], monkeypatch) -> str:
    """Run one command of an example's README, in this process and folder; give what it printed."""
    out = io.StringIO()
    command = [str(ROOT / argument) if argument.startswith("examples/") else argument for argument in command]
    with contextlib.redirect_stdout(out):
        if command[0].rpartition("/")[2] == "onnx-gs":
            from onnx_gs.cli.main import main

            assert main(command[1:]) in {0, 1}
        else:
            assert command[0] in {"python", "python3"}, command
            monkeypatch.setattr(sys, "argv", command[1:])
            runpy.run_path(command[1], run_name="__main__")
    return out.getvalue()


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gs.Graph, "GLOBAL_FUNC_MAP", dict(gs.Graph.GLOBAL_FUNC_MAP))
    monkeypatch.setattr(gs.Graph, "OPSET_FUNC_MAP", {opset: dict(functions) for opset, functions in gs.Graph.OPSET_FUNC_MAP.items()})
    return tmp_path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_example_does_what_its_readme_says(folder, scratch, monkeypatch):
    assert commands(folder), "the README has no command in a console block"
    said = "".join(run(command, monkeypatch) for command in commands(folder))
    check = CHECKS.get(folder.name[:2])
    if check is not None:
        check(said)


def test_git_ignores_what_the_examples_write():
    written = re.findall(r"\"(\w+\.onnx|bisect)\"", "".join(script.read_text(encoding="utf-8") for f in FOLDERS for script in f.glob("*.py")))
    written += re.findall(r"-o (\S+)", "".join((f / "README.md").read_text(encoding="utf-8") for f in FOLDERS))
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines() if line.startswith("/")]
    assert written
    for name in (*written, "test_data_set_0", "test_data_set_0.npz"):
        assert any(fnmatch(name, pattern) for pattern in ignored), name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_example_folder_has_one_script_named_like_it(folder):
    assert [path.name for path in folder.glob("*.py")] == [folder.name[3:] + ".py"]
    assert (folder / "README.md").exists()


# -- what each example's result is ----------------------------------------------------------------


def runtime(model: str, *outputs: str, **feeds: np.ndarray) -> list[np.ndarray]:
    """Run a model in ONNX Runtime, graph optimizations and weight prepacking off."""
    ort = pytest.importorskip("onnxruntime")
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.add_session_config_entry("session.disable_prepacking", "1")
    session = ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    return session.run(list(outputs) or None, feeds)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(11).normal(size=shape).astype(np.float32)


def ops(model: str) -> list[str]:
    return [node.op for node in gs.load(model).nodes]


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


def create_model(said: str) -> None:
    assert "measure (ReduceL2)" in said
    for count in (1, 5):
        rows = numbers(count, 3)
        (unit,) = runtime("unit_rows.onnx", rows=rows)
        np.testing.assert_allclose(unit, rows / np.linalg.norm(rows, axis=1, keepdims=True), rtol=1e-6)


def add_initializers(said: str) -> None:
    assert "Constant (weights): (shape=(3, 1), dtype=float32)" in said
    weather = np.float32([[20, 50, 3], [0, 90, 10]])
    (score,) = runtime("comfort.onnx", weather=weather)
    np.testing.assert_allclose(score, [[1.5], [-30]], rtol=1e-6)


def isolate_subgraph(said: str) -> None:
    import onnx

    whole = onnx.load(ROOT / "examples" / "models" / "keyword_spotter.onnx")
    begin, end = "/stem/Conv_output_0", "/mix/Conv_output_0"
    whole.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in (begin, end))
    onnx.save(whole, "whole.onnx")
    before, wanted = runtime("whole.onnx", begin, end, features=numbers(3, 40, 48))
    (got,) = runtime("part.onnx", **{begin: before})
    same(got, wanted)
    assert len(gs.load("part.onnx").nodes) < 60


def modify_model(said: str) -> None:
    decibels = numbers(2, 40, 48) * 30
    (logits,) = runtime("modified.onnx", decibels=decibels)
    demo = str(ROOT / "examples" / "models" / "keyword_spotter.onnx")
    (scores,) = runtime(demo, features=decibels * np.float32(np.log(10) / 10))
    shares = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(shares / shares.sum(1, keepdims=True), scores, rtol=1e-5)
    assert "Softmax" not in ops("modified.onnx")


def fold_constants(said: str) -> None:
    assert ops("folded.onnx") == ["Mul"]
    signal = numbers(4, 8)
    same(runtime("folded.onnx", signal=signal)[0], runtime("arithmetic.onnx", signal=signal)[0])
    np.testing.assert_allclose(runtime("folded.onnx", signal=signal)[0], signal * np.hanning(9)[:8], rtol=1e-5, atol=1e-6)


def remove_nodes(said: str) -> None:
    assert ops("without_probes.onnx") == ["Add", "Tanh"]
    x = numbers(4)
    np.testing.assert_allclose(runtime("without_probes.onnx", x=x)[0], np.tanh(x + x), rtol=1e-6)


def build_with_layers(said: str) -> None:
    assert ops("network.onnx") == ["Gemm", "Sigmoid", "Mul", "Gemm"]
    pixels = numbers(3, 64)
    tensors = [node.inputs[1].values for node in gs.load("network.onnx").nodes if node.op == "Gemm"]
    hidden = pixels @ tensors[0]
    np.testing.assert_allclose(runtime("network.onnx", pixels=pixels)[0], (hidden / (1 + np.exp(-hidden))) @ tensors[1], rtol=1e-4, atol=1e-5)


def replace_subgraph(said: str) -> None:
    assert said.startswith("2 found")
    assert ops("replaced.onnx") == ["Gelu", "Gelu"]
    x = numbers(5, 8)
    np.testing.assert_allclose(runtime("replaced.onnx", x=x)[0], runtime("exported.onnx", x=x)[0], rtol=1e-5, atol=1e-6)


def fold_shapes(said: str) -> None:
    assert len(ops("folded.onnx")) < len(ops("exported.onnx"))
    assert "Mul" not in ops("folded.onnx")
    for batch in (1, 4):
        image = numbers(batch, 3, 16, 16)
        same(runtime("folded.onnx", image=image)[0], image.reshape(batch, 3, 256))
        same(runtime("exported.onnx", image=image)[0], image.reshape(batch, 3, 256))


def make_batch_dynamic(said: str) -> None:
    assert "declined: nothing" in said
    for made in ("dynamic.onnx", "dynamic_too.onnx", "dynamic_bound.onnx"):
        assert gs.load(made).inputs[0].shape[0] == "batch"
        x = numbers(1, 6)
        same(runtime(made, x=x)[0], runtime("fixed.onnx", x=x)[0])
        many = numbers(7, 6)
        weights = np.arange(48, dtype=np.float32).reshape(6, 8) / 48
        np.testing.assert_allclose(runtime(made, x=many)[0], (many @ weights).reshape(7, 2, 4), rtol=1e-5, atol=1e-6)


def define_function(said: str) -> None:
    left, right = numbers(6), numbers(6) + 1
    half = left + (right - left) / 2
    np.testing.assert_allclose(runtime("blended.onnx", left=left, right=right)[0], left + (half - left) / 4, rtol=1e-6)
    assert [f.name for f in gs.load("blended.onnx").functions] == ["Blend"]


def store_ml_dtypes(said: str) -> None:
    constants = [t.values for t in gs.load("small.onnx").tensors().values() if isinstance(t, gs.Constant)]
    brain, integers = (next(v for v in constants if v.dtype.name == name) for name in ("bfloat16", "int4"))
    x = numbers(2, 64)
    wanted = x @ brain.astype(np.float32) @ (integers.astype(np.float32) * np.float32(0.05))
    np.testing.assert_allclose(runtime("small.onnx", x=x)[0], wanted, rtol=1e-4, atol=1e-4)
    assert Path("small.onnx").stat().st_size < 5200


def unroll_loop(said: str) -> None:
    assert "left over: nothing" in said
    assert ops("unrolled.onnx") == ops("unrolled_too.onnx") == ["MatMul", "Tanh"] * 5
    assert ops("kept.onnx") == ["Loop"]
    state = numbers(1, 8)
    for made in ("unrolled.onnx", "unrolled_too.onnx", "kept.onnx"):
        same(runtime(made, state=state)[0], runtime("looped.onnx", state=state)[0])


def lower_sum_even(said: str) -> None:
    assert "any count: ['Loop']" in said
    assert "six items: no control flow" in said
    exported = str(ROOT / "examples" / "models" / "sum_even.onnx")
    for count, made in ((6, "six_items.onnx"), (6, "sum_even_of_six.onnx"), (6, "any_count.onnx"), (1, "any_count.onnx"), (0, "sum_even_lowered.onnx")):
        items = np.float32([4, 7, 10, -2, 3, 8])[:count]
        for got, wanted in zip(runtime(made, items=items), runtime(exported, items=items)):
            same(got, wanted)


def decide_if(said: str) -> None:
    assert ops("decided.onnx") == ["Squeeze", "Relu"]
    for count in (1, 3):
        rows = numbers(1, count, 4)
        same(runtime("decided.onnx", rows=rows)[0], runtime("asked.onnx", rows=rows)[0])


CHECKS = {
    "01": create_model, "02": add_initializers, "03": isolate_subgraph, "04": modify_model, "05": fold_constants, "06": remove_nodes,
    "07": build_with_layers, "08": replace_subgraph, "09": fold_shapes, "10": make_batch_dynamic, "11": define_function, "12": store_ml_dtypes,
    "13": unroll_loop, "14": lower_sum_even, "15": decide_if,
}  # fmt: skip
