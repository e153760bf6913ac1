"""Operators that TensorRT lacks, or takes in some forms only, spelled out with those that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.ir import dtypes
from onnx_gs.passes import (
    legalize_bitwise,
    legalize_float8,
    legalize_integers,
    legalize_pooling,
    legalize_scatter,
    legalize_selection,
    legalize_training,
    legalize_transforms,
)
from onnx_gs.passes.legalizing import Case, Rule, apply
from onnx_gs.passes.rewriting import NodePass, Work, works

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.passes.base import Report

#: Operators that TensorRT refuses when an optional output is named, used or not.
_FEWER_OUTPUTS = ("MaxPool", "LayerNormalization")
_MATRIX = 2
_MOST_AXES = 4


def _arg(case: Case) -> Sequence[Tensor | None] | None:
    """A vector gets a second axis: TensorRT takes ArgMax and ArgMin from rank 2 on."""
    x = case.node.inputs[0]
    if case.rank(x) != 1:
        return None
    attrs = {name: value for name, value in case.node.attrs.items() if name not in {"axis", "keepdims"}}
    keep = int(case.attribute("keepdims"))
    row = case.emit.unsqueeze(case.typed(x), [0])
    found = case.emit.op(case.node.op, row, dtype=np.int64, shape=[1, 1] if keep else [1], axis=1, keepdims=keep, **attrs)
    return [case.emit.squeeze(found, [0])]


def _relu(case: Case) -> Sequence[Tensor | None] | None:
    """Max with 0: TensorRT has Relu of floats only."""
    x = case.node.inputs[0]
    dtype = case.dtype(x)
    if dtype is None or dtype.kind not in {"int", "uint"}:
        return None
    return [case.emit.elementwise("Max", case.typed(x), case.emit.constant(np.zeros((), dtype.numpy)))]


def _reduce_bool(case: Case) -> Sequence[Tensor | None] | None:
    """int32 in between: TensorRT reduces numbers only."""
    x = case.node.inputs[0]
    if case.dtype(x) is not dtypes.BOOL:
        return None
    number = case.emit.cast(case.typed(x), dtypes.INT32)
    reduced = case.emit.op(case.node.op, number, *case.node.inputs[1:], dtype=dtypes.INT32, shape=case.shape(case.node.outputs[0]), **case.node.attrs)
    return [case.emit.cast(reduced, dtypes.BOOL)]


def _vector_matmul(case: Case) -> Sequence[Tensor | None] | None:
    """A matrix of one row: TensorRT multiplies a vector by a matrix only, not by several."""
    a, b = case.node.inputs
    rank = case.rank(b)
    if case.rank(a) != 1 or rank is None or rank <= _MATRIX:
        return None
    row = case.emit.unsqueeze(case.typed(a), [0])
    out = case.shape(case.node.outputs[0])
    made = case.emit.op("MatMul", row, b, dtype=a.dtype, shape=None if out is None else [*out[:-1], 1, out[-1]])
    return [case.emit.squeeze(made, [-2])]


def _float_mod(case: Case) -> Sequence[Tensor | None] | None:
    """The remainder of C, moved to the sign of the divisor: TensorRT has the other one for integers only."""
    a, b = (case.typed(t) for t in case.node.inputs)
    dtype = case.dtype(a)
    if dtype is None or dtype.kind != "float" or case.attribute("fmod"):
        return None
    emit = case.emit
    zero = emit.constant(np.zeros((), dtype.numpy))
    rest = emit.elementwise("Mod", a, b, fmod=1)
    signs = [emit.elementwise("Less", t, zero, dtype=np.bool_) for t in (rest, b)]
    nonzero = emit.elementwise("Not", emit.elementwise("Equal", rest, zero, dtype=np.bool_))
    wrong = emit.elementwise("And", emit.elementwise("Xor", *signs), nonzero)
    moved = emit.elementwise("Add", rest, b)
    return [emit.op("Where", wrong, moved, rest, dtype=dtype, shape=moved.shape)]


def _cum_sum(case: Case) -> Sequence[Tensor | None] | None:
    """One sum for each axis, of which the computed axis chooses: TensorRT takes a constant axis only."""
    axis = case.input(1)
    rank = case.rank(case.node.inputs[0])
    if axis is None or constness.array(axis) is not None or rank is None or not 1 <= rank <= _MOST_AXES:
        return None
    emit = case.emit
    x = case.typed(case.node.inputs[0])
    shape = case.shape(x)
    made: Tensor = emit.op("CumSum", x, emit.constant(np.int64(0)), dtype=x.dtype, shape=shape, **case.node.attrs)
    wide = emit.cast(emit.reshape(case.typed(axis), emit.constant(np.zeros(0, np.int64)), []), dtypes.INT64)
    for k in range(1, rank):
        other = emit.op("CumSum", x, emit.constant(np.int64(k)), dtype=x.dtype, shape=shape, **case.node.attrs)
        places = [emit.elementwise("Equal", wide, emit.constant(np.int64(at)), dtype=np.bool_) for at in (k, k - rank)]
        made = emit.op("Where", emit.elementwise("Or", *places), other, made, dtype=x.dtype, shape=shape)
    return [made]


def _celu(case: Case) -> Sequence[Tensor | None] | None:
    """float32 in between: TensorRT has no other Celu."""
    dtype = case.dtype(case.node.inputs[0])
    if dtype is None or dtype is dtypes.FLOAT:
        return None
    wide = case.emit.cast(case.typed(case.node.inputs[0]), dtypes.FLOAT)
    made = case.emit.op("Celu", wide, dtype=dtypes.FLOAT, shape=wide.shape, **case.node.attrs)
    return [case.emit.cast(made, dtype)]


#: Which rules look at an operator, in order; the first that gives something wins.
RULES: dict[str, tuple[Rule, ...]] = {
    "ArgMax": (_arg,),
    "ArgMin": (_arg,),
    "Celu": (_celu,),
    "CumSum": (_cum_sum,),
    "Mod": (_float_mod,),
    "Relu": (_relu,),
    "ReduceMax": (_reduce_bool,),
    "ReduceMin": (_reduce_bool,),
    **legalize_bitwise.RULES,
    **legalize_integers.RULES,
    **legalize_scatter.RULES,
    **legalize_selection.RULES,
    **legalize_training.RULES,
    **legalize_transforms.RULES,
    **legalize_pooling.RULES,
    **legalize_float8.RULES,
    "MatMul": (*legalize_integers.RULES["MatMul"], _vector_matmul),
}


@dataclass(frozen=True)
class LegalizeOps(NodePass):
    """Spell operators out that TensorRT lacks, or refuses in this form.

    Matches:   see ``RULES``: ``ArgMax`` of a vector; ``Relu`` and ``MatMul`` of integers; ``ReduceMax`` of bool; ``Mod`` of floats;
               ``Celu`` of halves; ``CumSum`` along a computed axis; ``MatMul`` of a vector by several matrices; extra outputs of ``MaxPool``
               and ``LayerNormalization``; ``ScatterND`` and ``ScatterElements`` with a reduction; ``BatchNormalization`` and ``Dropout`` in
               training mode; ``NonZero`` of ones, its ``Shape``, ``Compress``; bitwise operators; ``MatMulInteger``, ``ConvInteger``;
               ``DFT``, ``Det`` and ``Resize`` with antialias, of known size; pooling with dilations, and ``LpPool`` of other norms than 1
               and 2; casts to float8 and back.
    Rewrites:  each into operators that TensorRT takes, as the rule's text says; an unused extra output is dropped.
    Requires:  known element types and ranks, constant indices of scatters, constant conditions of ``Compress``.
    Declines:  with the reason that the rule gives; a used second output of ``MaxPool`` stays.
    TensorRT:  refuses all of these while parsing. Results are equal to the bit, except in training mode, for masked sums, ``DFT``, ``Det`` and
               ``Resize``, where the order of additions differs.

    Before::                                             After::
        y = ArgMax <axis = 0, keepdims = 0> (x)              u = Unsqueeze (x, {0})
                                                             v = ArgMax <axis = 1, keepdims = 0> (u)
                                                             y = Squeeze (v, {0})
    """

    name: ClassVar[str] = "legalize-ops"
    ops: ClassVar[tuple[str, ...]] = (*_FEWER_OUTPUTS, *(op for op in RULES if op not in _FEWER_OUTPUTS))

    def run(self, graph: Graph, report: Report) -> None:
        """Look at every node of the operators, bodies and functions included."""
        for work in works(graph, report):  # other passes may have edited since
            work.forget_nodes()
            work.forget_facts()
        super().run(graph, report)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Apply the first rule that gives something."""
        if node.op in _FEWER_OUTPUTS:
            _drop_unused_outputs(work, owner, node)
        if not any(work.edit.is_used(t) for t in node.outputs):
            return
        for rule in RULES.get(node.op, ()):
            if apply(rule, work, owner, node):
                return


def _drop_unused_outputs(work: Work, owner: Graph, node: Node) -> None:
    extra = [t for t in node.outputs[1:] if t.name]
    if not extra or any(work.edit.is_used(t) for t in extra):
        return
    work.report.rewrote(owner, node, "unused outputs dropped")
    while len(node.outputs) > 1:
        node.outputs.pop()


