"""Dropping what nothing reads."""

import numpy as np

from onnx_gs.ir import Graph, Node, Variable, liveness


def test_drop_unread_takes_what_only_the_unread_read_bodies_included():
    x, cond = Variable("x", np.float32, (2,)), Variable("c", bool, ())
    a, b, d, e, y = (Variable(name, np.float32, (2,)) for name in "abdey")
    branch = Graph([Node("Neg", inputs=[a], outputs=[b]), Node("Abs", inputs=[a], outputs=[Variable("unread")])], [], [b])
    other = Graph([Node("Exp", inputs=[d], outputs=[e])], [], [e])
    used = Node("If", attrs={"then_branch": branch, "else_branch": other}, inputs=[cond], outputs=[y])
    dead_inside = Graph([Node("Relu", inputs=[Variable("only")], outputs=[Variable("r")])], [], [Variable("r2")])
    only = dead_inside.nodes[0].inputs[0]
    dead = Node("If", attrs={"then_branch": dead_inside, "else_branch": dead_inside}, inputs=[cond], outputs=[Variable("gone")])
    nodes = [
        Node("Sin", inputs=[x], outputs=[a]), Node("Cos", inputs=[x], outputs=[only]), dead, Node("Tan", inputs=[x], outputs=[d]), used,
        Node("Sign", inputs=[only], outputs=[Variable("last")]),
    ]  # fmt: skip
    graph = Graph(nodes, [x, cond], [y])
    removed = liveness.drop_unread([graph, branch, other, dead_inside])
    assert [node.op for node in graph.nodes] == ["Sin", "Tan", "If"]
    assert [node.op for node in branch.nodes] == ["Neg"]
    assert sorted(node.op for node in removed) == ["Abs", "Cos", "If", "Relu", "Sign"]
    assert not any(node.inputs or node.outputs for node in removed)
    assert [node.op for node in x.outputs] == ["Sin", "Tan"]


def test_drop_unread_works_in_any_order():
    x, a, b, y = (Variable(name) for name in "xaby")
    nodes = [Node("Neg", inputs=[a], outputs=[b]), Node("Abs", inputs=[x], outputs=[a]), Node("Relu", inputs=[x], outputs=[y])]
    graph = Graph(nodes, [x], [y])
    assert [node.op for node in liveness.drop_unread([graph])] == ["Neg", "Abs"]
    assert [node.op for node in graph.nodes] == ["Relu"]
