"""What export adds to a message that nothing was read from."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from tests.support.rewrites import assert_same, run

pytestmark = pytest.mark.skipif("value_info" not in onnx.FunctionProto.DESCRIPTOR.fields_by_name, reason="this onnx cannot describe values of functions")


def v(name: str, dtype: Any = np.float32, shape: Any = ("n",)) -> gs.Variable:
    return gs.Variable(name, dtype, shape)


def calling(ir_version: int | None) -> gs.Graph:
    a, h, b, free = v("a"), v("h"), v("b"), gs.Variable("free")
    nodes = [gs.Node("Neg", inputs=[a], outputs=[h]), gs.Node("Abs", inputs=[h], outputs=[free]), gs.Node("Exp", inputs=[free], outputs=[b])]
    function = gs.Function("F", nodes=nodes, inputs=[a], outputs=[b], opset=18)
    x, y = v("x"), v("y")
    graph = gs.Graph(inputs=[x], outputs=[y], functions=[function], opset=18, ir_version=ir_version)
    function(graph, inputs=[x], outputs=[y])
    return graph


def described(proto: onnx.ModelProto) -> list[str]:
    return [value.name for value in proto.functions[0].value_info]


@pytest.mark.parametrize(("ir_version", "names"), [(10, ["a", "h", "b"]), (9, [])])
def test_values_of_new_functions_are_described_where_the_format_can(ir_version: int, names: list[str]) -> None:
    proto = gs.export_onnx(calling(ir_version))
    onnx.checker.check_model(proto)
    assert described(proto) == names
    graph = gs.import_onnx(proto)
    assert gs.export_onnx(graph) == proto
    if names:
        found = {t.name: (t.dtype, t.shape) for t in graph.functions[0].tensors().values()}
        assert found == {"a": (np.float32, ["n"]), "h": (np.float32, ["n"]), "free": (None, None), "b": (np.float32, ["n"])}
    assert_same(run(proto, {"x": np.array([1, -2], np.float32)}), [np.exp(np.array([1, 2], np.float32))], tolerance=1e-6)


def test_a_new_value_in_an_imported_function_is_described_after_the_others() -> None:
    graph = gs.import_onnx(gs.export_onnx(calling(10)))
    (function,) = graph.functions
    last = function.nodes[-1]
    tail = v("tail", np.float32, (3,))
    last.outputs = [tail]
    function.nodes.append(gs.Node("Neg", inputs=[tail], outputs=[function.outputs[0]]))
    function.nodes[0].outputs[0].name = "renamed"
    proto = gs.export_onnx(graph)
    assert described(proto) == ["a", "renamed", "b", "tail"]
    assert proto.functions[0].value_info[3].type.tensor_type.shape.dim[0].dim_value == 3
    onnx.checker.check_model(proto)


def test_a_dim_that_is_no_dim_is_named() -> None:
    x = gs.Variable("x", np.float32, (640 / 2,))
    with pytest.raises(gs.GraphTypeError, match=r"dim 320\.0") as caught:
        gs.export_onnx(gs.Graph([], [x], [x], opset=18))
    assert "'x'" in str(caught.value)
