"""Linear maps of known size that TensorRT has no operator for: as products with constant matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import EvaluationError, MissingExtraError
from onnx_gs.evaluate import onnxruntime
from onnx_gs.ir import Constant, Graph, Node, Variable, dtypes
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Tensor

_AXIS_AS_INPUT = 20
_COMPLEX = 2
_LARGEST_MATRIX = 1 << 22
_KNOWN_COORDINATES = ("align_corners", "tf_half_pixel_for_nn", "pytorch_half_pixel", "half_pixel", "asymmetric", "half_pixel_symmetric")


def _along(case: Case, x: Tensor, matrix: np.ndarray[Any, Any], axis: int) -> Tensor:
    """Multiply one axis of a tensor by a matrix ``[in, out]``."""
    rank = len(x.shape)
    to_end = [*(k for k in range(rank) if k != axis), axis]
    back = [to_end.index(k) for k in range(rank)]
    turned = case.emit.transpose(x, to_end)
    shape = [*turned.shape[:-1], matrix.shape[1]]
    made = case.emit.op("MatMul", turned, case.emit.constant(matrix), dtype=x.dtype, shape=shape)
    return case.emit.transpose(made, back)


def _dft(case: Case) -> Sequence[Tensor | None] | None:
    """Products with the matrices of cosines and sines: the length is known."""
    x = case.typed(case.node.inputs[0])
    shape, dtype = case.shape(x), case.dtype(x)
    length = case.array(1)
    if shape is None or dtype is None or (case.input(1) is not None and length is None):
        raise Declined("the shape or the length of the transform is not known")
    axis = int(case.attribute("axis") or 1)
    if case.opset >= _AXIS_AS_INPUT:
        given = case.array(2)
        if given is None and case.input(2) is not None:
            raise Declined("the axis is computed at run time")
        axis = -2 if given is None else int(given.reshape(()))
    axis %= len(shape)
    size, inverse, onesided = shape[axis], bool(case.attribute("inverse")), bool(case.attribute("onesided"))
    if size is None or shape[-1] not in {1, _COMPLEX} or (inverse and onesided):
        raise Declined("the length of the transform is not known, or it is an inverse onesided one")
    points = size if length is None else int(length.reshape(()))
    count = points // 2 + 1 if onesided else points
    used = min(size, points)
    if used * count > _LARGEST_MATRIX:
        raise Declined(f"a transform of {points} points would need a large matrix")
    if used < size:
        x = case.emit.slice(x, 0, used, axis)
    angles = 2 * np.pi * ((np.arange(used)[:, None] * np.arange(count)[None, :]) % points) / points
    cosines, sines = np.cos(angles), np.sin(angles) * (1 if inverse else -1)
    if inverse:
        cosines, sines = cosines / points, sines / points
    cos, sin = cosines.astype(dtype.numpy), sines.astype(dtype.numpy)
    emit = case.emit
    last = len(shape) - 1
    if shape[-1] == 1:
        parts = [_along(case, x, cos, axis), _along(case, x, sin, axis)]
    else:
        real, imaginary = emit.split(x, [1, 1], last, 2)
        parts = [
            emit.elementwise("Sub", _along(case, real, cos, axis), _along(case, imaginary, sin, axis)),
            emit.elementwise("Add", _along(case, real, sin, axis), _along(case, imaginary, cos, axis)),
        ]
    return [emit.concat(parts, last)]


def _resize(case: Case) -> Sequence[Tensor | None] | None:
    """A product with a matrix of weights for each axis that changes: the sizes are known."""
    node = case.node
    mode, coordinates = case.attribute("mode"), case.attribute("coordinate_transformation_mode")
    if not case.attribute("antialias") and coordinates in _KNOWN_COORDINATES:
        return None
    if mode not in {"linear", "cubic"} or coordinates == "tf_crop_and_resize" or case.attribute("keep_aspect_ratio_policy") not in {None, "stretch"}:
        raise Declined("no form of Resize that works axis by axis with known weights")
    x = case.typed(node.inputs[0])
    shape, dtype = case.shape(x), case.dtype(x)
    out = case.shape(node.outputs[0])
    if shape is None or out is None or dtype not in {dtypes.FLOAT, dtypes.FLOAT16} or any(d is None for d in (*shape, *out)):
        raise Declined("the sizes are not known")
    scales, sizes = case.array(2), case.array(3)
    axes = list(case.attribute("axes") or range(len(shape)))
    if scales is None and sizes is None:
        raise Declined("the scales or sizes are computed at run time")
    made: Tensor = x
    kept = {k: v for k, v in node.attrs.items() if k != "axes"}
    for k, axis in enumerate(axes):
        axis %= len(shape)
        scale = float(scales[k]) if scales is not None and scales.size else None
        if shape[axis] == out[axis] and scale in {None, 1.0}:
            continue
        if shape[axis] * out[axis] > _LARGEST_MATRIX:
            raise Declined(f"axis {axis} would need a large matrix")
        made = _along(case, made, _weights(case, shape[axis], out[axis], scale, kept).astype(dtype.numpy), axis)
    return [made if made is not x else case.emit.identity(x)]


def _weights(case: Case, size: int, out: int, scale: float | None, attributes: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Ask ONNX Runtime for the weights of one axis: resize the unit vectors."""
    x, y = Variable("x", np.float32, (size, 1, size, 1)), Variable("y", np.float32, (size, 1, out, 1))
    inputs: list[Tensor] = [x, Variable.empty()]
    if scale is not None:
        inputs.append(Constant("scales", np.array([1, 1, scale, 1], np.float32)))
    else:
        inputs += [Variable.empty(), Constant("sizes", np.array([size, 1, out, 1], np.int64))]
    graph = Graph([Node("Resize", attrs=dict(attributes), inputs=inputs, outputs=[y])], [x], [y], opset=case.opset)
    try:
        found = onnxruntime.run(graph, {"x": np.eye(size, dtype=np.float32).reshape(size, 1, size, 1)})["y"]
    except (EvaluationError, MissingExtraError) as error:
        raise Declined(f"the weights could not be found: {error.what}") from error
    return np.asarray(found).reshape(size, out)


def _det(case: Case) -> Sequence[Tensor | None] | None:
    """The sum of products: the matrices are small."""
    x = case.typed(case.node.inputs[0])
    shape = case.shape(x)
    if shape is None or shape[-1] not in {1, 2, 3}:
        raise Declined("determinants of more than three rows")
    emit = case.emit

    def entry(row: int, column: int) -> Tensor:
        line = emit.gather(x, emit.constant(np.int64(row)), len(shape) - 2)
        return emit.gather(line, emit.constant(np.int64(column)), len(shape) - 2)

    def product(*places: tuple[int, int]) -> Tensor:
        made = entry(*places[0])
        for place in places[1:]:
            made = emit.elementwise("Mul", made, entry(*place))
        return made

    n = int(shape[-1])
    if n == 1:
        return [product((0, 0))]
    if n == 2:
        return [emit.elementwise("Sub", product((0, 0), (1, 1)), product((0, 1), (1, 0)))]
    plus = [product((0, a), (1, (a + 1) % 3), (2, (a + 2) % 3)) for a in range(3)]
    minus = [product((0, a), (1, (a + 2) % 3), (2, (a + 1) % 3)) for a in range(3)]
    total = emit.elementwise("Add", emit.elementwise("Add", plus[0], plus[1]), plus[2])
    less = emit.elementwise("Add", emit.elementwise("Add", minus[0], minus[1]), minus[2])
    return [emit.elementwise("Sub", total, less)]


RULES: dict[str, tuple[Rule, ...]] = {"DFT": (_dft,), "Resize": (_resize,), "Det": (_det,)}
