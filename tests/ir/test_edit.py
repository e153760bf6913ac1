"""Editing verbs: what is replaced is replaced everywhere, public names survive, and nothing dangles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from onnx_gs.ir import Constant, Node, Variable
from onnx_gs.ir.edit import Editor, StopRewriting, rename_apart
from onnx_gs.ir.verify import problems
from tests.support.rewrites import parse

if TYPE_CHECKING:
    from onnx_gs.graph import Graph


def by_op(graph: Graph, op: str) -> Node:
    return next(n for n in graph.nodes if n.op == op)


def test_a_node_is_replaced_by_others_where_it_stood() -> None:
    graph = parse("g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Exp(b) }")
    node = by_op(graph, "Abs")
    mid, out = Variable("mid"), Variable("out")
    with Editor(graph) as editor:
        new = [Node("Relu", inputs=[node.inputs[0]], outputs=[mid]), Node("Sqrt", inputs=[mid], outputs=[out])]
        editor.replace(graph, node, new, [out])
        assert editor.is_removed(node)
    assert [n.op for n in graph.nodes] == ["Neg", "Relu", "Sqrt", "Exp"]
    assert not node.inputs
    assert not problems(graph)


def test_a_public_output_keeps_its_name_through_its_new_producer() -> None:
    graph = parse("g (float[2] x) => (float[2] y) { a = Neg(x) y = Identity(a) }")
    with Editor(graph) as editor:
        editor.bypass(graph, by_op(graph, "Identity"))
    assert [(n.op, n.outputs[0].name) for n in graph.nodes] == [("Neg", "y")]
    assert graph.outputs[0] is graph.nodes[0].outputs[0]
    assert not problems(graph)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2] x) => (float[2] y) { y = Dropout(x) }",
        "g (float[2] x) => (float[2] a, float[2] y) { a = Neg(x) y = Dropout(a) }",
    ],
)
def test_a_public_output_that_is_another_public_value_gets_an_identity(text: str) -> None:
    graph = parse(text)
    with Editor(graph) as editor:
        editor.bypass(graph, by_op(graph, "Dropout"))
    assert graph.nodes[-1].op == "Identity"
    assert [t.name for t in graph.outputs] == [t.name for t in parse(text).outputs]
    assert not problems(graph)


def test_a_public_output_may_become_a_constant() -> None:
    graph = parse("g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Abs(y) }")
    with Editor(graph) as editor:
        editor.replace(graph, by_op(graph, "Neg"), [], [Constant("c", np.float32([1, 2]))])
    assert isinstance(graph.outputs[0], Constant)
    assert graph.outputs[0].name == "y"
    assert graph.nodes[0].inputs[0] is graph.outputs[0]
    assert not problems(graph)


BODY = """g (float[2] x, bool c) => (float[2] y) {
  a = Identity(x)
  y = If(c) <then_branch = t () => (float[2] p) { p = Neg(a) }, else_branch = e () => (float[2] q) { r = Neg(x) q = Identity(a) }>
}"""


def test_uses_in_bodies_follow() -> None:
    graph = parse(BODY)
    with Editor(graph) as editor:
        editor.bypass(graph, by_op(graph, "Identity"))
    then, other = graph.nodes[0].attrs["then_branch"], graph.nodes[0].attrs["else_branch"]
    assert then.nodes[0].inputs[0] is graph.inputs[0]
    assert other.nodes[1].inputs[0] is graph.inputs[0]
    assert not problems(graph)


def test_a_body_never_returns_an_outer_tensor() -> None:
    graph = parse(BODY)
    branch = by_op(graph, "If").attrs["else_branch"]
    with Editor(graph) as editor:
        editor.bypass(branch, by_op(branch, "Identity"))
    assert branch.nodes[-1].op == "Identity"
    assert branch.outputs[0] is branch.nodes[-1].outputs[0]
    assert not problems(graph)


def test_edits_before_and_after_nest() -> None:
    graph = parse("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    node = graph.nodes[0]

    def fresh(name: str) -> Node:
        return Node("Neg", name, inputs=[graph.inputs[0]], outputs=[Variable(name)])

    with Editor(graph) as editor:
        first = fresh("first")
        editor.insert_before(graph, node, [first])
        editor.insert_before(graph, first, [fresh("before first")])
        editor.insert_after(graph, node, [fresh("after")])
        editor.insert_first(graph, [fresh("start")])
        editor.append(graph, [fresh("end")])
        editor.remove(graph, first)
        assert [n.name for n in editor.final_nodes(graph)] == ["start", "before first", "", "after", "end"]
    assert [n.name for n in graph.nodes] == ["start", "before first", "", "after", "end"]


def test_an_error_leaves_node_lists_alone_and_an_orderly_stop_does_not() -> None:
    for error, left in ((ValueError, 2), (StopRewriting, 1)):
        graph = parse("g (float[2] x) => (float[2] y) { a = Identity(x) y = Neg(a) }")
        with pytest.raises(error), Editor(graph) as editor:
            editor.bypass(graph, graph.nodes[0])
            raise error
        assert len(graph.nodes) == left


def test_names_become_unique_over_scopes_and_public_ones_stay() -> None:
    graph = parse("""g (float[2] x, bool c) => (float[2] y) {
      y = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] a) { x2 = Neg(x) a = Neg(x2) }>
    }""")
    assert rename_apart(graph) > 0
    assert rename_apart(graph) == 0
    names = [t.name for g in (graph, *graph.subgraphs(recursive=True)) for n in g.nodes for t in n.outputs]
    assert len(names) == len(set(names))
    assert [t.name for t in graph.outputs] == ["y"]
    assert not problems(graph)
