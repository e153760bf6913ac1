"""The runner's own logic, with stand-ins for TensorRT and CUDA: no machine of ours can run an engine."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from onnx_gs.errors import GraphValueError, TensorRTError
from onnx_gs.trt import comparison, cuda, runner
from onnx_gs.trt.engine import Engine
from onnx_gs.trt.runner import Runner, Scratch
from tests.support.rewrites import parse


class FakeBuffer:
    made = 0

    def __init__(self, size):
        FakeBuffer.made += 1
        self.size = max(size, 1)
        self.memory = (ctypes.c_char * self.size)()
        self.address = ctypes.addressof(self.memory)

    def close(self):
        self.address = 0


class FakeStream:
    handle = 7

    def upload(self, target, array):
        ctypes.memmove(target.address, array.ctypes.data, array.nbytes)

    def download(self, array, address):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def synchronize(self):
        pass

    def close(self):
        pass


class FakeContext:
    """Computes y = 2 x for float32 [n, 3]."""

    def __init__(self, engine, strategy):
        self.engine, self.strategy, self.addresses, self.profiles = engine, strategy, {}, []
        self.error_recorder = None
        self.fails = False
        self.lent = []

    def set_input_shape(self, name, shape):
        self.shape = tuple(shape)
        return True

    def set_tensor_address(self, name, address):
        self.addresses[name] = address
        return True

    def infer_shapes(self):
        return []

    def get_tensor_shape(self, name):
        return self.shape

    def set_optimization_profile_async(self, profile, stream):
        self.profiles.append(profile)
        return True

    def update_device_memory_size_for_shapes(self):
        return 64 * self.shape[0]

    def set_device_memory(self, address, size):
        self.lent.append(size)

    def execute_async_v3(self, stream):
        if self.engine.fails:
            self.error_recorder.report_error("x", "Error Code 1: an illegal memory access. In run at /_src/a.cpp:1")
            return False
        if self.strategy == "user" and not self.lent:
            raise AssertionError("no scratch memory")
        count = self.shape[0] * self.shape[1]
        x = np.ctypeslib.as_array((ctypes.c_float * count).from_address(self.addresses["x"]))
        y = np.ctypeslib.as_array((ctypes.c_float * count).from_address(self.addresses["y"]))
        y[:] = 2 * x
        return True


class FakeEngine:
    num_io_tensors = 2
    num_optimization_profiles = 2
    device_memory_size_v2 = 640
    fails = False

    def __init__(self):
        self.contexts = []

    def get_tensor_name(self, k):
        return "xy"[k]

    def get_tensor_mode(self, name):
        return "in" if name == "x" else "out"

    def get_tensor_dtype(self, name):
        return SimpleNamespace(name="FLOAT")

    def get_tensor_shape(self, name):
        return (-1, 3)

    def get_tensor_location(self, name):
        return "device"

    def get_tensor_profile_shape(self, name, profile):
        return [((1, 3), (1, 3), (2, 3)), ((3, 3), (4, 3), (9, 3))][profile]

    def get_engine_stat(self, stat):
        return 123

    def create_execution_context(self, strategy):
        self.contexts.append(FakeContext(self, strategy))
        return self.contexts[-1]


class FakeRecorder:
    def __init__(self):
        self.errors = []

    def report_error(self, code, text):
        self.errors.append((code, text))


@pytest.fixture
def engine(monkeypatch):
    made = FakeEngine()

    class FakeRuntime:
        error_recorder = None

        def __init__(self, logger):
            pass

        def deserialize_cuda_engine(self, content):
            return made if content == b"engine" else None

    api = SimpleNamespace(
        Runtime=FakeRuntime, TensorIOMode=SimpleNamespace(INPUT="in", OUTPUT="out"), TensorLocation=SimpleNamespace(HOST="host"), EngineStat=SimpleNamespace(TOTAL_WEIGHTS_SIZE=0),
        ExecutionContextAllocationStrategy=SimpleNamespace(USER_MANAGED="user", STATIC="static"),
    )  # fmt: skip
    door = SimpleNamespace(
        require=lambda _: "tensorrt 0", make_recorder=FakeRecorder, logger=lambda: None, listen=lambda **_: contextlib.nullcontext(SimpleNamespace(errors=[])), clean=lambda t: t,
    )  # fmt: skip
    monkeypatch.setattr(runner, "trt", api)
    monkeypatch.setattr("onnx_gs.trt.engine.trt", api)
    monkeypatch.setattr(runner, "tensorrt", door)
    monkeypatch.setattr(cuda, "use", lambda _: None)
    monkeypatch.setattr(cuda, "compute_capability", lambda _: (9, 0))
    monkeypatch.setattr(cuda, "Stream", FakeStream)
    monkeypatch.setattr(cuda, "Buffer", FakeBuffer)
    return made


def x_of(rows):
    return np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)


def test_arrays_in_and_out(engine):
    with Runner(b"engine") as run:
        np.testing.assert_array_equal(run({"x": x_of(2)})["y"], 2 * x_of(2))
        assert run.stats() == {"weights": 123, "scratch": 640}
    assert engine.contexts[0].strategy == "static"


def test_the_profile_that_fits_is_taken(engine):
    with Runner(Engine(content=b"engine")) as run:
        for rows in (1, 2, 7, 9, 2):
            assert run({"x": x_of(rows)})["y"].shape == (rows, 3)
        assert engine.contexts[0].profiles == [0, 1, 0]
        with pytest.raises(GraphValueError, match=r"shape \[10, 3\], but profile 1 allows \[3, 3\] to \[9, 3\]"):
            run({"x": x_of(10)})


@pytest.mark.parametrize(
    ("feeds", "what"),
    [
        ({}, "input 'x' is missing"),
        ({"x": np.zeros((1, 3), np.float32), "z": np.zeros(1)}, "'z' is no input"),
        ({"x": np.zeros((1, 3), np.int32)}, "input 'x' is int32, but the engine takes float32"),
        ({"x": np.zeros(3, np.float32)}, "input 'x' has rank 1, but the engine takes rank 2"),
    ],
)
def test_feeds_that_do_not_fit(engine, feeds, what):
    with Runner(b"engine") as run, pytest.raises(GraphValueError) as raised:
        run(feeds)
    assert raised.value.what.startswith(what)
    assert raised.value.fix


def test_a_double_feed_of_a_double_binding_is_narrowed(engine):
    with Runner(b"engine") as run:
        assert run({"x": np.ones((1, 3))})["y"].dtype == np.float32


def test_each_thread_gets_a_context_of_its_own(engine):
    with Runner(b"engine") as run:
        gate = threading.Barrier(2)

        def work(k):
            gate.wait()
            return all((run({"x": x_of(k + 1)})["y"] == 2 * x_of(k + 1)).all() for _ in range(20))

        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(work, range(2)))
        assert len(engine.contexts) == 2


def test_two_threads_in_one_context_are_refused(engine):
    with Runner(b"engine") as run:
        context = run.context()
        with ThreadPoolExecutor(1) as pool, pytest.raises(TensorRTError, match="used by another thread"):
            pool.submit(context.run, {"x": x_of(1)}).result()


def test_contexts_share_one_scratch_buffer(engine):
    with Runner(b"engine", scratch="shared") as run:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda k: run({"x": x_of(k)}), (1, 9, 2, 5)))
        assert {c.strategy for c in engine.contexts} == {"user"}
        assert run.scratch.size == 64 * 9
        assert run.scratch.lent == 4


def test_runners_share_scratch_memory(engine):
    scratch = Scratch()
    with Runner(b"engine", scratch=scratch) as one, Runner(b"engine", scratch=scratch) as other:
        one({"x": x_of(2)})
        other({"x": x_of(1)})
    assert (scratch.size, scratch.lent) == (128, 2)


def test_a_failed_run_says_what_and_that_another_context_may_be_the_cause(engine):
    engine.fails = True
    with Runner(b"engine", debug_sync=True) as run, pytest.raises(TensorRTError, match="an illegal memory access") as raised:
        run({"x": x_of(1)})
    assert "another context may have caused it" in raised.value.fix
    assert "debug_sync" in raised.value.fix
    assert engine.contexts[0].debug_sync is True


def test_an_engine_that_does_not_fit_the_gpu(engine):
    with pytest.raises(TensorRTError, match=r"cannot be loaded on GPU 0 \(compute capability 9.0\)"):
        Runner(b"other")


def test_scratch_is_a_word_that_is_known(engine):
    with pytest.raises(GraphValueError, match="scratch is 'none'"):
        Runner(b"engine", scratch="none")


def test_an_engine_is_compared_with_onnx_runtime(engine):
    same = parse("g (float[n,3] x) => (float[n,3] y) { y = Add (x, x) }")
    found = comparison.compare(same, b"engine")
    assert found.same
    assert (found.absolute, found.relative) == comparison.ENGINE_TOLERANCES
    other = parse("g (float[n,3] x) => (float[n,3] y) { y = Neg (x) }")
    found = comparison.compare(other, b"engine", {"x": x_of(2)})
    assert found.first == "y"
    assert "differ" in str(found)
    assert found.as_dict()["outputs"]["y"]["kind"] == "values"


def test_outputs_that_are_missing_differ(engine):
    graph = parse("g (float[n,3] x) => (float[n,3] z) { z = Add (x, x) }")
    assert comparison.compare(graph, b"engine").outputs["z"].text == "the output is missing"


def test_without_a_driver_there_is_one_clear_error():
    if cuda.device_count():
        pytest.skip("there is a GPU")
    pytest.importorskip("tensorrt_rtx")
    with pytest.raises(TensorRTError) as raised:
        Runner(b"engine")
    assert "run" in raised.value.what or "driver" in raised.value.what
    assert "NVIDIA GPU" in raised.value.fix
