"""What scripts rely on: patterns and their matches."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import onnx_gs as gs


def v(*names: str) -> list[gs.Variable]:
    return [gs.Variable(name, np.float32, (2,)) for name in names]


def n(op: str, name: str, inputs: Any, outputs: Any, **options: Any) -> gs.Node:
    return gs.Node(op, name, inputs=inputs, outputs=outputs, **options)


def chain(*ops: str) -> gs.Graph:
    tensors = v(*(f"t{k}" for k in range(len(ops) + 1)))
    nodes = [n(op, f"n{k}", [tensors[k]], [tensors[k + 1]]) for k, op in enumerate(ops)]
    return gs.Graph(nodes, [tensors[0]], [tensors[-1]])


def pattern_of(*ops: str) -> gs.GraphPattern:
    pattern = gs.GraphPattern()
    tensor = pattern.variable()
    for k, op in enumerate(ops):
        tensor = pattern.add(f"p{k}", op, inputs=[tensor])
    pattern.set_output_tensors([tensor])
    return pattern


def found(pattern: gs.GraphPattern, graph: gs.Graph) -> list[list[str]]:
    return [[match.get(name).name for name in pattern.nodes] for match in pattern.match_all(graph)]


# -- building -------------------------------------------------------------------------------------


def test_what_adding_gives() -> None:
    pattern = gs.GraphPattern()
    assert (pattern.variable(), pattern.constant()) == (0, 1)
    assert pattern.add("none", "Sink", num_output_tensors=0) is None
    assert pattern.add("one", "Relu") == 2
    assert pattern.add("two", "Split", num_output_tensors=2) == (3, 4)


def test_a_subpattern_gives_as_many_outputs_as_asked_for() -> None:
    inner = gs.GraphPattern()
    inner.set_output_tensors(inner.add("s", "Split", inputs=[inner.variable()], num_output_tensors=2))
    outer = gs.GraphPattern()
    assert outer.add("whole", inner, inputs=[outer.variable()], num_output_tensors=2) == (1, 2)
    assert outer.add("first", inner) == 3


def test_a_name_twice_is_refused() -> None:
    pattern = pattern_of("Relu")
    with pytest.raises(AssertionError):
        pattern.add("p0", "Neg")


def test_tensors_of_no_pattern_are_refused() -> None:
    pattern = pattern_of("Relu")
    with pytest.raises(AssertionError):
        pattern.set_output_tensors([7])
    with pytest.raises(KeyError):
        pattern.add("q", "Neg", inputs=[7])
    assert list(pattern.nodes) == ["p0"]


def test_an_empty_pattern_matches_nothing() -> None:
    assert gs.GraphPattern().match_all(chain("Relu")) == []


# -- mappings -------------------------------------------------------------------------------------


def test_a_match_names_the_graphs_own_nodes_and_tensors() -> None:
    graph = chain("Neg", "Relu", "Neg", "Relu")
    matches = pattern_of("Neg", "Relu").match_all(graph)
    assert [type(m) for m in matches] == [gs.PatternMapping] * 2
    first = matches[0]
    assert isinstance(first, dict)
    assert first.get("p0") is graph.nodes[0]
    assert first.get("p1") is graph.nodes[1]
    assert list(first) == ["p0", "p1"]
    assert [t.name for t in first.inputs] == ["t0"]
    assert [t.name for t in first.outputs] == ["t2"]
    assert first.inputs[0] is graph.inputs[0]
    assert (first["p0"].inputs, first["p0"].outputs) == (graph.nodes[0].inputs, graph.nodes[0].outputs)
    assert first["p0"].inputs is graph.nodes[0].inputs
    assert first["p0"].onnx_node is graph.nodes[0]
    assert str(first) == "{p0: n0, p1: n1}"
    with pytest.raises(KeyError):
        first.get("other")


def test_constants_are_named() -> None:
    x, h, y = v("x", "h", "y")
    weight, bias = gs.Constant("w", np.ones(2)), gs.Constant("b", np.ones(2))
    graph = gs.Graph([n("Mul", "m", [x, weight], [h]), n("Add", "a", [h, bias], [y])], [x], [y])
    pattern = gs.GraphPattern()
    tensor = pattern.variable()
    tensor = pattern.add("m", "Mul", inputs=[tensor, pattern.constant("scale")])
    pattern.set_output_tensors([pattern.add("a", "Add", inputs=[tensor, pattern.constant()])])
    (match,) = pattern.match_all(graph)
    assert match.constants["scale"] is weight
    assert match.constants["unnamed_constant_tensor_3"] is bias
    assert [t.name for t in match.inputs] == ["x"]


def test_subpatterns_give_mappings() -> None:
    outer = gs.GraphPattern()
    tensor = outer.add("inner", pattern_of("Neg", "Relu"), inputs=[outer.variable()])
    outer.set_output_tensors([outer.add("last", "Exp", inputs=[tensor])])
    (match,) = outer.match_all(chain("Neg", "Relu", "Exp"))
    inner = match.get("inner")
    assert isinstance(inner, gs.PatternMapping)
    assert (inner.get("p0").name, inner.get("p1").name, match.get("last").name) == ("n0", "n1", "n2")
    assert ([t.name for t in inner.inputs], [t.name for t in inner.outputs]) == (["t0"], ["t2"])
    assert str(match) == "{inner: {p0: n0, p1: n1}, last: n2}"


def test_one_subpattern_twice() -> None:
    single = pattern_of("Neg")
    outer = gs.GraphPattern()
    outer.set_output_tensors([outer.add("b", single, inputs=[outer.add("a", single, inputs=[outer.variable()])])])
    matches = outer.match_all(chain("Neg", "Neg", "Neg"))
    assert [(m.get("a").get("p0").name, m.get("b").get("p0").name) for m in matches] == [("n0", "n1"), ("n1", "n2")]


def test_a_subpattern_with_two_outputs() -> None:
    x, a, b, c, d, y = v("x", "a", "b", "c", "d", "y")
    nodes = [n("Split", "s", [x], [a, b]), n("Neg", "l", [a], [c]), n("Abs", "r", [b], [d]), n("Add", "j", [c, d], [y])]
    inner = gs.GraphPattern()
    left, right = inner.add("s", "Split", inputs=[inner.variable()], num_output_tensors=2)
    inner.set_output_tensors([inner.add("l", "Neg", inputs=[left]), inner.add("r", "Abs", inputs=[right])])
    outer = gs.GraphPattern()
    outer.set_output_tensors([outer.add("j", "Add", inputs=outer.add("whole", inner, inputs=[outer.variable()], num_output_tensors=2))])
    (match,) = outer.match_all(gs.Graph(nodes, [x], [y]))
    assert match.get("whole").get("r") is nodes[2]
    assert match.get("j") is nodes[3]


# -- rules ----------------------------------------------------------------------------------------


def test_matches_are_in_node_order_and_may_overlap() -> None:
    assert found(pattern_of("Neg", "Neg"), chain("Neg", "Neg", "Neg")) == [["n0", "n1"], ["n1", "n2"]]


def test_without_outputs_nothing_matches_whose_last_tensor_is_used() -> None:
    pattern = pattern_of("Neg")
    pattern.set_output_tensors([])
    assert found(pattern, chain("Neg", "Neg")) == []
    x, y = v("x", "y")
    assert found(pattern, gs.Graph([n("Neg", "dead", [x], [y])], [x], [])) == [["dead"]]


def test_the_domain_does_not_matter() -> None:
    graph = chain("Neg", "Relu")
    graph.nodes[0].domain = "custom"
    assert found(pattern_of("Neg", "Relu"), graph) == [["n0", "n1"]]


def test_the_check_is_asked_for_the_node() -> None:
    graph = chain("Neg", "Neg")
    graph.nodes[1].attrs["k"] = 2
    pattern = gs.GraphPattern()
    pattern.set_output_tensors([pattern.add("a", "Neg", check_func=lambda node: node.attrs.get("k") == 2, inputs=[pattern.variable()])])
    assert found(pattern, graph) == [["n1"]]


def test_counts_are_exact_and_omitted_inputs_count() -> None:
    x, y, z = v("x", "y", "z")
    graph = gs.Graph([n("Clip", "one", [x], [y]), n("Clip", "two", [y, gs.Variable.empty()], [z])], [x], [y, z])
    assert found(pattern_of("Clip"), graph) == [["one"]]
    two = gs.GraphPattern()
    two.set_output_tensors([two.add("c", "Clip", inputs=[two.variable(), two.variable()])])
    assert found(two, graph) == [["two"]]


def test_a_variable_matches_constants_too_and_a_constant_only_those() -> None:
    x, y, z, k = v("x", "y", "z", "k")
    weight = gs.Constant("w", np.ones(2))
    nodes = [n("Constant", "k", [], [k]), n("Add", "weight", [x, weight], [y]), n("Add", "node", [x, k], [z])]
    graph = gs.Graph(nodes, [x], [y, z])
    for make, expected in ((gs.GraphPattern.variable, [["weight"], ["node"]]), (gs.GraphPattern.constant, [["weight"]])):
        pattern = gs.GraphPattern()
        first = pattern.variable()
        pattern.set_output_tensors([pattern.add("a", "Add", inputs=[first, make(pattern)])])
        assert found(pattern, graph) == expected
    pattern = gs.GraphPattern()
    first = pattern.variable()
    second = pattern.add("k", "Constant")
    pattern.set_output_tensors([pattern.add("a", "Add", inputs=[first, second])])
    assert found(pattern, graph) == [["k", "node"]]


def test_one_variable_twice_is_one_tensor() -> None:
    x, y, a, b = v("x", "y", "a", "b")
    graph = gs.Graph([n("Mul", "same", [x, x], [a]), n("Mul", "other", [x, y], [b])], [x, y], [a, b])
    pattern = gs.GraphPattern()
    tensor = pattern.variable()
    pattern.set_output_tensors([pattern.add("m", "Mul", inputs=[tensor, tensor])])
    assert found(pattern, graph) == [["same"]]


def test_the_order_of_operands_matters() -> None:
    x, h, y = v("x", "h", "y")
    weight = gs.Constant("w", np.ones(2))
    graph = gs.Graph([n("Add", "left", [x, weight], [h]), n("Add", "right", [weight, h], [y])], [x], [h, y])
    pattern = gs.GraphPattern()
    first = pattern.variable()
    pattern.set_output_tensors([pattern.add("a", "Add", inputs=[first, pattern.constant()])])
    assert found(pattern, graph) == [["left"]]


def test_inner_tensors_have_no_other_use() -> None:
    graph = chain("Neg", "Relu")
    inner = graph.nodes[0].outputs[0]
    assert found(pattern_of("Neg", "Relu"), graph) == [["n0", "n1"]]
    graph.outputs.append(inner)
    assert found(pattern_of("Neg", "Relu"), graph) == []
    graph.outputs.pop()
    graph.nodes.append(n("Exp", "extra", [inner], v("e")))
    assert found(pattern_of("Neg", "Relu"), graph) == []


def test_bodies_are_not_searched() -> None:
    body = chain("Neg", "Relu")
    x, y = v("x", "y")
    graph = gs.Graph([n("If", "if", [x], [y], attrs={"then_branch": body})], [x], [y])
    assert found(pattern_of("Neg", "Relu"), graph) == []


def test_a_diamond_matches() -> None:
    x, a, b, c, y = v("x", "a", "b", "c", "y")
    nodes = [n("Relu", "top", [x], [a]), n("Neg", "left", [a], [b]), n("Abs", "right", [a], [c]), n("Add", "join", [b, c], [y])]
    pattern = gs.GraphPattern()
    top = pattern.add("top", "Relu", inputs=[pattern.variable()])
    left, right = pattern.add("left", "Neg", inputs=[top]), pattern.add("right", "Abs", inputs=[top])
    pattern.set_output_tensors([pattern.add("join", "Add", inputs=[left, right])])
    assert found(pattern, gs.Graph(nodes, [x], [y])) == [["top", "left", "right", "join"]]


def test_tensors_that_bodies_read_are_used_outside_the_match() -> None:
    graph = chain("Neg", "Relu")
    inner = graph.nodes[0].outputs[0]
    (z,) = v("z")
    branch = gs.Graph([n("Exp", "e", [inner], [z])], outputs=[z])
    graph.nodes.append(n("If", "if", v("c"), v("o"), attrs={"then_branch": branch, "else_branch": branch.copy({inner.name: inner})}))
    assert found(pattern_of("Neg", "Relu"), graph) == []
    assert found(pattern_of("Neg"), graph) == [["n0"]]
    returning = gs.Graph(outputs=[inner])
    graph.nodes[-1] = n("If", "if", v("c2"), v("o2"), attrs={"then_branch": returning, "else_branch": returning})
    for node in branch.nodes:
        node.inputs.clear()
    assert found(pattern_of("Neg", "Relu"), graph) == []


def test_a_pattern_without_variables_matches() -> None:
    k, y = v("k", "y")
    graph = gs.Graph([n("Constant", "k", [], [k]), n("Neg", "n", [k], [y])], [], [y])
    pattern = gs.GraphPattern()
    pattern.set_output_tensors([pattern.add("n", "Neg", inputs=[pattern.add("k", "Constant")])])
    assert found(pattern, graph) == [["n", "k"]] or found(pattern, graph) == [["k", "n"]]


def test_one_node_stands_for_one_pattern_node() -> None:
    x, a, y = v("x", "a", "y")
    graph = gs.Graph([n("Neg", "only", [x], [a]), n("Add", "join", [a, a], [y])], [x], [y])
    pattern = gs.GraphPattern()
    tensor = pattern.variable()
    first, second = pattern.add("first", "Neg", inputs=[tensor]), pattern.add("second", "Neg", inputs=[tensor])
    pattern.set_output_tensors([pattern.add("join", "Add", inputs=[first, second])])
    assert found(pattern, graph) == []


def test_nodes_without_names_are_told_apart() -> None:
    graph = chain("Neg", "Relu", "Neg", "Relu")
    for node in graph.nodes:
        node.name = ""
    matches = pattern_of("Neg", "Relu").match_all(graph)
    assert [[id(m.get("p0")), id(m.get("p1"))] for m in matches] == [[id(graph.nodes[k]), id(graph.nodes[k + 1])] for k in (0, 2)]


# -- against trying everything --------------------------------------------------------------------

ARITY = {"A": (1, 1), "B": (2, 1), "C": (1, 2)}


def random_graph(rng: random.Random, size: int) -> gs.Graph:
    tensors: list[gs.Tensor] = [*v("x0", "x1")]
    inputs, nodes = list(tensors), []
    for k in range(size):
        op = rng.choice("AABBC")
        reads, makes = ARITY[op]
        read = [gs.Constant(f"c{k}{j}", np.ones(1)) if rng.random() < 0.15 else rng.choice(tensors[-4:]) for j in range(reads)]
        made = [gs.Variable(f"t{k}{j}") for j in range(makes)]
        nodes.append(n(op, f"n{k}", read, made))
        tensors.extend(made)
    return gs.Graph(nodes, inputs, [t for t in tensors if not t.outputs] + [rng.choice(tensors)])


def random_pattern(rng: random.Random, graph: gs.Graph) -> tuple[gs.GraphPattern, list[tuple[str, str, list[int], list[int]]], set[int], set[int]]:
    """Make a pattern of some connected nodes of a graph, also spelled out: nodes, ids of constants, ids of outputs."""
    chosen = [rng.choice(graph.nodes)]
    while len(chosen) < 4:
        near = [m for node in chosen for t in (*node.inputs, *node.outputs) for m in (*t.inputs, *t.outputs) if all(m is not k for k in chosen)]
        if not near or rng.random() < 0.2:
            break
        chosen.append(rng.choice(near))
    chosen.sort(key=lambda node: int(node.name[1:]))
    pattern, ids = gs.GraphPattern(), {}
    made = {id(t) for node in chosen for t in node.outputs}
    returned = {id(t) for t in graph.outputs}
    nodes, constants, outputs = [], set(), set()
    for node in chosen:
        for t in node.inputs:
            if id(t) not in ids and id(t) not in made:
                is_constant = isinstance(t, gs.Constant) and rng.random() < 0.5
                ids[id(t)] = pattern.constant() if is_constant else pattern.variable()
                if is_constant:
                    constants.add(ids[id(t)])
        given = pattern.add(node.name, node.op, inputs=[ids[id(t)] for t in node.inputs], num_output_tensors=len(node.outputs))
        for t, number in zip(node.outputs, given if isinstance(given, tuple) else (given,)):
            ids[id(t)] = number
            if id(t) in returned or any(all(k is not m for m in chosen) for k in t.outputs):
                outputs.add(number)
        nodes.append((node.name, node.op, [ids[id(t)] for t in node.inputs], [ids[id(t)] for t in node.outputs]))
    pattern.set_output_tensors(sorted(outputs))
    return pattern, nodes, constants, outputs


def by_trying(graph: gs.Graph, nodes: list[tuple[str, str, list[int], list[int]]], constants: set[int], outputs: set[int]) -> set[tuple[str, ...]]:
    """Try every choice of nodes against the rules."""
    candidates = [[node for node in graph.nodes if node.op == op] for _, op, _, _ in nodes]
    returned = {id(t) for t in graph.outputs}
    good = set()
    for choice in itertools.product(*candidates):
        if len({id(node) for node in choice}) < len(choice):
            continue
        tensors: dict[int, Any] = {}
        pairs = [pair for (_, _, read, made), node in zip(nodes, choice) for pair in (*zip(read, node.inputs), *zip(made, node.outputs))]
        if any(tensors.setdefault(number, t) is not t for number, t in pairs):
            continue
        if any(not isinstance(tensors[k], gs.Constant) for k in constants):
            continue
        inner = {number for _, _, _, made in nodes for number in made} - outputs
        if any(id(tensors[k]) in returned or any(all(r is not m for m in choice) for r in tensors[k].outputs) for k in inner):
            continue
        good.add(tuple(node.name for node in choice))
    return good


@pytest.mark.parametrize("seed", range(60))
def test_every_match_is_one_by_the_rules_and_every_start_that_has_one_is_found(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng, rng.randint(3, 9))
    pattern, nodes, constants, outputs = random_pattern(rng, graph)
    matches = {tuple(names) for names in found(pattern, graph)}
    every = by_trying(graph, nodes, constants, outputs)
    assert matches <= every
    assert every
    assert matches
    for k in range(len(nodes)):
        if {names[k] for names in matches} == {names[k] for names in every}:
            return  # one match a start: there is a pattern node for which no start is missing
    pytest.fail(f"{sorted(every)} are right, but only {sorted(matches)} are found")
