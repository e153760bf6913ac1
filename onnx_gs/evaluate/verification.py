"""Did a rewrite keep what the model computes? Both are run in ONNX Runtime on the same inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import EvaluationError, VerificationError
from onnx_gs.evaluate import feeds, onnxruntime
from onnx_gs.evaluate.compare import difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_gs.ir import Graph

SEEDS = 3
#: Sizes of the symbolic dims: two to hold against each other, then what stricter models may take. Symbols get different sizes first.
_SPREADS = ((2, 1), (5, 1), (2, 0), (3, 0), (4, 0), (1, 0), (8, 0), (16, 0))


@dataclass(frozen=True)
class Verification:
    """What was compared, and that it was the same.

    Attributes:
        runs: how many inputs both models were run on.
        dims: the sizes of the symbolic dims in each run.
        outputs: the outputs that were compared.
        random: the outputs that differ from run to run of the model itself, so that they say nothing.
        exact: whether all were the same bit for bit.
        worst: the largest difference, where a tolerance allowed one.
    """

    runs: int
    dims: tuple[dict[str, int], ...]
    outputs: tuple[str, ...]
    random: tuple[str, ...] = ()
    exact: bool = True
    worst: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Give the fields as the command line's JSON has them."""
        return {
            "same": True, "exact": self.exact, "runs": self.runs, "dims": list(self.dims), "outputs": list(self.outputs), "random": list(self.random),
            **({"worst": self.worst} if self.worst else {}),
        }  # fmt: skip


def verify(before: Graph, after: Graph, *, absolute: float = 0.0, relative: float = 0.0) -> Verification:
    """Run two models on the same inputs, three times, with two sizes of every symbolic dim, and compare all outputs.

    Args:
        before: the model as it was.
        after: the model as it is.
        absolute: how far values may lie apart; 0 asks for the same bits.
        relative: the same, relative to the expected value.

    Returns:
        What was compared.

    Raises:
        VerificationError: an output differs, or the second model fails where the first does not; the first output that differs is named.
        EvaluationError: no inputs were found that the first model runs on.
        MissingExtraError: ONNX Runtime is not installed.

    Example:
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y = Variable("x", "float32", ("n",)), Variable("y", "float32", ("n",))
        >>> graph = Graph([Node("Neg", inputs=[x], outputs=[y])], [x], [y])
        >>> verify(graph, graph.copy()).dims
        ({'n': 2}, {'n': 5}, {'n': 2})
    """
    names = [t.name for t in before.outputs]
    if names != [t.name for t in after.outputs]:
        raise VerificationError(f"outputs are {[t.name for t in after.outputs]} instead of {names}")
    old, new = onnxruntime.session(before, threads=1), _ready(after)
    sizes: list[dict[str, int]] = []
    unstable: dict[str, None] = {}
    worst = ""
    for dims, fed, expected in _runs(before, old):
        again = old.run(fed)
        unstable.update({name: None for name in names if difference(expected[name], again[name]) is not None})
        found = _found(new, fed, dims)
        for name in names:
            gap = None if name in unstable else difference(expected[name], found[name])
            if gap is None:
                continue
            if not gap.is_close(absolute, relative):
                raise VerificationError(f"output '{name}' changed: {gap}", where=_where(dims))
            worst = worst or f"output '{name}': {gap}"
        sizes.append(dims)
    return Verification(len(sizes), tuple(sizes), tuple(n for n in names if n not in unstable), tuple(unstable), not worst, worst)


def _ready(after: Graph) -> onnxruntime.Session:
    try:
        return onnxruntime.session(after, threads=1)
    except EvaluationError as error:
        raise VerificationError(f"the rewritten model does not load: {error.what}", where=error.where) from error


def _found(new: onnxruntime.Session, fed: dict[str, Any], dims: dict[str, int]) -> dict[str, Any]:
    known = set(new.input_names)
    try:
        return new.run({name: value for name, value in fed.items() if name in known})
    except EvaluationError as error:
        raise VerificationError(f"the rewritten model fails where the model does not: {error.what}", where=error.where or _where(dims)) from error


def _where(dims: dict[str, int]) -> str | None:
    return f"inputs with {', '.join(f'{name} = {size}' for name, size in dims.items())}" if dims else None


def _runs(graph: Graph, session: onnxruntime.Session) -> Iterator[tuple[dict[str, int], dict[str, Any], dict[str, Any]]]:
    """Give sizes, inputs and results of the runs: those of ``SEEDS`` first tries that the model takes."""
    names = feeds.symbols(graph)
    spreads = _SPREADS if names else ((1, 0), (1, 0), (1, 0))
    tries = [*spreads[:2], spreads[0], *spreads[2:]] if names else list(spreads)
    done = 0
    reason: EvaluationError | None = None
    for seed, (first, step) in enumerate(tries):
        dims = {name: first + step * k for k, name in enumerate(names)}
        for most in (4, 2, 1):  # integers may be indices into something small
            fed = feeds.generate(graph, seed, dims, most=most)
            try:
                expected = session.run(fed)
            except EvaluationError as error:
                reason = reason or error
                continue
            yield dims, fed, expected
            done += 1
            break
        if done == SEEDS:
            return
    if not done:
        raise EvaluationError(
            f"the model cannot be verified, as it does not run on generated inputs: {reason.what if reason else 'it takes none'}",
            where=reason.where if reason else None,
            fix="leave verification out, or give the inputs shapes that fit together",
        )
