"""Compute beforehand what depends on constants only."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.errors import GraphTypeError, GraphValueError, OnnxGsError
from onnx_gs.evaluate.partition import Evaluation
from onnx_gs.ir import dtypes, scopes, walk
from onnx_gs.ir.attribute import has_reference
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.join import join_names
from onnx_gs.ir.node import with_bodies
from onnx_gs.ir.shapes import is_static, volume
from onnx_gs.ir.tensor import Constant
from onnx_gs.ops import traits
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.elide_casts import elide_casts
from onnx_gs.passes.fold_shapes import KnownDims
from onnx_gs.passes.inline_if import Inliner
from onnx_gs.passes.lower_constants import lower, lower_all
from onnx_gs.passes.rewriting import known_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir import Function, Graph, Node, Tensor

LOGGER = logging.getLogger("onnx_gs")
Array = np.ndarray[Any, Any]
#: Results over this size are told about, and are freed as soon as nothing more reads them.
LARGE = 1 << 20
#: Results over this size that are views of weights, such as transposed ones, stay views.
_WORTH_A_VIEW = 1 << 12


def fold_constants(
    graph: Graph,
    *,
    fold_shapes: bool = True,
    recurse_subgraphs: bool = True,
    partitioning: str | None = None,
    error_ok: bool = True,
    flatten_subgraphs: bool = True,
    size_threshold: int | None = None,
    should_exclude_node: Callable[[Node], bool] | None = None,
    recurse_functions: bool = True,
    max_growth: int | None = None,
    ready: set[int] | None = None,
    report: Report | None = None,
) -> None:
    """Compute what depends on constants only, in place; see ``Graph.fold_constants``.

    Folded tensors become weights of the same name; the nodes that gave them stay, without outputs, until a cleanup. A node that cannot be
    evaluated, for whatever reason, keeps the nodes that depend on it from being folded, and no others.

    Args:
        graph: a sorted graph, or a function.
        fold_shapes: also fold shape arithmetic that known shapes decide, and elide casts around integer arithmetic where that is exact.
        recurse_subgraphs: also fold inside bodies.
        partitioning: None, ``"basic"`` or ``"recursive"``; all the same here, as a failing node never stops the others.
        error_ok: when false, the first node that cannot be evaluated raises.
        flatten_subgraphs: replace an ``If`` with a constant condition by the branch that it takes.
        size_threshold: results of more bytes are not stored, but smaller ones computed from them are; None for no limit.
        should_exclude_node: asked about each node that could be folded, at every depth; true leaves it, and what depends on it.
        recurse_functions: also fold the bodies of the model's functions.
        max_growth: bytes by which the model may grow in all: results less the weights that they replace. Results are stored, the last in the graph
            first, while they fit; what is skipped has its inputs stored and is listed in the report. None for no limit.
        ready: ids of nodes that can be computed since the graph was folded before: only they, what depends on them, and nodes with bodies are
            looked at. Tensors of one name must be joined already.
        report: where to note what was done.

    Raises:
        GraphValueError: ``partitioning`` is none of the three.
        EvaluationError: a node cannot be evaluated, and ``error_ok`` is false.
    """
    if partitioning not in {None, "basic", "recursive"}:
        raise GraphValueError(f"partitioning {partitioning!r} is not known", fix="use None, 'basic' or 'recursive'")
    if should_exclude_node is not None and not callable(should_exclude_node):
        raise GraphTypeError("should_exclude_node is no function", fix="give a function of a node that returns a bool")
    if ready is None:
        join_names(graph)
    options = _Options(
        fold_shapes, recurse_subgraphs, error_ok, flatten_subgraphs, size_threshold, should_exclude_node, max_growth,
        {f.key: f for f in graph.functions}, ready, report,
    )  # fmt: skip
    with collector_paused():
        _Folder(graph, options).fold()
        if recurse_functions:
            for function in reversed(graph.functions):
                if function is not graph:
                    _Folder(function, options).fold()
    options.tell()


@dataclass
class _Options:
    """The options of one call, and what is shared by the graph and its functions."""

    fold_shapes: bool
    recurse_subgraphs: bool
    error_ok: bool
    flatten: bool
    size_threshold: int | None
    exclude: Callable[[Node], bool] | None
    max_growth: int | None
    functions: dict[tuple[str, str, str], Function]
    ready: set[int] | None
    report: Report | None

    def __post_init__(self) -> None:
        self.grown = 0
        self.failed: list[str] = []
        self.large: list[str] = []
        self._impure: dict[int, str | None] = {}
        self._kept: list[Any] = []

    # -- telling ----------------------------------------------------------------------------------

    def rewrote(self, graph: Graph, node: Node, what: str) -> None:
        if self.report is not None:
            self.report.rewrote(graph, node, what)

    def decline(self, graph: Graph, node: Node, reason: str) -> None:
        if self.report is not None:
            self.report.decline(graph, node, reason)

    def tell(self) -> None:
        """Log, once each, what could not be evaluated and what is large."""
        if self.failed:
            count = "1 node" if len(self.failed) == 1 else f"{len(self.failed)} nodes"
            LOGGER.warning("%s could not be evaluated and will stay: %s", count, "; ".join(self.failed[:3]))
        if self.large and self.size_threshold is None and self.max_growth is None:
            names = ", ".join(self.large[:5])
            LOGGER.warning("%d folded tensors are larger than 1 MiB: %s; use size_threshold to limit them", len(self.large), names)

    # -- purity -----------------------------------------------------------------------------------

    def called(self, node: Node) -> Function | None:
        """Give the local function that a node calls, or None."""
        if not self.functions:
            return None
        domain = "" if node.is_onnx else str(node.domain)
        return self.functions.get((domain, node.op, node.overload))

    def never(self, node: Node, trail: tuple[int, ...] = ()) -> str | None:
        """Give the reason why a node is never computed beforehand, what is inside its bodies and functions included."""
        function = self.called(node)
        if function is not None:
            return self._inside(function, trail)
        reason = traits.never_folds(node)
        if reason is not None or not node._attrs:
            return reason
        for _, body in node.bodies():
            reason = self._inside(body, trail)
            if reason is not None:
                return reason
        return None

    def _inside(self, graph: Graph, trail: tuple[int, ...]) -> str | None:
        key = id(graph)
        if key in self._impure:
            return self._impure[key]
        if key in trail:
            return "calls itself"
        self._kept.append(graph)
        found = None
        for node in graph.nodes:
            reason = self.never(node, (*trail, key))
            if reason is None and self.exclude is not None and node.op != "Constant" and self.exclude(node):
                reason = "excluded"
            if reason is not None:
                found = f"holds node '{node.name or node.op}': {reason}"
                break
        self._impure[key] = found
        return found


class _Folder:
    """Folds one root: a model's graph, or a function.

    Args:
        root: the root.
        options: what the caller wants.
    """

    def __init__(self, root: Graph, options: _Options) -> None:
        """Look nothing up yet."""
        self.root = root
        self.options = options
        self.inliner = Inliner(root)
        self.facts: ShapeFacts | None = None if options.report is None else known_facts(root, options.report)
        self.captured: dict[int, list[Tensor]] = {}
        self.became: set[int] = set()  # tensors that are weights since; bodies read them too

    def fold(self) -> None:
        """Fold the root, and then its bodies."""
        has_bodies = bool(with_bodies(self.root.nodes))
        self.captured = scopes.all_captures(self.root) if has_bodies else {}
        graphs: list[tuple[Graph, Node | None]] = [(self.root, None)]
        while graphs:
            graph, holder = graphs.pop()
            _Sweep(self, graph, holder).run()
            if has_bodies and self.options.recurse_subgraphs:
                graphs.extend((body, node) for node in reversed(graph.nodes) if node._attrs for _, body in reversed(node.bodies()))

    def captures(self, node: Node) -> list[Tensor]:
        """List what a node's bodies read from outside it."""
        return self.captured.get(id(node), []) if node._attrs else []


class _Sweep:
    """Folds the nodes of one graph, first to last.

    Args:
        folder: the root around it.
        graph: the graph.
        holder: the node that has the graph as a body, if any.
    """

    def __init__(self, folder: _Folder, graph: Graph, holder: Node | None = None) -> None:
        """Start with nothing folded."""
        self.holder = holder
        self.folder, self.graph, self.options = folder, graph, folder.options
        self.evaluation = Evaluation(folder.root, self._fails, self._done)  # a body has the opset of the model
        self.dims = KnownDims(self._array, () if self.options.report is None else self.options.report.shared.get("disbelieved", ()))
        self.facts = folder.facts
        self.returned = {id(t) for t in graph.outputs}
        self.fed = {id(t) for t in graph.inputs if t._inputs}  # inputs that nodes feed
        self.folded: list[Node] = []
        self.put_off: dict[int, Node] = {}  # by output: nodes with results too large to store, until something needs them
        self.started: set[int] = set()
        self.left: dict[int, int] = {}  # large results: readers to come
        self.members: set[int] = set()

    def run(self) -> None:
        """Fold."""
        options, graph = self.options, self.graph
        if options.fold_shapes:
            lower_all((graph,))
            elide_casts(graph, options.report, self.folder.root, self.holder)
        done: list[Node] = []
        ready = options.ready
        waiting = list(reversed(graph.nodes))
        flattened = False
        while waiting:
            node = waiting.pop()
            if node.op == "If" and options.flatten and node.is_onnx and node._inputs:
                nodes = self._flatten(node, len(done))
                if nodes is not None:
                    for inner in nodes:
                        if inner._attrs and inner.has_body:
                            self.folder.captured[id(inner)] = scopes.node_captures(inner)
                    waiting.extend(reversed(nodes))
                    flattened = True
                    continue
            done.append(node)
            if ready is None or id(node) in ready or (node._attrs and node.has_body) or self._reads_new(node):
                self._visit(node)
        self.evaluation.flush()
        if options.max_growth is not None:
            self._store_within_limit()
        if flattened:
            graph.nodes[:] = done
        if options.fold_shapes and any(node.op == "Loop" for node in graph.nodes):
            elide_casts(graph, options.report, self.folder.root, self.holder)  # where its counters start may be known only now

    # -- what is known ----------------------------------------------------------------------------

    def _array(self, tensor: Tensor) -> Array | None:
        """Give a small value that is at hand."""
        if isinstance(tensor, Constant):
            return constness.array(tensor, 1 << 12)
        value = self.evaluation.values.get(id(tensor))
        return value if isinstance(value, np.ndarray) and value.size <= 1 << 12 else None

    def _reads_new(self, node: Node) -> bool:
        """Say whether a node reads what is constant only since this fold."""
        if not (self.evaluation.values or self.put_off or self.folder.became or self.evaluation.is_pending):
            return False
        knows, put_off, became = self.evaluation.knows_id, self.put_off, self.folder.became
        return any(knows(key) or key in put_off or key in became for key in map(id, node._inputs))

    def _flatten(self, node: Node, index: int) -> list[Node] | None:
        condition = node._inputs[0]
        if not self.evaluation.knows(condition):
            return None
        try:
            value = self.evaluation.value(condition)
        except OnnxGsError:
            return None
        if not isinstance(value, np.ndarray) or value.size != 1:
            return None
        taken = bool(value.reshape(-1)[0])
        if self.folder.inliner.branch(node, taken) is None or self._excluded(node):
            return None
        self.options.rewrote(self.graph, node, f"the condition is {str(taken).lower()}")
        return self.folder.inliner.inline(self.graph, node, taken, index)

    def _excluded(self, node: Node) -> bool:
        if self.options.exclude is not None and self.options.exclude(node):
            self.options.decline(self.graph, node, "excluded")
            return True
        return False

    # -- nodes ------------------------------------------------------------------------------------

    def _visit(self, node: Node) -> None:
        outputs = node._outputs
        if not outputs or (self.fed and any(id(t) in self.fed for t in outputs)):
            return  # what feeds an input of the graph is cut off, and the input stays one
        if node.op == "Constant" and node.is_onnx:
            if not lower(node) and not has_reference(node.attrs):
                LOGGER.warning("Constant node '%s' stays: its attributes are none of the forms that the specification has", node.name)
            return
        evaluation = self.evaluation
        if self.options.fold_shapes and node.domain in {None, "", "ai.onnx"}:
            value = self.dims.visit(node, self.folder.root.opset) if self.facts is None else self._decided(node)
            if value is not None and not isinstance(outputs[0], Constant) and not self.options.called(node):
                if self.options.exclude is None or not self.options.exclude(node):
                    self._fold_shape(node, value)
                return
        knows = evaluation.knows
        put_off = self.put_off
        for t in node._inputs:
            if t._name and not knows(t) and id(t) not in put_off:
                return
        captured = self.folder.captures(node)
        for t in captured:
            if t._name and not knows(t) and id(t) not in put_off:
                return
        if any(isinstance(t, Constant) for t in outputs):
            return
        if not self._may_fold(node):
            return
        if self._too_large(node):
            put_off.update((id(t), node) for t in outputs)
            return
        for t in (*node._inputs, *captured):
            if id(t) in put_off:
                self._start(put_off[id(t)])
        evaluation.add(node, captured, is_call=self.options.called(node) is not None)

    def _decided(self, node: Node) -> Array | None:
        """Give the output of a node that shapes decide, by what was found out about shapes before."""
        assert self.facts is not None
        fact = self.facts.met(node._outputs[0])
        if not fact.is_decided or len(node._outputs) != 1 or (node._attrs and node.has_body):
            return None
        assert fact.contents is not None
        assert fact.dtype is not None
        value = np.array(fact.contents.items, fact.dtype.numpy).reshape(fact.contents.shape)
        limit = self.options.size_threshold
        return None if limit is not None and value.nbytes > limit else value

    def _may_fold(self, node: Node) -> bool:
        reason = self.options.never(node)
        if reason is None and has_reference(node.attrs):
            reason = "takes an attribute of the function around it"
        if reason is None and node._attrs and node.has_body:
            reason = _refers(node)
        if reason is not None:
            if node._inputs:
                self.options.decline(self.graph, node, reason)
            return False
        return not self._excluded(node)

    def _too_large(self, node: Node) -> bool:
        """Say whether all results are known to be too large to store, before they are computed."""
        limit = self.options.size_threshold
        if limit is None:
            return False
        sizes = [_known_bytes(t) for t in node._outputs if t._name]
        if not sizes or any(size is None or size <= limit for size in sizes):
            return False
        self.options.decline(self.graph, node, f"its result of {max(s for s in sizes if s is not None)} bytes is over the limit of {limit}")
        return True

    def _start(self, node: Node) -> None:
        """Evaluate a node that was put off, after those that were put off before it and that it needs."""
        stack = [node]
        while stack:
            current = stack[-1]
            if id(current) in self.started:
                stack.pop()
                continue
            captured = self.folder.captures(current)
            needed = [
                self.put_off[id(t)] for t in (*current._inputs, *captured) if id(t) in self.put_off and id(self.put_off[id(t)]) not in self.started
            ]
            if needed:
                stack.extend(needed)
                continue
            self.started.add(id(current))
            stack.pop()
            self.evaluation.add(current, captured, is_call=self.options.called(current) is not None)

    def _fold_shape(self, node: Node, value: Array) -> None:
        output = node._outputs[0]
        if not output._name:
            return
        self.options.rewrote(self.graph, node, f"is {value.tolist()}")
        node._outputs.clear()
        output.to_constant(value)
        self.folder.became.add(id(output))

    # -- results ----------------------------------------------------------------------------------

    def _fails(self, node: Node, error: OnnxGsError) -> None:
        if not self.options.error_ok:
            raise error
        self.options.failed.append(f"node '{node.name or node.op}': {error.what}")
        self.options.decline(self.graph, node, f"it cannot be evaluated: {error.what}")

    def _done(self, node: Node) -> None:
        self.folded.append(node)
        stored = self.options.max_growth is None and self._settle(node)
        if not stored:
            for t in node._outputs:
                value = self.evaluation.values.get(id(t))
                if isinstance(value, np.ndarray) and value.nbytes > LARGE and id(t) not in self.returned:
                    self.left[id(t)] = len(t._outputs)
        if self.left:
            for t in node._inputs:
                if id(t) in self.left:
                    self.left[id(t)] -= 1
                    if not self.left[id(t)]:
                        del self.left[id(t)]
                        self.evaluation.forget(t)

    def _settle(self, node: Node) -> bool:
        """Store a node's results as weights: all that are used or none, so that the node is either dead or whole."""
        outputs = [t for t in node._outputs if t._name]
        values = [self.evaluation.values.get(id(t)) for t in outputs]
        used = [(t, v) for t, v in zip(outputs, values) if t._outputs or id(t) in self.returned]
        limit = self.options.size_threshold
        stored = []
        for t, value in used:
            if not isinstance(value, np.ndarray):
                continue  # a sequence or optional: what is computed from it folds
            size = constness.size(value)
            if limit is not None and size > limit:
                self.options.decline(self.graph, node, f"its result of {size} bytes is over the limit of {limit}")
                continue
            if size > LARGE and limit is None and id(t) not in self.returned and self._readers_fold(t):
                continue
            stored.append((t, value))
        if not used:
            stored = [(t, v) for t, v in zip(outputs, values) if isinstance(v, np.ndarray) and (limit is None or constness.size(v) <= limit)]
        if not stored or len(stored) < len(used):
            return False
        self.options.rewrote(self.graph, node, "computed from constants")
        self._store(node, stored)
        return True

    def _readers_fold(self, tensor: Tensor) -> bool:
        """Say whether every reader of a large result will surely be folded, so that it need not be stored."""
        for reader in tensor._outputs:
            if reader._attrs and reader.has_body:
                return False
            if any(t is not tensor and t._name and not self.evaluation.knows(t) for t in reader._inputs):
                return False
            if self.options.never(reader) is not None or (self.options.exclude is not None and self.options.exclude(reader)):
                return False
            if id(reader) not in self._members():
                return False
        return bool(tensor._outputs)

    def _members(self) -> set[int]:
        if not self.members:
            self.members = {id(n) for n in self.graph.nodes}
        return self.members

    def _store(self, node: Node, stored: list[tuple[Tensor, Array]]) -> None:
        for t, value in stored:
            array = _own(value)
            if array.nbytes > LARGE:
                self.options.large.append(t._name)
            self.evaluation.forget(t)
            t._hold(array)
            self.folder.became.add(id(t))
        node._outputs.clear()

    # -- growth -----------------------------------------------------------------------------------

    def _store_within_limit(self) -> None:
        """Store results from the last to the first, as far as the model's growth allows; what is not stored needs its inputs stored."""
        limit = self.options.max_growth
        assert limit is not None
        values = self.evaluation.values
        folded = {id(n) for n in self.folded}
        refund = _refunds(self.folded, folded)
        dead: set[int] = set()
        plans: list[tuple[Node, list[tuple[Tensor, Array]]]] = []
        for node in reversed(self.folded):
            outputs = [t for t in node._outputs if t._name]
            needed = [t for t in outputs if id(t) in self.returned or any(id(r) not in dead for r in t._outputs)]
            if not needed:
                dead.add(id(node))
                continue
            arrays = [values.get(id(t)) for t in needed]
            if not all(isinstance(a, np.ndarray) for a in arrays):
                continue
            sizes = [constness.size(a) for a in arrays if a is not None]
            threshold = self.options.size_threshold
            if threshold is not None and max(sizes) > threshold:
                self.options.decline(self.graph, node, f"its result of {max(sizes)} bytes is over the limit of {threshold}")
                continue
            growth = sum(sizes) - refund.get(id(node), 0)
            if growth > 0 and self.options.grown + growth > limit:
                self.options.decline(self.graph, node, f"its result would add {growth} bytes, and the model may grow by {limit} in all (max_growth)")
                continue
            self.options.grown += growth
            dead.add(id(node))
            plans.append((node, list(zip(needed, arrays))))  # type: ignore[arg-type]
        for node, stored in reversed(plans):
            self.options.rewrote(self.graph, node, "computed from constants")
            self._store(node, stored)


def _refers(node: Node) -> str | None:
    """Give the reason why a node's bodies cannot be evaluated: they take attributes of the function around them."""
    for body in walk.nested(node):
        for inner in body.nodes:
            if has_reference(inner.attrs):
                return "its body takes an attribute of the function around it"
    return None


def _known_bytes(tensor: Tensor) -> int | None:
    known = dtypes.of(tensor)
    shape = tensor.shape
    if known is None or known is dtypes.STRING or getattr(tensor, "type", "") != "tensor_type" or not is_static(shape):
        return None
    return volume(shape) * known.numpy.itemsize


def _own(value: Array) -> Array:
    """Give an array that shares no memory that others may change, and takes what it needs and no more."""
    if value.size and 0 in value.strides and value.size > 1:
        whole: Array = np.ascontiguousarray(value).reshape(value.shape)
        return whole
    root: Any = value.base
    if root is None:
        return value
    while isinstance(root, np.ndarray) and root.base is not None and isinstance(root.base, np.ndarray):
        root = root.base
    if value.nbytes > _WORTH_A_VIEW and not value.flags.writeable and isinstance(root, np.ndarray) and value.nbytes * 2 > root.nbytes:
        return value  # a view of a file, or of bytes that nobody can change: it stays one
    own: Array = value.copy()
    return own


def _refunds(nodes: Iterable[Node], folded: set[int]) -> dict[int, int]:
    """Map each folded node to its share of the bytes of weights that are no longer needed once the nodes are folded."""
    shares: dict[int, float] = {}
    found: dict[int, int] = {}
    for node in nodes:
        total = 0.0
        for t in {id(t): t for t in node._inputs if t._name}.values():
            readers = {id(r) for r in t._outputs}
            if isinstance(t, Constant):
                if readers <= folded:
                    total += t.nbytes / len(readers)
            else:
                total += shares.get(id(t), 0.0)
        found[id(node)] = int(total)
        outputs = [t for t in node._outputs if t._name and t._outputs]
        for t in outputs:
            readers = {id(r) for r in t._outputs}
            shares[id(t)] = total / len(outputs) / len(readers)
    return found


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Compute beforehand what depends on constants only.

    Matches:   nodes all of whose inputs, and whatever their bodies capture, are constant; calls of local functions and whole loops included.
    Rewrites:  each result becomes a weight of the same name; the node stays, without outputs, until a cleanup.
    Declines:  what is random or stateful, quantization, unknown domains, references to attributes, excluded nodes, results over a limit,
               and what the runtime refuses; each by name, and the rest still folds.
    """

    name: ClassVar[str] = "fold-constants"
    fold_shapes: bool = True
    flatten_subgraphs: bool = True
    size_threshold: int | None = None
    max_growth: int | None = None
    should_exclude_node: Callable[[Node], bool] | None = None

    def run(self, graph: Graph, report: Report) -> None:
        """Fold the graph, its bodies and functions."""
        fold_constants(
            graph, fold_shapes=self.fold_shapes, flatten_subgraphs=self.flatten_subgraphs, size_threshold=self.size_threshold,
            max_growth=self.max_growth, should_exclude_node=self.should_exclude_node,
            ready=report.shared.pop("ready", None), report=report,
        )  # fmt: skip
