"""What shapes decide although some dims are known by name only: shape arithmetic, targets of Reshape, Expand and Slice, choices of Where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.shape_functions import clamped, slice_parts
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.eliminate_views import reshape_target
from onnx_gs.passes.rewriting import NodePass, Work, works

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_arithmetic import Contents
    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.tensor import Tensor


@dataclass(frozen=True)
class FoldShapeValues(Pass):
    """Replace shape arithmetic whose result is the same for every size of the symbolic dims by that result.

    Matches:   a node all of whose outputs are small integer or boolean tensors that shapes and constants decide, such as the ``Gather`` of a static
               dim from the ``Shape`` of a tensor that is dynamic otherwise, or ``Equal`` of a dim and -1.
    Rewrites:  what others read of it becomes a constant of the same name.
    Declines:  nothing.
    """

    name: ClassVar[str] = "fold-shape-values"
    shares: ClassVar[bool] = True

    def run(self, graph: Graph, report: Report) -> None:
        """Fold in the graph, its bodies and functions."""
        for work in works(graph, report):
            facts = work.facts
            known: dict[int, tuple[Graph, Node]] = {}
            decided = facts.decided_ids()
            for owner in work.graphs():
                for node in owner.nodes:
                    outputs = node._outputs
                    if outputs and id(outputs[0]) in decided and _decided(work, node):
                        known[id(node)] = (owner, node)
            for owner, node in known.values():
                needed = [t for t in node._outputs if work.edit.listed_by(t) or any(id(n) not in known for n in t._outputs)]
                if not needed:
                    continue  # only others that fold as well read it: it is dead then
                report.rewrote(owner, node, "shapes decide it")
                values = [_array(facts.contents(t), facts.dtype(t).numpy) for t in needed]  # type: ignore[arg-type,union-attr]
                work.edit.remove(owner, node)
                for t, value in zip(needed, values):
                    t.to_constant(value)
            work.finish()


def _decided(work: Work, node: Node) -> bool:
    met = work.facts.met
    for t in node._outputs:
        if not met(t).is_decided or isinstance(t, Constant) or not t._name:
            return False
    return node.op != "Constant" and not node.has_body


def _array(held: Contents, dtype: np.dtype[np.generic]) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return np.array(held.items, dtype=dtype).reshape(held.shape)


@dataclass(frozen=True)
class FoldTargets(NodePass):
    """Give ``Reshape``, ``Expand`` and ``Slice`` constant targets where the sizes allow it, and decide ``Where`` where shapes do.

    Matches:   a computed target that a constant can stand for: in ``Reshape`` 0 for a dim that stays and a single -1; in ``Expand`` 1 for a dim that
               stays; in ``Slice`` the far end for the size of the axis, and -1 for that size less 1. ``Where`` whose condition is the same
               throughout.
    Rewrites:  the node reads the constant; the arithmetic goes when nothing else reads it. ``Where`` goes, as far as the chosen operand has its
               shape.
    Declines:  the target needs more than one computed dim.

    A ``Reshape`` with both a 0 and a -1 does not run where the kept dim is empty; ONNX Runtime says so then.
    """

    name: ClassVar[str] = "fold-targets"
    ops: ClassVar[tuple[str, ...]] = ("Reshape", "Expand", "Slice", "Where")

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Rewrite one node."""
        {"Reshape": _reshape, "Expand": _expand, "Slice": _slice, "Where": _where}[node.op](work, owner, node)


def _reshape(work: Work, owner: Graph, node: Node) -> None:
    if len(node._inputs) < 2 or isinstance(node._inputs[1], Constant):
        return
    after, held = work.facts.shape(node._outputs[0]), work.facts.contents(node._inputs[1])
    target = reshape_target(work.facts.shape(node._inputs[0]), after)
    if target is None or after is None or held is None or any(i is None and d != -1 for i, d in zip(held.items, target)):
        return  # a size that only a declaration knows is no reason to stop computing it
    if node.attrs.get("allowzero", 0):
        node.attrs = {k: v for k, v in node.attrs.items() if k != "allowzero"}  # a 0 in the new target means "as before"
    work.report.rewrote(owner, node, f"to {target}")
    node._inputs[1] = work.int64(f"{node._outputs[0].name}_shape", target)


def _expand(work: Work, owner: Graph, node: Node) -> None:
    if isinstance(node._inputs[1], Constant):
        return
    before, after = work.facts.shape(node._inputs[0]), work.facts.shape(node._outputs[0])
    if before is None or after is None:
        return
    padded = (1,) * (len(after) - len(before)) + before
    target: list[int] = []
    for old, new in zip(padded, after):
        if isinstance(new, int):
            target.append(new)
        elif old == new:
            target.append(1)
        else:
            return
    work.report.rewrote(owner, node, f"to {target}")
    node._inputs[1] = work.int64(f"{node._outputs[0].name}_shape", target)


def _slice(work: Work, owner: Graph, node: Node) -> None:
    if "starts" in node.attrs or all(isinstance(t, Constant) for t in list(node._inputs)[1:]):
        return
    dims, parts = work.facts.shape(node._inputs[0]), slice_parts(work.facts, node)
    if dims is None or parts is None:
        return
    starts, ends, axes, steps = parts
    sizes = [dims[a % len(dims)] for a in axes]
    forward = all(type(s) is int and s > 0 for s in steps)
    found: dict[int, list[int] | None] = {
        1: _plain(starts) or (_marks(starts, sizes, is_end=False) if forward else None),
        2: _plain(ends) or (_marks(ends, sizes, is_end=True) if forward else None),
    }
    for at, values in found.items():
        t = node._inputs[at]
        if values is None or isinstance(t, Constant):
            continue
        dtype = work.facts.dtype(t)
        if dtype is None or dtype.kind != "int":
            continue
        limit = np.iinfo(dtype.numpy).max
        work.report.rewrote(owner, node, f"{('starts', 'ends')[at - 1]} {values}")
        array = np.array([min(v, limit) for v in values], dtype.numpy)
        node._inputs[at] = work.constant(f"{node._outputs[0].name}_{('starts', 'ends')[at - 1]}", array)


def _plain(items: Sequence[object]) -> list[int] | None:
    return list(items) if all(type(i) is int for i in items) else None  # type: ignore[arg-type]


def _marks(items: Sequence[object], sizes: list[Dim], *, is_end: bool) -> list[int] | None:
    """Spell starts or ends without computing: the far end for the size itself, -1 for the size less 1."""
    out: list[int] = []
    for item, size in zip(items, sizes):
        if type(item) is int:
            out.append(item)
        elif is_end and (item == size or clamped(item, size) == size):  # type: ignore[arg-type]
            out.append(np.iinfo(np.int64).max)
        elif isinstance(item, dim_expr.Expr) and item == size - 1:
            out.append(-1)
        else:
            return None
    return out


def _where(work: Work, owner: Graph, node: Node) -> None:
    held = work.facts.contents(node._inputs[0])
    if held is None or not held.items or not isinstance(held.items[0], bool) or any(i is not held.items[0] for i in held.items):
        return
    chosen: Tensor = node._inputs[1 if held.items[0] else 2]
    if work.facts.shape(chosen) is not None and work.facts.shape(chosen) == work.facts.shape(node._outputs[0]):
        work.bypass(owner, node, chosen, f"the condition is {held.items[0]} throughout")
