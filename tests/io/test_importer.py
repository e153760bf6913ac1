"""Import of messages that no tool would write: whatever is wrong with them, only our errors come out, soon, and what is accepted can be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings, strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

import onnx_gs as gs
from onnx_gs.ir import walk
from tests.support.rewrites import model

if TYPE_CHECKING:
    from collections.abc import Iterator


def everything() -> onnx.ModelProto:
    """A small model with one of each thing: bodies, captures, functions, references, kinds of values and of weights, notes."""
    proto = model(
        """g (float[2, n] x, bool c, int64 trips) => (float[2, n] y, float[k] z) <float[2] w = {1, 2}, int64[1] one = {1}, float[2, 2] u> {
             u = Twice <factor = 2.0> (x)
             y = If (c) <then_branch = t () => (float[2, n] a) <float v = {3.0}> { a = Add (u, v) }, else_branch = e () => (float[2, n] b) { b = Neg (u) }>
             k, z = Loop (trips, c, w) <body = body (int64 i, bool go, float[2] s) => (bool on, float[2] s2, float[2] row) {
                      on = Identity (go)
                      s2 = Mul (s, s)
                      row = Add (s, w) }>
             q = Constant <value = float[2] {1.5, 2.5}> ()
             r = Cast <to = 10> (q)
             p = Custom <ints = [1, 2], floats = [1.5], strings = ["a", "b"], s = "text"> (r, one) }""",
        functions="""<domain: "local", opset_import: ["" : 18]>
                     Twice <factor> (a) => (b) { f = Constant <value_float: float = @factor> () h = Mul (a, f) b = Add (h, h) }""",
    )
    proto.graph.node[0].domain = "local"
    proto.graph.node[-1].domain = "custom"
    proto.opset_import.add(domain="custom", version=1)
    sparse = helper.make_sparse_tensor(helper.make_tensor("sp", 1, [2], [1.0, 2.0]), helper.make_tensor("sp_i", 7, [2], [0, 3]), [2, 2])
    proto.graph.sparse_initializer.append(sparse)
    proto.graph.node[-1].attribute.append(helper.make_attribute("sparse", sparse))
    proto.graph.node[-1].attribute.append(helper.make_attribute("type", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, ["n"]))))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(["s", "t"], object), "names"))
    proto.graph.initializer.append(TensorProto(name="packed", data_type=TensorProto.INT4, dims=[3], raw_data=b"\x21\x03"))
    proto.graph.input.append(helper.make_tensor_sequence_value_info("seq", 1, ["n"]))
    proto.graph.quantization_annotation.add(tensor_name="w").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    proto.metadata_props.add(key="k", value="v")
    return proto


BASE = everything()
_NUMBERS = [0, 1, -1, 2, 3, 7, 8, 16, 22, 99, -(2**31), 2**31 - 1]
_LONG = [*_NUMBERS, 2**40, 2**63 - 1, -(2**63)]
_TEXTS = ["", "x", "w", "u", "a", "y", "k", "t", "If", "Loop", "Constant", "Twice", "local", "é", "x" * 300, "\0", "SCALE_TENSOR", "location"]
_CONTENTS = [b"", b"\0", b"\xff\xfe", b"text", bytes(8), bytes(1000)]


def messages(root: Any) -> Iterator[Any]:
    """List a message and those in it."""
    waiting = [root]
    while waiting:
        message = waiting.pop()
        yield message
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def change(draw: Any, message: Any) -> None:
    """Change one field of a message: clear it, or set it to something odd."""
    field = draw(st.sampled_from(list(message.DESCRIPTOR.fields)))
    name = field.name
    kinds: dict[int, list[Any]] = {
        field.TYPE_INT32: _NUMBERS, field.TYPE_INT64: _LONG, field.TYPE_UINT64: [0, 1, 2**64 - 1], field.TYPE_STRING: _TEXTS, field.TYPE_BYTES: _CONTENTS,
        field.TYPE_FLOAT: [0.0, 1.5, float("nan"), float("inf")], field.TYPE_DOUBLE: [0.0, float("nan")],
    }  # fmt: skip
    values: list[Any] | None = [e.number for e in field.enum_type.values] if field.type == field.TYPE_ENUM else kinds.get(field.type)
    stored = getattr(message, name)
    repeated = hasattr(stored, "extend")
    what = draw(st.sampled_from(["clear", "set", "set", "repeat", "shorten", "swap"] if repeated else ["clear", "set", "set"]))
    if what == "clear":
        message.ClearField(name)
    elif what == "shorten":
        del stored[draw(st.integers(0, max(0, len(stored) - 1))) :]
    elif what == "repeat" and len(stored):
        stored.extend([stored[draw(st.integers(0, len(stored) - 1))]] * draw(st.integers(1, 3)))
    elif what == "swap" and len(stored) > 1:
        kept = list(stored)[::-1]
        copies = [_copied(m) for m in kept] if field.type == field.TYPE_MESSAGE else kept
        message.ClearField(name)
        getattr(message, name).extend(copies)
    elif values is None:
        message.ClearField(name)
        getattr(message, name).add() if repeated else getattr(message, name).SetInParent()
    elif repeated:
        value = draw(st.sampled_from(values))
        if len(stored) and draw(st.booleans()):
            stored[draw(st.integers(0, len(stored) - 1))] = value
        else:
            stored.append(value)
    else:
        setattr(message, name, draw(st.sampled_from(values)))


def _copied(message: Any) -> Any:
    new = type(message)()
    new.CopyFrom(message)
    return new


@st.composite
def damaged(draw: Any) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    proto.CopyFrom(BASE)
    for _ in range(draw(st.integers(1, 4))):
        found = list(messages(proto))
        change(draw, found[draw(st.integers(0, len(found) - 1))])
    return proto


def look_everywhere(graph: gs.Graph) -> None:
    """Read what is decoded when it is asked for."""
    for owner in walk.graphs(graph, functions=True):
        for t in owner.tensors().values():
            _ = t.dtype, t.shape, str(t), t.doc_string
            if isinstance(t, gs.Constant):
                try:
                    _ = t.values
                except gs.OnnxGsError:
                    continue
        for node in owner.nodes:
            _ = node.attrs, node.facts(), str(node)


@settings(max_examples=250, deadline=10_000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], derandomize=True)
@given(damaged(), st.booleans())
def test_damaged_messages_give_our_errors_or_a_graph_that_can_be_written(proto: onnx.ModelProto, look: bool) -> None:
    before = proto.SerializeToString(deterministic=True)
    try:
        graph = gs.import_onnx(proto)
        if look:
            look_everywhere(graph)
            graph.copy()
        again = gs.export_onnx(graph, do_type_check=False)
    except gs.OnnxGsError:
        again = None
    assert proto.SerializeToString(deterministic=True) == before
    if again is not None and not look:
        gs.import_onnx(again)


def test_the_undamaged_message_is_kept() -> None:
    assert gs.export_onnx(gs.import_onnx(BASE), do_type_check=False) == BASE


def test_an_attribute_of_no_type_that_refers_to_the_function_is_kept() -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(BASE)
    attribute = proto.functions[0].node[0].attribute[0]
    attribute.ClearField("type")
    graph = gs.import_onnx(proto)
    reference = graph.functions[0].nodes[0].attrs[attribute.name]
    assert (reference.name, reference.type) == ("factor", None)
    assert gs.export_onnx(graph, do_type_check=False) == proto
    assert attribute.type == AttributeProto.UNDEFINED
