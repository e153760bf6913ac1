"""The module paths of onnx-graphsurgeon that this package is not itself made of, such as ``onnx_gs.importers.onnx_importer``.

Scripts whose imports were renamed ask for them. They are made when they are first imported, from the names that ``compat`` lists.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import types
    from collections.abc import Sequence

PACKAGE = "onnx_gs"

#: Paths below the package.
PATHS = frozenset({
    "exporters", "exporters.base_exporter", "exporters.onnx_exporter", "graph_pattern", "graph_pattern.graph_pattern",
    "importers", "importers.base_importer", "importers.onnx_importer", "logger.logger", "util", "util.exception", "util.misc",
})  # fmt: skip


class ScriptModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find and fill the modules of ``PATHS``; asked after every other finder, so that real modules win."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        """Give a spec for one of the paths, None for any other module."""
        package, _, inner = fullname.partition(".")
        if package != PACKAGE or inner not in PATHS:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: types.ModuleType) -> None:
        """Fill in the names."""
        path = module.__name__.partition(".")[2]
        names = importlib.import_module("onnx_gs.compat").names()[path]
        module.__doc__ = f"Names of onnx-graphsurgeon's {path}."
        module.__dict__.update(names)

        def submodule(name: str) -> types.ModuleType:
            if f"{path}.{name}" not in PATHS:
                raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
            return importlib.import_module(f"{module.__name__}.{name}")

        module.__dict__.setdefault("__getattr__", submodule)  # scripts also reach submodules that nobody imported


def install() -> None:
    """Let the paths be imported; doing it again changes nothing."""
    if not any(type(finder).__name__ == ScriptModules.__name__ and type(finder).__module__ == __name__ for finder in sys.meta_path):
        sys.meta_path.append(ScriptModules())
