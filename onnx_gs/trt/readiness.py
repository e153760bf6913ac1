"""Is a model ready for TensorRT? Every blocker and every silent difference, from the table and from the library where it is installed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import TensorRTError
from onnx_gs.ir import Graph
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.trt import capability, model_source, parser_errors, profiles, tensorrt
from onnx_gs.trt.capability import ROWS, Target, target_of
from onnx_gs.trt.facts import ModelFacts
from onnx_gs.trt.findings import Finding
from onnx_gs.trt.rules import examine, nothing_to_say
from onnx_gs.trt.session import Session, first_error, interruptible
from onnx_gs.trt.validity import malformed

if TYPE_CHECKING:
    from onnx_gs.trt.options import BuildOptions
    from onnx_gs.trt.parser_errors import Complaint


@dataclass
class Readiness:
    """What ``check`` found.

    Attributes:
        target: what it checked for.
        blockers: what stops TensorRT; each names its row, node, tensor and remedy.
        warnings: what builds, but is not what ONNX says.
        notes: what was not checked, and what the library takes although the table says it would not.
        checked_by: ``"table"``, and ``"parser"`` and ``"builder"`` where they gave their verdict.
        seconds: wall time.
    """

    target: Target
    blockers: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checked_by: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ready(self) -> bool:
        """Say whether nothing blocks."""
        return not self.blockers

    @property
    def how(self) -> str:
        """Say what the model was checked by."""
        asked = [by for by in self.checked_by if by != "table"]
        return f"by what is known of {self.target}" + (f", and by TensorRT's {' and '.join(asked)}" if asked else "; TensorRT itself was not asked")

    def passes(self) -> list[str]:
        """List the passes that the blockers name, in order, each once."""
        return list(dict.fromkeys(name for blocker in self.blockers for name in blocker.passes))

    def as_dict(self) -> dict[str, Any]:
        """Give plain data, for JSON."""
        return {
            "target": str(self.target),
            "ready": self.ready,
            "blockers": [b.as_dict() for b in self.blockers],
            "warnings": [w.as_dict() for w in self.warnings],
            "notes": list(self.notes),
            "checked_by": list(self.checked_by),
        }

    def __str__(self) -> str:
        """Show everything."""
        head = f"ready for {self.target}" if self.ready else f"{len(self.blockers)} blocker{'s' if len(self.blockers) > 1 else ''} for {self.target}"
        lines = [f"{head} (checked {self.how})"]
        lines += [f"blocker: {b}" for b in self.blockers]
        lines += [f"warning: {w}" for w in self.warnings]
        lines += [f"note: {n}" for n in self.notes]
        return "\n".join(lines)


def check(model: Any, target: str | Target | None = None, *, static: bool = False, build: bool = True, **settings: Any) -> Readiness:
    """Say what stands between a model and TensorRT.

    Args:
        model: a graph, or a path, bytes or ``onnx.ModelProto``; it is not changed.
        target: such as ``"rtx-1.7"`` or ``"tensorrt-10.3"``; None for the installed library, else the newest full TensorRT of the table.
        static: use the table only, also where TensorRT is installed.
        build: let the builder try too; False stops after the parser, which is quicker on large models.
        settings: fields of ``BuildOptions`` for that try, such as ``shapes``.

    Raises:
        OnnxGsError: the model cannot be read, or is none.
        GraphValueError: there is no such target, or a setting makes no sense.

    Example:
        >>> import numpy as np
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y = Variable("x", np.float32, (2,)), Variable("y", np.float32, (2,))
        >>> found = check(Graph([Node("Det", inputs=[x], outputs=[y])], [x], [y]), "rtx-1.7", static=True)
        >>> found.blockers[0].id, found.blockers[0].path
        ('unsupported-op', "graph 'onnx_graphsurgeon_graph' > node #0 (Det)")
    """
    from onnx_gs.trt.options import merged

    started = time.perf_counter()
    options = merged(None, settings)
    wanted = target_of(target, load=not static)
    result = Readiness(wanted, checked_by=["table"])
    newer = capability.note_on(wanted)
    if newer is not None:
        result.notes.append(newer)
    graph = model if isinstance(model, Graph) else _opened(model, wanted if static else None)
    if graph is not None:
        with collector_paused():  # each of its rounds would look through the whole graph
            facts = ModelFacts(graph)
            result.blockers += malformed(facts)
            if result.blockers:
                result.seconds = time.perf_counter() - started
                return result
            for found in _distinct(examine(facts, wanted)):
                (result.blockers if ROWS[found.id].blocks else result.warnings).append(found)
    library = None if static else tensorrt.installed()
    if static or graph is None:
        result.notes.append("TensorRT's own parser and builder were not asked (static)")
    elif library is None:
        result.notes.append(_unasked(wanted))
    elif not wanted.matches(library):
        result.notes.append(f"the installed library is {library}, not {wanted}: its own parser and builder were not asked")
    else:
        _ask_library(result, model, graph, facts, build=build, options=options)
    result.seconds = time.perf_counter() - started
    return result


def _unasked(wanted: Target) -> str:
    """Say why no library was asked."""
    wrong = tensorrt.broken()
    if wrong is not None:
        return f"{wrong}: TensorRT's own parser and builder were not asked"
    extra = tensorrt.EXTRAS["tensorrt_rtx" if wanted.is_rtx else "tensorrt"]
    return f"TensorRT is not installed: its own parser and builder were not asked (pip install 'onnx_gs[{extra}]')"


def _opened(model: Any, target: Target | None) -> Graph | None:
    """Give the graph of a model, or None where a look at its message shows that no rule for the target has a word about it.

    Args:
        model: a path, bytes or an ``onnx.ModelProto``.
        target: None to get the graph in any case.
    """
    import io

    from onnx_gs.io.files import ModelFile
    from onnx_gs.io.glance import glance

    if not isinstance(model, (str, os.PathLike)):
        model = io.BytesIO(model_source.content_of(model))
    with collector_paused():
        file = ModelFile(model)
        seen = None if target is None else glance(file.message)
        if seen is not None and target is not None and nothing_to_say(seen, target):
            return None
        return file.graph()  # type: ignore[no-any-return]


def _distinct(found: Any) -> list[Finding]:
    seen: set[tuple[str, str, str]] = set()
    kept = []
    for each in found:
        key = (each.id, each.path, each.tensor)
        if key not in seen:
            seen.add(key)
            kept.append(each)
    return kept


def _ask_library(result: Readiness, model: Any, graph: Graph, facts: ModelFacts, *, build: bool, options: BuildOptions) -> None:
    """Add the parser's and the builder's verdict."""
    source_of = model if not isinstance(model, Graph) else graph
    with (
        model_source.opened(source_of) as source,
        interruptible() as interrupted,
        tensorrt.listen(quiet=True) as heard,
        Session(step=lambda *_: not interrupted()) as session,
    ):
        parsed = session.parse(source, options.parser_flags)
        result.checked_by.append("parser")
        if not parsed:
            complaints = parser_errors.of_parser(session.parser, facts.index)
            if not complaints:
                complaints = [parser_errors.Complaint("parse", first_error(heard.errors))]
            _merge(result, complaints)
            return
        if not build:
            result.notes.append("the builder was not asked")
            return
        refused = _try_build(session, options, heard.errors, facts, result)
        result.checked_by.append("builder")
        if refused is not None:
            _merge(result, refused)
            return
    for wrong in result.blockers:
        result.notes.append(f"{tensorrt.installed()} takes it, although what is known of it says: {wrong.title} at {wrong.path}")
    result.blockers.clear()


def _try_build(session: Session, options: BuildOptions, heard: list[str], facts: ModelFacts, result: Readiness) -> list[Complaint] | None:
    """Build, and give what the builder says against it; None where it builds."""
    from onnx_gs.trt.options import configure

    try:
        configure(options, session.builder, session.config)
        inputs = profiles.inputs_of(session.network)
        for ranges in options.ranges():
            profile = profiles.derive(inputs, ranges, options.dims)
            if profile.guessed:
                sizes = "..".join(map(str, profiles.DEFAULT_RANGE))
                result.notes.append(f"no range was given for {', '.join(profile.guessed)}: {sizes} was tried; give what the model is meant for")
            if profile.shapes or profile.values:
                session.keep.append(profiles.apply(profile, session.builder, session.config))
    except TensorRTError as refused:
        return [parser_errors.Complaint("build", refused.what)]
    with session.recording():
        plan = session.builder.build_serialized_network(session.network, session.config)
    if plan is not None:
        return None
    return parser_errors.of_builder(session, heard, facts.index)


def _merge(result: Readiness, complaints: list[Complaint]) -> None:
    """Join what TensorRT says with what the table says of the same thing."""
    for complaint in complaints:
        row = capability.row_of_message(complaint.text, complaint.op)
        by = "parser" if complaint.stage == "parse" else "builder"
        k = _same(result.blockers, complaint, row.id)
        if k is not None:
            result.blockers[k] = replace(result.blockers[k], by=by, said=complaint.text)
            continue
        path = complaint.where or "the model"
        result.blockers.append(
            Finding(row.id, row.title, path, "", complaint.text, row.remedy, row.passes, complaint.op, by, complaint.text, row.source)
        )


def _same(blockers: list[Finding], complaint: Complaint, row: str) -> int | None:
    """Find the static finding that a complaint is about: of the same row, at the node or around it; else any at the same node."""
    path = complaint.place.path if complaint.place is not None else ""
    for k, found in enumerate(blockers):
        if found.id == row and (not path or found.path == path or path.startswith(found.path) or found.path.startswith(path)):
            return k
    for k, found in enumerate(blockers):
        if path and found.path == path:
            return k
    return None
