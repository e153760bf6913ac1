"""Every example in the docstrings, and every Python block and ``onnx-gs`` command in README, docs/ and the changelog runs.

A page's blocks run in order in one namespace, in a scratch folder that holds the demo model as ``model.onnx`` and ``keyword_spotter.onnx``.
``<!-- needs: package -->`` on the line before a block leaves it out where the package is not installed.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import pkgutil
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import onnx_gs

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(m.name for m in pkgutil.walk_packages(onnx_gs.__path__, "onnx_gs.") if not m.name.endswith("__main__"))
FENCE = re.compile(r"^(?P<note><!--[^\n]*-->\n)?```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


def missing(note: str | None) -> bool:
    """Say whether a block's note asks for a package that is not here."""
    wanted = re.findall(r"needs: ([\w.]+)", note or "")
    return any(importlib.util.find_spec(package) is None for package in wanted)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    demo = ROOT / "examples" / "models" / "keyword_spotter.onnx"
    shutil.copy(demo, tmp_path / "model.onnx")
    shutil.copy(demo, tmp_path / "keyword_spotter.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, scratch):
    try:
        module = importlib.import_module(name)
    except onnx_gs.MissingExtraError as missing_extra:
        pytest.skip(str(missing_extra))
    known = {kind: getattr(onnx_gs, kind) for kind in ("Constant", "Function", "Graph", "Node", "Variable") if not hasattr(module, kind)}
    results = doctest.testmod(module, extraglobs=known, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert not results.failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page, scratch):
    namespace: dict[str, object] = {"__name__": "__page__"}
    text = page.read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        if missing(block["note"]):
            continue
        line = text[: block.start()].count("\n") + 1
        if block["language"] == "python":
            run_python(page, line, block["text"], namespace)
        elif block["language"] == "console":
            run_commands(page, line, block["text"])


def run_python(page, line, code, namespace):
    if ">>>" in code:
        test = doctest.DocTestParser().get_doctest(code, namespace, page.name, str(page), line)
        said = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=said.write, clear_globs=False)
        namespace.update(test.globs)
        assert not runner.failures, said.getvalue()
    else:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile("\n" * line + code, str(page), "exec"), namespace)


def run_commands(page, line, text):
    from onnx_gs.cli.main import main

    for command in re.findall(r"^\$ (?:\S*/)?onnx-gs (.*)$", text, re.MULTILINE):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            status = main(shlex.split(command, comments=True))
        assert status in {0, 1}, f"{page}:{line}: onnx-gs {command}: status {status}\n{out.getvalue()}{err.getvalue()}"


def test_the_output_that_the_page_on_the_command_line_shows_is_real(scratch, capsys):
    from onnx_gs.cli.main import main

    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = 0
    for block in FENCE.finditer(text):
        if block["language"] != "console":
            continue
        for command, expected in re.findall(r"^\$ onnx-gs ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", block["text"], re.MULTILINE):
            main(shlex.split(command, comments=True))
            said = capsys.readouterr().out
            if expected:
                shown += 1
                start, cut, _ = expected.partition("…\n")  # the page leaves out the rest
                assert said.startswith(start) if cut else said == expected, command
    assert shown >= 8


def committed() -> set[Path]:
    """Give what a clean checkout has: every file in git and the folders that hold them; nothing where this is no checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    files = {ROOT / name for name in listed.stdout.split("\0") if name}
    return files | {folder for file in files for folder in file.parents}


def anchors(page: Path) -> set[str]:
    """Give the anchors of a page's headings, spelled as code hosts spell them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_links_lead_somewhere_in_a_clean_checkout():
    there = committed()
    broken = []
    for page in [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "examples").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", text):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists() or (there and path not in there) or (anchor and anchor not in anchors(path)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)


def test_links_lead_somewhere_in_the_built_documentation(tmp_path):
    pytest.importorskip("markdown_it")
    from docs import build

    assert build.build(tmp_path) == []
    pages = list(tmp_path.rglob("*.html"))
    targets = [(page, t) for page in pages for t in re.findall(r'(?:href|src)="([^"#]+)', page.read_text(encoding="utf-8")) if "://" not in t]
    assert not [(page.name, t) for page, t in targets if not (page.parent / t).is_file()]
    assert 'href="api/commands.html"' in (tmp_path / "cli.html").read_text(encoding="utf-8").split("<main>")[1]
