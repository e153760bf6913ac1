"""Patterns: what matches, what does not, and what a match names."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.graph import Graph
from onnx_gs.ir import Constant, Node, Variable
from onnx_gs.rewrite.graph_pattern import GraphPattern


def chain(*ops: str) -> Graph:
    tensors = [Variable(f"t{i}") for i in range(len(ops) + 1)]
    nodes = [Node(op, f"n{i}", inputs=[tensors[i]], outputs=[tensors[i + 1]]) for i, op in enumerate(ops)]
    return Graph(nodes, [tensors[0]], [tensors[-1]])


def two_in_a_row(*, output: bool = True) -> GraphPattern:
    pattern = GraphPattern()
    x = pattern.variable()
    last = pattern.add("second", "B", inputs=[pattern.add("first", "A", inputs=[x])])
    if output:
        pattern.set_output_tensors([last])
    return pattern


def test_a_chain_matches_and_names_its_tensors() -> None:
    graph = chain("A", "B", "A", "B")
    matches = two_in_a_row().match_all(graph)
    assert [(m.get("first").name, m.get("second").name) for m in matches] == [("n0", "n1"), ("n2", "n3")]
    assert matches[0].inputs[0] is graph.inputs[0]
    assert matches[0].outputs[0] is graph.nodes[1].outputs[0]
    with pytest.raises(KeyError):
        matches[0].get("third")
    assert str(matches[0]) == "{first: n0, second: n1}"


def test_without_outputs_nothing_matches_whose_last_tensor_is_used() -> None:
    assert not two_in_a_row(output=False).match_all(chain("A", "B"))
    graph = chain("A", "B")
    graph.outputs = []
    assert len(two_in_a_row(output=False).match_all(graph)) == 1


def test_an_inner_tensor_with_other_uses_does_not_match() -> None:
    graph = chain("A", "B")
    graph.nodes.append(Node("C", inputs=[graph.nodes[0].outputs[0]], outputs=[Variable("c")]))
    assert not two_in_a_row().match_all(graph)
    graph.nodes.pop().inputs.clear()
    assert two_in_a_row().match_all(graph)
    body = Graph(outputs=[graph.nodes[0].outputs[0]])
    graph.nodes.append(Node("If", attrs={"then_branch": body}))
    assert not two_in_a_row().match_all(graph)
    graph.nodes.pop()
    graph.outputs.append(graph.nodes[0].outputs[0])
    assert not two_in_a_row().match_all(graph)


def test_a_diamond_matches() -> None:
    pattern = GraphPattern()
    x = pattern.variable()
    split = pattern.add("split", "S", inputs=[x])
    left, right = pattern.add("left", "L", inputs=[split]), pattern.add("right", "R", inputs=[split])
    pattern.set_output_tensors([pattern.add("join", "J", inputs=[left, right])])
    x_, s, l_, r, j = (Variable(n) for n in "xslrj")
    nodes = [Node("S", inputs=[x_], outputs=[s]), Node("L", inputs=[s], outputs=[l_]), Node("R", inputs=[s], outputs=[r]), Node("J", inputs=[l_, r], outputs=[j])]
    graph = Graph(nodes, [x_], [j])
    matches = pattern.match_all(graph)
    assert len(matches) == 1
    assert [matches[0].get(n) is node for n, node in zip(("split", "left", "right", "join"), nodes)] == [True] * 4
    nodes[3].inputs = [r, l_]  # operand order matters
    assert not pattern.match_all(graph)


def test_equal_branches_are_told_apart_by_trying() -> None:
    pattern = GraphPattern()
    x = pattern.variable()
    split = pattern.add("split", "S", inputs=[x])
    one, two = pattern.add("one", "A", inputs=[split]), pattern.add("two", "A", inputs=[split])
    a, b = pattern.add("a", "B", inputs=[one]), pattern.add("b", "C", inputs=[two])
    pattern.set_output_tensors([a, b])
    x_, s, p, q, u, v = (Variable(n) for n in "xspquv")
    graph = Graph(
        [Node("S", inputs=[x_], outputs=[s]), Node("A", "first", inputs=[s], outputs=[p]), Node("A", "second", inputs=[s], outputs=[q]),
         Node("C", inputs=[p], outputs=[u]), Node("B", inputs=[q], outputs=[v])],
        [x_], [u, v],
    )  # fmt: skip
    (match,) = pattern.match_all(graph)
    assert (match.get("one").name, match.get("two").name) == ("second", "first")


def test_one_node_does_not_stand_for_two() -> None:
    pattern = GraphPattern()
    x = pattern.variable()
    one, two = pattern.add("one", "A", inputs=[x]), pattern.add("two", "A", inputs=[x])
    pattern.set_output_tensors([one, two])
    graph = chain("A")
    assert not pattern.match_all(graph)
    graph.nodes.append(Node("A", inputs=[graph.inputs[0]], outputs=[Variable("other")]))
    assert len(pattern.match_all(graph)) == 2


def test_constants_must_be_constant_tensors() -> None:
    pattern = GraphPattern()
    x, c = pattern.variable(), pattern.constant("scale")
    pattern.set_output_tensors([pattern.add("mul", "Mul", inputs=[x, c])])
    x_, w, y = Variable("x"), Constant("w", np.ones(1)), Variable("y")
    node = Node("Mul", inputs=[x_, w], outputs=[y])
    (match,) = pattern.match_all(Graph([node], [x_], [y]))
    assert match.constants["scale"] is w
    node.inputs[1] = Variable("v")
    assert not pattern.match_all(Graph([node], [x_], [y]))


def test_counts_checks_and_repeated_variables() -> None:
    pattern = GraphPattern()
    x = pattern.variable()
    pattern.set_output_tensors([pattern.add("sq", "Mul", check_func=lambda n: n.attrs.get("ok", False), inputs=[x, x])])
    a, b, y = Variable("a"), Variable("b"), Variable("y")
    node = Node("Mul", attrs={"ok": True}, inputs=[a, a], outputs=[y])
    graph = Graph([node], [a, b], [y])
    assert len(pattern.match_all(graph)) == 1
    node.attrs["ok"] = False
    assert not pattern.match_all(graph)
    node.attrs["ok"] = True
    node.inputs[1] = b
    assert not pattern.match_all(graph)
    node.inputs = [a, a, Variable.empty()]
    assert not pattern.match_all(graph)


def test_patterns_nest() -> None:
    inner = two_in_a_row()
    outer = GraphPattern()
    x = outer.variable()
    first = outer.add("one", inner, inputs=[x])
    outer.set_output_tensors([outer.add("two", inner, inputs=[first])])
    graph = chain("A", "B", "A", "B")
    (match,) = outer.match_all(graph)
    assert match.get("two").get("first").name == "n2"
    assert match.get("one").inputs[0] is graph.inputs[0]
    assert match.get("one").outputs[0] is graph.nodes[1].outputs[0]
    with pytest.raises(AssertionError):
        outer.add("one", "A")
    pattern = GraphPattern()
    assert pattern.add("none", "A", num_output_tensors=0) is None
    assert pattern.add("some", "A", num_output_tensors=2) == (0, 1)


def test_a_pattern_without_inputs_matches() -> None:
    pattern = GraphPattern()
    pattern.set_output_tensors([pattern.add("c", "Constant")])
    y = Variable("y")
    assert len(pattern.match_all(Graph([Node("Constant", outputs=[y])], [], [y]))) == 1


def test_a_long_pattern_needs_no_recursion() -> None:
    pattern = GraphPattern()
    t = pattern.add("start", "S", inputs=[pattern.variable()])
    for i in range(3000):
        t = pattern.add(f"n{i}", "A", inputs=[t])
    pattern.set_output_tensors([t])
    assert len(pattern.match_all(chain("S", *["A"] * 3000))) == 1


def test_a_pattern_can_be_read() -> None:
    pattern = two_in_a_row()
    assert [(name, node.op) for name, node in pattern.nodes.items()] == [("first", "A"), ("second", "B")]
    assert (pattern.input_tensors, pattern.output_tensors) == ([0], [2])
