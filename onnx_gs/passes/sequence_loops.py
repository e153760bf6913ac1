"""Sequences that loops carry: lists that grow by the trip become scan outputs, lists of a fixed length one tensor a position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.analysis.loops import LoopParts, is_true, origin
from onnx_gs.ir import Tensor, Variable, dtypes
from onnx_gs.ir.shapes import is_static_dim, same_shape
from onnx_gs.passes.sequence_values import Choice, One, Segment, Seq, Stack, Undecided, merge_axes

if TYPE_CHECKING:
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.passes.sequence_values import ElementType, Home, Workshop

#: Lists of more positions than this are not carried as one tensor a position.
MOST_POSITIONS = 64


def add_state(shop: Workshop, parts: LoopParts, initial: Tensor, formal: Variable, after_trip: Tensor, final: Variable) -> None:
    """Let a loop carry one more tensor; the parts are new objects that nothing else lists.

    Args:
        shop: makes and places nodes.
        parts: the loop.
        initial: what it starts as, outside.
        formal: what it is during a trip.
        after_trip: what the body makes of it.
        final: what it is after the loop.
    """
    at = parts.carried
    parts.node.inputs.append(initial)
    parts.node.outputs.insert(at, final)
    shop.edit.set_inputs(parts.body, [*parts.body.inputs, formal])
    shop.give(parts.body, after_trip)
    outputs = list(parts.body.outputs)
    outputs.insert(1 + at, outputs.pop())
    shop.edit.set_outputs(parts.body, outputs)


class Carried(Segment):
    """What a sequence state holds when a trip begins, while the loop that carries it is looked at.

    Once it is known how the loop grows the list, a few reads of it inside have an answer: its length, the elements that it started with, and
    the last one.
    """

    def __init__(self, parts: LoopParts, home: Home, initial: Seq, element: ElementType) -> None:
        """Make one for a state that starts as ``initial``."""
        self.parts = parts
        self.home = home
        self.initial = initial
        self._element = element
        self.before: Seq | None = None
        self.after: Seq | None = None
        self._last: Variable | None = None
        self._count: Tensor | None = None

    def grows(self, before: Seq, after: Seq) -> None:
        """Note what each trip puts before and after the list."""
        self.before, self.after = before, after
        self.at_least = (self.initial.length or 0) if not before.segments else 0

    def can_tell(self, position: int | None) -> bool:
        """Say whether a read at a known position, or of the length where that is None, has an answer inside the loop."""
        if self.before is None or self.after is None:
            return False
        if position is None:
            return self.before.length is not None and self.after.length is not None
        if position >= 0:
            return position < self.at_least
        tail = self.after.segments[-1:]
        return position == -1 and bool(tail) and isinstance(tail[0], One) and bool(self.initial.length)

    def element(self, shop: Workshop, index: int) -> Tensor:
        """Give an element that the list started with, or the last one, which the loop then carries as a tensor."""
        if not self.can_tell(index):
            raise Undecided("the list is read inside the loop that grows it")
        if index >= 0:
            return self.initial.element(shop, index)
        if self._last is None:
            assert self.after is not None
            following = self.after.segments[-1].element(shop, -1)
            initial = self.initial.element(shop, -1)
            if dtypes.of(initial) is None and dtypes.of(following) is None:
                raise Undecided("the element type of the list is not known")
            dtype = initial.dtype if initial.dtype is not None else following.dtype
            shape = list(initial.shape) if same_shape(initial.shape, following.shape) else None
            wish = self.parts.node.name or "loop"
            self._last = Variable(shop.edit.names.fresh(f"{wish}_last_in"), dtype, shape)
            add_state(shop, self.parts, initial, self._last, following, Variable(shop.edit.names.fresh(f"{wish}_last"), dtype, shape))
        return shop.edit.current(self._last)

    def rows(self, shop: Workshop) -> Tensor:
        """Refuse."""
        raise Undecided("the list is read inside the loop that grows it")

    def joined(self, shop: Workshop, axis: int, new_axis: bool) -> Tensor:
        """Refuse."""
        raise Undecided("the list is read inside the loop that grows it")

    def count(self, shop: Workshop) -> Tensor:
        """Give the initial length plus what the trips so far added."""
        if not self.can_tell(None):
            raise Undecided("the list is read inside the loop that grows it")
        if self._count is None:
            assert self.before is not None
            assert self.after is not None
            each = (self.before.length or 0) + (self.after.length or 0)
            start = self.initial.count(shop)
            emit = shop.emitter("length")
            trips = self.parts.iteration
            scalar = trips if trips.shape is not None and len(trips.shape) == 0 else emit.reshape(trips, emit.constant(np.zeros(0, np.int64)), [])
            grown = emit.elementwise("Mul", scalar, emit.constant(np.int64(each)))
            self._count = emit.elementwise("Add", start, grown)
            shop.edit.insert_first(self.parts.body, emit.nodes)
            shop.made.extend((self.parts.body, n) for n in emit.nodes)
        return shop.edit.current(self._count)

    def element_type(self) -> ElementType:
        """Give what the loop's input says."""
        return self._element


def grown(parts: LoopParts, pieces: Seq, home: Home, *, backward: bool) -> Stack:
    """Give what all trips together add to a list: a scan output, in order of the trips or against it.

    Args:
        parts: the loop.
        pieces: what one trip adds.
        home: the loop's place.
        backward: each trip adds in front of what the earlier ones added.
    """
    dtype, shape = pieces.element_type()
    collected: list[Tensor] = []

    def collect(shop: Workshop) -> Tensor:
        if not collected:
            collected.append(make(shop))
        return collected[0]

    def make(shop: Workshop) -> Tensor:
        single = len(pieces.segments) == 1 and isinstance(pieces.segments[0], One)
        row = pieces.segments[0].element(shop, 0) if single else pieces.rows(shop)
        shop.give(parts.body, row)
        wish = f"{parts.node.name or 'loop'}_rows"
        dims = None if row.shape is None else [None, *row.shape]
        made: Tensor = Variable(shop.edit.names.fresh(wish), row.dtype, dims)
        parts.node.outputs.append(made)
        emit = shop.emitter(wish)
        if backward:
            made = emit.reverse(made, 0)
        if not single:
            made = merge_axes(emit, made, 0)
        shop.after(home, emit)
        return made

    stack = Stack(collect, 0, None, (dtype, shape), home)
    stack.trips = parts.trip if _always_goes_on(parts) else None
    return stack


def packed(parts: LoopParts, initial: Seq, pieces: Seq, home: Home) -> Stack | None:
    """Give a list to which some trips append and others do not: the filled front of a buffer that the loop carries; None where that cannot be.

    How much is filled depends on data. TensorRT takes a size that a loop gives, so this builds while the loop stays a loop.

    Args:
        parts: the loop; its trip count is a constant, which bounds the length.
        initial: what the list starts as.
        pieces: what one trip appends: one element, or none.
        home: the loop's place.
    """
    choice = pieces.segments[0] if len(pieces.segments) == 1 else None
    trips = constness.scalar(parts.trip) if parts.trip.name else None
    if not isinstance(choice, Choice) or {choice.then.length, choice.otherwise.length} != {0, 1}:
        return None
    dtype, shape = (choice.then if choice.then.length else choice.otherwise).element_type()
    known = dtypes.find(dtype)
    if known is None or known.kind == "string" or shape is None or not all(map(is_static_dim, shape)):
        return None
    if trips is None or initial.length is None or (initial.length and not same_shape(initial.element_type()[1], shape)):
        return None
    row = [int(d) for d in shape]
    size = initial.length + max(int(trips), 0)
    if size == 0 or size * max(int(np.prod(row)), 1) * trips > _MOST_MOVED:
        return None
    collected: list[Tensor] = []

    def collect(shop: Workshop) -> Tensor:
        if not collected:
            collected.append(_buffer(shop, parts, initial, choice, known, row, size, home))
        return collected[0]

    return Stack(collect, 0, None, (dtype, shape), home)


_MOST_MOVED = 1 << 24


def _buffer(
    shop: Workshop, parts: LoopParts, initial: Seq, choice: Choice, dtype: DataType, row: list[int], size: int, home: Home
) -> Tensor:
    """Let the loop carry a buffer and how much of it is filled; give the filled front."""
    wish = f"{parts.node.name or 'loop'}_list"
    outside = shop.emitter(wish)
    start: Tensor = outside.constant(np.zeros((size - (initial.length or 0), *row), dtype.numpy))
    if initial.length:
        start = outside.concat([initial.rows(shop), start], 0)
    shop.after(initial.home, outside)
    inner = shop.emitter(wish)
    element = choice.row_or(shop, inner.constant(np.zeros(row, dtype.numpy)))
    added = choice.count(shop)
    buffer = Variable(shop.edit.names.fresh(f"{wish}_in"), dtype.public, [size, *row])
    filled = Variable(shop.edit.names.fresh(f"{wish}_filled_in"), np.int64, [])
    here = inner.elementwise("Equal", inner.constant(np.arange(size, dtype=np.int64)), filled, dtype=np.bool_)
    hit = inner.elementwise("And", here, inner.cast(added, dtypes.BOOL))
    kept = inner.op("Where", inner.reshape(hit, [size, *([1] * len(row))]), element, buffer, dtype=dtype, shape=[size, *row])
    count = inner.elementwise("Add", filled, added)
    shop.edit.append(parts.body, inner.nodes)
    shop.made.extend((parts.body, n) for n in inner.nodes)
    final = Variable(shop.edit.names.fresh(wish), dtype.public, [size, *row])
    total = Variable(shop.edit.names.fresh(f"{wish}_filled"), np.int64, [])
    add_state(shop, parts, start, buffer, kept, final)
    add_state(shop, parts, outside.constant(np.int64(initial.length or 0)), filled, count, total)
    end = shop.emitter(wish)
    made = end.slice(final, end.constant(np.zeros(1, np.int64)), end.reshape(total, [1]), 0)
    shop.after(home, end)
    return made


def _always_goes_on(parts: LoopParts) -> bool:
    given = parts.cond.is_empty() or is_true(parts.cond)
    end = origin(parts.cond_out)
    return given and (end is parts.cond_in or is_true(end))


def changes_by_trip(pieces: Seq, names: set[str]) -> str | None:
    """Say why what a trip adds may have another shape on another trip; None where it always has the same.

    Args:
        pieces: what one trip adds.
        names: the symbolic dims of the model's inputs, which are the same throughout a run.
    """
    if any(isinstance(s, Choice) and s.length is None for s in pieces.segments):
        return "some trips append to the list and others do not"
    _, shape = pieces.element_type()
    if shape is None or not all(is_static_dim(d) or (isinstance(d, str) and d in names) for d in shape):
        return "the shape of what a trip appends is not known to be the same on every trip"
    for s in pieces.segments:
        if s.length is None:
            trips = s.trips if isinstance(s, Stack) else None
            if trips is None or constness.scalar(trips) is None:
                return "how much a trip appends is not known to be the same on every trip"
    return None


class FixedList:
    """A sequence state whose length never changes: one carried tensor a position."""

    def __init__(self, shop: Workshop, parts: LoopParts, state: int, initial: Seq, home: Home) -> None:
        """Make the formal inputs; the loop stays as it is until ``convert``.

        Raises:
            Undecided: too many positions, or an element type is not known.
        """
        count = initial.length
        if count is None or count > MOST_POSITIONS:
            raise Undecided("the list that the loop carries has no known, small length")
        declared = parts.state_in(state)
        known = declared.value_type.leaf().dtype if isinstance(declared, Variable) and declared.type == "sequence_type" else None
        self.parts, self.initial = parts, initial
        pieces = initial.parts()
        types = [p.element_type() for p in pieces]
        found: list[Any] = [dtype if dtype is not None else known for dtype, _ in types]
        if any(dtypes.find(d) is None for d in found):
            raise Undecided("the element type of the list that the loop carries is not known")
        wish = f"{parts.node.name or 'loop'}_item"
        self.inside = [Variable(shop.edit.names.fresh(f"{wish}_in"), d, None) for d in found]
        self.outside = [Variable(shop.edit.names.fresh(wish), d, None) for d in found]
        self.inner = Seq([One(t, (parts.body, None)) for t in self.inside], (parts.body, None))
        self.outer = Seq([One(t, home) for t in self.outside], home)
        self.after_trip: Seq | None = None

    def convert(self, shop: Workshop) -> None:
        """Let the loop carry the elements."""
        assert self.after_trip is not None
        for k, (formal, final) in enumerate(zip(self.inside, self.outside)):
            add_state(shop, self.parts, self.initial.element(shop, k), formal, self.after_trip.element(shop, k), final)
