from __future__ import annotations

import logging
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
    except MissingExtraError as missing: assert "onnx_gs[tensorrt-rtx]" in missing.fix
    else: raise SystemExit("no error")
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
