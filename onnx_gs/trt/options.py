"""What a build can be told: one frozen record, and how it reaches TensorRT's builder configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphValueError, ModelFileError, TensorRTError
from onnx_gs.trt.tensorrt import deprecations_ignored, installed, listen, member, trt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_gs.trt.profiles import ShapeRange


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build; names of flags, pools, tactic sources and so on are checked against the installed TensorRT.

    Attributes:
        shapes: ranges of dynamic inputs by name, or as text (``"x:1x3..4x3..8x3"``); a tuple of them makes several profiles.
        dims: smallest, usual and largest size by dim name.
        workspace: bytes of scratch memory that kernels may use while they are timed; None leaves TensorRT's default.
        memory_pools: bytes by pool, such as ``{"tactic_dram": 1 << 30}``.
        flags: builder flags by name, such as ``("tf32", "strict_nans")``.
        preview_features: preview features by name.
        parser_flags: flags of the ONNX parser by name.
        optimization_level: 0 (quick build) to 5; None leaves TensorRT's default.
        compute_capabilities: what the engine is for, such as ``("8.9", "SM120")`` (TensorRT for RTX); empty leaves the default.
        hardware_compatibility: ``"ampere_plus"`` or ``"same_compute_capability"``.
        version_compatible: let engines run with later versions.
        exclude_lean_runtime: leave the lean runtime out of a version compatible engine.
        refit: True, ``"identical"`` (only weights equal to these) or ``"individual"`` (only weights marked so).
        strip_weights: leave weights out of the engine; they come back by refitting.
        weight_streaming: allow weights to be streamed from the host while running.
        tactic_sources: where kernels may come from, by name; None leaves the default. Leaving one out may make a model unbuildable.
        timing_cache: file with kernel timings: read if it is there, written after the build.
        editable_timing_cache: make the cache editable, so that it fixes which kernels are chosen.
        error_on_timing_cache_miss: fail where the cache knows no timing, so that a build cannot differ.
        profiling_verbosity: ``"none"``, ``"layer_names_only"`` or ``"detailed"``.
        avg_timing_iterations: runs per timed kernel.
        max_aux_streams: streams beside the main one.
        max_threads: threads that the builder may use.
        tiling_optimization_level: ``"none"``, ``"fast"``, ``"moderate"`` or ``"full"``.
        plugins: shared libraries to load plugins from.

    Example:
        >>> BuildOptions(shapes="x:1x3..4x3..8x3", optimization_level=3).optimization_level
        3
    """

    shapes: str | Mapping[str, Any] | tuple[str | Mapping[str, Any], ...] = field(default_factory=dict)
    dims: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    workspace: int | None = None
    memory_pools: Mapping[str, int] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    preview_features: tuple[str, ...] = ()
    parser_flags: tuple[str, ...] = ()
    optimization_level: int | None = None
    compute_capabilities: tuple[str, ...] = ()
    hardware_compatibility: str | None = None
    version_compatible: bool = False
    exclude_lean_runtime: bool = False
    refit: bool | str = False
    strip_weights: bool = False
    weight_streaming: bool = False
    tactic_sources: tuple[str, ...] | None = None
    timing_cache: str | Path | None = None
    editable_timing_cache: bool = False
    error_on_timing_cache_miss: bool = False
    profiling_verbosity: str | None = None
    avg_timing_iterations: int | None = None
    max_aux_streams: int | None = None
    max_threads: int | None = None
    tiling_optimization_level: str | None = None
    plugins: tuple[str | Path, ...] = ()

    def ranges(self) -> list[dict[str, ShapeRange]]:
        """Give the shape ranges of each profile.

        Raises:
            GraphValueError: a range is not understood.
        """
        profiles = self.shapes if isinstance(self.shapes, tuple) else (self.shapes,)
        return [_ranges(profile) for profile in profiles] or [{}]

    def flag_names(self) -> list[str]:
        """Give the builder flags that the options stand for, by TensorRT's names."""
        names = [name.upper().replace("-", "_") for name in self.flags]
        named = {
            "VERSION_COMPATIBLE": self.version_compatible,
            "EXCLUDE_LEAN_RUNTIME": self.exclude_lean_runtime,
            "STRIP_PLAN": self.strip_weights,
            "WEIGHT_STREAMING": self.weight_streaming,
            "EDITABLE_TIMING_CACHE": self.editable_timing_cache,
            "ERROR_ON_TIMING_CACHE_MISS": self.error_on_timing_cache_miss,
        }
        names.extend(name for name, wanted in named.items() if wanted)
        if self.refit:
            kinds = {True: "REFIT", "identical": "REFIT_IDENTICAL", "individual": "REFIT_INDIVIDUAL"}
            if self.refit not in kinds:
                raise GraphValueError(f"refit is '{self.refit}'", fix="it is True, 'identical' or 'individual'")
            names.append(kinds[self.refit])
        return list(dict.fromkeys(names))


def _ranges(profile: str | Mapping[str, Any]) -> dict[str, ShapeRange]:
    from onnx_gs.trt.profiles import ShapeRange, parse_shapes

    if isinstance(profile, str):
        return parse_shapes(profile)
    found = {}
    for name, value in profile.items():
        if isinstance(value, ShapeRange):
            found[name] = value
        elif value and not isinstance(value[0], int):
            found[name] = ShapeRange.of(*value)
        else:
            found[name] = ShapeRange.of(value)
    return found


def parse_dims(text: str) -> dict[str, tuple[int, int, int]]:
    """Read ranges of named dims as the command line takes them.

    Raises:
        GraphValueError: the text is something else.

    Example:
        >>> parse_dims("batch=1..4..8,seq=128")
        {'batch': (1, 4, 8), 'seq': (128, 128, 128)}
    """
    found: dict[str, tuple[int, int, int]] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"(.+?)=(\d+)(?:\.\.(\d+))?(?:\.\.(\d+))?", part)
        if match is None:
            raise GraphValueError(f"'{part}' is no range of a dim", fix="write NAME=MIN..OPT..MAX, NAME=MIN..MAX or NAME=SIZE")
        sizes = [int(size) for size in match.groups()[1:] if size is not None]
        found[match[1]] = (sizes[0], sizes[-2 if len(sizes) == 3 else -1], sizes[-1])
    return found


_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def parse_size(text: str) -> int:
    """Read a number of bytes such as ``512MiB`` or ``2G`` (powers of two).

    Raises:
        GraphValueError: the text is something else.

    Example:
        >>> parse_size("1.5k")
        1536
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = match[2].lower() if match else "?"
    if match is None or unit not in _SIZE_UNITS:
        raise GraphValueError(f"'{text}' is no size", fix="write bytes, or a number with k, M, G, KiB, MiB or GiB")
    return int(float(match[1]) * _SIZE_UNITS[unit])


# -- at TensorRT's side ----------------------------------------------------------------------------------


def configure(options: BuildOptions, builder: trt.Builder, config: trt.IBuilderConfig) -> None:
    """Set everything on TensorRT's configuration but the profiles and the timing cache.

    Raises:
        TensorRTError: the installed version lacks something that is asked for.
    """
    pools = dict(options.memory_pools)
    if options.workspace is not None:
        pools["workspace"] = options.workspace
    for name, size in pools.items():
        config.set_memory_pool_limit(member("MemoryPoolType", name, "memory pool"), size)
    for name in options.flag_names():
        config.set_flag(member("BuilderFlag", name, "builder flag"))
    for name in options.preview_features:
        config.set_preview_feature(member("PreviewFeature", name, "preview feature"), True)
    if options.optimization_level is not None:
        if not 0 <= options.optimization_level <= 5:
            raise TensorRTError(f"optimization level {options.optimization_level} is out of range", fix="levels go from 0 (quick build) to 5")
        config.builder_optimization_level = options.optimization_level
    if options.compute_capabilities:
        _set_compute_capabilities(options.compute_capabilities, config)
    enums = {
        "hardware_compatibility_level": ("HardwareCompatibilityLevel", options.hardware_compatibility, "hardware compatibility level"),
        "profiling_verbosity": ("ProfilingVerbosity", options.profiling_verbosity, "profiling verbosity"),
        "tiling_optimization_level": ("TilingOptimizationLevel", options.tiling_optimization_level, "tiling optimization level"),
    }
    for attribute, (enum, chosen, what) in enums.items():
        if chosen is not None:
            setattr(config, attribute, member(enum, chosen, what))
    for attribute, value in (("avg_timing_iterations", options.avg_timing_iterations), ("max_aux_streams", options.max_aux_streams)):
        if value is not None:
            setattr(config, attribute, value)
    if options.max_threads is not None:
        builder.max_threads = options.max_threads
    if options.tactic_sources is not None:
        mask = 0
        for name in options.tactic_sources:
            mask |= 1 << int(member("TacticSource", name, "tactic source"))
        if not config.set_tactic_sources(mask):
            raise TensorRTError(f"TensorRT does not take the tactic sources {list(options.tactic_sources)}", fix="leave tactic_sources out")


def _set_compute_capabilities(wanted: tuple[str, ...], config: trt.IBuilderConfig) -> None:
    if not hasattr(config, "set_compute_capability"):
        raise TensorRTError(f"{installed()} builds for the GPU that is present only", fix="leave compute capabilities out, or use TensorRT for RTX")
    config.num_compute_capabilities = len(wanted)
    for k, name in enumerate(wanted):
        spelled = f"SM{name.replace('.', '')}" if re.fullmatch(r"\d+\.?\d+", name) else name
        config.set_compute_capability(member("ComputeCapability", spelled, "compute capability"), k)


def load_timing_cache(options: BuildOptions, config: trt.IBuilderConfig) -> Any:
    """Attach the timing cache that the options name; None where they name none.

    Raises:
        ModelFileError: the file cannot be read.
        TensorRTError: TensorRT does not take it.
    """
    if options.timing_cache is None:
        if options.error_on_timing_cache_miss:
            raise TensorRTError("a timing cache miss shall be an error, but no timing cache is given", fix="name its file: timing_cache=PATH")
        return None
    path = Path(options.timing_cache)
    try:
        content = path.read_bytes() if path.exists() else b""
    except OSError as wrong:
        raise ModelFileError(f"timing cache '{path}' cannot be read: {wrong.strerror}") from wrong
    with deprecations_ignored(), listen(quiet=True) as heard:
        cache = config.create_timing_cache(content)
        taken = cache is not None and config.set_timing_cache(cache, False)
    # a file that is no cache gives an empty one and a warning; it must not be overwritten on the strength of that
    unread = any("Failed to deserialize timing cache" in text for _, text in heard.lines)
    library = installed()
    if unread and library is not None and library.is_rtx:  # it keeps no timings, and cannot read its own file without a GPU
        return None
    if not taken or unread:
        raise TensorRTError(f"TensorRT does not take the timing cache '{path}'", fix="it was made by another version or on another device: delete it")
    return cache
