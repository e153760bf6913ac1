"""The one door to ONNX Runtime: sessions with graph optimizations and weight prepacking off, weights handed over by reference."""

from __future__ import annotations

import atexit
import ctypes
import re
import shutil
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import onnx_gs.io  # noqa: F401 - registers what reads weights
from onnx_gs.analysis import constness
from onnx_gs.errors import EvaluationError, MissingExtraError, OnnxGsError
from onnx_gs.io import structure, tensor_data
from onnx_gs.ir import dtypes
from onnx_gs.ir.node import ONNX_DOMAINS
from onnx_gs.ir.show import Places, node_label
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.ir.dtypes import DataType

Array = np.ndarray[Any, Any]

#: Weights of at most this many bytes are written into the model; larger ones are handed over by reference.
INLINE = 1024
#: The provider that every ONNX Runtime has.
CPU = "CPUExecutionProvider"
#: With less than this many bytes of weights and inputs, a second thread costs more than it brings.
_WORTH_THREADS = 1 << 20

_lock = threading.Lock()
_stub_folder: Path | None = None


def _load() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("onnxruntime", "cpu", "evaluate graphs") from error
    return onnxruntime


def _stub() -> Path:
    """Give a folder with the empty file that weights given by reference are said to be in; ONNX Runtime looks whether it exists."""
    global _stub_folder  # noqa: PLW0603 - one folder a process, made when first needed
    with _lock:
        if _stub_folder is None or not _stub_folder.exists():
            _stub_folder = Path(tempfile.mkdtemp(prefix="onnx_gs_"))
            (_stub_folder / "weights").touch()
            atexit.register(shutil.rmtree, _stub_folder, ignore_errors=True)
    return _stub_folder


# -- values ---------------------------------------------------------------------------------------


def _is_native(known: DataType) -> bool:
    return known.numpy.kind in "biuf" and known.numpy.isbuiltin == 1


def _to_ort(value: Any, ort: Any) -> Any:
    """Give what a session takes for a value: an array, or an ``OrtValue`` where numpy has no such element type."""
    if value is None or isinstance(value, (list, dict)):
        return value
    array = np.asarray(value)
    known = dtypes.find(array.dtype)
    if known is None:
        raise EvaluationError(f"values of dtype {array.dtype} are no ONNX tensor")
    if known is dtypes.STRING:
        if array.dtype != object:
            return array.astype(object)
        return np.array([v.decode() if isinstance(v, bytes) else v for v in array.reshape(-1)], object).reshape(array.shape)
    array = np.ascontiguousarray(tensor_data.native(array)).reshape(array.shape)
    return array if _is_native(known) or known.kind == "complex" else _ort_value(array, known, ort)


def _ort_value(array: Array, known: DataType | None, ort: Any) -> Any:
    if known is None or _is_native(known):
        return ort.OrtValue.ortvalue_from_numpy(array)
    if known is dtypes.STRING:
        return ort.OrtValue.ortvalue_from_numpy(array)
    if known.bits >= 8:
        bits = array.view(np.uint16 if known.bits == 16 else np.uint8)
    else:  # the runtime packs several elements into a byte: they take the first bytes of a buffer of the full shape
        packed = np.frombuffer(tensor_data.pack(array, known), np.uint8)
        bits = np.zeros(array.size, np.uint8)
        bits[: packed.size] = packed
        bits = bits.reshape(array.shape)
    return _with_type(bits, known, ort)


def _takes_bits(ort: Any) -> bool:
    return hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type")


def _with_type(bits: Array, known: DataType, ort: Any) -> Any:
    if not _takes_bits(ort):
        raise EvaluationError(f"onnxruntime {ort.__version__} takes no {known.name} from Python", fix="upgrade onnxruntime")
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, known.number)


_TYPE = re.compile(r"^tensor\((\w+)\)$")
_BY_ORT_NAME: dict[str, DataType] = {t.name.lower(): t for t in dtypes.ALL}


def _exotic(type_name: str) -> DataType | None:
    """Give the element type that a session's type string means, where numpy lacks it."""
    found = _TYPE.match(type_name)
    known = _BY_ORT_NAME.get(found.group(1)) if found else None
    return None if known is None or (known.numpy.kind in "biufcO" and known.numpy.isbuiltin == 1) else known


def _from_ort(value: Any, known: DataType | None) -> Any:
    """Give the array that an ``OrtValue`` holds."""
    if known is None:
        return value.numpy()
    shape = tuple(value.shape())
    count = int(np.prod(shape, dtype=np.int64))
    stored = np.frombuffer(ctypes.string_at(value.data_ptr(), known.nbytes(count)), np.uint8) if count else np.zeros(0, np.uint8)
    found = tensor_data.unpack(stored, known, count) if known.bits < 8 else stored.view(known.numpy)
    return found.reshape(shape)


class NodeError(EvaluationError):
    """One node of several cannot be evaluated; ``node`` is that node, where ONNX Runtime says which."""

    node: Node | None = None


# -- sessions -------------------------------------------------------------------------------------


class Session:
    """A graph that is ready to run in ONNX Runtime, on the CPU; see ``session`` and ``nodes_session``.

    Args:
        model: the weightless model.
        writer: the names in it.
        inputs: what is fed.
        outputs: what comes out.
        where: names nodes in errors.
        threads: threads inside an operator; 0 lets ONNX Runtime choose.
        optimize: let ONNX Runtime optimize the graph; results may then differ in the last bits.
    """

    def __init__(
        self, model: Any, writer: structure.StructureWriter, inputs: Sequence[Tensor], outputs: Sequence[Tensor], where: Any, *,
        threads: int | None = None, optimize: bool = False, provider: str = CPU,
    ) -> None:  # fmt: skip
        """Hand the weights over and load the model.

        Raises:
            EvaluationError: ONNX Runtime refuses the graph.
            MissingExtraError: ONNX Runtime is not installed.
        """
        ort = _load()
        self._ort = ort
        self._writer = writer
        self._where = where
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._kept: list[Any] = []  # weights that the session refers to
        options = ort.SessionOptions()
        level = ort.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.add_session_config_entry("session.disable_prepacking", "1")
        total = self._weights(model, options)
        self.threads = (1 if total < _WORTH_THREADS else 0) if threads is None else threads
        options.intra_op_num_threads = self.threads
        try:
            self._session = ort.InferenceSession(model.SerializeToString(), options, providers=_providers(ort, provider))
        except Exception as error:
            raise self._error(error, "cannot load the model") from error
        self._exotic = {o.name: _exotic(o.type) for o in self._session.get_outputs()}

    def _weights(self, model: Any, options: Any) -> int:
        total = 0
        for name, tensor in self._writer.weights.items():
            values = constness.exported(tensor)
            known = dtypes.require(values.dtype)
            total += values.nbytes
            target = model.graph.initializer.add()
            if values.nbytes <= INLINE or known is dtypes.STRING or known.kind == "complex" or not (_is_native(known) or _takes_bits(self._ort)):
                structure.inline(name, values, target)
                continue
            target.name, target.data_type = name, known.number
            target.dims.extend(values.shape)
            target.data_location = tensor_data.EXTERNAL
            for key, text in (("location", "weights"), ("offset", "0"), ("length", str(known.nbytes(values.size)))):
                entry = target.external_data.add()
                entry.key, entry.value = key, text
            if not self._kept:
                options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(_stub()))
            array = np.ascontiguousarray(tensor_data.native(values)).reshape(values.shape)
            given = _ort_value(array, known, self._ort)
            options.add_initializer(name, given)
            self._kept.append((array, given))
        return total

    @property
    def input_names(self) -> list[str]:
        """The names of the graph's inputs, in order."""
        return [t.name for t in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """The names of the graph's outputs, in order."""
        return [t.name for t in self.outputs]

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        """Compute outputs.

        Values are arrays (ml_dtypes for the types that numpy lacks, ``object`` for strings), lists for sequences, None for an absent optional.

        Args:
            feeds: a value for every input that has no default, by name.
            outputs: which outputs; None for all.

        Returns:
            The values by name.

        Raises:
            EvaluationError: an input is missing, or ONNX Runtime stops with an error.
        """
        by_name = {t.name: t for t in self.inputs}
        strange = [name for name in feeds if name not in by_name]
        if strange:
            raise EvaluationError(f"the graph has no input '{strange[0]}'", fix=f"its inputs are {list(by_name)}")
        missing = [t.name for t in self.inputs if t.name not in feeds and t._default is None]
        if missing:
            raise EvaluationError(f"input '{missing[0]}' has no value", fix="feed a value for every input")
        wanted = self.outputs if outputs is None else [self._output(name) for name in outputs]
        values = self.compute([(by_name[name], value) for name, value in feeds.items()], wanted)
        return {t.name: value for t, value in zip(wanted, values)}

    def _output(self, name: str) -> Tensor:
        found = next((t for t in self.outputs if t.name == name), None)
        if found is None:
            raise EvaluationError(f"the graph has no output '{name}'", fix=f"its outputs are {self.output_names}")
        return found

    def compute(self, feeds: Sequence[tuple[Tensor, Any]], wanted: Sequence[Tensor], limit_s: float | None = None) -> list[Any]:
        """Compute tensors from tensors, both by identity.

        Args:
            feeds: tensors with their values.
            wanted: what to compute.
            limit_s: seconds after which the run is stopped.
        """
        ort = self._ort
        given = {self._writer.name(t): _to_ort(value, ort) for t, value in feeds}
        names = [self._writer.name(t) for t in wanted]
        distinct = list(dict.fromkeys(names))
        if not distinct:
            return []
        with _stopping(ort, limit_s) as how:
            found = self._run(distinct, given, how)
        return [found[n] for n in names]

    def _run(self, distinct: list[str], given: dict[str, Any], how: Any) -> dict[str, Any]:
        ort = self._ort
        try:
            if any(self._exotic.get(n) for n in distinct) or any(isinstance(v, ort.OrtValue) for v in given.values()):
                whole = {n: v if isinstance(v, ort.OrtValue) else _ort_value(v, dtypes.find(v.dtype), ort) for n, v in given.items()}
                raw = self._session.run_with_ort_values(distinct, whole, how)
                return {n: _from_ort(v, self._exotic.get(n)) for n, v in zip(distinct, raw)}
            return dict(zip(distinct, self._session.run(distinct, given, how)))
        except OnnxGsError:
            raise
        except Exception as error:
            raise self._error(error, "fails") from error

    def _node_name(self, name: str) -> str:
        node = self._writer.nodes_by_name.get(name)
        return name if node is None else node.name or node.op

    def _error(self, error: Exception, what: str) -> EvaluationError:
        text = str(error).replace("\n", " ")
        found = re.search(r"\b(gs_n\d+)\b", text)
        node = self._writer.nodes_by_name.get(found.group(1)) if found else None
        text = re.sub(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
        text = re.sub(r"\S*onnxruntime\S*/\S+\.(?:cc|h):\d+ ", "", text)
        text = re.sub(r"\bgs_t\d+\b", lambda m: f"'{self._writer.tensors[m.group()].name}'" if m.group() in self._writer.tensors else m.group(), text)
        text = re.sub(r"\bgs_n\d+\b", lambda m: self._node_name(m.group()), text)
        made = NodeError(f"ONNX Runtime {what}: {text.strip()[:500]}", where=None if node is None else self._where(node))
        made.node = node
        return made


@contextmanager
def _stopping(ort: Any, limit_s: float | None) -> Iterator[Any]:
    """Give options for a run that ends after some seconds, None where there is no limit."""
    if limit_s is None:
        yield None
        return
    how = ort.RunOptions()
    timer = threading.Timer(limit_s, lambda: setattr(how, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        yield how
    finally:
        timer.cancel()


def _providers(ort: Any, wanted: str) -> list[str]:
    """List the providers to use: the wanted one, and the CPU for what it lacks.

    Raises:
        EvaluationError: this build of ONNX Runtime does not have it.
    """
    if wanted not in ort.get_available_providers():
        raise EvaluationError(f"this ONNX Runtime has no {wanted}; it has {ort.get_available_providers()}", fix="pip install 'onnx_gs[gpu]'")
    return list(dict.fromkeys([wanted, CPU]))


def session(graph: Graph, *, threads: int | None = None, optimize: bool = False, provider: str = CPU) -> Session:
    """Make a graph ready to run, as often as wanted.

    Args:
        graph: a model's graph; it is not changed. Weights stay where they are.
        threads: threads inside an operator; 0 lets ONNX Runtime choose, None uses one for small models.
        optimize: let ONNX Runtime optimize the graph; results may then differ in the last bits.
        provider: what runs it, such as ``"CUDAExecutionProvider"``; the CPU runs what that lacks.

    Raises:
        EvaluationError: ONNX Runtime refuses the graph, or lacks the provider.
        MissingExtraError: ONNX Runtime is not installed.
    """
    writer = structure.StructureWriter(stand_in)
    model = writer.model(graph)
    writer.graph(graph, model.graph)
    for t in graph.inputs:
        if t._default is not None:
            writer.weights[writer.name(t)] = Constant(t.name, t._default)
    writer.finish(model, graph.functions)

    def where(node: Node) -> str:
        places = Places(graph)
        holder = _holder(graph, node)
        return places.node(holder, node) if holder is not None else node_label(None, node)

    return Session(model, writer, [t for t in graph.inputs if not isinstance(t, Constant)], graph.outputs, where, threads=threads, optimize=optimize,
                   provider=provider)  # fmt: skip


def run(graph: Graph, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
    """Run a graph once; for more, keep a ``session``.

    Args:
        graph: a model's graph; it is not changed.
        feeds: values by input name.
        outputs: which outputs; None for all.

    Returns:
        Values by name.

    Raises:
        EvaluationError: ONNX Runtime refuses the graph or the values.
        MissingExtraError: ONNX Runtime is not installed.

    Example:
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y = Variable("x", np.float32, (2,)), Variable("y", np.float32, (2,))
        >>> run(Graph([Node("Neg", inputs=[x], outputs=[y])], [x], [y]), {"x": np.ones(2, np.float32)})["y"].tolist()
        [-1.0, -1.0]
    """
    return session(graph).run(feeds, outputs)


def nodes_session(graph: Graph, nodes: Sequence[Node], feeds: Sequence[tuple[Tensor, Any]], outputs: Sequence[Tensor]) -> Session:
    """Make some nodes of a graph ready to run.

    Args:
        graph: gives opset versions and functions.
        nodes: in order; what they read are constants, outputs of each other, or fed.
        feeds: the tensors that are fed, with values that tell their types.
        outputs: what to compute.

    Raises:
        EvaluationError: ONNX Runtime refuses the nodes.
    """
    writer = structure.StructureWriter(stand_in)
    model = writer.model(graph)
    for t, value in feeds:
        target = model.graph.input.add()
        target.name = writer.name(t)
        _write_type(value, t, target.type)
    writer.nodes(nodes, model.graph.node)
    for t in outputs:
        model.graph.output.add().name = writer.name(t)
    writer.finish(model, graph.functions)
    return Session(model, writer, [t for t, _ in feeds], outputs, lambda node: node_label(graph, node))


def _write_type(value: Any, tensor: Tensor, target: Any) -> None:
    if isinstance(value, list):
        known = dtypes.find(np.asarray(value[0]).dtype) if value else dtypes.of(tensor)
        if known is None or any(isinstance(v, (list, dict, tuple)) or v is None for v in value):
            raise EvaluationError(f"the sequence '{tensor.name}' cannot be handed over: its element type is unknown")
        target.sequence_type.elem_type.tensor_type.elem_type = known.number
        return
    if not isinstance(value, np.ndarray):
        raise EvaluationError(f"'{tensor.name}' is no tensor and cannot be handed over")
    target.tensor_type.elem_type = dtypes.require(value.dtype).number
    target.tensor_type.shape.SetInParent()
    for dim in value.shape:
        target.tensor_type.shape.dim.add().dim_value = dim


def stand_in(node: Node) -> Constant | None:
    """Give a weight that holds what a ``Constant`` node gives; None where it has none of the known forms."""
    if node.domain not in ONNX_DOMAINS:
        return None
    values = constness.values_of_node(node)
    return None if values is None else Constant(node._outputs[0]._name, values)


def _holder(graph: Graph, node: Node) -> Graph | None:
    from onnx_gs.ir import walk

    return next((g for g in walk.graphs(graph, functions=True) if any(n is node for n in g.nodes)), None)
