"""What a pass is, and what it reports."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from onnx_gs.ir.faults import explained
from onnx_gs.ir.show import Places

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node

_new = tuple.__new__  # a named tuple's own constructor takes as long as the rest of an entry


class Entry(NamedTuple):
    """One thing that a pass did, or declined to do.

    Attributes:
        pass_name: the pass.
        node: the node's name, or its operator where it has none.
        op: the node's operator.
        path: where it is, such as ``graph 'main' > node 'Loop_3' (Loop) > body > node #17 (Add)``.
        reason: why it was declined; for a rewrite, what was done, or empty.
    """

    pass_name: str
    node: str
    op: str
    path: str
    reason: str = ""

    def as_dict(self) -> dict[str, str]:
        """Give the entry as the command line's JSON has it."""
        return {"pass": self.pass_name, "node": self.node, "op": self.op, "path": self.path, **({"reason": self.reason} if self.reason else {})}


@dataclass
class Report:
    """What passes did to a model: rewritten, declined with reasons, left over, and seconds by pass.

    ``left`` is what a pass that sets out to remove a kind of node could not remove, with the reasons that its parts gave.

    Args:
        root: the model's graph, for paths.
    """

    root: Graph
    shared: dict[str, Any] = field(default_factory=dict, repr=False)  # what passes of one run share, such as facts about shapes
    rewritten: list[Entry] = field(default_factory=list)
    declined: list[Entry] = field(default_factory=list)
    left: list[Entry] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    current: str = ""
    _places: Places | None = field(default=None, repr=False)
    _declined_at: dict[tuple[str, int, str], int] = field(default_factory=dict, repr=False)
    _kept: list[Any] = field(default_factory=list, repr=False)

    def _entry(self, graph: Graph, node: Node, reason: str) -> Entry:
        op = node.op
        return _new(Entry, (self.current, node.name or op, op, self.path(graph, node), reason))

    def path(self, graph: Graph, node: Node) -> str:
        """Give the path of a node, as entries have it."""
        if self._places is None:
            self._places = Places(self.root)
        return self._places.node(graph, node)

    def rewrote(self, graph: Graph, node: Node, what: str = "") -> None:
        """Note that a node was rewritten; call it before the edit, while the node still has its place."""
        self.rewritten.append(self._entry(graph, node, what))

    def decline(self, graph: Graph, node: Node, reason: str) -> None:
        """Note that a node was left alone, and why; the same note is kept once, however often a fixpoint comes by."""
        key = (self.current, id(node), reason)
        if key in self._declined_at:
            return
        self._declined_at[key] = len(self.declined)
        self._kept.append(node)
        self.declined.append(self._entry(graph, node, reason))

    def forget_declined(self, kept: int) -> None:
        """Forget what was declined after the first ``kept`` entries: for passes that come by again, since a reason may no longer hold."""
        del self.declined[kept:]
        self._declined_at = {key: at for key, at in self._declined_at.items() if at < kept}

    def leave(self, graph: Graph, node: Node, reason: str) -> None:
        """Note that a node is still there in the end, and why."""
        self.left.append(self._entry(graph, node, reason))

    def warn(self, text: str) -> None:
        """Note something about the model that the user should know."""
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def changed(self) -> int:
        """Count the rewrites so far; a fixpoint ends when it no longer grows."""
        return len(self.rewritten)


@dataclass(frozen=True)
class Pass:
    """A rewrite of a model, with its options as fields.

    A subclass is a frozen dataclass with a ``name`` and a ``run``. Called on a graph, it runs and gives the report.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[frozenset[str]] = frozenset()  # ONNX's operators without any of which it has nothing to do; none where it looks at all nodes
    shares: ClassVar[bool] = False  # whether it keeps what other passes found out (``Report.shared``) in step with its edits

    def __post_init__(self) -> None:
        """Take a text where names are asked for as one name: its letters would be taken for names otherwise."""
        for f in dataclasses.fields(self):
            if str(f.type) == "tuple[str, ...]" and isinstance(getattr(self, f.name), str):
                object.__setattr__(self, f.name, (getattr(self, f.name),))

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        raise NotImplementedError

    def __call__(self, graph: Graph) -> Report:
        """Run on a graph and give the report."""
        report = Report(graph)
        with explained(graph):
            self.apply(graph, report)
        return report

    def apply(self, graph: Graph, report: Report) -> None:
        """Run as part of a pipeline: with the report's current pass set, and its time taken."""
        before, started = report.current, time.perf_counter()
        report.current = self.name
        report._places = None
        try:
            self.run(graph, report)
        finally:
            report._places = None
            if not self.shares:
                report.shared.pop("works", None)
            report.seconds[self.name] = report.seconds.get(self.name, 0.0) + time.perf_counter() - started
            report.current = before

    def options(self) -> dict[str, Any]:
        """Give the options that differ from their defaults."""
        found = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            default = f.default
            if default is dataclasses.MISSING and f.default_factory is not dataclasses.MISSING:
                default = f.default_factory()
            if value != default:
                found[f.name] = value
        return found

    def __str__(self) -> str:
        """Spell the pass as on the command line: ``unroll-loop{max-nodes=100}``."""
        options = ",".join(f"{k.replace('_', '-')}={v}" for k, v in self.options().items())
        return self.name + ("{" + options + "}" if options else "")
