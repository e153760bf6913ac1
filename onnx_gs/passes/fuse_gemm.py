"""MatMul and Add as one Gemm, and Pad as the padding of a convolution. Results are close, not equal; off by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node


@dataclass(frozen=True)
class FuseGemm(NodePass):
    """Make ``Gemm`` of ``MatMul`` and ``Add``.

    Matches:   ``Add`` of a matrix product of rank 2 that nothing else reads, and of something that broadcasts to it without making it larger.
    Rewrites:  one ``Gemm``.
    Declines:  a product of another rank.
    """

    name: ClassVar[str] = "fuse-gemm"
    ops: ClassVar[tuple[str, ...]] = ("Add",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Fuse one."""
        for x, added in (tuple(node._inputs), tuple(node._inputs)[::-1]):
            product = work.producer(x, "MatMul")
            if product is None or x is added or not work.is_private(x) or work.edit.holder.get(id(product)) is not owner or work.root.opset < 11:
                continue
            shapes = [work.facts.shape(t) for t in (*product._inputs, x, added, node._outputs[0])]
            if any(s is None for s in shapes) or len(shapes[0]) != 2 or len(shapes[1]) != 2 or shapes[2] != shapes[4]:  # type: ignore[arg-type]
                continue
            if len(shapes[3]) > 2 or work.facts.dtype(x) not in {dtypes.FLOAT, dtypes.DOUBLE, dtypes.FLOAT16}:  # type: ignore[arg-type]
                continue
            work.report.rewrote(owner, node, f"fused with '{product.name or 'MatMul'}'")
            inputs = [*product._inputs, added]
            node.op, node.attrs = "Gemm", {}
            node.inputs = inputs
            work.changed_op()
            return


@dataclass(frozen=True)
class FusePad(NodePass):
    """Make a ``Pad`` with zeros the padding of the convolution behind it.

    Matches:   ``Conv`` of a ``Pad`` in constant mode that nothing else reads, which adds zeros on spatial axes only.
    Rewrites:  the pads of the convolution grow.
    Declines:  ``auto_pad``; negative amounts.
    """

    name: ClassVar[str] = "fuse-pad"
    ops: ClassVar[tuple[str, ...]] = ("Conv",)

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Fuse one."""
        x = node._inputs[0]
        pad = work.producer(x, "Pad")
        if pad is None or not work.is_private(x) or work.edit.holder.get(id(pad)) is not owner:
            return
        if node.attrs.get("auto_pad", "NOTSET") not in {"NOTSET", b"NOTSET", ""}:
            return
        if pad.attrs.get("mode", "constant") not in {"constant", b"constant"}:
            return
        rank = work.facts.rank(pad._inputs[0])
        if rank is None or not _fills_with_zero(pad) or (len(pad._inputs) > 3 and pad._inputs[3]._name):
            return
        amounts = list(pad.attrs["pads"]) if "pads" in pad.attrs else list(work.facts.integers(pad._inputs[1]) or ())
        if len(amounts) != 2 * rank or min(amounts) < 0 or any(amounts[i] for i in (0, 1, rank, rank + 1)):
            return
        before = [int(p) for p in node.attrs.get("pads", ())] or [0] * (2 * (rank - 2))
        spatial = [*amounts[2:rank], *amounts[rank + 2 :]]
        work.report.rewrote(owner, node, f"takes over the padding of '{pad.name or 'Pad'}'")
        node.attrs["pads"] = [a + b for a, b in zip(before, spatial)]
        node._inputs[0] = pad._inputs[0]


def _fills_with_zero(pad: Node) -> bool:
    if len(pad._inputs) > 2 and pad._inputs[2]._name:
        value = pad._inputs[2]
        return isinstance(value, Constant) and value.values.size == 1 and not value.values.item()
    return not pad.attrs.get("value", 0.0)
