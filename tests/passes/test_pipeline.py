"""Passes in a row, to a fixpoint, from text, and verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.passes import catalogue
from onnx_gs.passes.base import Pass
from onnx_gs.passes.cleanup import Cleanup
from onnx_gs.passes.fold_constants import FoldConstants
from onnx_gs.passes.pipeline import Fixpoint, Pipeline, parse
from tests.support import rewrites

TEXT = """g (float[n] x) => (float[n] y, float[n] z) <float[1] a = {1}> {
    b = Exp (a) h = Mul (x, b) i = Neg (h) y = Abs (i) z = Add (x, b) }"""


@dataclass(frozen=True)
class Break(Pass):
    """Replaces Neg by Exp, which is wrong."""

    name: ClassVar[str] = "break"

    def run(self, graph, report):
        for node in graph.nodes:
            if node.op == "Neg":
                report.rewrote(graph, node, "broken")
                node.op = "Exp"


@dataclass(frozen=True)
class Flip(Pass):
    """Never comes to rest."""

    name: ClassVar[str] = "flip"

    def run(self, graph, report):
        node = graph.nodes[0]
        report.rewrote(graph, node)
        node.op = "Abs" if node.op == "Neg" else "Neg"


def test_text_and_passes_say_the_same():
    text = "infer-shapes,(fold-constants{size-threshold=5,max-growth=100},cleanup)*,toposort"
    pipeline = Pipeline.of(text)
    assert str(pipeline) == text
    assert Pipeline.of(str(pipeline)) == pipeline
    assert pipeline.passes[1].passes[0] == FoldConstants(max_growth=100, size_threshold=5)


def test_every_pass_is_read_back_from_its_name():
    names = [p.name for p in catalogue.PASSES]
    assert len(set(names)) == len(names)
    assert all(names)
    assert [catalogue.find(name) for name in names] == list(catalogue.PASSES)


@pytest.mark.parametrize(("text", "message"), [
    ("no-such-pass", "no pass"), ("cleanup{depth=3}", "no option"), ("fold-constants{size-threshold=1", "missing"), ("cleanup)", "closes nothing"),
])  # fmt: skip
def test_bad_text_is_refused(text, message):
    with pytest.raises(gs.GraphValueError, match=message):
        parse(text)


def test_a_pipeline_runs_and_reports():
    graph = rewrites.parse(TEXT)
    report = graph.apply("infer-shapes", FoldConstants(), "cleanup")
    assert [n.op for n in graph.nodes] == ["Mul", "Neg", "Abs", "Add"]
    assert {e.pass_name for e in report.rewritten} == {"fold-constants", "cleanup"}
    assert {"infer-shapes", "fold-constants", "cleanup"} <= set(report.seconds)


def test_verified_pipelines_pass_where_nothing_changed():
    graph = rewrites.parse(TEXT)
    Pipeline.of("infer-shapes,(fold-constants,cleanup)*", verify=True)(graph)
    assert len(graph.nodes) == 4


def test_the_pass_and_the_node_that_changed_an_output_are_named():
    graph = rewrites.parse(TEXT)
    with pytest.raises(gs.VerificationError, match="pass 'break' changed output 'y'") as caught:
        Pipeline((FoldConstants(), Cleanup(), Break(), Cleanup()), verify=True)(graph)
    assert "tensor 'i'" in str(caught.value.where)
    assert "(Exp)" in str(caught.value.where)


def test_a_change_inside_a_function_is_noticed():
    @dataclass(frozen=True)
    class BreakFunctions(Pass):
        name: ClassVar[str] = "break-functions"

        def run(self, graph, report):
            graph.functions[0].nodes[0].op = "Abs"
            report.rewrote(graph.functions[0], graph.functions[0].nodes[0], "broken")

    functions = '<domain: "local", opset_import: ["" : 18]> F (x) => (y) { y = Neg (x) }'
    graph = rewrites.parse("g (float[2] x) => (float[2] y) { y = local.F (x) }", functions=functions)
    with pytest.raises(gs.VerificationError, match="break-functions"):
        Pipeline((BreakFunctions(),), verify=True)(graph)


def test_a_fixpoint_ends_when_nothing_changes():
    graph = rewrites.parse(TEXT)
    Fixpoint((FoldConstants(), Cleanup()))(graph)
    assert len(graph.nodes) == 4


def test_a_fixpoint_ends_when_states_come_back():
    x, y = gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.float32, (2,))
    graph = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y])
    report = Fixpoint((Flip(),))(graph)
    assert len(report.rewritten) == 2


@pytest.mark.parametrize(("name", "meant"), [("fold_constants", "fold-constants"), ("Fold-Constants", "fold-constants"), ("unrol-loop", "unroll-loop")])
def test_a_name_that_is_nearly_a_pass(name, meant):
    with pytest.raises(gs.errors.GraphValueError, match=f"'{name}' is no pass") as caught:
        parse(name)
    assert caught.value.fix == f"did you mean '{meant}'?"


@pytest.mark.parametrize("kind", catalogue.PASSES)
def test_one_text_is_one_name(kind):
    import dataclasses

    for field in dataclasses.fields(kind):
        if str(field.type) == "tuple[str, ...]":
            required = {f.name: 1 for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING}
            assert getattr(kind(**{**required, field.name: "whole"}), field.name) == ("whole",)
