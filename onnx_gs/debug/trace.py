"""Every rewrite of a pipeline, step by step: recorded, replayed, and a bad result traced to the one rewrite."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.debug.diff import diff
from onnx_gs.errors import EvaluationError, GraphValueError, OnnxGsError
from onnx_gs.evaluate import verify as verification
from onnx_gs.ir import verify, walk
from onnx_gs.ir.edit import StopRewriting
from onnx_gs.passes.base import Entry, Pass, Report
from onnx_gs.passes.pipeline import Fixpoint, Pipeline, parse

if TYPE_CHECKING:
    import os

    from onnx_gs.ir.graph import Graph

IsGood = Callable[["Graph"], bool]


@dataclass(frozen=True)
class Step:
    """One pass of a pipeline, as it ran.

    Attributes:
        text: the pass with its options, as ``parse`` reads it.
        nodes: how many nodes there were before and after, bodies and functions included.
        rewritten: what it rewrote, in order.
        declined: what it left alone, and why.
        changes: the model before and after, as ``diff`` tells it; only where asked for.
        seconds: how long it took.
    """

    text: str
    nodes: tuple[int, int]
    rewritten: tuple[Entry, ...]
    declined: tuple[Entry, ...]
    changes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Culprit:
    """The rewrite that made a good model bad.

    Attributes:
        step: number of the pass in the trace.
        text: the pass.
        rewrite: the one rewrite, where the pass can be stopped between two of them.
        difference: what changed, where the result was compared in ONNX Runtime.
    """

    step: int
    text: str
    rewrite: Entry | None
    difference: str = ""

    def __str__(self) -> str:
        """Name pass and rewrite."""
        at = f": {self.rewrite.path}" + (f" ({self.rewrite.reason})" if self.rewrite.reason else "") if self.rewrite is not None else ""
        return f"step {self.step}, pass '{self.text}'{at}" + (f": {self.difference}" if self.difference else "")


@dataclass
class Trace:
    """What a pipeline did to a model.

    Attributes:
        steps: one a pass that ran.
        original: the model before; not part of the file.
    """

    steps: list[Step] = field(default_factory=list)
    original: Graph | None = None

    def __str__(self) -> str:
        """Show the steps that changed something, one a line."""
        lines = [f"{k}: {s.text}: {s.nodes[0]} -> {s.nodes[1]} nodes, {len(s.rewritten)} rewrites" for k, s in enumerate(self.steps) if s.rewritten]
        return "\n".join(lines) or "nothing was rewritten"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the steps as JSON."""
        Path(path).write_text(json.dumps({"version": 1, "steps": [_stored(s) for s in self.steps]}, indent=1))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Trace:
        """Read what ``save`` wrote.

        Raises:
            GraphValueError: the file is no trace.
        """
        try:
            content = json.loads(Path(path).read_text())
            return Trace([_step(s) for s in content["steps"]])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise GraphValueError(f"'{path}' is no trace: {error}", fix="give a file that Trace.save wrote") from error

    def replay(self, graph: Graph, steps: int | None = None) -> Graph:
        """Give a copy of a model with the first steps done again; the same model gives the same result.

        Args:
            graph: the model that the trace began with.
            steps: how many; all by default.
        """
        done = graph.copy()
        for step in self.steps[:steps]:
            for p in parse(step.text):
                p.apply(done, Report(done))
        return done

    def blame(self, graph: Graph | None = None, is_good: IsGood | None = None, *, absolute: float = 0.0, relative: float = 0.0) -> Culprit | None:
        """Find, by bisection over the passes and then over the rewrites of the one, what made the result bad.

        Args:
            graph: the model that the trace began with; by default the one recorded.
            is_good: judges a model; by default its outputs must equal those of the original in ONNX Runtime.
            absolute: absolute difference that still counts as equal.
            relative: relative difference that still counts as equal.

        Returns:
            The culprit; None when the result is good.

        Raises:
            GraphValueError: there is no model to begin with, or it is bad itself.
        """
        start = graph if graph is not None else self.original
        if start is None:
            raise GraphValueError("a trace from a file has no model", fix="give the model that it began with")
        judge = _Judge(start, is_good, absolute, relative)
        if judge.is_good(self.replay(start)):
            return None
        if not judge.is_good(start.copy()):
            raise GraphValueError("the model is bad before any pass ran", fix="trace a model that is good to begin with")
        right, wrong = 0, len(self.steps)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if judge.is_good(self.replay(start, middle)):
                right = middle
            else:
                wrong = middle
        return self._within(self.replay(start, right), right, judge)

    def _within(self, before: Graph, at: int, judge: _Judge) -> Culprit:
        """Bisect over the rewrites of one pass."""
        step = self.steps[at]
        total = _limited(before.copy(), step.text, None)
        right, wrong = 0, len(total)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            trial = before.copy()
            _limited(trial, step.text, middle)
            if verify.problems(trial):  # the pass does not stop between two rewrites, so the pass is all that can be told
                return Culprit(at, step.text, None, judge.said)
            if judge.is_good(trial):
                right = middle
            else:
                wrong = middle
        return Culprit(at, step.text, total[wrong - 1] if total else None, judge.said)


class _Judge:
    def __init__(self, original: Graph, is_good: IsGood | None, absolute: float, relative: float) -> None:
        self.original, self.given = original, is_good
        self.absolute, self.relative = absolute, relative
        self.said = ""

    def is_good(self, graph: Graph) -> bool:
        if self.given is not None:
            return bool(self.given(graph))
        try:
            verdict = verification.verify(self.original, graph, absolute=self.absolute, relative=self.relative)
        except EvaluationError as error:
            self.said = error.what
            return False
        if verdict.outputs:
            name, difference = next(iter(verdict.outputs.items()))
            self.said = f"output '{name}': {difference}"
        return not verdict.outputs


class _LimitedReport(Report):
    """Ends the pass before its rewrite number ``limit``, counted from 0."""

    limit: int | None = None

    def rewrote(self, graph: Any, node: Any, what: str = "") -> None:
        if self.limit is not None and len(self.rewritten) >= self.limit:
            raise StopRewriting
        super().rewrote(graph, node, what)


def _limited(graph: Graph, text: str, limit: int | None) -> list[Entry]:
    report = _LimitedReport(graph)
    report.limit = limit
    try:
        for p in parse(text):
            p.apply(graph, report)
    except StopRewriting:
        pass
    return list(report.rewritten)


def _stored(step: Step) -> dict[str, Any]:
    return {**asdict(step), **{key: [entry._asdict() for entry in getattr(step, key)] for key in ("rewritten", "declined")}}


def _step(content: dict[str, Any]) -> Step:
    entries = {key: tuple(Entry(**e) for e in content[key]) for key in ("rewritten", "declined")}
    return Step(content["text"], tuple(content["nodes"]), changes=tuple(content["changes"]), seconds=content["seconds"], **entries)


def trace(graph: Graph, *passes: Pass | str, changes: bool = False) -> Trace:
    """Run passes on a model, in place, and record every rewrite.

    Args:
        graph: the model.
        passes: passes, pipelines and fixpoints, or their text.
        changes: also record what each pass changed as differences of the model before and after, which takes longer.

    Example:
        >>> import numpy as np
        >>> import onnx_gs as gs
        >>> x, h, y = (gs.Variable(n, np.float32, (2,)) for n in "xhy")
        >>> graph = gs.Graph([gs.Node("Identity", "id", inputs=[x], outputs=[h]), gs.Node("Abs", inputs=[h], outputs=[y])], [x], [y], opset=18)
        >>> found = trace(graph, "eliminate-identity,cleanup")
        >>> [entry.node for step in found.steps for entry in step.rewritten]
        ['id']
    """
    recorded = Trace(original=graph.copy())
    for p in Pipeline.of(*passes).passes:
        _run(p, graph, recorded, changes=changes)
    return recorded


def _run(p: Pass, graph: Graph, recorded: Trace, *, changes: bool) -> int:
    """Run one pass, or what it consists of, and count its rewrites."""
    if isinstance(p, Fixpoint):
        return _run_rounds(p, graph, recorded, changes=changes)
    if isinstance(p, Pipeline):
        return sum(_run(inner, graph, recorded, changes=changes) for inner in p.passes)
    before = graph.copy() if changes else None
    count, began = _count(graph), time.perf_counter()
    report = Report(graph)
    try:
        p.apply(graph, report)
    except OnnxGsError as error:
        error.where = f"pass '{p}' > {error.where}" if error.where else f"pass '{p}'"
        raise
    told = tuple(str(c) for c in diff(before, graph, constants=True).changes) if before is not None else ()
    recorded.steps.append(
        Step(str(p), (count, _count(graph)), tuple(report.rewritten), tuple(report.declined), told, time.perf_counter() - began)
    )
    return len(report.rewritten)


def _run_rounds(p: Fixpoint, graph: Graph, recorded: Trace, *, changes: bool) -> int:
    total = 0
    for _ in range(p.rounds):
        done = sum(_run(inner, graph, recorded, changes=changes) for inner in p.passes)
        total += done
        if not done:
            break
    return total


def _count(graph: Graph) -> int:
    return sum(len(g.nodes) for g in walk.graphs(graph, functions=True))
