"""What a build can be told: one frozen record, and how it reaches TensorRT's builder configuration."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphValueError, ModelFileError, TensorRTError
from onnx_gs.trt.tensorrt import deprecations_ignored, installed, listen, member, trt

if TYPE_CHECKING:
    from onnx_gs.trt.profiles import ShapeRange

_MOST = (1 << 31) - 1
_REFITS: dict[bool | str, str | None] = {False: None, True: "REFIT", "identical": "REFIT_IDENTICAL", "individual": "REFIT_INDIVIDUAL"}
_NAME_LISTS = ("flags", "preview_features", "parser_flags", "compute_capabilities", "tactic_sources", "plugins")
#: Fields that count something: the smallest and the largest value.
_COUNTS: dict[str, tuple[int, int]] = {
    "optimization_level": (0, 5), "avg_timing_iterations": (1, _MOST), "max_aux_streams": (0, _MOST), "max_threads": (1, _MOST),
}  # fmt: skip


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build; names of flags, pools, tactic sources and so on are checked against the installed TensorRT.

    Raises:
        GraphValueError: a value is of the wrong kind, or out of its range.

    Attributes:
        shapes: ranges of dynamic inputs by name, or as text (``"x:1x3..4x3..8x3"``); several of them, one after the other, make several profiles.
        dims: smallest, usual and largest size by dim name, or as text (``"batch=1..4..8"``).
        workspace: bytes of scratch memory that kernels may use while they are timed, or text such as ``"512MiB"``; None leaves TensorRT's default.
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

    shapes: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = field(default_factory=dict)
    dims: Any = field(default_factory=dict)
    workspace: Any = None
    memory_pools: Mapping[str, Any] = field(default_factory=dict)
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

    def __post_init__(self) -> None:
        """Bring what may be spelled in several ways into one form."""
        for name in _NAME_LISTS:
            self._set(name, _names(name, getattr(self, name)))
        for name, (lowest, highest) in _COUNTS.items():
            value = getattr(self, name)
            if value is not None:
                self._set(name, _count(name, value, lowest, highest))
        if self.workspace is not None:
            self._set("workspace", _bytes("workspace", self.workspace))
        if not isinstance(self.memory_pools, Mapping):
            raise GraphValueError(f"memory_pools is {self.memory_pools!r}", fix="give bytes by pool, such as {'tactic_dram': 1 << 30}")
        self._set("memory_pools", {pool: _bytes(f"memory pool '{pool}'", size) for pool, size in self.memory_pools.items()})
        self._set("dims", _sizes(self.dims))
        if self.timing_cache is not None and not isinstance(self.timing_cache, (str, os.PathLike)):
            raise GraphValueError(f"timing_cache is {self.timing_cache!r}", fix="give the path of its file")
        if self.refit not in _REFITS:
            raise GraphValueError(f"refit is '{self.refit}'", fix="it is True, 'identical' or 'individual'")
        self._set("shapes", tuple(_ranges(profile) for profile in _profiles(self.shapes)))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def ranges(self) -> list[dict[str, ShapeRange]]:
        """Give the shape ranges of each profile."""
        return [dict(profile) for profile in self.shapes] or [{}]  # type: ignore[arg-type]

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
        flag = _REFITS[self.refit]
        if flag is not None:
            names.append(flag)
        return list(dict.fromkeys(names))


def _names(field_name: str, given: Any) -> tuple[Any, ...] | None:
    """Read a list of names; one name alone is a list of one."""
    if given is None:
        return None if field_name == "tactic_sources" else ()
    names = (given,) if isinstance(given, (str, os.PathLike)) or not isinstance(given, Iterable) else tuple(given)
    if not all(isinstance(name, (str, os.PathLike)) for name in names):
        raise GraphValueError(f"{field_name} is {given!r}", fix="give names as text: a name, or several in a tuple")
    return names


def _count(field_name: str, given: Any, lowest: int, highest: int) -> int:
    try:
        value = operator.index(given)
    except TypeError:
        raise GraphValueError(f"{field_name} is {given!r}", fix="give a whole number") from None
    if not lowest <= value <= highest:
        limits = f"from {lowest} to {highest}" if highest < _MOST else f"from {lowest} on" if value < lowest else f"up to {highest}"
        raise GraphValueError(f"{field_name} is {value}, which is out of range", fix=f"give a number {limits}")
    return value


def _bytes(what: str, given: Any) -> int:
    return _count(what, parse_size(given) if isinstance(given, str) else given, 0, (1 << 63) - 1)


def _profiles(given: Any) -> Sequence[Any]:
    """Give the shapes of each profile."""
    if given is None:
        return ()
    return given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)


def _ranges(profile: Any) -> dict[str, ShapeRange]:
    from onnx_gs.trt.profiles import ShapeRange, parse_shapes

    if isinstance(profile, str):
        return parse_shapes(profile)
    if not isinstance(profile, Mapping):
        raise GraphValueError(f"shapes is {profile!r}", fix="give ranges by input, such as {'x': ((1, 3), (4, 3), (8, 3))}, or 'x:1x3..4x3..8x3'")
    return {name: ShapeRange.read(value, name) for name, value in profile.items()}


def _sizes(given: Any) -> dict[str, tuple[int, int, int]]:
    """Read the sizes of named dims: one, smallest and largest, or smallest, usual and largest."""
    if isinstance(given, str):
        return parse_dims(given)
    if not isinstance(given, Mapping):
        raise GraphValueError(f"dims is {given!r}", fix="give sizes by dim, such as {'batch': (1, 4, 8)}")
    found = {}
    for name, sizes in given.items():
        try:
            known = [operator.index(sizes)] if not isinstance(sizes, Iterable) else [operator.index(size) for size in sizes]
        except TypeError:
            known = []
        if len(known) not in {1, 2, 3} or min(known) < 0:
            raise GraphValueError(f"dim '{name}' is given {sizes!r}", fix="give one size, the smallest and largest, or these and the usual one")
        found[name] = (known[0], known[-2 if len(known) == 3 else -1], known[-1])
    return found


def merged(options: BuildOptions | None, settings: dict[str, Any]) -> BuildOptions:
    """Give the options with the settings on top.

    Raises:
        GraphValueError: a setting is no field of ``BuildOptions``.
    """
    known = {f.name for f in fields(BuildOptions)}
    for name in settings:
        if name not in known:
            raise GraphValueError(f"'{name}' is no build option", fix=f"one of {', '.join(sorted(known))}")
    return replace(options or BuildOptions(), **settings)


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
        if match[1] in found:
            raise GraphValueError(f"dim '{match[1]}' is given two ranges", where=f"'{text}'", fix="give it one")
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
            _put(config, attribute, member(enum, chosen, what), what)
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


def _put(config: trt.IBuilderConfig, attribute: str, wanted: Any, what: str) -> None:
    """Set a field of the configuration, and see that it was taken: what a library does not take it only logs.

    Raises:
        TensorRTError: it was not.
    """
    with listen(quiet=True):
        setattr(config, attribute, wanted)
        taken = getattr(config, attribute) == wanted
    if not taken:
        raise TensorRTError(f"{installed()} does not take the {what} '{wanted.name.lower()}'", fix="leave it out")


def _set_compute_capabilities(wanted: tuple[str, ...], config: trt.IBuilderConfig) -> None:
    if not hasattr(config, "set_compute_capability"):
        raise TensorRTError(f"{installed()} builds for the GPU that is present only", fix="leave compute capabilities out, or use TensorRT for RTX")
    config.num_compute_capabilities = len(wanted)
    for k, name in enumerate(wanted):
        spelled = f"SM{name.replace('.', '')}" if re.fullmatch(r"\d+\.?\d+", name) else name
        config.set_compute_capability(member("ComputeCapability", spelled, "compute capability"), k)


def check_timing_cache(options: BuildOptions) -> None:
    """See, before a build that may take hours, that the timing cache makes sense and can be written.

    Raises:
        TensorRTError: what is asked of a timing cache takes a file, and none is named, or it is not there.
        ModelFileError: its file cannot be read or written.
    """
    if options.timing_cache is None:
        for wanted, what in ((options.error_on_timing_cache_miss, "an error on a miss"), (options.editable_timing_cache, "an editable one")):
            if wanted:
                raise TensorRTError(f"of the timing cache {what} is asked for, but none is given", fix="name its file: timing_cache=PATH")
        return
    path = Path(options.timing_cache)
    if path.exists():
        if not path.is_file() or not os.access(path, os.R_OK):
            raise ModelFileError(f"timing cache '{path}' cannot be read", fix="give a file")
    elif options.error_on_timing_cache_miss:
        raise TensorRTError(
            f"an error on a miss is asked for, but timing cache '{path}' does not exist", fix="make it by a build without that option"
        )
    elif not path.parent.is_dir():
        raise ModelFileError(f"timing cache '{path}' cannot be written: there is no folder '{path.parent}'", fix="make the folder")


@dataclass(frozen=True)
class TimingCache:
    """The timing cache of one build.

    Attributes:
        cache: TensorRT's; None where the library keeps none that could be written.
        note: what the reader of the report should know about it.
    """

    cache: Any = None
    note: str | None = None


def load_timing_cache(options: BuildOptions, config: trt.IBuilderConfig) -> TimingCache:
    """Attach the timing cache that the options name.

    Raises:
        ModelFileError: the file cannot be read.
        TensorRTError: TensorRT does not take it.
    """
    if options.timing_cache is None:
        return TimingCache()
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
        return TimingCache(note=f"timing cache '{path}' was not read and stays as it is: {library} keeps no timings")
    if not taken or unread:
        raise TensorRTError(f"TensorRT does not take the timing cache '{path}'", fix="it was made by another version or on another device: delete it")
    return TimingCache(cache)
