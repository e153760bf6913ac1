"""Random graphs with shapes, broadcasting, bodies and captures: folding changes no output."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings, strategies as st

import onnx_gs as gs
from onnx_gs.evaluate.verify import verify
from onnx_gs.ir import verify as soundness
from onnx_gs.passes.fold_constants import FoldConstants

UNARY = ("Neg", "Abs", "Exp", "Tanh", "Floor", "Relu", "Identity", "Sign")
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Div")


class Maker:
    """Draws nodes over the tensors that are in reach, keeping every float tensor of shape [2, 3], [1, 3] or []."""

    def __init__(self, draw):
        self.draw, self.count = draw, 0

    def name(self, stem="t"):
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self):
        shape = self.draw(st.sampled_from([(2, 3), (1, 3), ()]))
        values = self.draw(st.lists(st.sampled_from([0.0, 1.0, -2.5, 3.0, 1e-3]), min_size=6, max_size=6))
        return gs.Constant(self.name("c"), np.resize(np.array(values, np.float32), shape))

    def nodes(self, reach, count, depth):
        made, reach = [], list(reach)
        for _ in range(count):
            out = gs.Variable(self.name(), np.float32)
            kind = self.draw(st.sampled_from(["unary", "binary", "binary", "constant", "shape", "if", "loop"] if depth else ["unary", "binary", "shape"]))
            pick = lambda: self.draw(st.sampled_from(reach))
            if kind == "constant":
                reach.append(self.constant())
                continue
            if kind == "unary":
                made.append(gs.Node(self.draw(st.sampled_from(UNARY)), name=self.name("n"), inputs=[pick()], outputs=[out]))
            elif kind == "binary":
                made.append(gs.Node(self.draw(st.sampled_from(BINARY)), name=self.name("n"), inputs=[pick(), pick()], outputs=[out]))
            elif kind == "shape":
                shape, cast, total = gs.Variable(self.name()), gs.Variable(self.name()), gs.Variable(self.name())
                made.append(gs.Node("Shape", inputs=[pick()], outputs=[shape]))
                made.append(gs.Node("Cast", attrs={"to": 1}, inputs=[shape], outputs=[cast]))
                made.append(gs.Node("ReduceSum", attrs={"keepdims": 0}, inputs=[cast], outputs=[total]))
                made.append(gs.Node("Mul", inputs=[pick(), total], outputs=[out]))
            elif kind == "if":
                condition = self.condition(made, pick)
                bodies = {name: self.body(reach, depth - 1, name) for name in ("then_branch", "else_branch")}
                made.append(gs.Node("If", name=self.name("n"), attrs=bodies, inputs=[condition], outputs=[out]))
            else:
                made.append(self.loop(reach, depth - 1, pick(), out))
            reach.append(out)
        return made, reach

    def condition(self, made, pick):
        if self.draw(st.booleans()):
            return gs.Constant(self.name("c"), np.array(self.draw(st.booleans())))
        least, truth = gs.Variable(self.name()), gs.Variable(self.name(), bool)
        made.append(gs.Node("ReduceMin", attrs={"keepdims": 0}, inputs=[pick()], outputs=[least]))
        made.append(gs.Node("Less", inputs=[least, gs.Constant(self.name("c"), np.array(0.5, np.float32))], outputs=[truth]))
        return truth

    def body(self, reach, depth, name):
        nodes, inner = self.nodes(reach, self.draw(st.integers(1, 3)), depth)
        produced = [t for t in inner if t.inputs and any(t.inputs[0] is n for n in nodes)]
        if not produced:
            out = gs.Variable(self.name(), np.float32)
            nodes.append(gs.Node("Neg", inputs=[inner[-1]], outputs=[out]))
            produced = [out]
        return gs.Graph(nodes, [], [produced[-1]], name=self.name(name), opset=18)

    def loop(self, reach, depth, start, out):
        trip, condition, carried = gs.Variable(self.name(), np.int64, ()), gs.Variable(self.name(), bool, ()), gs.Variable(self.name(), np.float32)
        nodes, _ = self.nodes([*reach, carried], self.draw(st.integers(1, 2)), depth)
        following, going = gs.Variable(self.name(), np.float32), gs.Variable(self.name(), bool)
        nodes.append(gs.Node("Mul", inputs=[carried, gs.Constant(self.name("c"), np.array(0.5, np.float32))], outputs=[following]))
        nodes.append(gs.Node("Identity", inputs=[condition], outputs=[going]))
        body = gs.Graph(nodes, [trip, condition, carried], [going, following], name=self.name("body"), opset=18)
        trips = gs.Constant(self.name("c"), np.array(self.draw(st.integers(0, 3))))
        return gs.Node("Loop", name=self.name("n"), attrs={"body": body}, inputs=[trips, gs.Constant(self.name("c"), np.array(True)), start], outputs=[out])


@st.composite
def graphs(draw):
    maker = Maker(draw)
    x = gs.Variable("x", np.float32, draw(st.sampled_from([(2, 3), ("n", 3), (1, "m")])))
    nodes, reach = maker.nodes([x, maker.constant(), maker.constant()], draw(st.integers(2, 8)), depth=2)
    produced = [t for t in reach if t.inputs]
    outputs = [produced[-1]] if produced else []
    if len(produced) > 1:
        outputs.append(produced[0])
    return gs.Graph(nodes, [x], outputs, opset=18)


@given(graphs(), st.sampled_from([{}, {"size_threshold": 4}, {"max_growth": 0}, {"max_growth": 30}, {"flatten_subgraphs": False}]))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_folding_changes_no_output(graph, options):
    if not graph.outputs:
        return
    assert not soundness.problems(graph), soundness.problems(graph)
    before = graph.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.infer_shapes()
        FoldConstants(**options)(graph)
    assert not soundness.problems(graph), soundness.problems(graph)
    graph.cleanup()
    assert not soundness.problems(graph), soundness.problems(graph)
    for t in graph.outputs:
        if t.shape is None:
            t.shape = ["a"]
    onnx.checker.check_model(gs.export_onnx(graph))
    found = verify(before, graph, sets=2)
    assert not found.outputs, str(found)
