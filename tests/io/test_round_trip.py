"""Export after import gives an equal model, whether or not its parts were looked at."""

import glob
import os

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from onnx_gs.errors import GraphError, GraphTypeError
from onnx_gs.io.exporter import export_onnx, export_skeleton
from onnx_gs.io.importer import import_onnx
from onnx_gs.io.text import parse, show
from onnx_gs.ir import AttributeRef, Constant, Graph, Node, ValueType, Variable, walk

FLOAT = TensorProto.FLOAT
STORED = sorted(glob.glob(os.path.join(os.path.dirname(onnx.backend.test.__file__), "data", "**", "*.onnx"), recursive=True))


def value(name, kind=FLOAT, shape=("n",)):
    return helper.make_tensor_value_info(name, kind, shape)


def touch(graph):
    """Read everything that can be read."""
    for root in (graph, *graph.functions):
        for g in walk.graphs(root):
            for node in g.nodes:
                node.facts()
                for held in node.attrs.values():
                    if isinstance(held, Constant):
                        _ = held.values
            for t in walk.tensors(g):
                _ = t.dtype, t.shape, t.type, t.doc_string
                _ = t.values if isinstance(t, Constant) else t.value_type


def assert_equal(model):
    before = model.SerializeToString(deterministic=True)
    for read in (lambda _: None, touch):
        graph = import_onnx(model)
        read(graph)
        once = export_onnx(graph)
        assert once == model
        assert export_onnx(import_onnx(once)) == model
    assert model.SerializeToString(deterministic=True) == before


def model_of(nodes, inputs=(), outputs=(), weights=(), **fields):
    functions = fields.pop("functions", [])
    domains = fields.pop("domains", [("", 18)])
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*d) for d in domains], functions=functions, ir_version=fields.pop("ir", 10), **fields)


@pytest.mark.parametrize("part", range(4))
def test_stored_backend_models(part):
    for path in STORED[part * 8 :: 32]:
        assert_equal(onnx.load(path))


@pytest.mark.slow
def test_every_stored_backend_model():
    for path in STORED:
        assert_equal(onnx.load(path))


def test_fields_of_model_graph_node_value_and_weight():
    weight = helper.make_tensor("w", FLOAT, [1], [2.0])
    weight.doc_string = "weight"
    weight.metadata_props.add(key="a", value="b")
    unused = helper.make_tensor("unused", FLOAT, [1], [2.0])
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add", doc_string="node")
    node.metadata_props.add(key="c", value="d")
    model = model_of([node, helper.make_node("Neg", ["y"], ["z"])], [value("x")], [value("z")], [unused, weight], domain="d", model_version=3, doc_string="m")
    model.metadata_props.add(key="e", value="f")
    model.graph.metadata_props.add(key="g", value="h")
    described = model.graph.value_info.add()
    described.CopyFrom(value("y"))
    described.doc_string = "value"
    described.type.denotation = "IMAGE"
    described.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    model.graph.value_info.add().CopyFrom(value("nothing"))
    note = model.graph.quantization_annotation.add(tensor_name="y")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    model.training_info.add().algorithm.name = "training"
    assert_equal(model)
    assert_equal(onnx.ModelProto.FromString(model.SerializeToString() + b"\xfa\x3f\x03abc"))  # a field of a later version

    graph = import_onnx(model)
    graph.nodes[0].outputs[0].shape = [4]
    graph.nodes[0].inputs[1].name = "renamed"
    graph.nodes[1].attrs["alpha"] = 1.5
    changed = export_onnx(graph)
    assert changed.graph.value_info[0].type.denotation == "IMAGE"
    assert changed.graph.value_info[0].doc_string == "value"
    assert changed.graph.initializer[1].name == "renamed"
    assert changed.graph.initializer[1].doc_string == "weight"
    assert changed.graph.quantization_annotation[0].quant_parameter_tensor_names[0].value == "renamed"
    assert changed.graph.node[1].attribute[0].f == 1.5
    assert export_onnx(import_onnx(model)) == model


def test_every_kind_of_attribute():
    weight = numpy_helper.from_array(np.float32([1]), "t")
    sparse = onnx.SparseTensorProto(dims=[3])
    sparse.values.CopyFrom(weight)
    sparse.indices.CopyFrom(numpy_helper.from_array(np.int64([2])))
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "body", [], [value("b")])
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["n"]))
    node = helper.make_node("Custom", ["x"], ["y"], domain="test")
    plain = {"f": 0.1, "i": 3, "s": "é", "b": b"\xff", "floats": [0.1, -0.0], "ints": [1, 2], "strings": ["a", "b"]}
    kinds = {"t": weight, "g": body, "sp": sparse, "tp": kind, "ts": [weight], "gs": [body], "sps": [sparse], "tps": [kind]}
    node.attribute.extend(helper.make_attribute(k, v) for k, v in {**plain, **kinds}.items())
    node.attribute.add(name="no_floats", type=AttributeProto.FLOATS)
    node.attribute.add(name="no_strings", type=AttributeProto.STRINGS, doc_string="why")
    model = model_of([node], [value("x")], [value("y")], domains=[("", 18), ("test", 1)])
    assert_equal(model)
    attrs = import_onnx(model).nodes[0].attrs
    assert attrs["b"] == b"\xff"
    assert attrs["no_floats"] == []
    assert attrs["tp"] == ValueType("sequence_type", element=ValueType("tensor_type", np.dtype("float32"), ["n"]))
    assert [g.name for g in attrs["gs"]] == ["body"]


@pytest.mark.parametrize(
    "kind",
    [
        helper.make_sequence_type_proto(helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [None, "", "n", 3]))),
        helper.make_optional_type_proto(helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))),
        helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.BFLOAT16, [])),
        helper.make_sparse_tensor_type_proto(FLOAT, [2, None]),
        onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain="d", name="n")) if hasattr(onnx.TypeProto, "Opaque") else onnx.TypeProto(),
        onnx.TypeProto(denotation="nothing else"),
    ],
)
def test_types(kind):
    assert_equal(model_of([helper.make_node("Custom", ["x"], ["y"], domain="t")], [helper.make_value_info("x", kind)], [value("y")], domains=[("t", 1)]))


def test_initializers_that_are_inputs():
    weight = helper.make_tensor("w", FLOAT, [1], [2.0])
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    ports = [value("w", shape=[1]), value("x")]
    new = model_of(nodes, ports, [value("y")], [weight], ir=8)
    assert_equal(new)
    graph = import_onnx(new)
    assert [t.name for t in graph.inputs] == ["w", "x"]
    assert isinstance(graph.inputs[0], Variable)
    assert graph.inputs[0].default.load().tolist() == [2]
    old = model_of(nodes, ports, [value("y")], [weight], ir=3)
    assert_equal(old)
    graph = import_onnx(old)
    assert [t.name for t in graph.inputs] == ["x"]
    assert isinstance(graph.nodes[0].inputs[1], Constant)
    graph.nodes[0].inputs.append(Constant("later", np.ones(1, np.float32)))
    assert [v.name for v in export_onnx(graph).graph.input] == ["w", "x", "later"]
    graph.ir_version = 8
    assert [v.name for v in export_onnx(graph).graph.input] == ["x"]


def test_captures_are_the_outer_objects_wherever_the_producer_is_listed():
    body = helper.make_graph([helper.make_node("Add", ["late", "w"], ["b"])], "body", [], [value("b")])
    direct = helper.make_graph([], "direct", [], [value("late")])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=direct),
        helper.make_node("Neg", ["x"], ["late"]),
    ]
    weight = helper.make_tensor("w", FLOAT, [1], [2.0])
    model = model_of(nodes, [value("c", TensorProto.BOOL, []), value("x")], [value("y")], [weight])
    assert_equal(model)
    graph = import_onnx(model)
    late = graph.nodes[1].outputs[0]
    inner = graph.nodes[0].attrs["then_branch"]
    assert inner.nodes[0].inputs[0] is late
    assert [n.op for n in late.outputs] == ["Add"]
    assert graph.nodes[0].attrs["else_branch"].outputs[0] is late
    late.name = "renamed"
    exported = export_onnx(graph).graph
    branches = {a.name: a.g for a in exported.node[0].attribute}
    assert list(branches["then_branch"].node[0].input) == ["renamed", "w"]
    assert branches["else_branch"].output[0].name == "renamed"
    assert not branches["then_branch"].initializer
    assert [w.name for w in exported.initializer] == ["w"]


def test_functions_with_overloads_references_and_weights():
    made = helper.make_function("f", "Twice", ["a"], ["b"], [helper.make_node("LeakyRelu", ["a"], ["b"])], [helper.make_opsetid("", 18)], ["alpha"])
    made.node[0].attribute.add(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="alpha")
    made.overload = "second"
    made.attribute_proto.add(name="beta", type=AttributeProto.INTS)
    made.doc_string = "function"
    made.value_info.add().CopyFrom(value("b"))
    call = helper.make_node("Twice", ["x"], ["y"], domain="f", alpha=0.5)
    call.overload = "second"
    model = model_of([call], [value("x")], [value("y")], domains=[("", 18), ("f", 1)], functions=[made])
    assert_equal(model)
    graph = import_onnx(model)
    function = graph.functions[0]
    assert function.nodes[0].attrs["alpha"] == AttributeRef("alpha", float)
    assert function.attrs == {"alpha": None, "beta": []}
    function.nodes[0].inputs[0] = Constant("k", np.float32([1]))
    assert [n.op_type for n in export_onnx(graph).functions[0].node] == ["Constant", "LeakyRelu"]


def test_import_and_export_share_nothing_with_the_model():
    model = parse_model("g (float[n] x) => (float[n] y) { y = Neg (x) }")
    graph = import_onnx(model)
    model.graph.node[0].op_type = "Abs"
    model.graph.input[0].name = "changed"
    assert graph.nodes[0].op == "Neg"
    assert graph.inputs[0].dtype == np.float32
    exported = export_onnx(graph)
    exported.graph.node[0].op_type = "Abs"
    assert export_onnx(graph).graph.node[0].op_type == "Neg"


def parse_model(text):
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]>\n{text}')


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (True, "i", 1),
        (np.int32(4), "i", 4),
        (np.float16(0.5), "f", 0.5),
        (np.float32, "i", 1),
        (np.dtype("float16"), "i", 10),
        (bool, "i", 9),
        (np.array([1, 2]), "ints", [1, 2]),
        ((1.0, 2), "floats", [1.0, 2.0]),
        (["a", b"\xff"], "strings", [b"a", b"\xff"]),
        ([], "ints", []),
    ],
)
def test_attribute_values(value, kind, stored):
    node = Node("Op", attrs={"a": value}, outputs=[Variable("y", np.float32, [1])])
    attribute = export_onnx(Graph([node], outputs=node.outputs)).graph.node[0].attribute[0]
    assert getattr(attribute, kind) == stored
    if kind == "ints":
        assert attribute.type == AttributeProto.INTS


def test_an_empty_list_has_the_type_of_the_schema():
    node = Node("Upsample", attrs={"scales": []}, outputs=[Variable("y", np.float32, [1])])
    assert export_onnx(Graph([node], outputs=node.outputs, opset=7)).graph.node[0].attribute[0].type == AttributeProto.FLOATS


@pytest.mark.parametrize("wrong", [None, np.zeros(()), object(), [1, "a"]])
def test_attribute_values_that_nothing_can_hold(wrong):
    node = Node("Op", attrs={"a": wrong}, outputs=[Variable("y", np.float32, [1])])
    with pytest.raises(GraphTypeError, match="'a'"):
        export_onnx(Graph([node], outputs=node.outputs))


def test_opsets():
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], [value("x")], [value("y")], domains=[("ai.onnx", 18)])
    assert_equal(model)
    graph = import_onnx(model)
    graph.opset = 19
    graph.nodes.append(Node("Other", domain="extra"))
    assert [(e.domain, e.version) for e in export_onnx(graph).opset_import] == [("ai.onnx", 19), ("extra", 1)]
    assert len(graph.import_domains) == 1
    assert export_onnx(Graph()).opset_import[0].version == Graph.DEFAULT_OPSET
    given = export_onnx(graph, opset_imports=[helper.make_opsetid("", 20)], producer_name="me", ir_version=9)
    assert (given.opset_import[0].version, given.producer_name, given.ir_version) == (20, "me", 9)


def test_names_that_clash_are_an_error():
    x, a, b = Variable("x", np.float32, [1]), Variable("same"), Variable("same")
    graph = Graph([Node("Neg", inputs=[x], outputs=[a]), Node("Abs", inputs=[x], outputs=[b])], [x])
    with pytest.raises(GraphError, match="'same'"):
        export_onnx(graph)
    k = Constant("x", np.ones(1, np.float32))
    with pytest.raises(GraphError, match="'x'"):
        export_onnx(Graph([Node("Neg", inputs=[k], outputs=[Variable("y")])], [x]))


def test_unknown_dims_and_types():
    x = Variable("x", np.float32, (-1, None, "", "n", 2))
    model = export_onnx(Graph([], [x], [Variable("y", np.float32)]))
    assert [d.WhichOneof("value") for d in model.graph.input[0].type.tensor_type.shape.dim] == [None, None, "dim_param", "dim_param", "dim_value"]
    assert not model.graph.output[0].type.tensor_type.HasField("shape")
    with pytest.raises(GraphError, match="'z'"):
        export_onnx(Graph([], [Variable("z")]))
    assert not export_onnx(Graph([], [Variable("z")]), do_type_check=False).graph.input[0].HasField("type")


def test_changed_values_of_an_external_weight_are_stored_inside():
    weight = helper.make_tensor("w", FLOAT, [1], [2.0])
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="missing.bin")
    model = model_of([helper.make_node("Neg", ["w"], ["y"])], [], [value("y")], [weight])
    assert export_onnx(import_onnx(model)) == model
    graph = import_onnx(model)
    graph.nodes[0].inputs[0].values = np.float32([3])
    stored = export_onnx(graph).graph.initializer[0]
    assert (stored.data_location, len(stored.external_data), stored.raw_data) == (TensorProto.DEFAULT, 0, np.float32([3]).tobytes())


def test_skeletons_leave_large_weights_out():
    big, small = Constant("big", np.ones(1000, np.float32)), Constant("small", np.ones(1, np.float32))
    y = Variable("y", np.float32, [1000])
    model, payloads = export_skeleton(Graph([Node("Add", inputs=[big, small], outputs=[y])], [], [y]))
    assert [(p.tensor.name, p.nbytes) for p in payloads] == [("big", 4000)]
    assert not model.graph.initializer[0].raw_data
    assert bytes(payloads[0].source) == np.ones(1000, np.float32).tobytes()
    assert model.graph.initializer[1].raw_data


def test_a_tensor_produced_twice_is_named():
    model = model_of([helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])], [value("x")], [value("y")])
    with pytest.raises(GraphError, match="'y' is produced twice"):
        import_onnx(model)


def test_text():
    text = "g (float[2] x) => (float[2] y) { y = Neg (x) }"
    assert show(parse(text, opset=18)).split() == show(parse(show(parse(text, opset=18)))).split()
    with pytest.raises(GraphError, match="does not parse"):
        parse("g (float[2] x) => (float[2] y) { y = }")


def test_only_models_are_imported():
    with pytest.raises(GraphTypeError, match="GraphProto"):
        import_onnx(onnx.GraphProto())
