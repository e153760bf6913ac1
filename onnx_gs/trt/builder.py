"""From a model to an engine: parse, profiles, build, and a report of what the build said."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphTypeError, GraphValueError, ModelFileError, OnnxGsError, TensorRTError
from onnx_gs.trt import memory, model_source, parser_errors, profiles, tensorrt
from onnx_gs.trt.engine import Engine, check_place, replacing
from onnx_gs.trt.options import BuildOptions, check_timing_cache, configure, load_timing_cache, merged
from onnx_gs.trt.places import NodeIndex
from onnx_gs.trt.progress import ProgressBar
from onnx_gs.trt.session import Session, interruptible

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from onnx_gs.trt.model_source import ModelSource
    from onnx_gs.trt.tensorrt import Messages


@dataclass
class BuildReport:
    """What a build said.

    Attributes:
        library: package and version.
        seconds: wall time, parsing included.
        parse_seconds: of that, parsing.
        layers: network layers after parsing.
        engine_bytes: size of the serialized engine.
        memory: the builder's memory lines in bytes: ``host_persistent``, ``device_persistent``, ``scratch``, ``activation``, ``weights``; those
            that it logged.
        skipped_kernels: messages about kernels left out for lack of workspace.
        peak_host_bytes: largest resident size of the process during the build; about two copies of the weights are expected.
        profiles: the shape ranges of each profile, by input.
        warnings: the builder's warnings, and dims whose range was guessed.
        tuning: what is left to tune.
    """

    library: str = ""
    seconds: float = 0.0
    parse_seconds: float = 0.0
    layers: int = 0
    engine_bytes: int = 0
    memory: dict[str, int] = field(default_factory=dict)
    skipped_kernels: list[str] = field(default_factory=list)
    peak_host_bytes: int | None = None
    profiles: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    tuning: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Give plain data, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Show it as a table of lines."""
        lines = [
            f"library         {self.library}",
            f"network layers  {self.layers}",
            f"engine          {_bytes(self.engine_bytes)}",
            f"time            {self.seconds:.2f} s, of which parsing {self.parse_seconds:.2f} s",
        ]
        lines += [f"{name.replace('_', ' '):<15} {_bytes(size)}" for name, size in self.memory.items()]
        if self.peak_host_bytes is not None:
            lines.append(f"peak host       {_bytes(self.peak_host_bytes)}")
        for k, profile in enumerate(self.profiles):
            lines += [f"profile {k}       {name}:{shape}" for name, shape in profile.items()]
        lines += [f"skipped         {text}" for text in self.skipped_kernels]
        lines += [f"warning         {text}" for text in self.warnings]
        lines += [f"left to tune    {text}" for text in self.tuning]
        return "\n".join(lines)


def build(
    model: Any,
    output: str | os.PathLike[str] | None = None,
    *,
    options: BuildOptions | None = None,
    progress: bool | Callable[[str, str | None, int, int], object] = False,
    gpu_allocator: Any = None,
    isolate: bool = False,
    **settings: Any,
) -> Engine:
    """Build an engine.

    Args:
        model: a graph, a path (needed for external data and above 2 GB), the bytes of a model, or an ``onnx.ModelProto``.
        output: file for the engine, which is streamed there and appears only when it is whole; None keeps the engine in memory.
        options: how to build.
        progress: True draws a bar on standard error; a callable is given phase, parent phase, step and steps, and cancels by returning False.
        gpu_allocator: a ``trt.IGpuAllocator`` for the builder, kept alive as long as it is needed.
        isolate: build in a child process, so that a crash, or the system's killing it for memory, is an error and not the end of this process.
        settings: fields of ``BuildOptions``, in place of, or on top of, ``options``.

    Returns:
        The engine, with its report.

    Raises:
        TensorRTError: TensorRT refuses the model or a setting; the error names the node.
        GraphValueError: a setting makes no sense, such as a profile out of order.
        ModelFileError: a file cannot be read or written.
        MissingExtraError: no TensorRT is installed.
        KeyboardInterrupt: Ctrl-C, after TensorRT has stopped.

    Example:
        >>> import onnx_gs as gs  # doctest: +SKIP
        >>> engine = gs.trt.build(gs.load("model.onnx"), shapes="x:1x3..4x3..8x3", workspace=1 << 30)  # doctest: +SKIP
    """
    chosen = merged(options, settings)
    if not isinstance(progress, bool) and progress is not None and not callable(progress):
        raise GraphTypeError(f"progress is {progress!r}", fix="give True for a bar, or a callable")
    tensorrt.require("build an engine")
    check_timing_cache(chosen)
    if output is not None:
        check_place(output)
    if isolate:
        from onnx_gs.trt.isolation import build_isolated

        if gpu_allocator is not None:
            raise GraphValueError("an allocator cannot be handed to another process", fix="leave out gpu_allocator or isolate")
        return build_isolated(model, output, chosen, listener_of(progress))
    with model_source.opened(model) as source:
        return build_source(source, output, chosen, listener_of(progress), gpu_allocator)


def listener_of(progress: Any) -> Any:
    """Give what hears of progress: a bar for True, nothing for False or None, else what was given."""
    return ProgressBar() if progress is True else progress or None


def build_source(source: ModelSource, output: Any, options: BuildOptions, progress: Any, gpu_allocator: Any = None) -> Engine:
    """Parse and build in this process."""
    started = time.perf_counter()
    memory.reset_peak()
    with (
        interruptible() as interrupted,
        tensorrt.listen(quiet=True) as heard,
        Session(gpu_allocator=gpu_allocator, step=step_of(interrupted, progress)) as session,
    ):
        _load_plugins(session, options)
        if not session.parse(source, options.parser_flags):
            graph = source.as_graph()
            complaints = parser_errors.of_parser(session.parser, NodeIndex(graph) if graph is not None else None)
            raise parser_errors.as_error(complaints, options, heard.errors)
        if not session.network.num_outputs:
            raise ModelFileError("the model has no outputs", fix="see that it is an ONNX model, and declare what it computes as outputs")
        parsed = time.perf_counter() - started
        if interrupted():
            raise KeyboardInterrupt
        engine = build_network(session, output, options, heard, interrupted, source)
        engine.report.parse_seconds = parsed  # type: ignore[union-attr]
        engine.report.seconds = time.perf_counter() - started  # type: ignore[union-attr]
        if isinstance(progress, ProgressBar):
            progress.close()
        return engine


def step_of(interrupted: Callable[[], bool], progress: Any) -> Callable[[str, str | None, int, int], bool]:
    """Give what TensorRT calls at each step of a build: it passes the step on, and says whether to go on."""

    def step(phase: str, parent: str | None, done: int, steps: int) -> bool:
        if interrupted():
            return False
        return progress is None or progress(phase, parent, done, steps) is not False

    return step


def _load_plugins(session: Session, options: BuildOptions) -> None:
    for library in options.plugins:
        if not Path(library).is_file():
            raise ModelFileError(f"plugin library '{library}' does not exist")
        if session.builder.get_plugin_registry().load_library(str(library)) is None:
            raise TensorRTError(f"TensorRT cannot load plugins from '{library}'")


def build_network(
    session: Session, output: Any, options: BuildOptions, heard: Messages, interrupted: Callable[[], bool], source: ModelSource | None = None
) -> Engine:
    """Build the network that a session holds, however it came about.

    Raises:
        TensorRTError: the builder refuses it.
    """
    configure(options, session.builder, session.config)
    inputs = profiles.inputs_of(session.network)
    made = [profiles.derive(inputs, ranges, options.dims) for ranges in options.ranges()]
    for profile in made:
        if profile.shapes or profile.values:
            session.keep.append(profiles.apply(profile, session.builder, session.config))
    timings = load_timing_cache(options, session.config)
    first = len(heard.lines)
    content = _run(session, output, lambda: _failure(session, options, heard, interrupted, source))
    _save_timing_cache(timings.cache, options)
    size = len(content) if content is not None else Path(output).stat().st_size
    report = _report(session, options, heard.lines[first:], made)
    report.engine_bytes = size
    if timings.note is not None:
        report.warnings.append(timings.note)
    return Engine(content=content, path=Path(output) if output is not None else None, report=report)


def _run(session: Session, output: Any, failure: Callable[[], BaseException]) -> bytes | None:
    """Build into memory, or stream into a file."""
    if output is None or not hasattr(session.builder, "build_serialized_network_to_stream"):
        with session.recording():
            plan = session.builder.build_serialized_network(session.network, session.config)
        if plan is None:
            raise failure()
        if output is None:
            return bytes(plan)
        with replacing(output) as file:  # older versions cannot stream
            file.write(memoryview(plan))
        return None
    with replacing(output) as file:
        writer = tensorrt.make_writer(file)
        with session.recording():
            done = session.builder.build_serialized_network_to_stream(session.network, session.config, writer)
        raised: OSError | None = writer.raised  # type: ignore[attr-defined]
        if raised is not None:
            raise raised
        if not done:
            raise failure()
    return None


def _failure(session: Session, options: BuildOptions, heard: Messages, interrupted: Callable[[], bool], source: ModelSource | None) -> BaseException:
    """Say why there is no engine."""
    if session.monitor is not None and session.monitor.raised is not None:  # type: ignore[attr-defined]
        return session.monitor.raised  # type: ignore[attr-defined,no-any-return]
    if interrupted():
        return KeyboardInterrupt()
    raw = [*session.recorded, *heard.errors]
    if any("BuildCanceled" in text or "cancel" in text.lower() for text in raw + heard.of("WARNING", "INFO")):
        return TensorRTError("the build was cancelled", fix="the progress callable returned False")
    graph = source.as_graph() if source is not None else None
    return parser_errors.as_error(parser_errors.of_builder(session, heard.errors, NodeIndex(graph) if graph is not None else None), options, raw)


def _save_timing_cache(cache: Any, options: BuildOptions) -> None:
    if cache is not None and options.timing_cache is not None:
        with replacing(options.timing_cache) as file:
            file.write(bytes(cache.serialize()))


_MEMORY_LINES = {
    "host_persistent": r"Total Host Persistent Memory: (\d+) bytes",
    "device_persistent": r"Total Device Persistent Memory: (\d+) bytes",
    "scratch": r"(?:Total|Max) Scratch Memory: (\d+) bytes",
    "activation": r"Total Activation Memory: (\d+) bytes",
    "weights": r"Total Weights Memory: (\d+) bytes",
}
_SKIPPED = re.compile(r"sufficient workspace|insufficient memory|[Ss]kipping tactic|workspace memory to run")


def _report(session: Session, options: BuildOptions, lines: list[tuple[str, str]], made: list[profiles.Profile]) -> BuildReport:
    report = BuildReport(library=str(tensorrt.installed()), layers=session.network.num_layers, peak_host_bytes=memory.peak_bytes())
    for severity, text in lines:
        if severity in {"INFO", "VERBOSE"} and text.startswith(("Total", "Max")):
            for name, pattern in _MEMORY_LINES.items():
                found = re.match(pattern, text)
                if found is not None:
                    report.memory[name] = int(found[1])
        elif _SKIPPED.search(text):
            report.skipped_kernels.append(tensorrt.clean(text))
        elif severity in {"WARNING", "ERROR"} and not tensorrt.cuda_missing([text]):
            report.warnings.append(tensorrt.clean(text))
    for profile in made:
        ranges = {name: str(shape) for name, shape in profile.shapes.items()}
        ranges.update({f"{name} (values)": str(values) for name, values in profile.values.items()})
        if ranges:
            report.profiles.append(ranges)
        if profile.guessed:
            low, usual, high = profiles.DEFAULT_RANGE
            report.warnings.append(f"no range was given for {', '.join(profile.guessed)}: {low}..{usual}..{high} was taken")
    report.tuning = _tuning(options, report, made)
    return report


def _tuning(options: BuildOptions, report: BuildReport, made: list[profiles.Profile]) -> list[str]:
    """List the settings that may still make the engine better, each with the reason."""
    found = []
    if report.skipped_kernels:
        found.append(f"workspace: {len(report.skipped_kernels)} kernels were left out for lack of it")
    if options.optimization_level is not None and options.optimization_level < 5:
        found.append(f"optimization_level: {options.optimization_level} of 5")
    if any(p.guessed for p in made):
        found.append("shapes: some ranges were guessed; kernels are chosen for the middle shape of each")
    wide = [name for p in made for name, s in p.shapes.items() if any(lo and hi / lo >= 16 for lo, hi in zip(s.min, s.max))]
    if wide and len(made) == 1:
        found.append(f"shapes: the range of {', '.join(wide)} is wide; several profiles, one for each usual size, choose kernels for each")
    library = tensorrt.installed()
    if options.timing_cache is None and library is not None and not library.is_rtx:
        found.append("timing_cache: without one every build times every kernel again")
    return found


def _bytes(size: int) -> str:
    """Spell a number of bytes for people."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise OnnxGsError("unreachable")
