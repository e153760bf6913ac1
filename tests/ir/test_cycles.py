"""Nodes that read each other: one error that names them, from everything that depends on an order."""

from __future__ import annotations

import io

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.analysis.shape_values import ShapeFacts
from onnx_gs.ir.order import require_acyclic


def cyclic(*, live: bool = True) -> gs.Graph:
    x, ta, tb, s, y = gs.Variable("x", np.float32, (2,)), gs.Variable("ta"), gs.Variable("tb"), gs.Variable("s"), gs.Variable("y", np.float32, (2,))
    a = gs.Node("Add", "a", inputs=[x, tb], outputs=[ta])
    b = gs.Node("Relu", "b", inputs=[ta], outputs=[tb])
    c = gs.Node("Shape", "c", inputs=[ta], outputs=[s])
    d = gs.Node("Reshape", "d", inputs=[x, s if live else gs.Constant("two", np.array([2]))], outputs=[y])
    return gs.Graph([a, b, c, d], [x], [y], opset=18)


def in_body() -> gs.Graph:
    graph = cyclic()
    other, out, c = gs.Variable("w", np.float32, (2,)), gs.Variable("out", np.float32, (2,)), gs.Variable("cond", np.bool_, ())
    x = graph.inputs[0]
    graph.inputs = []
    branch = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[other])], [], [other], opset=18)
    node = gs.Node("If", inputs=[c], outputs=[out], attrs={"then_branch": graph, "else_branch": branch})
    return gs.Graph([node], [c, x], [out], opset=18)


ACTS = {
    "toposort": lambda g: g.toposort(), "cleanup": lambda g: g.cleanup(), "simplify": lambda g: g.simplify(),
    "apply": lambda g: g.apply("eliminate-views"), "make_dynamic": lambda g: g.make_dynamic("x", 0, "n"),
    "export": gs.export_onnx, "save": lambda g: gs.save(g, io.BytesIO()), "diff": lambda g: gs.diff(g, g.copy()),
    "check": lambda g: gs.trt.check(g, build=False), "facts": lambda g: ShapeFacts(g).shape(g.outputs[0]),
}  # fmt: skip


@pytest.mark.parametrize("act", ACTS.values(), ids=list(ACTS))
@pytest.mark.parametrize("make", [cyclic, in_body])
def test_the_nodes_of_a_cycle_are_named(act, make):
    graph = make()
    with pytest.raises(gs.GraphError, match=r"the nodes form a cycle: node '[ab]' \(\w+\) -> node '[ab]'"):
        act(graph)
    assert graph == make()


@pytest.mark.parametrize("act", ["fold_constants", "lower_control_flow", "infer_shapes", "copy"])
def test_what_needs_no_order_leaves_a_cycle_alone(act):
    graph = cyclic()
    getattr(graph, act)()
    assert graph == cyclic()


def test_a_cycle_that_nothing_depends_on_is_cleaned_up():
    graph = cyclic(live=False).cleanup()
    assert [node.name for node in graph.nodes] == ["d"]
    require_acyclic(graph)


def test_an_unsorted_graph_is_no_cycle():
    graph = cyclic(live=False).cleanup()
    x, y = graph.inputs[0], graph.outputs[0]
    z = gs.Variable("z", np.float32, (2,))
    graph.nodes.insert(0, gs.Node("Neg", inputs=[y], outputs=[z]))
    graph.outputs = [z]
    require_acyclic(graph)
    assert ShapeFacts(graph).shape(z) == (2,)
    assert [n.op for n in graph.cleanup().nodes] == ["Neg", "Reshape"]
    assert x.outputs
