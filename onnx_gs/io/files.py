"""Load and save models."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, TypeVar

from onnx_gs.errors import GraphTypeError, ModelFileError
from onnx_gs.io import mistaken, writer
from onnx_gs.io.attributes import NotTextError
from onnx_gs.io.exporter import export_onnx, export_skeleton
from onnx_gs.io.importer import import_model, import_onnx
from onnx_gs.io.outline import check_text, outline, outline_stream
from onnx_gs.ir.function import Function
from onnx_gs.ir.graph import Graph

if TYPE_CHECKING:
    import onnx

    from onnx_gs.io.regions import AbsentFile

__all__ = ["export_onnx", "import_onnx", "load", "save"]

G = TypeVar("G", bound=Graph)
#: The first IR version whose models must say which operator sets they use.
_OPSETS_REQUIRED = 3


def load(
    path: str | os.PathLike[str] | IO[bytes],
    *,
    graph_type: type[Any] = Graph,
    function_type: type[Any] = Function,
    absent: dict[str, AbsentFile] | None = None,
) -> Any:
    """Open a model: its structure is read, its weights stay in their files until their values are asked for.

    Args:
        path: the file, or a binary stream; external data of a stream is looked for in the working directory.
        graph_type: the class to build, ``Graph`` or a child of it.
        function_type: the class of the local functions, ``Function`` or a child of it.
        absent: where data files that are missing or too short are put, by location, instead of raising; the weights in them raise when read.

    Returns:
        The graph.

    Raises:
        ModelFileError: the file, or one beside it, is missing, damaged or not allowed.
        GraphTypeError: the argument is neither.
        OnnxGsError: the model breaks a rule of ONNX, or has something that this version does not know.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import onnx_gs as gs
        >>> x, y = gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.float32, (2,))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "relu.onnx"
        >>> gs.save(gs.Graph([gs.Node("Relu", inputs=[x], outputs=[y])], [x], [y]), path)
        >>> [node.op for node in gs.load(path).nodes]
        ['Relu']
    """
    return ModelFile(path).graph(graph_type=graph_type, function_type=function_type, absent=absent)


class ModelFile:
    """A model's file whose structure was read, and of which no graph was made yet.

    Attributes:
        message: the structure, with large weights left in the file; the graph takes it apart.

    Args:
        path: the file, or a binary stream.

    Raises:
        ModelFileError: the file is missing or damaged.
        GraphTypeError: the argument is neither.
    """

    def __init__(self, path: str | os.PathLike[str] | IO[bytes]) -> None:
        """Read the structure."""
        if isinstance(path, (str, os.PathLike)):
            self._name = os.fspath(path)
            self._has_path = True
            try:
                self.message, self._file, self._in_attributes = outline(self._name)
            except ModelFileError as error:
                raise mistaken.explained(error, self._name) from error
        elif not hasattr(path, "read"):
            raise GraphTypeError(f"load takes a path or a binary stream, not {type(path).__name__}", fix="import_onnx takes an onnx.ModelProto")
        else:
            self._name, self._has_path = "<stream>", False
            self.message, self._file, self._in_attributes = outline_stream(path)
        _check(self.message, self._name)

    def graph(self, *, graph_type: type[Any] = Graph, function_type: type[Any] = Function, absent: dict[str, AbsentFile] | None = None) -> Any:
        """Make the graph, once; see ``load``."""
        folder = os.path.dirname(self._name)
        try:
            return import_model(
                self.message,
                graph_type=graph_type,
                function_type=function_type,
                base_dir=folder,
                source_file=self._file,
                in_attributes=self._in_attributes,
                owned=True,
                absent=absent,
            )
        except NotTextError:
            if self._has_path:
                check_text(self._name)
            raise


def _check(model: onnx.ModelProto, name: str) -> None:
    if model.ir_version >= _OPSETS_REQUIRED and not model.opset_import:
        raise ModelFileError("the model names no operator set", where=f"file '{name}'", fix="the file is cut short or damaged; fetch it again")


def save(
    graph: Graph,
    path: str | os.PathLike[str] | IO[bytes],
    *,
    external_data: str | os.PathLike[str] | None = None,
    size_threshold: int = writer.SIZE_THRESHOLD,
) -> None:
    """Write a graph to a file; weights that nobody changed stream from the file that holds them.

    Files appear whole or not at all. Saving over the file that the graph was loaded from is fine: the graph keeps the old one open.

    Args:
        graph: the graph.
        path: the file, or a binary stream.
        external_data: None for one file (and ``<file name>.data`` beside it where that takes more than the 2 GB that one can hold); the
            name of a data file in the model's folder, written anew; or ``"keep"``: weights that are in files of that folder already stay
            there, and only new and changed ones are appended.
        size_threshold: weights with more bytes than this go to the data file.

    Raises:
        ModelFileError: a file cannot be written, or a weight cannot be read. Nothing was changed then.
        OnnxGsError: the graph cannot be exported.
    """
    is_path = isinstance(path, (str, os.PathLike))
    if not is_path and not hasattr(path, "write"):
        raise GraphTypeError(f"save takes a path or a binary stream, not {type(path).__name__}")
    if not is_path and external_data is not None:
        raise ModelFileError("a stream has no place for external data", fix="save to a path")
    beside = None if external_data is None else os.fspath(external_data)
    model, payloads = export_skeleton(graph, keep_places=True)
    if isinstance(path, (str, os.PathLike)):
        writer.write_model(model, path, payloads, external=beside, size_threshold=size_threshold)
    else:
        writer.write_stream(model, path, payloads)
