"""How the operators of ONNX shape their outputs, and what shape arithmetic computes: one function an operator or family, by topic.

Each function tells ``ShapeFacts`` what it knows of a node's outputs, and nothing where it knows nothing.
"""

from onnx_gs.analysis.shape_functions import (  # they enter their functions into the table
    control_flow,
    elementwise,
    generators,
    moves,
    normalizations,
    products,
    reductions,
    slices,
    views,
    windows,
)
from onnx_gs.analysis.shape_functions.operands import broadcast
from onnx_gs.analysis.shape_functions.slices import as_slice, clamped, slice_parts, taken
from onnx_gs.analysis.shape_functions.table import FUNCTIONS, HAND_ON, LOOKS_AT, READ_FLOATS, WITHOUT_ATTRIBUTES, Shape, ShapeFunction

__all__ = [
    "FUNCTIONS", "HAND_ON", "LOOKS_AT", "READ_FLOATS", "WITHOUT_ATTRIBUTES", "Shape", "ShapeFunction", "as_slice", "broadcast", "clamped",
    "control_flow", "elementwise", "generators", "moves", "normalizations", "products", "reductions", "slice_parts", "slices", "taken", "views",
    "windows",
]  # fmt: skip
