"""TensorRT's complaints as ours: what, at which node of the model, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import TensorRTError
from onnx_gs.trt import tensorrt
from onnx_gs.trt.session import first_error

if TYPE_CHECKING:
    from onnx_gs.trt.options import BuildOptions
    from onnx_gs.trt.places import NodeIndex, Place
    from onnx_gs.trt.session import Session


@dataclass(frozen=True, eq=False)
class Complaint:
    """One error of TensorRT.

    Attributes:
        stage: ``"parse"`` or ``"build"``.
        text: what it says, cleaned.
        op: the operator that the parser was at; empty where it does not say.
        place: the node of the model, where it could be found.
        name: the node's name as TensorRT gives it.
        calls: the local functions being expanded, outermost first.
    """

    stage: str
    text: str
    op: str = ""
    place: Place | None = None
    name: str = ""
    calls: tuple[str, ...] = ()

    @property
    def where(self) -> str | None:
        """The path of the node, or as much as TensorRT says of it."""
        if self.place is not None:
            called = f" (called at {' > '.join(self.calls)})" if self.calls and self.place.function is not None else ""
            return self.place.path + called
        return f"node '{self.name}' ({self.op})" if self.name else f"a node ({self.op})" if self.op else None


def of_parser(parser: Any, index: NodeIndex | None) -> list[Complaint]:
    """Give the parser's errors."""
    found = []
    for k in range(parser.num_errors):
        error = parser.get_error(k)
        name, op, number, text = error.node_name() or "", error.node_operator() or "", error.node(), tensorrt.clean(error.desc() or "")
        calls = tuple(error.local_function_stack()) if hasattr(error, "local_function_stack") else ()
        place = index.of_parser(name, op, number, text) if index is not None and (op or name) else None
        if text in {"false", ""} and op:
            text = f"TensorRT has no importer for {op}"
        found.append(Complaint("parse", text, op, place, name, calls))
    return found


def of_builder(session: Session, messages: list[str], index: NodeIndex | None) -> list[Complaint]:
    """Give the builder's errors: what its recorder holds, else what it logged."""
    texts = session.recorded or messages
    if not texts:
        return [Complaint("build", "the builder gave no engine and no reason")]
    text = first_error(texts)
    place = index.of_text(text, session.layer_origins()) if index is not None else None
    return [Complaint("build", text, place.node.op if place else "", place)]


def as_error(complaints: list[Complaint], options: BuildOptions | None = None, raw: list[str] | None = None) -> TensorRTError:
    """Make one exception of what TensorRT said."""
    if not complaints:
        return TensorRTError(f"TensorRT refused the model: {first_error(raw or [])}")
    first = complaints[0]
    more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
    verb = "parse" if first.stage == "parse" else "build"
    return TensorRTError(f"TensorRT cannot {verb} the model: {first.text}{more}", where=first.where, fix=_fix(first, options, raw or []))


_LITTLE_WORKSPACE = ("within work", "insufficient workspace", "insufficient memory", "requires workspace memory", "increase the workspace")


def _fix(complaint: Complaint, options: BuildOptions | None, raw: list[str]) -> str:
    """Name the setting that a build error is about, where it is about one."""
    text = " ".join([complaint.text, *raw]).lower()
    if any(words in text for words in _LITTLE_WORKSPACE):
        limit = f" (it is {options.workspace} bytes)" if options and options.workspace is not None else ""
        return f"raise workspace{limit}, or leave it out"
    if (
        options is not None
        and options.tactic_sources is not None
        and any(word in text for word in ("no tactic", "no runners", "no implementation", "could not find any implementation"))
    ):
        return f"allow more tactic sources: only {list(options.tactic_sources)} are allowed"
    if "external" in text or "importinitializers" in text or "failed to open file" in text:
        return "check that the files of external data lie beside the model, and hand over the model by its path"
    if tensorrt.cuda_missing(raw) and options is not None and _needs_gpu(options):
        return f"{' and '.join(_needs_gpu(options))} needs a GPU while building: leave it out, or build on a machine that has one"
    if options is not None and options.version_compatible:
        return "this TensorRT may lack the lean runtime that version_compatible needs: leave it out"
    return "run `onnx-gs check` for every blocker and the pass that removes it"


def _needs_gpu(options: BuildOptions) -> list[str]:
    return [name for name in ("REFIT", "REFIT_IDENTICAL", "STRIP_PLAN") if name in options.flag_names()]
