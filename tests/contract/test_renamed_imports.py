"""A script whose imports were renamed: every module path of the scripts' library, under this package's name."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

import onnx_gs as gs
from tests.contract.test_names_and_logging import MODULES
from tests.support.reference_names import module

PACKAGES = {
    "exporters": "BaseExporter", "graph_pattern.graph_pattern": "GraphPattern PatternMapping", "importers": "BaseImporter",
    "logger.logger": "G_LOGGER LogMode", "util": "", "ir": "",
}  # fmt: skip
PATHS = {**MODULES, **PACKAGES}


def test_every_path_imports_in_a_fresh_program() -> None:
    lines = [f"from onnx_gs.{path} import {', '.join(named.split())}" if named else f"import onnx_gs.{path}" for path, named in PATHS.items()]
    subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(lines)], check=True)


@pytest.mark.parametrize("path", list(PATHS))
def test_names_are_the_same_things_under_both_names(path: str) -> None:
    ours, theirs = importlib.import_module(f"onnx_gs.{path}"), module(path)
    for name in PATHS[path].split():
        if path.startswith("ir.") and name in {"Graph", "Function"}:
            assert issubclass(getattr(theirs, name), getattr(ours, name))  # the data model's class; see below
        else:
            assert getattr(ours, name) is getattr(theirs, name), name


def test_attributes_and_imports_are_the_same_modules() -> None:
    from onnx_gs.util import misc

    assert gs.util.misc is misc
    assert gs.logger.logger.G_LOGGER is gs.logger.G_LOGGER  # type: ignore[attr-defined]
    assert gs.importers.onnx_importer.import_onnx is gs.import_onnx


def test_an_unknown_path_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"onnx_gs\.importers\.other"):
        importlib.import_module("onnx_gs.importers.other")


def test_importing_the_package_loads_none_of_them() -> None:
    code = "import sys, onnx_gs; print([m for m in sys.modules if m.startswith(('onnx_gs.compat', 'onnx_gs.util', 'onnx_gs.importers'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_reloading_the_package_adds_no_second_finder() -> None:
    code = """
import importlib, sys, onnx_gs
importlib.reload(onnx_gs); importlib.reload(onnx_gs.script_modules); importlib.reload(onnx_gs)
print(sum(type(f).__name__ == 'ScriptModules' for f in sys.meta_path))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "1"


def test_graphs_built_by_the_inner_class_have_the_passes() -> None:
    from onnx_gs.ir.function import Function
    from onnx_gs.ir.graph import Graph, Variable

    y = Variable("y", np.float32, ())
    graph = Graph(opset=18)
    total = graph.layer(op="Add", inputs=[np.float32(1), np.float32(2)], outputs=["sum"])[0]
    graph.layer(op="Neg", inputs=[total], outputs=[y])
    graph.outputs = [y]
    assert isinstance(graph, Graph)
    assert isinstance(graph, gs.Graph)
    assert isinstance(gs.Graph(), Graph)
    folded = graph.fold_constants().cleanup()  # type: ignore[attr-defined]
    assert folded is graph
    assert not graph.nodes
    assert graph.outputs[0].values == np.float32(-3)  # type: ignore[attr-defined]

    function = Function("F", nodes=[gs.Node("Neg", inputs=[x := Variable("x")], outputs=[z := Variable("z")])], inputs=[x], outputs=[z])
    assert isinstance(function, gs.Function)
    assert isinstance(function, gs.Graph)
    assert function.cleanup() is function
    assert type(graph.copy()) is gs.Graph
    assert type(function.copy()) is gs.Function


def test_a_class_derived_from_the_inner_one_stays_itself() -> None:
    from onnx_gs.ir.graph import Graph

    class Mine(Graph):
        pass

    assert type(Mine()) is Mine


def test_functions_registered_by_the_inner_class_are_methods() -> None:
    from onnx_gs.ir.graph import Graph

    @Graph.register()
    def renamed_twice(self: Graph, x: gs.Tensor) -> gs.Tensor:
        return self.layer(op="Add", inputs=[x, x], outputs=["twice"])[0]

    try:
        assert gs.Graph().renamed_twice(gs.Variable("x")).name == "twice_0"
    finally:
        del Graph.GLOBAL_FUNC_MAP["renamed_twice"]


def test_the_importer_and_exporter_classes_work() -> None:
    from onnx_gs.exporters.onnx_exporter import OnnxExporter
    from onnx_gs.importers.onnx_importer import OnnxImporter

    x, y = gs.Variable("x", np.float32, (2,)), gs.Variable("y", np.float32, (2,))
    proto = OnnxExporter.export_graph(gs.Graph([gs.Node("Neg", inputs=[x], outputs=[y])], [x], [y]))
    graph = OnnxImporter.import_graph(proto, opset=18)
    assert type(graph) is gs.Graph
    assert [node.op for node in graph.nodes] == ["Neg"]
