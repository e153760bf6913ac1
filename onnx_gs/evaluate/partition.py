"""Evaluate nodes one after another, in this process where that is exact, else in sessions of many; isolate those that fail."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.errors import EvaluationError, MissingExtraError, OnnxGsError
from onnx_gs.evaluate import numpy_kernels, onnxruntime, sequence_kernels
from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Constant
from onnx_gs.ops import traits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onnx_gs.ir import Graph, Node, Tensor

LOGGER = logging.getLogger("onnx_gs")
#: Nodes that share one session: setting one up costs as much as evaluating a few small nodes, and what it computes is all in memory at once.
BATCH = 128
#: Bytes that the results of one session may take, as far as can be told before: more, and the session gets fewer nodes.
BATCH_BYTES = 1 << 26
#: No single result is computed that takes more bytes than this.
MOST_BYTES = 1 << 31
#: Seconds after which a loop is given up.
LOOP_LIMIT_S = 60.0
#: Operators whose float16 results are the same however wide they are computed; control flow rounds inside its bodies as it would at run time.
_EXACT_IN_HALF = traits.MOVEMENT | traits.CONTROL_FLOW | traits.SEQUENCE | traits.OPTIONAL | {
    "Cast", "CastLike", "ConstantOfShape", "EyeLike", "Where", "OneHot", "ScatterND", "ScatterElements", "Scatter", "Max", "Min", "ReduceMax",
    "ReduceMin", "TopK", "Unique", "MaxPool", "GlobalMaxPool", "Relu", "Abs", "Neg", "Clip", "Size", "Shape", "NonZero",
}  # fmt: skip
#: Operators that ONNX Runtime 1.32 does not run in bfloat16 on a CPU: not worth a session that fails.
_NOT_IN_BFLOAT16 = frozenset({
    "Abs", "Add", "Ceil", "Cos", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "HardSwish", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "MatMul", "Max", "Min", "Mish", "Mul", "Neg", "Pow", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceSum", "Relu",
    "Round", "Sigmoid", "Sin", "Softmax", "Softplus", "Softsign", "Sqrt", "Sub", "Tan", "Tanh",
})  # fmt: skip
#: Operators whose results may be much larger than what they read.
_GROWING = traits.BROADCASTING | {"Tile", "Gather", "Range"}
_ROUNDED = "its float16 result is rounded, and a runtime that computes wider would round later"


class Evaluation:
    """Values of tensors that depend on constants only, computed in the order in which nodes are added.

    A node that cannot be evaluated is reported, by itself; what depends on it has no value, everything else does.

    Args:
        graph: gives opset versions and functions; the graph that holds the nodes, or one with the same.
        fails: called with each node that cannot be evaluated, and the error.
        done: called with each node whose outputs got their values.
    """

    def __init__(self, graph: Graph, fails: Callable[[Node, OnnxGsError], None], done: Callable[[Node], None] | None = None) -> None:
        """Start with no values."""
        self.graph = graph
        self.values: dict[int, Any] = {}
        self._tensors: dict[int, Tensor] = {}  # keeps ids valid
        self._fails, self._done = fails, done
        self._pending: list[tuple[Node, list[Tensor]]] = []
        self._awaited: dict[int, int] = {}  # by tensor: the bytes it may have
        self._expected = 0
        self._without_runtime = False

    def knows(self, tensor: Tensor) -> bool:
        """Say whether a tensor is constant, has a value, or is about to get one."""
        return isinstance(tensor, Constant) or id(tensor) in self.values or id(tensor) in self._awaited

    @property
    def is_pending(self) -> bool:
        """Say whether nodes wait to be evaluated."""
        return bool(self._pending)

    def knows_id(self, key: int) -> bool:
        """Say whether the computed tensor of an id has a value, or is about to get one."""
        return key in self.values or key in self._awaited

    def value(self, tensor: Tensor) -> Any:
        """Give the value of a tensor; None where it has none.

        Raises:
            OnnxGsError: a weight cannot be read.
        """
        if isinstance(tensor, Constant):
            return constness.exported(tensor)
        if id(tensor) in self._awaited:
            self.flush()
        return self.values.get(id(tensor))

    def forget(self, tensor: Tensor) -> None:
        """Free the value of a tensor that is read no more."""
        self.values.pop(id(tensor), None)

    def add(self, node: Node, captured: Sequence[Tensor] = (), *, is_call: bool = False) -> None:
        """Evaluate a node, now or with the next session.

        Args:
            node: all that it reads is known.
            captured: what its bodies read from outside.
            is_call: whether it calls a local function.
        """
        reads = [t for t in (*node._inputs, *captured) if t._name]
        if not is_call and node.is_onnx and _handles(node.op) and not any(id(t) in self._awaited for t in reads):
            try:
                found = self._compute(node)
            except OnnxGsError as error:
                self._fails(node, error)
                return
            if found is not None:
                self._keep(node, found)
                return
        if node.op in _NOT_IN_BFLOAT16 and node.is_onnx and any(self._is_bfloat16(t) for t in reads):
            self._fails(node, EvaluationError("ONNX Runtime has no kernel for bfloat16 here"))
            return
        size = max((self._size(t) for t in reads), default=0)
        for t in node._outputs:
            if t._name:
                self._awaited[id(t)] = size
                self._expected += size
                self._tensors[id(t)] = t
        self._pending.append((node, reads))
        if len(self._pending) >= BATCH or self._expected >= BATCH_BYTES:
            self.flush()

    def _size(self, tensor: Tensor) -> int:
        """Tell the bytes of a tensor, before it has a value by those of what it is made of."""
        if isinstance(tensor, Constant):
            return tensor.nbytes
        value = self.values.get(id(tensor))
        return int(value.nbytes) if isinstance(value, np.ndarray) else self._awaited.get(id(tensor), 0)

    def _is_bfloat16(self, tensor: Tensor) -> bool:
        if isinstance(tensor, Constant):
            return dtypes.of(tensor) is dtypes.BFLOAT16
        value = self.values.get(id(tensor))
        return isinstance(value, np.ndarray) and value.dtype == dtypes.BFLOAT16.numpy

    def _compute(self, node: Node) -> list[Any] | None:
        inputs = [self.value(t) if t._name else None for t in node._inputs]
        if sequence_kernels.handles(node.op):
            return sequence_kernels.evaluate(node, inputs)
        if any(not (x is None or isinstance(x, np.ndarray)) for x in inputs):
            return None
        size = _least_bytes(node, inputs)
        if size > MOST_BYTES:
            raise EvaluationError(f"the result would take {size} bytes")
        if node.op not in _EXACT_IN_HALF and any(x is not None and x.dtype == np.float16 for x in inputs):
            return self._compute_half(node, inputs)
        found = numpy_kernels.evaluate(node, self.graph.opset, inputs)
        if found is not None and node.op in {"Cast", "CastLike"} and found[0].dtype == np.float16 and inputs[0] is not None:
            _check_half_cast(node, inputs[0], found[0])
        return found

    def _compute_half(self, node: Node, inputs: Sequence[Any]) -> list[Any] | None:
        """Compute float16 as float32, and keep the result where it is the same as float16.

        ONNX Runtime has few float16 kernels: it computes chains of such nodes as float32 and rounds at their end. So a folded piece of a chain
        must not be rounded at all, or the end of the chain changes.
        """
        floats = [x.astype(np.float32) if x is not None and x.dtype == np.float16 else x for x in inputs]
        wide = numpy_kernels.evaluate(node, self.graph.opset, floats)
        if wide is None:
            return None
        found = []
        for x in wide:
            if x.dtype == np.float32:
                with np.errstate(all="ignore"):
                    half = x.astype(np.float16)
                if not ((half == x) | ((half != half) & (x != x))).all():  # noqa: PLR0124 - NaN
                    raise EvaluationError(_ROUNDED)
                x = half
            found.append(x)
        return found

    def _keep(self, node: Node, found: Sequence[Any], *, by_session: bool = False) -> bool:
        """Keep the values of a node's outputs; say whether they may be kept."""
        if by_session and node.op in {"Cast", "CastLike"} and isinstance(found[0], np.ndarray) and found[0].dtype == np.float16:
            try:
                _check_half_cast(node, self.value(node._inputs[0]), found[0])
            except OnnxGsError as error:
                self._fails(node, error)
                return False
        if by_session and node.is_onnx and node.op not in _EXACT_IN_HALF and any(isinstance(v, np.ndarray) and v.dtype == np.float16 for v in found):
            exact = self._exact_half(node)
            if exact is None:
                return False
            found = exact
        for t, value in zip(node._outputs, found):
            if t._name:
                self.values[id(t)] = value
                self._tensors[id(t)] = t
        if self._done is not None:
            self._done(node)
        return True

    def _exact_half(self, node: Node) -> list[Any] | None:
        """Compute float16 that a session has computed, as it waited for something, where a kernel tells that nothing was rounded."""
        try:
            found = self._compute(node) if _handles(node.op) else None
        except OnnxGsError as error:
            self._fails(node, error)
            return None
        if found is None:
            self._fails(node, EvaluationError(_ROUNDED))
        return found

    # -- sessions ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """Evaluate what waits for a session."""
        pending, self._pending, self._awaited, self._expected = self._pending, [], {}, 0
        work = [pending] if pending else []
        while work:
            batch = self._alive(work.pop())
            if not batch:
                continue
            try:
                self._run(batch)
            except OnnxGsError as error:
                if len(batch) == 1:
                    self._give_up(batch[0][0], error)
                    continue
                work.extend(reversed(_split(batch, getattr(error, "node", None))))

    def _alive(self, batch: list[tuple[Node, list[Tensor]]]) -> list[tuple[Node, list[Tensor]]]:
        """Leave out nodes that depend on what has no value."""
        made: set[int] = set()
        kept = []
        for node, reads in batch:
            if all(id(t) in self.values for t in node._outputs if t._name) and any(t._name for t in node._outputs):
                continue  # done by a kernel before the rest failed
            if all(isinstance(t, Constant) or id(t) in self.values or id(t) in made for t in reads):
                kept.append((node, reads))
                made.update(id(t) for t in node._outputs)
        return kept

    def _run(self, batch: list[tuple[Node, list[Tensor]]]) -> None:
        if len(batch) == 1 or any(node.op in traits.DIVIDING for node, _ in batch):
            batch = self._by_kernels(batch)  # what went to a session only because of what it waited for
            if not batch:
                return
        nodes = [node for node, _ in batch]
        if self._without_runtime:
            raise EvaluationError("onnxruntime is not installed")
        made = {id(t) for node in nodes for t in node._outputs}
        feeds: dict[int, tuple[Tensor, Any]] = {}
        for _, reads in batch:
            for t in reads:
                if id(t) not in made and not isinstance(t, Constant):
                    feeds[id(t)] = (t, self.values[id(t)])
        outputs = [t for node in nodes for t in node._outputs if t._name]
        loops = any((node._attrs and node.has_body) or node.domain for node in nodes)
        try:
            session = onnxruntime.nodes_session(self.graph, nodes, list(feeds.values()), outputs)
        except MissingExtraError as error:
            self._without_runtime = True
            LOGGER.warning("%s; only what this package computes itself is folded", error.what)
            raise
        found = dict(zip(map(id, outputs), session.compute(list(feeds.values()), outputs, LOOP_LIMIT_S if loops else None)))
        without: set[int] = set()
        for node, reads in batch:
            refused = any(id(t) in without for t in reads) or not self._keep(node, [found.get(id(t)) for t in node._outputs], by_session=True)
            if refused:
                without.update(id(t) for t in node._outputs)

    def _by_kernels(self, batch: list[tuple[Node, list[Tensor]]]) -> list[tuple[Node, list[Tensor]]]:
        """Evaluate in this process what can be by now; integer divisions are checked here and nowhere else.

        Raises:
            EvaluationError: a division may end the process, and is not alone in the batch to be given up by itself.
        """
        left = []
        waiting: set[int] = set()
        for node, reads in batch:
            ready = not any(id(t) in waiting for t in reads)
            found = self._compute(node) if ready and node.is_onnx and _handles(node.op) else None
            if found is not None:
                self._keep(node, found)
                continue
            if node.is_onnx and node.op in traits.DIVIDING and not ready and not _is_float(node):
                error = onnxruntime.NodeError("a division waits for its operands")
                error.node = node
                raise error
            left.append((node, reads))
            waiting.update(id(t) for t in node._outputs)
        return left

    def _give_up(self, node: Node, error: OnnxGsError) -> None:
        self._fails(node, error)


def _check_half_cast(node: Node, before: Any, after: Any) -> None:
    """Raise where a cast to float16 rounds: ONNX Runtime skips such a cast in front of a node that it computes as float32.

    Raises:
        EvaluationError: it does, and what reads the result computes.
    """
    if before.dtype.kind != "f" or all(reader.op in traits.MOVEMENT for t in node._outputs for reader in t._outputs):
        return
    if not ((after == before) | ((after != after) & (before != before))).all():  # noqa: PLR0124 - NaN
        raise EvaluationError(_ROUNDED)


def _handles(op: str) -> bool:
    return numpy_kernels.handles(op) or sequence_kernels.handles(op)


def _is_float(node: Node) -> bool:
    known = next((d for t in (*node._inputs, *node._outputs) if (d := dtypes.of(t)) is not None), None)
    return known is not None and known.kind == "float"


def _split(batch: list[tuple[Node, list[Tensor]]], culprit: Node | None) -> list[list[tuple[Node, list[Tensor]]]]:
    """Part a batch around the node that failed, else into halves; every part is smaller, so this ends."""
    at = next((i for i, (node, _) in enumerate(batch) if node is culprit), None)
    if at is None:
        half = len(batch) // 2
        return [batch[:half], batch[half:]]
    return [part for part in (batch[:at], batch[at : at + 1], batch[at + 1 :]) if part]


def _least_bytes(node: Node, inputs: Sequence[Any]) -> int:
    """Estimate the bytes of a result where it may be much larger than the inputs; 0 where it is not or is only a view."""
    if node.op not in _GROWING:
        return 0
    arrays = [x for x in inputs if x is not None]
    if node.op in traits.BROADCASTING and arrays:
        try:
            return int(math.prod(np.broadcast_shapes(*(x.shape for x in arrays))) * max(x.dtype.itemsize for x in arrays))
        except ValueError:
            return 0
    if node.op == "Tile" and len(arrays) == 2:
        return int(arrays[0].nbytes) * math.prod(int(v) for v in arrays[1].reshape(-1))
    if node.op == "Gather" and len(arrays) == 2 and arrays[0].ndim:
        return int(arrays[0].nbytes // max(1, min(arrays[0].shape)) * arrays[1].size)
    if node.op == "Range" and len(arrays) == 3 and all(x.size == 1 and x.dtype.kind == "i" for x in arrays) and arrays[2].item():
        return abs(int(arrays[1].item()) - int(arrays[0].item())) // abs(int(arrays[2].item())) * 8
    return 0
