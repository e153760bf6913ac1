"""What a model says beside its graph, and what a graph remembers of the message that it was read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onnx_gs.ir.tensor import Tensor


@dataclass
class Model:
    """The model's own fields, shared by a graph, its bodies and its functions.

    Attributes:
        domain: reverse-DNS name of the model's namespace.
        version: the model's version number.
        doc_string: the note about the model.
        metadata_props: metadata by key.
        source: the rest of the message (training information, device configurations, unknown fields); opaque.
    """

    domain: str = ""
    version: int = 0
    doc_string: str = ""
    metadata_props: dict[str, str] = field(default_factory=dict)
    source: Any = None

    def copy(self) -> Model:
        """Give a model with metadata of its own."""
        return Model(self.domain, self.version, self.doc_string, dict(self.metadata_props), self.source)


@dataclass
class ImportRecord:
    """What export replays of an imported graph, for what still exists.

    Attributes:
        source: the graph's message without nodes, values and weights (unknown fields, …); opaque.
        initializers: the weights in their order, dense ones before sparse ones, also those that nothing uses.
        unused: the weights among them that nothing used when they were read.
        value_info: each value description in its order, with the tensor that it is about; None where nothing has that name.
        quantization: each quantization annotation in its order, with its tensor or None.
        inputs: each description of an input in its order, with its tensor: also weights that are inputs too (before IR 4).
        outputs: each description of an output in its order, with its tensor.
    """

    source: Any = None
    initializers: list[Tensor] = field(default_factory=list)
    unused: list[Tensor] = field(default_factory=list)
    value_info: list[tuple[Any, Tensor | None]] = field(default_factory=list)
    quantization: list[tuple[Any, Tensor | None]] = field(default_factory=list)
    inputs: list[tuple[Any, Tensor | None]] = field(default_factory=list)
    outputs: list[tuple[Any, Tensor | None]] = field(default_factory=list)

    def copy(self, twins: Callable[[Iterable[Tensor]], list[Tensor]]) -> ImportRecord:
        """Give a record about the copies that ``twins`` names, given originals."""

        def described(entries: list[tuple[Any, Tensor | None]]) -> list[tuple[Any, Tensor | None]]:
            known = iter(twins([t for _, t in entries if t is not None]))
            return [(message, None if t is None else next(known)) for message, t in entries]

        return ImportRecord(self.source, twins(self.initializers), twins(self.unused), *map(described, self.described()))

    def described(self) -> tuple[list[tuple[Any, Tensor | None]], ...]:
        """Give the four lists of messages about tensors, in the order of the fields."""
        return (self.value_info, self.quantization, self.inputs, self.outputs)

    def drop_unused(self) -> None:
        """Forget weights that nothing uses, and descriptions of values that nothing has or that are weights, which say their type themselves."""
        gone = {id(t) for t in self.unused}
        self.initializers = [t for t in self.initializers if id(t) not in gone]
        self.unused = []
        self.value_info = [entry for entry in self.value_info if entry[1] is not None and not isinstance(entry[1], Constant)]
        self.quantization = [entry for entry in self.quantization if entry[1] is not None]
