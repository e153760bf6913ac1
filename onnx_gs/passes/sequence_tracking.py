"""What every sequence of a model holds, found by looking through its graphs once, in order; nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.analysis import constness
from onnx_gs.analysis.loops import LoopParts
from onnx_gs.ir import Variable, walk
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ops import schema
from onnx_gs.passes.sequence_loops import Carried, FixedList, changes_by_trip, grown, packed
from onnx_gs.passes.sequence_values import Choice, Chunks, One, Segment, Seq, Stack, Undecided

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.passes.sequence_values import Workshop

#: Operators that make a sequence from tensors or sequences.
MAKERS = frozenset({"SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence"})
#: Operators that make a tensor from a sequence.
READERS = frozenset({"SequenceAt", "SequenceLength", "ConcatFromSequence"})


class Tracker:
    """What is known about sequences, by the id of the tensor that stands for one: a ``Seq``, or None where the elements cannot be told.

    Args:
        root: the model's graph, or a function.
        shop: for the names of what loops will carry.
    """

    def __init__(self, root: Graph, shop: Workshop) -> None:
        """Look through the whole graph."""
        self.known: dict[int, Seq | None] = {}
        self.reasons: dict[int, str] = {}
        self.fixed: dict[int, list[FixedList]] = {}
        self._kept: list[Tensor] = []
        self._root = root
        self._shop = shop
        self._dims = {d for t in root.inputs for d in (t.shape or ()) if isinstance(d, str) and d}
        for t in root.inputs:
            if isinstance(t, Variable) and t.type == "sequence_type":
                self._set(t, None, "it is an input of the model")
        self._look(root)

    def _set(self, tensor: Tensor, value: Seq | None, reason: str = "") -> None:
        self.known[id(tensor)] = value
        self._kept.append(tensor)
        if value is None:
            self.reasons[id(tensor)] = reason or "its elements are not known"
        else:
            self.reasons.pop(id(tensor), None)

    def holds(self, tensor: Tensor) -> bool:
        """Say whether a tensor stands for a sequence, as far as is known."""
        return id(tensor) in self.known

    def why_unknown(self, tensor: Tensor) -> str:
        """Say why the elements of a sequence are not known."""
        return self.reasons.get(id(tensor), "its elements are not known")

    def _look(self, graph: Graph) -> None:
        for node in graph.nodes:
            if not node.is_onnx:
                continue
            handler = _HANDLERS.get(node.op)
            if handler is not None:
                handler(self, graph, node)
            elif node.op == "If":
                self._if(graph, node)
            elif node.op == "Loop":
                self._loop(graph, node)
            elif node.op == "Identity" and self.holds(node.inputs[0]):
                self._set(node.outputs[0], self.known[id(node.inputs[0])], self.why_unknown(node.inputs[0]))
            elif node._attrs:
                for body in walk.bodies(node):
                    self._look(body)
                if node.op == "SequenceMap":
                    for t in node.outputs:
                        self._set(t, None, "a SequenceMap stands in the way")

    # -- makers -----------------------------------------------------------------------------------

    def _empty(self, graph: Graph, node: Node) -> None:
        self._set(node.outputs[0], Seq([], (graph, node)))

    def _construct(self, graph: Graph, node: Node) -> None:
        home = (graph, node)
        self._set(node.outputs[0], Seq([One(t, home, at) for at, t in enumerate(node.inputs)], home))

    def _insert(self, graph: Graph, node: Node) -> None:
        home = (graph, node)
        self._change(graph, node, 2, lambda seq, position: seq.insert(One(node.inputs[1], home, 1), position, home))

    def _erase(self, graph: Graph, node: Node) -> None:
        self._change(graph, node, 1, lambda seq, position: seq.erase(position, (graph, node)))

    def _change(self, graph: Graph, node: Node, at: int, change: Callable[[Seq, int | None], Seq]) -> None:
        before = self.known.get(id(node.inputs[0]))
        out = node.outputs[0]
        if before is None:
            self._set(out, None, self.why_unknown(node.inputs[0]))
            return
        position = None
        if len(node.inputs) > at and node.inputs[at].name:
            position = constness.scalar(node.inputs[at])
            if position is None:
                self._set(out, None, f"the position of a {node.op} is computed at run time")
                return
        try:
            self._set(out, change(before, position))
        except Undecided as why:
            self._set(out, None, str(why))

    def _split(self, graph: Graph, node: Node) -> None:
        home = (graph, node)
        source, out = node.inputs[0], node.outputs[0]
        axis = int(schema.attribute(graph, node, "axis") or 0)
        dim = None
        if source.shape is not None and -len(source.shape) <= axis < len(source.shape):
            axis %= len(source.shape)
            dim = int(source.shape[axis]) if is_static_dim(source.shape[axis]) else None
        given = node.inputs[1] if len(node.inputs) > 1 and node.inputs[1].name else None
        if given is None and not schema.attribute(graph, node, "keepdims"):
            element = None if source.shape is None else [d for k, d in enumerate(source.shape) if k != axis]
            self._set(out, Seq([Stack(lambda _: node.inputs[0], axis, dim, (source.dtype, element), home)], home))
            return
        sizes = constness.array(given) if given is not None else None
        if given is None or (sizes is not None and sizes.ndim == 0):
            size = 1 if sizes is None else int(sizes)
            if size <= 0:
                self._set(out, None, f"runs of {size} elements")
                return
            runs = None if dim is None else [size] * (dim // size) + ([dim % size] if dim % size else [])
            self._set(out, Seq([Chunks(graph, node, axis, sizes=runs, size=size)], home))
        elif sizes is not None:
            self._set(out, Seq([Chunks(graph, node, axis, sizes=[int(s) for s in sizes])], home))
        elif given.shape is not None and len(given.shape) == 1 and is_static_dim(given.shape[0]):
            self._set(out, Seq([Chunks(graph, node, axis, length=int(given.shape[0]))], home))
        else:
            self._set(out, None, "the sizes of a SplitToSequence are computed at run time")

    # -- control flow -----------------------------------------------------------------------------

    def _if(self, graph: Graph, node: Node) -> None:
        branches = [node.attrs["then_branch"], node.attrs["else_branch"]]
        for branch in branches:
            self._look(branch)
        for k, out in enumerate(node.outputs):
            ends = [branch.outputs[k] for branch in branches if k < len(branch.outputs)]
            if not any(self.holds(t) for t in ends):
                continue
            found = [self.known.get(id(t)) for t in ends]
            if len(found) < len(branches) or found[0] is None or found[1] is None:
                blocked = next((t for t, seq in zip(ends, found) if seq is None), ends[0])
                self._set(out, None, self.why_unknown(blocked))
            else:
                self._set(out, _choose(node, (graph, node), found[0], found[1]))

    def _loop(self, graph: Graph, node: Node) -> None:
        parts = LoopParts(node)
        self.fixed.pop(id(node), None)
        if not parts.well_formed:
            return
        home = (graph, node)
        lists = [k for k in range(parts.carried) if self.holds(parts.initial(k)) or _is_sequence(parts.state_in(k))]
        if not lists:
            self._look(parts.body)
            return
        states = {k: _State(self, parts, k, home) for k in lists}
        while True:
            for state in states.values():
                self._set(parts.state_in(state.index), state.inside(), state.reason)
            self._look(parts.body)
            moved = [state.judge() for state in states.values()]
            if not any(moved):
                break
        for k, state in states.items():
            self._set(parts.final(k), state.outside(), state.reason)
        fixed = [s.fixed for s in states.values() if s.fixed is not None and s.mode == "fixed"]
        if fixed:
            self.fixed[id(node)] = fixed

    def reads_inside(self, body: Graph, carried: Carried) -> str | None:
        """Say why a list that grows is read inside the loop in a way that has no answer; None where it is not, or every read has one."""
        for _, node in walk.nodes(body):
            if not node.is_onnx or node.op in MAKERS or node.op == "Identity":
                continue
            for t in node.inputs:
                seq = self.known.get(id(t))
                if seq is None or not seq.holds(carried):
                    continue
                if node.op == "If" or (node.op == "Loop" and t is not node.inputs[0]):
                    continue
                if node.op == "SequenceLength" and carried.can_tell(None):
                    continue
                if node.op == "SequenceAt" and _answers(seq, carried, constness.scalar(node.inputs[1])):
                    continue
                return f"a {node.op} reads the list inside the loop that grows it"
        return None


def _answers(seq: Seq, carried: Carried, position: int | None) -> bool:
    """Say whether reading one position of a list, which begins or ends with what the loop carries, has an answer."""
    if position is None:
        return False
    left = position if position >= 0 else -position - 1
    for s in seq.segments if position >= 0 else seq.segments[::-1]:
        if s is carried:
            return carried.can_tell(left if position >= 0 else -1 - left)
        if s.length is None or s.holds(carried):
            return False
        if left < s.length:
            return True
        left -= s.length
    return False


def _is_sequence(tensor: Tensor) -> bool:
    return isinstance(tensor, Variable) and tensor.type == "sequence_type"


def _choose(node: Node, home: tuple[Graph, Node], then: Seq, otherwise: Seq) -> Seq:
    """Join the branches' sequences: what both begin or end with came from outside and is no choice."""
    a, b = list(then.segments), list(otherwise.segments)
    head: list[Segment] = []
    while a and b and a[0] is b[0]:
        head.append(a.pop(0))
        b.pop(0)
    tail: list[Segment] = []
    while a and b and a[-1] is b[-1]:
        tail.append(a.pop())
        b.pop()
    middle: list[Segment] = [Choice(node, home, Seq(a, then.home), Seq(b, otherwise.home))] if a or b else []
    return Seq([*head, *middle, *tail[::-1]], home)


class _State:
    """One sequence state of a loop, with the present guess at how it behaves: ``carried``, ``same``, ``grows``, ``fixed`` or ``unknown``."""

    def __init__(self, tracker: Tracker, parts: LoopParts, index: int, home: tuple[Graph, Node]) -> None:
        self.tracker, self.parts, self.index, self.home = tracker, parts, index, home
        self.initial = tracker.known.get(id(parts.initial(index)))
        self.reason = "" if self.initial is not None else tracker.why_unknown(parts.initial(index))
        self.mode = "carried" if self.initial is not None else "unknown"
        self.fixed: FixedList | None = None
        self.result: Seq | None = None
        self.carried: Carried | None = None
        if self.initial is not None:
            formal = parts.state_in(index)
            leaf = formal.value_type.leaf() if isinstance(formal, Variable) and formal.type == "sequence_type" else None
            self.carried = Carried(parts, (parts.body, None), self.initial, (None, None) if leaf is None else (leaf.dtype, leaf.shape))

    def inside(self) -> Seq | None:
        if self.mode in {"carried", "grows"} and self.carried is not None:
            return Seq([self.carried], (self.parts.body, None))
        if self.mode == "same":
            return self.initial
        return self.fixed.inner if self.mode == "fixed" and self.fixed is not None else None

    def outside(self) -> Seq | None:
        if self.mode == "same":
            return self.initial
        if self.mode == "fixed" and self.fixed is not None:
            return self.fixed.outer
        return self.result if self.mode == "grows" else None

    def judge(self) -> bool:
        """Compare the guess with what the body made of it; say whether the guess changed, so that the body is to be looked at again."""
        before = self.mode
        end = self.tracker.known.get(id(self.parts.state_out(self.index)))
        if before == "carried":
            self._judge_carried(end)
        elif before == "fixed" and self.fixed is not None:
            if end is None or end.length != self.initial_length() or not self.tracker.holds(self.parts.state_out(self.index)):
                self._give_up("the length of the list that the loop carries changes by the trip")
            else:
                self.fixed.after_trip = end
        elif before == "grows":
            self._judge_growth(end)
        return self.mode != before

    def initial_length(self) -> int | None:
        return None if self.initial is None else self.initial.length

    def _judge_carried(self, end: Seq | None) -> None:
        assert self.carried is not None
        places = [] if end is None else [k for k, s in enumerate(end.segments) if s is self.carried]
        if end is not None and len(places) == 1 and len(end.segments) == 1:
            self.mode = "same"
        elif end is not None and len(places) == 1 and not any(s.holds(self.carried) for k, s in enumerate(end.segments) if k != places[0]):
            self.mode = "grows"
            self.carried.grows(Seq(end.segments[: places[0]], end.home), Seq(end.segments[places[0] + 1 :], end.home))
        else:
            blocked = self.tracker.why_unknown(self.parts.state_out(self.index))
            self._try_fixed(blocked if end is None else "the loop does more to the list than add to it")

    def _judge_growth(self, end: Seq | None) -> None:
        carried = self.carried
        assert carried is not None and carried.before is not None and carried.after is not None and self.initial is not None  # noqa: PT018
        at = next((k for k, s in enumerate(end.segments) if s is carried), None) if end is not None else None
        if end is None or at is None:  # another list that the body reads is no longer known
            self._try_fixed(self.tracker.why_unknown(self.parts.state_out(self.index)))
            return
        before, after = Seq(end.segments[:at], end.home), Seq(end.segments[at + 1 :], end.home)
        carried.grows(before, after)
        why = self.tracker.reads_inside(self.parts.body, carried)
        for pieces in (before, after):
            if pieces.segments and why is None:
                foreign = any(isinstance(s, Carried) for s in pieces.segments)
                why = "the list grows by another list that the loop carries" if foreign else changes_by_trip(pieces, self.tracker._dims)
        if why is not None:
            reads = self.tracker.reads_inside(self.parts.body, carried)
            whole = packed(self.parts, self.initial, after, self.home) if reads is None and not before.segments else None
            if whole is None:
                self._try_fixed(why)
            else:
                self.result = Seq([whole], self.home)
            return
        segments: list[Segment] = [*self.initial.segments]
        if before.segments:
            segments.insert(0, grown(self.parts, before, self.home, backward=True))
        if after.segments:
            segments.append(grown(self.parts, after, self.home, backward=False))
        self.result = Seq(segments, self.home)

    def _try_fixed(self, reason: str) -> None:
        self.reason = reason
        assert self.initial is not None
        try:
            self.fixed = FixedList(self.tracker._shop, self.parts, self.index, self.initial, self.home)
            self.mode = "fixed"
        except Undecided:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        self.fixed = None
        self.mode = "unknown"
        self.reason = self.reason or reason


_HANDLERS: dict[str, Callable[[Tracker, Graph, Node], None]] = {
    "SequenceEmpty": Tracker._empty,
    "SequenceConstruct": Tracker._construct,
    "SequenceInsert": Tracker._insert,
    "SequenceErase": Tracker._erase,
    "SplitToSequence": Tracker._split,
}
