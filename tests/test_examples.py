"""Every example runs as its README says, and makes what it claims, in ONNX Runtime."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path for path in (ROOT / "examples").glob("[0-9][0-9]_*") if path.is_dir())
COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)


def commands(folder: Path) -> list[list[str]]:
    text = (folder / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in COMMAND.findall(block)]


def run(command: list[str], monkeypatch) -> str:
    """Run one command of an example's README, in this process and folder; give what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if command[0].rpartition("/")[2] == "onnx-gs":
            from onnx_gs.cli.main import main

            assert main([argument if not argument.startswith("examples/") else str(ROOT / argument) for argument in command[1:]]) in {0, 1}
        else:
            assert command[0] in {"python", "python3"}, command
            script = ROOT / command[1]
            monkeypatch.setattr(sys, "argv", [str(script), *command[2:]])
            runpy.run_path(str(script), run_name="__main__")
    return out.getvalue()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_example_does_what_its_readme_says(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert commands(folder), "the README has no command in a console block"
    for command in commands(folder):
        run(command, monkeypatch)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_example_folder_has_one_script_named_like_it(folder):
    assert [path.name for path in folder.glob("*.py")] == [folder.name[3:] + ".py"]
    assert (folder / "README.md").exists()
