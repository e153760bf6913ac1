"""Random programs with control flow, as ONNX text: nests of If, Loop and Scan with captures, reused names, growing values and early exits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

UNARY = ["Neg", "Abs", "Relu", "Tanh", "Sigmoid"]
BINARY = ["Add", "Sub", "Mul", "Max"]


@dataclass
class Scope:
    """What is in reach: vectors ``float[2]``, bools, and int64 scalars; the text so far."""

    vectors: list[str]
    bools: list[str]
    numbers: list[str]
    lines: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope(list(self.vectors), list(self.bools), list(self.numbers))


class Program:
    """Writes one program.

    Args:
        rng: decides everything.
        depth: how deep bodies nest.
        size: how many statements a block has at most.
        opset: for which version of ONNX's own operators, 9 or later: from 13 on axes are inputs.
    """

    def __init__(self, rng: random.Random, depth: int = 3, size: int = 4, opset: int = 18) -> None:
        self.rng = rng
        self.depth = depth
        self.size = size
        self.axes_are_inputs = opset >= 13
        self.count = 0

    def text(self) -> str:
        """Give a graph with inputs ``x``, ``w``, ``q``, ``c``, ``m`` and two outputs."""
        scope = Scope(["x", "w"], ["c"], ["m"])
        self.block(scope, self.depth)
        y, z = self.pick(scope.vectors), self.pick(scope.vectors)
        body = "\n  ".join([*scope.lines, f"y = Identity ({y})", f"z = Neg ({z})"])
        weights = ("bool true = {1}, bool false = {0}, int64 k0 = {0}, int64 k1 = {1}, int64 k2 = {2}, int64 k3 = {3}, int64 endless = "
                   "{9223372036854775807}, int64[1] a0 = {0}, float half = {0.5}, float big = {3}, float[0,2] none = {}, float[1,2] some = {5, 6}")  # fmt: skip
        return f"g (float[2] x, float[2] w, float[T,2] q, bool c, int64 m) => (float[2] y, float[2] z) <{weights}> {{\n  {body}\n}}"

    def row(self, x: str) -> str:
        """Make a vector a matrix of one row."""
        return f"Unsqueeze ({x}, a0)" if self.axes_are_inputs else f"Unsqueeze <axes = [0]> ({x})"

    def sum(self, x: str) -> str:
        """Add the rows of a matrix up."""
        return f"ReduceSum <keepdims = 0> ({x}, a0)" if self.axes_are_inputs else f"ReduceSum <keepdims = 0, axes = [0]> ({x})"

    def pick(self, items: list[str]) -> str:
        return self.rng.choice(items[-6:] if self.rng.random() < 0.7 else items)

    def fresh(self, kind: str) -> str:
        """Give a name; bodies side by side use the same ones, as the counter goes back at their ends."""
        self.count += 1
        return f"{kind}{self.count}"

    def block(self, scope: Scope, depth: int) -> None:
        for _ in range(self.rng.randint(1, self.size)):
            choices = ["unary", "binary", "compare"]
            if depth:
                choices += ["if", "loop", "loop", "scan"]
            getattr(self, "_" + self.rng.choice(choices))(scope, depth)

    def _let(self, scope: Scope, kind: str, expression: str) -> str:
        name = self.fresh(kind)
        scope.lines.append(f"{name} = {expression}")
        {"v": scope.vectors, "b": scope.bools, "n": scope.numbers}[kind].append(name)
        scope.local.append(name)
        return name

    def _unary(self, scope: Scope, depth: int) -> None:
        self._let(scope, "v", f"{self.rng.choice(UNARY)} ({self.pick(scope.vectors)})")

    def _binary(self, scope: Scope, depth: int) -> None:
        self._let(scope, "v", f"{self.rng.choice(BINARY)} ({self.pick(scope.vectors)}, {self.pick(scope.vectors)})")

    def _compare(self, scope: Scope, depth: int) -> None:
        kind = self.rng.choice(["number", "number", "not", "vector"])
        if kind == "number":
            op = self.rng.choice(["Less", "Equal"])
            self._let(scope, "b", f"{op} ({self.pick(scope.numbers)}, {self.rng.choice(['k0', 'k1', 'k2', 'm'])})")
        elif kind == "not":
            self._let(scope, "b", f"Not ({self.pick(scope.bools)})")
        else:
            sum_name = self.fresh("s")
            scope.lines.append(f"{sum_name} = ReduceMax <keepdims = 0> ({self.pick(scope.vectors)})")
            self._let(scope, "b", f"Less ({sum_name}, half)")

    def _if(self, scope: Scope, depth: int) -> None:
        bodies = []
        start = self.count
        for _ in range(2):
            self.count = start
            inner = scope.inner()
            self.block(inner, depth - 1)
            out = self.fresh("o")
            inner.lines.append(f"{out} = Identity ({self.pick(inner.vectors)})")
            bodies.append((self.fresh("body"), out, " ".join(inner.lines)))
        (a, x, left), (b, y, right) = bodies
        cond = self.rng.choice([self.pick(scope.bools), self.pick(scope.bools), "true", "false"])
        self.count += 1000
        self._let(scope, "v", f"If ({cond}) <then_branch = {a} () => (float[2] {x}) {{ {left} }}, else_branch = {b} () => (float[2] {y}) {{ {right} }}>")

    def _loop(self, scope: Scope, depth: int) -> None:
        rng = self.rng
        inner = scope.inner()
        i, ci, s = self.fresh("i"), self.fresh("ci"), self.fresh("t")
        grows, scans = rng.random() < 0.35, rng.random() < 0.4
        inner.vectors.append(s)
        inner.numbers.append(i)
        if rng.random() < 0.5:
            inner.bools.append(ci)
        g, start = self.fresh("g"), rng.choice(["none", "some"])
        if grows and start == "some" and rng.random() < 0.5:
            self._let(inner, "v", f"Gather <axis = 0> ({g}, {i})")  # one row was there, and one more each trip
        keep = self.fresh("kept")
        if rng.random() < 0.3:
            inner.vectors.append(keep)
        self.block(inner, depth - 1)
        so, co, ko = self.fresh("so"), self.fresh("co"), self.fresh("ko")
        lines = [*inner.lines, f"{so} = {rng.choice(['Tanh', 'Identity'])} ({self.pick(inner.vectors)})", f"{ko} = Identity ({keep})"]
        trip, cond = rng.choice(["k0", "k1", "k2", "k3", "m", "m"]), rng.choice(["true", "true", '""', "c"])
        ends = rng.choice(["passes", "passes", "true", "counts", "computes"]) if cond != '""' else rng.choice(["passes", "true"])
        if ends == "passes":
            lines.append(f"{co} = Identity ({ci})")
        elif ends == "true":
            lines.append(f"{co} = Identity (true)")
        elif ends == "counts":
            trip = rng.choice([trip, "endless", '""'])
            lines.append(f"{co} = Less ({i}, {rng.choice(['k0', 'k1', 'k2'])})")
        else:
            top = self.fresh("top")
            lines += [f"{top} = ReduceMax <keepdims = 0> ({so})", f"{co} = Less ({top}, half)"]
        inputs = [f"float[2] {s}", f"float[2] {keep}"]
        outputs = [f"float[2] {so}", f"float[2] {ko}"]
        given = [self.pick(scope.vectors), self.pick(scope.vectors)]
        results = [self.fresh("v"), self.fresh("v")]
        after = []
        if grows:
            go, row = self.fresh("go"), self.fresh("row")
            lines += [f"{row} = {self.row(self.pick(inner.vectors))}", f"{go} = Concat <axis = 0> ({rng.choice([f'{g}, {row}', f'{row}, {g}'])})"]
            inputs.append(f"float[{g}_n,2] {g}")
            outputs.append(f"float[{go}_n,2] {go}")
            given.append(start)
            results.append(self.fresh("big"))
            after.append(results[-1])
        if scans:
            o = self.fresh("row")
            lines.append(f"{o} = Identity ({self.pick(inner.vectors)})")
            outputs.append(f"float[2] {o}")
            results.append(self.fresh("big"))
            after.append(results[-1])
        name = self.fresh("body")
        scope.lines.append(
            f"{', '.join(results)} = Loop ({trip}, {cond}, {', '.join(given)}) <body = {name} (int64 {i}, bool {ci}, {', '.join(inputs)}) => "
            f"(bool {co}, {', '.join(outputs)}) {{ {' '.join(lines)} }}>"
        )
        scope.vectors += results[:2]
        for big in after:
            self._let(scope, "v", self.sum(big))

    def _scan(self, scope: Scope, depth: int) -> None:
        rng = self.rng
        inner = scope.inner()
        s, r = self.fresh("t"), self.fresh("r")
        stateless = rng.random() < 0.4
        inner.vectors += [r] if stateless else [s, r]
        self.block(inner, depth - 1)
        so, o = self.fresh("so"), self.fresh("o")
        lines = [*inner.lines, f"{o} = Identity ({self.pick(inner.vectors)})"]
        name, final, rows = self.fresh("body"), self.fresh("v"), self.fresh("big")
        way = f"scan_input_directions = [{rng.randint(0, 1)}], scan_output_directions = [{rng.randint(0, 1)}]"
        if stateless:
            scope.lines.append(f"{rows} = Scan (q) <num_scan_inputs = 1, {way}, body = {name} (float[2] {r}) => (float[2] {o}) {{ {' '.join(lines)} }}>")
        else:
            lines.append(f"{so} = Tanh ({self.pick(inner.vectors)})")
            scope.lines.append(
                f"{final}, {rows} = Scan ({self.pick(scope.vectors)}, q) <num_scan_inputs = 1, {way}, body = {name} (float[2] {s}, float[2] {r}) => "
                f"(float[2] {so}, float[2] {o}) {{ {' '.join(lines)} }}>"
            )
            scope.vectors.append(final)
        self._let(scope, "v", self.sum(rows))
