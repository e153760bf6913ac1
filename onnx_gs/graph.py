"""The public graph: the data model with the passes as methods, and the doors to files."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from onnx_gs import ir
from onnx_gs.errors import GraphValueError
from onnx_gs.io import files
from onnx_gs.ir.faults import explained
from onnx_gs.ir.layer import Yielding
from onnx_gs.passes import cleanup as _cleanup, toposort as _toposort
from onnx_gs.passes.fold_constants import fold_constants
from onnx_gs.passes.simplify import Simplify

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from onnx_gs.ir import Node
    from onnx_gs.passes.base import Pass, Report
    from onnx_gs.passes.bind_dims import DimSizes

M = TypeVar("M")
G = TypeVar("G", bound="Graph")


def _ours(method: M) -> M:
    """Let a method that scripts do not know give way to a function that a user registers under its name."""
    return cast("M", Yielding(cast("Callable[..., Any]", method)))


class Graph(ir.Graph):  # noqa: D101 - the docstring of the data model's class, on the next line
    __doc__ = ir.Graph.__doc__

    def toposort(self: G, recurse_subgraphs: bool = True, recurse_functions: bool = True, mode: str = "full") -> G:
        """Sort the graph in place so that producers come before consumers; a sorted graph keeps its order.

        Args:
            recurse_subgraphs: also sort bodies.
            recurse_functions: also sort the bodies of the local functions.
            mode: ``"nodes"``, ``"functions"`` (callees before callers), or ``"full"`` for both.

        Returns:
            This graph.

        Raises:
            GraphValueError: the mode is unknown.
            GraphError: there is a cycle of nodes or functions, which is named; or a tensor's producer is not in the graph.
        """
        with explained(self):
            _toposort.toposort(self, recurse_subgraphs=recurse_subgraphs, recurse_functions=recurse_functions, mode=mode)
        return self

    def cleanup(
        self: G,
        remove_unused_node_outputs: bool = False,
        recurse_subgraphs: bool = True,
        remove_unused_graph_inputs: bool = False,
        recurse_functions: bool = True,
    ) -> G:
        """Drop, in place, nodes that the outputs do not depend on; what a body captures is depended on.

        Args:
            remove_unused_node_outputs: also make optional node outputs that nothing reads empty; positions never shift.
            recurse_subgraphs: also inside bodies, whose own inputs and outputs stay.
            remove_unused_graph_inputs: also drop inputs of this graph that nothing reads.
            recurse_functions: also inside local functions, whose own inputs and outputs stay.

        Returns:
            This graph.

        Raises:
            GraphError: two different tensors share a name in one scope.

        Example:
            >>> import onnx_gs as gs
            >>> x, y, dead = gs.Variable("x"), gs.Variable("y"), gs.Variable("dead")
            >>> nodes = [gs.Node("Neg", inputs=[x], outputs=[y]), gs.Node("Abs", inputs=[x], outputs=[dead])]
            >>> [n.op for n in gs.Graph(nodes, [x], [y]).cleanup().nodes]
            ['Neg']
        """
        with explained(self):
            _cleanup.cleanup(
                self, remove_unused_node_outputs=remove_unused_node_outputs, recurse_subgraphs=recurse_subgraphs,
                remove_unused_graph_inputs=remove_unused_graph_inputs, recurse_functions=recurse_functions,
            )  # fmt: skip
        return self

    def fold_constants(
        self: G,
        fold_shapes: bool = True,
        recurse_subgraphs: bool = True,
        partitioning: str | None = None,
        error_ok: bool = True,
        flatten_subgraphs: bool = True,
        size_threshold: int | None = None,
        should_exclude_node: Callable[[Node], bool] | None = None,
        recurse_functions: bool = True,
    ) -> G:
        """Compute, in place, what depends on constants only; dead nodes stay until ``cleanup()``.

        Args:
            fold_shapes: also fold shapes that are known and remove casts around shape arithmetic.
            recurse_subgraphs: also inside bodies.
            partitioning: None, ``"basic"`` or ``"recursive"``; a node that cannot be evaluated never stops the others, whichever is given.
            error_ok: False raises when a node cannot be evaluated, instead of leaving it.
            flatten_subgraphs: replace an ``If`` with a constant condition by the branch that it takes.
            size_threshold: bytes above which a result is not stored; None for no limit.
            should_exclude_node: asked for every node that could be folded, at any depth; true leaves it and what depends on it.
            recurse_functions: also inside local functions.

        Returns:
            This graph.

        Raises:
            GraphValueError: ``partitioning`` is none of the three.
            EvaluationError: a node cannot be evaluated and ``error_ok`` is False.
        """
        with explained(self):
            fold_constants(
                self, fold_shapes=fold_shapes, recurse_subgraphs=recurse_subgraphs, partitioning=partitioning, error_ok=error_ok,
                flatten_subgraphs=flatten_subgraphs, size_threshold=size_threshold, should_exclude_node=should_exclude_node,
                recurse_functions=recurse_functions,
            )  # fmt: skip
        return self

    @_ours
    def apply(self: G, *passes: Pass | str) -> Report:
        """Run passes, given as objects or as text such as ``"fold-constants,cleanup"``, and give their report."""
        from onnx_gs.passes.pipeline import Pipeline

        return Pipeline.of(*passes)(self)

    @_ours
    def simplify(self: G, **options: Any) -> G:
        """Make the graph smaller, in place, without changing what it computes: shapes, folding, no-ops, duplicates, dead nodes.

        Args:
            options: those of ``passes.simplify.Simplify``.

        Returns:
            This graph.
        """
        with explained(self):
            Simplify(**options)(self)
        return self

    @_ours
    def lower_control_flow(self: G, **options: Any) -> G:
        """Replace ``If``, ``Loop``, ``Scan``, sequences and optionals, in place, as far as that can be done exactly.

        Args:
            options: those of ``passes.lower_control_flow.LowerControlFlow``.

        Returns:
            This graph; call the pass itself for the report of what was declined.
        """
        from onnx_gs.passes.lower_control_flow import LowerControlFlow

        with explained(self):
            LowerControlFlow(**options)(self)
        return self

    @_ours
    def bind_dims(self: G, dims: DimSizes) -> G:
        """Give dims that are not fixed their sizes, in place.

        Args:
            dims: sizes by the dim's name, such as ``{"batch": 4}``; by an input and its axis, such as ``{("x", 0): 4}`` or ``{"x:0": 4}``, which
                takes dims without a name too.

        Returns:
            This graph.
        """
        from onnx_gs.passes.bind_dims import BindDims

        BindDims(dims)(self)
        return self

    @_ours
    def make_dynamic(self: G, input: str | Mapping[str, int], axis: int | None = None, name: str = "batch") -> Report:  # noqa: A002 - the natural word
        """Make an axis of an input symbolic, with the constants that hold its old size because of it; proved by running two sizes.

        Inputs that share the size are freed together: ``graph.make_dynamic({"x": 0, "mask": 1}, name="batch")``.

        Args:
            input: name of a graph input; or the axis of each of several, by name.
            axis: the input's axis, where one is named.
            name: the new symbol.

        Returns:
            The report; when something could not be proved, the graph is unchanged and the report says what.
        """
        from onnx_gs.passes.make_dynamic import MakeDynamic

        if isinstance(input, str) is (axis is None) or not input:
            what = "make_dynamic takes an input and its axis, or the axes of several inputs by name"
            raise GraphValueError(what, fix='call make_dynamic("x", 0, "batch") or make_dynamic({"x": 0, "z": 0}, name="batch")')
        if isinstance(input, str):
            return MakeDynamic(input, axis or 0, name)(self)
        (first, at), *further = input.items()
        return MakeDynamic(first, at, name, dict(further))(self)

    @_ours
    def infer_shapes(self: G) -> G:
        """Write inferred dtypes and shapes down, in place, bodies included; what the model declares is never weakened."""
        from onnx_gs.analysis.shape_inference import infer

        infer(self)
        return self

    def _repr_svg_(self) -> str | None:
        """Give a picture for notebooks; None for a graph that is too large for one."""
        from onnx_gs.debug.drawing import MOST_NODES, draw

        return draw(self).svg if len(self.nodes) <= MOST_NODES else None

    def _repr_html_(self) -> str:
        """Give a picture for notebooks, or a table of a graph that is too large for one."""
        from onnx_gs.debug.drawing import summary

        return self._repr_svg_() or summary(self)


class Function(ir.Function, Graph):  # noqa: D101 - likewise
    __doc__ = ir.Function.__doc__

    def toposort(self: G, recurse_subgraphs: bool = True, recurse_functions: bool = False, mode: str = "nodes") -> G:
        """Sort the body in place; see ``Graph.toposort``."""
        _warn_about_functions(recurse_functions)
        _toposort.toposort(self, recurse_subgraphs=recurse_subgraphs, recurse_functions=False, mode=mode)
        return self

    def cleanup(
        self: G,
        remove_unused_node_outputs: bool = False,
        recurse_subgraphs: bool = True,
        remove_unused_graph_inputs: bool = False,
        recurse_functions: bool = False,
    ) -> G:
        """Drop dead nodes of the body in place; see ``Graph.cleanup``. The signature stays."""
        _warn_about_functions(recurse_functions)
        _cleanup.cleanup(
            self, remove_unused_node_outputs=remove_unused_node_outputs, recurse_subgraphs=recurse_subgraphs,
            remove_unused_graph_inputs=remove_unused_graph_inputs, recurse_functions=False,
        )  # fmt: skip
        return self

    def fold_constants(self: G, recurse_functions: bool = False, **options: Any) -> G:  # type: ignore[override]
        """Fold the body in place; see ``Graph.fold_constants``."""
        _warn_about_functions(recurse_functions)
        fold_constants(self, recurse_functions=False, **options)
        return self


ir.Graph._made_as = Graph
ir.Function._made_as = Function


def _warn_about_functions(recurse_functions: bool) -> None:
    if recurse_functions:
        ir.graph.LOGGER.warning("recurse_functions has no meaning for one function; call the method on the graph")


def load(path: str | os.PathLike[str] | IO[bytes]) -> Graph:
    """Open a model file. Weights stay on disk until they are read.

    Args:
        path: a ``.onnx`` file, or a binary stream; external data is looked for in the file's folder.

    Raises:
        ModelFileError: the file cannot be read, is no ONNX model, or external data is missing or not allowed.
    """
    return cast("Graph", files.load(path, graph_type=Graph, function_type=Function))


def import_onnx(onnx_model: Any) -> Graph:
    """Import an ``onnx.ModelProto``, which is neither changed nor kept.

    Args:
        onnx_model: the message.

    Raises:
        GraphError: the model breaks a rule that the graph cannot express.
    """
    return cast("Graph", files.import_onnx(onnx_model, graph_type=Graph, function_type=Function))


__all__: Sequence[str] = ["Function", "Graph", "import_onnx", "load"]
