"""Options that several commands share, and options made from the fields of a pass."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onnx_gs.errors import EvaluationError, GraphValueError, MissingExtraError, ModelFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import numpy as np

    from onnx_gs import ir
    from onnx_gs.graph import Graph


def add_model(parser: argparse.ArgumentParser, name: str = "model", what: str = "the model's file; - reads standard input") -> None:
    """Add a model to read."""
    parser.add_argument(name, metavar=name.upper(), help=what)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add where the result goes and how its weights are stored."""
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="where the result goes, in the form of its name; - is standard output")
    parser.add_argument(
        "--external-data",
        metavar="NAME",
        help="store large weights in this file beside OUT; 'keep' leaves unchanged weights where they are (default: inside OUT up to 2 GB)",
    )


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the check of the result."""
    parser.add_argument("--verify", action="store_true", help="run before and after in ONNX Runtime, two sizes of every symbolic dim, and compare")
    parser.add_argument("--feeds", metavar="FILE", help="for --verify: an .npz file with values of the model's inputs; the others are made up")


def read_feeds(path: str | None, graph: ir.Graph, other: ir.Graph | None = None) -> dict[str, Any]:
    """Read values of a model's inputs from an .npz file; nothing where no file is given.

    Args:
        path: the file.
        graph: the model.
        other: another one that is run on the same values; what only this takes may be among them.

    Raises:
        ModelFileError: the file is none.
        GraphValueError: it has something that is no input of the model, or a value that the input cannot have.
    """
    if path is None:
        return {}
    from onnx_gs.cli.run import read_arrays

    found = read_arrays(path)
    known = {t.name: t for g in (other, graph) if g is not None for t in g.inputs}
    for name, value in found.items():
        if name not in known:
            raise GraphValueError(f"'{path}' has a value of '{name}', which is no input", fix=f"the inputs are {', '.join(known)}")
        _check_feed(path, value, known[name])
    return found


def _check_feed(path: str, value: np.ndarray[Any, Any], tensor: ir.Tensor) -> None:
    """See that a value can be one of an input, as far as NumPy knows the input's type."""
    from onnx_gs.ir import dtypes
    from onnx_gs.ir.shapes import is_static_dim

    if tensor.type != "tensor_type":
        return
    wanted = dtypes.of(tensor)
    told = f"the value of '{tensor.name}' in '{path}'"
    if wanted is not None and wanted.numpy.kind in "biufc" and value.dtype.kind in "biufcUSO" and value.dtype != wanted.numpy:
        raise GraphValueError(f"{told} is {value.dtype}, but the input is {wanted.numpy}", fix=f"store it as value.astype('{wanted.numpy}')")
    shape = tensor.shape
    if shape is None:
        return
    fits = len(shape) == value.ndim and all(not is_static_dim(dim) or int(dim) == size for dim, size in zip(shape, value.shape))
    if not fits:
        raise GraphValueError(f"{told} has shape {list(value.shape)}, but the input has {list(shape)}", fix="store a value of the input's shape")


@contextmanager
def inputs_made_up(graph: ir.Graph, given: Mapping[str, Any]) -> Iterator[None]:
    """Point to ``--feeds`` where a model does not run, and some of its inputs were made up.

    Raises:
        EvaluationError: the one from inside, with that advice.
    """
    from onnx_gs.evaluate.feeds import CANNOT_LOAD

    try:
        yield
    except MissingExtraError:
        raise
    except EvaluationError as error:
        if error.what.startswith(CANNOT_LOAD):  # whatever the values are
            if error.fix:
                raise
            raise EvaluationError(error.what, where=error.where, fix="correct the model; `onnx-gs inspect --nodes` shows its nodes") from error
        names = names_made_up(graph, given)
        if not names:
            raise
        advice = f"values of {names} were made up; give ones that the model runs on with --feeds FILE.npz"
        raise EvaluationError(error.what, where=error.where, fix=advice) from error


def names_made_up(graph: ir.Graph, given: Mapping[str, Any]) -> str:
    """List the inputs of which no value is given; an empty text where there are none."""
    missing = [f"'{t.name}'" for t in graph.inputs if t.name not in given]
    return ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")


def check_file(path: str | None, *wanted: str) -> None:
    """See that a file that is no model can be written and has the extension of what will be in it, before the work is done.

    Raises:
        ModelFileError: it has another, or cannot be written.
    """
    if path is None or path == "-":
        return
    from onnx_gs.io.writer import check_target

    check_target(path)
    if not path.lower().endswith(wanted):
        raise ModelFileError(f"'{path}' is not named *{wanted[0]}, which is what would be in it", fix=f"name it *{wanted[0]}")


def no_use(options: argparse.Namespace, without: str, *names: str) -> None:
    """See that options which mean something beside another one only are not given without it.

    Args:
        options: what was given.
        without: the option that gives them a meaning, such as ``--layerwise``.
        names: the options; they are None or False where they are not given.

    Raises:
        GraphValueError: one is given.
    """
    if getattr(options, without.removeprefix("--").replace("-", "_")):
        return
    for name in names:
        if getattr(options, name.removeprefix("--").replace("-", "_")) not in (None, False, []):
            raise GraphValueError(f"{name} means something with {without} only, which is not given", fix="give both, or neither")


def add_pass_choice(parser: argparse.ArgumentParser) -> None:
    """Add which passes run."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--only", metavar="PASS", action="append", help="run only this pass, such as fold-constants (again for several)")
    group.add_argument("--skip", metavar="PASS", action="append", help="leave this pass out (again for several)")


def pass_choice(options: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Give what ``--only`` and ``--skip`` say, as the fields of ``Simplify``; names may be joined by commas.

    Raises:
        GraphValueError: one is given without a name.
    """
    found: dict[str, tuple[str, ...]] = {}
    for field in ("only", "skip"):
        given = getattr(options, field)
        if given:
            found[field] = tuple(name for text in given for name in text.split(",") if name)
            if not found[field]:
                raise GraphValueError(f"--{field} names no pass", fix=f"name one, such as --{field} fold-constants, or leave --{field} out")
    return found


def add_stated(parser: argparse.ArgumentParser) -> None:
    """Add what the user states about the inputs."""
    again: dict[str, Any] = {"type": pair, "action": "append", "default": []}
    parser.add_argument("--bind", metavar="DIM=N", help="the size of a dim, by its name or as INPUT:AXIS (again for several)", **again)
    parser.add_argument("--bound", metavar="LOOP=N", help="the most trips of the loop of this node name, where nothing in the model says", **again)
    parser.add_argument("--freeze", metavar="INPUT=VALUE", help="the value of an input, such as 3, true or [1,2]; the input goes", **again)


def bound_dims(options: argparse.Namespace) -> dict[str, int]:
    """Give the sizes that ``--bind`` states, by the dim's name or by ``input:axis``.

    Raises:
        GraphValueError: one is no size.
    """
    found = {}
    for name, text in options.bind:
        if not text.isdecimal() or int(text[:20]) >= 2**63:
            raise GraphValueError(f"--bind {name}={text}: '{text}' is no size", fix="give a number from 0 to 9223372036854775807")
        found[name] = int(text)
    return found


def stated_bounds(options: argparse.Namespace, graph: ir.Graph) -> dict[str, int]:
    """Give the trips that ``--bound`` states.

    Raises:
        GraphValueError: one is no count, or there is no such loop.
    """
    from onnx_gs.ir import walk

    found: dict[str, int] = {}
    loops = {node.name for _, node in walk.nodes(graph, op="Loop", functions=True)} if options.bound else set()
    for name, text in options.bound:
        if not text.isdigit():
            raise GraphValueError(f"--bound {name}={text}: '{text}' is no number of trips", fix="give a number of 0 or more")
        if name not in loops:
            listed = ", ".join(f"'{loop}'" for loop in sorted(loops)) or "there are none"
            raise GraphValueError(f"--bound {name}: no Loop node has that name", fix=f"the loops: {listed}")
        found[name] = int(text)
    return found


def frozen_values(options: argparse.Namespace, graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """Give the values that ``--freeze`` states, in the dtypes of the inputs.

    Raises:
        GraphValueError: there is no such input, or the value is none for it.
    """
    import numpy as np

    from onnx_gs.ir import dtypes

    found = {}
    for name, text in options.freeze:
        tensor = next((t for t in graph.inputs if t.name == name), None)
        if tensor is None:
            raise GraphValueError(f"--freeze {name}: there is no such input", fix=f"the inputs are {', '.join(t.name for t in graph.inputs)}")
        known = dtypes.of(tensor)
        try:
            found[name] = np.array(json.loads(text), dtype=None if known is None else known.numpy)
        except (ValueError, TypeError) as error:
            what = f"--freeze {name}={text}: no value for {tensor}"
            raise GraphValueError(what, fix="give a number, true, false, or a list in brackets") from error
    return found


def count(text: str) -> int | None:
    """Read a number of bytes or nodes without which there is no limit: ``4096``, ``64k``, ``16M``, ``2G``, or ``none``.

    Raises:
        ArgumentTypeError: it is none of these.

    Example:
        >>> count("64k"), count("none")
        (64000, None)
    """
    if text.lower() == "none":
        return None
    try:
        return number(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or none") from None


def number(text: str) -> int:
    """Read a number of bytes or nodes: ``4096``, ``64k``, ``16M``, ``2G``.

    Raises:
        ArgumentTypeError: it is none of these.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(?:[bB])?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 0; give one such as 4096, 64k or 16M")
    return int(float(match[1]) * {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}[match[2].lower()])


def tolerance(text: str) -> float:
    """Read a number of at least 0, such as a tolerance or a time.

    Raises:
        ArgumentTypeError: it is none.

    Example:
        >>> tolerance("1e-3")
        0.001
    """
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not found >= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 0")
    return found


def seed(text: str) -> int:
    """Read a seed.

    Raises:
        ArgumentTypeError: it is no number of at least 0.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 0")
    return int(text)


def pair(text: str) -> tuple[str, str]:
    """Read ``name=value``.

    Raises:
        ArgumentTypeError: there is no ``=``.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"'{text}' is no name=value")
    return name, value


def add_fields(parser: argparse.ArgumentParser, kind: type, names: Iterable[str] | None = None) -> None:
    """Add an option for each field of a pass: its name, type, default and the line about it in the docstring.

    Args:
        parser: where to add.
        kind: a dataclass.
        names: which fields; None for all of simple types.
    """
    notes = field_notes(kind)
    wanted = None if names is None else set(names)
    for field in dataclasses.fields(kind):
        if wanted is not None and field.name not in wanted:
            continue
        convert = _reader(field.type)
        if convert is None:
            continue
        flag = "--" + field.name.replace("_", "-")
        note = notes.get(field.name, "").replace("%", "%%").replace("None for", "none for")
        default = f" (default: {'none' if field.default is None else field.default})".replace("%", "%%")
        default = default if field.default is not None or "none for" in note else ""
        if convert is bool and field.default is False:
            parser.add_argument(flag, dest=field.name, action="store_true", default=argparse.SUPPRESS, help=note)
        elif convert is bool:
            parser.add_argument(flag, dest=field.name, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=note)
        else:
            size = {"size", "growth", "bytes"} & set(field.name.split("_"))
            metavar = field.name.upper() if convert not in {count, number} else "SIZE" if size else "N"
            parser.add_argument(flag, dest=field.name, type=convert, metavar=metavar, default=argparse.SUPPRESS, help=note + default)


def fields_given(options: argparse.Namespace, kind: type) -> dict[str, Any]:
    """Give the fields of a pass that were set on the command line."""
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(kind) if hasattr(options, field.name)}


def field_notes(kind: type) -> dict[str, str]:
    """Read what a docstring says about each field, under ``Args:``, ``Attributes:`` or ``Options:``."""
    found: dict[str, str] = {}
    name = ""
    for line in (kind.__doc__ or "").splitlines():
        match = re.match(r"\s+(\w+)(?: \([^)]*\))?:\s+(\S.*)", line)
        if match:
            name = match[1]
            found[name] = match[2].strip()
        elif name and line.strip() and not line.strip().endswith(":"):
            found[name] += " " + line.strip()
        else:
            name = ""
    return {name: note.replace("``", "").rstrip(".") for name, note in found.items()}


def _reader(annotation: Any) -> Callable[[str], Any] | type | None:
    """Give how to read a value of an annotated type from the command line; None for types that it cannot carry.

    The annotation is looked at as text, since names in it may be there for type checkers only.
    """
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    readers: dict[str, Callable[[str], Any] | type] = {"bool": bool, "int": number, "int | None": count, "float": float, "str": str}
    return str if text.startswith("Literal[") else readers.get(text, readers.get(text.removesuffix(" | None")))
