"""``onnx-gs <command>``: find the command, run it, and turn errors into one line and a status.

A new command ``lower`` is two things: a line in ``COMMANDS``, and a module ``onnx_gs/cli/lower.py`` (``-`` in a name becomes ``_``) with

- a docstring, whose first line is the command's description,
- ``add_arguments(parser)``, which adds the command's options; ``cli/options.py`` has those that several commands share (``add_model``,
  ``add_output``, ``add_fields`` for the fields of a pass),
- ``run(options, session) -> int``, which does the work, tells it to the ``Session`` (``cli/report.py``: tables, the JSON object, progress) and gives
  the exit status: 0 for done, 1 where the command has a second verdict (blockers left, outputs differ). Bad input is raised as ``OnnxGsError``.

Only the module of the command that is called gets imported, and heavy packages are imported inside ``run``, so that starting is quick.
"""

from __future__ import annotations

import argparse
import atexit
import difflib
import errno
import gc
import importlib
import io
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from onnx_gs.cli.report import Session, leave_pipe
from onnx_gs.errors import OnnxGsError, VerificationError
from onnx_gs.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

#: Every command, in the order of ``--help``.
COMMANDS: dict[str, str] = {
    "inspect": "show inputs, outputs, opsets, operators, bodies and weights of a model",
    "prepare": "simplify, lower control flow, and say what still stands between the model and TensorRT",
    "fold": "compute what is constant, resolve shapes, drop what does nothing",
    "lower": "replace If, Loop, Scan, sequences and optionals as far as that can be done exactly",
    "cleanup": "drop what the outputs do not need",
    "check": "say what stands between a model and TensorRT",
    "build": "build a TensorRT engine",
    "describe": "show the loops and conditionals that TensorRT makes of a model",
    "run": "run a model in ONNX Runtime, or an engine on a GPU",
    "compare": "run a model and an engine, or two models, on the same inputs, and compare",
    "extract": "cut a part out of a model, with the real values at its border",
    "bisect": "find the smallest part of a model that still fails a check",
    "diff": "say how two models differ",
    "bind": "give dims their sizes, or make fixed axes dynamic",
    "convert": "store a model in another way: external data, opset, text",
    "view": "show a model, or two side by side, as one HTML page",
}

#: What a command is called in Python, or elsewhere, and here.
ALSO_CALLED = {"isolate": "extract", "simplify": "fold", "sanitize": "fold", "fold-constants": "fold", "lower-control-flow": "lower", "show": "view"}

DONE, OTHER, BAD_INPUT, BUG, INTERRUPTED = 0, 1, 2, 3, 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line and leave with status 2."""
        self.exit(BAD_INPUT, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``onnx-gs`` with these arguments and give its exit status.

    Args:
        arguments: what follows ``onnx-gs`` on the command line; None takes the process's own.

    Returns:
        0 done, 1 the command's other verdict, 2 bad usage or input, 3 a defect of this program, 130 interrupted.
    """
    if arguments is None:  # the process is ours
        atexit.register(gc.freeze)  # it ends: looking through all graphs once more would free nothing that the system does not
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # names that the terminal cannot show
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _dispatch(arguments)
    except SystemExit as leaving:  # argparse: --help, --version, bad usage
        return leaving.code if isinstance(leaving.code, int) else DONE
    except KeyboardInterrupt:
        print("onnx-gs: interrupted", file=sys.stderr)  # noqa: T201 - the terminal is the interface
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        leave_pipe()
        return DONE


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        _outer_parser().parse_args(arguments or ["--help"])
        return DONE
    name = arguments[0]
    if name not in COMMANDS:
        if len(name) < 256 and (Path(name).suffix or (name and Path(name).exists())):
            _outer_parser().error(f"'{name[:80]}' is no command, but stands where one belongs; write `onnx-gs COMMAND {name[:80]}`")
        near = [ALSO_CALLED[name]] if name in ALSO_CALLED else difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"it is called '{near[0]}'" if name in ALSO_CALLED else f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(COMMANDS)}"
        _outer_parser().error(f"there is no command '{name[:80]}'; {hint}")
    module = _module(name)
    if any("\0" in argument for argument in arguments):
        _outer_parser().error("an argument has a null character, which no file name has")
    options = parser_of(name).parse_args(arguments[1:])
    session = Session(name, options)
    try:
        return session.finish(module.run(options, session))
    except VerificationError as error:
        _fail(name, str(error))
        return session.finish(OTHER)
    except OnnxGsError as error:
        return _fail(name, str(error))
    except BrokenPipeError:
        raise
    except MemoryError:
        return _fail(name, str(OnnxGsError("out of memory", fix="close other programs, or use a machine with more memory")))
    except OSError as error:
        return _fail(name, _describe(error))
    except Exception:  # noqa: BLE001 - said plainly, with the trace that a bug report needs
        traceback.print_exc()
        print(f"onnx-gs {name}: internal error; please report it with the lines above", file=sys.stderr)  # noqa: T201 - as above
        return BUG


def _fail(name: str, text: str) -> int:
    text = text.encode(errors="backslashreplace").decode()  # a file's name may be no text
    print(f"onnx-gs {name}: error: {text}", file=sys.stderr)  # noqa: T201 - the terminal is the interface
    return BAD_INPUT


def _describe(error: OSError) -> str:
    """Say what a file system refused that no command expected."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        fix = "free some space, or give a path elsewhere"
    elif isinstance(error, PermissionError):
        fix = "give a path that you may read and write"
    else:
        fix = "check the path"
    where = f"file '{error.filename}'" if error.filename else None
    return str(OnnxGsError((error.strerror or str(error)).lower(), where=where, fix=fix))


def _outer_parser() -> Parser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    parser = Parser(
        prog="onnx-gs",
        description="Edit ONNX models: inspect, fold, lower control flow, hand over to TensorRT.",
        usage="onnx-gs COMMAND ...",
        epilog=f"commands:\n{listed}\n\n`onnx-gs COMMAND --help` tells each one's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"onnx-gs {__version__}")
    return parser


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"onnx_gs.cli.{name.replace('-', '_')}")


def parser_of(name: str) -> Parser:
    """Give the parser of a command."""
    module = _module(name)
    described = (module.__doc__ or "").replace("``", "").strip()
    parser = Parser(prog=f"onnx-gs {name}", description=described, formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    return parser


if __name__ == "__main__":
    sys.exit(main())
