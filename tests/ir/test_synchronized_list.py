"""Both ends of every edge agree after any editing of a linked list."""

from __future__ import annotations

import copy
import operator
import pickle
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from onnx_gs.errors import GraphError
from onnx_gs.ir import Node, SynchronizedList, Variable

NAMES = ["a", "b", "c", "d"]


def count(items: Any, wanted: Any) -> int:
    return sum(1 for item in items if item is wanted)


def assert_in_step(nodes: list[Node], tensors: list[Variable]) -> None:
    for node in nodes:
        for tensor in tensors:
            assert count(node.inputs, tensor) == count(tensor.outputs, node)
            assert count(node.outputs, tensor) == count(tensor.inputs, node)


EDITS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(NAMES)),
    st.tuples(st.just("insert"), st.integers(-6, 6), st.sampled_from(NAMES)),
    st.tuples(st.just("extend"), st.lists(st.sampled_from(NAMES), max_size=4)),
    st.tuples(st.just("iadd"), st.lists(st.sampled_from(NAMES), max_size=4)),
    st.tuples(st.just("imul"), st.integers(-1, 3)),
    st.tuples(st.just("set"), st.integers(-6, 6), st.sampled_from(NAMES)),
    st.tuples(st.just("slice"), st.integers(-6, 6), st.integers(-6, 6), st.sampled_from([1, 2, -1, -2]), st.lists(st.sampled_from(NAMES), max_size=4)),
    st.tuples(st.just("del"), st.integers(-6, 6)),
    st.tuples(st.just("delslice"), st.integers(-6, 6), st.integers(-6, 6), st.sampled_from([1, 2, -1, -3])),
    st.tuples(st.just("pop"), st.integers(-6, 6)),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("sort")),
    st.tuples(st.just("reverse")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("assign"), st.lists(st.sampled_from(NAMES), max_size=5)),
    st.tuples(st.just("reversed")),
)


def edit(owner: Node, items: Any, tensors: dict[str, Variable], step: tuple[Any, ...]) -> None:
    """Do the same edit to a linked list and to a plain list; ``owner`` is None for the plain one."""
    kind, *rest = step
    if kind == "append":
        items.append(tensors[rest[0]])
    elif kind == "insert":
        items.insert(rest[0], tensors[rest[1]])
    elif kind == "extend":
        items.extend(tensors[n] for n in rest[0])
    elif kind == "iadd":
        items += (tensors[n] for n in rest[0])
    elif kind == "imul":
        items *= rest[0]
    elif kind == "set":
        items[rest[0]] = tensors[rest[1]]
    elif kind == "slice":
        items[rest[0] : rest[1] : rest[2]] = (tensors[n] for n in rest[3])
    elif kind == "del":
        del items[rest[0]]
    elif kind == "delslice":
        del items[rest[0] : rest[1] : rest[2]]
    elif kind == "pop":
        items.pop(rest[0])
    elif kind == "remove":
        items.remove(tensors[rest[0]])
    elif kind == "sort":
        items.sort(key=lambda t: t.name)
    elif kind == "reverse":
        items.reverse()
    elif kind == "clear":
        items.clear()
    elif kind == "assign":
        owner.inputs = (tensors[n] for n in rest[0])
    elif kind == "reversed":
        owner.inputs = reversed(owner.inputs)


@given(st.lists(EDITS, max_size=12))
def test_a_linked_list_edits_like_a_plain_one_and_keeps_the_other_end_in_step(steps: list[tuple[Any, ...]]) -> None:
    node, tensors = Node("Concat"), {n: Variable(n) for n in NAMES}
    plain: list[Variable] = []
    for step in steps:
        twin = Node("Concat")
        before = list(node.inputs)
        failed = expected = None
        try:
            if step[0] == "assign":
                plain = [tensors[n] for n in step[1]]
            elif step[0] == "reversed":
                plain = list(reversed(plain))
            else:
                edit(twin, plain, tensors, step)
        except (IndexError, ValueError) as error:
            expected = type(error)
        try:
            edit(node, node.inputs, tensors, step)
        except (IndexError, ValueError) as error:
            failed = type(error)
        assert failed is expected
        assert [t.name for t in node.inputs] == [t.name for t in plain]
        if failed:
            assert [t.name for t in before] == [t.name for t in node.inputs]
        assert_in_step([node], list(tensors.values()))
        assert isinstance(node.inputs, SynchronizedList)


@given(st.lists(st.integers(0, 199), max_size=300), st.integers(0, 2**32 - 1))
def test_a_long_list_stays_right_while_its_nodes_leave_in_any_order(picks: list[int], seed: int) -> None:
    tensor = Variable("x")
    nodes = [Node("N", name=str(i), inputs=[tensor] * (1 + i % 2)) for i in range(200)]
    held = tensor.outputs
    shuffled = list(dict.fromkeys(picks))
    random.Random(seed).shuffle(shuffled)
    for pick in shuffled:
        nodes[pick].inputs.clear()
    left = [n for n in nodes if n.inputs]
    assert len(held) == sum(len(n.inputs) for n in left)
    assert [id(n) for n in held] == [id(n) for n in left for _ in n.inputs]
    assert [None] + held == [None, *held]  # noqa: RUF005 - the sum itself is tested


@pytest.mark.parametrize(
    "read",
    [
        lambda items: len(items), lambda items: list(items), lambda items: items[0].name, lambda items: operator.add([1], items), lambda items: operator.add(items, [1]),
        lambda items: items == [], lambda items: operator.eq([], items), lambda items: items * 2, lambda items: tuple(items), lambda items: list(reversed(items)),
        lambda items: items.copy(), lambda items: copy.copy(items), lambda items: [*items], lambda items: sorted(items, key=lambda n: n.name),
        lambda items: items[-1].name, lambda items: items[1:3],
    ],
)  # fmt: skip
def test_every_way_of_reading_a_list_with_pending_removals_sees_them_done(read: Any) -> None:
    tensor = Variable("x")
    nodes = [Node("N", name=f"{i:03}", inputs=[tensor]) for i in range(100)]
    for node in nodes[10:60]:
        node.inputs.clear()
    fresh = Variable("x")
    for node in [n for i, n in enumerate(nodes) if not 10 <= i < 60]:
        fresh._outputs.append(Node("N", name=node.name))

    def shown(result: Any) -> Any:
        return [getattr(item, "name", item) for item in result] if isinstance(result, (list, tuple)) else result

    assert shown(read(tensor.outputs)) == shown(read(fresh.outputs))


def test_copies_sums_slices_and_pickles_are_plain_lists() -> None:
    a, b = Variable("a"), Variable("b")
    node = Node("Add", inputs=[a, b])
    for plain in (operator.add(node.inputs, [a]), node.inputs[:1], node.inputs * 2, copy.copy(node.inputs), copy.deepcopy(node.inputs), node.inputs.copy()):
        assert type(plain) is list
    assert type(pickle.loads(pickle.dumps(node.inputs))) is list
    assert copy.deepcopy(node.inputs)[0] is a
    assert len(a.outputs) == 1


def test_assigning_a_list_keeps_the_list_object_and_copies_contents() -> None:
    a, b = Variable("a"), Variable("b")
    one, two = Node("One", inputs=[a, b]), Node("Two")
    held = two.inputs
    two.inputs = one.inputs
    assert two.inputs is held
    assert two.inputs == one.inputs
    assert two.inputs is not one.inputs
    one.inputs = one.inputs
    assert [t.name for t in one.inputs] == ["a", "b"]
    assert_in_step([one, two], [a, b])


@pytest.mark.parametrize("stranger", [None, "x", 3, Node("N"), [Variable("y")]])
def test_a_stranger_raises_and_changes_nothing(stranger: Any) -> None:
    a = Variable("a")
    node = Node("Add", inputs=[a])
    for attempt in (
        lambda: node.inputs.append(stranger),
        lambda: node.inputs.extend([Variable("z"), stranger]),
        lambda: node.inputs.__setitem__(0, stranger),
        lambda: node.inputs.insert(0, stranger),
        lambda: setattr(node, "inputs", [a, stranger]),
    ):
        with pytest.raises(GraphError, match="give a tensor"):
            attempt()
        assert [t.name for t in node.inputs] == ["a"]
        assert len(a.outputs) == 1


def test_of_two_look_alike_nodes_the_right_one_is_detached() -> None:
    x = Variable("x")
    first, second = Node("Neg", inputs=[x]), Node("Neg", inputs=[x])
    assert first == second
    second.inputs.clear()
    assert len(x.outputs) == 1
    assert x.outputs[0] is first
    x.outputs.append(second)
    x.outputs.remove(second)
    assert x.outputs[0] is first
    assert not second.inputs
