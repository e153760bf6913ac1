"""Passes in a row, passes until nothing changes, their spelling as text, and proof that they changed nothing that counts."""

from __future__ import annotations

import ast
import dataclasses
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.errors import EvaluationError, GraphValueError, VerificationError
from onnx_gs.evaluate import verify as verification
from onnx_gs.ir import walk
from onnx_gs.ir.show import Places
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.evaluate.verify import Verdict
    from onnx_gs.ir import Graph


@dataclass(frozen=True)
class Pipeline(Pass):
    """Run passes one after another.

    Args:
        passes: the passes, in order.
        verify: run the graph before and after in ONNX Runtime, on three seeded inputs and two sizes of every symbolic dim; where an output
            changed, find the pass and the node that changed it, and raise.
        absolute: absolute differences up to this are none, when verifying.
        relative: relative differences up to this are none, when verifying.

    Example:
        >>> str(Pipeline.of("infer-shapes,fold-constants{size-threshold=1024}", "cleanup"))
        'infer-shapes,fold-constants{size-threshold=1024},cleanup'
    """

    name: ClassVar[str] = "pipeline"
    passes: tuple[Pass, ...] = ()
    verify: bool = False
    absolute: float = 0.0
    relative: float = 0.0

    @classmethod
    def of(cls, *passes: Pass | str, verify: bool = False) -> Pipeline:
        """Make a pipeline of passes and of texts such as ``"fold-constants,cleanup"``.

        Raises:
            GraphValueError: a text names no pass, or an option that the pass does not have.
        """
        found: list[Pass] = []
        for p in passes:
            found.extend(parse(p) if isinstance(p, str) else [p])
        return cls(tuple(found), verify)

    def run(self, graph: Graph, report: Report) -> None:
        """Run the passes; with ``verify``, compare before and after.

        Raises:
            VerificationError: ``verify`` found an output that changed; it names the pass and the node.
        """
        before = graph.copy() if self.verify else None
        ran = run_all(self.passes, graph, report)
        if before is None:
            return
        verdict = self._compare(before, graph)
        if verdict is None or not verdict.outputs:
            return
        raise _blame(before, ran, self, verdict)

    def _compare(self, before: Graph, after: Graph) -> Verdict | None:
        try:
            return verification.verify(before, after, absolute=self.absolute, relative=self.relative)
        except EvaluationError:
            return None  # what does not run in the first place cannot be compared

    def __str__(self) -> str:
        """Spell the passes as text that ``parse`` reads."""
        return ",".join(map(str, self.passes))


@dataclass(frozen=True)
class Fixpoint(Pass):
    """Run passes again and again until a whole round changes nothing.

    It ends for sure: a round must note a rewrite and leave the model in a state that it was not in before, by number of nodes of each operator,
    edges and weights; and there are at most ``rounds`` of them.

    Args:
        passes: the passes of a round, in order.
        rounds: the most rounds.

    Example:
        >>> str(Fixpoint(Pipeline.of("fold-constants,cleanup").passes))
        '(fold-constants,cleanup)*'
    """

    name: ClassVar[str] = "fixpoint"
    passes: tuple[Pass, ...] = ()
    rounds: int = 50

    def run(self, graph: Graph, report: Report) -> None:
        """Run rounds until nothing changes."""
        self.run_leaves(graph, report, [])

    def run_leaves(self, graph: Graph, report: Report, ran: list[Pass]) -> None:
        """Run rounds until nothing changes, and note each pass that ran."""
        seen = {measure(graph)}
        for _ in range(self.rounds):
            changed = report.changed
            ran.extend(run_all(self.passes, graph, report))
            state = measure(graph)
            if report.changed == changed or state in seen:
                return
            seen.add(state)

    def __str__(self) -> str:
        """Spell the passes as text that ``parse`` reads."""
        return f"({','.join(map(str, self.passes))})*"


def check(before: Graph, after: Graph, ran: Sequence[Pass], *, absolute: float = 0.0, relative: float = 0.0) -> None:
    """Compare a graph with what passes made of it; nothing happens where it does not run in the first place.

    Args:
        before: the graph as it was.
        after: the graph as it is.
        ran: the passes that ran, in order.
        absolute: absolute differences up to this are none.
        relative: relative differences up to this are none.

    Raises:
        VerificationError: an output changed; it names the pass, found by bisection, and the node.
    """
    pipeline = Pipeline(verify=True, absolute=absolute, relative=relative)
    verdict = pipeline._compare(before, after)
    if verdict is not None and verdict.outputs:
        raise _blame(before, ran, pipeline, verdict)


def run_all(passes: Sequence[Pass], graph: Graph, report: Report) -> list[Pass]:
    """Run passes, and list those that ran, in order, with each round of a fixpoint spelled out."""
    ran: list[Pass] = []
    for p in passes:
        if isinstance(p, Fixpoint):
            p.run_leaves(graph, report, ran)
        elif isinstance(p, Pipeline) and not p.verify:
            ran.extend(run_all(p.passes, graph, report))
        else:
            p.apply(graph, report)
            ran.append(p)
    return ran


def measure(graph: Graph) -> tuple[Any, ...]:
    """Give what tells one state of a model from another for a fixpoint: nodes by operator, edges, weights, known shapes."""
    ops: dict[str, int] = {}
    edges = constants = shapes = 0
    for g in walk.graphs(graph, functions=True):
        for node in g.nodes:
            ops[node.op] = ops.get(node.op, 0) + 1
            edges += len(node._inputs)
            constants += sum(isinstance(t, Constant) for t in node._inputs)
            shapes += sum(t.shape is not None and sum(isinstance(d, int) for d in t.shape) + 1 for t in node._outputs)
    return (tuple(sorted(ops.items())), edges, constants, shapes)


# -- text -----------------------------------------------------------------------------------------


def parse(text: str) -> tuple[Pass, ...]:
    """Read passes from text: names, options in braces, ``(…)*`` for a fixpoint.

    Args:
        text: such as ``"infer-shapes,(fold-constants{max-growth=0},cleanup)*"``.

    Raises:
        GraphValueError: a name is no pass, an option is none of its, or a bracket is not closed.

    Example:
        >>> [type(p).__name__ for p in parse("infer-shapes,(fold-constants,cleanup)*")]
        ['InferShapes', 'Fixpoint']
    """
    return tuple(_one(part) for part in _parts(text, ",") if part.strip())


def _parts(text: str, separator: str) -> list[str]:
    """Split at separators that stand outside brackets and quotes."""
    found, start, stack, quote = [], 0, [], ""
    for at, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "({[":
            stack.append(")}]"["({[".index(c)])
        elif stack and c == stack[-1]:
            stack.pop()
        elif c in ")}]":
            raise GraphValueError(f"'{c}' closes nothing in '{text}'")
        elif c == separator and not stack:
            found.append(text[start:at])
            start = at + 1
    if stack or quote:
        raise GraphValueError(f"'{(stack[-1] if stack else quote)}' is missing in '{text}'")
    return [*found, text[start:]]


def _one(text: str) -> Pass:
    from onnx_gs.passes import catalogue

    text = text.strip()
    if text.startswith("(") and text.endswith(")*"):
        return Fixpoint(parse(text[1:-2]))
    name, brace, rest = text.partition("{")
    kind = catalogue.find(name.strip())
    if kind is None:
        raise GraphValueError(f"'{name.strip()}' is no pass", fix=other_names(name.strip(), sorted(p.name for p in catalogue.PASSES)))
    if not brace:
        return kind()
    if not rest.endswith("}"):
        raise GraphValueError(f"text after the options in '{text}'", fix="separate passes with commas")
    fields = {f.name for f in dataclasses.fields(kind)}
    options = {}
    for part in _parts(rest[:-1], ","):
        key, equals, value = part.partition("=")
        field = key.strip().replace("-", "_")
        if field not in fields or not equals:
            raise GraphValueError(f"pass '{kind.name}' has no option '{key.strip()}'", fix=f"its options are {', '.join(sorted(fields)) or 'none'}")
        options[field] = _value(value.strip())
    return kind(**options)


def other_names(wanted: str, known: Sequence[str]) -> str:
    """Say which pass may be meant by a name that none has, or which there are.

    Example:
        >>> other_names("fold_constants", ["cleanup", "fold-constants"]), other_names("qqq", ["cleanup", "fold-constants"])
        ("did you mean 'fold-constants'?", 'the passes are cleanup, fold-constants')
    """
    near = get_close_matches(wanted.lower().replace("_", "-").replace(" ", "-"), known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"the passes are {', '.join(known)}"


_WORDS = {"true": True, "false": False, "none": None}


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


# -- blame ----------------------------------------------------------------------------------------


def _blame(before: Graph, ran: Sequence[Pass], pipeline: Pipeline, verdict: Verdict) -> VerificationError:
    """Find the pass, by bisection over those that ran, and the node that changed an output."""

    def after(count: int) -> Graph:
        graph = before.copy()
        run_all(ran[:count], graph, Report(graph))
        return graph

    right, wrong = 0, len(ran)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        found = pipeline._compare(before, after(middle))
        if found is not None and found.outputs:
            wrong = middle
        else:
            right = middle
    good, bad = after(right), after(wrong)
    name, difference = next(iter(verdict.outputs.items()))
    where = first_difference(good, bad, pipeline)
    return VerificationError(
        f"pass '{ran[wrong - 1]}' changed output '{name}': {difference}", where=where, fix="leave the pass out, and report the model"
    )


def first_difference(before: Graph, after: Graph, pipeline: Pipeline) -> str | None:
    """Give the path of the first node, in order, one of whose outputs has a namesake in the graph before that held something else."""
    present = {t.name for node in before.nodes for t in node.outputs if t.name} | {t.name for t in before.inputs}
    watched = [(node, t) for node in after.nodes for t in node.outputs if t.name in present and t.name]
    if not watched:
        return None
    names = list(dict.fromkeys(t.name for _, t in watched))
    try:
        found = verification.verify(_watching(before, names), _watching(after, names), absolute=pipeline.absolute, relative=pipeline.relative)
    except EvaluationError:
        return None
    for node, t in watched:
        if t.name in found.outputs:
            return f"{Places(after).node(after, node)}, tensor '{t.name}'"
    return None


def _watching(graph: Graph, names: Sequence[str]) -> Graph:
    """Give a copy of a graph that returns the named tensors."""
    copied = graph.copy()
    made = {t.name: t for node in copied.nodes for t in node.outputs} | {t.name: t for t in copied.inputs}
    copied.outputs = [made[name] for name in names]
    return copied
