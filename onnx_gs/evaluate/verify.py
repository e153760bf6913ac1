"""Whether two graphs compute the same, tried in ONNX Runtime on seeded inputs of several sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import EvaluationError, VerificationError
from onnx_gs.evaluate import feeds as _feeds, onnxruntime
from onnx_gs.evaluate.compare import Difference, compare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx_gs.ir import Graph


@dataclass
class Verdict:
    """What a verification found.

    Attributes:
        outputs: the first difference of each output that differs, by name.
        ran: how many sets of inputs both graphs ran on.
        skipped: why sets of inputs were left out: the first graph itself fails on them.
        worst: the largest absolute difference over all outputs.
        feeds: the inputs that were tried last; among them are those that both ran on.
    """

    outputs: dict[str, Difference] = field(default_factory=dict)
    ran: int = 0
    skipped: list[str] = field(default_factory=list)
    worst: float = 0.0
    feeds: Sequence[Mapping[str, Any]] = field(default=(), repr=False, compare=False)

    @property
    def same(self) -> bool:
        """Whether both graphs gave the same on at least one set of inputs, and nothing else on any."""
        return not self.outputs and self.ran > 0

    @property
    def result(self) -> str:
        """One of ``"same"``, ``"different"`` and ``"not run"``."""
        return "different" if self.outputs else "same" if self.ran else "not run"

    def as_dict(self) -> dict[str, Any]:
        """Give it as the command line's JSON has it."""
        return {"result": self.result, "runs": self.ran, "skipped": self.skipped, "outputs": {name: str(d) for name, d in self.outputs.items()}}

    def __str__(self) -> str:
        """Say what was found."""
        if self.outputs:
            name, found = next(iter(self.outputs.items()))
            return f"output '{name}' differs: {found}"
        if not self.ran:
            return f"could not be run: {self.skipped[0] if self.skipped else 'no inputs'}"
        return f"same on {self.ran} sets of inputs"


def verify(
    before: Graph,
    after: Graph,
    *,
    sets: int = 3,
    variants: int = 2,
    feeds: Sequence[Mapping[str, Any]] | None = None,
    dims: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    given: Mapping[str, Any] | None = None,
    absolute: float = 0.0,
    relative: float = 0.0,
) -> Verdict:
    """Run two graphs on the same inputs in ONNX Runtime, graph optimizations and weight prepacking off, and compare their outputs by position.

    Where the first graph runs on none of the inputs made up for it, smaller integers and larger sizes are tried.

    Args:
        before: the graph that is right.
        after: the other; it may lack inputs.
        sets: how many seeds.
        variants: how many sizes of the dims that are not fixed; they take turns with the seeds, and each is tried.
        feeds: inputs to use instead of made-up ones.
        dims: sizes of dims by name, one mapping for all variants or one each.
        given: values of inputs by name.
        absolute: absolute differences up to this are none.
        relative: relative differences up to this are none.

    Raises:
        EvaluationError: ``before`` cannot be loaded.
        MissingExtraError: ONNX Runtime is not installed.

    Example:
        >>> import numpy as np
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> def graph(op):
        ...     x, y = Variable("x", np.float32, ("n",)), Variable("y", np.float32, ("n",))
        ...     return Graph([Node(op, inputs=[x], outputs=[y])], [x], [y])
        >>> verify(graph("Neg"), graph("Neg")).same, verify(graph("Neg"), graph("Abs")).result
        (True, 'different')
    """
    verdict = Verdict()
    first = onnxruntime.session(before)
    try:
        second = onnxruntime.session(after, threads=first.threads)  # how sums are shared out among threads may decide their last digit
    except EvaluationError as error:
        verdict.outputs[before.outputs[0].name if before.outputs else ""] = Difference("kind", f"the graph can no longer be loaded: {error.what}")
        return verdict
    if len(first.outputs) != len(second.outputs):
        verdict.outputs[first.output_names[0] if first.outputs else ""] = Difference(
            "length", f"{len(first.outputs)} outputs against {len(second.outputs)}"
        )
        return verdict
    for tried in [feeds] if feeds is not None else _feeds.rounds(before, range(max(sets, variants)), variants, dims=dims, given=given):
        skipped = verdict.skipped
        verdict.feeds, verdict.skipped = tried, []
        _hold(verdict, first, second, absolute, relative)
        if verdict.result != "not run":
            break
        verdict.skipped = skipped + verdict.skipped
    return verdict


def _hold(verdict: Verdict, first: onnxruntime.Session, second: onnxruntime.Session, absolute: float, relative: float) -> None:
    """Run two sessions on the inputs of a verdict, and add what is found to it."""
    takes = set(second.input_names)
    for values in verdict.feeds:
        try:
            expected = first.compute([(t, values[t.name]) for t in first.inputs if t.name in values], first.outputs)
        except EvaluationError as error:
            verdict.skipped.append(error.what)
            continue
        try:
            found = second.compute([(t, values[t.name]) for t in second.inputs if t.name in values and t.name in takes], second.outputs)
        except EvaluationError as error:
            verdict.outputs.setdefault(first.output_names[0], Difference("kind", f"the graph no longer runs: {error.what}"))
            continue
        verdict.ran += 1
        for name, a, b in zip(first.output_names, expected, found):
            difference = compare(a, b)
            if difference is None:
                continue
            verdict.worst = max(verdict.worst, difference.absolute)
            if not difference.within(absolute, relative):
                verdict.outputs.setdefault(name, difference)


def require_same(before: Graph, after: Graph, **options: Any) -> Verdict:
    """Verify, and raise where the graphs differ.

    Args:
        before: the graph that is right.
        after: the other.
        options: as for ``verify``.

    Raises:
        VerificationError: an output differs, or nothing could be run.
    """
    verdict = verify(before, after, **options)
    if verdict.outputs:
        raise VerificationError(str(verdict))
    return verdict
