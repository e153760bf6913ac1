"""Optimization profiles: for every dynamic input the smallest, the usual and the largest shape.

An engine with dynamic dims is built for a range. Ranges are given by input (``x:1x3..4x3..8x3``), by dim (``batch=1..4..8``), or left out:
then a dim of a name gets ``DEFAULT_RANGE`` everywhere, and the report says so.
"""

from __future__ import annotations

import logging
import math
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import GraphTypeError, GraphValueError, TensorRTError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx_gs.trt.tensorrt import trt

LOGGER = logging.getLogger("onnx_gs")

#: Smallest, usual and largest size of a dynamic dim for which the caller gave none.
DEFAULT_RANGE = (1, 4, 8)

#: The largest size that TensorRT takes.
LARGEST = (1 << 31) - 1

_SYNTAX = (
    "write NAME:MIN..OPT..MAX, such as x:1x3x224x224..4x3x224x224..8x3x224x224, and NAME=MIN..OPT..MAX for the values of an input that sets shapes"
)


@dataclass(frozen=True)
class ShapeRange:
    """The shapes, or the values, that one input may take.

    Attributes:
        min: the smallest.
        opt: the one that kernels are chosen for.
        max: the largest.
        is_values: these are the input's values, which set shapes, rather than its shape.

    Example:
        >>> ShapeRange.of((1, 3), (4, 3), (8, 3)).opt
        (4, 3)
    """

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
    is_values: bool = False

    @classmethod
    def of(cls, *shapes: Iterable[int], is_values: bool = False) -> ShapeRange:
        """Make a range of one shape (fixed), two (smallest and largest; kernels are chosen for the largest), or three.

        Raises:
            GraphValueError: there are more or fewer, or their lengths differ.
        """
        try:
            known = [tuple(operator.index(d) for d in shape) for shape in shapes]
        except TypeError:
            raise GraphValueError(f"{shapes!r} is no shape range: sizes are whole numbers", fix=_SYNTAX) from None
        if len(known) not in {1, 2, 3}:
            raise GraphValueError(f"a shape range takes 1, 2 or 3 shapes, not {len(known)}", fix=_SYNTAX)
        if len({len(shape) for shape in known}) > 1:
            raise GraphValueError(f"the shapes of a range differ in rank: {', '.join(map(_spell, known))}", fix="give every dim in each of them")
        return cls(known[0], known[-2 if len(known) == 3 else -1], known[-1], is_values)

    @classmethod
    def read(cls, given: Any, name: str) -> ShapeRange:
        """Make a range of what a script gives for an input: a range, one shape, several shapes, or text.

        Args:
            given: the range; one that is none is an error.
            name: of the input, for errors.

        Raises:
            GraphValueError: it is none of these.

        Example:
            >>> str(ShapeRange.read("1x3..8x3", "x")), str(ShapeRange.read([1, 3], "x")), str(ShapeRange.read([(1, 3), (4, 3), (8, 3)], "x"))
            ('1x3..8x3..8x3', '1x3', '1x3..4x3..8x3')
        """
        if isinstance(given, ShapeRange):
            return given
        if isinstance(given, str):
            return parse_shapes(f"{name}:{given}")[name]
        if not isinstance(given, Iterable):
            raise GraphValueError(f"{given!r} is no shape range of input '{name}'", fix="give a shape, or the smallest, usual and largest shape")
        parts = list(given)
        return cls.of(*parts) if parts and all(isinstance(part, Iterable) for part in parts) else cls.of(parts)

    def __str__(self) -> str:
        """Spell it as on the command line."""
        if self.min == self.max:
            return _spell(self.min)
        return "..".join(map(_spell, (self.min, self.opt, self.max)))


def _spell(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def parse_shapes(text: str) -> dict[str, ShapeRange]:
    """Read shape ranges as the command line takes them.

    Args:
        text: ``NAME:MIN..OPT..MAX`` with dims joined by ``x``; several are joined by commas. ``NAME=MIN..OPT..MAX`` gives the values of an input
            that sets shapes.

    Raises:
        GraphValueError: the text is something else.

    Example:
        >>> {name: str(r) for name, r in parse_shapes("x:1x3..4x3..8x3,n=2x2").items()}
        {'x': '1x3..4x3..8x3', 'n': '2x2'}
    """
    if not isinstance(text, str):
        raise GraphTypeError(f"{text!r} is no text", fix=_SYNTAX)
    found: dict[str, ShapeRange] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = re.fullmatch(r"(?P<name>.+?)(?P<kind>[:=])(?P<range>-?\d+(?:x-?\d+)*(?:\.\.-?\d+(?:x-?\d+)*){0,2})?", part)
        if match is None:
            raise GraphValueError(f"'{part}' is no shape range", fix=_SYNTAX)
        if match["name"] in found:
            raise GraphValueError(f"input '{match['name']}' is given two ranges", where=f"'{text}'", fix="give it one, or make two profiles")
        shapes = [[int(d) for d in shape.split("x")] if shape else [] for shape in (match["range"] or "").split("..")]
        try:
            found[match["name"]] = ShapeRange.of(*shapes, is_values=match["kind"] == "=")
        except GraphValueError as wrong:
            raise GraphValueError(wrong.what, where=f"'{part}'", fix=wrong.fix) from None
    return found


@dataclass(frozen=True)
class InputSpec:
    """A network input as far as profiles need it.

    Attributes:
        name: its name.
        dims: sizes; None where dynamic.
        dim_names: the dynamic dims' names, where they have one.
        sets_shapes: its values set the shape of something.
    """

    name: str
    dims: tuple[int | None, ...]
    dim_names: tuple[str | None, ...] = ()
    sets_shapes: bool = False

    @property
    def is_dynamic(self) -> bool:
        """Say whether a profile must describe it."""
        return self.sets_shapes or any(d is None for d in self.dims)


@dataclass
class Profile:
    """One optimization profile.

    Attributes:
        shapes: the range of every dynamic input's shape.
        values: the range of the values of every input that sets shapes.
        guessed: names of dims or inputs that got ``DEFAULT_RANGE`` because nothing was said about them.
    """

    shapes: dict[str, ShapeRange] = field(default_factory=dict)
    values: dict[str, ShapeRange] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)


def derive(inputs: Sequence[InputSpec], given: Mapping[str, ShapeRange], dims: Mapping[str, tuple[int, int, int]]) -> Profile:
    """Work out a profile: what was given by input, then by dim, then dims of the same name, then the default.

    Args:
        inputs: the network's inputs.
        given: ranges by input.
        dims: smallest, usual, largest size by dim name.

    Returns:
        A profile that describes every dynamic input; empty where none is.

    Raises:
        GraphValueError: a range fits no input, contradicts a fixed dim, has min > opt or opt > max, or is missing for an input while
            others are given.
    """
    by_name = {spec.name: spec for spec in inputs}
    for name in given:
        if name not in by_name:
            raise GraphValueError(
                f"shapes are given for '{name}', which is no input", fix=f"the inputs are {', '.join(map(repr, by_name)) or 'none'}"
            )
    sizes: dict[str, tuple[int, int, int]] = dict(dims)
    for name, bounds in sizes.items():
        _check_order(f"dim '{name}'", bounds)
    profile = Profile()
    for name, wanted in given.items():
        _take(by_name[name], wanted, profile, sizes)
    known_dims = {d for spec in inputs for d in spec.dim_names if d}
    for name in dims:
        if name not in known_dims:
            raise GraphValueError(
                f"a range is given for dim '{name}', which no input has", fix=f"the dynamic dims are {', '.join(sorted(known_dims)) or 'none'}"
            )
    for spec in inputs:
        if spec.is_dynamic:
            _fill(spec, profile, sizes, may_guess=not given)
    return profile


def _take(spec: InputSpec, wanted: ShapeRange, profile: Profile, sizes: dict[str, tuple[int, int, int]]) -> None:
    """Check one given range against its input, and learn the sizes of its named dims."""
    where = f"input '{spec.name}'"
    if wanted.is_values:
        if not spec.sets_shapes:
            LOGGER.warning("a range of values is given for '%s', but its values set no shape: it is not used", spec.name)
            return
        count = math.prod(d or 0 for d in spec.dims)
        if None not in spec.dims and len(wanted.min) != count:
            what = f"{where} holds {count} value{'s' if count != 1 else ''}, but the range {wanted} has {len(wanted.min)}"
            raise GraphValueError(what, fix=f"give all of them, such as {_values_of(spec)}")
        for bounds in zip(wanted.min, wanted.opt, wanted.max):
            _check_order(where, bounds)
        profile.values[spec.name] = wanted
        return
    if len(wanted.min) != len(spec.dims):
        raise GraphValueError(f"{where} has {len(spec.dims)} dims, but the range {wanted} has {len(wanted.min)}", fix=f"give all of {_pattern(spec)}")
    for k, bounds in enumerate(zip(wanted.min, wanted.opt, wanted.max)):
        fixed = spec.dims[k]
        if fixed is not None and bounds != (fixed, fixed, fixed):
            raise GraphValueError(
                f"dim {k} of {where} is fixed at {fixed}, but the range {wanted} says otherwise", fix=f"the shape is {_pattern(spec)}"
            )
        _check_order(f"dim {k} of {where}", bounds)
        if bounds[0] < 0:
            raise GraphValueError(f"dim {k} of {where} has the negative size {bounds[0]}", fix="sizes are 0 or more")
        name = spec.dim_names[k] if k < len(spec.dim_names) else None
        if name and fixed is None and sizes.setdefault(name, bounds) != bounds:
            raise GraphValueError(
                f"dim '{name}' is given two ranges: {_bounds(sizes[name])} and {_bounds(bounds)}",
                where=where,
                fix="dims of one name have one size: give them one range",
            )
    if spec.is_dynamic:
        profile.shapes[spec.name] = wanted


def _fill(spec: InputSpec, profile: Profile, sizes: dict[str, tuple[int, int, int]], *, may_guess: bool) -> None:
    """Describe a dynamic input that nothing was given for."""
    missing: list[str] = []
    bounds: list[tuple[int, int, int]] = []
    for k, size in enumerate(spec.dims):
        name = spec.dim_names[k] if k < len(spec.dim_names) else None
        if size is not None:
            bounds.append((size, size, size))
        elif name and name in sizes:
            bounds.append(sizes[name])
        else:
            missing.append(name or f"dim {k} of '{spec.name}'")
            bounds.append(DEFAULT_RANGE)
    if any(d is None for d in spec.dims) and spec.name not in profile.shapes:
        if missing and not may_guess:
            raise GraphValueError(
                f"input '{spec.name}' is dynamic ({_pattern(spec)}), but no range is given for {', '.join(missing)}",
                fix=f"add {spec.name}:MIN..OPT..MAX",
            )
        profile.guessed.extend(m for m in missing if m not in profile.guessed)
        profile.shapes[spec.name] = ShapeRange.of(*(tuple(b[i] for b in bounds) for i in range(3)))
    if spec.sets_shapes and spec.name not in profile.values:
        if not may_guess:
            raise GraphValueError(
                f"the values of input '{spec.name}' set shapes, but no range is given for them", fix=f"add the values, such as {_values_of(spec)}"
            )
        shape = profile.shapes[spec.name].max if spec.name in profile.shapes else tuple(d or 0 for d in spec.dims)
        count = 1
        for d in shape:
            count *= d
        profile.guessed.append(f"values of '{spec.name}'")
        profile.values[spec.name] = ShapeRange.of(*((size,) * count for size in DEFAULT_RANGE), is_values=True)


def _values_of(spec: InputSpec) -> str:
    """Spell a range of values that fits an input."""
    count = math.prod(d or 1 for d in spec.dims)
    return f"{spec.name}=" + "..".join("x".join([str(size)] * count) for size in DEFAULT_RANGE)


def _check_order(where: str, bounds: tuple[int, int, int]) -> None:
    low, usual, high = bounds
    if max(map(abs, bounds)) > LARGEST:
        raise GraphValueError(f"{where} has the range {low}..{usual}..{high}, which is out of reach", fix=f"sizes go up to {LARGEST}")
    if not low <= usual <= high:
        raise GraphValueError(
            f"{where} has the range {low}..{usual}..{high}, which is not in order", fix="the smallest comes first, the largest last"
        )


def _pattern(spec: InputSpec) -> str:
    names = list(spec.dim_names) + [None] * len(spec.dims)
    return "x".join(str(d) if d is not None else (names[k] or "?") for k, d in enumerate(spec.dims)) or "a scalar"


def _bounds(bounds: tuple[int, int, int]) -> str:
    return "..".join(map(str, bounds))


# -- at TensorRT's side ---------------------------------------------------------------------------------


def inputs_of(network: trt.INetworkDefinition) -> list[InputSpec]:
    """Read the inputs of a parsed network."""
    found = []
    for k in range(network.num_inputs):
        tensor = network.get_input(k)
        dims = tuple(None if d < 0 else int(d) for d in tensor.shape)
        names = tuple((tensor.get_dimension_name(i) or None) if d is None else None for i, d in enumerate(dims))
        found.append(InputSpec(tensor.name, dims, names, bool(tensor.is_shape_tensor)))
    return found


def apply(profile: Profile, builder: trt.Builder, config: trt.IBuilderConfig) -> Any:
    """Hand a profile to TensorRT.

    Raises:
        TensorRTError: TensorRT does not take it.
    """
    made = builder.create_optimization_profile()
    for name, shape in profile.shapes.items():
        made.set_shape(name, shape.min, shape.opt, shape.max)
    for name, values in profile.values.items():
        made.set_shape_input(name, values.min, values.opt, values.max)
    # set_shape says nothing about a range that is out of order: the profile is false afterwards, and adding it gives -1
    if not made or config.add_optimization_profile(made) < 0:
        ranges = ", ".join(f"{name}:{shape}" for name, shape in profile.shapes.items())
        raise TensorRTError(
            f"TensorRT does not take the optimization profile {ranges}", fix="check that each range is in order and has all dims of its input"
        )
    return made
