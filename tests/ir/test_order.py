"""Sorting: stable, linear, aware of captures; cycles are named."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from onnx_gs.errors import GraphError
from onnx_gs.graph import Function, Graph
from onnx_gs.ir import Node, Variable, order as ordering
from onnx_gs.ir.verify import problems
from tests.support.rewrites import parse


def random_graph(edges: list[tuple[int, int]], count: int) -> Graph:
    outputs = [Variable(f"t{i}") for i in range(count)]
    read: list[list[Variable]] = [[] for _ in range(count)]
    for a, b in edges:
        low, high = min(a, b) % count, max(a, b) % count
        if low < high:
            read[high].append(outputs[low])
    return Graph([Node("N", str(i), inputs=read[i], outputs=[outputs[i]]) for i in range(count)], outputs=outputs)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=80), st.integers(1, 31), st.integers(0, 1000))
def test_a_sorted_graph_keeps_its_order_and_any_other_gets_one(edges: list[tuple[int, int]], count: int, seed: int) -> None:
    graph = random_graph(edges, count)
    names = [n.name for n in graph.nodes]
    ordering.sort_nodes(graph)
    assert [n.name for n in graph.nodes] == names
    random.Random(seed).shuffle(graph.nodes)
    ordering.sort_nodes(graph)
    assert not problems(graph)
    once = [n.name for n in graph.nodes]
    ordering.sort_nodes(graph)
    assert [n.name for n in graph.nodes] == once


def test_the_earliest_ready_node_comes_first() -> None:
    x, a, b, c = (Variable(n) for n in "xabc")
    late, early, other = Node("A", "late", inputs=[b], outputs=[a]), Node("B", "early", inputs=[x], outputs=[b]), Node("C", "other", inputs=[x], outputs=[c])
    graph = Graph([late, early, other], [x], [a, c])
    ordering.sort_nodes(graph)
    assert [n.name for n in graph.nodes] == ["early", "late", "other"]


def test_what_a_body_captures_comes_before_the_node() -> None:
    graph = parse("""g (float[2] x, bool c) => (float[2] y) {
      a = Neg(x)
      y = If(c) <then_branch = t () => (float[2] p) { p = Abs(a) }, else_branch = e () => (float[2] q) { q = Exp(x) }>
    }""")
    graph.nodes.reverse()
    assert [n.op for n in graph.toposort().nodes] == ["Neg", "If"]


def test_a_cycle_names_its_nodes() -> None:
    a, b = Variable("a"), Variable("b")
    graph = Graph([Node("F", "one", inputs=[b], outputs=[a]), Node("G", "two", inputs=[a], outputs=[b])], outputs=[b])
    with pytest.raises(GraphError, match=r"cycle: node '(one|two)'"):
        graph.toposort()


def test_a_long_reversed_chain_needs_no_recursion() -> None:
    t = Variable("t")
    graph = Graph(inputs=[t])
    for i in range(20000):
        new = Variable(f"t{i}")
        graph.nodes.append(Node("Neg", inputs=[t], outputs=[new]))
        t = new
    graph.outputs = [t]
    graph.nodes.reverse()
    assert not problems(graph.toposort())


def test_functions_come_after_those_they_call_and_recursion_is_an_error() -> None:
    def calling(name: str, *called: str) -> Function:
        return Function(name, domain="d", nodes=[Node(c, domain="d", outputs=[Variable(f"{name}{c}")]) for c in called])

    functions = [calling("A", "B", "C"), calling("B", "C"), calling("C")]
    ordering.sort_functions(functions)
    assert [f.name for f in functions] == ["C", "B", "A"]
    with pytest.raises(GraphError, match="A -> B -> A"):
        ordering.sort_functions([calling("A", "B"), calling("B", "A")])
