"""Sequences known at compile time: what a list holds, piece by piece, and the tensors that reading it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import Tensor, Variable, dtypes
from onnx_gs.ir.shapes import is_static, is_static_dim, same_shape
from onnx_gs.passes.emitter import Emitter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.edit import Editor


class Undecided(Exception):  # noqa: N818 - a reason to decline, not an error of the user's
    """A question about a sequence that cannot be answered at compile time; the text is the reason that is reported."""


class Workshop:
    """Where a pass over sequences makes its nodes.

    Args:
        edit: the editor of the model.
        opset: version of ONNX's own operators.
    """

    def __init__(self, edit: Editor, opset: int) -> None:
        """Start with nothing made."""
        self.edit = edit
        self.opset = opset
        self.made: list[tuple[Graph, Node]] = []

    def emitter(self, wish: str) -> Emitter:
        """Give an emitter for nodes that the caller places."""
        return Emitter(self.edit.names, self.opset, wish)

    def after(self, home: Home, emit: Emitter) -> None:
        """Place an emitter's nodes right after a home's node, or at the start of a body."""
        graph, node = home
        if node is None:
            self.edit.insert_first(graph, emit.nodes)
        else:
            self.edit.insert_after(graph, node, emit.nodes)
        self.made.extend((graph, n) for n in emit.nodes)
        emit.nodes = []

    def give(self, body: Graph, value: Tensor) -> None:
        """Let a body return one more tensor, through an ``Identity`` where the tensor is not the body's own or is returned already."""
        own = self.edit.home(value) is body and not any(t is value for t in body.inputs)
        if not own or any(t is value for t in body.outputs):
            emit = self.emitter(value.name)
            value = emit.identity(value)
            self.edit.append(body, emit.nodes)
        self.edit.set_outputs(body, [*body.outputs, value])


Home = tuple["Graph", "Node | None"]
ElementType = tuple[Any, "Sequence[Any] | None"]


class Segment:
    """A run of elements of a sequence; subclasses say where they are.

    Attributes:
        home: the graph and the node after which the elements are at hand; a None node means the start of that graph.
        length: how many elements, None where only the run tells.
        at_least: how many there surely are, where the length is not known.
    """

    length: int | None = None
    at_least: int = 0
    home: Home

    def element(self, shop: Workshop, index: int) -> Tensor:
        """Give an element by its position, counted from the end where it is negative."""
        raise NotImplementedError

    def rows(self, shop: Workshop) -> Tensor:
        """Give all elements, which have one shape, along a new leading axis."""
        raise NotImplementedError

    def joined(self, shop: Workshop, axis: int, new_axis: bool) -> Tensor:
        """Give the elements joined as ``ConcatFromSequence`` joins them."""
        raise NotImplementedError

    def count(self, shop: Workshop) -> Tensor:
        """Give the number of elements as an int64 scalar."""
        raise NotImplementedError

    def element_type(self) -> ElementType:
        """Give the elements' dtype and shape; None where unknown or not the same for all."""
        raise NotImplementedError

    def holds(self, other: Segment) -> bool:
        """Say whether a segment is this one or part of it."""
        return other is self


class One(Segment):
    """A single element that is a tensor of the graph."""

    length = 1

    def __init__(self, tensor: Tensor, home: Home, at: int | None = None) -> None:
        """Keep the tensor; with ``at``, it is whatever the home's node reads there when it is asked for, as rewrites may replace it."""
        self._tensor = tensor
        self.home = home
        self._at = at
        self._row: Tensor | None = None

    @property
    def tensor(self) -> Tensor:
        """The element."""
        node = self.home[1]
        return self._tensor if self._at is None or node is None else node.inputs[self._at]

    def element(self, shop: Workshop, index: int) -> Tensor:
        """Give the tensor."""
        return shop.edit.current(self.tensor)

    def rows(self, shop: Workshop) -> Tensor:
        """Give the tensor with a leading axis of 1."""
        if self._row is None:
            tensor = self.element(shop, 0)
            emit = shop.emitter(tensor.name)
            self._row = emit.unsqueeze(tensor, [0])
            shop.after(self.home, emit)
        return shop.edit.current(self._row)

    def joined(self, shop: Workshop, axis: int, new_axis: bool) -> Tensor:
        """Give the tensor, with a new axis where one is wanted."""
        tensor = self.element(shop, 0)
        if not new_axis:
            return tensor
        emit = shop.emitter(tensor.name)
        made = emit.unsqueeze(tensor, [axis])
        shop.after(self.home, emit)
        return made

    def count(self, shop: Workshop) -> Tensor:
        """Give 1."""
        return shop.emitter("sequence").constant(np.int64(1))

    def element_type(self) -> ElementType:
        """Give the tensor's."""
        return self.tensor.dtype, self.tensor.shape


class Part(One):
    """One element of a longer segment, taken out when it is needed."""

    def __init__(self, source: Segment, index: int) -> None:
        """Keep the place."""
        self.source = source
        self.index = index
        self.home = source.home
        self._row = None

    def element(self, shop: Workshop, index: int) -> Tensor:
        """Take the element out of its segment."""
        return self.source.element(shop, self.index)

    def element_type(self) -> ElementType:
        """Give the segment's."""
        return self.source.element_type()

    def holds(self, other: Segment) -> bool:
        """Look into the segment."""
        return other is self or self.source.holds(other)


class Stack(Segment):
    """Elements that are the slices of one tensor along an axis, without that axis."""

    def __init__(self, source: Callable[[Workshop], Tensor], axis: int, length: int | None, element: ElementType, home: Home) -> None:
        """Keep where the slices are; ``source`` makes or gives the tensor."""
        self.trips: Tensor | None = None  # of a scan output: the trip count that alone decides the length
        self._source = source
        self.axis = axis
        self.length = length
        self._element = element
        self.home = home
        self._taken: dict[int, Tensor] = {}

    def tensor(self, shop: Workshop) -> Tensor:
        """Give the tensor that holds the slices."""
        return shop.edit.current(self._source(shop))

    def element(self, shop: Workshop, index: int) -> Tensor:
        """Give ``Gather`` at a scalar position."""
        if index not in self._taken:
            source = self.tensor(shop)
            emit = shop.emitter(source.name)
            self._taken[index] = emit.gather(source, emit.constant(np.int64(index)), self.axis)
            shop.after(self.home, emit)
        return shop.edit.current(self._taken[index])

    def rows(self, shop: Workshop) -> Tensor:
        """Give the tensor, its axis moved to the front."""
        return self.joined(shop, 0, new_axis=True)

    def joined(self, shop: Workshop, axis: int, new_axis: bool) -> Tensor:
        """Move the axis to where it is wanted, and merge it with the axis there unless it is to be a new one."""
        source = self.tensor(shop)
        at, target = self.axis, axis
        if at < 0 or target < 0 or at != target:
            rank = len(self._element[1]) + 1 if self._element[1] is not None else len(source.shape) if source.shape is not None else None
            if rank is None:
                raise Undecided("the rank of the sequence's elements is not known")
            at, target = at % rank, target % (rank if new_axis else rank - 1)
        emit = shop.emitter(source.name)
        made = emit.transpose(source, moved(len(source.shape), at, target)) if at != target else source
        if not new_axis:
            made = merge_axes(emit, made, target)
        shop.after(self.home, emit)
        return made

    def count(self, shop: Workshop) -> Tensor:
        """Give the size of the axis."""
        if self.length is not None:
            return shop.emitter("sequence").constant(np.int64(self.length))
        source = self.tensor(shop)
        emit = shop.emitter(f"{source.name}_count")
        made = emit.op("Gather", emit.shape_of(source), emit.constant(np.int64(self.axis)), dtype=np.int64, shape=[], axis=0)
        shop.after(self.home, emit)
        return made

    def element_type(self) -> ElementType:
        """Give the slices'."""
        return self._element


class Chunks(Segment):
    """Elements that are runs of one tensor along an axis, which they keep: what ``SplitToSequence`` makes.

    Args:
        node: the node that splits; its first input is the tensor.
        axis: the axis.
        sizes: the runs' lengths, where all are known.
        size: the length of every run but the last, where the number of runs is not known.
        length: the number of runs.
        owner: the graph that holds the node.
    """

    def __init__(
        self, owner: Graph, node: Node, axis: int, *, sizes: Sequence[int] | None = None, size: int | None = None, length: int | None = None
    ) -> None:
        """Keep where the runs are."""
        self.node, self.axis = node, axis
        self.home = (owner, node)
        self.sizes, self.size = sizes, size
        self.length = len(sizes) if sizes is not None else length
        self._parts: list[Variable] | None = None
        self._taken: dict[int, Tensor] = {}
        self._rows: Tensor | None = None
        self._widened: Tensor | None = None

    @property
    def source(self) -> Tensor:
        """The tensor that is split."""
        return self.node.inputs[0]

    def element(self, shop: Workshop, index: int) -> Tensor:
        """Give an output of one ``Split``, or a ``Slice`` where the number of runs is not known."""
        if self.length is not None:
            if self._parts is None:
                emit = shop.emitter(self.source.name)
                sizes: Any = self.sizes if self.sizes is not None else self.node.inputs[1]
                self._parts = emit.split(self.source, sizes, self.axis, self.length)
                shop.after(self.home, emit)
            return shop.edit.current(self._parts[index])
        if index not in self._taken:
            self._taken[index] = self._run(shop, index)
        return shop.edit.current(self._taken[index])

    def _run(self, shop: Workshop, index: int) -> Tensor:
        emit = shop.emitter(self.source.name)
        if self.size == 1:
            made = emit.gather(self.source, emit.constant(np.asarray([index], np.int64)), self.axis)
        elif self.size is None or index < 0:
            raise Undecided("a position counted from the end of a list of runs, whose number is not known")
        else:
            made = emit.slice(self.source, index * self.size, (index + 1) * self.size, self.axis)
        shop.after(self.home, emit)
        return made

    def rows(self, shop: Workshop) -> Tensor:
        """Give the runs along a new leading axis."""
        if self._rows is None:
            self._rows = self._make_rows(shop)
        return shop.edit.current(self._rows)

    def _make_rows(self, shop: Workshop) -> Tensor:
        if self.size == 1 and self.axis >= 0:
            return self.stacked(shop).rows(shop)
        if self.length is None:
            raise Undecided("the sequence is a list of runs whose number is not known")
        parts = [self.element(shop, k) for k in range(self.length)]
        emit = shop.emitter(self.source.name)
        made = emit.concat([emit.unsqueeze(t, [0]) for t in parts], 0)
        shop.after(self.home, emit)
        return made

    def stacked(self, shop: Workshop) -> Stack:
        """Give the runs of length 1 as slices: of the tensor with a further axis of 1, which they keep."""

        def widened(shop: Workshop) -> Tensor:
            if self._widened is None:
                emit = shop.emitter(self.source.name)
                self._widened = emit.unsqueeze(self.source, [self.axis + 1])
                shop.after(self.home, emit)
            return self._widened

        return Stack(widened, self.axis, self.length, self.element_type(), self.home)

    def joined(self, shop: Workshop, axis: int, new_axis: bool) -> Tensor:
        """Give the tensor itself where the runs are joined as they were."""
        if not new_axis and self._is_same_axis(axis):
            return self.source
        if self.length is not None:
            emit = shop.emitter(self.source.name)
            parts: list[Tensor] = [self.element(shop, k) for k in range(self.length)]
            made = emit.concat([emit.unsqueeze(t, [axis]) for t in parts] if new_axis else parts, axis)
            shop.after(self.home, emit)
            return made
        if self.size == 1 and self.axis >= 0:
            return self.stacked(shop).joined(shop, axis, new_axis)
        raise Undecided("the sequence is a list of runs whose number is not known, joined along another axis")

    def _is_same_axis(self, axis: int) -> bool:
        if axis == self.axis:
            return True
        rank = None if self.source.shape is None else len(self.source.shape)
        return rank is not None and axis % rank == self.axis % rank

    def count(self, shop: Workshop) -> Tensor:
        """Give the number of runs: the size of the axis divided by theirs, rounded up."""
        emit = shop.emitter(f"{self.source.name}_count")
        if self.length is not None:
            return emit.constant(np.int64(self.length))
        if self.size is None:
            raise Undecided("the number of runs is not known")
        made: Tensor = emit.op("Gather", emit.shape_of(self.source), emit.constant(np.int64(self.axis)), dtype=np.int64, shape=[], axis=0)
        if self.size > 1:
            made = emit.elementwise("Add", made, emit.constant(np.int64(self.size - 1)))
            made = emit.elementwise("Div", made, emit.constant(np.int64(self.size)))
        shop.after(self.home, emit)
        return made

    def element_type(self) -> ElementType:
        """Give the runs'; of one shape where all are equally long."""
        size = self.size if self.size == 1 else self.sizes[0] if self.sizes and len(set(self.sizes)) == 1 else None
        if self.source.shape is None or size is None:
            return self.source.dtype, None
        shape = list(self.source.shape)
        shape[self.axis] = size
        return self.source.dtype, shape


class Choice(Segment):
    """What an ``If`` chose: the elements of one branch or of the other."""

    def __init__(self, node: Node, home: Home, then: Seq, otherwise: Seq) -> None:
        """Keep both branches' sequences."""
        self.node, self.home, self.then, self.otherwise = node, home, then, otherwise
        self.length = then.length if then.length == otherwise.length else None
        self._taken: dict[Any, Tensor] = {}

    def _both(self, shop: Workshop, key: Any, ask: Callable[[Seq], Tensor]) -> Tensor:
        """Ask both branches, and let the ``If`` give the answer as one more output."""
        if key not in self._taken:
            answers = [ask(self.then), ask(self.otherwise)]
            types = [dtypes.of(t) for t in answers]
            if types[0] is not None and types[1] is not None and types[0] is not types[1]:
                raise Undecided("the branches give elements of different types")
            for name, answer in zip(("then_branch", "else_branch"), answers):
                shop.give(self.node.attrs[name], answer)
            shapes = [t.shape for t in answers]
            shape = list(shapes[0]) if same_shape(*shapes) else None
            if shape is None and shapes[0] is not None and shapes[1] is not None and len(shapes[0]) == len(shapes[1]):
                shape = [a if same_shape([a], [b]) else None for a, b in zip(*shapes)]
            made = Variable(shop.edit.names.fresh(f"{self.node.name or 'if'}_choice"), answers[0].dtype, shape)
            self.node.outputs.append(made)
            self._taken[key] = made
        return shop.edit.current(self._taken[key])

    def row_or(self, shop: Workshop, filler: Tensor) -> Tensor:
        """Choose the only element of a branch, or ``filler`` where the branch gives none."""
        return self._both(shop, "row", lambda seq: seq.element(shop, 0) if seq.length else filler)

    def element(self, shop: Workshop, index: int) -> Tensor:
        """Choose the element inside the ``If``."""
        return self._both(shop, ("element", index), lambda seq: seq.element(shop, index))

    def rows(self, shop: Workshop) -> Tensor:
        """Stack inside the branches."""
        return self._both(shop, "rows", lambda seq: seq.rows(shop))

    def joined(self, shop: Workshop, axis: int, new_axis: bool) -> Tensor:
        """Join inside the branches."""
        return self._both(shop, ("joined", axis, new_axis), lambda seq: seq.joined(shop, axis, new_axis))

    def count(self, shop: Workshop) -> Tensor:
        """Count inside the branches."""
        if self.length is not None:
            return shop.emitter("sequence").constant(np.int64(self.length))
        return self._both(shop, "count", lambda seq: seq.count(shop))

    def element_type(self) -> ElementType:
        """Give the branches', where they agree."""
        (a, x), (b, y) = self.then.element_type(), self.otherwise.element_type()
        return (a if a is not None else b), (list(x) if x is not None and same_shape(x, y) else None)

    def holds(self, other: Segment) -> bool:
        """Look into both branches."""
        return other is self or self.then.holds(other) or self.otherwise.holds(other)


class Seq:
    """A sequence: its segments in order, and the place from which on they are at hand."""

    def __init__(self, segments: Sequence[Segment], home: Home) -> None:
        """Keep the segments."""
        self.segments = tuple(segments)
        self.home = home
        self._rows: Tensor | None = None

    @property
    def length(self) -> int | None:
        """How many elements, None where only the run tells."""
        lengths = [s.length for s in self.segments]
        return None if any(n is None for n in lengths) else sum(n for n in lengths if n is not None)

    def holds(self, segment: Segment) -> bool:
        """Say whether a segment is part of this sequence, at any depth."""
        return any(s.holds(segment) for s in self.segments)

    def parts(self) -> list[Segment]:
        """List the elements one by one.

        Raises:
            Undecided: their number is not known.
        """
        out: list[Segment] = []
        for s in self.segments:
            if s.length is None:
                raise Undecided("the length of the sequence is not known")
            out.extend([s] if isinstance(s, One) else (Part(s, k) for k in range(s.length)))
        return out

    def insert(self, segment: Segment, position: int | None, home: Home) -> Seq:
        """Give the sequence with one element more, before ``position``, at the end where that is None.

        Raises:
            Undecided: the place cannot be found.
        """
        if position is None:
            return Seq([*self.segments, segment], home)
        if position == 0:
            return Seq([segment, *self.segments], home)
        if self.length is None:
            raise Undecided("an element is inserted in the middle of a sequence whose length is not known")
        parts = self.parts()
        at = position + len(parts) if position < 0 else position
        if not 0 <= at <= len(parts):
            raise Undecided(f"position {position} is outside a sequence of {len(parts)} elements")
        return Seq([*parts[:at], segment, *parts[at:]], home)

    def erase(self, position: int | None, home: Home) -> Seq:
        """Give the sequence without one element, the last one where ``position`` is None.

        Raises:
            Undecided: the place cannot be found.
        """
        position = -1 if position is None else position
        if position == -1 and self.segments and isinstance(self.segments[-1], One):
            return Seq(self.segments[:-1], home)
        if position == 0 and self.segments and isinstance(self.segments[0], One):
            return Seq(self.segments[1:], home)
        parts = self.parts()
        if not -len(parts) <= position < len(parts):
            raise Undecided(f"position {position} is outside a sequence of {len(parts)} elements")
        del parts[position]
        return Seq(parts, home)

    def element(self, shop: Workshop, position: int) -> Tensor:
        """Give the element at a known position.

        Raises:
            Undecided: it cannot be told which one that is, or there is none.
        """
        total = self.length
        if total is not None:
            if not -total <= position < total:
                raise Undecided(f"position {position} is outside a sequence of {total} elements")
            position %= total
        ordered = self.segments if position >= 0 else self.segments[::-1]
        left = position if position >= 0 else -position - 1  # elements to skip from that end
        for count, s in enumerate(ordered):
            if s.length is not None and left >= s.length:
                left -= s.length
                continue
            if s.length is None and count + 1 != len(ordered) and left >= s.at_least:
                raise Undecided("the position lies behind a part of the sequence whose length is not known")
            if position >= 0:
                return s.element(shop, left)
            return s.element(shop, s.length - 1 - left if s.length is not None else -1 - left)
        raise Undecided("the sequence is empty")

    def at(self, shop: Workshop, position: Tensor, emit: Emitter) -> Tensor:
        """Give the element at a position that is computed; ``emit`` takes the nodes that belong to the reader.

        Raises:
            Undecided: the elements are not all of one shape, as far as is known.
        """
        if not self.segments:
            raise Undecided("the sequence is empty")
        is_scalar = position.shape is not None and len(position.shape) == 0
        scalar = position if is_scalar else emit.reshape(position, emit.constant(np.zeros(0, np.int64)), [])
        if len(self.segments) == 1:
            only = self.segments[0]
            if isinstance(only, Stack):
                return emit.gather(only.tensor(shop), scalar, only.axis)
            if isinstance(only, Chunks) and only.size == 1:
                return emit.gather(only.source, emit.unsqueeze(scalar, [0]), only.axis)
        if len(self.segments) == 1 and self.length == 1:
            return self.element(shop, 0)
        return emit.gather(self.rows(shop), scalar, 0)

    def rows(self, shop: Workshop) -> Tensor:
        """Give all elements along a new leading axis; made once.

        Raises:
            Undecided: the elements are not all of one shape, as far as is known.
        """
        if self._rows is None:
            if not self.segments:
                raise Undecided("the sequence is empty")
            _, shape = self.element_type()
            if shape is None:
                raise Undecided("the elements of the sequence are not all of one known shape")
            parts = [s.rows(shop) for s in self.segments]
            emit = shop.emitter("sequence")
            self._rows = emit.concat(parts, 0)
            shop.after(self.home, emit)
        return shop.edit.current(self._rows)

    def joined(self, shop: Workshop, axis: int, new_axis: bool) -> Tensor:
        """Give the elements joined as ``ConcatFromSequence`` joins them.

        Raises:
            Undecided: there are none, or a part cannot be joined.
        """
        if not self.segments or self.length == 0:
            raise Undecided("the sequence is empty, and what its elements would be is not known")
        parts = [s.joined(shop, axis, new_axis) for s in self.segments if s.length != 0]
        emit = shop.emitter("sequence")
        made = emit.concat(parts, axis)
        shop.after(self.home, emit)
        return made

    def count(self, shop: Workshop) -> Tensor:
        """Give the number of elements as an int64 scalar."""
        known = sum(s.length for s in self.segments if s.length is not None)
        emit = shop.emitter("sequence_length")
        made: Tensor | None = None
        for s in self.segments:
            if s.length is None:
                one = s.count(shop)
                made = one if made is None else emit.elementwise("Add", made, one)
        if made is None:
            return emit.constant(np.int64(known))
        if known:
            made = emit.elementwise("Add", made, emit.constant(np.int64(known)))
        shop.after(self.home, emit)
        return made

    def element_type(self) -> ElementType:
        """Give the elements' dtype, and their shape where all have one."""
        dtype: Any = None
        shape: Sequence[Any] | None = None
        for k, s in enumerate(self.segments):
            d, x = s.element_type()
            dtype = d if dtype is None else dtype
            shape = x if k == 0 else shape if same_shape(shape, x) else None
        return dtype, (shape if shape is not None and all(same_shape([d], [d]) for d in shape) else shape if len(self.segments) == 1 else None)


def moved(rank: int, source: int, target: int) -> list[int]:
    """Give the permutation that moves one axis.

    Example:
        >>> moved(4, 0, 2)
        [1, 2, 0, 3]
    """
    rest = [k for k in range(rank) if k != source]
    return [*rest[:target], source, *rest[target:]]


def merge_axes(emit: Emitter, x: Tensor, axis: int) -> Tensor:
    """Merge an axis with the next one, by ``Reshape``.

    Raises:
        Undecided: the rank is not known.
    """
    if x.shape is None:
        raise Undecided("the rank of the sequence's elements is not known")
    dims = list(x.shape)
    a, b = dims[axis], dims[axis + 1]
    result = [*dims[:axis], int(a) * int(b) if is_static_dim(a) and is_static_dim(b) else None, *dims[axis + 2 :]]
    rest = [*dims[:axis], *dims[axis + 2 :]]
    if is_static(rest) and all(rest):
        return emit.reshape(x, [*(int(d) for d in dims[:axis]), -1, *(int(d) for d in dims[axis + 2 :])], result)
    # With sizes that may be zero, -1 would be ambiguous: the merged size is computed.
    parts: list[Tensor] = []
    sizes = [emit.unsqueeze(emit.dim(x, k), [0]) for k in range(len(dims))]
    merged = emit.elementwise("Mul", sizes[axis], sizes[axis + 1])
    parts = [*sizes[:axis], merged, *sizes[axis + 2 :]]
    target = emit.concat(parts, 0)
    if emit.opset >= 14:  # Reshape-14 has allowzero
        return emit.op("Reshape", x, target, dtype=x.dtype, shape=result, allowzero=1)
    return emit.reshape(x, target, result)

