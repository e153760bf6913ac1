"""Graphs: nodes in order, with named inputs and outputs."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from onnx_gs.errors import GraphError
from onnx_gs.ir import layer as _layer
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.node import ONNX_DOMAINS, Node, all_match, joined
from onnx_gs.ir.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from onnx_gs.ir.function import Function
    from onnx_gs.ir.model import ImportRecord, Model
    from onnx_gs.ir.synchronized_list import SynchronizedList

LOGGER = logging.getLogger("onnx_gs")
G = TypeVar("G", bound="Graph")


class Graph:
    """A model's graph, or the body of a ``Loop``, ``Scan`` or ``If``.

    Args:
        nodes: the nodes; the very list given is kept.
        inputs: graph inputs, in order.
        outputs: graph outputs, in order.
        name: graph name.
        doc_string: a note about the graph.
        opset: version of ONNX's own operators (11 by default).
        import_domains: the opset imports, as ``onnx.OperatorSetIdProto``; None for just ``opset``.
        producer_name: the tool that made the model.
        producer_version: its version.
        functions: the model's local functions; the graph's list of them is shared with bodies and functions.
        ir_version: ONNX IR version; None lets the installed ``onnx`` decide on export.

    Example:
        >>> x, y = Variable("x", "float32", (2,)), Variable("y", "float32", (2,))
        >>> graph = Graph([Node("Relu", inputs=[x], outputs=[y])], inputs=[x], outputs=[y])
        >>> list(graph.tensors())
        ['x', 'y']
    """

    DEFAULT_OPSET = 11

    GLOBAL_FUNC_MAP: ClassVar[dict[str, Any]] = {}
    OPSET_FUNC_MAP: ClassVar[defaultdict[int, dict[str, Any]]] = defaultdict(dict)

    #: Which class an object made by this very class gets. The public graph, which is this one with the passes as methods, enters itself when it
    #: is loaded, so that a script may take either name; None while only the data model is loaded.
    _made_as: ClassVar[type[Graph] | None] = None

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        nodes: Sequence[Node] | None = None,
        inputs: Sequence[Tensor] | None = None,
        outputs: Sequence[Tensor] | None = None,
        name: str | None = None,
        doc_string: str | None = None,
        opset: int | None = None,
        import_domains: Any = None,
        producer_name: str | None = None,
        producer_version: str | None = None,
        functions: Iterable[Function] | None = None,
        ir_version: int | None = None,
    ) -> None:
        """Make a graph of existing nodes and tensors."""
        public = type(self).__dict__.get("_made_as")
        if public is not None:
            self.__class__ = public
        self.nodes: list[Node] = nodes if nodes is not None else []  # type: ignore[assignment]
        self._inputs: list[Tensor] = list(inputs) if inputs is not None else []
        self._outputs: list[Tensor] = list(outputs) if outputs is not None else []
        self.name = name if name is not None else "onnx_graphsurgeon_graph"
        self.doc_string = doc_string if doc_string is not None else ""
        self._opset = opset if opset is not None else self.DEFAULT_OPSET
        self._import_domains = import_domains
        self._opset_imported: int | None = self._opset if import_domains is not None else None
        self.producer_name = producer_name if producer_name is not None else ""
        self.producer_version = producer_version if producer_version is not None else ""
        self.ir_version = ir_version
        self.name_idx = 0
        self.model: Model | None = None
        self.metadata_props: dict[str, str] = {}
        self._record: ImportRecord | None = None
        self._functions: list[Function] = list(functions) if functions is not None else []
        self._merge_functions()

    # -- fields -----------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Tensor]:
        """Graph inputs, a plain list."""
        return self._inputs

    @inputs.setter
    def inputs(self, new: Iterable[Tensor]) -> None:
        self._inputs = list(new)

    @property
    def outputs(self) -> list[Tensor]:
        """Graph outputs, a plain list."""
        return self._outputs

    @outputs.setter
    def outputs(self, new: Iterable[Tensor]) -> None:
        self._outputs = list(new)

    @property
    def opset(self) -> int:
        """Version of ONNX's own operators. Setting it changes what is exported, also for an imported graph."""
        return self._opset

    @opset.setter
    def opset(self, new: int) -> None:
        self._opset = new

    @property
    def import_domains(self) -> Any:
        """The opset imports: a list of ``onnx.OperatorSetIdProto``, or None for just ``opset``."""
        return self._import_domains

    @import_domains.setter
    def import_domains(self, new: Any) -> None:
        self._import_domains = new
        self._opset_imported = self._opset if new is not None else None

    def opset_versions(self) -> dict[str, int]:
        """Give the version of every imported domain, ONNX's own under ``""``: what export writes, before missing domains are added."""
        versions: dict[str, int] = {}
        for entry in self._import_domains or ():
            versions.setdefault("" if entry.domain in ONNX_DOMAINS else entry.domain, entry.version)
        if "" not in versions or self._opset != self._opset_imported:
            versions[""] = self._opset
        return versions

    @property
    def functions(self) -> list[Function]:
        """The model's local functions: one list, shared by the graph, its bodies and the functions themselves."""
        return self._functions

    @functions.setter
    def functions(self, new: Iterable[Function]) -> None:
        self._functions[:] = list(new)
        self._merge_functions()

    def _merge_functions(self) -> None:
        """Give every nested graph and function this graph's list, after adding what they knew."""
        members: list[Graph] = [self, *(b for b in self.subgraphs(recursive=True))]
        merged = {f.key: f for f in reversed(self._functions)}
        order = list(self._functions)
        for member in [*members[1:], *self._functions]:
            for function in member._functions:
                if function.key not in merged:
                    merged[function.key] = function
                    order.append(function)
        unique: dict[Any, Function] = {}
        for function in order:
            unique.setdefault(function.key, function)
        if len(unique) != len(self._functions):
            self._functions[:] = list(unique.values())
        for member in members[1:]:
            member._functions = self._functions
        for function in self._functions:
            function._share_functions(self._functions)

    def _share_functions(self, functions: list[Function]) -> None:
        """Make a list of functions the one of this graph and of the bodies in it."""
        self._functions = functions
        for body in self.subgraphs(recursive=True):
            body._functions = functions

    # -- looking ----------------------------------------------------------------------------------

    def tensors(self, check_duplicates: bool = False) -> OrderedDict[str, Tensor]:
        """List the graph's tensors by name: inputs, then each node's inputs and outputs, then outputs; bodies are not searched.

        Args:
            check_duplicates: raise when two tensors share a name; otherwise warn, and the last wins.

        Raises:
            GraphError: two tensors share a name and ``check_duplicates`` is set.
        """
        found: OrderedDict[str, Tensor] = OrderedDict()
        twins = 0

        def see(tensor: Tensor) -> None:
            nonlocal twins
            name = tensor._name
            if not name:
                return
            known = found.get(name)
            if known is not None and known is not tensor:
                if check_duplicates:
                    raise GraphError(
                        f"two tensors are named '{name}': {known} and {tensor}", where=f"graph '{self.name}'", fix="rename one of them"
                    )
                twins += 1
            found[name] = tensor

        from onnx_gs.ir.faults import explained

        with explained(self):
            for tensor in self._inputs:
                see(tensor)
            for node in self.nodes:
                for tensor in node._inputs:
                    see(tensor)
                for tensor in node._outputs:
                    see(tensor)
            for tensor in self._outputs:
                see(tensor)
        if twins:
            LOGGER.warning("graph '%s' has distinct tensors of one name (%d times); the last of each is listed", self.name, twins)
        return found

    def subgraphs(self, recursive: bool = False) -> Iterator[Graph]:
        """Give the graphs that nodes hold as attributes.

        Args:
            recursive: also those inside them.
        """
        for node in list(self.nodes):
            if node._attrs:
                yield from node.subgraphs(recursive)

    @contextmanager
    def node_ids(self) -> Iterator[Graph]:
        """Give every node an ``id``, its index in ``nodes``, for the length of a ``with`` block."""
        nodes = list(self.nodes)
        for index, node in enumerate(nodes):
            node.id = index  # type: ignore[attr-defined]
        try:
            yield self
        finally:
            for node in nodes:
                node.__dict__.pop("id", None)

    def _get_used_node_ids(self) -> tuple[set[int], list[Tensor]]:
        """Give the ids of the nodes that the outputs depend on, and the tensors used; inside ``node_ids()``."""
        from onnx_gs.ir import liveness

        live = liveness.live_nodes(self)
        used = [t for node in live for t in (*node.inputs, *node.outputs)]
        return {node.id for node in live}, [*used, *self._outputs]  # type: ignore[attr-defined]

    def _generate_name(self, prefix: str, existing_names: Iterable[str]) -> str:
        """Give ``<prefix>_<index>`` with the next index of this graph that is not in ``existing_names``."""
        while True:
            name = f"{prefix}_{self.name_idx}"
            self.name_idx += 1
            if name not in existing_names:
                return name

    # -- building ---------------------------------------------------------------------------------

    def layer(self, inputs: Any = None, outputs: Any = None, *args: Any, **kwargs: Any) -> SynchronizedList[Tensor]:
        """Append a node made from tensors, names, arrays and numbers, and give its outputs.

        Args:
            inputs: each a ``Tensor``, a name (a new variable ``<name>_<index>``), an array, a list of numbers (1-D constant; nested lists of one
                length give more axes), or a number (0-D constant); Python floats become float32 and ints int64, numpy scalars keep their dtype.
            outputs: likewise.
            args: further arguments of ``Node``: ``op`` and so on.
            kwargs: likewise, by name.

        Raises:
            GraphTypeError: an item is none of these.

        Example:
            >>> graph = Graph()
            >>> [t.name for t in graph.layer(op="Add", inputs=[Variable("x"), 1.0], outputs=["sum"])]
            ['sum_1']
        """
        from onnx_gs.ir.faults import explained

        with explained(self):
            return _layer.layer(self, inputs, outputs, *args, **kwargs)

    @classmethod
    def register(cls, opsets: Iterable[int] | None = None) -> Any:
        """Register a function as a method of graphs: ``graph.name(...)`` calls it with the graph first.

        Args:
            opsets: the opsets of graphs that it is for; None for all.
        """
        return _layer.registrar(cls, opsets)

    def __getattr__(self, name: str) -> Any:
        """Find a registered function or a local function of that name.

        Raises:
            AttributeError: there is none.
        """
        if name.startswith("_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return _layer.find_registered(self, name)

    # -- copies -----------------------------------------------------------------------------------

    def copy(self: G, tensor_map: Mapping[str, Tensor] | None = None) -> G:
        """Give a graph with nodes, tensors, bodies and functions of its own; values, lazy or not, are shared.

        Args:
            tensor_map: outer tensors by name, for copying a body: what the body captures is taken from here.
        """
        from onnx_gs.ir.copying import copy_model
        from onnx_gs.ir.faults import explained

        with collector_paused(), explained(self):
            return copy_model(self, tensor_map)

    def __copy__(self: G) -> G:
        """Give ``copy()``."""
        return self.copy()

    def __deepcopy__(self: G, memo: dict[int, Any]) -> G:
        """Give a copy that shares nothing that can be changed: functions and arrays included."""
        from onnx_gs.ir.copying import deepcopy_graph
        from onnx_gs.ir.faults import explained

        with collector_paused(), explained(self):
            return deepcopy_graph(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the whole graph, flat; weights on disk as path and offset."""
        from onnx_gs.ir.pickling import pickle_graph

        return pickle_graph(self)

    # -- comparison -------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Compare opsets, ir_version, function ids, inputs, outputs and nodes; names of tensors stand for tensors."""
        if self is other:
            return True
        return isinstance(other, Graph) and all_match([(self, other)])

    def _matches(self, other: Graph, pending: list[tuple[Any, Any]]) -> bool:
        """Compare all but bodies, whose pairs are added to ``pending``."""
        return (
            not hasattr(other, "unique_id")
            and self.opset == other.opset
            and self.ir_version == other.ir_version
            and same_domains(self.import_domains, other.import_domains)
            and {f.unique_id for f in self._functions} == {f.unique_id for f in other._functions}
            and self._inputs == other._inputs
            and self._outputs == other._outputs
            and same_nodes(self.nodes, other.nodes, pending)
        )

    def __str__(self) -> str:
        """Show name, opset, local functions, inputs, nodes and outputs."""
        return joined(self)

    def _pieces(self) -> Iterator[Any]:
        """Give the text in pieces; a node stands for its own."""
        yield f"Graph {self.name} (Opset {self.opset})\n"
        if self._functions:
            yield f"Local Functions: {[f.name for f in self._functions]}\n"
        yield f"Inputs: {self._inputs}\nNodes: [\n"
        for node in self.nodes:
            yield node if isinstance(node, Node) else str(node)
            yield "\n"
        yield f"]\nOutputs: {self._outputs}"

    __repr__ = __str__


def same_nodes(mine: list[Node], others: list[Node], pending: list[tuple[Any, Any]]) -> bool:
    """Compare two lists of nodes in all but bodies, whose pairs are added to ``pending``."""
    if len(mine) != len(others):
        return False
    return all(a._matches(b, pending) if isinstance(a, Node) and isinstance(b, Node) else a == b for a, b in zip(mine, others))


def same_domains(a: Any, b: Any) -> bool:
    """Compare two lists of opset imports by domain and version where they have those, else by ``==``."""
    if a is None or b is None:
        return a is b

    def plain(entries: Any) -> list[Any]:
        return [(e.domain, e.version) if hasattr(e, "version") else e for e in entries]

    return plain(a) == plain(b)


__all__ = ["Constant", "Graph", "Node", "Tensor", "Variable"]
