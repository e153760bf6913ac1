import onnx
import pytest
from hypothesis import given, strategies as st
from onnx import helper, numpy_helper

from onnx_gs.errors import ModelFileError
from onnx_gs.io import wire


def fields(content: bytes) -> list[tuple[int, int, bytes]]:
    walker = wire.Walker(wire.Memory(content, "m.onnx"))
    return [(f.number, f.kind, content[f.content : f.end]) for f in walker.fields(0, len(content))]


def test_varint_is_protobufs():
    for value in (0, 1, 127, 128, 300, 2**31, 2**63):
        message = onnx.TensorProto(dims=[value if value < 2**63 else -(2**63)])
        assert message.SerializeToString().endswith(wire.varint(value))


def test_fields_of_every_wire_type():
    message = onnx.AttributeProto(name="a" * 200, f=1.5, i=-3)
    unknown = bytes([0xF9, 0x3F]) + bytes(8)  # field 1023, fixed 64
    found = fields(message.SerializeToString() + unknown)
    assert [(n, k) for n, k, _ in found] == [(1, wire.BYTES), (2, wire.FIXED32), (3, wire.VARINT), (1023, wire.FIXED64)]
    assert found[0][2] == b"a" * 200


def test_fields_across_windows():
    model = onnx.ModelProto()
    model.graph.node.extend(onnx.NodeProto(op_type="Add", name=f"n{i}" * 9) for i in range(9000))
    content = model.graph.SerializeToString()
    assert len(content) > 3 * wire.BLOCK
    assert [onnx.NodeProto.FromString(c) for _, _, c in fields(content)] == list(model.graph.node)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x0a\x05abc", "field 1 claims 5 bytes, but 3 are left, at byte 0"),
        (b"\x08\x01\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "field 1 claims 9223372036854775807 bytes, but 0 are left, at byte 2"),
        (b"\x0a" + b"\xff" * 10 + b"\x01", "a number has more than 64 bits at byte 1"),
        (b"\x0a\x80", "a number is cut off at byte 1"),
        (b"\x0a", "a number is cut off at byte 1"),
        (b"\x00\x00", "field number 0 at byte 0"),
        (b"\x0b\x00", "wire type 3, which ONNX does not use, at byte 0"),
        (b"\x0d\x00\x00", "field 1 claims 4 bytes, but 2 are left, at byte 0"),
    ],
)
def test_malformed_fields_are_one_error(content, what):
    with pytest.raises(ModelFileError) as caught:
        fields(content)
    assert caught.value.what == what
    assert caught.value.where == "file 'm.onnx'"


def test_many_fields_are_a_bomb(monkeypatch):
    monkeypatch.setattr(wire, "FIELD_LIMIT", 10)
    with pytest.raises(ModelFileError, match="more than 10 fields"):
        fields(b"\x08\x01" * 40_000)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 20_000, 3_000_000])
def test_splice_is_what_protobuf_would_write(size):
    def model(contents):
        body = helper.make_graph([], "body", [], [], [onnx.TensorProto(name="inner", raw_data=contents[0])])
        node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
        graph = helper.make_graph([node], "g", [], [], [onnx.TensorProto(name=str(i), raw_data=c) for i, c in enumerate(contents[1:])])
        return helper.make_model(graph, producer_name="p").SerializeToString()

    marks = [f"<mark {i}>".encode() for i in range(5)]
    wanted = [bytes([i]) * (size + i) for i in range(5)]
    message = model(marks)
    holes = sorted(
        wire.Hole(at, at + len(m), len(wanted[i]), i) for i, m in enumerate(marks) for at in _positions(message, m)
    )  # fmt: skip
    pieces, total = wire.splice(message, holes)
    out = b"".join(wanted[p.which] if isinstance(p, wire.Hole) else bytes(p) for p in pieces)
    assert out == model(wanted)
    assert total == len(out)


def _positions(message, mark):
    at = message.find(mark)
    while at >= 0:
        yield at
        at = message.find(mark, at + 1)


def test_splice_of_nothing_is_the_message():
    message = helper.make_model(helper.make_graph([], "g", [], [], [numpy_helper.from_array(__import__("numpy").ones(3), "w")])).SerializeToString()
    pieces, total = wire.splice(message, [])
    assert (b"".join(pieces), total) == (message, len(message))


def test_only_large_fields_but_all_are_checked():
    content = onnx.NodeProto(name="n" * 300, op_type="Add", doc_string="d" * 50).SerializeToString()
    walker = wire.Walker(wire.Memory(content, "m.onnx"))
    assert [f.number for f in walker.fields(0, len(content), 50)] == [3, 6]
    assert [f.number for f in walker.fields(0, len(content), 51)] == [3]
    with pytest.raises(ModelFileError, match="field 6 claims 50 bytes"):
        list(walker.fields(0, len(content) - 1, 51))


_parts = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 40), st.integers(0, 400)).map(lambda part: wire.header(part[0], part[1]) + bytes(part[1])),
        st.tuples(st.integers(1, 40), st.integers(0, 2**63)).map(lambda part: wire.varint(part[0] << 3) + wire.varint(part[1])),
        st.integers(1, 40).map(lambda number: wire.varint(number << 3 | wire.FIXED64) + bytes(8)),
        st.binary(max_size=3),
    ),
    max_size=12,
).map(b"".join)


class _File:
    """Bytes that are read piece by piece."""

    def __init__(self, content):
        self.name, self.size = "m.onnx", len(content)
        self._content = content

    def read(self, offset, length):
        return self._content[offset : offset + length]


def _filtered(walker, start, end, at_least, always):
    return [f for f in walker.fields(start, end) if f.kind == wire.BYTES and (f.end - f.content >= at_least or f.number == always)]


def _attempt(fields, source, always):
    try:
        return fields(wire.Walker(source), 0, source.size, 128, always)
    except ModelFileError as error:
        return str(error)


@given(_parts, st.integers(0, 2), st.sampled_from([0, 9, 20]))
def test_large_fields_are_those_of_the_fields_that_are_large(content, cut, always):
    content = content[: len(content) - cut]
    found = []
    for source in (wire.Memory(content, "m.onnx"), _File(content)):
        found.append(_attempt(_filtered, source, always))
        found.append(_attempt(wire.Walker.large_fields, source, always))
    assert all(each == found[0] for each in found)
