"""``Loop`` in its plainest form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import trip_counts
from onnx_gs.analysis.known_values import KnownValues
from onnx_gs.analysis.loops import ENDLESS, LoopParts, is_true, origin
from onnx_gs.ir import Constant, Node, Variable, edit, scopes, walk
from onnx_gs.passes.base import Pass
from onnx_gs.passes.loop_edits import drop_carried, drop_dead_nodes, drop_scans, droppable

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class NormalizeLoop(Pass):
    """Bring every ``Loop`` into its plainest form.

    Matches:   ``ai.onnx::Loop``.
    Rewrites:  the condition inside becomes a constant true, as a trip only runs while it is true; a body that passes its condition on returns a
               constant true; a trip count of INT64_MAX goes, a condition that is constant true goes where a trip count is given; a condition that
               only counts becomes a trip count; carried values that never change become captures, and their outputs the initial value; carried
               values and scan outputs that nothing needs go, and the nodes that only they needed.
    Requires:  as many body inputs and outputs as the node's own; unique names (done here).
    Declines:  the condition input is absent though the body computes one (ONNX ignores it, ONNX Runtime obeys it).
    TensorRT:  its parser does not know the condition inside where none is given.

    Before::                                                      After::
        y, v = Loop (m, "", x, w) <body = b (i, ci, s, q)             y = Loop (m, "", x) <body = b (i, ci, s)
            => (co, so, q2) { co = Identity (ci)                          => (co, so) <bool co = {1}> {
               so = Add (s, q)  q2 = Identity (q) }>                      so = Add (s, w) }>
    """

    name: ClassVar[str] = "normalize-loop"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for owner, node in walk.nodes(root, op="Loop"):
                    if not editor.is_removed(node):
                        _normalize(editor, owner, node, report)


def _normalize(editor: Editor, owner: Graph, node: Node, report: Report) -> None:
    loop = LoopParts(node)
    if not loop.well_formed:
        report.decline(owner, node, "the body has another number of inputs or outputs than the node")
        return
    if not loop.cond.name and not is_true(loop.cond_out) and origin(loop.cond_out) is not loop.cond_in:
        report.decline(owner, node, "the condition input is absent though the body computes one: ONNX ignores it, runtimes obey it")
        return
    done = [*_condition(editor, loop), *_limits(editor, loop)]
    done += _invariants(editor, loop)
    done += _dead(editor, loop)
    if done:
        report.rewrote(owner, node, ", ".join(dict.fromkeys(done)))
    if not node.outputs:
        editor.remove(owner, node)


def _condition(editor: Editor, loop: LoopParts) -> list[str]:
    done = []
    if origin(loop.cond_out) is loop.cond_in:
        _set_true(editor, loop)
        done.append("the condition is passed on: true inside")
    if loop.cond_in.outputs:
        true = _true_like(editor, loop.cond_in)
        editor.replace_uses(loop.cond_in, true)
        done.append("the condition is true inside")
    return done


def _true_like(editor: Editor, cond: Tensor) -> Constant:
    shape = [1] if cond.shape is not None and len(cond.shape) == 1 else []
    return Constant(editor.names.fresh("true"), np.ones(shape, np.bool_))


def _set_true(editor: Editor, loop: LoopParts) -> None:
    true = Constant(editor.names.fresh("go_on"), np.array(True))
    editor.set_outputs(loop.body, [true, *loop.body.outputs[1:]])


def _limits(editor: Editor, loop: LoopParts) -> list[str]:
    done = []
    known = KnownValues()
    if loop.trip.name and known.scalar(loop.trip) == ENDLESS and loop.cond.name:
        loop.node.inputs[0] = Variable.empty()
        done.append("no limit")
    constant = is_true(loop.cond_out)
    if not constant:
        count = trip_counts.of_loop(loop.node, known)
        if count.exact is not None:
            loop.node.inputs[0] = Constant(editor.names.fresh(f"{loop.node.name or 'loop'}_trips"), np.array(count.exact, np.int64))
            _set_true(editor, loop)
            constant = True
            done.append(f"{count.exact} trips, {count.why}")
            loop.node.inputs[1] = Variable.empty()
    if constant and loop.cond.name and loop.trip.name and is_true(loop.cond):
        loop.node.inputs[1] = Variable.empty()
        done.append("the condition is constant")
    if loop.cond.name and loop.trip.name and known.scalar(loop.cond) is False:
        zero = known.scalar(loop.trip)
        if zero != 0:
            loop.node.inputs[0] = Constant(editor.names.fresh(f"{loop.node.name or 'loop'}_trips"), np.array(0, np.int64))
            done.append("no trip, as the condition is false from the start")
    return done


def _invariants(editor: Editor, loop: LoopParts) -> list[str]:
    """Let carried values that never change be captures."""
    gone = droppable(editor, loop, [k for k in range(loop.carried) if origin(loop.state_out(k)) is loop.state_in(k)])
    if not gone:
        return []
    pairs = [(loop.state_in(k), loop.initial(k)) for k in gone]
    for k in gone:
        final = loop.final(k)
        if final.name:
            editor.replace_uses(final, loop.initial(k))
    drop_carried(editor, loop, gone)
    for inside, initial in pairs:
        editor.replace_uses(inside, initial)
    drop_dead_nodes(editor, loop.body)
    return [f"{len(gone)} carried values never change"]


def _dead(editor: Editor, loop: LoopParts) -> list[str]:
    """Drop carried values and scan outputs that nothing needs, with the nodes that only they needed."""
    scans = [j for j in range(loop.scans) if loop.scan(j).name and editor.is_used(loop.scan(j))]
    needed = {k for k in range(loop.carried) if loop.final(k).name and editor.is_used(loop.final(k))}
    body = loop.body
    all_nodes = editor.final_nodes(body)
    if len(needed) < loop.carried or len(scans) < loop.scans:
        needed = _closure(loop, all_nodes, needed, scans)
    lost = [k for k in range(loop.carried) if k not in needed]
    spare = set(lost) - set(droppable(editor, loop, lost))
    if spare:  # what stays although nobody needs it still needs what it reads
        needed = _closure(loop, all_nodes, needed | spare, scans)
        lost = [k for k in range(loop.carried) if k not in needed]
    unread = [j for j in range(loop.scans) if j not in set(scans)]
    if not lost and not unread:
        return []
    drop_scans(editor, loop, unread)
    drop_carried(editor, loop, lost)
    drop_dead_nodes(editor, body)
    return [f"{len(lost)} carried values and {len(unread)} scan outputs that nothing needs"]


def _closure(loop: LoopParts, nodes: list[Node], needed: set[int], scans: list[int]) -> set[int]:
    """Give the carried values that the condition, the outputs or other needed ones depend on."""
    captured = {id(n): [t for b in walk.bodies(n) for t in scopes.captures(b, constants=False)] for n in nodes if n.has_body}
    producer = {id(t): n for n in nodes for t in n.outputs}
    carried = {id(loop.state_in(k)): k for k in range(loop.carried)}
    found = set(needed)
    seen: set[int] = set()
    pending = [loop.cond_out, *(loop.state_out(k) for k in needed), *(loop.row(j) for j in scans)]
    while pending:
        t = pending.pop()
        if id(t) in seen:
            continue
        seen.add(id(t))
        k = carried.get(id(t))
        if k is not None and k not in found:
            found.add(k)
            pending.append(loop.state_out(k))
        node = producer.get(id(t))
        if node is not None:
            pending.extend(node.inputs)
            pending.extend(captured.get(id(node), ()))
    return found
