# ruff: noqa: ARG005, RUF005 - a table of edits of one signature; sums of lists are what is tested
"""What scripts rely on: nodes, attribute values, and lists that keep both ends in step."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from tests.support.reference_names import module


def exported(value: Any) -> Any:
    (attribute,) = module("exporters.onnx_exporter").OnnxExporter.export_attributes({"a": value})
    return attribute


def test_a_node_keeps_what_it_is_given() -> None:
    attrs = {"axis": 1}
    x, y = gs.Variable("x"), gs.Variable("y")
    node = gs.Node("Op", "name", attrs, [x], [y], domain="d")
    assert (node.op, node.name, node.domain) == ("Op", "name", "d")
    assert node.attrs is attrs
    assert node.inputs[0] is x
    assert y.inputs[0] is node
    bare = gs.Node("Op")
    assert (bare.name, bare.attrs, bare.domain, list(bare.inputs), list(bare.outputs)) == ("", OrderedDict(), None, [], [])


def test_walking_between_nodes() -> None:
    mid, fork = gs.Variable("mid"), gs.Variable("fork")
    first = gs.Node("A", outputs=[mid, fork])
    second = gs.Node("B", inputs=[gs.Variable("other"), mid])
    third = gs.Node("C", inputs=[mid])
    assert second.i(1) is first
    assert second.i(tensor_idx=1, producer_idx=0) is first
    assert first.o() is second
    assert first.o(1) is third
    assert first.o(consumer_idx=1, tensor_idx=0) is third
    with pytest.raises(IndexError):
        first.o(0, 1)


def test_equality_is_by_content() -> None:
    def make(**changes: Any) -> gs.Node:
        given = {"op": "Op", "name": "n", "attrs": {"a": 1}, "inputs": [gs.Variable("x")], "outputs": [gs.Variable("y")], "domain": None}
        return gs.Node(**{**given, **changes})

    assert make() == make()
    for changes in ({"op": "Other"}, {"name": "m"}, {"attrs": {"a": 2}}, {"inputs": []}, {"outputs": [gs.Variable("z")]}, {"domain": "d"}):
        assert make() != make(**changes)


def test_copy_has_no_links_unless_given() -> None:
    body = gs.Graph(name="body")
    node = gs.Node("Op", "n", {"a": [1], "g": body}, [gs.Variable("x")], [gs.Variable("y")], domain="d")
    new = node.copy()
    assert (new.op, new.name, new.domain, list(new.inputs), list(new.outputs)) == ("Op", "n", "d", [], [])
    assert new.attrs is not node.attrs
    assert new.attrs["a"] is node.attrs["a"]
    assert new.attrs["g"] is not body
    assert new.attrs["g"].name == "body"
    other = node.copy(inputs=[gs.Variable("u")], outputs=[gs.Variable("v")])
    assert [t.name for t in (*other.inputs, *other.outputs)] == ["u", "v"]


def test_copies_of_bodies_read_from_the_map() -> None:
    outer, replacement = gs.Variable("outer"), gs.Variable("outer")
    inner = gs.Graph([gs.Node("Neg", inputs=[outer], outputs=[gs.Variable("y")])])
    new = gs.Node("If", attrs={"then_branch": inner}).copy(tensor_map={"outer": replacement})
    assert new.attrs["then_branch"].nodes[0].inputs[0] is replacement


def test_subgraphs() -> None:
    deep = gs.Graph(name="deep")
    shared = gs.Graph([gs.Node("If", attrs={"g": deep})], name="shared")
    node = gs.Node("If", attrs={"x": 1, "a": shared, "b": shared, "c": gs.Graph(name="c")})
    assert [g.name for g in node.subgraphs()] == ["shared", "c"]
    assert sorted(g.name for g in node.subgraphs(recursive=True)) == ["c", "deep", "shared"]
    looped = gs.Graph(name="looped")
    looped.nodes.append(gs.Node("If", attrs={"g": looped}))
    assert [g.name for g in looped.nodes[0].subgraphs(recursive=True)] == ["looped"]


def test_text_of_a_node() -> None:
    node = gs.Node("Op", "n", {"axis": 3}, [gs.Variable("x")], [gs.Variable("y")], domain="dom")
    for text in (str(node), repr(node)):
        for part in ("n (Op)", "Variable (x)", "Variable (y)", "axis", "dom"):
            assert part in text


def test_attribute_references_compare_by_value() -> None:
    assert gs.Node.AttributeRef("a", float) == gs.Node.AttributeRef("a", float)
    assert gs.Node.AttributeRef("a", float) != gs.Node.AttributeRef("b", float)
    reference = gs.Node.AttributeRef("a", int)
    assert (reference.name, reference.type) == ("a", int)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(float, "FLOAT"), (int, "INT"), (str, "STRING"), (gs.Tensor, "TENSOR"), (gs.Graph, "GRAPH"), (list[float], "FLOATS"), (list[int], "INTS"),
     (list[str], "STRINGS"), (np.int64, "INT"), (np.int32, "INT"), (np.float32, "FLOAT"), (np.float64, "FLOAT")],
)  # fmt: skip
def test_references_are_exported_with_their_type(kind: Any, expected: str) -> None:
    attribute = exported(gs.Node.AttributeRef("theirs", kind))
    assert (attribute.name, attribute.ref_attr_name, attribute.type) == ("a", "theirs", getattr(onnx.AttributeProto, expected))


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        (1.5, "f", 1.5), (2, "i", 2), ("text", "s", b"text"), (b"\xff\x00", "s", b"\xff\x00"), ([1, 2], "ints", [1, 2]), ((1, 2), "ints", [1, 2]),
        ([1.5], "floats", [1.5]), ([1.0, 2], "floats", [1.0, 2.0]), (["a"], "strings", [b"a"]), (True, "i", 1), (np.int32(3), "i", 3),
        (np.float32(0.5), "f", 0.5), (np.bool_(True), "i", 1), (np.array([1, 2]), "ints", [1, 2]), (np.float32([0.5]), "floats", [0.5]),
        (np.float32, "i", 1), (np.int64, "i", 7), (bool, "i", 9), (np.dtype("f4"), "i", 1), (np.dtype("float16"), "i", 10),
    ],
)  # fmt: skip
def test_attribute_values(value: Any, field: str, expected: Any) -> None:
    found = getattr(exported(value), field)
    assert (list(found) if isinstance(expected, list) else found) == expected


def test_attributes_that_are_tensors_and_graphs() -> None:
    attribute = exported(gs.Constant("c", np.float32([1, 2])))
    assert attribute.type == onnx.AttributeProto.TENSOR
    assert onnx.numpy_helper.to_array(attribute.t).tolist() == [1, 2]
    assert exported(gs.Graph(name="body")).g.name == "body"
    assert [g.name for g in exported([gs.Graph(name="a"), gs.Graph(name="b")]).graphs] == ["a", "b"]


def test_none_is_no_attribute_value() -> None:
    with pytest.raises((TypeError, gs.OnnxGraphSurgeonException)):
        exported(None)


# -- synchronized lists ---------------------------------------------------------------------------


@pytest.fixture
def parts() -> tuple[gs.Node, list[gs.Variable]]:
    tensors = [gs.Variable(f"t{k}") for k in range(6)]
    return gs.Node("Op", inputs=tensors[:3]), tensors


def names(tensors: Any) -> list[str]:
    return [t.name for t in tensors]


def in_step(node: gs.Node, tensors: list[gs.Variable]) -> bool:
    return all(sum(n is node for n in t.outputs) == sum(u is t for u in node.inputs) for t in tensors)


EDITS: dict[str, Any] = {
    "append": lambda n, t: n.inputs.append(t[3]),
    "extend": lambda n, t: n.inputs.extend(t[3:]),
    "extend generator": lambda n, t: n.inputs.extend(u for u in t[3:]),
    "extend itself": lambda n, t: n.inputs.extend(n.inputs),
    "insert": lambda n, t: n.inputs.insert(1, t[3]),
    "insert far": lambda n, t: n.inputs.insert(99, t[3]),
    "insert before": lambda n, t: n.inputs.insert(-1, t[3]),
    "remove": lambda n, t: n.inputs.remove(t[1]),
    "pop": lambda n, t: n.inputs.pop(),
    "pop first": lambda n, t: n.inputs.pop(0),
    "del": lambda n, t: n.inputs.__delitem__(1),
    "del negative": lambda n, t: n.inputs.__delitem__(-1),
    "del slice": lambda n, t: n.inputs.__delitem__(slice(0, 2)),
    "del steps": lambda n, t: n.inputs.__delitem__(slice(None, None, 2)),
    "set": lambda n, t: n.inputs.__setitem__(0, t[4]),
    "set the same": lambda n, t: n.inputs.__setitem__(0, t[0]),
    "set slice": lambda n, t: n.inputs.__setitem__(slice(1, 3), t[3:6]),
    "set steps": lambda n, t: n.inputs.__setitem__(slice(None, None, 2), t[3:5]),
    "clear": lambda n, t: n.inputs.clear(),
    "iadd": lambda n, t: n.inputs.__iadd__(t[3:]),
    "imul": lambda n, t: n.inputs.__imul__(2),
    "imul zero": lambda n, t: n.inputs.__imul__(0),
    "sort": lambda n, t: n.inputs.sort(key=lambda u: u.name, reverse=True),
    "reverse": lambda n, t: n.inputs.reverse(),
    "assign": lambda n, t: setattr(n, "inputs", [t[5], t[0]]),
    "assign reversed": lambda n, t: setattr(n, "inputs", reversed(n.inputs)),
    "assign generator over itself": lambda n, t: setattr(n, "inputs", (u for u in n.inputs)),
    "assign itself": lambda n, t: setattr(n, "inputs", n.inputs),
}


@pytest.mark.parametrize("edit", list(EDITS))
def test_every_edit_keeps_both_ends_and_acts_like_a_list(edit: str, parts: tuple[gs.Node, list[gs.Variable]]) -> None:
    node, tensors = parts
    before = node.inputs

    plain: Any = SimpleNamespace(inputs=list(tensors[:3]))
    EDITS[edit](node, tensors)
    EDITS[edit](plain, tensors)
    assert names(node.inputs) == names(plain.inputs)
    assert node.inputs is before
    assert in_step(node, tensors)


def test_the_same_from_the_side_of_tensors() -> None:
    tensor, nodes = gs.Variable("t"), [gs.Node("Op", str(k)) for k in range(4)]
    tensor.outputs = nodes[:2]
    tensor.outputs.append(nodes[2])
    tensor.outputs += [nodes[3]]
    assert [list(map(id, n.inputs)) for n in nodes] == [[id(tensor)]] * 4
    del tensor.outputs[1:3]
    assert [len(n.inputs) for n in nodes] == [1, 0, 0, 1]
    tensor.inputs.append(nodes[1])
    assert nodes[1].outputs[0] is tensor


def test_a_list_made_by_hand_names_the_mirror() -> None:
    make = module("util.misc").SynchronizedList
    node, tensors = gs.Node("Op"), [gs.Variable("a"), gs.Variable("b")]
    inputs = make(node, field_name="outputs", initial=tensors)
    assert isinstance(inputs, list)
    assert inputs == tensors
    assert [list(map(id, t.outputs)) for t in tensors] == [[id(node)]] * 2
    assert not tensors[0].inputs
    outputs = make(node, "inputs", [gs.Variable("c")])
    assert outputs[0].inputs[0] is node
    assert type(node.inputs) is make


def test_augmented_assignment_on_the_owner() -> None:
    node = gs.Node("Op", inputs=[gs.Variable("a")])
    kept = node.inputs
    node.inputs += [gs.Variable("b")]
    assert node.inputs is kept
    assert names(node.inputs) == ["a", "b"]


def test_assigning_anothers_list_copies_it(parts: tuple[gs.Node, list[gs.Variable]]) -> None:
    node, tensors = parts
    other = gs.Node("Other")
    other.inputs = node.inputs
    assert other.inputs == node.inputs
    assert other.inputs is not node.inputs
    assert [len(t.outputs) for t in tensors[:3]] == [2, 2, 2]


def test_a_tensor_read_twice_lists_its_reader_twice() -> None:
    x = gs.Variable("x")
    node = gs.Node("Mul", inputs=[x, x])
    assert len(x.outputs) == 2
    node.inputs.pop()
    assert len(x.outputs) == 1
    assert len(node.inputs) == 1


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda x: x[:], lambda x: x + [], lambda x: x * 1, lambda x: x.copy(),
                                  lambda x: pickle.loads(pickle.dumps(x))])  # fmt: skip
def test_copies_are_plain_lists(make: Any, parts: tuple[gs.Node, list[gs.Variable]]) -> None:
    node, tensors = parts
    new = make(node.inputs)
    assert type(new) is list
    assert names(new) == ["t0", "t1", "t2"]
    new.append(tensors[4])
    assert len(node.inputs) == 3
    assert not tensors[4].outputs


def test_deepcopy_does_not_copy_elements(parts: tuple[gs.Node, list[gs.Variable]]) -> None:
    node, tensors = parts
    assert all(a is b for a, b in zip(copy.deepcopy(node.inputs), tensors))


def test_sums_change_nothing(parts: tuple[gs.Node, list[gs.Variable]]) -> None:
    node, tensors = parts
    assert names(node.inputs + tensors[3:]) == names(tensors)
    assert names([tensors[5]] + node.inputs) == ["t5", "t0", "t1", "t2"]
    assert len(node.inputs) == 3
    assert not tensors[3].outputs


def test_membership_is_by_name(parts: tuple[gs.Node, list[gs.Variable]]) -> None:
    node, _ = parts
    assert gs.Variable("t1") in node.inputs
    assert node.inputs.index(gs.Variable("t1")) == 1
    node.inputs.remove(gs.Variable("t1"))
    assert names(node.inputs) == ["t0", "t2"]


@pytest.mark.parametrize("stranger", [None, 3, "name", object(), gs.Graph(), gs.Node("A")])
def test_a_stranger_changes_nothing(stranger: Any, parts: tuple[gs.Node, list[gs.Variable]]) -> None:
    node, tensors = parts
    edits: list[Any] = [
        lambda: node.inputs.append(stranger), lambda: node.inputs.extend([tensors[3], stranger]), lambda: node.inputs.insert(0, stranger),
        lambda: node.inputs.__setitem__(0, stranger), lambda: node.inputs.__setitem__(slice(0, 2), [tensors[3], stranger]),
        lambda: setattr(node, "inputs", [tensors[3], stranger]),
    ]  # fmt: skip
    for edit in edits:
        with pytest.raises((gs.OnnxGraphSurgeonException, TypeError, AttributeError)):
            edit()
        assert names(node.inputs) == ["t0", "t1", "t2"]
        assert in_step(node, tensors)


def test_lists_of_graphs_are_plain() -> None:
    node = gs.Node("Op", inputs=[gs.Variable("x")], outputs=[gs.Variable("y")])
    graph = gs.Graph([node], node.inputs, node.outputs)
    assert type(graph.inputs) is list
    assert type(graph.outputs) is list
    graph.outputs = node.outputs
    graph.outputs.append(gs.Variable("z"))
    assert type(graph.outputs) is list
    assert len(node.outputs) == 1
    nodes = [node]
    assert gs.Graph(nodes).nodes is nodes
    graph.nodes.remove(node)
    assert len(node.inputs) == 1
