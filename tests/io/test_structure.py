"""Messages for running and inferring: unique names, no weights inside, only the functions that are called."""

from __future__ import annotations

import numpy as np
import onnx

import onnx_gs as gs
from onnx_gs.io import structure
from tests.support.rewrites import parse


def write(graph):
    writer = structure.StructureWriter()
    model = writer.model(graph)
    writer.graph(graph, model.graph)
    writer.finish(model, graph.functions)
    return model, writer


def test_names_are_unique_over_scopes_and_weights_stay_out():
    graph = parse("""g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
        y = If (c) <then_branch = t () => (float[2] p) { h = Mul (x, w) p = Neg (h) }, else_branch = e () => (float[2] p) { h = Abs (x) p = Neg (h) }> }""")
    model, writer = write(graph)
    names = [o for g in [model.graph, *(a.g for a in model.graph.node[0].attribute)] for n in g.node for o in n.output]
    assert len(set(names)) == 5
    assert not model.graph.initializer
    assert [t.name for t in writer.weights.values()] == ["w"]
    assert {t.name for t in writer.tensors.values()} == {"x", "c", "y", "w", "h", "p"}
    for name, tensor in writer.weights.items():
        structure.inline(name, tensor.values, model.graph.initializer.add())
    onnx.checker.check_model(model)


def test_omitted_inputs_stay_omitted_and_required_outputs_get_a_name():
    x, y = gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.int64)
    nodes = [
        gs.Node("Clip", inputs=[x, gs.Variable.empty(), gs.Constant("top", np.array(1, np.float32))], outputs=[h := gs.Variable("h")]),
        gs.Node("TopK", inputs=[h, gs.Constant("k", np.int64([1]))], outputs=[gs.Variable.empty(), y]),
    ]  # fmt: skip
    model, _ = write(gs.Graph(nodes, [x], [y], opset=18))
    assert list(model.graph.node[0].input)[1] == ""
    assert all(model.graph.node[1].output)


def test_only_functions_that_are_reached_are_written():
    functions = """<domain: "local", opset_import: ["" : 18, "local" : 1]> Inner (a) => (y) { y = Neg (a) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]> Outer (a) => (y) { y = local.Inner (a) }
        <domain: "local", opset_import: ["" : 18, "local" : 1]> Other (a) => (y) { y = Abs (a) }"""
    model, _ = write(parse("g (float[2] x) => (float[2] y) { y = local.Outer (x) }", functions=functions))
    assert [f.name for f in model.functions] == ["Inner", "Outer"]


def test_constant_nodes_may_stand_for_weights():
    graph = parse("g (float[2] x) => (float[2] y) { c = Constant <value_floats = [1.0, 2.0]> () y = Mul (x, c) }")
    writer = structure.StructureWriter(lambda node: gs.Constant("c", np.float32(node.attrs["value_floats"])))
    model = writer.model(graph)
    writer.graph(graph, model.graph)
    assert [n.op_type for n in model.graph.node] == ["Mul"]
    assert [t.values.tolist() for t in writer.weights.values()] == [[1, 2]]


def test_values_of_one_type_are_described_alike_and_others_not():
    x = gs.Variable("x", np.float32, (2, "n"))
    made = [gs.Variable(n, dtype, shape) for n, dtype, shape in
            [("a", np.float32, ("n", 2)), ("b", np.float32, ["n", 2]), ("c", np.int64, ("n", 2)), ("d", 16, (None, 1)), ("e", np.float32, None), ("f", None, (1,))]]  # fmt: skip
    nodes = [gs.Node("Custom", domain="local", inputs=[x], outputs=[t]) for t in made]
    model, writer = write(gs.Graph(nodes, [x], [gs.Variable("y")], opset=18))
    shown = {writer.tensors[v.name].name: onnx.helper.printable_type(v.type) for v in model.graph.value_info}
    assert shown == {"a": "FLOAT, nx2", "b": "FLOAT, nx2", "c": "INT64, nx2", "d": "BFLOAT16, ?x1", "e": "FLOAT"}
