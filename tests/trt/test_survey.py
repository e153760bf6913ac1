"""The quick look at a model: what it says holds, and it says nothing where it does not know."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.analysis.shape_values import ShapeFacts
from onnx_gs.ir import Constant, Function, Graph, Node, Variable, walk
from onnx_gs.trt import capability, check
from onnx_gs.trt.facts import ModelFacts
from onnx_gs.trt.rules import examine
from onnx_gs.trt.survey import Survey


def var(name: str, dtype: object = None, shape: object = None) -> Variable:
    return Variable(name, dtype, shape)


def chain(*nodes: Node, x: Variable) -> Graph:
    return Graph(list(nodes), [x], [nodes[-1].outputs[0]], opset=18)


def test_it_names_inputs_weights_and_what_operators_make():
    x, s, y, z = var("x", np.float32, (2, 3)), var("s"), var("y"), var("z")
    half = Constant("w", np.ones((2, 3, 1, 1, 1), np.float16))
    graph = chain(Node("Shape", inputs=[x], outputs=[s]), Node("Mul", inputs=[half, half], outputs=[y]), Node("Identity", inputs=[y], outputs=[z]), x=x)
    found = Survey.of(graph)
    assert found.types == {"FLOAT", "FLOAT16", "INT64"}
    assert found.rank == 5


def test_a_cast_and_a_constant_say_their_types():
    x, y, z, k = var("x", np.float32, (2,)), var("y"), var("z"), var("k")
    value = Constant("v", np.ones((1,) * 6, np.uint8))
    graph = chain(
        Node("Cast", attrs={"to": 11}, inputs=[x], outputs=[y]),
        Node("Constant", attrs={"value": value}, outputs=[k]),
        Node("Add", inputs=[y, y], outputs=[z]),
        x=x,
    )
    found = Survey.of(graph)
    assert found.types == {"FLOAT", "DOUBLE", "UINT8"}
    assert found.rank == 6


@pytest.mark.parametrize(
    "node",
    [
        Node("Custom", domain="my.domain"),
        Node("NoSuchOperator"),
        Node("Constant", attrs={"value_strings": ["a"]}),
        Node("SequenceEmpty"),
    ],
    ids=lambda n: n.op,
)
def test_it_says_nothing_of_types_where_an_operator_may_make_any(node):
    x, y = var("x", np.float32, (2,)), var("y")
    node = node.copy([] if node.op in {"Constant", "SequenceEmpty"} else [x], [y])
    assert Survey.of(chain(node, x=x)).types is None


@pytest.mark.parametrize(("op", "some"), [("QuantizeLinear", {"INT8", "UINT8"}), ("EyeLike", {"INT8", "DOUBLE"})])
def test_it_names_all_that_an_operator_may_make(op, some):
    x, y = var("x", np.float32, (2, 2)), var("y")
    found = Survey.of(chain(Node(op, inputs=[x, x] if op == "QuantizeLinear" else [x], outputs=[y]), x=x))
    assert found.types is not None
    assert found.types >= some | {"FLOAT"}


def test_it_says_nothing_where_an_input_has_no_type_or_there_are_functions():
    x, y = var("x"), var("y")
    assert Survey.of(chain(Node("Relu", inputs=[x], outputs=[y]), x=x)).types is None
    x, y = var("x", np.float32, (2,)), var("y")
    graph = chain(Node("Relu", inputs=[x], outputs=[y]), x=x)
    a, b = var("a"), var("b")
    graph.functions.append(Function("f", "my.domain", [Node("Relu", inputs=[a], outputs=[b])], [a], [b]))
    assert Survey.of(graph).types is None


def test_ranks_are_not_known_behind_what_adds_dims():
    x, y, z = var("x", np.float32, (2,)), var("y"), var("z")
    add_dims = Node("Unsqueeze", inputs=[x, Constant("axes", np.arange(1, 9))], outputs=[y])
    graph = chain(add_dims, Node("Relu", inputs=[y], outputs=[z]), x=x)
    found = Survey.of(graph)
    assert found.types == {"FLOAT", "INT64"}
    assert found.rank is None
    assert {f.id for f in check(graph, "rtx-1.7", static=True).blockers} == {"rank-limit"}


def test_it_looks_into_bodies_and_knows_what_a_loop_gives_them():
    x, y, i, c, inner, out = var("x", np.float32, (2,)), var("y"), var("i"), var("c"), var("inner"), var("out")
    held = Constant("held", np.ones(2, np.float64))
    body = Graph([Node("Add", inputs=[inner, held], outputs=[out])], [i, c, inner], [c, out])
    loop = Node("Loop", attrs={"body": body}, inputs=[Constant("n", np.array(3, np.int32)), Variable.empty(), x], outputs=[y])
    assert Survey.of(chain(loop, x=x)).types == {"FLOAT", "DOUBLE", "INT32", "INT64", "BOOL"}


def test_weights_that_became_others_after_the_import_count_as_they_are(tmp_path):
    x, y = var("x", np.float32, (2,)), var("y", np.float32, (2,))
    gs.save(gs.Graph([Node("Add", inputs=[x, Constant("w", np.ones(2, np.float32))], outputs=[y])], [x], [y], opset=18), tmp_path / "m.onnx")
    graph = gs.load(tmp_path / "m.onnx")
    assert Survey.of(graph).types == {"FLOAT"}
    graph.tensors()["w"].values = np.ones((1,) * 9, np.uint16)
    found = Survey.of(graph)
    assert found.types == {"FLOAT", "UINT16"}
    assert found.rank == 9


def test_rules_give_the_same_where_nothing_is_skipped(monkeypatch):
    graph = _many()
    quick = [f.as_dict() for f in examine(ModelFacts(graph), capability.target_of("rtx-1.7"))]
    monkeypatch.setattr(Survey, "of", lambda _: Survey())
    assert quick == [f.as_dict() for f in examine(ModelFacts(graph), capability.target_of("rtx-1.7"))]
    assert {f["id"] for f in quick} >= {"op-dtype", "double-binding"}


def _many() -> Graph:
    """A model with some nodes that rules have a word about, and others that they do not."""
    x, d, i, r, y, k = var("x", np.float32, (2, 3)), var("d"), var("i"), var("r"), var("y"), var("k")
    nodes = [
        Node("Cast", attrs={"to": 11}, inputs=[x], outputs=[d]),
        Node("Cast", attrs={"to": 7}, inputs=[x], outputs=[i]),
        Node("Relu", inputs=[i], outputs=[r]),
        Node("Add", inputs=[d, d], outputs=[y]),
        Node("MatMul", inputs=[r, Constant("m", np.ones((3, 2), np.int64))], outputs=[k]),
    ]
    return Graph(nodes, [x], [y, k], opset=18)


def test_a_survey_never_names_less_than_the_facts():
    graph = _many()
    facts, found = ShapeFacts(graph), Survey.of(graph)
    assert found.types is not None
    for t in walk.tensors(graph):
        dtype = facts.dtype(t)
        assert dtype is None or dtype.name in found.types


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("g (float[2,3] x) => (float[2,3] y) <float[3] w = {1,2,3}> { a = Add (x, w) y = Relu (a) }", set()),
        ("g (int32[2] x) => (int32[2] y) { y = Relu (x) }", {"op-dtype"}),
        ("g (double[2] x) => (double[2] y) { y = Neg (x) }", {"double-binding"}),
        ("g (float[2,2] x) => (float y) { y = Det (x) }", {"unsupported-op"}),
        ("g (float[1,1,1,1,1,1,1,2,1] x) => (float[1,1,1,1,1,1,1,2,1] y) { y = Neg (x) }", {"rank-limit"}),
        ("g (float[2] x) => (float[2] y) { h = Cast <to = 5> (x) y = Cast <to = 1> (h) }", {"dtype"}),
        ("g (float[2] x) => (float[2] y) { y = Neg (x) y = Abs (x) }", None),
    ],
)
def test_a_model_by_path_and_its_graph_get_the_same_answer(tmp_path, text, rows):
    from onnx import parser

    path = tmp_path / "m.onnx"
    path.write_bytes(parser.parse_model('<ir_version: 9, opset_import: ["" : 18]>\n' + text).SerializeToString())
    if rows is None:
        with pytest.raises(gs.GraphError, match="produced twice"):
            check(path, "rtx-1.7", static=True)
        return
    by_path, by_graph = check(path, "rtx-1.7", static=True), check(gs.load(path), "rtx-1.7", static=True)
    assert by_path.as_dict() == by_graph.as_dict()
    assert {f.id for f in by_path.blockers + by_path.warnings} == rows


def test_old_targets_take_a_graph_only_where_there_may_be_bool_constants(tmp_path):
    from onnx import parser

    from onnx_gs.io.files import ModelFile
    from onnx_gs.io.glance import glance
    from onnx_gs.trt.rules import nothing_to_say

    old = capability.target_of("tensorrt-8.6")
    for body, quiet in (("y = Relu (x)", True), ("c = Less (x, x) d = Not (c) y = Where (d, x, x)", False)):
        path = tmp_path / "m.onnx"
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]>\ng (float[2] x) => (float[2] y) {{ {body} }}')
        path.write_bytes(model.SerializeToString())
        seen = glance(ModelFile(path).message)
        assert seen is not None
        assert nothing_to_say(seen, old) is quiet
        assert check(path, old, static=True).as_dict() == check(gs.load(path), old, static=True).as_dict()


def test_what_no_rule_has_a_word_about_takes_no_graph(tmp_path, monkeypatch):
    from onnx_gs.io.files import ModelFile

    x, y = var("x", np.float32, (2,)), var("y", np.float32, (2,))
    gs.save(gs.Graph([Node("Relu", inputs=[x], outputs=[y])], [x], [y], opset=18), tmp_path / "m.onnx")
    monkeypatch.setattr(ModelFile, "graph", lambda _: pytest.fail("a graph was made"))
    assert check(tmp_path / "m.onnx", "rtx-1.7", static=True).ready
    assert check((tmp_path / "m.onnx").read_bytes(), "tensorrt-11.4", static=True).ready
