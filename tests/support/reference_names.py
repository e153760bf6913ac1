"""The modules of the library that scripts were written for, as our compatibility layer gives them."""

from __future__ import annotations

import importlib
from typing import Any

from onnx_gs import compat


def module(path: str = "") -> Any:
    """Import a submodule, such as ``"ir.tensor"``, the way a script does."""
    compat.install()
    return importlib.import_module(f"onnx_graphsurgeon.{path}" if path else "onnx_graphsurgeon")
