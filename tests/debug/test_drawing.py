"""Pictures for notebooks: every node and edge of a small graph, a table of a large one, a neighborhood of any."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.debug.drawing import draw
from onnx_gs.errors import GraphValueError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N, 4] x, bool c) => (float[N, 4] y, float[N, 4] z) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
  a = Mul(x, w)
  b = If(c) <then_branch = t () => (float[N, 4] p) { p = Neg(a) }, else_branch = e () => (float[N, 4] q) { q = Abs(a) }>
  y = Add(b, x)
  z = Tanh(a)
}"""


def texts(svg: str) -> list[str]:
    return [e.text or "" for e in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    found = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")
    return [(float(r.get("x", 0)), float(r.get("y", 0)), float(r.get("width", 0)), float(r.get("height", 0))) for r in found]


def test_a_graph_is_drawn_whole() -> None:
    graph = gs.import_onnx(onnx.parser.parse_model(TEXT))
    svg = graph._repr_svg_()
    assert svg is not None
    assert {"Mul", "If", "Add", "Tanh", "x", "c", "y", "z", "with then_branch, else_branch"} <= set(texts(svg))
    assert svg.count("<path") == 8  # x to Mul and Add, c and the captured a to If, a to Tanh, b to Add, y, z
    assert graph._repr_html_() == svg


def test_boxes_do_not_overlap() -> None:
    svg = draw(gs.import_onnx(onnx.parser.parse_model(TEXT))).svg
    found = boxes(svg)
    for k, (x, y, w, h) in enumerate(found):
        assert x >= 0
        for u, v, s, t in found[k + 1 :]:
            assert x + w <= u or u + s <= x or y + h <= v or v + t <= y


def chain(count: int) -> gs.Graph:
    x = gs.Variable("x<&>", np.float32, (2,))
    graph, t = gs.Graph(inputs=[x], opset=18), x
    for i in range(count):
        new = gs.Variable(f"t{i}", np.float32, (2,))
        graph.nodes.append(gs.Node("Neg", f"n{i}", inputs=[t], outputs=[new]))
        t = new
    graph.outputs = [t]
    return graph


def test_a_large_graph_is_a_table_and_a_neighborhood_a_picture(tmp_path: Path) -> None:
    graph = chain(500)
    assert graph._repr_svg_() is None
    assert "Neg × 500" in graph._repr_html_()
    assert "x&lt;&amp;&gt;" in graph._repr_html_()
    picture = draw(graph, around="n250", hops=2)
    assert re.findall(r"n\d+", " ".join(texts(picture.svg))) == ["n248", "n249", "n250", "n251", "n252"]
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == picture._repr_svg_()
    with pytest.raises(GraphValueError, match="named 'nope'"):
        draw(graph, around="nope")


def test_an_empty_graph_has_a_picture() -> None:
    assert draw(gs.Graph()).svg.startswith("<svg")
