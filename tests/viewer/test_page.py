"""The page in headless Chromium: it opens, answers, and stays quick on thousands of nodes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.cli.main import main
from onnx_gs.viewer.page import page

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1400,900", "--virtual-time-budget=20000",
]  # fmt: skip

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N, 4] x, bool c) => (float[N, 4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
  [mul] a = Mul(x, w)
  [branch] b = If(c) <then_branch = t () => (float[N, 4] p) { [inner] p = Neg(a) }, else_branch = e () => (float[N, 4] q) { q = Abs(a) }>
  [last] y = Tanh(b)
}"""


def model() -> gs.Graph:
    graph = gs.import_onnx(onnx.parser.parse_model(TEXT))
    for node, name in zip(graph.nodes, ("mul", "branch", "last")):
        node.name = name
    graph.nodes[1].attrs["then_branch"].nodes[0].name = "inner"
    return graph


def layered(layers: int) -> gs.Graph:
    """Give a model of ten nodes a layer, as exporters name them."""
    x = gs.Variable("x", np.float32, ("N", 8))
    graph, t = gs.Graph(inputs=[x], opset=18), x
    for layer in range(layers):
        start = t
        for k, op in enumerate(["MatMul", "Add", "Relu", "MatMul", "Add", "Sigmoid", "Mul", "Tanh", "Neg", "Add"]):
            new = gs.Variable(f"t{layer}_{k}", np.float32, ("N", 8))
            second = start if k == 9 else gs.Constant(f"w{layer}_{k}", np.ones((8, 8), np.float32)) if op in {"MatMul", "Add", "Mul"} else None
            graph.nodes.append(gs.Node(op, f"/model/layers.{layer}/{op}_{k}", inputs=[t] if second is None else [t, second], outputs=[new]))
            t = new
    graph.outputs = [t]
    return graph


def browse(text: str, script: str, folder: Path) -> Any:
    """Open a page, run a script in it, and give the value that it returns."""
    assert CHROMIUM is not None
    runner = (
        "<script>window.onerror = (m) => { document.body.append(m); }; (async () => { let found; "
        f"try {{ found = await (async () => {{ {script} }})(); }} catch (error) {{ found = {{error: String(error.stack)}}; }}"
        "const made = document.createElement('pre'); made.id = 'found'; made.textContent = JSON.stringify(found); document.body.append(made); })();</script>"
    )
    file = folder / "page.html"
    file.write_text(text.replace("</body></html>", runner + "</body></html>"), encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-3000:] + done.stderr[-2000:]
    value = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert not (isinstance(value, dict) and "error" in value), value
    return value


@needs_chromium
def test_bodies_open_close_and_nodes_are_found(tmp_path: Path) -> None:
    script = """
    const pane = onnxView.panes[0], texts = () => [...document.querySelectorAll('.leaf text.op')].map((t) => t.textContent);
    const open = texts(); pane.toggle('n1'); const closed = texts();
    const box = document.querySelector('input'); box.value = 'inner'; box.dispatchEvent(new Event('input'));
    const hits = document.querySelectorAll('.results div').length;
    box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
    const title = document.querySelector('aside h2').textContent, revealed = texts();
    const before = pane.at.k; pane.svg.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, clientX: 400, clientY: 300}));
    const zoomed = pane.at.k / before, x = pane.at.x;
    pane.svg.dispatchEvent(new PointerEvent('pointerdown', {clientX: 300, clientY: 300}));
    window.dispatchEvent(new PointerEvent('pointermove', {clientX: 360, clientY: 300})); window.dispatchEvent(new PointerEvent('pointerup', {}));
    document.querySelector('.leaf.value').dispatchEvent(new MouseEvent('click', {bubbles: true}));
    return {open, closed, hits, title, revealed, zoomed, panned: pane.at.x - x};
    """
    found = browse(page(model()), script, tmp_path)
    assert sorted(found["open"]) == ["Abs", "If", "Mul", "Neg", "Tanh"]
    assert sorted(found["closed"]) == ["If", "Mul", "Tanh"]
    assert found["hits"] == 1
    assert found["title"] == "Neg"
    assert sorted(found["revealed"]) == ["Abs", "If", "Mul", "Neg", "Tanh"]
    assert found["zoomed"] > 1.2
    assert found["panned"] == pytest.approx(60)


@needs_chromium
def test_thousands_of_nodes_open_and_answer(tmp_path: Path) -> None:
    script = """
    const pane = onnxView.panes[0], first = pane.layoutMs, leaves = pane.leaves.size, began = performance.now();
    onnxView.goTo(pane, 3777); const went = performance.now() - began;
    const shown = [...document.querySelectorAll('.leaf.on text.op')].map((t) => t.textContent);
    const searching = performance.now(); onnxView.search('layers.499/Add_9'); const searched = performance.now() - searching;
    return {first, leaves, went, searched, shown, hits: document.querySelectorAll('.results div').length};
    """
    graph = layered(500)
    assert len(graph.nodes) == 5000
    found = browse(page(graph), script, tmp_path)
    print(found)
    assert found["leaves"] < 200
    assert found["shown"] == ["Tanh"]
    assert found["hits"] >= 1
    assert max(found["first"], found["went"], found["searched"]) < 10_000  # tenths of a second on an idle machine; tests share theirs


@needs_chromium
def test_two_models_side_by_side(tmp_path: Path) -> None:
    after = model()
    after.nodes[2].op = "Sigmoid"
    script = """
    onnxView.goTo(onnxView.panes[0], 2);
    return {rings: [...document.querySelectorAll('.ring')].map((r) => r.className.baseVal), twins: document.querySelectorAll('.leaf.twin').length,
            text: document.querySelector('aside').textContent};
    """
    found = browse(page(model(), after), script, tmp_path)
    assert found["rings"] == ["ring changed", "ring changed"]
    assert found["twins"] == 1
    assert "operator Tanh -> Sigmoid" in found["text"]


def test_the_page_fetches_nothing_and_ends_no_script_early() -> None:
    graph = model()
    graph.nodes[0].name = "</script><script>alert(1)</script>"
    text = page(graph)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["models"][0]["nodes"][0]["n"] == graph.nodes[0].name
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    assert "Permission is hereby granted" in text


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gs.save(model(), tmp_path / "m.onnx")
    assert main(["view", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.html"), "--weights"]) == 0
    assert "histogram" in (tmp_path / "m.html").read_text(encoding="utf-8")
    assert main(["view", str(tmp_path / "m.onnx"), str(tmp_path / "m.onnx"), "-o", str(tmp_path / "two.html"), "--json"]) == 0
    assert main(["view", str(tmp_path / "m.onnx")]) == 2
    assert "-o page.html" in capsys.readouterr().err
