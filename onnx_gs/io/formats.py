"""The forms that a model's file can have, told by its extension: ONNX, ONNX text, protobuf text, JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import onnx
from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError

from onnx_gs.errors import GraphError, ModelFileError
from onnx_gs.io import files, mistaken, text, writer
from onnx_gs.io.exporter import export_onnx
from onnx_gs.io.importer import import_model
from onnx_gs.ir.function import Function
from onnx_gs.ir.graph import Graph
from onnx_gs.ir.isomorphism import difference

if TYPE_CHECKING:
    from onnx_gs.io.regions import AbsentFile

G = TypeVar("G", bound=Graph)

ONNX, ONNX_TEXT, PROTO_TEXT, JSON = "ONNX", "ONNX text", "protobuf text", "JSON"
#: By extension, as ``onnx.save_model`` takes them, and ``.txt``.
FORMATS = {
    ".onnx": ONNX, ".pb": ONNX, ".onnxtxt": ONNX_TEXT, ".onnxtext": ONNX_TEXT, ".txt": ONNX_TEXT, ".textproto": PROTO_TEXT, ".prototxt": PROTO_TEXT,
    ".pbtxt": PROTO_TEXT, ".txtpb": PROTO_TEXT, ".json": JSON, ".onnxjson": JSON,
}  # fmt: skip


def of(path: str) -> str | None:
    """Give the format that a file's name asks for; None where it says nothing or something else.

    Example:
        >>> of("model.onnx"), of("model.JSON"), of("model.engine"), of("model")
        ('ONNX', 'JSON', None, None)
    """
    return FORMATS.get(os.path.splitext(path)[1].lower())


def for_writing(path: str) -> str:
    """Give the format in which a model is written to a file: ONNX where the name has no extension.

    Raises:
        ModelFileError: the extension is that of no format.
    """
    found = of(path)
    extension = os.path.splitext(path)[1]
    if found is None and extension:
        raise ModelFileError(f"a model is not written as '{extension}'", where=f"file '{path}'", fix=f"name it {listed()}")
    return found or ONNX


def listed() -> str:
    """Spell the extensions and what they stand for."""
    by_format: dict[str, list[str]] = {}
    for extension, name in FORMATS.items():
        by_format.setdefault(name, []).append(extension)
    return "; ".join(f"{', '.join(extensions)} ({name})" for name, extensions in by_format.items())


def load(path: str, *, graph_type: type[Any] = Graph, function_type: type[Any] = Function, absent: dict[str, AbsentFile] | None = None) -> Any:
    """Open a model in any of the formats; what has another name is taken as ONNX.

    Args:
        path: the file.
        graph_type: the class to build.
        function_type: the class of the local functions.
        absent: where data files that are missing are put instead of raising.

    Raises:
        ModelFileError: the file cannot be read, or is not what its name says.
        OnnxGsError: the model breaks a rule of ONNX.
    """
    wanted = of(path)
    if wanted is None or wanted == ONNX:
        return files.load(path, graph_type=graph_type, function_type=function_type, absent=absent)
    content = _read_text(path, wanted)
    if wanted == ONNX_TEXT:
        try:
            return text.parse(content, graph_type=graph_type, function_type=function_type)
        except GraphError as error:
            if not error.what.startswith("ONNX text does not parse"):  # but breaks a rule
                raise
            raise _not_as_named(path, wanted, error.what) from error
    model = onnx.ModelProto()
    try:
        if wanted == JSON:
            json_format.Parse(content, model)
        else:
            text_format.Parse(content, model)
    except (json_format.ParseError, text_format.ParseError, DecodeError, ValueError) as error:
        raise _not_as_named(path, wanted, f"{wanted} does not parse: {' '.join(str(error).split())[:300]}") from error
    folder = os.path.dirname(path)
    return import_model(model, graph_type=graph_type, function_type=function_type, base_dir=folder, owned=True, absent=absent)


def _read_text(path: str, wanted: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError):
            what, fix = "it is no UTF-8 text", "a model that is not stored as text is named .onnx"
        else:
            what, fix = (error.strerror or str(error)).lower(), None
        failure = ModelFileError(f"file cannot be read as {wanted}: {what}", where=f"file '{path}'", fix=fix)
        raise mistaken.explained(failure, path) from error


def _not_as_named(path: str, wanted: str, what: str) -> ModelFileError:
    fix = f"it is read as {wanted}, as its extension says; it is no ONNX model, or belongs under another name"
    return ModelFileError(what, where=f"file '{path}'", fix=fix)


def save(graph: Graph, path: str, *, external_data: str | None = None) -> None:
    """Write a model in the format that the file's name asks for.

    Args:
        graph: the graph.
        path: the file.
        external_data: as in ``files.save``; only ONNX can have it.

    Raises:
        ModelFileError: there is no such format, the file cannot be written, or the format cannot hold the model.
        OnnxGsError: the graph cannot be exported.
    """
    wanted = for_writing(path)
    if wanted == ONNX:
        files.save(graph, path, external_data=external_data)
        return
    if external_data is not None:
        raise ModelFileError(f"{wanted} has no external data", where=f"file '{path}'", fix="write .onnx, or leave external data out")
    writer.check_target(path)
    writer.write_bytes(_spelled(graph, wanted).encode(), path)


def _spelled(graph: Graph, wanted: str) -> str:
    model = export_onnx(graph)
    if wanted == ONNX_TEXT:
        shown = text.printed(model)
        try:
            lost = difference(import_model(model, owned=True), text.parse(shown))
        except GraphError as error:
            lost = error.what
        if lost is not None:
            raise ModelFileError(f"ONNX text cannot hold this model: {lost}", fix="write .textproto or .json, which hold all of it")
        return shown
    try:
        return str(json_format.MessageToJson(model, preserving_proto_field_name=True) if wanted == JSON else text_format.MessageToString(model))
    except (json_format.Error, UnicodeDecodeError, ValueError) as error:
        raise ModelFileError(f"the model cannot be written as {wanted}: {error}") from error
