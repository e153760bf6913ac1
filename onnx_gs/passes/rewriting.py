"""What the passes of a simplification share: facts about shapes, an index of nodes by operator, and the questions that every rewrite asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis.shape_values import ShapeFacts
from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.attribute import has_reference
from onnx_gs.ir.edit import Editor
from onnx_gs.ir.function import Function
from onnx_gs.ir.node import ONNX_DOMAINS
from onnx_gs.ir.synchronized_list import edge_log
from onnx_gs.ir.tensor import Constant, Tensor
from onnx_gs.ops import traits
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.dtypes import DataType


class Work:
    """One root, a model's graph or a function, while passes rewrite it.

    Facts stay true under rewrites that keep values; the editor and the index are made anew after foreign edits (``forget_nodes``).

    Args:
        root: the graph or function.
        report: where the rewrites are noted.
    """

    def __init__(self, root: Graph, report: Report) -> None:
        """Index nothing yet."""
        self.root = root
        self.report = report
        self._in_function = isinstance(root, Function)
        self._facts: ShapeFacts | None = None
        self._former: ShapeFacts | None = None
        self._has_bodies = False  # or had some when facts were found
        self._edit: Editor | None = None
        self._by_op: dict[str, list[tuple[Graph, Node]]] | None = None
        self._graphs: list[Graph] | None = None
        self.compared: dict[int, Constant] = {}  # weights that ``ShareConstants`` has seen, by id
        self.alike: dict[Any, Any] = {}  # and those of them that it kept, by type and shape
        self.plain: dict[Any, Tensor] = {}  # constants that were read and found not neutral, by id and operator

    @property
    def facts(self) -> ShapeFacts:
        """What is known about shapes; found on first use."""
        if self._facts is None:
            self._facts = ShapeFacts(self.root, self._former)
            self._former = None
            self._has_bodies = len(self.graphs()) > 1
            for tensor, what in self._facts.conflicts:
                self.report.warn(f"tensor '{tensor.name}' is {what}")
        return self._facts

    @property
    def edit(self) -> Editor:
        """The editor; its edits are committed when a pass ends."""
        if self._edit is None:
            self._edit = Editor(self.root)
        return self._edit

    def forget_nodes(self) -> None:
        """Forget who holds what, after edits by other means."""
        self._edit = None
        self._by_op = None
        self._graphs = None

    def graphs(self) -> list[Graph]:
        """List the root and its bodies; a body whose node is gone since has no linked nodes."""
        if self._graphs is None:
            self._graphs = list(walk.graphs(self.root))
        return self._graphs

    def forget_facts(self) -> None:
        """Forget facts, so that they are found anew; what operators make of shapes stays true."""
        self._former, self._facts = self._facts, None

    def refresh_facts(self) -> None:
        """Forget facts where weights that were folded since may tell more.

        In a body they tell about its node too, as does the branch that an ``If`` became.
        """
        facts = self._facts
        if facts is None:
            return
        weights = (t for owner in self.graphs() for node in owner.nodes for t in node._inputs if isinstance(t, Constant))
        if self._has_bodies or any(map(facts.is_outdated_by, weights)):
            self.forget_facts()

    def nodes(self, ops: Iterable[str]) -> list[tuple[Graph, Node]]:
        """List the nodes of these operators of ONNX's own with the graphs that hold them; none with attributes that a call of the function gives."""
        by_op = self._by_op or self._index()
        found: list[tuple[Graph, Node]] = []
        for op in ops:
            found += by_op.get(op, ())
        return [entry for entry in found if entry[1]._outputs]

    def has_any(self, ops: frozenset[str]) -> bool:
        """Say whether there may be a node of one of these operators."""
        return not ops.isdisjoint(self._by_op or self._index())

    def _index(self) -> dict[str, list[tuple[Graph, Node]]]:
        by_op = self._by_op = {}
        for owner in self.graphs():
            for node in owner.nodes:
                if node.domain in ONNX_DOMAINS and not (self._in_function and has_reference(node.attrs)):
                    by_op.setdefault(node.op, []).append((owner, node))
        return by_op

    def changed_op(self) -> None:
        """Note that a node became one of another operator, in place."""
        self._by_op = None

    def finish(self) -> None:
        """Commit the edits of a pass."""
        if self._edit is None:
            return
        if self._edit.has_new:  # what went is unlinked, and the index leaves it out
            self._by_op = None
        if self._edit.is_pending:
            self._edit.commit()

    # -- asking -----------------------------------------------------------------------------------

    def can_replace(self, old: Tensor, new: Tensor) -> bool:
        """Say whether everything that uses ``old`` can use ``new`` without an ``Identity`` in between."""
        edit = self.edit
        for graph in edit.listed_by(old):
            if edit.listed_by(new):
                return False
            if isinstance(new, Constant):
                if graph is not self.root and not all(edit.holder.get(id(n)) is graph for n in new._outputs):
                    return False
            elif edit.is_input(new) or edit.home(new) is not graph:
                return False
        return True

    def is_private(self, tensor: Tensor) -> bool:
        """Say whether exactly one node reads a tensor, once, and no graph returns it."""
        return len(tensor._outputs) == 1 and not self.edit.listed_by(tensor)

    def producer(self, tensor: Tensor, *ops: str) -> Node | None:
        """Give the node that makes a tensor, where it is one of these operators of ONNX's own; none with attributes that a call gives."""
        if not tensor._inputs:
            return None
        node = tensor._inputs[0]
        return node if node.op in ops and node.domain in ONNX_DOMAINS and not (self._in_function and has_reference(node.attrs)) else None

    # -- editing ----------------------------------------------------------------------------------

    def rounds(self, y: Tensor, x: Tensor) -> bool:
        """Say whether a node that moves ``x`` to ``y`` makes a runtime round.

        ONNX Runtime computes in float32 what it has no 16-bit kernel for, and rounds only where a value passes a node that moves it as it is: between
        two nodes that compute, such a node is not without effect. Where results may be close instead of equal (``--fuse``), that does not count.
        """
        if self.report.shared.get("close"):
            return False
        dtype = self.facts.dtype(y)
        if dtype is None or dtype.bits != 16 or dtype.kind != "float":
            return False
        return bool(x._inputs) and not moves(x._inputs[0]) and any(not moves(reader) for reader in y._outputs)

    def bypass(self, owner: Graph, node: Node, tensor: Tensor, what: str = "", *, computes: bool = False) -> bool:
        """Let what reads a node's first output read ``tensor``; the node goes. False, and nothing changed, where that is not possible.

        Args:
            owner: the graph that holds the node.
            node: the node.
            tensor: what holds the same values.
            what: for the report.
            computes: whether the node is one that computes, so that it never made a runtime round by itself.
        """
        if not self.can_replace(node._outputs[0], tensor):
            return False
        if not computes and self.rounds(node._outputs[0], tensor):
            self.report.decline(owner, node, "between two 16-bit computations it makes a runtime round")
            return False
        self.report.rewrote(owner, node, what)
        self.edit.bypass(owner, node, tensor)
        return True

    def constant(self, wish: str, values: np.ndarray[Any, Any]) -> Constant:
        """Make a constant under a fresh name."""
        return Constant(self.edit.names.fresh(wish), values)

    def int64(self, wish: str, values: Sequence[int]) -> Constant:
        """Make a vector of integers under a fresh name."""
        return self.constant(wish, np.array(values, dtype=np.int64))


def mentions_16_bits(root: Graph) -> bool:
    """Say whether an input, a weight or a ``Cast`` of a model is of 16-bit floats, so that a tensor of no known type may be too."""
    for graph in walk.graphs(root):
        if any(_has_16_bits(dtypes.of(t)) for t in graph.inputs):
            return True
        for node in graph.nodes:
            if any(isinstance(t, Constant) and _has_16_bits(dtypes.of(t)) for t in node._inputs):
                return True
            if node.op == "Cast" and _has_16_bits(dtypes.find(node.attrs.get("to"))):
                return True
    return False


def may_have_16_bits(t: Tensor, mentioned: bool) -> bool:
    """Say whether a tensor is, or where its type is not known may be, one of 16-bit floats; ``mentioned`` as ``mentions_16_bits`` says."""
    known = dtypes.of(t)
    return mentioned if known is None else _has_16_bits(known)


def _has_16_bits(known: DataType | None) -> bool:
    return known is not None and known.kind == "float" and known.bits == 16


def moves(node: Node) -> bool:
    """Say whether an operator hands elements on as they are, so that 16-bit values are rounded there."""
    # a Cast to 16 bits and one back are none to ONNX Runtime, where nothing is between
    return node.domain in ONNX_DOMAINS and (node.op in traits.MOVEMENT or node.op in {"Where", "Constant"})


def replace_all(same: dict[int, tuple[Tensor, Tensor]]) -> None:
    """Let every node that reads the first tensor of a pair read the second one; in bulk, one pass a node, however many inputs it has.

    Args:
        same: the pairs, by the id of the first; no graph returns it, and it is the second of no pair.
    """
    readers = {id(reader): reader for old, _ in same.values() for reader in old._outputs}
    for reader in readers.values():
        inputs = reader._inputs
        for at, t in enumerate(list.__iter__(inputs)):
            pair = same.get(id(t))
            if pair is not None:
                list.__setitem__(inputs, at, pair[1])
    for old, new in same.values():
        if old._outputs:
            list.extend(new._outputs, list(old._outputs))
            list.clear(old._outputs)
            edge_log.add((new._name,))


def works(graph: Graph, report: Report) -> list[Work]:
    """Give the work on a graph and on each of its functions; passes of one report share it."""
    shared: dict[int, Work] = report.shared.setdefault("works", {})
    roots = [graph] if isinstance(graph, Function) else [graph, *graph.functions]
    return [shared.get(id(root)) or shared.setdefault(id(root), Work(root, report)) for root in roots]  # makes none that is thrown away


def known_facts(root: Graph, report: Report) -> ShapeFacts | None:
    """Give the facts about a root that passes of the same report have found, or None; none are looked for."""
    work: Work | None = report.shared.get("works", {}).get(id(root))
    return None if work is None else work._facts


@dataclass(frozen=True)
class NodePass(Pass):
    """A pass that looks at the nodes of some operators, one by one."""

    ops: ClassVar[tuple[str, ...]] = ()
    shares: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """Need one of the operators, where nothing else is said."""
        super().__init_subclass__()
        if "needs" not in cls.__dict__:
            cls.needs = frozenset(cls.ops)

    def run(self, graph: Graph, report: Report) -> None:
        """Look at every node of the operators, bodies and functions included."""
        for work in works(graph, report):
            for owner, node in work.nodes(self.ops):
                if node._outputs and node.op in self.ops:
                    self.visit(work, owner, node)
            work.finish()

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Rewrite a node, or leave it."""
        raise NotImplementedError
