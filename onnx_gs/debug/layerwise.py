"""Run two models, or one model in two evaluators, side by side, and find the first tensor that differs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.debug.capture import with_outputs
from onnx_gs.debug.matching import match_tensors
from onnx_gs.errors import EvaluationError, GraphValueError
from onnx_gs.evaluate import feeds as feeds_of, onnxruntime, reference
from onnx_gs.evaluate.compare import Difference, compare
from onnx_gs.ir.node import ONNX_DOMAINS, is_graph, same_value
from onnx_gs.ir.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

LOGGER = logging.getLogger("onnx_gs")
Evaluate = Callable[["Graph", Mapping[str, Any], Sequence[str]], dict[str, Any]]


def _ort(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    return onnxruntime.run(graph, feeds, outputs)


def _ort_optimized(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    return onnxruntime.session(graph, optimize=True).run(feeds, outputs)


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
        rows: one a tensor.
        unmatched: tensors of the first model that the second does not have.
        tolerance: absolute and relative difference that still counts as equal.
    """

    rows: list[Row] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    tolerance: tuple[float, float] = (0.0, 0.0)

    @property
    def differing(self) -> list[Row]:
        """List the rows beyond the tolerance."""
        return [r for r in self.rows if r.difference is not None and not r.difference.within(*self.tolerance)]

    @property
    def first(self) -> Row | None:
        """Give the first row beyond the tolerance."""
        return next(iter(self.differing), None)

    def __str__(self) -> str:
        """Say how many differ, and the first."""
        first = self.first
        if first is None:
            return f"{len(self.rows)} tensors compared, none differs"
        assert first.difference is not None
        what = f"'{first.name}', made by {first.producer}: {first.difference}"
        return f"{len(self.rows)} tensors compared, {len(self.differing)} differ; the first is {what}"

    def as_dict(self) -> dict[str, Any]:
        """Give plain data for JSON."""

        def plain(row: Row) -> dict[str, Any]:
            return {**asdict(row), "difference": None if row.difference is None else asdict(row.difference)}

        return {"compared": len(self.rows), "differing": [plain(r) for r in self.differing], "unmatched": self.unmatched}

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
) -> Comparison:
    """Compare every tensor of the main graph in two runs; tensors in bodies and functions are not looked at.

    Args:
        graph: the first model; its order is the order of the result.
        other: the second model, by default the same; its tensors are matched by what they compute and by name, so renaming does no harm.
        feeds: values of the inputs; by default seeded random ones.
        evaluators: what runs the first and the second: names from ``EVALUATORS``, or callables ``(graph, feeds, output names) -> values``.
        absolute: absolute difference that still counts as equal.
        relative: relative difference that still counts as equal.
        batch: how many tensors are kept at a time, which bounds the memory.

    Raises:
        GraphValueError: an evaluator's name is unknown.
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
    values = dict(feeds) if feeds is not None else feeds_of.make(graph)
    pairs, unmatched = _pairs(graph, second)
    result = Comparison(unmatched=unmatched, tolerance=(absolute, relative))
    for start in range(0, len(pairs), batch):
        part = pairs[start : start + batch]
        ours = _run(graph, [a for a, _ in part], run_a, values)
        theirs = _run(second, [b for _, b in part], run_b, values)
        for at, ((a, b), x, y) in enumerate(zip(part, ours, theirs)):
            if a._name != b._name and isinstance(x, list) is not isinstance(y, list):  # a list became a tensor: no twins
                result.unmatched.append(a._name)
                continue
            maker = a._inputs[0]
            result.rows.append(Row(start + at, a.name, b.name, f"{maker.op} '{maker.name}'", compare(x, y)))
    return result


def _evaluator(wanted: str | Evaluate) -> Evaluate:
    if not isinstance(wanted, str):
        return wanted
    if wanted not in EVALUATORS:
        raise GraphValueError(f"there is no evaluator '{wanted}'", fix=f"give one of {', '.join(EVALUATORS)}")
    return EVALUATORS[wanted]


def _pairs(graph: Graph, second: Graph) -> tuple[list[tuple[Tensor, Tensor]], list[str]]:
    computed: list[Tensor] = [t for n in graph.nodes for t in n._outputs if t._name and isinstance(t, Variable)]
    if second is graph:
        return [(t, t) for t in computed], []
    twins = match_tensors(graph, second)
    named = {t._name: t for n in second.nodes for t in n._outputs if t._name}
    pairs, unmatched = [], []
    for t in computed:
        twin = twins.get(id(t))
        if twin is None or not twin._inputs or (twin._name != t._name and not _same_operation(t._inputs[0], twin._inputs[0])):
            twin = named.get(t._name)  # a different node in its place need not make the same value
        if twin is None or isinstance(twin, Constant) or not twin._inputs:
            unmatched.append(t._name)
        else:
            pairs.append((t, twin))
    return pairs, unmatched


def _same_operation(a: Node, b: Node) -> bool:
    """Whether two nodes are of one operator with the same attributes, bodies apart."""
    if (a.op, a.domain in ONNX_DOMAINS or a.domain) != (b.op, b.domain in ONNX_DOMAINS or b.domain) or a.attrs.keys() != b.attrs.keys():
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
