"""The stub that mypy checks our calls against names nothing that the installed library lacks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

STUB = Path(__file__).parents[2] / "typings" / "tensorrt_rtx.pyi"


def test_every_name_of_the_stub_exists():
    library = pytest.importorskip("tensorrt_rtx")
    lacking = []
    for item in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if not isinstance(item, ast.ClassDef) or item.name == "_Enum":
            continue
        kind = getattr(library, item.name, None)
        names = [getattr(member, "name", None) or getattr(getattr(member, "target", None), "id", "") for member in item.body]
        lacking += [f"{item.name}.{name}" for name in names if name and not name.startswith("__") and not hasattr(kind, name)]
    assert not lacking
