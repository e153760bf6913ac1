"""What users put where it does not belong: every failure names it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnx_gs as gs


def make() -> gs.Graph:
    x, c, y = gs.Variable("x", np.float32, (2,)), gs.Constant("c", np.ones(2, np.float32)), gs.Variable("y", np.float32, (2,))
    return gs.Graph([gs.Node("Add", "add", inputs=[x, c], outputs=[y])], [x], [y], opset=13)


def spoil(graph: gs.Graph, what: str) -> None:
    node: Any = graph.nodes[0]
    edits: dict[str, Any] = {
        "node": lambda: graph.nodes.append(None),  # type: ignore[arg-type]
        "input": lambda: graph.inputs.append(None),  # type: ignore[arg-type]
        "operator": lambda: setattr(node, "op", None),
        "name": lambda: setattr(node, "name", 3),
        "tensor name": lambda: setattr(node.outputs[0], "name", None),
        "shape": lambda: setattr(node.inputs[0], "shape", 3),
        "values": lambda: setattr(node.inputs[1], "values", "text"),
        "opset": lambda: setattr(graph, "opset", None),
        "domains": lambda: setattr(graph, "import_domains", [1]),
        "itself": lambda: node.attrs.update(body=graph),
    }
    edits[what]()


FAULTS = {
    "node": "item 1 of 'nodes' is a NoneType", "input": "item 1 of 'inputs' is a NoneType", "operator": "the operator is a NoneType",
    "name": "the name is a int", "tensor name": "NoneType for a name", "shape": "shape 3", "values": "constant 'c' has a str",
    "opset": "opset None", "domains": "'import_domains'", "itself": "holds itself",
}  # fmt: skip


@pytest.mark.parametrize("what", list(FAULTS))
def test_export_names_the_fault(what: str) -> None:
    graph = make()
    spoil(graph, what)
    with pytest.raises(gs.GraphError, match=FAULTS[what]):
        gs.export_onnx(graph)


@pytest.mark.parametrize("what", ["node", "input", "itself"])
@pytest.mark.parametrize("call", ["copy", "cleanup", "toposort", "fold_constants", "simplify"])
def test_passes_name_what_they_cannot_work_with(what: str, call: str) -> None:
    graph = make()
    spoil(graph, what)
    with pytest.raises(gs.GraphError, match=FAULTS[what]):
        getattr(graph, call)()


@pytest.mark.parametrize("field", ["inputs", "outputs"])
@pytest.mark.parametrize("call", ["layer", "tensors", "copy", "cleanup", "toposort", "fold_constants", "simplify", "export", "isolate"])
def test_a_name_in_place_of_a_tensor_is_named_with_what_to_do(field: str, call: str) -> None:
    graph = make()
    setattr(graph, field, ["somewhere"])  # a list of anything may be set
    calls: dict[str, Any] = {
        "layer": lambda: graph.layer(op="Abs", inputs=["x"], outputs=["z"]),
        "export": lambda: gs.export_onnx(graph),
        "isolate": lambda: gs.isolate(graph, outputs=["y"]),
    }
    with pytest.raises(gs.errors.GraphTypeError, match=rf"item 0 of '{field}' is a str \('somewhere'\), not a tensor") as caught:
        calls.get(call, lambda: getattr(graph, call)())()
    assert caught.value.fix is not None
    assert "not its name" in caught.value.fix


def test_no_name_is_an_empty_name() -> None:
    graph = make()
    graph.nodes[0].name = None  # type: ignore[assignment]
    assert gs.export_onnx(graph).graph.node[0].name == ""


def test_no_attributes_are_none() -> None:
    graph = gs.import_onnx(gs.export_onnx(make()))
    graph.nodes[0].attrs = None  # type: ignore[assignment]
    assert graph.nodes[0].attrs == {}


def test_arithmetic_on_a_scalar_constant_gives_a_scalar_constant() -> None:
    constant = gs.Constant("c", np.array(2, np.int32))
    constant.values = constant.values * np.int32(3)
    assert isinstance(constant.values, np.ndarray)
    assert (constant.dtype, constant.shape, int(constant.values)) == (np.int32, (), 6)


def test_bodies_may_be_nested_thirty_deep_but_the_stack_ends_somewhere() -> None:
    def nest(depth: int) -> gs.Graph:
        graph = make()
        for _ in range(depth):
            out = gs.Variable("out", np.float32, (2,))
            graph = gs.Graph([gs.Node("If", attrs={"then_branch": graph}, outputs=[out])], outputs=[out], opset=13)
        return graph

    assert nest(30).copy() == nest(30)
    with pytest.raises(gs.GraphError, match="nested 700 deep, which is too deep"):
        nest(700).copy()
