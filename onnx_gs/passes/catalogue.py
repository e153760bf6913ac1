"""All passes, by name: a plain tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.passes.cleanup import Cleanup
from onnx_gs.passes.elide_casts import ElideCasts
from onnx_gs.passes.expand_function_ops import ExpandFunctionOps
from onnx_gs.passes.fold_constants import FoldConstants
from onnx_gs.passes.fold_shapes import FoldShapes
from onnx_gs.passes.freeze_inputs import FreezeInputs
from onnx_gs.passes.infer_shapes import InferShapes
from onnx_gs.passes.inline_functions import InlineFunctions
from onnx_gs.passes.inline_if import InlineIf
from onnx_gs.passes.legalize_dtypes import LegalizeDtypes
from onnx_gs.passes.legalize_ops import LegalizeOps
from onnx_gs.passes.lower_constants import LowerConstants
from onnx_gs.passes.lower_optional import LowerOptional
from onnx_gs.passes.lower_sequence import LowerSequence
from onnx_gs.passes.toposort import Toposort

if TYPE_CHECKING:
    from onnx_gs.passes.base import Pass

#: Every pass that can be named in text, such as on the command line.
PASSES: tuple[type[Pass], ...] = (
    Cleanup,
    ElideCasts,
    ExpandFunctionOps,
    FoldConstants,
    FoldShapes,
    FreezeInputs,
    InferShapes,
    InlineFunctions,
    InlineIf,
    LegalizeDtypes,
    LegalizeOps,
    LowerConstants,
    LowerOptional,
    LowerSequence,
    Toposort,
)


def find(name: str) -> type[Pass] | None:
    """Give the pass of a name, or None.

    Example:
        >>> find("fold-constants").__name__
        'FoldConstants'
    """
    return next((p for p in PASSES if p.name == name), None)
