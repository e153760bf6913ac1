"""A list at one end of a graph's edges that keeps the other end in step."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from onnx_gs.errors import GraphTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

_MIRROR = {"inputs": "outputs", "outputs": "inputs"}
_SHORT = 32  # up to this length an occurrence is searched for; beyond, it is marked and swept later


class EdgeLog:
    """The tensors most recently attached to nodes or renamed, for caches of names that must notice.

    A cache remembers ``total`` and later asks ``since(total)``; None means that too much happened, so rebuild.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.total = 0
        self._recent: deque[str] = deque(maxlen=1 << 16)

    def add(self, names: Iterable[str]) -> None:
        """Note names that came into use somewhere."""
        names = list(names)
        self._recent.extend(names)
        self.total += len(names)

    def since(self, total: int) -> list[str] | None:
        """List the names noted after ``total``, or None when some have been forgotten."""
        count = self.total - total
        if count > len(self._recent):
            return None
        return [self._recent[-i] for i in range(count, 0, -1)]


edge_log = EdgeLog()


class SynchronizedList(list[T]):
    """A node's or tensor's ``inputs`` or ``outputs``: editing it edits the other end of each edge.

    It is a ``list`` and reads at a list's speed. Every editing method either changes both ends or raises and changes nothing. Copies, slices,
    sums and pickles are plain lists.

    Args:
        parent_obj: the node or tensor that owns the list.
        field_name: the list of each item that mirrors this one: ``"outputs"`` for the inputs of a node or tensor, else ``"inputs"``.
        initial: the first items; the owner is linked to each.

    Example:
        >>> from onnx_gs.ir import Node, Variable
        >>> x, node = Variable("x"), Node("Relu")
        >>> node.inputs.append(x)
        >>> [consumer.op for consumer in x.outputs]
        ['Relu']
    """

    __slots__ = ("_marks", "field_name", "parent_obj")  # few: a graph has some five lists a node

    parent_obj: Any
    field_name: str  # ours, "inputs" or "outputs"
    _marks: _Marks  # only while stale, and after a long list was last read after every single removal

    def __init__(self, parent_obj: Any, field_name: str, initial: Iterable[T] = ()) -> None:
        """Make the list and link the first items."""
        super().__init__()
        self.parent_obj = parent_obj
        self.field_name = _MIRROR[field_name]
        self.extend(initial)

    # -- the one funnel ---------------------------------------------------------------------------

    def _relink(self, at: SupportsIndex | slice, new: Iterable[T]) -> None:
        """Replace the items at ``at``; both ends of every edge agree before and after."""
        items = list(new)
        mirror = "_" + _MIRROR[self.field_name]
        ends = [self._end(item, mirror) for item in items]  # a stranger raises here: nothing changed yet
        self._sweep()
        if isinstance(at, slice):
            old = list.__getitem__(self, at)
            list.__setitem__(self, at, items)  # an extended slice of another length raises here
        else:
            old = [list.__getitem__(self, at)]
            list.__setitem__(self, at, items[0])
        owner = self.parent_obj
        for item in old:
            getattr(item, mirror)._drop(owner)
        for end in ends:
            list.append(end, owner)
        if items:
            edge_log.add([item._name for item in items] if self._holds_tensors else [owner._name])  # type: ignore[attr-defined]

    @property
    def _holds_tensors(self) -> bool:
        return bool(self.parent_obj._is_node)

    def _end(self, item: Any, mirror: str) -> SynchronizedList[Any]:
        end = getattr(item, mirror, None)
        if not isinstance(end, SynchronizedList) or item._is_node == self.parent_obj._is_node:
            wanted = "a tensor" if self._holds_tensors else "a node"
            raise GraphTypeError(
                f"{type(item).__name__} {item!r:.80} cannot be an item of '{self.field_name}' of {self.parent_obj!s:.80}",
                fix=f"give {wanted}",
            )
        return end

    def _drop(self, owner: Any) -> None:
        """Take out one occurrence of ``owner``, by identity, without touching the other end."""
        if list.__len__(self) <= _SHORT and type(self) is SynchronizedList:
            for at, item in enumerate(self):
                if item is owner:
                    list.__delitem__(self, at)
                    return
            return
        if type(self) is SynchronizedList:
            if list.__getitem__(self, -1) is owner:
                list.__delitem__(self, -1)
                return
            if list.__getitem__(self, 0) is owner and hasattr(self, "_marks"):
                list.__delitem__(self, 0)  # ``while x.outputs: x.outputs[0].inputs.clear()``
                return
            self._marks = _Marks()
            self.__class__ = _StaleList
        self._marks.add(owner)

    def _sweep(self) -> None:
        """Do nothing: only a stale list has something to sweep."""

    # -- editing ----------------------------------------------------------------------------------

    def __setitem__(self, at: Any, new: Any) -> None:
        """Replace an item, or the items of a slice."""
        self._relink(at, new if isinstance(at, slice) else (new,))

    def __delitem__(self, at: SupportsIndex | slice) -> None:
        """Unlink an item, or the items of a slice."""
        if isinstance(at, slice):
            self._sweep()
            chosen = range(list.__len__(self))[at]
            if not chosen:
                return
            if chosen.step in {1, -1}:
                low, high = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
                self._relink(slice(low, high + 1), ())
                return
            gone = set(chosen)
            old = [list.__getitem__(self, i) for i in chosen]
            list.__setitem__(self, slice(None), [item for i, item in enumerate(list.__iter__(self)) if i not in gone])
            mirror = "_" + _MIRROR[self.field_name]
            for item in old:
                getattr(item, mirror)._drop(self.parent_obj)
            return
        index = at.__index__()
        self._sweep()
        size = list.__len__(self)
        if not -size <= index < size:
            raise IndexError("list assignment index out of range")
        index %= size
        self._relink(slice(index, index + 1), ())

    def append(self, item: T) -> None:
        """Link one more item at the end."""
        self._relink(slice(list.__len__(self), list.__len__(self)), (item,))

    def insert(self, at: SupportsIndex, item: T) -> None:
        """Link an item before position ``at``."""
        index = at.__index__()
        position = index if index >= 0 else max(0, len(self) + index)
        self._relink(slice(position, position), (item,))

    def extend(self, new: Iterable[T]) -> None:
        """Link every item of ``new``, which may be a generator or read this very list."""
        items = list(new)
        end = len(self)
        self._relink(slice(end, end), items)

    def __iadd__(self, new: Iterable[T]) -> SynchronizedList[T]:  # type: ignore[override,misc]
        """Link every item of ``new`` at the end."""
        self.extend(new)
        return self

    def __imul__(self, times: SupportsIndex) -> SynchronizedList[T]:
        """Repeat the items ``times`` times, linking each repetition."""
        count = times.__index__()
        if count <= 0:
            self.clear()
        else:
            self.extend(list(self) * (count - 1))
        return self

    def pop(self, at: SupportsIndex = -1) -> T:
        """Unlink and return the item at ``at``."""
        item = self[at]
        del self[at]
        return item

    def remove(self, item: T) -> None:
        """Unlink the first occurrence of this very object, else of an equal one."""
        for at, present in enumerate(self):
            if present is item:
                del self[at]
                return
        del self[self.index(item)]

    def clear(self) -> None:
        """Unlink every item."""
        self._sweep()
        if not list.__len__(self):
            return
        old = list(list.__iter__(self))
        list.clear(self)
        mirror, owner = "_" + _MIRROR[self.field_name], self.parent_obj
        for item in old:
            end = getattr(item, mirror)
            if type(end) is SynchronizedList and list.__len__(end) == 1:
                list.clear(end)
            else:
                end._drop(owner)

    # -- copies are plain -------------------------------------------------------------------------

    def copy(self) -> list[T]:
        """Give a plain list of the same items."""
        return list(self)

    def __copy__(self) -> list[T]:
        """Give a plain list of the same items."""
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[T]:
        """Give a plain list of the same items: nodes and tensors are copied by their own methods."""
        return list(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickle as a plain list."""
        return (list, (list(self),))


class _Marks:
    """Occurrences in a list that wait to be swept."""

    __slots__ = ("gone", "total")

    def __init__(self) -> None:
        """Start with none."""
        self.gone: dict[int, int] = {}  # id of an item -> how many
        self.total = 0

    def add(self, item: object) -> None:
        """Mark one more occurrence."""
        self.gone[id(item)] = self.gone.get(id(item), 0) + 1
        self.total += 1


class _StaleList(SynchronizedList[T]):
    """A long list with occurrences marked for removal: whatever reads or edits it sweeps first.

    Detaching many consumers from one tensor would otherwise search and shift the list once for each.
    """

    __slots__ = ()

    def __len__(self) -> int:
        """Count without sweeping."""
        return max(0, list.__len__(self) - self._marks.total)

    def _sweep(self) -> None:
        gone = self._marks.gone
        self.__class__ = SynchronizedList  # type: ignore[assignment]
        if self._marks.total == 1:  # remembered: who reads after each single removal gets it done at once
            self._marks = _Marks()
        else:
            del self._marks
        kept = []
        for item in list.__iter__(self):
            left = gone.get(id(item), 0)
            if left:
                gone[id(item)] = left - 1
            else:
                kept.append(item)
        list.__setitem__(self, slice(None), kept)


def _swept(name: str) -> Any:
    plain = getattr(SynchronizedList, name)

    def method(self: _StaleList[Any], *args: Any, **kwargs: Any) -> Any:
        self._sweep()
        return plain(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in (
    "__iter__", "__getitem__", "__contains__", "__reversed__", "__add__", "__mul__", "__rmul__", "__eq__", "__ne__", "__lt__", "__le__",
    "__gt__", "__ge__", "__repr__", "__sizeof__", "index", "count", "sort", "reverse", "copy", "__copy__", "__deepcopy__", "__reduce_ex__",
    "append", "insert", "extend", "pop", "remove", "clear", "__iadd__", "__imul__", "__setitem__", "__delitem__",
):  # fmt: skip
    setattr(_StaleList, _name, _swept(_name))


def _radd(self: _StaleList[Any], other: list[Any]) -> list[Any]:
    # ``plain + stale`` would read the raw items in C, so take the reflected operation.
    self._sweep()
    return other + list(self)


_StaleList.__radd__ = _radd  # type: ignore[attr-defined]
_StaleList.__hash__ = None


def linked(parent_obj: Any, field_name: str) -> SynchronizedList[Any]:
    """Make an empty list without going through the funnel: for code that builds graphs in bulk."""
    new: SynchronizedList[Any] = SynchronizedList.__new__(SynchronizedList)
    new.parent_obj = parent_obj
    new.field_name = field_name
    return new
