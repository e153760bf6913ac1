"""What is found of one node is used for others like it: only where they are alike in all that matters."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_gs.analysis import shape_functions
from onnx_gs.analysis.shape_values import ShapeFacts, register_shape_function
from onnx_gs.ir import Constant, Graph, Node, Variable


def const(name: str, *values: object, dtype: type = np.int64) -> Constant:
    return Constant(name, np.array(values, dtype))


def outputs(nodes: list[Node], *inputs: Variable, opset: int = 18) -> tuple[ShapeFacts, list[Variable]]:
    graph = Graph(nodes, list(inputs), [n.outputs[0] for n in nodes], opset=opset)
    return ShapeFacts(graph), graph.outputs


def test_constants_of_one_shape_that_hold_something_else():
    x = Variable("x", np.float32, ("n", 4, 6))
    nodes = [Node("Reshape", inputs=[x, const(f"t{k}", -1, k)], outputs=[Variable(f"y{k}")]) for k in (2, 3, 6, 2)]
    facts, made = outputs(nodes, x)
    assert [str(facts.shape(t)) for t in made] == ["(12*n, 2)", "(8*n, 3)", "(4*n, 6)", "(12*n, 2)"]
    assert facts.shape(made[0]) is facts.shape(made[3])


def test_contents_are_computed_from_what_each_reads():
    x = Variable("x", np.float32, ("n", 4))
    nodes = [Node("Shape", inputs=[x], outputs=[s := Variable("s")])]
    nodes += [Node("Mul", inputs=[s, const(f"k{k}", k)], outputs=[Variable(f"m{k}")]) for k in (2, 3)]
    nodes += [Node("Slice", inputs=[s, const(f"a{k}", k), const(f"b{k}", k + 1)], outputs=[Variable(f"p{k}")]) for k in (0, 1)]
    facts, made = outputs(nodes, x)
    assert [str(facts.contents(t).items) for t in made[1:]] == ["(2*n, 8)", "(3*n, 12)", "(n,)", "(4,)"]


def test_attributes_tell_nodes_apart():
    x = Variable("x", np.float32, (2, 3, 4))
    nodes = [Node("Transpose", attrs={"perm": perm}, inputs=[x], outputs=[Variable(f"y{k}")]) for k, perm in enumerate([[0, 2, 1], [2, 1, 0]])]
    nodes += [Node("Softmax", inputs=[x], outputs=[Variable("z")])]
    nodes += [Node("Conv", attrs=attrs, inputs=[x, const("w", *np.zeros((5, 3, 2)))], outputs=[Variable(f"c{k}")])
              for k, attrs in enumerate([{}, {"pads": [1, 1]}, {"strides": [2]}])]  # fmt: skip
    facts, made = outputs(nodes, x)
    assert [facts.shape(t) for t in made] == [(2, 4, 3), (4, 3, 2), (2, 3, 4), (2, 5, 3), (2, 5, 5), (2, 5, 2)]


def test_lists_of_one_attribute_are_no_others_attribute():
    attrs = [{"a": [1, 2], "b": [3]}, {"a": [1], "b": [2, 3]}, {"a": [1, "b"]}, {"a": 1}, {"a": [1]}]
    assert len({shape_values_signature(a) for a in attrs}) == len(attrs)


def shape_values_signature(attrs: dict[str, object]) -> object:
    from onnx_gs.analysis.shape_values import _signature

    return _signature(attrs)


def test_floats_that_are_sizes_are_read_of_each_constant():
    x = Variable("x", np.float32, (1, 3, 10, 10))
    v = Variable("v", np.float32, (2,))
    nodes = [Node("Cast", attrs={"to": 7}, inputs=[t], outputs=[Variable(f"i{k}")])
             for k, t in enumerate([v, const("f", 2.0, 3.0, dtype=np.float32), const("g", 4.0, 5.0, dtype=np.float32)])]  # fmt: skip
    none = Variable.empty()
    nodes += [Node("Resize", inputs=[x, none, const(f"s{k}", 1, 1, k, k, dtype=np.float32)], outputs=[Variable(f"r{k}")]) for k in (2, 3)]
    facts, made = outputs(nodes, x, v)
    assert [c and c.items for c in map(facts.contents, made[:3])] == [None, (2, 3), (4, 5)]
    assert [facts.shape(t) for t in made[3:]] == [(1, 3, 20, 20), (1, 3, 30, 30)]


def test_sizes_that_nothing_says_are_not_the_same_for_two_nodes():
    x = Variable("x", np.float32, (4,))
    a, b = (Variable(n, np.bool_, (4,)) for n in "ab")
    nodes = [Node("Compress", attrs={"axis": 0}, inputs=[x, c], outputs=[Variable(f"y{c.name}")]) for c in (a, b)]
    facts, (ya, yb) = outputs(nodes, x, a, b)
    assert facts.shape(ya) != facts.shape(yb)


@pytest.mark.parametrize("first", [None, 3])
def test_what_is_declared_of_one_output_is_not_taken_for_another(first):
    x, c = Variable("x", np.float32, (4,)), Variable("c", np.bool_, (4,))
    nodes = [Node("Compress", attrs={"axis": 0}, inputs=[x, c], outputs=[p := Variable("p")])]
    declared = [first, 3 if first is None else None, None]
    nodes += [Node("Add", inputs=[p, p], outputs=[Variable(f"y{k}", np.float32, None if d is None else (d,))]) for k, d in enumerate(declared)]
    nodes += [Node("Relu", inputs=[p], outputs=[Variable(f"z{k}", np.float32, None if d is None else (d,))]) for k, d in enumerate(declared)]
    facts, made = outputs(nodes, x, c)
    unknown = facts.shape(p)
    wanted = [unknown if d is None else (3,) for d in declared]
    assert [facts.shape(t) for t in made[1:]] == wanted * 2


def test_conflicts_are_noted_of_each_output():
    x = Variable("x")
    nodes = [Node("Identity", inputs=[x], outputs=[Variable("p")])]
    nodes += [Node("Flatten", inputs=[x], outputs=[Variable(f"y{k}", np.float32, shape)]) for k, shape in enumerate([None, (1, 2, 3), (4, 5, 6)])]
    facts, _ = outputs(nodes, x)
    assert [t.name for t, _ in facts.conflicts] == ["y1", "y2"]


def test_the_outputs_that_a_node_has_count():
    x = Variable("x", np.float32, (6, 2))
    two = Node("Split", attrs={"num_outputs": 2}, inputs=[x], outputs=[Variable("a"), Variable("b")])
    three = Node("Split", inputs=[x], outputs=[Variable("c"), Variable("d"), Variable("e")])
    left_out = Node("TopK", inputs=[x, const("k", 1)], outputs=[Variable.empty(), Variable("i")])
    both = Node("TopK", inputs=[x, const("l", 1)], outputs=[Variable("v"), Variable("j")])
    facts, _ = outputs([two, three, left_out, both], x)
    assert [facts.shape(t) for t in (*two.outputs, *three.outputs)] == [(3, 2)] * 2 + [(2, 2)] * 3
    assert [facts.shape(t) for t in (left_out.outputs[1], *both.outputs)] == [(6, 1)] * 3


def test_an_input_that_is_left_out_counts():
    x = Variable("x", np.float32, (3, 4))
    none = Variable.empty()
    starts, ends, axes = const("starts", 1), const("ends", 2), const("axes", 1)
    nodes = [
        Node("Slice", inputs=[x, starts, ends, axes], outputs=[Variable("a")]),
        Node("Slice", inputs=[x, starts, ends, none], outputs=[Variable("b")]),
        Node("Slice", inputs=[x, starts, ends], outputs=[Variable("c")]),
    ]
    facts, made = outputs(nodes, x)
    assert [facts.shape(t) for t in made] == [(3, 1), (1, 4), (1, 4)]


def test_true_is_no_one():
    x = Variable("x", np.float32, (2,))
    nodes = [
        Node("Cast", attrs={"to": 9}, inputs=[const("one", 1)], outputs=[Variable("b")]),
        Node("Identity", inputs=[const("n", 1)], outputs=[Variable("i")]),
        Node("Identity", inputs=[Constant("t", np.array([True]))], outputs=[Variable("t2")]),
    ]
    facts, made = outputs(nodes, x)
    assert [type(facts.contents(t).items[0]) for t in made] == [bool, int, bool]


def test_shape_functions_of_users_are_asked_of_every_node():
    @register_shape_function("repeated.test", "Named")
    def named(node, shapes):
        return [(int(node.name), *shapes[0])]

    try:
        x = Variable("x", np.float32, ("n",))
        nodes = [Node("Named", name=str(k), domain="repeated.test", inputs=[x], outputs=[Variable(f"y{k}")]) for k in (1, 2)]
        facts, made = outputs(nodes, x)
        assert [facts.shape(t)[0] for t in made] == [1, 2]
    finally:
        del shape_functions.FUNCTIONS["repeated.test", "Named"]


def test_facts_found_anew_see_what_was_edited():
    x = Variable("x", np.float32, (2, 3, 4))
    axis = const("axis", 0)
    nodes = [
        Node("Concat", attrs={"axis": 0}, inputs=[x, x], outputs=[y := Variable("y")]),
        Node("Unsqueeze", inputs=[x, axis], outputs=[u := Variable("u")]),
    ]
    graph = Graph(nodes, [x], [y, u], opset=18)
    before = ShapeFacts(graph)
    assert (before.shape(y), before.shape(u)) == ((4, 3, 4), (1, 2, 3, 4))
    nodes[0].attrs["axis"] = 2
    axis.values = np.array([3])
    after = ShapeFacts(graph, before)
    assert (after.shape(y), after.shape(u)) == ((2, 3, 8), (2, 3, 4, 1))
    assert (before.shape(y), before.shape(u)) == ((4, 3, 4), (1, 2, 3, 4))


def test_facts_of_another_opset_are_not_taken_over():
    x, ratio = Variable("x", np.float32, (2,)), const("r", 0.5, dtype=np.float32)
    y, mask = Variable("y"), Variable("m")
    graph = Graph([Node("Dropout", inputs=[x, ratio], outputs=[y, mask])], [x], [y, mask], opset=7)
    old = ShapeFacts(graph)
    assert old.dtype(mask).name == "FLOAT"
    graph.opset = 12
    assert ShapeFacts(graph, old).dtype(mask).name == "BOOL"


def test_a_tensor_that_became_a_constant_is_read():
    x = Variable("x", np.float32, ("n",))
    y = Variable("y", np.int64, (1,))
    graph = Graph([Node("Custom", domain="nobody", inputs=[x], outputs=[y])], [x], [y], opset=18)
    facts = ShapeFacts(graph)
    assert facts.contents(y) is None
    y.inputs.clear()
    y.to_constant(np.array([7]))
    assert facts.contents(y).items == (7,)


def test_bodies_that_are_alike_have_facts_of_their_own():
    c = Variable("c", np.bool_, ())
    x, z = Variable("x", np.float32, (2, 3)), Variable("z", np.float32, (5,))

    def branch(t: Variable) -> Graph:
        out = Variable("shadowed")
        return Graph([Node("Neg", inputs=[t], outputs=[out])], [], [out], opset=18)

    nodes = [Node("If", attrs={"then_branch": branch(t), "else_branch": branch(t)}, inputs=[c], outputs=[Variable(f"y{t.name}")]) for t in (x, z)]
    facts, made = outputs(nodes, c, x, z)
    assert [facts.shape(t) for t in made] == [(2, 3), (5,)]
    inner = [node.attrs[name].outputs[0] for node in nodes for name in ("then_branch", "else_branch")]
    assert [facts.shape(t) for t in inner] == [(2, 3), (2, 3), (5,), (5,)]


@pytest.mark.parametrize("function", sorted({f.__name__: f for f in shape_functions.FUNCTIONS.values()}.items()), ids=lambda f: f[0])
def test_functions_look_at_no_more_than_they_say(function):
    import inspect

    found = function[1]
    if found in shape_functions.WITHOUT_ATTRIBUTES:
        assert "attrs" not in inspect.getsource(found)
    if found in shape_functions.HAND_ON:
        assert "f.tell(node._outputs[0], f.dtype(x), " in inspect.getsource(found)
