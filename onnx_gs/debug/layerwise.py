"""Run two models, or one model in two evaluators, side by side, and find the first tensor that differs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onnx_gs.debug.capture import with_outputs
from onnx_gs.debug.matching import match_models
from onnx_gs.errors import EvaluationError, GraphValueError, MissingExtraError
from onnx_gs.evaluate import feeds as feeds_of, onnxruntime, reference
from onnx_gs.evaluate.compare import Difference, compare
from onnx_gs.ir import dtypes, scopes, walk
from onnx_gs.ir.node import ONNX_DOMAINS, is_graph, same_value
from onnx_gs.ir.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

LOGGER = logging.getLogger("onnx_gs")
T = TypeVar("T")
Evaluate = Callable[["Graph", Mapping[str, Any], Sequence[str]], dict[str, Any]]


def _ort(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str], threads: int | None = None) -> dict[str, Any]:
    return onnxruntime.session(graph, threads=threads).run(feeds, outputs)


def _ort_optimized(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str], threads: int | None = None) -> dict[str, Any]:
    return onnxruntime.session(graph, optimize=True, threads=threads).run(feeds, outputs)


def _ort_cuda(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    return onnxruntime.session(graph, provider="CUDAExecutionProvider").run(feeds, outputs)


def _reference(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    return reference.run(graph, feeds, outputs)


def _tensorrt(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    from onnx_gs.trt.builder import build
    from onnx_gs.trt.runner import Runner

    shapes = {name: (np.shape(v), np.shape(v), np.shape(v)) for name, v in feeds.items()}
    with Runner(build(graph, shapes=shapes)) as run:
        found = run({name: np.asarray(v) for name, v in feeds.items()})
    return {name: found[name] for name in outputs}


#: Evaluators by name: ONNX Runtime as it is compared everywhere else (optimizations off), with its optimizations, on CUDA; ONNX's own; TensorRT.
EVALUATORS: dict[str, Evaluate] = {
    "onnxruntime": _ort,
    "onnxruntime-optimized": _ort_optimized,
    "onnxruntime-cuda": _ort_cuda,
    "reference": _reference,
    "tensorrt": _tensorrt,
}


@dataclass(frozen=True)
class Row:
    """One tensor in both runs.

    Attributes:
        index: its place in the order of the first model.
        name: in the first model.
        other: in the second.
        producer: operator and name of the node that makes it.
        difference: how they differ; None when they are equal.
    """

    index: int
    name: str
    other: str
    producer: str
    difference: Difference | None


@dataclass
class Comparison:
    """All compared tensors, in the order of the first model.

    Attributes:
        rows: one a tensor; outputs are always among them.
        unmatched: tensors of the first model that the second does not have; what ``Constant`` nodes hold is not listed.
        tolerance: absolute and relative difference that still counts as equal.
        leading: indices of the rows whose values an output that differs is made from.
    """

    rows: list[Row] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    tolerance: tuple[float, float] = (0.0, 0.0)
    leading: set[int] = field(default_factory=set)

    def _beyond(self, row: Row) -> bool:
        return row.difference is not None and not row.difference.within(*self.tolerance)

    @property
    def differing(self) -> list[Row]:
        """List the rows beyond the tolerance that are outputs, or lead to an output that differs."""
        return [r for r in self.rows if r.index in self.leading and self._beyond(r)]

    @property
    def inner(self) -> list[Row]:
        """List the rows beyond the tolerance that no output differs by: what is made from them is equal again, as where a rewrite moved a step."""
        return [r for r in self.rows if r.index not in self.leading and self._beyond(r)]

    @property
    def first(self) -> Row | None:
        """Give the first row beyond the tolerance."""
        return next(iter(self.differing), None)

    def __str__(self) -> str:
        """Say how many differ, and the first."""
        first, inner = self.first, self.inner
        also = ""
        if inner:
            those = "1 inner value differs" if len(inner) == 1 else f"{len(inner)} inner values differ"
            also = f"; {those}, and no output by that: the first is {self._told(inner[0])}"
        compared = f"{len(self.rows)} tensor{'s' * (len(self.rows) != 1)} compared"
        if first is not None:
            verb = "differs" if len(self.differing) == 1 else "differ"
            return f"{compared}, {len(self.differing)} {verb}; the first is {self._told(first)}{also}"
        return f"{compared}, {'the outputs are equal' if inner else 'none differs'}{also}"

    @staticmethod
    def _told(row: Row) -> str:
        return f"'{row.name}', made by {row.producer}: {row.difference}"

    def as_dict(self) -> dict[str, Any]:
        """Give plain data for JSON."""

        def plain(row: Row) -> dict[str, Any]:
            return {**asdict(row), "difference": None if row.difference is None else asdict(row.difference)}

        listed = {"differing": [plain(r) for r in self.differing], "inner": [plain(r) for r in self.inner]}
        return {"compared": len(self.rows), **listed, "unmatched": self.unmatched}

    def plot(self, width: int = 900, height: int = 260) -> str:
        """Draw the relative error of every tensor along the graph, on a logarithmic scale, as SVG."""
        return _plot(self.rows, width, height)


def layerwise(
    graph: Graph,
    other: Graph | None = None,
    *,
    feeds: Mapping[str, Any] | None = None,
    evaluators: tuple[str | Evaluate, str | Evaluate] = ("onnxruntime", "onnxruntime"),
    absolute: float = 0.0,
    relative: float = 0.0,
    batch: int = 200,
    seed: int = 0,
) -> Comparison:
    """Compare every tensor of the main graph in two runs; tensors in bodies and functions are not looked at.

    A tensor is held against the one that is meant to hold the same: that computes the same, or stands in its place, made by a like node, or has its
    name. Inner tensors of another dtype or shape are not. Only what leads to an output that differs is a difference.

    Args:
        graph: the first model; its order is the order of the result.
        other: the second model, by default the same; its tensors are matched by what they compute and by name, so renaming does no harm.
        feeds: values of inputs, also those that only the second takes; what is left out is made up, so that the first model runs on it.
        evaluators: what runs the first and the second: names from ``EVALUATORS``, or callables ``(graph, feeds, output names) -> values``.
        absolute: absolute difference that still counts as equal.
        relative: relative difference that still counts as equal.
        batch: how many tensors are kept at a time, which bounds the memory.
        seed: another seed makes up other inputs.

    Raises:
        GraphValueError: an evaluator's name is unknown, or the second model needs an input that the first does not have.
        EvaluationError: a model does not run.

    Example:
        >>> import numpy as np
        >>> import onnx_gs as gs
        >>> def model(op):
        ...     x, h, y = (gs.Variable(n, np.float32, (2,)) for n in "xhy")
        ...     return gs.Graph([gs.Node(op, inputs=[x], outputs=[h]), gs.Node("Abs", inputs=[h], outputs=[y])], [x], [y], opset=18)
        >>> layerwise(model("Neg"), model("Exp")).first.name
        'h'
    """
    second = graph if other is None else other
    run_a, run_b = (_evaluator(e) for e in evaluators)
    given = dict(feeds or {})
    feeds_of.for_other(graph, second, {**dict.fromkeys(t.name for t in graph.inputs), **given})  # before anything is run
    names = list(dict.fromkeys(t.name for t in graph.outputs))
    if run_a is _ort:
        session = onnxruntime.session(graph)
        values, results = feeds_of.first_that_run(graph, lambda made: session.run(made, names), seed, given=given)
        # How sums are shared out among threads may decide their last digit.
        run_a, run_b = (partial(r, threads=session.threads) if r is _ort or r is _ort_optimized else r for r in (run_a, run_b))
    else:
        values, results = feeds_of.first_that_run(graph, lambda made: run_a(graph, made, names), seed, given=given)
    others = feeds_of.for_other(graph, second, {**given, **values})
    found = _Found(graph)
    found.outputs(second, results, _second(lambda: run_b(second, others, list(dict.fromkeys(t.name for t in second.outputs)))))
    pairs = [(a, b) for a, b in _pairs(graph, second) if id(a) not in found.rows]
    for start in range(0, len(pairs), batch):
        part = pairs[start : start + batch]
        ours = _run(graph, [a for a, _ in part], run_a, values)
        theirs = _second(lambda: _run(second, [b for _, b in part], run_b, others))  # noqa: B023 - called at once
        for (a, b), x, y in zip(part, ours, theirs):
            difference = compare(x, y)
            if difference is None or difference.kind == "values":  # else they are no twins
                found.add(a, b.name, difference)
    return found.result((absolute, relative))


class _Found:
    """What was compared so far, by the tensor of the first model.

    Args:
        graph: the first model.

    Attributes:
        rows: the other tensor's name and the difference, by the id of the tensor.
    """

    def __init__(self, graph: Graph) -> None:
        """Start with nothing compared."""
        self.graph = graph
        self.rows: dict[int, tuple[str, Difference | None]] = {}

    def add(self, tensor: Tensor, other: str, difference: Difference | None) -> None:
        """Keep what a comparison found."""
        self.rows[id(tensor)] = (other, difference)

    def outputs(self, second: Graph, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        """Compare the outputs: by name, or in order where no name is in both models."""
        names = {t.name for t in second.outputs}
        by_place = len(self.graph.outputs) == len(second.outputs) and not any(t.name in names for t in self.graph.outputs)
        for at, t in enumerate(self.graph.outputs):
            name = second.outputs[at].name if by_place else t.name
            missing = Difference("kind", "the output is missing")
            self.add(t, name, compare(ours[t.name], theirs[name]) if name in names else missing)

    def result(self, tolerance: tuple[float, float]) -> Comparison:
        """Put all in the order of the graph, and see which differences lead to an output that differs."""
        computed = _computed(self.graph)
        made = {id(t) for t in computed}
        listed = {id(t): t for t in (*computed, *(t for t in self.graph.outputs if id(t) not in made))}
        result = Comparison(tolerance=tolerance)
        result.unmatched = [t.name for t in computed if id(t) not in self.rows and t._inputs[0].op != "Constant"]
        result.rows = [Row(at, t.name, *self._row(t)) for at, t in enumerate(t for key, t in listed.items() if key in self.rows)]
        index = {key: at for at, key in enumerate(key for key in listed if key in self.rows)}
        captured = scopes.all_captures(self.graph)
        pending = [t for t in self.graph.outputs if result._beyond(result.rows[index[id(t)]])]
        seen = {id(t) for t in pending}
        while pending:  # from the outputs that differ back through what differs, and through what was not compared
            t = pending.pop()
            if id(t) in index:
                result.leading.add(index[id(t)])
            for maker in t._inputs:
                for read in (*maker._inputs, *captured.get(id(maker), ())):
                    if id(read) not in seen and (id(read) not in index or result._beyond(result.rows[index[id(read)]])):
                        seen.add(id(read))
                        pending.append(read)
        return result

    def _row(self, tensor: Tensor) -> tuple[str, str, Difference | None]:
        other, difference = self.rows[id(tensor)]
        maker = tensor._inputs[0] if tensor._inputs else None
        return other, "nothing" if maker is None else f"{maker.op} '{maker.name}'", difference


def _second(run: Callable[[], T]) -> T:
    """Run the second model.

    Raises:
        EvaluationError: it does not run; the error says that it is the second.
    """
    try:
        return run()
    except MissingExtraError:
        raise
    except EvaluationError as error:
        raise EvaluationError(error.what, where=f"the second model{f' > {error.where}' if error.where else ''}", fix=error.fix) from error


def _evaluator(wanted: str | Evaluate) -> Evaluate:
    if not isinstance(wanted, str):
        return wanted
    if wanted not in EVALUATORS:
        raise GraphValueError(f"there is no evaluator '{wanted}'", fix=f"give one of {', '.join(EVALUATORS)}")
    return EVALUATORS[wanted]


def _computed(graph: Graph) -> list[Tensor]:
    return [t for n in graph.nodes for t in n._outputs if t._name and isinstance(t, Variable)]


def _pairs(graph: Graph, second: Graph) -> list[tuple[Tensor, Tensor]]:
    """Give the tensors that are meant to hold the same."""
    if second is graph:
        return [(t, t) for t in _computed(graph)]
    matching = match_models(graph, second)
    theirs = _computed(second)
    named = {t._name: t for t in theirs}
    by_value = {matching.computed[id(t)]: t for t in reversed(theirs)}
    ours = {matching.computed[id(t)] for t in _computed(graph)}
    pairs = []
    for t in _computed(graph):
        twin, same = matching.tensors.get(id(t)), by_value.get(matching.computed[id(t)])
        if same is not None:  # they compute the same, whatever their names
            pairs.append((t, twin if twin is not None and matching.computed.get(id(twin)) == matching.computed[id(t)] else same))
            continue
        candidates = [u for u in (twin, named.get(t._name)) if u is not None and not isinstance(u, Constant) and u._inputs]
        free = [u for u in candidates if matching.computed.get(id(u)) not in ours]  # and is not the twin of another
        found = next((u for u in free if _stands_for(t, u)), None)
        if found is not None:
            pairs.append((t, found))
    return pairs


def _stands_for(t: Tensor, u: Tensor) -> bool:
    """Whether a tensor may be meant to hold what another does, though they are computed otherwise."""
    mine, other = dtypes.of(t), dtypes.of(u)
    if (mine is not other and None not in {mine, other}) or (t.shape is not None and u.shape is not None and len(t.shape) != len(u.shape)):
        return False
    a, b = t._inputs[0], u._inputs[0]
    if (a.op, a.domain in ONNX_DOMAINS or a.domain) != (b.op, b.domain in ONNX_DOMAINS or b.domain):
        return t._name == u._name  # what spells an operator out keeps the name of the result
    if any(True for _ in walk.bodies(a)):
        return t._name == u._name  # a loop may carry its values in another order
    if [bool(x._name) for x in a._inputs] != [bool(x._name) for x in b._inputs]:
        return False  # it does a neighbor's work too, as a Conv that took over a bias
    return t._name == u._name or _same_attributes(a, b)


def _same_attributes(a: Node, b: Node) -> bool:
    """Whether two nodes have the same attributes, bodies apart."""
    if a.attrs.keys() != b.attrs.keys():
        return False
    return all(is_graph(value) or same_value(value, b.attrs[name]) for name, value in a.attrs.items())


def _run(graph: Graph, tensors: list[Tensor], run: Evaluate, feeds: Mapping[str, Any]) -> list[Any]:
    probe, names = with_outputs(graph, tensors)
    given = {t.name for t in probe.inputs}
    try:
        values = run(probe, {k: v for k, v in feeds.items() if k in given}, list(dict.fromkeys(names)))
    except EvaluationError as error:
        raise EvaluationError(f"the model does not run with its inner tensors as outputs: {error.what}", where=error.where, fix=error.fix) from error
    return [values[name] for name in names]


def _plot(rows: Sequence[Row], width: int, height: int) -> str:
    low, high = -8.0, 0.0
    left, bottom = 50, 24

    def y_of(relative: float) -> float:
        from math import isfinite, log10

        power = high if not isfinite(relative) else low if relative <= 0 else min(high, max(low, log10(relative)))
        return 10 + (high - power) / (high - low) * (height - bottom - 10)

    step = (width - left - 10) / max(1, len(rows) - 1)
    dots = "".join(
        f'<circle cx="{left + i * step:.1f}" cy="{y_of(r.difference.relative if r.difference else 0):.1f}" r="2" '
        f'fill="{"#1a7f37" if r.difference is None else "#cf222e"}"><title>{_text(r.name)}: {_text(str(r.difference or "equal"))}</title></circle>'
        for i, r in enumerate(rows)
    )
    ticks = "".join(
        f'<text x="{left - 6}" y="{y_of(10.0**p) + 4:.1f}" text-anchor="end">1e{p}</text><line x1="{left}" x2="{width}" y1="{y_of(10.0**p):.1f}" '
        f'y2="{y_of(10.0**p):.1f}" stroke="#ddd"/>'
        for p in range(int(low) + 2, 1, 2)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">{ticks}'
        f'<text x="{left - 6}" y="{y_of(0) + 4:.1f}" text-anchor="end">equal</text>'
        f'<text x="{left}" y="{height - 6}">tensors, in the order of the graph; relative error</text>{dots}</svg>'
    )


def _text(raw: str) -> str:
    return raw.replace("&", "&amp;").replace("<", "&lt;")
