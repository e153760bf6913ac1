"""Converting a model to another version of ONNX's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
import onnx.version_converter

from onnx_gs.errors import GraphError
from onnx_gs.io.exporter import export_onnx
from onnx_gs.ir.show import graph_label

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph


def convert(graph: Graph, opset: int) -> Any:
    """Give the model as a message at another opset, by ONNX's version converter.

    Args:
        graph: the model; it stays as it is.
        opset: version of ONNX's own operators.

    Raises:
        GraphError: the installed ``onnx`` does not know the opset, or cannot convert an operator, which it names.
    """
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= opset <= newest:
        raise GraphError(f"opset {opset} is not known to the installed onnx", where=graph_label(graph), fix=f"give 1 to {newest}, or upgrade onnx")
    try:
        return onnx.version_converter.convert_version(export_onnx(graph, do_type_check=False), opset)
    except Exception as error:  # the C++ side raises what it likes
        said = str(error).strip().splitlines()
        raise GraphError(
            f"the model cannot be converted to opset {opset}: {said[0] if said else error!r}",
            where=graph_label(graph),
            fix="lower or replace that operator first",
        ) from error
