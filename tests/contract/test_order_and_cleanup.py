"""What scripts rely on: sorting and cleaning up."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from tests.support.rewrites import parse


def v(name: str) -> gs.Variable:
    return gs.Variable(name, np.float32, (2,))


def chain(length: int) -> tuple[gs.Graph, list[gs.Node]]:
    tensors = [v(f"t{k}") for k in range(length + 1)]
    nodes = [gs.Node("Relu", f"n{k}", inputs=[tensors[k]], outputs=[tensors[k + 1]]) for k in range(length)]
    return gs.Graph(list(nodes), [tensors[0]], [tensors[-1]]), nodes


def names(graph: gs.Graph) -> list[str]:
    return [node.name for node in graph.nodes]


# -- toposort -------------------------------------------------------------------------------------


def test_a_chain_listed_backwards() -> None:
    graph, nodes = chain(5)
    graph.nodes.reverse()
    assert graph.toposort() is graph
    assert names(graph) == [n.name for n in nodes]


def test_a_sorted_graph_keeps_its_order() -> None:
    a, b, c = v("a"), v("b"), v("c")
    nodes = [gs.Node("A", "deep0", inputs=[a], outputs=[b]), gs.Node("A", "deep1", inputs=[b], outputs=[c]), gs.Node("A", "flat", inputs=[a])]
    graph = gs.Graph(nodes, [a], [c])
    assert names(graph.toposort()) == ["deep0", "deep1", "flat"]


def test_a_diamond_is_no_cycle() -> None:
    x, a, b, c, y = (v(n) for n in "xabcy")
    nodes = [
        gs.Node("Add", "join", inputs=[b, c], outputs=[y]), gs.Node("Neg", "left", inputs=[a], outputs=[b]),
        gs.Node("Abs", "right", inputs=[a], outputs=[c]), gs.Node("Relu", "top", inputs=[x], outputs=[a]),
    ]  # fmt: skip
    assert names(gs.Graph(nodes, [x], [y]).toposort()) == ["top", "left", "right", "join"]


def test_tiers() -> None:
    x, tiers = v("x"), [[v(f"t{k}{j}") for j in range(3)] for k in range(3)]
    nodes = []
    before: list[Any] = [x]
    for k, tier in enumerate(tiers):
        nodes.append(gs.Node("Op", f"tier{k}", inputs=before, outputs=tier))
        before = [*tier, x]
    graph = gs.Graph(nodes[::-1], [x], tiers[-1])
    assert names(graph.toposort()) == ["tier0", "tier1", "tier2"]


def test_captures_count_as_inputs_at_any_depth() -> None:
    x, hidden, y = v("x"), v("hidden"), v("y")
    inner = gs.Graph([gs.Node("Neg", inputs=[hidden], outputs=[v("i")])], name="inner")
    middle = gs.Graph([gs.Node("If", attrs={"then_branch": inner})], name="middle")
    nodes = [gs.Node("If", "branch", {"then_branch": middle}, outputs=[y]), gs.Node("Abs", "maker", inputs=[x], outputs=[hidden])]
    assert names(gs.Graph(nodes, [x], [y]).toposort()) == ["maker", "branch"]


def test_a_branch_that_returns_an_outer_tensor_depends_on_it() -> None:
    x, hidden, y = v("x"), v("hidden"), v("y")
    branch = gs.Graph(outputs=[hidden])
    nodes = [gs.Node("If", "branch", {"then_branch": branch}, outputs=[y]), gs.Node("Abs", "maker", inputs=[x], outputs=[hidden])]
    assert names(gs.Graph(nodes, [x], [y]).toposort()) == ["maker", "branch"]


def backwards_body() -> gs.Graph:
    a, b = v("a"), v("b")
    return gs.Graph([gs.Node("Abs", "second", inputs=[a], outputs=[b]), gs.Node("Neg", "first", outputs=[a])], outputs=[b])


@pytest.mark.parametrize("recurse", [True, False])
def test_bodies_and_functions_are_sorted_on_request(recurse: bool) -> None:
    body = backwards_body()
    inside = backwards_body()
    function = gs.Function("F", nodes=inside.nodes, outputs=inside.outputs)
    graph = gs.Graph([gs.Node("If", attrs={"then_branch": body})], functions=[function])
    graph.toposort(recurse_subgraphs=recurse, recurse_functions=recurse)
    expected = ["first", "second"] if recurse else ["second", "first"]
    assert names(body) == expected
    assert names(function) == expected


def test_modes() -> None:
    def make() -> gs.Graph:
        graph, _ = chain(2)
        graph.nodes.reverse()
        inner, outer = gs.Function("Inner"), gs.Function("Outer", nodes=[gs.Node("Inner", domain=gs.Function.DEFAULT_DOMAIN)])
        graph.functions = [outer, inner]
        return graph

    for mode, sorted_nodes, sorted_functions in (("full", True, True), ("nodes", True, False), ("functions", False, True)):
        graph = make().toposort(mode=mode)
        assert names(graph) == (["n0", "n1"] if sorted_nodes else ["n1", "n0"])
        assert [f.name for f in graph.functions] == (["Inner", "Outer"] if sorted_functions else ["Outer", "Inner"])
    with pytest.raises(gs.OnnxGraphSurgeonException):
        make().toposort(mode="other")


def test_a_chain_of_functions() -> None:
    def calling(name: str, *called: str) -> gs.Function:
        return gs.Function(name, nodes=[gs.Node(c, domain=gs.Function.DEFAULT_DOMAIN) for c in called])

    graph = gs.Graph(functions=[calling("A", "B"), calling("B", "C"), calling("C", "D"), calling("D")])
    assert [f.name for f in graph.toposort().functions] == ["D", "C", "B", "A"]
    body = gs.Graph([gs.Node("B", domain=gs.Function.DEFAULT_DOMAIN)])
    nested = gs.Function("A", nodes=[gs.Node("If", attrs={"then_branch": body})])
    graph = gs.Graph(functions=[nested, calling("B")])
    assert [f.name for f in graph.toposort().functions] == ["B", "A"]


@pytest.mark.parametrize("called", [["A"], ["B", "A"], ["B", "C", "A"]])
def test_recursive_functions_are_refused(called: list[str]) -> None:
    names_of = ["A", *called]
    functions = [
        gs.Function(caller, nodes=[gs.Node(callee, domain=gs.Function.DEFAULT_DOMAIN)]) for caller, callee in zip(names_of, called)
    ]
    with pytest.raises(gs.OnnxGraphSurgeonException, match="A -> "):
        gs.Graph(functions=functions).toposort()


def test_cycles_are_refused_and_named() -> None:
    a, b, x, y = v("a"), v("b"), v("x"), v("y")
    nodes = [gs.Node("P", "p", inputs=[a, x], outputs=[b]), gs.Node("Q", "q", inputs=[b], outputs=[a, y])]
    with pytest.raises(gs.OnnxGraphSurgeonException, match=r"cycle.*'p'.*'q'"):
        gs.Graph(nodes, [x], [y]).toposort()
    me = v("me")
    with pytest.raises(gs.OnnxGraphSurgeonException, match="cycle"):
        gs.Graph([gs.Node("Loop", inputs=[me], outputs=[me])]).toposort()


def test_a_producer_outside_the_graph_is_refused() -> None:
    x, h, y = v("x"), v("h"), v("y")
    gs.Node("Abs", "stray", inputs=[x], outputs=[h])
    with pytest.raises(gs.OnnxGraphSurgeonException, match="not in the graph"):
        gs.Graph([gs.Node("Neg", inputs=[h], outputs=[y])], [x], [y]).toposort()


def test_a_body_is_sorted_on_its_own() -> None:
    x, cond, outer, inner, then, other, y = (v(n) for n in ("x", "cond", "outer", "inner", "then", "other", "y"))
    body = gs.Graph([gs.Node("Neg", "second", inputs=[inner], outputs=[then]), gs.Node("Exp", "first", inputs=[outer], outputs=[inner])], [], [then])
    rest = gs.Graph([gs.Node("Abs", inputs=[outer], outputs=[other])], [], [other])
    branch = gs.Node("If", attrs={"then_branch": body, "else_branch": rest}, inputs=[cond], outputs=[y])
    gs.Graph([gs.Node("Relu", inputs=[x], outputs=[outer]), branch], [x, cond], [y])
    assert names(body.toposort()) == ["first", "second"]
    graph = parse(
        """g (float[2] x, int64 n, bool c) => (float[2] y) {
            outer = Relu (x)
            y = Loop (n, c, x) <body = b (int64 i, bool k, float[2] a) => (bool k2, float[2] z) { k2 = Identity (k) z = Add (a, outer) }>
        }"""
    )
    body = graph.nodes[1].attrs["body"]
    body.nodes.reverse()
    assert [node.op for node in body.toposort().nodes] == ["Add", "Identity"]


# -- cleanup --------------------------------------------------------------------------------------


def test_dead_nodes_go_unlinked() -> None:
    graph, nodes = chain(3)
    dead_end, deader = v("d0"), v("d1")
    dead = [gs.Node("Neg", inputs=[nodes[0].outputs[0]], outputs=[dead_end]), gs.Node("Neg", inputs=[dead_end], outputs=[deader])]
    graph.nodes.extend(dead)
    assert graph.cleanup() is graph
    assert names(graph) == ["n0", "n1", "n2"]
    assert all(not n.inputs and not n.outputs for n in dead)
    assert len(nodes[0].outputs[0].outputs) == 1


@pytest.mark.parametrize("outputs", [[], [""], ["", ""]])
def test_a_node_that_makes_nothing_goes_though_all_tensors_are_read(outputs: list[str]) -> None:
    graph, _ = chain(2)
    graph.nodes.insert(0, gs.Node("Neg", "idle", inputs=[graph.inputs[0]], outputs=[v(n) for n in outputs]))
    assert names(graph.cleanup()) == ["n0", "n1"]
    assert len(graph.inputs[0].outputs) == 1


def test_a_node_taken_out_by_clearing_its_outputs_goes() -> None:
    graph, (first, second) = chain(2)
    second.inputs[0] = first.inputs[0]
    first.outputs.clear()
    assert names(graph.cleanup()) == ["n1"]
    assert graph.inputs[0].outputs[0] is second


def test_what_describes_weights_goes_with_what_is_unused() -> None:
    graph = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] spare = {3, 4}, float[2] h> { h = Add (x, w) y = Neg (h) }")
    proto = gs.export_onnx(graph)
    for name in ("w", "spare", "nobody"):
        proto.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (2,)))
    graph = gs.import_onnx(proto)
    assert gs.export_onnx(graph) == proto
    again = gs.export_onnx(graph.cleanup())
    assert [i.name for i in again.graph.value_info] == ["h"]
    assert [i.name for i in again.graph.initializer] == ["w"]


def test_readers_of_outputs_that_lead_nowhere_go() -> None:
    graph, nodes = chain(2)
    after = gs.Node("Neg", inputs=[graph.outputs[0]], outputs=[v("after")])
    graph.nodes.append(after)
    graph.cleanup()
    assert len(graph.nodes) == 2
    assert not graph.outputs[0].outputs
    assert graph.outputs[0].inputs[0] is nodes[-1]


def test_what_feeds_an_input_goes() -> None:
    graph, nodes = chain(3)
    graph.inputs = [nodes[1].inputs[0]]
    graph.cleanup()
    assert names(graph) == ["n1", "n2"]
    assert not graph.inputs[0].inputs


def test_unused_inputs_stay_unless_asked() -> None:
    graph, _ = chain(1)
    graph.inputs.append(v("unused"))
    assert [t.name for t in graph.cleanup().inputs] == ["t0", "unused"]
    assert [t.name for t in graph.cleanup(remove_unused_graph_inputs=True).inputs] == ["t0"]


def test_outputs_that_are_inputs_keep_order() -> None:
    a, b = v("a"), v("b")
    graph = gs.Graph([], [a, b], [b, a])
    graph.cleanup(remove_unused_graph_inputs=True)
    assert [t.name for t in graph.inputs] == ["a", "b"]
    assert [t.name for t in graph.outputs] == ["b", "a"]


def test_order_of_node_inputs_is_kept() -> None:
    x, y, z, out = v("x"), v("y"), v("z"), v("out")
    node = gs.Node("Concat", inputs=[z, x, y, x], outputs=[out])
    graph = gs.Graph([node], [x, y, z], [out]).cleanup(remove_unused_graph_inputs=True, remove_unused_node_outputs=True)
    assert [t.name for t in graph.nodes[0].inputs] == ["z", "x", "y", "x"]


def nested(returned: bool) -> gs.Graph:
    x, hidden, y, cond = v("x"), v("hidden"), v("y"), gs.Variable("cond", bool, ())
    inner = v("inner")
    body = gs.Graph(outputs=[hidden]) if returned else gs.Graph([gs.Node("Neg", inputs=[hidden], outputs=[inner])], outputs=[inner])
    deep = gs.Graph([gs.Node("If", attrs={"then_branch": body, "else_branch": body.copy({"hidden": hidden})}, inputs=[cond], outputs=[v("d")])])
    deep.outputs = [deep.nodes[0].outputs[0]]
    nodes = [
        gs.Node("Abs", "maker", inputs=[x], outputs=[hidden]),
        gs.Node("If", "if", {"then_branch": deep, "else_branch": gs.Graph(outputs=[hidden])}, [cond], [y]),
    ]
    return gs.Graph(nodes, [x, cond], [y])


@pytest.mark.parametrize("returned", [True, False])
def test_what_only_a_body_reads_stays(returned: bool) -> None:
    graph = nested(returned).cleanup()
    assert names(graph) == ["maker", "if"]
    assert graph.nodes[0].outputs[0].name == "hidden"


@pytest.mark.parametrize("recurse", [True, False])
def test_bodies_and_functions_are_cleaned_on_request(recurse: bool) -> None:
    def body() -> gs.Graph:
        y = v("y")
        return gs.Graph([gs.Node("A", "live", outputs=[y]), gs.Node("B", "dead", outputs=[v("d")])], outputs=[y])

    inside, inner = body(), body()
    function = gs.Function("F", nodes=inside.nodes, outputs=inside.outputs)
    out = v("out")
    graph = gs.Graph([gs.Node("If", attrs={"then_branch": inner}, outputs=[out])], outputs=[out], functions=[function])
    graph.cleanup(recurse_subgraphs=recurse, recurse_functions=recurse)
    assert names(inner) == names(function) == (["live"] if recurse else ["live", "dead"])


def test_unused_outputs_of_nodes_keep_positions() -> None:
    x, used = v("x"), gs.Variable("used", np.int64, (2,))
    node = gs.Node("TopK", inputs=[x, gs.Constant("k", np.int64([2]))], outputs=[v("first"), used])
    graph = gs.Graph([node], [x], [used], opset=13).cleanup(remove_unused_node_outputs=True)
    assert graph.nodes[0].outputs[1] is used
    assert len(graph.nodes[0].outputs) == 2


@pytest.mark.parametrize(
    ("op", "count", "used", "left"),
    [("Unknown", 2, 0, ["o0"]), ("Unknown", 3, 1, ["", "o1"]), ("Dropout", 2, 0, ["o0"]), ("Relu", 2, 0, ["o0"]), ("TopK", 2, 0, ["o0", "o1"]),
     ("Split", 3, 0, ["o0", "o1", "o2"]), ("LSTM", 3, 2, ["", "", "o2"])],
)  # fmt: skip
def test_unused_outputs_go_where_the_operator_can_do_without(op: str, count: int, used: int, left: list[str]) -> None:
    outputs, y = [v(f"o{k}") for k in range(count)], v("y")
    nodes = [gs.Node(op, inputs=[v("x")], outputs=outputs), gs.Node("Neg", inputs=[outputs[used]], outputs=[y])]
    graph = gs.Graph(nodes, [nodes[0].inputs[0]], [y], opset=13)
    assert [len(graph.copy().cleanup().nodes[0].outputs)] == [count]
    assert [t.name for t in graph.cleanup(remove_unused_node_outputs=True).nodes[0].outputs] == left


def test_bodies_keep_their_signature() -> None:
    i, c, s, out = gs.Variable("i", np.int64, ()), gs.Variable("c", bool, ()), v("s"), v("out")
    y = v("y")
    body = gs.Graph([gs.Node("Neg", inputs=[s], outputs=[out])], [i, c, s], [c, out])
    x, cond = v("x"), gs.Variable("cond", bool, ())
    node = gs.Node("Loop", attrs={"body": body}, inputs=[gs.Constant("m", np.array(2)), cond, x], outputs=[y])
    gs.Graph([node], [x, cond], [y]).cleanup(remove_unused_graph_inputs=True, remove_unused_node_outputs=True)
    assert [t.name for t in body.inputs] == ["i", "c", "s"]
    assert [t.name for t in body.outputs] == ["c", "out"]


def test_namesakes_are_joined_before() -> None:
    x, y = v("x"), v("y")
    nodes = [gs.Node("Abs", inputs=[x], outputs=[v("h")]), gs.Node("Neg", inputs=[v("h")], outputs=[v("y")])]
    graph = gs.Graph(nodes, [x], [y]).cleanup()
    assert [n.op for n in graph.nodes] == ["Abs", "Neg"]
    assert graph.outputs[0].inputs[0] is graph.nodes[1]
