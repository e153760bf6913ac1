"""What the commands that rewrite a model have in common: read, rewrite, verify, write, tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_gs.cli import models, options as shared
from onnx_gs.cli.report import counted, size
from onnx_gs.errors import EvaluationError, GraphValueError, VerificationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from onnx_gs.cli.report import Session
    from onnx_gs.evaluate.verify import Verdict
    from onnx_gs.graph import Graph
    from onnx_gs.passes.base import Report

    Rewrite = Callable[[Graph, Report], None]


class Stated(NamedTuple):
    """What the user states about a model's inputs.

    Attributes:
        dims: sizes of dims, by their name or by the input and axis.
        values: values of inputs.
    """

    dims: Mapping[str, int] = {}
    values: Mapping[str, Any] = {}


def rewrite(
    options: argparse.Namespace,
    session: Session,
    what: Rewrite,
    stated: Stated | None = None,
    *,
    tolerant: bool | Callable[[Report], bool] = False,
    wanted: Callable[[Report], bool] | None = None,
) -> tuple[Graph, Report]:
    """Rewrite the model that the options name, and write the result where they say.

    Args:
        options: with ``model``, ``output``, ``external_data``, ``verify`` and ``feeds``.
        session: where to tell it.
        what: the rewrite, such as ``apply`` of a pass.
        stated: what the user states about the inputs, and the rewrite makes the model rely on.
        tolerant: whether it reorders float arithmetic on purpose; may be asked when it is done.
        wanted: asked when the rewrite is done; where it says no, nothing is written.

    Returns:
        The rewritten graph and the report.

    Raises:
        VerificationError: ``--verify`` found a difference; nothing was written then.
        GraphValueError: ``--feeds`` is given without ``--verify``, or has something that is no input.
    """
    from onnx_gs.passes.base import Report
    from onnx_gs.passes.bind_dims import bind_axes, resolve

    models.check_output(options)
    graph = models.read(options.model, session)
    before = summary(graph)
    given = shared.read_feeds(options.feeds, graph)
    if given and not options.verify:
        raise GraphValueError("--feeds are for --verify, which is not given", fix="give both, or neither")
    original = graph.copy() if options.verify else None
    report = Report(graph)
    with session.progress("rewriting", lambda: f"{report.current}, {len(report.rewritten):,} rewrites" if report.current else ""):
        what(graph, report)
    session.put_report(report)
    if wanted is not None and not wanted(report):
        session.put(result={"output": None, "before": before})
        session.show_report(report)
        session.say("nothing written", style="bold")
        return graph, report
    verified: list[tuple[str, str]] = []
    if original is not None:
        stated = stated or Stated()
        close = tolerant(report) if callable(tolerant) else tolerant
        names, axes = resolve(original, stated.dims)
        bind_axes(original, axes)  # what has no name is made up by what is declared
        verified = verify(original, graph, session, Stated(names, {**given, **stated.values}), tolerant=close)
    models.write(graph, options, session)
    after = summary(graph)
    session.put(result={"output": options.output, "before": before, "after": after})
    session.show_report(report)  # only now: where something is refused, the error is all there is to read
    for line, style in verified:
        session.say(line, style=style)
    session.say(
        f"{options.model} → {options.output}: {before['nodes']:,} → {after['nodes']:,} nodes, "
        f"{size(before['weight_bytes'])} → {size(after['weight_bytes'])} of weights",
        style="bold",
    )
    session.say("  (counting nodes in bodies and functions, but not Constant nodes)")
    return graph, report


def summary(graph: Graph) -> dict[str, int]:
    """Count nodes (``Constant`` nodes apart, bodies and functions included) and the bytes of weights."""
    from onnx_gs.cli.inspect import weights

    return {"nodes": models.node_count(graph), "weight_bytes": sum(stored for stored, _, _ in weights(graph))}


def verify(before: Graph, after: Graph, session: Session, stated: Stated | None = None, *, tolerant: bool = False) -> list[tuple[str, str]]:
    """Compare two models in ONNX Runtime.

    Args:
        before: the model as it was.
        after: the model as it is.
        session: whose JSON object gets the verdict.
        stated: sizes of dims and values of inputs that both shall be run with.
        tolerant: whether float arithmetic was reordered on purpose, so that results may differ in the last digits.

    Returns:
        The lines that tell it, each with its style.

    Raises:
        VerificationError: they differ.
        EvaluationError: the model runs on none of the inputs that were made up for it.
        MissingExtraError: ONNX Runtime is not installed.
    """
    from onnx_gs.evaluate.verify import verify as compare

    stated = stated or Stated()
    bounds: dict[str, Any] = {"absolute": 1e-5, "relative": 1e-3} if tolerant else {}
    with session.progress("verifying"):
        verdict = compare(before, after, dims=stated.dims, given=stated.values, **bounds)
        random = _random_outputs(before, verdict.feeds) if verdict.outputs else []
    if verdict.result == "not run":
        raise _no_run(before, stated, verdict)
    for name in random:
        verdict.outputs.pop(name, None)
    session.put(verify={**verdict.as_dict(), "random": random})
    if verdict.outputs:
        raise VerificationError(str(verdict), fix="report it with the model; --only and --skip find the pass that did it")
    how = f"at most {verdict.worst:.3g} apart" if verdict.worst else "the same bit for bit"
    lines = [(f"verified: {how} in {counted(verdict.ran, 'run')} (ONNX Runtime, optimizations and weight prepacking off)", "green")]
    if verdict.skipped:
        lines.append((f"  it does not run on {len(verdict.skipped)} of the inputs made up for it: {verdict.skipped[0]}", "yellow"))
    if random:
        lines.append((f"  not compared, as they differ from run to run: {', '.join(random)}", "yellow"))
    return lines


def _no_run(before: Graph, stated: Stated, verdict: Verdict) -> EvaluationError:
    """Say that the model runs on no inputs, whose they are, and what helps."""
    from onnx_gs.ir.shapes import is_static_dim

    made_up = shared.names_made_up(before, stated.values)
    given = "the values given" + (f", with {made_up} made up" if made_up else "")
    whose = given if stated.values else "the inputs made up for it"
    free = any(not is_static_dim(dim) and dim not in stated.dims for t in before.inputs for dim in t.shape or ())
    by_size = ", sizes with --bind DIM=N (of `bind`, `lower` and `prepare`)" if made_up and free else ""
    return EvaluationError(
        f"the model cannot be verified, as it runs on none of {whose}: {verdict.skipped[0] if verdict.skipped else 'it takes none'}",
        fix=f"give values {f'of {made_up} ' if made_up else ''}that it runs on with --feeds FILE.npz{by_size}, or leave --verify out",
    )


def _random_outputs(graph: Graph, fed: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the outputs in which the model differs from itself."""
    from onnx_gs.evaluate.verify import verify as compare

    return list(compare(graph, graph.copy(), feeds=fed).outputs)
