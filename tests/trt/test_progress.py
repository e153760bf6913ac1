from __future__ import annotations

import io

from onnx_gs.trt import memory
from onnx_gs.trt.progress import ProgressBar


def test_a_bar_follows_the_outermost_phase():
    out = io.StringIO()
    bar = ProgressBar(out, always=True)
    bar("Building", None, 1, 2)
    bar("Inner", "Building", 5, 5)
    bar("Building", None, 2, 2)
    bar.close()
    assert "[###############...............]  50% Inner" in out.getvalue()
    assert out.getvalue().endswith("\n")
    assert "100%" in out.getvalue()


def test_nothing_is_drawn_into_a_file():
    out = io.StringIO()
    bar = ProgressBar(out)
    bar("Building", None, 1, 2)
    bar.close()
    assert not out.getvalue()


def test_the_peak_is_at_least_what_is_held():
    memory.reset_peak()
    held = bytearray(30 << 20)
    peak = memory.peak_bytes()
    assert peak is None or peak > len(held)
