"""The public names: one short list, the same for type checkers."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import onnx_gs

CONTRACT = [
    "import_onnx", "export_onnx", "Graph", "Node", "Tensor", "Variable", "Constant", "Function", "GraphPattern", "PatternMapping",
    "OnnxGraphSurgeonException", "LazyValues", "SparseValues", "SynchronizedList", "__version__",
]  # fmt: skip


def test_all_lists_each_name_once_in_order():
    assert onnx_gs.__all__ == sorted(set(onnx_gs.__all__))
    assert set(CONTRACT) <= set(onnx_gs.__all__)


@pytest.mark.parametrize("name", onnx_gs.__all__)
def test_name_is_there(name):
    assert getattr(onnx_gs, name) is getattr(importlib.import_module("onnx_gs"), name)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Grpah'"):
        _ = onnx_gs.Grpah


def test_dir_lists_what_was_not_loaded_yet():
    code = "import onnx_gs; assert set(onnx_gs.__all__) <= set(dir(onnx_gs)); assert 'bisect' not in vars(onnx_gs)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(onnx_gs.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING")
    seen = {}
    for statement in guarded.body:
        assert isinstance(statement, ast.ImportFrom)
        seen.update({alias.name: statement.module for alias in statement.names})
    assert set(seen) | {name for name in vars(onnx_gs) if name in onnx_gs.__all__} == set(onnx_gs.__all__)
    for name, module in seen.items():
        home = onnx_gs._HOMES[name]
        assert module == (home or "onnx_gs"), name


def test_star_import():
    subprocess.run([sys.executable, "-c", "from onnx_gs import *; Graph, load, trt"], check=True)


@pytest.mark.parametrize("name", [name for name in onnx_gs.__all__ if not name.startswith("__")])
def test_public_things_are_documented(name):
    documented = getattr(onnx_gs, name).__doc__
    assert documented
    assert documented.strip()


def test_subpackages_that_scripts_reach_as_attributes():
    assert onnx_gs.util.misc.volume((2, 3)) == 6
    assert onnx_gs.importers.onnx_importer.import_onnx is onnx_gs.import_onnx
    assert onnx_gs.exporters.onnx_exporter.export_onnx is onnx_gs.export_onnx
    assert onnx_gs.graph_pattern.GraphPattern is onnx_gs.GraphPattern
