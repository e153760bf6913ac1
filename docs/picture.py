"""Make the README's picture: what ``onnx-gs prepare`` says about the demo model, as it looks in a terminal.

    python -m docs.picture

writes ``docs/images/prepare.svg``.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from onnx_gs.cli.main import parser_of
from onnx_gs.cli.prepare import run
from onnx_gs.cli.report import Session

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the command and keep its output as an SVG."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the report names files as they were given
        shutil.copy(ROOT / "examples/models/keyword_spotter.onnx", folder)
        options = parser_of("prepare").parse_args(["keyword_spotter.onnx", "-o", "ready.onnx", "--target", "rtx-1.7", "--verify"])
        session = Session("prepare", options)
        session._console = Console(record=True, width=104, file=sys.stderr, force_terminal=True, highlight=False)
        run(options, session)
        os.chdir(ROOT)
        svg = session.console.export_svg(title="onnx-gs prepare keyword_spotter.onnx -o ready.onnx --verify", unique_id="prepare")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # no fonts from elsewhere
    svg = re.sub(r"\s*<!-- Generated.*?-->", "", svg)
    target = ROOT / "docs" / "images" / "prepare.svg"
    target.parent.mkdir(exist_ok=True)
    target.write_text(svg.rstrip() + "\n", encoding="utf-8")
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
