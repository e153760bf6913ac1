"""Random programs over lists, with branches and loops inside each other."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings, strategies as st

import onnx_gs as gs
from onnx_gs.ir import verify
from onnx_gs.passes.lower_sequence import LowerSequence
from tests.support.rewrites import assert_same, model, run


class Program:
    """Writes ONNX text; keeps for each list the fewest elements that it can have."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def constant(self, value):
        name = self.name("k")
        return name, [f"{name} = Constant <value_int = {value}> ()"]

    def block(self, tensors, lists, depth, length):
        lines = []
        tensors, lists = list(tensors), dict(lists)
        for _ in range(length):
            getattr(self, self.random.choice(["tensor", "construct", "insert", "insert", "erase", "read", "branch", "loop", "loop"]))(lines, tensors, lists, depth)
        return lines, tensors, lists

    def tensor(self, lines, tensors, lists, depth):
        name = self.name("t")
        a, b = self.random.choice(tensors), self.random.choice(tensors)
        lines.append(f"{name} = {self.random.choice(['Add', 'Sub'])} ({a}, {b})")
        tensors.append(name)

    def construct(self, lines, tensors, lists, depth):
        name = self.name("s")
        items = [self.random.choice(tensors) for _ in range(self.random.randint(1, 3))]
        lines.append(f"{name} = SequenceConstruct ({', '.join(items)})")
        lists[name] = len(items)

    def insert(self, lines, tensors, lists, depth):
        if not lists:
            return
        old, new = self.random.choice(list(lists)), self.name("s")
        at = self.random.choice(["", "0", "-1"])
        place = ""
        if at == "0" or (at == "-1" and lists[old]):
            k, more = self.constant(at)
            lines.extend(more)
            place = f", {k}"
        lines.append(f"{new} = SequenceInsert ({old}, {self.random.choice(tensors)}{place})")
        lists[new] = lists[old] + 1

    def erase(self, lines, tensors, lists, depth):
        full = [s for s, fewest in lists.items() if fewest]
        if not full:
            return
        old, new = self.random.choice(full), self.name("s")
        k, more = self.constant(self.random.choice([0, -1]))
        lines.extend(more)
        lines.append(f"{new} = SequenceErase ({old}, {k})")
        lists[new] = lists[old] - 1

    def read(self, lines, tensors, lists, depth):
        full = [s for s, fewest in lists.items() if fewest]
        if not full:
            return
        chosen = self.random.choice(full)
        how = self.random.choice(["at", "join", "count", "dynamic"])
        name = self.name("t")
        if how == "count":
            n, f = self.name("n"), self.name("f")
            lines.extend([f"{n} = SequenceLength ({chosen})", f"{f} = Cast <to = 1> ({n})", f"{name} = Add ({self.random.choice(tensors)}, {f})"])
        elif how == "join":
            j, a = self.name("j"), self.name("a")
            lines.extend([f"{j} = ConcatFromSequence <axis = 0, new_axis = 1> ({chosen})", f"{a} = Constant <value_ints = [0]> ()", f"{name} = ReduceMax <keepdims = 0> ({j}, {a})"])
        else:
            k, more = self.constant(self.random.randrange(-lists[chosen], lists[chosen]))
            lines.extend(more)
            if how == "dynamic":
                i = self.name("i")
                lines.append(f"{i} = Add ({k}, zero)")
                k = i
            lines.append(f"{name} = SequenceAt ({chosen}, {k})")
        tensors.append(name)

    def branch(self, lines, tensors, lists, depth):
        if depth == 0 or not lists:
            return
        out = self.name("s")
        branches, fewest = [], []
        for label in ("then_branch", "else_branch"):
            inner, _, inside = self.block(tensors, lists, depth - 1, self.random.randint(1, 3))
            end = self.random.choice(list(inside))
            result = self.name("s")
            inner.append(f"{result} = Identity ({end})")
            branches.append(f"{label} = {self.name('g')} () => (seq(float[2]) {result}) {{ {' '.join(inner)} }}")
            fewest.append(inside[end])
        lines.append(f"{out} = If (c) <{', '.join(branches)}>")
        lists[out] = min(fewest)

    def loop(self, lines, tensors, lists, depth):
        if depth == 0 or not lists:
            return
        start, state, out, result = self.random.choice(list(lists)), self.name("s"), self.name("s"), self.name("s")
        carried, carried_out, final = self.name("t"), self.name("t"), self.name("t")
        i, ci, co = self.name("i"), self.name("b"), self.name("b")
        # the state has the fewest elements that it starts with, as inside it only ever grows or is kept
        inner, inner_tensors, inside = self.block([*tensors, carried], {**lists, state: lists[start]}, depth - 1, self.random.randint(1, 4))
        grown = [s for s in inside if s not in lists and inside[s] >= lists[start]]
        end = self.random.choice(grown)
        inner.extend([f"{co} = Identity ({ci})", f"{result} = Identity ({end})", f"{carried_out} = Identity ({self.random.choice(inner_tensors)})"])
        body = f"{self.name('g')} (int64 {i}, bool {ci}, float[2] {carried}, seq(float[2]) {state}) => (bool {co}, float[2] {carried_out}, seq(float[2]) {result})"
        first = self.random.choice(tensors)
        lines.append(f"{final}, {out} = Loop ({self.random.choice(['m', 'two'])}, yes, {first}, {start}) <body = {body} {{ {' '.join(inner)} }}>")
        lists[out] = lists[start]
        tensors.append(final)

    def text(self):
        lines, tensors, lists = self.block(["x", "w"], {}, 2, self.random.randint(4, 9))
        outputs = []
        for s, fewest in list(lists.items())[-3:]:
            if fewest:
                lines.append(f"out_{s} = ConcatFromSequence <axis = 0> ({s})")
                outputs.append(f"float[P_{s}] out_{s}")
            lines.append(f"len_{s} = SequenceLength ({s})")
            outputs.append(f"int64 len_{s}")
        lines.append(f"last = Neg ({tensors[-1]})")
        outputs.append("float[2] last")
        return f"""g (float[2] x, float[2] w, bool c, int64 m) => ({', '.join(outputs)}) <bool yes = {{1}}, int64 two = {{2}}, int64 zero = {{0}}> {{
            {' '.join(lines)} }}"""


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**9))
def test_any_program(seed):
    text = Program(seed).text()
    source = model(text)
    graph = gs.import_onnx(source)
    LowerSequence()(graph)
    assert not verify.problems(graph), text
    result = gs.export_onnx(graph)
    for c, m in ((True, 0), (False, 1), (True, 3), (False, 3)):
        feeds = {"x": np.float32([1, -2]), "w": np.float32([0.5, 3]), "c": np.bool_(c), "m": np.int64(m)}
        assert_same(run(source, feeds), run(result, feeds))
