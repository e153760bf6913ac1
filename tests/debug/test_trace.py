"""Rewrites are recorded, replayed from a file, and a bad one is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import onnx.parser
import pytest

import onnx_gs as gs
from onnx_gs.debug import trace as tracing
from onnx_gs.debug.trace import Trace, trace
from onnx_gs.errors import GraphValueError
from onnx_gs.ir import edit, isomorphism, walk
from onnx_gs.passes import catalogue
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y) {
  a = Identity(x)
  b = Neg(a)
  c = Identity(b)
  d = Abs(c)
  e = Identity(d)
  f = Exp(e)
  h = Identity(f)
  y = Neg(h)
}"""


@dataclass(frozen=True)
class DropAbs(Pass):
    """Bypass every Identity, and wrongly every Abs."""

    name: ClassVar[str] = "drop-abs"

    def run(self, graph: gs.Graph, report: Report) -> None:
        with edit.Editor(graph) as editor:
            for owner, node in walk.nodes(graph):
                if node.op in {"Identity", "Abs"}:
                    report.rewrote(owner, node, "bypassed")
                    editor.bypass(owner, node)


@pytest.fixture
def wrong_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "PASSES", (*catalogue.PASSES, DropAbs))


def model() -> gs.Graph:
    return gs.import_onnx(onnx.parser.parse_model(TEXT))


def test_rewrites_are_recorded_and_replayed(tmp_path: Path) -> None:
    graph = model()
    found = trace(graph, "eliminate-identity,cleanup", changes=True)
    assert len(found.steps[0].rewritten) == 4
    assert found.steps[0].nodes == (8, 4)
    assert any("removed" in c or c.startswith("-") for c in found.steps[0].changes)
    found.save(tmp_path / "trace.json")
    again = Trace.load(tmp_path / "trace.json")
    assert isomorphism.difference(again.replay(model()), graph) is None
    assert isomorphism.difference(again.replay(model(), 0), model()) is None
    assert found.blame() is None


@pytest.mark.usefixtures("wrong_pass")
def test_a_bad_result_is_traced_to_the_one_rewrite() -> None:
    found = trace(model(), "cleanup,drop-abs,cleanup")
    culprit = found.blame()
    assert culprit is not None
    assert culprit.text == "drop-abs"
    assert culprit.rewrite is not None
    assert culprit.rewrite.op == "Abs"
    assert "output 'y'" in culprit.difference
    assert "Abs" in str(culprit)


@pytest.mark.usefixtures("wrong_pass")
def test_any_judge_will_do() -> None:
    found = trace(model(), "drop-abs")
    culprit = found.blame(is_good=lambda graph: any(n.op == "Abs" for n in graph.nodes))
    assert culprit is not None
    assert culprit.rewrite is not None
    assert culprit.rewrite.op == "Abs"
    with pytest.raises(GraphValueError, match="bad before any pass"):
        found.blame(is_good=lambda _: False)


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(GraphValueError, match="is no trace"):
        Trace.load(tmp_path / "x.json")
    with pytest.raises(GraphValueError, match="has no model"):
        Trace().blame()
    assert str(Trace()) == "nothing was rewritten"
    assert tracing.Step("cleanup", (1, 1), (), ()).seconds == 0
    assert np.float32(0) == 0
