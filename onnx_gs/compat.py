"""Run scripts written for onnx-graphsurgeon unchanged: its module names, resolving to this package.

``python -m onnx_gs.compat script.py ...`` runs a script, ``python -m onnx_gs.compat -m module ...`` a module, with ``import onnx_graphsurgeon``
giving this package's classes. ``install()`` does the same inside a running program. Scripts whose imports were renamed reach the same modules
under this package's name (``script_modules``).
"""

from __future__ import annotations

import functools
import runpy
import sys
import types
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import onnx

import onnx_gs
from onnx_gs.errors import OnnxGraphSurgeonException
from onnx_gs.io import contract
from onnx_gs.ir import SynchronizedList, function, graph, node, tensor, values
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.logger import G_LOGGER, Logger, LogMode
from onnx_gs.rewrite.graph_pattern import GraphPattern, PatternMapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")

#: The API level that tools ask for by version.
API_VERSION = "0.6.1"
NAME = "onnx_graphsurgeon"


class BaseImporter:
    """What importers of the scripts' library derive from."""

    @staticmethod
    def import_graph(graph: object) -> NoReturn:
        """Refuse: a derived class imports.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("BaseImporter is abstract")


class BaseExporter:
    """What exporters of the scripts' library derive from."""

    @staticmethod
    def export_graph(graph: object) -> NoReturn:
        """Refuse: a derived class exports.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("BaseExporter is abstract")


def default_value(value: T | None, default: T) -> T:
    """Give ``default`` only where ``value`` is None."""
    return default if value is None else value


def combine_dicts(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> OrderedDict[Any, Any]:
    """Give a new ordered dict of both; the second wins."""
    return OrderedDict([*first.items(), *second.items()])


def is_dynamic_dimension(dim: object) -> bool:
    """Say whether a dim is unknown: anything but an integer of at least 0.

    Example:
        >>> is_dynamic_dimension("n"), is_dynamic_dimension(-1), is_dynamic_dimension(0), is_dynamic_dimension(np.int64(3))
        (True, True, False, False)
    """
    return not is_static_dim(dim)


def is_dynamic_shape(shape: Iterable[object]) -> bool:
    """Say whether any dim of a shape is unknown."""
    return any(is_dynamic_dimension(dim) for dim in shape)


def volume(shape: Iterable[int]) -> int:
    """Multiply the dims of a shape; 1 for a scalar."""
    count = 1
    for dim in shape:
        count *= dim
    return count


def _names(*homes: Any, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for home in homes:
        found[home.__name__.rpartition(".")[2]] = home
    found.update(more)
    return found


@functools.cache
def names() -> dict[str, dict[str, Any]]:
    """Give the names in each module of the scripts' library, by path below its top, which is ``""``."""
    public = onnx_gs
    classes = {"Graph": public.Graph, "Function": public.Function, "Node": public.Node, "Tensor": public.Tensor, "Variable": public.Variable,
               "Constant": public.Constant}  # fmt: skip
    tensors = {name: classes[name] for name in ("Tensor", "Variable", "Constant")}
    lazy = {"LazyValues": values.LazyValues, "SparseValues": values.SparseValues}
    patterns = _names(GraphPattern, PatternMapping)
    logging = {"G_LOGGER": G_LOGGER, "LogMode": LogMode, "Logger": Logger}
    misc = _names(default_value, combine_dicts, is_dynamic_dimension, is_dynamic_shape, volume, SynchronizedList,
                  convert_from_onnx_attr_type=contract.convert_from_onnx_attr_type,
                  convert_to_onnx_attr_type=contract.convert_to_onnx_attr_type)  # fmt: skip
    importer = {name: getattr(contract, name) for name in (
        "OnnxImporter", "get_onnx_tensor_shape", "get_onnx_tensor_dtype", "get_onnx_tensor_type", "get_numpy_type", "get_itemsize", "get_dtype_name",
    )}  # fmt: skip
    given = {"graph_type": public.Graph, "function_type": public.Function, "__doc__": contract.OnnxImporter.__doc__}
    importer["OnnxImporter"] = type("OnnxImporter", (contract.OnnxImporter,), given)
    exporter = {name: getattr(contract, name) for name in (
        "OnnxExporter", "constant_to_onnx_tensor", "dtype_to_onnx", "update_import_domains", "check_duplicate_node_names",
    )}  # fmt: skip
    top = {**classes, **patterns, "import_onnx": public.import_onnx, "export_onnx": contract.export_onnx, "__version__": API_VERSION,
           "OnnxGraphSurgeonException": OnnxGraphSurgeonException}  # fmt: skip
    everything = {**classes, **lazy, **misc, "G_LOGGER": G_LOGGER, "LogMode": LogMode,
                  "OnnxGraphSurgeonException": OnnxGraphSurgeonException}  # fmt: skip
    return {
        "": top,
        "ir": {},
        "ir.tensor": {**_public(tensor), **everything, **tensors, **lazy},
        "ir.node": {**_public(node), **everything},
        "ir.graph": {**_public(graph), **everything},
        "ir.function": {**_public(function), **everything},
        "importers": {"BaseImporter": BaseImporter},
        "importers.onnx_importer": {**everything, **importer, "import_onnx": public.import_onnx, "BaseImporter": BaseImporter, "onnx": onnx},
        "importers.base_importer": {"BaseImporter": BaseImporter},
        "exporters": {"BaseExporter": BaseExporter},
        "exporters.onnx_exporter": {**everything, **exporter, "export_onnx": contract.export_onnx, "BaseExporter": BaseExporter, "onnx": onnx},
        "exporters.base_exporter": {"BaseExporter": BaseExporter},
        "graph_pattern": patterns,
        "graph_pattern.graph_pattern": patterns,
        "logger": logging,
        "logger.logger": logging,
        "util": {},
        "util.misc": {**misc, "G_LOGGER": G_LOGGER, "np": np},
        "util.exception": {"OnnxGraphSurgeonException": OnnxGraphSurgeonException},
    }


def _public(module: types.ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def install() -> types.ModuleType:
    """Let ``import onnx_graphsurgeon`` and its submodules give this package's classes, and return the top module.

    Example:
        >>> install().__version__
        '0.6.1'
        >>> import sys, onnx_gs
        >>> sys.modules["onnx_graphsurgeon.ir.tensor"].Variable is onnx_gs.Variable
        True
    """
    made = _made()
    sys.modules.update(made)
    return made[NAME]


@functools.cache
def _made() -> dict[str, types.ModuleType]:
    """Make the modules of the scripts' library, by full name, linked to each other."""
    made: dict[str, types.ModuleType] = {}
    for path, contents in names().items():
        full = f"{NAME}.{path}" if path else NAME
        module = types.ModuleType(full, f"Names of onnx-graphsurgeon's {path or 'top level'}, from onnx_gs.")
        module.__path__ = []  # a package, so that submodules are looked for
        module.__dict__.update(contents)
        made[full] = module
    for full, module in made.items():
        parent, _, name = full.rpartition(".")
        if parent:
            setattr(made[parent], name, module)
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run a script, or with ``-m`` a module, with the scripts' library resolving to this package."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or (given[0] == "-m" and len(given) == 1) or given[0] in {"-h", "--help"}:
        sys.stderr.write("usage: python -m onnx_gs.compat script.py [arguments]\n       python -m onnx_gs.compat -m module [arguments]\n")
        return 0 if given and given[0] in {"-h", "--help"} else 2
    install()
    if given[0] == "-m":
        sys.argv = given[1:]
        runpy.run_module(given[1], run_name="__main__", alter_sys=True)
        return 0
    script = Path(given[0])
    if not script.exists():
        sys.stderr.write(f"onnx_gs.compat: no such script: '{script}'\n")
        return 2
    sys.argv = given
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
