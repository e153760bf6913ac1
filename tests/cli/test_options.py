"""Options from the fields of a pass."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

import pytest

from onnx_gs.cli import options


@dataclass(frozen=True)
class Squeeze:
    """Make things smaller.

    Args:
        limit: bytes above which nothing happens;
            100%% of them count.
        deep: go ``all`` the way.
        careful: look twice.
        how: the manner.
        table: nothing that a command line can carry.
    """

    limit: int | None = 64
    deep: bool = False
    careful: bool = True
    how: Literal["fast", "slow"] = "fast"
    table: tuple[tuple[str, int], ...] = ()


def parse(*arguments):
    parser = argparse.ArgumentParser()
    options.add_fields(parser, Squeeze)
    return options.fields_given(parser.parse_args(arguments), Squeeze)


def test_only_what_was_given_is_passed_on():
    assert parse() == {}
    assert parse("--limit", "2k", "--deep", "--no-careful", "--how", "slow") == {"limit": 2000, "deep": True, "careful": False, "how": "slow"}
    assert parse("--limit", "none") == {"limit": None}


def test_fields_of_other_types_are_no_options():
    with pytest.raises(SystemExit):
        parse("--table", "x")


def test_named_fields_only():
    parser = argparse.ArgumentParser()
    options.add_fields(parser, Squeeze, ["deep"])
    with pytest.raises(SystemExit):
        parser.parse_args(["--limit", "3"])


def test_help_tells_bytes_from_counts_and_every_default_that_means_something():
    @dataclass(frozen=True)
    class Bounds:
        """Bounds.

        Args:
            max_size: the most bytes; None for no limit.
            max_nodes: the most nodes.
        """

        max_size: int | None = None
        max_nodes: int = 5

    parser = argparse.ArgumentParser()
    options.add_fields(parser, Bounds)
    text = " ".join(parser.format_help().split())
    assert "--max-size SIZE the most bytes; none for no limit (default: none)" in text
    assert "--max-nodes N the most nodes (default: 5)" in text


def test_notes_come_from_the_docstring():
    notes = options.field_notes(Squeeze)
    assert notes["deep"] == "go all the way"
    assert notes["limit"] == "bytes above which nothing happens; 100%% of them count"


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("4096", 4096), ("64k", 64_000), ("1.5M", 1_500_000), ("2GB", 2_000_000_000), ("None", None)])
def test_sizes(text, value):
    assert options.count(text) == value


@pytest.mark.parametrize("text", ["", "-1", "12x", "k", "1e3"])
def test_bad_sizes(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"is no number of at least 0; .*, or none"):
        options.count(text)


def test_pairs():
    assert options.pair("batch=4") == ("batch", "4")
    assert options.pair("a=b=c") == ("a", "b=c")
    for text in ("batch", "=4"):
        with pytest.raises(argparse.ArgumentTypeError):
            options.pair(text)


#: Fields of passes that are no options of their own, and why.
ELSEWHERE = {
    "Simplify": {"verify": "--verify", "only": "--only", "skip": "--skip"},
    "LowerControlFlow": {"verify": "--verify", "bind": "--bind", "freeze": "--freeze", "bounds": "--bound"},
}


@pytest.mark.parametrize(("command", "kinds"), [("fold", ["Simplify"]), ("lower", ["LowerControlFlow"]), ("prepare", ["Simplify", "LowerControlFlow"])])
def test_every_field_of_the_passes_behind_a_command_is_an_option(command, kinds):
    import dataclasses

    from onnx_gs.cli.main import parser_of
    from onnx_gs.passes.lower_control_flow import LowerControlFlow
    from onnx_gs.passes.simplify import Simplify

    given = {flag for action in parser_of(command)._actions for flag in action.option_strings}
    for kind in (Simplify, LowerControlFlow):
        for field in dataclasses.fields(kind) if kind.__name__ in kinds else ():
            flag = ELSEWHERE[kind.__name__].get(field.name, "--" + field.name.replace("_", "-"))
            assert flag in given, f"{command} has no {flag} for {kind.__name__}.{field.name}"


def test_every_option_has_help_and_no_markup():
    from onnx_gs.cli.main import COMMANDS, parser_of

    for command in COMMANDS:
        parser = parser_of(command)
        assert "``" not in parser.format_help()
        assert [action.option_strings for action in parser._actions if not action.help] == []
