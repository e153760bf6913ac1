"""Is the text in a model UTF-8? ONNX says so; protobuf's parser does not look, as the schema is an old one, and gives bytes where it is not."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

#: Notes for people, in which old exporters left anything; nothing of ours looks into them.
_NOTES = frozenset({"doc_string", "metadata_props", "producer_name", "producer_version"})
_PACKAGE = "onnx_gs_text"


def is_text(field: Any) -> bool:
    """Say whether a field's content must be UTF-8."""
    return field.type == FieldDescriptor.TYPE_STRING and field.name not in _NOTES


def is_utf8(content: bytes) -> bool:
    """Say whether all names and references in a serialized model are UTF-8; notes are left out.

    Asks protobuf's parser, which checks messages of a newer schema: as fast as parsing.
    """
    message = _checking_class()()
    try:
        message.ParseFromString(content)
    except (DecodeError, UnicodeDecodeError, ValueError):
        return False
    return True


@cache
def _checking_class() -> Any:
    """Make a twin of ``ModelProto`` in the newer schema, with the fields that hold text or lead to it."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    pending = [onnx.ModelProto.DESCRIPTOR]
    known = {pending[0].full_name}
    while pending:
        kind = pending.pop()
        twin = file.message_type.add(name=_twin_name(kind))
        for field in kind.fields:
            leads = field.message_type is not None and field.name not in _NOTES
            if not leads and not is_text(field):
                continue
            # The newer way first: `label` warns in recent versions of protobuf.
            repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED
            label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED if repeated else descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
            copied = twin.field.add(name=field.name, number=field.number, type=field.type, label=label)
            if leads:
                copied.type_name = f".{_PACKAGE}.{_twin_name(field.message_type)}"
                if field.message_type.full_name not in known:
                    known.add(field.message_type.full_name)
                    pending.append(field.message_type)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_class(pool, f"{_PACKAGE}.{_twin_name(onnx.ModelProto.DESCRIPTOR)}")


def message_class(pool: Any, name: str) -> Any:
    """Give the class of a message that a pool describes."""
    found = pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)  # protobuf before 4.22


def _twin_name(kind: Any) -> str:
    return str(kind.full_name).replace(".", "_")
