"""What scripts rely on: graphs, the layer call, registered functions, tensors, copies."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

import onnx_gs as gs

if TYPE_CHECKING:
    from collections.abc import Iterator


def relu_graph(**options: Any) -> gs.Graph:
    x, y = gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.float32, (2,))
    return gs.Graph([gs.Node("Relu", "relu", inputs=[x], outputs=[y])], [x], [y], **options)


def test_defaults() -> None:
    graph = gs.Graph()
    assert gs.Graph.DEFAULT_OPSET == 11
    assert (graph.name, graph.doc_string, graph.opset, graph.import_domains, graph.ir_version) == ("onnx_graphsurgeon_graph", "", 11, None, None)
    assert (graph.producer_name, graph.producer_version, graph.functions, graph.name_idx) == ("", "", [], 0)
    assert (graph.nodes, graph.inputs, graph.outputs) == ([], [], [])


def test_equality() -> None:
    assert relu_graph() == relu_graph(name="other", doc_string="d", producer_name="p")
    assert relu_graph() != relu_graph(opset=12)
    assert relu_graph() != relu_graph(ir_version=8)
    assert relu_graph() != relu_graph(import_domains=[onnx.helper.make_opsetid("", 11)])
    assert relu_graph() != relu_graph(functions=[gs.Function("F")])
    assert relu_graph(functions=[gs.Function("F")]) == relu_graph(functions=[gs.Function("F", nodes=[gs.Node("A")])])
    for field in ("inputs", "outputs", "nodes"):
        other = relu_graph()
        setattr(other, field, [])
        assert relu_graph() != other
    swapped = gs.Graph([gs.Node("B"), gs.Node("A")])
    assert gs.Graph([gs.Node("A"), gs.Node("B")]) != swapped
    nested = [gs.Graph([gs.Node("If", attrs={"g": gs.Graph([gs.Node(op)])})]) for op in "AAB"]
    assert nested[0] == nested[1]
    assert nested[0] != nested[2]


def test_graphs_share_one_list_of_functions() -> None:
    body, inner = gs.Graph(), gs.Graph()
    body.nodes.append(gs.Node("If", attrs={"g": inner}))
    first, second, third = gs.Function("A"), gs.Function("B"), gs.Function("C")
    body.functions.append(second)
    graph = gs.Graph([gs.Node("If", attrs={"g": body})], functions=[first])
    assert [f.name for f in graph.functions] == ["A", "B"]
    assert body.functions is graph.functions is inner.functions is first.functions
    graph.functions.append(third)
    assert [f.name for f in inner.functions] == ["A", "B", "C"]
    graph.functions = [third]
    assert [f.name for f in body.functions] == ["C"]
    assert third.functions is graph.functions


def test_functions_of_one_id_merge_to_the_first() -> None:
    first, second = gs.Function("F", domain="d"), gs.Function("F", domain="d")
    body = gs.Graph(functions=[second])
    graph = gs.Graph([gs.Node("If", attrs={"g": body})], functions=[first])
    assert len(graph.functions) == 1
    assert graph.functions[0] is first


# -- registered functions -------------------------------------------------------------------------


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(gs.Graph.GLOBAL_FUNC_MAP), {k: dict(v) for k, v in gs.Graph.OPSET_FUNC_MAP.items()}
    yield
    gs.Graph.GLOBAL_FUNC_MAP.clear()
    gs.Graph.GLOBAL_FUNC_MAP.update(before[0])
    gs.Graph.OPSET_FUNC_MAP.clear()
    gs.Graph.OPSET_FUNC_MAP.update(before[1])


@pytest.mark.usefixtures("registry")
def test_registered_functions_are_methods() -> None:
    @gs.Graph.register()
    def plus(self: gs.Graph, a: Any, b: Any, *, name: str = "sum") -> Any:
        return self.layer(op="Add", inputs=[a, b], outputs=[name])

    assert gs.Graph.GLOBAL_FUNC_MAP["plus"] is plus
    graph = gs.Graph()
    assert graph.plus(gs.Variable("a"), gs.Variable("b"), name="out")[0].name == "out_0"
    assert graph.nodes[0].op == "Add"
    assert callable(gs.Graph.register([9])(lambda _: None))


@pytest.mark.usefixtures("registry")
def test_a_function_for_the_opset_comes_first() -> None:
    @gs.Graph.register()
    def kind(self: gs.Graph) -> str:
        return "any"

    @gs.Graph.register(opsets=[8, 10])
    def kind(self: gs.Graph) -> str:  # noqa: F811
        return "old"

    assert gs.Graph.OPSET_FUNC_MAP[8]["kind"] is kind
    assert gs.Graph(opset=10).kind() == "old"
    assert gs.Graph(opset=11).kind() == "any"

    @gs.Graph.register(opsets=[8])
    def only(self: gs.Graph) -> str:
        return "8"

    with pytest.raises(AttributeError, match="8"):
        gs.Graph(opset=9).only()


@pytest.mark.usefixtures("registry")
def test_attributes_hide_registered_functions() -> None:
    @gs.Graph.register()
    def cleanup(self: gs.Graph) -> str:
        return "hidden"

    graph = relu_graph()
    assert graph.cleanup() is graph


@pytest.mark.usefixtures("registry")
def test_registered_functions_come_before_local_ones_and_work_on_functions() -> None:
    local = gs.Function("op")
    graph = gs.Graph(functions=[local], opset=13)
    assert graph.op(inputs=[]) is graph.nodes[0].outputs

    @gs.Graph.register(opsets=range(12, 14))
    def op(self: gs.Graph, *args: Any, **kwargs: Any) -> Any:
        return self, args, kwargs

    assert graph.op(1, k=2) == (graph, (1,), {"k": 2})
    function = gs.Function("F", opset=13)
    assert function.op(3) == (function, (3,), {})
    assert not hasattr(gs.Function("F", opset=14), "op")


def test_looking_for_what_is_not_there_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert not hasattr(gs.Graph(), "no_such_function")
    assert capsys.readouterr().out == ""


def test_local_functions_are_methods() -> None:
    x, y = gs.Variable("a"), gs.Variable("b", np.float32, (2,))
    function = gs.Function("Double", domain="any.domain", nodes=[gs.Node("Add", inputs=[x, x], outputs=[y])], inputs=[x], outputs=[y])
    graph = gs.Graph(functions=[function])
    (out,) = graph.Double(inputs=["in"])
    assert (graph.nodes[0].op, graph.nodes[0].domain) == ("Double", "any.domain")
    assert (out.name, out.dtype, out.shape) == ("b_1", np.float32, (2,))


# -- layer ----------------------------------------------------------------------------------------


def test_layer_names() -> None:
    graph = gs.Graph()
    first = graph.layer(op="Add", inputs=[gs.Variable("x")], outputs=["add_out"])
    assert first is graph.nodes[0].outputs
    assert (first[0].name, graph.nodes[0].name) == ("add_out_0", "onnx_graphsurgeon_node_1")
    graph.layer(op="Add", inputs=first, outputs=["add_out"])
    assert (graph.nodes[1].outputs[0].name, graph.nodes[1].name) == ("add_out_2", "onnx_graphsurgeon_node_3")
    graph.layer(op="Neg", name="mine", outputs=["y"])
    assert (graph.nodes[2].name, graph.nodes[2].outputs[0].name) == ("mine", "y_4")


def test_layer_numbers_inputs_first() -> None:
    graph = gs.Graph()
    graph.layer(op="Op", inputs=["a", np.ones(2), [1, 2], 3, 0.5], outputs=["b"])
    (node,) = graph.nodes
    assert [t.name for t in node.inputs] == [
        "a_0", "onnx_graphsurgeon_constant_1", "onnx_graphsurgeon_lst_constant_2", "onnx_graphsurgeon_lst_constant_3", "onnx_graphsurgeon_lst_constant_4"
    ]  # fmt: skip
    assert (node.outputs[0].name, node.name) == ("b_5", "onnx_graphsurgeon_node_6")


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [([1, 2], np.int64, (2,)), ([1, 2.0], np.float32, (2,)), ((1.5,), np.float32, (1,)), (3, np.int64, ()), (3.5, np.float32, ()),
     (np.float32(0.5), np.float32, ()), (np.int32(5), np.int32, ()), (np.ones((2, 2), np.int8), np.int8, (2, 2))],
)  # fmt: skip
def test_layer_makes_constants(given: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    graph = gs.Graph()
    graph.layer(op="Op", inputs=[given], outputs=["y"])
    constant = graph.nodes[0].inputs[0]
    assert isinstance(constant, gs.Constant)
    assert (constant.dtype, constant.shape) == (dtype, shape)
    assert np.array_equal(constant.values, np.asarray(given))


@pytest.mark.parametrize("given", [None, object(), gs.Node("A"), {"a": 1}])
def test_layer_refuses_the_rest(given: Any) -> None:
    graph = gs.Graph()
    with pytest.raises(gs.OnnxGraphSurgeonException):
        graph.layer(op="Op", inputs=[given])
    assert graph.nodes == []


def test_layer_skips_names_in_use() -> None:
    graph = relu_graph()
    graph.outputs[0].name = "y_0"
    assert graph.layer(op="Op", outputs=["y"])[0].name == "y_1"
    graph.layer(op="Op", inputs=["z", "z"], outputs=["z"])
    node = graph.nodes[-1]
    assert [t.name for t in (*node.inputs, *node.outputs)] == ["z_3", "z_4", "z_5"]


def test_generated_names() -> None:
    graph = gs.Graph()
    existing = {f"name_{k}" for k in range(50, 150)}
    found = [graph._generate_name("name", existing) for _ in range(100)]
    assert found == [f"name_{k}" for k in (*range(50), *range(150, 200))]


def test_other_arguments_go_to_the_node() -> None:
    graph = gs.Graph()
    graph.layer(["x"], ["y"], "Op", "n", {"a": 1}, domain="d")
    (node,) = graph.nodes
    assert (node.op, node.name, node.attrs, node.domain) == ("Op", "n", {"a": 1}, "d")


# -- tensors --------------------------------------------------------------------------------------


def test_tensors_in_order() -> None:
    unused, x, y, w = gs.Variable("unused"), gs.Variable("x"), gs.Variable("y"), gs.Constant("w", np.ones(1))
    mid, inner = gs.Variable("mid"), gs.Variable("inner")
    body = gs.Graph([gs.Node("Neg", inputs=[x], outputs=[inner])], outputs=[inner])
    nodes = [
        gs.Node("A", inputs=[x, w, gs.Variable.empty()], outputs=[mid], attrs={"g": body}), gs.Node("B", inputs=[mid], outputs=[y, gs.Variable.empty()])
    ]  # fmt: skip
    graph = gs.Graph(nodes, [unused, x], [y, gs.Variable("alone")])
    found = graph.tensors()
    assert isinstance(found, OrderedDict)
    assert list(found) == ["unused", "x", "w", "mid", "y", "alone"]
    assert all(found[name].name == name for name in found)
    before = [list(map(id, (*n.inputs, *n.outputs))) for n in graph.nodes]
    graph.tensors(check_duplicates=True)
    assert before == [list(map(id, (*n.inputs, *n.outputs))) for n in graph.nodes]
    assert len(graph.inputs) == len(graph.outputs) == 2


def test_duplicate_names() -> None:
    first, second = gs.Variable("x"), gs.Variable("x")
    graph = gs.Graph([gs.Node("A", inputs=[first]), gs.Node("B", inputs=[second])])
    with pytest.raises(gs.OnnxGraphSurgeonException):
        graph.tensors(check_duplicates=True)
    assert graph.tensors()["x"] is second


def test_node_ids() -> None:
    graph = gs.Graph([gs.Node("A"), gs.Node("B")])
    with graph.node_ids():
        assert [node.id for node in graph.nodes] == [0, 1]  # type: ignore[attr-defined]
    assert not hasattr(graph.nodes[0], "id")


def test_used_node_ids() -> None:
    graph = relu_graph()
    graph.nodes.append(gs.Node("Neg", inputs=[graph.inputs[0]], outputs=[gs.Variable("dead")]))
    with graph.node_ids():
        ids, used = graph._get_used_node_ids()
    assert ids == {0}
    assert isinstance(used, list)
    assert any(t is graph.outputs[0] for t in used)


def test_subgraphs_of_a_graph() -> None:
    deep, shared = gs.Graph(name="deep"), gs.Graph(name="shared")
    shared.nodes.append(gs.Node("If", attrs={"g": deep}))
    graph = gs.Graph([gs.Node("If", attrs={"g": shared}), gs.Node("If", attrs={"g": shared})])
    assert [g.name for g in graph.subgraphs()] == ["shared", "shared"]
    assert [g.name for g in graph.subgraphs(recursive=True)].count("deep") >= 1


# -- copies ---------------------------------------------------------------------------------------


def assert_disjoint(a: gs.Graph, b: gs.Graph) -> None:
    def parts(graph: gs.Graph) -> set[int]:
        found = {id(graph)}
        for g in (graph, *graph.subgraphs(recursive=True)):
            found |= {id(g)} | {id(n) for n in g.nodes} | {id(t) for n in g.nodes for t in (*n.inputs, *n.outputs)}
            found |= {id(t) for t in (*g.inputs, *g.outputs)}
        return found

    assert not parts(a) & parts(b)


def nested_graph() -> gs.Graph:
    x, cond, y = gs.Variable("x", np.float32, (2,)), gs.Variable("cond", bool, ()), gs.Variable("y", np.float32, (2,))
    hidden = gs.Variable("hidden", np.float32, (2,))
    inner = gs.Variable("y", np.float32, (2,))  # the outer name, on purpose
    taken = gs.Graph([gs.Node("Relu", inputs=[hidden], outputs=[inner])], outputs=[inner], name="then")
    other = gs.Graph(outputs=[hidden], name="else")
    nodes = [gs.Node("Neg", "neg", inputs=[x], outputs=[hidden]), gs.Node("If", "if", {"then_branch": taken, "else_branch": other}, [cond], [y])]
    return gs.Graph(nodes, [x, cond], [y], opset=13, producer_name="p", producer_version="1")


@pytest.mark.parametrize("make", [lambda g: g.copy(), copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_are_equal_and_disjoint(make: Any) -> None:
    graph = nested_graph()
    new = make(graph)
    assert new == graph
    assert type(new) is type(graph)
    assert_disjoint(graph, new)
    neg, branch = new.nodes
    assert branch.attrs["then_branch"].nodes[0].inputs[0] is neg.outputs[0]
    assert branch.attrs["else_branch"].outputs[0] is neg.outputs[0]
    assert branch.attrs["then_branch"].outputs[0] is not branch.outputs[0]
    assert any(n is branch.attrs["then_branch"].nodes[0] for n in neg.outputs[0].outputs)
    assert (new.producer_name, new.producer_version, new.opset) == ("p", "1", 13)


def test_a_copy_shares_values_and_restarts_its_counter() -> None:
    graph = gs.Graph(name="n", doc_string="d", ir_version=8, import_domains=[onnx.helper.make_opsetid("", 11)])
    graph.layer(op="Op", inputs=[np.ones(3)], outputs=["y"], attrs={"a": [1]})
    new = graph.copy()
    assert new.nodes[0].inputs[0].values is graph.nodes[0].inputs[0].values
    assert new.nodes[0].attrs["a"] is graph.nodes[0].attrs["a"]
    assert (new.name, new.doc_string, new.ir_version, new.import_domains, new.name_idx) == ("n", "d", 8, graph.import_domains, 0)
    assert graph.name_idx == 3


def test_a_body_copied_alone_gets_fresh_captures_or_those_of_the_map() -> None:
    body = nested_graph().nodes[1].attrs["then_branch"]
    alone = body.copy()
    assert alone.nodes[0].inputs[0].name == "hidden"
    assert alone.nodes[0].inputs[0] is not body.nodes[0].inputs[0]
    given: dict[str, gs.Tensor] = {"hidden": gs.Variable("hidden"), "y": gs.Variable("y")}
    mapped = body.copy(given)
    assert mapped.nodes[0].inputs[0] is given["hidden"]
    assert given["hidden"].outputs[0] is mapped.nodes[0]
    assert mapped.outputs[0] is not given["y"]
    assert len(given) == 2


def test_copying_keeps_the_originals_list_of_functions() -> None:
    graph = gs.Graph([gs.Node("If", attrs={"g": gs.Graph()})], functions=[gs.Function("F")])
    new = graph.copy()
    assert new.functions is not graph.functions
    assert graph.functions[0].functions is graph.functions
    assert next(new.subgraphs()).functions is new.functions
    assert next(graph.subgraphs()).functions is graph.functions


def test_text_of_a_graph() -> None:
    text = str(relu_graph(functions=[gs.Function("Local")]))
    for part in ("onnx_graphsurgeon_graph", "11", "Local", "Variable (x)", "relu (Relu)", "Variable (y)"):
        assert part in text
