from __future__ import annotations

import importlib
import pkgutil

import pytest

from onnx_gs import passes
from onnx_gs.errors import GraphValueError
from onnx_gs.passes.base import Pass
from onnx_gs.trt.capability import MESSAGES, ROWS, Target, note_on, row_of_message, target_of


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("rtx", "rtx-1.7"),
        ("rtx-1.2", "rtx-1.2"),
        ("tensorrt-10.3", "tensorrt-10.3"),
        ("10.3", "tensorrt-10.3"),
        ("TRT 8.6.1", "tensorrt-8.6"),
        ("tensorrt_rtx-1.7", "rtx-1.7"),
    ],
)
def test_targets_by_name(text, wanted):
    assert str(target_of(text)) == wanted


@pytest.mark.parametrize("text", ["", "cuda", "rtx-x", "tensorrt-1.0", "7.2", "rtx-0.9", "tensorrt-", "-10", "10.", "tensorrt 10 3", "onnxruntime-1.7", 10])
def test_no_target(text):
    with pytest.raises(GraphValueError, match="is no target") as raised:
        target_of(text)
    assert "tensorrt-11.4" in raised.value.fix


def test_a_target_made_by_hand_is_looked_at_too():
    with pytest.raises(GraphValueError, match=r"nothing is known of TensorRT before 8\.0"):
        target_of(Target(is_rtx=False, version=(1, 0)))


@pytest.mark.parametrize(
    ("text", "rules_of"),
    [
        ("tensorrt-99", "tensorrt-11.4"),
        ("rtx-1.8", "rtx-1.7"),
        ("tensorrt-11.4.2", None),
        ("tensorrt-11", None),
        ("tensorrt-9.2", None),
        ("rtx-1.7", None),
        ("tensorrt-8", None),
    ],
)
def test_what_is_newer_than_the_table_is_noted(text, rules_of):
    note = note_on(target_of(text))
    assert (note is not None and f"the rules of {rules_of}" in note) if rules_of else note is None


def test_an_installed_library_is_a_target_of_its_version():
    from onnx_gs.trt.tensorrt import Library

    library = Library("tensorrt_rtx", (1, 7, 1, 116), "1.7.1.116")
    assert Target(is_rtx=True, version=(1, 7)).matches(library)
    assert not Target(is_rtx=True, version=(1, 6)).matches(library)
    assert not Target(is_rtx=False, version=(1, 7)).matches(library)
    assert not Target(is_rtx=True, version=(1, 7)).matches(None)


def test_rows_are_whole():
    for name, row in ROWS.items():
        assert row.id == name
        assert row.title
        assert row.remedy
        assert row.source
    assert all(row in ROWS for _, row in MESSAGES)


def test_the_passes_that_rows_name_exist():
    for module in pkgutil.iter_modules(passes.__path__):
        importlib.import_module(f"onnx_gs.passes.{module.name}")
    names = {"legalize-dtypes"}
    pending = [Pass]
    while pending:
        kind = pending.pop()
        names.add(kind.name)
        pending.extend(kind.__subclasses__())
    assert {name for row in ROWS.values() for name in row.passes} <= names


@pytest.mark.parametrize(
    ("text", "op", "row"),
    [
        ("Must have inputs with equal ranks when condition is not a build-time constant.", "If", "if-rank"),
        ("TensorRT has no importer for Det", "Det", "unsupported-op"),
        ("Invalid Node - node_of_z", "Scan", "scan-no-state"),
        ("anything", "SequenceAt", "sequence-op"),
        ("something new", "Add", "refused"),
    ],
)
def test_messages_have_rows(text, op, row):
    assert row_of_message(text, op).id == row
