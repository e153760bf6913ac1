"""Local functions: operators that a model defines by a body of nodes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.graph import Graph, same_domains, same_nodes
from onnx_gs.ir.node import Node, all_match
from onnx_gs.ir.tensor import Tensor, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from onnx_gs.ir.synchronized_list import SynchronizedList

LOGGER = logging.getLogger("onnx_gs")
F = TypeVar("F", bound="Function")


class Function(Graph):
    """A local function of a model.

    Args:
        name: the operator type that calls it.
        domain: its domain, ``"onnx_graphsurgeon"`` by default.
        nodes: the body.
        inputs: formal inputs.
        outputs: formal outputs.
        doc_string: a note about the function.
        opset: version of ONNX's own operators in the body.
        import_domains: the body's opset imports.
        functions: the model's functions.
        attrs: attribute name to default value; None where the caller must give one.
        ir_version: ONNX IR version of the model.
        overload: tells functions of one domain and name apart (IR 10).

    Example:
        >>> x, y = Variable("x"), Variable("y")
        >>> from onnx_gs.ir.node import Node
        >>> Function("Twice", nodes=[Node("Add", inputs=[x, x], outputs=[y])], inputs=[x], outputs=[y]).unique_id
        ('onnx_graphsurgeon', 'Twice')
    """

    DEFAULT_DOMAIN = "onnx_graphsurgeon"
    _made_as: ClassVar[type[Graph] | None] = None

    def __init__(
        self,
        name: str,
        domain: str | None = None,
        nodes: Sequence[Node] | None = None,
        inputs: Sequence[Tensor] | None = None,
        outputs: Sequence[Tensor] | None = None,
        doc_string: str | None = None,
        opset: int | None = None,
        import_domains: Any = None,
        functions: Iterable[Function] | None = None,
        attrs: Mapping[str, Any] | None = None,
        ir_version: int | None = None,
        overload: str = "",
    ) -> None:
        """Make a function of existing nodes and tensors."""
        self.domain = domain if domain is not None else self.DEFAULT_DOMAIN
        self.overload = overload
        self.attrs: dict[str, Any] = dict(attrs) if attrs is not None else {}
        super().__init__(
            nodes=nodes, inputs=inputs, outputs=outputs, name=name, doc_string=doc_string, opset=opset, import_domains=import_domains,
            functions=functions, ir_version=ir_version,
        )  # fmt: skip

    @property
    def key(self) -> tuple[str, str, str]:
        """Domain, name and overload: what a call names."""
        return (self.domain or "", self.name, self.overload)

    @property
    def unique_id(self) -> tuple[str, ...]:
        """Domain and name, and the overload where there is one."""
        return (self.domain, self.name, self.overload) if self.overload else (self.domain, self.name)

    def __call__(self, graph: Graph, inputs: Any = None, outputs: Any = None, *args: Any, **kwargs: Any) -> SynchronizedList[Tensor]:
        """Append a call of this function to a graph.

        Args:
            graph: where the call goes.
            inputs: as for ``Graph.layer``.
            outputs: as for ``Graph.layer``; by default variables named after the function's outputs.
            args: further arguments of ``Node``, after ``op``.
            kwargs: further arguments of ``Node`` by name, such as ``attrs``.

        Returns:
            The call's outputs; those made here have dtype and shape of the function's outputs.
        """
        if inputs is not None and len(inputs) != len(self.inputs):
            LOGGER.warning("function '%s' takes %d inputs, but %d are given", self.name, len(self.inputs), len(inputs))
        if outputs is not None and len(outputs) != len(self.outputs):
            LOGGER.warning("function '%s' gives %d outputs, but %d are named", self.name, len(self.outputs), len(outputs))
        given = kwargs.get("attrs")
        if given is not None:
            missing = [name for name, default in self.attrs.items() if default is None and name not in given]
            if missing:
                LOGGER.warning("function '%s' needs attributes %s", self.name, missing)
        wanted = outputs if outputs is not None else [t.name for t in self.outputs]
        made = graph.layer(inputs, wanted, *args, op=self.name, domain=self.domain, **kwargs)
        if self.overload:
            made.parent_obj.overload = self.overload
        for asked, new, formal in zip(wanted, made, self.outputs):
            if not isinstance(asked, Tensor) and isinstance(new, Variable):
                new.dtype, new.shape = formal.dtype, formal.shape
        return made

    def copy(self: F, tensor_map: Mapping[str, Tensor] | None = None) -> F:
        """Give a function with nodes and tensors of its own; it shares the list of functions."""
        from onnx_gs.ir.copying import copy_function

        with collector_paused():
            return copy_function(self, tensor_map)

    def __eq__(self, other: object) -> bool:
        """Compare id, opsets, inputs, outputs and nodes."""
        if self is other:
            return True
        return isinstance(other, Function) and all_match([(self, other)])

    def _matches(self, other: Graph, pending: list[tuple[Any, Any]]) -> bool:
        """Compare all but bodies, whose pairs are added to ``pending``."""
        return (
            isinstance(other, Function)
            and self.key == other.key
            and self.opset == other.opset
            and same_domains(self.import_domains, other.import_domains)
            and self.inputs == other.inputs
            and self.outputs == other.outputs
            and same_nodes(self.nodes, other.nodes, pending)
        )

    __hash__ = None

    def _pieces(self) -> Iterator[Any]:
        """Give the text in pieces: id, opset, inputs, attributes, nodes and outputs; a node stands for its own."""
        yield f"Function {self.name}, Domain {self.domain}, Opset {self.opset}\nInputs: {self.inputs}\nAttributes: {self.attrs}\nNodes: [\n"
        for node in self.nodes:
            yield node if isinstance(node, Node) else str(node)
            yield "\n"
        yield f"]\nOutputs: {self.outputs}"
