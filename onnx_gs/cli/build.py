"""Build a TensorRT engine from a model.

Ranges of dynamic inputs are given by input (--shapes x:1x3..4x3..8x3) or by dim (--dims batch=1..4..8); what is not given gets 1..4..8, and the
report says so. Names of flags, pools and tactic sources are those of the installed TensorRT.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.cli import models, options as shared
from onnx_gs.errors import OnnxGsError

if TYPE_CHECKING:
    import argparse

    from onnx_gs.cli.report import Session

#: Options that go to ``BuildOptions`` as they are: flag, metavar, help.
_NAMES = (
    ("optimization_level", int, "N", "0 (quick build) to 5"),
    ("hardware_compatibility", str, "LEVEL", "ampere_plus or same_compute_capability"),
    ("profiling_verbosity", str, "LEVEL", "none, layer_names_only or detailed"),
    ("tiling_optimization_level", str, "LEVEL", "none, fast, moderate or full"),
    ("avg_timing_iterations", int, "N", "runs per timed kernel"),
    ("max_aux_streams", int, "N", "streams beside the main one"),
    ("max_threads", int, "N", "threads that the builder may use"),
    ("timing_cache", str, "FILE", "kernel timings: read if there, written afterwards"),
)
_LISTS = (
    ("flags", "FLAG", "builder flags by name"),
    ("preview_features", "NAME", "preview features by name"),
    ("parser_flags", "FLAG", "flags of the ONNX parser by name"),
    ("compute_capabilities", "CC", "what the engine is for, such as 8.9 (TensorRT for RTX)"),
    ("tactic_sources", "NAME", "where kernels may come from; leaving one out may make a model unbuildable"),
    ("plugins", "FILE", "shared libraries to load plugins from"),
)
_SWITCHES = (
    ("strip_weights", "leave weights out of the engine"),
    ("version_compatible", "let the engine run with later versions"),
    ("exclude_lean_runtime", "leave the lean runtime out of a version compatible engine"),
    ("weight_streaming", "allow weights to be streamed from the host"),
    ("editable_timing_cache", "make the timing cache editable, so that it fixes which kernels are chosen"),
    ("error_on_timing_cache_miss", "fail where the timing cache knows no timing"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("model", metavar="MODEL", help="the model's file; - reads standard input")
    parser.add_argument("-o", "--output", metavar="ENGINE", required=True, help="the engine's file; it appears only when it is whole")
    parser.add_argument(
        "--shapes",
        metavar="NAME:MIN..OPT..MAX",
        action="append",
        default=[],
        help="ranges of dynamic inputs, joined by commas; again for another profile",
    )
    parser.add_argument("--dims", metavar="NAME=MIN..OPT..MAX", default="", help="ranges of named dims, joined by commas")
    parser.add_argument("--workspace", metavar="SIZE", help="scratch memory that kernels may use, such as 512MiB")
    parser.add_argument("--memory-pool", metavar="NAME=SIZE", type=shared.pair, action="append", default=[], help="limit of another memory pool")
    parser.add_argument(
        "--refit", metavar="KIND", nargs="?", const=True, default=False, help="allow weights to be replaced; KIND may be identical or individual"
    )
    for name, kind, metavar, note in _NAMES:
        parser.add_argument("--" + name.replace("_", "-"), dest=name, type=kind, metavar=metavar, help=note)
    for name, metavar, note in _LISTS:
        parser.add_argument("--" + name.replace("_", "-"), dest=name, metavar=metavar, action="append", help=note + " (again for several)")
    for name, note in _SWITCHES:
        parser.add_argument("--" + name.replace("_", "-"), dest=name, action="store_true", help=note)
    parser.add_argument("--isolate", action="store_true", help="build in a child process, so that a crash or lack of memory is one error")


def run(options: argparse.Namespace, session: Session) -> int:
    """Build the engine."""
    from onnx_gs.io import formats
    from onnx_gs.trt.builder import build
    from onnx_gs.trt.options import BuildOptions
    from onnx_gs.trt.progress import ProgressBar

    if formats.of(options.output) is not None:
        what = f"an engine is no {formats.of(options.output)} file, as '{options.output}' says"
        raise OnnxGsError(what, fix="give the engine's file: -o model.engine; `onnx-gs prepare` writes models")
    if options.output == "-":
        raise OnnxGsError("an engine cannot be written to standard output", fix="give a file: -o model.engine")
    model = models.checked(options.model, session)
    logging.getLogger("onnx_gs.tensorrt").setLevel(logging.ERROR)  # the report lists the builder's warnings
    bar = ProgressBar() if not (session.json or session.quiet) else None
    try:
        engine = build(model, options.output, options=BuildOptions(**settings(options)), progress=bar or False, isolate=options.isolate)
    finally:
        if bar is not None:
            bar.close()
    report = engine.report
    if report is None:
        return 0
    session.put(result={"output": options.output, **report.as_dict()})
    session.say(f"{options.model} → {options.output}", style="bold")
    session.say(str(report))
    return 0


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Give the fields of ``BuildOptions`` that the command line sets.

    Raises:
        GraphValueError: a size or range is not understood.
    """
    from onnx_gs.trt.options import parse_dims, parse_size

    found: dict[str, Any] = {name: getattr(options, name) for name, *_ in _NAMES if getattr(options, name) is not None}
    found.update({name: tuple(getattr(options, name)) for name, *_ in _LISTS if getattr(options, name)})
    found.update({name: True for name, _ in _SWITCHES if getattr(options, name)})
    if options.plugins:
        found["plugins"] = tuple(Path(p) for p in options.plugins)
    if options.shapes:
        found["shapes"] = options.shapes[0] if len(options.shapes) == 1 else tuple(options.shapes)
    if options.dims:
        found["dims"] = parse_dims(options.dims)
    if options.workspace:
        found["workspace"] = parse_size(options.workspace)
    if options.memory_pool:
        found["memory_pools"] = {name: parse_size(size) for name, size in options.memory_pool}
    if options.refit:
        found["refit"] = options.refit
    return found
