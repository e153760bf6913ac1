"""Casts that change nothing, and casts of casts that are exactly one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.ir import dtypes
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.dtypes import DataType

_MANTISSA = {"FLOAT16": 11, "BFLOAT16": 8, "FLOAT": 24, "DOUBLE": 53}
_EXPONENT = {"FLOAT16": 5, "BFLOAT16": 8, "FLOAT": 8, "DOUBLE": 11}


@dataclass(frozen=True)
class EliminateCasts(NodePass):
    """Remove ``Cast`` to the type that the input has, and read through a ``Cast`` that loses nothing.

    Matches:   ``ai.onnx::Cast`` to the input's own type; ``Cast`` of a ``Cast`` to a type that holds every value of the first one.
    Rewrites:  the node goes; or it reads the input of the inner ``Cast``, which goes when nothing else reads it.
    Declines:  the inner ``Cast`` may round, wrap or saturate.
    """

    name: ClassVar[str] = "eliminate-casts"
    ops: ClassVar[tuple[str, ...]] = ("Cast", "CastLike")

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass the node, or the one before it."""
        x, y = node._inputs[0], node._outputs[0]
        to, of = work.facts.dtype(y), work.facts.dtype(x)
        if to is None:
            return
        if of is to:
            work.bypass(owner, node, x, "it has that type already")
            return
        if node.op == "CastLike" and to.bits >= 8:
            work.report.rewrote(owner, node, f"to {to.name}, whatever the second operand holds")
            node.op, node.attrs = "Cast", {"to": to.number, **{k: v for k, v in node.attrs.items() if k == "saturate"}}
            del node._inputs[1:]
            work.changed_op()
            return
        inner = work.producer(x, "Cast")
        if inner is None or node.op != "Cast":
            return
        source = inner._inputs[0]
        first = work.facts.dtype(source)
        if first is None or of is None or not holds(of, first) or to.bits < 8 or to.name.startswith("FLOAT8"):
            return
        if first is to:
            work.bypass(owner, node, source, "two casts lead back to the type before")
            return
        work.report.rewrote(owner, node, "reads through a cast that loses nothing")
        node._inputs[0] = source


def holds(wide: DataType, narrow: DataType) -> bool:
    """Say whether a type has every value of another, so that a cast there and onwards is the cast onwards.

    Example:
        >>> holds(dtypes.FLOAT, dtypes.FLOAT16), holds(dtypes.FLOAT, dtypes.INT32), holds(dtypes.INT64, dtypes.UINT32)
        (True, False, True)
    """
    if wide is narrow:
        return True
    if narrow is dtypes.BOOL:
        return wide.kind in {"int", "uint"} or wide.name in _MANTISSA
    if narrow.kind == "float":
        if narrow.name not in _MANTISSA or wide.name not in _MANTISSA:
            return False
        return _MANTISSA[wide.name] >= _MANTISSA[narrow.name] and _EXPONENT[wide.name] >= _EXPONENT[narrow.name]
    if narrow.kind not in {"int", "uint"} or narrow.bits < 8:
        return False
    if wide.name in _MANTISSA:
        # a float of 16 bits reaches 65504 only, so it holds no integers of 16 bits
        return (_MANTISSA[wide.name] >= narrow.bits and wide.name != "FLOAT16") or (wide.name == "FLOAT16" and narrow.bits == 8)
    if wide.kind == narrow.kind:
        return wide.bits >= narrow.bits
    return wide.kind == "int" and narrow.kind == "uint" and wide.bits > narrow.bits
