"""All passes, by name: a plain tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.passes.absorb_bias import AbsorbBias
from onnx_gs.passes.absorb_scales import AbsorbScales
from onnx_gs.passes.absorb_unsqueeze import AbsorbUnsqueeze
from onnx_gs.passes.bind_dims import BindDims
from onnx_gs.passes.bound_loop import BoundLoop
from onnx_gs.passes.buffer_growth import BufferGrowth
from onnx_gs.passes.check_carried_shapes import CheckCarriedShapes
from onnx_gs.passes.check_declared_shapes import CheckDeclaredShapes
from onnx_gs.passes.cleanup import Cleanup
from onnx_gs.passes.drop_unused_outputs import DropUnusedOutputs
from onnx_gs.passes.elide_casts import ElideCasts
from onnx_gs.passes.eliminate_arithmetic import EliminateArithmetic
from onnx_gs.passes.eliminate_casts import EliminateCasts
from onnx_gs.passes.eliminate_identity import EliminateDropout, EliminateIdentity, EliminateSingleOperand
from onnx_gs.passes.eliminate_moves import EliminateBroadcasts, EliminateEmptyParts, EliminatePads, EliminateSameShape
from onnx_gs.passes.eliminate_slices import EliminateSlices
from onnx_gs.passes.eliminate_transposes import EliminateTransposes
from onnx_gs.passes.eliminate_views import EliminateViews
from onnx_gs.passes.equalize_ranks import EqualizeRanks
from onnx_gs.passes.expand_function_ops import ExpandFunctionOps
from onnx_gs.passes.fold_constants import FoldConstants
from onnx_gs.passes.fold_shapes import FoldShapes
from onnx_gs.passes.fold_symbolic import FoldShapeValues, FoldTargets
from onnx_gs.passes.freeze_inputs import FreezeInputs
from onnx_gs.passes.fuse_affine import FuseBatchNorm, FuseConstants, FuseScale
from onnx_gs.passes.fuse_gemm import FuseGemm, FusePad
from onnx_gs.passes.grow_to_scan_output import GrowToScanOutput
from onnx_gs.passes.hoist_common import HoistCommon
from onnx_gs.passes.hoist_invariants import HoistInvariants
from onnx_gs.passes.if_to_where import IfToWhere
from onnx_gs.passes.infer_shapes import InferShapes
from onnx_gs.passes.inline_functions import InlineFunctions
from onnx_gs.passes.inline_if import InlineIf
from onnx_gs.passes.legalize_dtypes import LegalizeDtypes
from onnx_gs.passes.legalize_ops import LegalizeOps
from onnx_gs.passes.loop_to_reduce import LoopToReduce
from onnx_gs.passes.lower_constants import LowerConstants
from onnx_gs.passes.lower_control_flow import LowerControlFlow
from onnx_gs.passes.lower_optional import LowerOptional
from onnx_gs.passes.lower_scan import LowerScan
from onnx_gs.passes.lower_sequence import LowerSequence
from onnx_gs.passes.make_dynamic import MakeDynamic
from onnx_gs.passes.mask_loop import MaskLoop
from onnx_gs.passes.merge_ifs import MergeIfs
from onnx_gs.passes.normalize_if import NormalizeIf
from onnx_gs.passes.normalize_loop import NormalizeLoop
from onnx_gs.passes.share_constants import ShareConstants
from onnx_gs.passes.share_outer import ShareOuter
from onnx_gs.passes.share_shapes import ShareShapes
from onnx_gs.passes.share_subexpressions import ShareSubexpressions
from onnx_gs.passes.simplify import Simplify
from onnx_gs.passes.sink_into_ifs import SinkIntoIfs
from onnx_gs.passes.slice_by_choice import SliceByChoice
from onnx_gs.passes.slice_by_counter import SliceByCounter
from onnx_gs.passes.slices_to_split import SlicesToSplit
from onnx_gs.passes.toposort import Toposort
from onnx_gs.passes.unroll_loop import UnrollLoop
from onnx_gs.passes.vectorize_loop import VectorizeLoop

if TYPE_CHECKING:
    from onnx_gs.passes.base import Pass

#: Every pass that can be named in text, such as on the command line.
PASSES: tuple[type[Pass], ...] = (
    AbsorbBias,
    AbsorbScales,
    AbsorbUnsqueeze,
    BindDims,
    BoundLoop,
    BufferGrowth,
    CheckCarriedShapes,
    CheckDeclaredShapes,
    Cleanup,
    DropUnusedOutputs,
    ElideCasts,
    EliminateArithmetic,
    EliminateBroadcasts,
    EliminateCasts,
    EliminateDropout,
    EliminateEmptyParts,
    EliminateIdentity,
    EliminatePads,
    EliminateSameShape,
    EliminateSingleOperand,
    EliminateSlices,
    EliminateTransposes,
    EliminateViews,
    EqualizeRanks,
    ExpandFunctionOps,
    FoldConstants,
    FoldShapeValues,
    FoldShapes,
    FoldTargets,
    FreezeInputs,
    FuseBatchNorm,
    FuseConstants,
    FuseGemm,
    FusePad,
    FuseScale,
    GrowToScanOutput,
    HoistCommon,
    HoistInvariants,
    IfToWhere,
    InferShapes,
    InlineFunctions,
    InlineIf,
    LegalizeDtypes,
    LegalizeOps,
    LoopToReduce,
    LowerConstants,
    LowerControlFlow,
    LowerOptional,
    LowerScan,
    LowerSequence,
    MakeDynamic,
    MergeIfs,
    MaskLoop,
    NormalizeIf,
    NormalizeLoop,
    ShareConstants,
    ShareOuter,
    ShareShapes,
    ShareSubexpressions,
    Simplify,
    SinkIntoIfs,
    SliceByChoice,
    SliceByCounter,
    SlicesToSplit,
    Toposort,
    UnrollLoop,
    VectorizeLoop,
)


def find(name: str) -> type[Pass] | None:
    """Give the pass of a name, or None.

    Example:
        >>> find("fold-constants").__name__
        'FoldConstants'
    """
    return next((p for p in PASSES if p.name == name), None)
