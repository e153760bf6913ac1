"""ONNX Runtime against an engine, output by output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import EvaluationError, GraphTypeError, MissingExtraError
from onnx_gs.evaluate import compare as values, feeds as made_up, onnxruntime
from onnx_gs.ir import Graph

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from onnx_gs.evaluate.compare import Difference
    from onnx_gs.trt.engine import Engine
    from onnx_gs.trt.runner import Runner

#: Tolerances against an engine: TensorRT adds up in another order, and may use TF32.
ENGINE_TOLERANCES = (1e-5, 1e-3)


@dataclass
class Comparison:
    """Two results side by side.

    Attributes:
        outputs: for each output how it differs; None where it is equal.
        absolute: absolute differences up to this count as none.
        relative: relative differences up to this count as none.
    """

    outputs: dict[str, Difference | None] = field(default_factory=dict)
    absolute: float = 0.0
    relative: float = 0.0

    def covers(self, difference: Difference) -> bool:
        """Say whether the tolerances cover a difference."""
        return difference.within(self.absolute, self.relative)

    @property
    def first(self) -> str | None:
        """The first output that differs by more than the tolerances."""
        return next((name for name, d in self.outputs.items() if d is not None and not self.covers(d)), None)

    @property
    def same(self) -> bool:
        """Say whether no output differs by more than the tolerances."""
        return self.first is None

    def as_dict(self) -> dict[str, Any]:
        """Give plain data, for JSON."""
        told = {
            n: None if d is None else {"kind": d.kind, "text": d.text, "absolute": d.absolute, "relative": d.relative}
            for n, d in self.outputs.items()
        }
        return {"same": self.same, "first": self.first, "absolute": self.absolute, "relative": self.relative, "outputs": told}

    def __str__(self) -> str:
        """Show a line for each output."""
        return "\n".join(
            f"{name}: {'equal' if d is None else ('close: ' if self.covers(d) else 'differs: ') + str(d)}" for name, d in self.outputs.items()
        )


def compare(
    model: Graph,
    other: Engine | Runner | Graph | bytes | str | os.PathLike[str],
    feeds: Mapping[str, Any] | None = None,
    *,
    absolute: float | None = None,
    relative: float | None = None,
    seed: int = 0,
    device: int = 0,
) -> Comparison:
    """Run a model in ONNX Runtime and an engine, or another model, on the same inputs.

    Args:
        model: what is right.
        other: an engine, a ``Runner``, or another graph.
        feeds: arrays for inputs by name, also those that only the other model takes; what is left out is made up, so that the model runs on it.
        absolute: absolute differences up to this count as none; None for 1e-5 against an engine, 0 against a graph.
        relative: relative ones; None for 1e-3 against an engine, 0 against a graph.
        seed: for inputs that are made up.
        device: the GPU of an engine.

    Raises:
        GraphTypeError: the model is no graph, or the other no engine.
        GraphValueError: the other model needs an input that the model does not have.
        EvaluationError: ONNX Runtime cannot run the model.
        TensorRTError: the engine cannot be run here.

    Example:
        >>> import numpy as np
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> def graph(op):
        ...     x, y = Variable("x", np.float32, (2,)), Variable("y", np.float32, (2,))
        ...     return Graph([Node(op, inputs=[x], outputs=[y])], [x], [y])
        >>> compare(graph("Neg"), graph("Neg")).same, compare(graph("Neg"), graph("Abs")).first
        (True, 'y')
    """
    if not isinstance(model, Graph):
        raise GraphTypeError(f"a {type(model).__name__} is no graph", fix="load the model: gs.load(path)")
    is_graph = isinstance(other, Graph)
    slack = (0.0, 0.0) if is_graph else ENGINE_TOLERANCES
    given = feeds or {}
    if isinstance(other, Graph):
        made_up.for_other(model, other, {**dict.fromkeys(t.name for t in model.inputs), **given})  # before anything is run
    session = onnxruntime.session(model)
    values_of, expected = made_up.first_that_run(model, session.run, seed, given=given)
    fed = {**given, **values_of}
    found = _run_other(model, other, fed, session.threads) if isinstance(other, Graph) else _run_engine(other, values_of, device)
    result = Comparison({}, slack[0] if absolute is None else absolute, slack[1] if relative is None else relative)
    for name, value in expected.items():
        if name not in found:
            result.outputs[name] = values.Difference("kind", "the output is missing")
            continue
        other_value = found[name]
        if not is_graph and getattr(value, "dtype", None) == np.float64 and other_value.dtype == np.float32:
            value = value.astype(np.float32)
        result.outputs[name] = values.compare(value, other_value)
    return result


def _run_other(model: Graph, other: Graph, feeds: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """Run the second model on what it takes.

    Raises:
        EvaluationError: it does not run; the error says that it is the second.
    """
    try:
        return onnxruntime.session(other, threads=threads).run(made_up.for_other(model, other, feeds))
    except MissingExtraError:
        raise
    except EvaluationError as error:
        raise EvaluationError(error.what, where=f"the second model{f' > {error.where}' if error.where else ''}", fix=error.fix) from error


def _run_engine(other: Any, feeds: dict[str, Any], device: int) -> dict[str, Any]:
    from onnx_gs.trt.runner import Runner

    if isinstance(other, Runner):
        return other(feeds)
    with Runner(other, device=device) as runner:
        return runner(feeds)
