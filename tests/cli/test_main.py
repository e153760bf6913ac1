"""Commands, statuses, and one line for every error."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from onnx_gs.cli.main import COMMANDS, main, parser_of

DEMO = str(Path(__file__).parents[2] / "examples" / "models" / "keyword_spotter.onnx")


def one_line(capsys) -> str:
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1 + said.err.count("\n  where:") + said.err.count("\n  fix:")
    return said.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_module_and_help(command, capsys):
    module = importlib.import_module(f"onnx_gs.cli.{command.replace('-', '_')}")
    assert callable(module.run)
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"onnx-gs {command}" in out
    assert "--json" in out
    assert "--quiet" in out
    assert parser_of(command).description


def test_help_lists_the_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {command} " in out for command in COMMANDS)
    assert main([]) == 0


def test_version(capsys):
    import onnx_gs

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"onnx-gs {onnx_gs.__version__}\n"


def test_unknown_command(capsys):
    assert main(["flod", DEMO]) == 2
    assert "there is no command 'flod'" in one_line(capsys)


def test_unknown_option(capsys):
    assert main(["inspect", DEMO, "--wieghts"]) == 2
    assert "--wieghts" in one_line(capsys)


def test_missing_file(capsys):
    assert main(["inspect", "no_such.onnx"]) == 2
    assert "no_such.onnx" in one_line(capsys)


def test_folder_instead_of_file(capsys, tmp_path):
    assert main(["inspect", str(tmp_path)]) == 2
    assert str(tmp_path) in one_line(capsys)


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x08\x12\xff\xff\xff\xff\x0f"], ids=["empty", "text", "cut"])
def test_what_is_no_model(content, capsys, tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 2
    assert "bad.onnx" in one_line(capsys)


def test_defects_of_ours_have_a_status_of_their_own(capsys, monkeypatch):
    from onnx_gs.cli import inspect

    def broken(*_):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(inspect, "run", broken)
    assert main(["inspect", DEMO]) == 3
    assert "ZeroDivisionError: a defect" in capsys.readouterr().err


def test_interruption(capsys, monkeypatch):
    from onnx_gs.cli import inspect

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect, "run", interrupted)
    assert main(["inspect", DEMO]) == 130
    assert capsys.readouterr().err == "onnx-gs: interrupted\n"


def test_starting_is_quick():
    """No runtime is loaded for help or to look at a model."""
    code = "import sys; from onnx_gs.cli.main import main; main(%r); print([m for m in %r if m in sys.modules])"
    heavy = ["onnxruntime", "tensorrt_rtx", "rich"]
    for arguments in (["--help"], ["inspect", DEMO, "--json"]):
        said = subprocess.run([sys.executable, "-c", code % (arguments, heavy)], capture_output=True, text=True, check=True).stdout
        assert said.splitlines()[-1] == "[]"


def test_installed_command():
    found = subprocess.run([Path(sys.executable).parent / "onnx-gs", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("onnx-gs ")


@pytest.mark.parametrize(("arguments", "status"), [(["inspect"], 0), (["inspect", "--json"], 0), (["diff"], 1)])
def test_a_reader_that_has_seen_enough_changes_no_status(arguments, status, tmp_path):
    models = [DEMO]
    if arguments[0] == "diff":
        assert main(["bind", DEMO, "-o", str(tmp_path / "bound.onnx"), "--bind", "batch=2", "--quiet"]) == 0
        models.append(str(tmp_path / "bound.onnx"))
    command = [sys.executable, "-m", "onnx_gs.cli.main", arguments[0], *models, *arguments[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == status
