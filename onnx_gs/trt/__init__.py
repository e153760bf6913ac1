"""Hand-over to TensorRT: what is in the way, an engine, and what TensorRT made of the control flow.

Two libraries share one API and one door (``trt/tensorrt.py``): ``tensorrt_rtx``, which parses and builds on a machine without a GPU,
and the full ``tensorrt``. ``check`` and ``prepare`` need neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_gs.trt.builder import BuildReport, build
    from onnx_gs.trt.capability import Target, targets
    from onnx_gs.trt.comparison import Comparison, compare
    from onnx_gs.trt.description import Description, describe
    from onnx_gs.trt.engine import Engine, refit
    from onnx_gs.trt.network_builder import NetworkBuilder
    from onnx_gs.trt.options import BuildOptions
    from onnx_gs.trt.profiles import ShapeRange, parse_shapes
    from onnx_gs.trt.readiness import Readiness, check
    from onnx_gs.trt.recipe import prepare
    from onnx_gs.trt.runner import Runner
    from onnx_gs.trt.tensorrt import Library, installed

#: Public name → the module that holds it; loaded on first use, so that one part does not cost the others' imports. No module has the name
#: of a function: importing the module would hide the function.
_HOMES = {
    "BuildOptions": "options", "BuildReport": "builder", "build": "builder",
    "Target": "capability", "targets": "capability",
    "Comparison": "comparison", "compare": "comparison",
    "Description": "description", "describe": "description",
    "Engine": "engine", "refit": "engine",
    "NetworkBuilder": "network_builder",
    "ShapeRange": "profiles", "parse_shapes": "profiles",
    "Readiness": "readiness", "check": "readiness",
    "prepare": "recipe",
    "Runner": "runner",
    "Library": "tensorrt", "installed": "tensorrt",
}  # fmt: skip

__all__ = [
    "BuildOptions", "BuildReport", "Comparison", "Description", "Engine", "Library", "NetworkBuilder", "Readiness", "Runner", "ShapeRange", "Target",
    "build", "check", "compare", "describe", "installed", "parse_shapes", "prepare", "refit", "targets",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name from its module.

    Raises:
        AttributeError: there is no such name.
    """
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module = import_module(f"{__name__}.{home}")
    found = getattr(module, name)
    globals()[name] = found
    return found
