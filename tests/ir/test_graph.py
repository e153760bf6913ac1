"""Graphs: tensors by name, layers, registered functions, copies and pickles."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from onnx_gs.errors import GraphError, GraphTypeError
from onnx_gs.graph import Function, Graph
from onnx_gs.ir import Constant, Node, Variable
from onnx_gs.ir.isomorphism import isomorphic
from onnx_gs.ir.verify import problems


@pytest.fixture
def nested() -> Graph:
    """Give ``y = If(c){ x + w } else { x }``, where ``x`` and the weight are captured, and the else-branch returns a copy of ``x``."""
    x, c, w, y = Variable("x", np.float32, (2,)), Variable("c", np.bool_, ()), Constant("w", np.float32([1, 2])), Variable("y", np.float32, (2,))
    t, e = Variable("t", np.float32, (2,)), Variable("e", np.float32, (2,))
    then_branch = Graph([Node("Add", "add", inputs=[x, w], outputs=[t])], outputs=[t], name="then")
    else_branch = Graph([Node("Identity", "id", inputs=[x], outputs=[e])], outputs=[e], name="else")
    node = Node("If", "if", {"then_branch": then_branch, "else_branch": else_branch}, inputs=[c], outputs=[y])
    return Graph([node], [x, c], [y], name="main", opset=18)


def test_defaults() -> None:
    graph = Graph()
    assert (graph.name, graph.opset, graph.import_domains, graph.ir_version, graph.name_idx) == ("onnx_graphsurgeon_graph", 11, None, None, 0)
    assert type(graph.inputs) is list
    nodes: list[Node] = []
    assert Graph(nodes).nodes is nodes
    node = Node("A", inputs=[Variable("x")])
    graph.inputs = node.inputs
    assert type(graph.inputs) is list


def test_tensors_are_listed_in_order_without_empty_ones() -> None:
    a, b, c, d = (Variable(n) for n in "abcd")
    graph = Graph([Node("N", inputs=[b, Variable.empty()], outputs=[c])], inputs=[a], outputs=[d])
    assert list(graph.tensors()) == ["a", "b", "c", "d"]
    twin = Variable("b")
    graph.outputs.append(twin)
    with pytest.raises(GraphError, match="two tensors are named 'b'"):
        graph.tensors(check_duplicates=True)
    assert graph.tensors()["b"] is twin


def test_layer_names_come_from_one_counter() -> None:
    graph = Graph()
    first = graph.layer(op="Add", inputs=[Variable("t")], outputs=["add_out"])
    second = graph.layer(op="Add", inputs=[Variable("t")], outputs=["add_out"])
    assert (first[0].name, graph.nodes[0].name, second[0].name, graph.nodes[1].name) == (
        "add_out_0", "onnx_graphsurgeon_node_1", "add_out_2", "onnx_graphsurgeon_node_3",
    )  # fmt: skip


def test_layer_skips_names_that_came_into_the_graph_by_other_ways() -> None:
    graph = Graph()
    graph.layer(op="A", outputs=["x"])  # x_0 and node 1
    graph.nodes[0].outputs[0].name = "x_2"
    graph.inputs.append(Variable("x_4"))
    assert graph.layer(op="B", outputs=["x"])[0].name == "x_3"
    assert graph.nodes[-1].name == "onnx_graphsurgeon_node_4"
    graph.nodes[0].inputs.append(Variable("x_5"))
    assert graph.layer(op="C", outputs=["x"])[0].name == "x_6"


def test_generated_names_skip_existing_ones() -> None:
    graph = Graph()
    existing = {f"name_{i}" for i in range(50, 150)}
    assert [graph._generate_name("name", existing) for _ in range(100)] == [f"name_{i}" for i in (*range(50), *range(150, 200))]


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [
        (1, np.int64, ()), (1.5, np.float32, ()), ([1, 2], np.int64, (2,)), ((1, 2.0), np.float32, (2,)), (np.float32(0.5), np.float32, ()),
        (np.ones((2, 2), np.float16), np.float16, (2, 2)), (np.int8(3), np.int8, ()), (True, np.int64, ()),
    ],
)  # fmt: skip
def test_layer_makes_constants(given: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    graph = Graph()
    made = graph.layer(op="N", inputs=[given]).parent_obj.inputs[0]
    assert isinstance(made, Constant)
    assert (made.dtype, made.shape) == (np.dtype(dtype), shape)
    assert np.array_equal(made.values, np.array(given, dtype))


def test_layer_refuses_other_things() -> None:
    with pytest.raises(GraphTypeError, match="cannot be an input or output of a layer"):
        Graph().layer(op="N", inputs=[object()])


def test_registered_functions(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(Graph, "GLOBAL_FUNC_MAP", {})
    monkeypatch.setattr(Graph, "OPSET_FUNC_MAP", {})

    @Graph.register()
    def where_am_i(self: Graph) -> str:
        return "anywhere"

    @Graph.register(opsets=[13])
    def where_am_i(self: Graph) -> str:  # noqa: F811 - the same name for one opset
        return "thirteen"

    @Graph.register(opsets=[13])
    def only_here(self: Graph) -> int:
        return self.opset

    @Graph.register()
    def simplify(self: Graph) -> str:
        return "the user's"

    assert Graph(opset=11).where_am_i() == "anywhere"
    assert Graph(opset=13).where_am_i() == "thirteen"
    assert Graph(opset=13).only_here() == 13
    assert Graph().simplify() == "the user's"
    assert not hasattr(Graph(opset=12), "only_here")
    with pytest.raises(AttributeError, match=r"registered for opsets \[13\]"):
        Graph(opset=12).only_here()
    assert not caplog.records


def test_functions_are_one_list_and_are_called_by_name() -> None:
    x, y = Variable("x", np.float32, (1,)), Variable("y", np.float32, (1,))
    function = Function("Twice", nodes=[Node("Add", inputs=[x, x], outputs=[y])], inputs=[x], outputs=[y], attrs={"alpha": None})
    body = Graph()
    graph = Graph([Node("Scan", attrs={"body": body})], functions=[function])
    assert body.functions is graph.functions is function.functions
    graph.functions.append(Function("Other"))
    assert [f.name for f in body.functions] == ["Twice", "Other"]
    out = graph.Twice(inputs=[Variable("in")], attrs={"alpha": 1})
    assert (out[0].name, out[0].dtype, out[0].shape, graph.nodes[-1].domain) == ("y_0", np.float32, (1,), "onnx_graphsurgeon")


def test_copy_maps_captures_to_the_copied_outer_tensors(nested: Graph) -> None:
    twin = nested.copy()
    assert twin == nested
    assert isomorphic(twin, nested)
    assert not problems(twin)
    add = twin.nodes[0].attrs["then_branch"].nodes[0]
    assert add.inputs[0] is twin.inputs[0]
    assert add.inputs[0] is not nested.inputs[0]
    assert len(nested.inputs[0].outputs) == 2
    twin.inputs[0].name = "renamed"
    assert nested.inputs[0].name == "x"


def test_copy_of_a_body_takes_captures_by_name(nested: Graph) -> None:
    body = nested.nodes[0].attrs["then_branch"]
    other = Variable("x", np.float32, (2,))
    given = {"x": other, "t": Variable("t")}
    twin = body.copy(given)
    assert twin.nodes[0].inputs[0] is other
    assert other.outputs[0] is twin.nodes[0]
    assert twin.outputs[0] is not given["t"]
    assert sorted(given) == ["t", "x"]
    alone = body.copy()
    assert alone.nodes[0].inputs[0] is not nested.inputs[0]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_copies_are_equal_and_disjoint(nested: Graph, duplicate: Any) -> None:
    a, b = Variable("a"), Variable("b")
    nested.functions.append(Function("F", nodes=[Node("Neg", inputs=[a], outputs=[b])], inputs=[a], outputs=[b]))
    twin = duplicate(nested)
    assert twin == nested
    assert isomorphic(twin, nested)
    assert not problems(twin)
    mine = {id(t) for g in (nested, *nested.subgraphs(recursive=True)) for t in g.tensors().values()}
    theirs = {id(t) for g in (twin, *twin.subgraphs(recursive=True)) for t in g.tensors().values()}
    assert not mine & theirs
    assert all(type(g) is Graph for g in twin.subgraphs())


def test_deepcopies_of_nodes_have_tensors_of_their_own(nested: Graph) -> None:
    node = nested.nodes[0]
    for twin in (copy.copy(node), copy.deepcopy(node), pickle.loads(pickle.dumps(node))):
        assert twin == node
        assert twin.inputs[0] is not node.inputs[0]
        assert all(n is twin for n in twin.inputs[0].outputs)
    assert node.copy().inputs == []


def test_a_long_chain_copies_and_pickles_without_recursion() -> None:
    t = Variable("t0")
    graph = Graph(inputs=[t])
    for i in range(5000):
        new = Variable(f"t{i + 1}")
        graph.nodes.append(Node("Neg", inputs=[t], outputs=[new]))
        t = new
    graph.outputs = [t]
    for twin in (graph.copy(), pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        assert twin == graph


def test_equality_looks_at_contents() -> None:
    def make(value: float = 1.0, opset: int = 13) -> Graph:
        x, y = Variable("x"), Variable("y")
        return Graph([Node("N", attrs={"a": np.array([value]), "b": [1, 2]}, inputs=[x], outputs=[y])], [x], [y], opset=opset)

    assert make() == make()
    assert make() != make(2.0)
    assert make() != make(opset=12)
    assert make() != None  # noqa: E711 - the comparison itself is tested


def test_node_ids(nested: Graph) -> None:
    with nested.node_ids():
        assert nested.nodes[0].id == 0
        assert nested._get_used_node_ids()[0] == {0}
    assert not hasattr(nested.nodes[0], "id")


def test_subgraphs(nested: Graph) -> None:
    assert [g.name for g in nested.subgraphs()] == ["then", "else"]
    shared = nested.nodes[0].attrs["then_branch"]
    nested.nodes[0].attrs["else_branch"] = shared
    assert [g.name for g in nested.nodes[0].subgraphs()] == ["then"]
