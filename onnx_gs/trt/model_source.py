"""A model in the form TensorRT's parser reads: bytes, or a file where it is large or has external data."""

from __future__ import annotations

import io
import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphTypeError, ModelFileError
from onnx_gs.ir import Constant, Graph

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Above this many bytes of weights a graph is handed over as a file with external data: a message cannot exceed 2 GB.
FILE_LIMIT = 1 << 30


@dataclass
class ModelSource:
    """What is handed to the parser.

    Attributes:
        content: the model as bytes, or
        path: its file.
        graph: the graph it came from, if it came from one.
    """

    content: bytes | None = None
    path: Path | None = None
    graph: Graph | None = None

    def as_graph(self) -> Graph | None:
        """Give the graph, read now where it was not given; None where the model cannot be read."""
        if self.graph is None:
            self.graph = read_graph(self.content if self.content is not None else self.path)
        return self.graph

    def as_file(self, folder: Path) -> Path:
        """Give a file with the model, written into ``folder`` where there is none."""
        if self.path is not None:
            return self.path
        path = folder / "model.onnx"
        path.write_bytes(self.content or b"")
        return path


def read_graph(model: Any) -> Graph | None:
    """Read a model from bytes or a file; None where it is malformed."""
    from onnx_gs.errors import OnnxGsError
    from onnx_gs.io import files

    try:
        found: Graph = files.load(io.BytesIO(model) if isinstance(model, bytes) else model)
    except OnnxGsError:
        return None
    return found


@contextmanager
def opened(model: Any) -> Iterator[ModelSource]:
    """Make a model ready for the parser, for the length of a block.

    Args:
        model: a graph, a path, the bytes of a model, or an ``onnx.ModelProto``.

    Raises:
        ModelFileError: the path is no file.
        GraphError: a graph is not valid ONNX; the parser crashes at some of that.
        GraphTypeError: it is none of these.
    """
    if isinstance(model, ModelSource):
        yield model
    elif isinstance(model, (str, os.PathLike)):
        path = Path(model)
        if not path.is_file():
            raise ModelFileError(f"model file '{path}' does not exist" if not path.exists() else f"'{path}' is no file")
        yield ModelSource(path=path)
    elif isinstance(model, Graph):
        yield from _of_graph(model)
    else:
        yield ModelSource(content=content_of(model))


def content_of(model: Any) -> bytes:
    """Give the bytes of a model that is neither a graph nor a path.

    Raises:
        ModelFileError: there are none.
        GraphTypeError: it is no model.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        content = bytes(model)
    elif hasattr(model, "SerializeToString"):
        content = model.SerializeToString()
    else:
        raise GraphTypeError(f"a {type(model).__name__} is no model", fix="give a graph, a path, bytes, or an onnx.ModelProto")
    if not content:
        raise ModelFileError("the model is empty: it has no bytes", fix="see where it came from")
    return content


def _of_graph(graph: Graph) -> Iterator[ModelSource]:
    from onnx_gs.io import files
    from onnx_gs.trt.validity import require_valid

    require_valid(graph)
    if weight_bytes(graph) <= FILE_LIMIT:
        yield ModelSource(content=files.export_onnx(graph).SerializeToString(), graph=graph)
        return
    with tempfile.TemporaryDirectory(prefix="onnx_gs_") as folder:
        path = Path(folder) / "model.onnx"
        files.save(graph, path, external_data="model.data")
        yield ModelSource(path=path, graph=graph)


def weight_bytes(graph: Graph) -> int:
    """Give the bytes of all weights, each counted once; reads none of them."""
    from onnx_gs.trt.places import places

    seen: dict[int, int] = {}
    for place in places(graph):
        for tensor in place.node.inputs:
            if isinstance(tensor, Constant):
                seen[id(tensor)] = tensor.nbytes
    return sum(seen.values())
