"""Scopes: captures at any depth, owners of weights, bodies copied with captures shared; namesakes joined."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.errors import GraphError
from onnx_gs.graph import Graph
from onnx_gs.ir import Constant, Node, Variable, isomorphism, liveness, scopes, walk
from onnx_gs.ir.instantiate import Body, instantiate
from onnx_gs.ir.join import join_names
from onnx_gs.ir.names import Names
from onnx_gs.ir.show import Places
from onnx_gs.ir.verify import problems, require_sound
from tests.support.rewrites import parse

NESTED = """g (float[2] x, int64 n, bool c) => (float[2] y) <float[2] w = {1.0, 2.0}> {
  true = Constant<value = bool {1}>()
  k = Exp(x)
  y = Loop(n, true, x) <body = b (int64 i, bool ci, float[2] h) => (bool co, float[2] h2) {
    co = Identity(ci)
    m = Mul(h, w)
    h2 = If(c) <then_branch = t () => (float[2] p) { p = Add(m, k) }, else_branch = e () => (float[2] q) { q = Sub(m, x) }>
  }>
}"""


def loop_of(graph: Graph) -> Node:
    return next(n for n in graph.nodes if n.op == "Loop")


def test_captures_are_found_at_any_depth() -> None:
    graph = parse(NESTED)
    loop = loop_of(graph)
    assert {t.name for t in scopes.node_captures(loop)} == {"w", "c", "k", "x"}
    assert {t.name for t in scopes.node_captures(loop, constants=False)} == {"c", "k", "x"}
    everything = scopes.all_captures(graph)
    assert {t.name for t in everything[id(loop)]} == {"w", "c", "k", "x"}
    inner = next(n for _, n in walk.nodes(graph, "If"))
    assert {t.name for t in everything[id(inner)]} == {"m", "k", "x"}
    assert [n.op for n in liveness.live_nodes(graph)] == ["Constant", "Exp", "Loop"]


def test_a_weight_is_owned_by_the_scope_that_stores_it() -> None:
    graph = parse(NESTED)
    w = next(t for g in walk.graphs(graph) for t in walk.tensors(g) if t.name == "w")
    assert scopes.owners(graph)[id(w)] is graph
    body = loop_of(graph).attrs["body"]
    mine, shared = Constant("mine", np.zeros(2, np.float32)), Constant("shared", np.zeros(2, np.float32))
    branches = walk.bodies(body.nodes[2])
    branches[0].nodes[0].inputs[1] = mine
    for branch in branches:
        branch.nodes[0].inputs[0] = shared
    owners = scopes.owners(graph)
    assert owners[id(mine)] is branches[0]
    assert owners[id(shared)] is body


def test_a_body_is_copied_with_inputs_bound_and_captures_shared() -> None:
    graph = parse(NESTED)
    body = loop_of(graph).attrs["body"]
    names, prepared = Names(graph), Body(body)
    state = graph.inputs[0]
    made: list[Node] = []
    for _ in range(3):
        nodes, (_, state) = prepared.instantiate([Variable("i"), Variable("go"), state], names)
        made.extend(nodes)
    assert [n.op for n in made] == ["Identity", "Mul", "If"] * 3
    w = body.nodes[1].inputs[1]
    assert all(n.inputs[1] is w for n in made if n.op == "Mul")
    assert len({t.name for n in made for t in n.outputs}) == 9
    nodes, outputs = instantiate(body, [Variable("i"), Variable("go"), graph.inputs[0]], names)
    assert outputs[0] is nodes[0].outputs[0]


def test_isomorphism_ignores_internal_names_only() -> None:
    one, two = parse(NESTED), parse(NESTED.replace("m = Mul", "z = Mul").replace("(m,", "(z,").replace("k = Exp", "kk = Exp").replace(", k)", ", kk)"))
    assert isomorphism.difference(one, two) is None
    for other in (NESTED.replace("Sub(m, x)", "Sub(x, m)"), NESTED.replace("2.0}", "3.0}"), NESTED.replace("(float[2] y) <", "(float[2] yy) <").replace("y = Loop", "yy = Loop")):
        assert isomorphism.difference(one, parse(other)) is not None


def test_namesakes_are_joined_in_their_scope() -> None:
    x, y = Variable("x"), Variable("y")
    inner = Variable("x")
    body = Graph([Node("Neg", inputs=[inner], outputs=[Variable("p")])])
    body.outputs = [body.nodes[0].outputs[0]]
    graph = Graph([Node("If", attrs={"then_branch": body}, inputs=[Variable("x")], outputs=[y])], [x], [Variable("y")])
    assert join_names(graph) == 3
    assert body.nodes[0].inputs[0] is x
    assert graph.nodes[0].inputs[0] is x
    assert graph.outputs[0] is y
    assert join_names(graph) == 0


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (Constant("t", np.zeros(2)), Constant("t", np.ones(2)), "values differ"),
        (Variable("t", np.float32), Variable("t", np.int64), "INT64"),
        (Variable("t"), Constant("t", np.zeros(2)), "stored"),
    ],
)
def test_namesakes_in_conflict_are_an_error(first: Variable, second: Variable, why: str) -> None:
    graph = Graph([Node("A", "maker", outputs=[first] if isinstance(first, Variable) else [Variable("u")]), Node("B", inputs=[first, second])])
    with pytest.raises(GraphError, match="named 't'") as caught:
        join_names(graph)
    assert why in str(caught.value)


def test_what_is_wrong_with_a_graph_is_said_with_its_place() -> None:
    x, y = Variable("x"), Variable("y")
    graph = Graph([Node("Neg", "n", inputs=[x], outputs=[y])], [], [y], name="main")
    assert problems(graph) == ["graph 'main' > node 'n' (Neg): input 'x' is defined nowhere"]
    with pytest.raises(GraphError, match="input 'x' is defined nowhere") as caught:
        require_sound(graph)
    assert caught.value.where == "graph 'main' > node 'n' (Neg)"
    list.append(graph.nodes[0].inputs, y)  # past the funnel, on purpose
    assert any("linked 1 times here and 0 times there" in p for p in problems(graph))


def test_paths_lead_through_bodies() -> None:
    graph = parse(NESTED)
    owner, node = next((g, n) for g, n in walk.nodes(graph, "Sub"))
    assert Places(graph).node(owner, node) == "graph 'g' > node #2 (Loop) > body > node #2 (If) > else_branch > node #0 (Sub)"
