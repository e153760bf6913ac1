"""Imports point down the layers, also inside functions, and each foreign package comes in by its one door."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parent.parent / "onnx_gs"

#: Each layer may import itself and those before it. `front` is the public graph class and what stands beside it.
LAYERS = ["version", "errors", "ir", "io", "ops", "analysis", "evaluate", "rewrite", "passes", "trt", "debug", "front", "cli", "viewer"]
LEVEL = {name: level for level, name in enumerate(LAYERS)}
LEVEL["viewer"] = LEVEL["cli"]  # neither may be reached from the other layers, and the command `view` shows pages
#: Modules beside the layers' folders: where they stand.
TOP = {
    "graph": "front", "compat": "cli", "script_modules": "cli", "logger": "errors", "errors": "errors", "version": "version", "__init__": "cli",
    "__main__": "cli",
}  # fmt: skip

#: Foreign package -> where it may be imported: a folder ends with a slash.
DOORS = {
    "onnx": ("io/", "ops/", "analysis/shape_inference.py", "evaluate/reference.py", "compat.py"),
    "google": ("io/", "ops/", "analysis/shape_inference.py", "evaluate/reference.py", "compat.py"),
    "onnxruntime": ("evaluate/onnxruntime.py",),
    "tensorrt": ("trt/tensorrt.py",),
    "tensorrt_rtx": ("trt/tensorrt.py",),
    "rich": ("cli/",),
}
IR_MAY_IMPORT = {"numpy", "ml_dtypes", "onnx_gs"}

FILES = sorted(PACKAGE.rglob("*.py"))


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def layer(module: str) -> str | None:
    """Give the layer of a dotted module of ours; None for the package itself, which loads names on demand."""
    parts = module.split(".")
    if len(parts) == 1:
        return None
    if parts[1] in TOP:
        return TOP[parts[1]]
    return parts[1] if parts[1] in LEVEL else None


def home(path: Path) -> str:
    first = place(path).split("/")[0]
    return TOP[first.removesuffix(".py")] if first.endswith(".py") else first


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Give each imported module with its line, wherever in the file it stands; ``import_module("x")`` counts."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            module = node.module or ""
            if module.split(".")[0] != "onnx_gs":
                yield node.lineno, module
                continue
            for alias in node.names:  # `from onnx_gs.ir import walk` is the module onnx_gs.ir.walk
                inner = PACKAGE.parent.joinpath(*module.split("."), alias.name)
                yield node.lineno, f"{module}.{alias.name}" if inner.with_suffix(".py").exists() or inner.is_dir() else module
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__"} and node.args and isinstance(node.args[0], ast.Constant):
                yield node.lineno, str(node.args[0].value)


def test_every_folder_is_a_layer():
    folders = {place(path).split("/")[0] for path in FILES if "/" in place(path)}
    assert folders <= set(LEVEL)
    assert {path.stem for path in PACKAGE.glob("*.py")} <= set(TOP)


@pytest.mark.parametrize("path", FILES, ids=place)
def test_imports_point_down(path):
    if path == PACKAGE / "__init__.py":
        pytest.skip("the front door names everything and loads it on first use")
    own = LEVEL[home(path)]
    up = []
    for line, module in imports(path):
        if module.split(".")[0] != "onnx_gs":
            continue
        target = layer(module)
        if target is None:
            up.append(f"{place(path)}:{line}: imports the front door `{module}`") if own < LEVEL["front"] else None
        elif LEVEL[target] > own:
            up.append(f"{place(path)}:{line}: {home(path)} imports {target} ({module})")
    assert not up, "\n".join(up)


@pytest.mark.parametrize("path", FILES, ids=place)
def test_foreign_packages_come_in_by_their_door(path):
    where = place(path)
    astray = []
    for line, module in imports(path):
        package = module.split(".")[0]
        doors = DOORS.get(package)
        if doors is not None and not any(where.startswith(door) if door.endswith("/") else where == door for door in doors):
            astray.append(f"{where}:{line}: {module}")
    assert not astray, "\n".join(astray)


@pytest.mark.parametrize("path", [path for path in FILES if place(path).startswith("ir/")], ids=place)
def test_ir_needs_numpy_alone(path):
    import sys

    allowed = IR_MAY_IMPORT | set(sys.stdlib_module_names)
    assert {module.split(".")[0] for _, module in imports(path)} <= allowed


def test_ir_loads_without_protobuf():
    import subprocess
    import sys

    code = f"""
import sys, types
package = sys.modules["onnx_gs"] = types.ModuleType("onnx_gs")  # the front door, which loads the rest, left out
package.__path__ = [{str(PACKAGE)!r}]
import onnx_gs.ir
print([m for m in ("onnx", "google.protobuf", "onnxruntime", "rich") if m in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_the_import_brings_what_a_script_needs_and_no_more():
    import subprocess
    import sys

    code = """
import sys
import onnx_gs as gs
before = set(sys.modules)
graph = gs.Graph([gs.Node("Neg", inputs=[x := gs.Variable("x", "float32", (2,))], outputs=[y := gs.Variable("y", "float32")])], [x], [y])
gs.import_onnx(gs.export_onnx(graph.simplify()))
print([m for m in sys.modules if m.startswith("onnx_gs") and m not in before])
print([m for m in ("onnxruntime", "tensorrt", "tensorrt_rtx", "rich", "onnx_gs.debug", "onnx_gs.trt", "onnx_gs.viewer") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
