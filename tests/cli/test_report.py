"""Tables: whole names in files and pipes, folded sentences on narrow terminals; what the commands count and compare is said."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import onnx_gs as gs
from onnx_gs.cli.main import main
from onnx_gs.cli.report import _alike, _laid_out

DEMO = Path(__file__).parent.parent.parent / "examples" / "models" / "keyword_spotter.onnx"
LONG = "layers." + "block/" * 40 + "weight"


def text(columns, rows, width=None):
    return [line for line, _ in _laid_out(columns, rows, width)]


def test_numbers_stand_to_the_right_and_lines_end_with_text():
    assert text([">bytes", "name"], [["5", "a"], ["1,000", "bb"]]) == [" bytes   name", " ────────────", "     5   a", " 1,000   bb"]


@pytest.mark.parametrize("width", [None, 40, 80])
def test_names_are_never_broken(width):
    assert any(line.endswith(LONG) for line in text([">bytes", "name"], [["5", LONG]], width))


def test_sentences_are_folded_in_their_column_where_there_is_room():
    why = "because " * 12 + "of that"
    lines = text(["node", "why"], [["a", why]], 60)
    assert all(len(line) <= 60 for line in lines)
    assert lines[2].startswith(" a      because")
    assert lines[3].startswith("        because")
    assert text(["node", "why"], [["a", why]])[2:] == [f" a      {why}"]


def test_sentences_are_below_names_that_leave_no_room():
    lines = text(["what", "where", "why", "remedy"], [["Loop", LONG, "it is too long", ""]], 60)
    assert lines[2] == f" {LONG}"
    assert lines[3:] == ["     what: Loop", "     why: it is too long"]


def test_one_wide_cell_does_not_pad_the_others():
    lines = text(["name", "inputs", "graph"], [["a", "x", "main"], ["b", LONG, "main"]])
    assert len(lines[2]) < 90
    assert lines[3] == f" b      {LONG}   main"


def test_reasons_are_told_once_and_names_by_their_ends():
    rows = [("fold", f"graph 'g' > node '{LONG}{k}' (Add)", f"output '{LONG}{k}' has {k} elements") for k in range(3)]
    told = _alike([*rows, ("fold", "graph 'g' > node #4 (If)", "no reason " * 40)])
    assert [row[0] for row in told] == ["fold", "fold"]
    assert told[0][1].endswith("block/weight0 (Add) and 2 more")
    assert len(told[0][1]) < 60
    assert re.fullmatch(r"output '….{30,40}' has 0 elements", told[0][2])
    assert told[1][1] == "#4 (If)"
    assert len(told[1][2]) <= 160
    assert told[1][2].endswith("…")


def test_many_names_of_a_node_are_cut_and_json_has_all(capsys, tmp_path):
    inputs = [gs.Variable(f"x{k}", np.float32, (1,)) for k in range(40)]
    y = gs.Variable("y", np.float32, (40,))
    gs.save(gs.Graph([gs.Node("Concat", attrs={"axis": 0}, inputs=inputs, outputs=[y])], inputs, [y], opset=18), tmp_path / "m.onnx")
    assert main(["inspect", str(tmp_path / "m.onnx"), "--nodes"]) == 0
    said = capsys.readouterr().out
    assert "x0, x1, x2, x3, x4, … 35 more" in said
    assert "(--json has all)" in said
    assert main(["inspect", str(tmp_path / "m.onnx"), "--nodes", "--json"]) == 0
    assert '"x39"' in capsys.readouterr().out


def test_a_table_without_rows_is_its_title(capsys, tmp_path):
    x = gs.Variable("x", np.float32, (2,))
    gs.save(gs.Graph([], [x], [x], opset=18), tmp_path / "m.onnx")
    assert main(["inspect", str(tmp_path / "m.onnx")]) == 0
    assert capsys.readouterr().out.endswith("Weights (0, 0 B)\n")


@pytest.mark.parametrize("columns", ["40", "80"])
def test_piped_output_does_not_depend_on_the_width(columns, capsys, monkeypatch):
    assert main(["inspect", str(DEMO), "--nodes"]) == 0
    wide = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["inspect", str(DEMO), "--nodes"]) == 0
    assert capsys.readouterr().out == wide
    assert "  recurrence.read.weight\n" in wide
    assert not re.search(r" \n", wide)


def test_what_is_counted_is_said(capsys, tmp_path):
    assert main(["inspect", str(DEMO)]) == 0
    found = re.search(r"Operators \((\d+) nodes, (\d+) of them Constant, (\d+) in bodies and functions\)", capsys.readouterr().out)
    assert found is not None
    every, constants, inside = map(int, found.groups())
    assert every - inside == len(gs.load(DEMO).nodes)
    assert main(["fold", str(DEMO), "-o", str(tmp_path / "out.onnx")]) == 0
    said = capsys.readouterr().out
    assert f": {every - constants} → " in said
    assert "counting nodes in bodies and functions, but not Constant nodes" in said


def test_extract_tells_of_constant_nodes(capsys, tmp_path):
    assert main(["extract", str(DEMO), "--outputs", "/stem/Conv_output_0", "-o", str(tmp_path / "part.onnx")]) == 0
    assert re.search(r"part.onnx: \d+ nodes? besides \d+ Constant nodes?", capsys.readouterr().out)


def scaled(by: float, path: Path) -> str:
    x, y = gs.Variable("x", np.float32, (4,)), gs.Variable("y", np.float32, (4,))
    gs.save(gs.Graph([gs.Node("Mul", inputs=[x, gs.Constant("by", np.array(by, np.float32))], outputs=[y])], [x], [y], opset=18), path)
    return str(path)


@pytest.mark.parametrize(
    ("by", "more", "status", "said"),
    [
        (2.0, [], 0, "the same: every value is equal"),
        (2.000001, ["--relative", "1e-3"], 0, "the same within the tolerances (absolute 0, relative 0.001): values are at most"),
        (2.000001, [], 1, "output 'y' differs\n"),
        (3.0, ["--absolute", "1e-6"], 1, "output 'y' differs by more than the tolerances (absolute 1e-06, relative 0)"),
    ],
)  # fmt: skip
def test_compare_says_how_same(by, more, status, said, capsys, tmp_path):
    assert main(["compare", scaled(2.0, tmp_path / "a.onnx"), scaled(by, tmp_path / "b.onnx"), *more]) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"), [("isolate", "it is called 'extract'"), ("inspekt", "did you mean 'inspect'"), ("qqq", "there are: inspect")]
)
def test_commands_by_another_name(name, said, capsys):
    assert main([name, "m.onnx"]) == 2
    assert said in capsys.readouterr().err
