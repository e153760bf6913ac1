from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import pytest

from onnx_gs.errors import TensorRTError
from onnx_gs.trt import tensorrt


def test_messages_lose_what_only_their_developers_can_use():
    text = (
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (NODE: bad\n  thing. In check at /_src/opt/a.cpp:7 In other at /_src/b.h:1)"
    )
    assert tensorrt.clean(text) == "Error Code 4: API Usage Error (NODE: bad thing.)"
    assert tensorrt.clean("it fails [defaultAllocator.cpp::catchCudaError::33] Error Code 1: Cuda Runtime (no driver)") == "it fails"
    assert tensorrt.cuda_missing(["CHECK(status == CUDA_SUCCESS) failed"])
    assert not tensorrt.cuda_missing(["Must have inputs with equal ranks"])


def test_messages_go_to_the_listener_of_their_thread(caplog):
    with tensorrt.listen() as here:
        with tensorrt.listen(quiet=True) as inner:
            tensorrt._hear("ERROR", "inner")
        tensorrt._hear("WARNING", "outer")
        worker = threading.Thread(target=tensorrt._hear, args=("INFO", "from TensorRT's own thread"))
        worker.start()
        worker.join()
    assert inner.errors == ["inner"]
    assert here.lines == [("WARNING", "outer"), ("INFO", "from TensorRT's own thread")]
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == ["outer"]


def test_names_of_members_are_checked():
    pytest.importorskip("tensorrt_rtx")
    assert tensorrt.member("BuilderFlag", "strict-nans", "builder flag").name == "STRICT_NANS"
    with pytest.raises(TensorRTError, match="builder flag 'x' is unknown") as raised:
        tensorrt.member("BuilderFlag", "x", "builder flag")
    assert "TF32" in raised.value.fix
    with pytest.raises(TensorRTError, match="has no 'IInt8Calibrator'"):
        _ = tensorrt.trt.IInt8Calibrator


def test_there_is_one_logger_a_process():
    pytest.importorskip("tensorrt_rtx")
    assert tensorrt.logger() is tensorrt.logger()


def test_an_unknown_package_is_refused():
    code = "from onnx_gs.trt import tensorrt; tensorrt.installed()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"ONNX_GS_TENSORRT": "tensorrt7", "PATH": ""}, capture_output=True, text=True, check=False
    )
    assert "ONNX_GS_TENSORRT is 'tensorrt7'" in done.stderr


@pytest.mark.parametrize("blocked", [("tensorrt_rtx", "tensorrt"), ("tensorrt_rtx", "tensorrt", "onnxruntime")])
def test_checking_needs_neither_tensorrt_nor_onnxruntime(blocked):
    code = f"""
import sys
for name in {blocked!r}: sys.modules[name] = None
import numpy as np
from onnx_gs.ir import Graph, Node, Variable
from onnx_gs.trt import build, check, describe, installed, prepare
from onnx_gs.errors import MissingExtraError
x, y = Variable("x", np.float32, (4,)), Variable("y", np.int64, (1,))
graph = Graph([Node("ArgMax", attrs={{"axis": 0}}, inputs=[x], outputs=[y])], [x], [y], opset=18)
found = check(graph)
assert installed() is None
assert [b.id for b in found.blockers] == ["argmax-1d"], found
assert any("TensorRT is not installed" in n for n in found.notes)
assert str(found.target) == "tensorrt-11.4"
for call in (build, describe):
    try: call(graph)
    except MissingExtraError as missing: said = str(missing)
    else: raise SystemExit("no error")
    assert "neither package 'tensorrt_rtx' nor 'tensorrt' is installed" in said, said
    assert "'onnx_gs[tensorrt-rtx]' brings tensorrt_rtx; pip install 'onnx_gs[tensorrt]' brings tensorrt" in said, said
assert "onnx_gs[tensorrt]" in str(check(graph, "tensorrt-10.3").notes) and "onnx_gs[tensorrt-rtx]" in str(check(graph, "rtx").notes)
assert prepare(graph).shared["readiness"].ready
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n", done.stderr


def test_a_static_check_knows_the_installed_library_without_loading_it():
    code = """
import sys
import numpy as np
from onnx_gs.ir import Graph, Node, Variable
from onnx_gs.trt import check, tensorrt
x, y = Variable("x", np.float32, (4,)), Variable("y", np.float32, (4,))
found = check(Graph([Node("Relu", inputs=[x], outputs=[y])], [x], [y], opset=18), static=True)
assert not {"tensorrt", "tensorrt_rtx"} & set(sys.modules), "loaded"
described = tensorrt.described()
assert described == tensorrt.installed()
assert described is None or found.target.matches(described)
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n", done.stderr


def _in_a_fresh_process(code, **environment):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    assert done.stdout == "fine\n", done.stderr


def test_a_package_that_was_asked_for_is_the_one_that_is_named():
    _in_a_fresh_process(
        """
import sys
sys.modules["tensorrt"] = None
from onnx_gs.errors import MissingExtraError
from onnx_gs.trt import tensorrt
try: tensorrt.require("build an engine")
except MissingExtraError as missing:
    assert str(missing).splitlines() == ["package 'tensorrt' is not installed; it is needed to build an engine", "  fix: pip install 'onnx_gs[tensorrt]'"]
    print("fine")
""",
        ONNX_GS_TENSORRT="tensorrt",
    )


def test_a_package_that_cannot_be_loaded_is_not_called_missing(tmp_path):
    (tmp_path / "tensorrt").mkdir()
    (tmp_path / "tensorrt" / "__init__.py").write_text("raise ImportError('libnvinfer.so.10: cannot open shared object file')")
    _in_a_fresh_process(
        """
from onnx_gs.errors import TensorRTError
from onnx_gs.ir import Graph
from onnx_gs.trt import check, tensorrt
wanted = "package 'tensorrt' is installed, but cannot be used: libnvinfer.so.10"
try: tensorrt.require("build an engine")
except TensorRTError as broken: assert str(broken).startswith(wanted), broken
assert tensorrt.installed() is None
assert check(Graph()).notes[0].startswith(wanted)
print("fine")
""",
        ONNX_GS_TENSORRT="tensorrt",
        PYTHONPATH=str(tmp_path),
    )
