"""Edit ONNX models: load, change, fold, lower control flow, save, hand over to TensorRT.

What loads, edits, folds and saves comes with the import; debugging, patterns and TensorRT are loaded on first use.

Example:
    >>> import numpy as np
    >>> import onnx_gs as gs
    >>> x, y = gs.Variable("x", np.float32, ("batch", 3)), gs.Variable("y", np.float32, ("batch", 3))
    >>> graph = gs.Graph([gs.Node("Relu", inputs=[x], outputs=[y])], inputs=[x], outputs=[y], opset=18)
    >>> [node.op for node in gs.import_onnx(gs.export_onnx(graph)).nodes]
    ['Relu']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onnx_gs import script_modules
from onnx_gs.errors import (
    EvaluationError,
    GraphError,
    GraphTypeError,
    GraphValueError,
    MissingExtraError,
    ModelFileError,
    OnnxGraphSurgeonException,
    OnnxGsError,
    TensorRTError,
    UnsupportedTypeError,
    VerificationError,
)
from onnx_gs.graph import Function, Graph, import_onnx, load
from onnx_gs.io.contract import export_onnx
from onnx_gs.io.files import save
from onnx_gs.ir.node import Node
from onnx_gs.ir.synchronized_list import SynchronizedList
from onnx_gs.ir.tensor import Constant, Tensor, Variable
from onnx_gs.ir.values import LazyValues, SparseValues
from onnx_gs.version import __version__

if TYPE_CHECKING:
    from onnx_gs import ir, logger, passes, trt
    from onnx_gs.analysis.shape_values import register_shape_function
    from onnx_gs.debug.bisect import bisect
    from onnx_gs.debug.capture import capture
    from onnx_gs.debug.diff import diff
    from onnx_gs.debug.isolate import isolate
    from onnx_gs.debug.layerwise import layerwise
    from onnx_gs.debug.trace import trace
    from onnx_gs.rewrite.graph_pattern import GraphPattern, PatternMapping

#: Where each public name lives that is loaded on first use; None for a submodule.
_HOMES: dict[str, str | None] = {
    **dict.fromkeys(("GraphPattern", "PatternMapping"), "onnx_gs.rewrite.graph_pattern"),
    **{name: f"onnx_gs.debug.{name}" for name in ("bisect", "capture", "diff", "isolate", "layerwise", "trace")},
    "register_shape_function": "onnx_gs.analysis.shape_values",
    **dict.fromkeys(("debug", "io", "ir", "logger", "passes", "trt"), None),
}

script_modules.install()

#: Subpackages of the scripts' library that scripts reach as attributes and that this package does not have itself.
_SUBPACKAGES = frozenset({"exporters", "graph_pattern", "importers", "util"})

__all__ = [
    "Constant",
    "EvaluationError",
    "Function",
    "Graph",
    "GraphError",
    "GraphPattern",
    "GraphTypeError",
    "GraphValueError",
    "LazyValues",
    "MissingExtraError",
    "ModelFileError",
    "Node",
    "OnnxGraphSurgeonException",
    "OnnxGsError",
    "PatternMapping",
    "SparseValues",
    "SynchronizedList",
    "Tensor",
    "TensorRTError",
    "UnsupportedTypeError",
    "Variable",
    "VerificationError",
    "__version__",
    "bisect",
    "capture",
    "diff",
    "export_onnx",
    "import_onnx",
    "ir",
    "isolate",
    "layerwise",
    "load",
    "logger",
    "passes",
    "register_shape_function",
    "save",
    "trace",
    "trt",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in _SUBPACKAGES:
        return importlib.import_module(f"onnx_gs.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'onnx_gs' has no attribute '{name}'")
    home = _HOMES[name]
    value = importlib.import_module(f"onnx_gs.{name}") if home is None else getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *_HOMES})
