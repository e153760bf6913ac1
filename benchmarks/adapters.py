"""How each tool does each job, the usual way for it; a job that a tool has no word for is missing.

``load(path)`` gives the tool's own model; ``save(model, path)``, ``copy(model)``, ``toposort(model)`` and ``cleanup(model)`` take it;
``fold(path)`` goes from the file to the folded model in memory. ``nodes(model)`` counts what is left, bodies apart.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any


class Adapter:
    """One tool."""

    package = ""
    #: The job -> what the tool is known to do well or not at all.
    jobs: tuple[str, ...] = ()

    def __init__(self) -> None:
        """Import the tool; that is not measured."""

    @classmethod
    def version(cls) -> str | None:
        """Give the installed version, or None."""
        try:
            return importlib.metadata.version(cls.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def nodes(self, model: Any) -> int:
        """Count the nodes of a model, ``Constant`` nodes apart."""
        graph = getattr(model, "graph", model)
        found = graph.node if hasattr(graph, "node") and not callable(graph.node) else list(graph)
        return sum(node.op_type != "Constant" for node in found)


class Surgeon(Adapter):
    """A tool with the calls of onnx-graphsurgeon."""

    gs: Any

    def layer(self, model: Any) -> Any:
        """Build as many nodes as the model has, one call each."""
        graph = self.gs.Graph(opset=17)
        value: Any = self.gs.Variable("x", "float32", ("batch", 4))
        graph.inputs = [value]
        for _ in model.nodes:
            (value,) = graph.layer(op="Add", inputs=[value, 1.0], outputs=["y"])
        return graph

    def detach(self, model: Any) -> Any:
        """Take all readers off the model's input one by one, the last first."""
        for node in reversed(model.nodes):
            node.inputs.clear()
        return model


class Ours(Surgeon):
    """The package at hand."""

    package = "onnx_gs"
    jobs = ("load", "save", "copy", "toposort", "cleanup", "layer", "detach", "fold")

    def __init__(self) -> None:
        import onnx_gs as gs

        self.gs = gs
        gs.Graph, gs.save

    def load(self, path: str) -> Any:
        return self.gs.load(path)

    def save(self, model: Any, path: str) -> None:
        self.gs.save(model, path)

    def copy(self, model: Any) -> Any:
        return model.copy()

    def toposort(self, model: Any) -> Any:
        return model.toposort()

    def cleanup(self, model: Any) -> Any:
        return model.cleanup()

    def fold(self, path: str) -> Any:
        return self.gs.load(path).fold_constants().cleanup()

    def nodes(self, model: Any) -> int:
        return sum(node.op != "Constant" for node in model.nodes)


class OursSimplify(Ours):
    """The package at hand, with everything that ``onnx-gs fold`` does."""

    jobs = ("fold",)

    def fold(self, path: str) -> Any:
        return self.gs.load(path).simplify()


class Onnx(Adapter):
    """The protobuf messages alone: the floor for tools that parse them."""

    package = "onnx"
    jobs = ("load", "save", "copy")

    def __init__(self) -> None:
        import onnx

        self.onnx = onnx

    def load(self, path: str) -> Any:
        return self.onnx.load(path)

    def save(self, model: Any, path: str) -> None:
        self.onnx.save(model, path)

    def copy(self, model: Any) -> Any:
        new = self.onnx.ModelProto()
        new.CopyFrom(model)
        return new


class GraphSurgeon(Surgeon):
    """onnx-graphsurgeon, with onnx's shape inference before folding, as its documentation shows."""

    package = "onnx-graphsurgeon"
    jobs = ("load", "save", "copy", "toposort", "cleanup", "layer", "detach", "fold")

    def __init__(self) -> None:
        import onnx
        import onnx_graphsurgeon

        self.onnx, self.gs = onnx, onnx_graphsurgeon

    def load(self, path: str) -> Any:
        return self.gs.import_onnx(self.onnx.load(path))

    def save(self, model: Any, path: str) -> None:
        self.onnx.save(self.gs.export_onnx(model), path)

    def copy(self, model: Any) -> Any:
        return model.copy()

    def toposort(self, model: Any) -> Any:
        return model.toposort()

    def cleanup(self, model: Any) -> Any:
        return model.cleanup()

    def fold(self, path: str) -> Any:
        model = self.onnx.load(path)
        if model.ByteSize() < 2 * 10**9:
            model = self.onnx.shape_inference.infer_shapes(model)
        return self.gs.import_onnx(model).fold_constants().cleanup()

    def nodes(self, model: Any) -> int:
        return sum(node.op != "Constant" for node in model.nodes)


class OnnxIr(Adapter):
    """onnx-ir."""

    package = "onnx-ir"
    jobs = ("load", "save", "copy", "toposort", "cleanup")

    def __init__(self) -> None:
        import onnx_ir
        import onnx_ir.passes.common as passes

        self.ir, self.passes = onnx_ir, passes

    def load(self, path: str) -> Any:
        return self.ir.load(path)

    def save(self, model: Any, path: str) -> None:
        self.ir.save(model, path)

    def copy(self, model: Any) -> Any:
        return model.clone() if hasattr(model, "clone") else model.graph.clone()

    def toposort(self, model: Any) -> Any:
        model.graph.sort()
        return model

    def cleanup(self, model: Any) -> Any:
        return self.passes.RemoveUnusedNodesPass()(model).model


class Onnxscript(Adapter):
    """onnxscript's optimizer, on its own graphs."""

    package = "onnxscript"
    jobs = ("fold",)

    def __init__(self) -> None:
        import onnx_ir
        import onnxscript.optimizer

        self.ir, self.optimizer = onnx_ir, onnxscript.optimizer

    def fold(self, path: str) -> Any:
        return self.optimizer.optimize(self.ir.load(path))


class Onnxslim(Adapter):
    """onnxslim."""

    package = "onnxslim"
    jobs = ("fold",)

    def __init__(self) -> None:
        import onnx
        import onnxslim

        self.onnx, self.slim = onnx, onnxslim

    def fold(self, path: str) -> Any:
        return self.slim.slim(self.onnx.load(path))


class Onnxsim(Adapter):
    """onnxsim, which is written in C++."""

    package = "onnxsim"
    jobs = ("fold",)

    def __init__(self) -> None:
        import onnx
        import onnxsim

        self.onnx, self.sim = onnx, onnxsim

    def fold(self, path: str) -> Any:
        return self.sim.simplify(self.onnx.load(path))[0]


class Polygraphy(Adapter):
    """polygraphy's loaders around onnx-graphsurgeon, as ``polygraphy surgeon sanitize --fold-constants`` uses them."""

    package = "polygraphy"
    jobs = ("fold",)

    def __init__(self) -> None:
        import onnx
        from polygraphy.backend import onnx as backend

        self.onnx, self.backend = onnx, backend

    def fold(self, path: str) -> Any:
        return self.backend.fold_constants(self.onnx.load(path))


ADAPTERS: dict[str, type[Adapter]] = {
    "onnx_gs": Ours,
    "onnx_gs simplify": OursSimplify,
    "onnx": Onnx,
    "onnx-graphsurgeon": GraphSurgeon,
    "onnx-ir": OnnxIr,
    "onnxscript": Onnxscript,
    "onnxslim": Onnxslim,
    "onnxsim": Onnxsim,
    "polygraphy": Polygraphy,
}
