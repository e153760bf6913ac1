from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from onnx_gs.errors import GraphValueError, ModelFileError, TensorRTError
from onnx_gs.trt import builder, isolation, model_source, session
from onnx_gs.trt.builder import build
from tests.support.rewrites import model, parse

pytest.importorskip("tensorrt_rtx")

ADD = "g (float[n,3] x) => (float[n,3] y) { y = Add(x, x) }"
LOOP = """g (float[2] x, int64 m) => (float[2] y) <bool c = {1}> {
    y = Loop (m, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] so) { co = Identity (ci) so = Add (s, s) }> }"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_graph_becomes_an_engine_with_a_report():
    engine = build(parse(ADD), shapes="x:1x3..2x3..5x3", workspace=1 << 28, optimization_level=2)
    assert len(bytes(engine)) == engine.size > 0
    report = engine.report
    assert report.engine_bytes == engine.size
    assert report.profiles == [{"x": "1x3..2x3..5x3"}]
    assert {"host_persistent", "device_persistent", "scratch", "activation", "weights"} <= set(report.memory)
    assert report.peak_host_bytes is None or report.peak_host_bytes > engine.size
    assert report.seconds >= report.parse_seconds > 0
    assert any(text.startswith("optimization_level: 2") for text in report.tuning)
    assert "engine" in str(report)
    assert report.as_dict()["layers"] == report.layers


@pytest.mark.parametrize("kind", ["path", "bytes", "proto"])
def test_models_come_in_every_form(kind, tmp_path):
    proto = model(ADD)
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    given = {"path": path, "bytes": proto.SerializeToString(), "proto": proto}[kind]
    assert build(given).size > 0


def test_two_builds_of_one_model_give_identical_bytes():
    assert bytes(build(parse(ADD))) == bytes(build(parse(ADD)))


def test_a_model_with_a_loop_gives_identical_bytes_in_fresh_processes():
    # within one process TensorRT numbers recurrences on and on, and writes the numbers into the engine
    assert bytes(build(parse(LOOP), isolate=True)) == bytes(build(parse(LOOP), isolate=True))


def test_the_engine_is_streamed_to_its_file(tmp_path):
    target = tmp_path / "m.engine"
    engine = build(parse(ADD), target)
    assert target.read_bytes() == bytes(build(parse(ADD))) == bytes(engine)
    assert names(tmp_path) == ["m.engine"]


def test_a_guessed_range_is_said():
    report = build(parse(ADD)).report
    assert report.profiles == [{"x": "1x3..4x3..8x3"}]
    assert any("no range was given for n" in text for text in report.warnings)
    assert any("guessed" in text for text in report.tuning)


def test_two_profiles():
    assert len(build(parse(ADD), shapes=("x:1x3..1x3..1x3", "x:2x3..4x3..8x3")).report.profiles) == 2


def test_values_of_an_input_that_sets_shapes():
    engine = build(
        parse("g (float[4] x, int64[2] s) => (float[a,b] y) { y = Reshape (x, s) }"),
        shapes={"s": builder.profiles.ShapeRange.of((2, 2), is_values=True)},
    )
    assert engine.report.profiles == [{"s (values)": "2x2"}]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"shapes": "x:4x3..2x3..8x3"}, "dim 0 of input 'x' has the range 4..2..8, which is not in order"),
        ({"shapes": "x:4"}, "input 'x' has 2 dims, but the range 4 has 1"),
        ({"shapes": "x:4x5"}, "dim 1 of input 'x' is fixed at 3"),
        ({"shapes": "z:4x3"}, "shapes are given for 'z', which is no input"),
        ({"dims": {"k": (1, 2, 3)}}, "a range is given for dim 'k', which no input has"),
        ({"typo": 1}, "'typo' is no build option"),
        ({"shapes": "x:1x3..1x3..4000000000x3"}, "dim 0 of input 'x' has the range 1..1..4000000000, which is out of reach"),
        ({"dims": {"n": 1 << 70}}, "dim 'n' has the range"),
        ({"refit": "never"}, "refit is 'never'"),
    ],
)
def test_settings_that_make_no_sense(settings, what):
    with pytest.raises(GraphValueError) as raised:
        build(parse(ADD), **settings)
    assert raised.value.what.startswith(what)
    assert raised.value.fix


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"flags": ("fp16",)}, "builder flag 'FP16' is unknown to tensorrt_rtx"),
        ({"memory_pools": {"attic": 1}}, "memory pool 'attic' is unknown"),
        ({"tactic_sources": ("cublas",)}, "tactic source 'cublas' is unknown"),
        ({"compute_capabilities": ("1.0",)}, "compute capability 'SM10' is unknown"),
        ({"hardware_compatibility": "ampere_plus"}, "tensorrt_rtx 1.7"),
        ({"error_on_timing_cache_miss": True}, "of the timing cache an error on a miss is asked for, but none is given"),
        ({"error_on_timing_cache_miss": True, "timing_cache": "no-such.cache"}, "an error on a miss is asked for, but timing cache 'no-such.cache' does"),
        ({"editable_timing_cache": True}, "of the timing cache an editable one is asked for, but none is given"),
    ],
)
def test_names_are_checked_against_the_installed_version(settings, what):
    with pytest.raises(TensorRTError) as raised:
        build(parse(ADD), **settings)
    assert raised.value.what.startswith(what)
    assert raised.value.fix


def test_options_that_build():
    engine = build(
        parse(ADD), flags=("strict-nans", "TF32"), profiling_verbosity="detailed", compute_capabilities=("8.9", "SM120"), tactic_sources=(), refit="individual",
        max_aux_streams=0, avg_timing_iterations=2, weight_streaming=True, preview_features=("runtime_activation_resize_10_10",),
    )  # fmt: skip
    assert engine.size > 0


def test_what_needs_a_gpu_says_so():
    from onnx_gs.trt import cuda

    if cuda.device_count():
        pytest.skip("there is a GPU")
    with pytest.raises(TensorRTError) as raised:
        build(parse("g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> { m = MatMul (x, w) y = Relu (m) }"), strip_weights=True)
    assert "STRIP_PLAN needs a GPU" in raised.value.fix


def test_a_timing_cache_is_read_and_written(tmp_path):
    cache = tmp_path / "timing.cache"
    build(parse(ADD), timing_cache=cache)
    first = cache.read_bytes()
    assert first
    build(parse(ADD), timing_cache=cache, editable_timing_cache=True)
    assert cache.read_bytes()
    cache.write_bytes(b"not a cache")
    build(parse(ADD), timing_cache=cache)  # TensorRT for RTX keeps no timings; what it could not read it does not overwrite
    assert cache.read_bytes() == b"not a cache"


def test_an_allocator_is_kept_alive():
    import tensorrt_rtx as trt

    class Allocator(trt.IGpuAllocator):
        def __init__(self):
            trt.IGpuAllocator.__init__(self)

        def allocate(self, size, alignment, flags):
            return 0

        def deallocate(self, memory):
            return True

    assert build(parse(ADD), gpu_allocator=Allocator()).size > 0


# -- faults: one error each, nothing half-written ------------------------------------------------------------


def test_a_parser_error_names_the_node_in_a_body_in_a_function(tmp_path):
    text = """g (float[2,2] x, bool p) => (float y) { y = local.f (x, p) }"""
    functions = """<opset_import: ["" : 18], domain: "local"> f (x, p) => (y) {
        y = If (p) <then_branch = t () => (float a) { a = Det (x) }, else_branch = e () => (float b) { b = ReduceSum <keepdims = 0> (x) }> }"""
    target = tmp_path / "m.engine"
    with pytest.raises(TensorRTError) as raised:
        build(parse(text, functions=functions), target)
    assert raised.value.where.startswith("function 'local::f' > node #0 (If) > then_branch > node #0 (Det)")
    assert "no importer for Det" in raised.value.what
    assert not names(tmp_path)


def test_a_builder_error_names_the_node():
    text = """g (float[1,2] x, int64 m) => (float[k,2] y) <bool c = {1}> {
        y = Loop (m, c, x) <body = b (int64 i, bool ci, float[j,2] s) => (bool co, float[l,2] so) { co = Identity (ci) so = Concat <axis = 0> (s, x) }> }"""
    with pytest.raises(TensorRTError) as raised:
        build(parse(text))
    assert raised.value.where == "graph 'g' > node #0 (Loop)"
    assert "Recurrence" in raised.value.what
    assert "/_src/" not in raised.value.what


def test_out_of_workspace_says_what_to_raise():
    text = "g (float[8,64,32,32] x, float[64,64,3,3] w) => (float[8,64,32,32] y) { c = Conv <pads = [1,1,1,1]> (x, w) s = Softmax (c) y = MatMul (s, s) }"
    with pytest.raises(TensorRTError) as raised:
        build(parse(text), workspace=1)
    assert "raise workspace (it is 1 bytes)" in raised.value.fix


def test_cancelling_leaves_nothing(tmp_path):
    with pytest.raises(TensorRTError, match="cancelled"):
        build(parse(ADD), tmp_path / "m.engine", progress=lambda *_: False)
    assert not names(tmp_path)


def test_what_a_progress_callable_raises_comes_out():
    def progress(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build(parse(ADD), progress=progress)


def test_progress_is_told():
    events = []
    build(parse(ADD), progress=lambda *event: events.append(event))
    assert any(parent is None and done == steps for _, parent, done, steps in events)


def test_ctrl_c_cancels(tmp_path):
    def progress(*_):
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        build(parse(ADD), tmp_path / "m.engine", progress=progress)
    assert signal.getsignal(signal.SIGINT) is before
    assert not names(tmp_path)


def test_missing_external_data(tmp_path):
    weights = np.ones((64, 64), np.float32)
    graph = parse("g (float[2,64] x) => (float[2,64] y) { y = Identity (x) }")
    x, y = graph.inputs[0], graph.outputs[0]
    graph.nodes[0].op = "MatMul"
    graph.nodes[0].inputs = [x, gs.Constant("w", weights)]
    assert y.name == "y"
    gs.save(graph, tmp_path / "m.onnx", external_data="m.data", size_threshold=0)
    assert build(tmp_path / "m.onnx").size > 0
    (tmp_path / "m.data").unlink()
    with pytest.raises(TensorRTError) as raised:
        build(tmp_path / "m.onnx", tmp_path / "m.engine")
    assert "external data" in raised.value.fix
    assert names(tmp_path) == ["m.onnx"]


def test_large_graphs_go_by_file(monkeypatch):
    monkeypatch.setattr(model_source, "FILE_LIMIT", 10)
    graph = parse("g (float[2,8] x) => (float[2,8] y) { y = Identity (x) }")
    graph.nodes[0].op = "MatMul"
    graph.nodes[0].inputs = [graph.inputs[0], gs.Constant("w", np.ones((8, 8), np.float32))]
    with model_source.opened(graph) as source:
        assert source.path is not None
        assert source.path.is_file()
    assert not source.path.exists()
    assert build(graph).size > 0


def test_a_full_disk_leaves_the_old_engine(tmp_path, monkeypatch):
    import errno

    target = tmp_path / "m.engine"
    target.write_bytes(b"old")

    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    make = builder.tensorrt.make_writer
    monkeypatch.setattr(builder.tensorrt, "make_writer", lambda file: make(Full(file)))
    with pytest.raises(ModelFileError, match="No space left on device"):
        build(parse(ADD), target)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["m.engine"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be written"):
        build(parse(ADD), tmp_path / "no" / "m.engine")


def test_no_such_model(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        build(tmp_path / "m.onnx")


def test_no_model_at_all():
    with pytest.raises(ModelFileError, match="the model has no outputs"):  # TensorRT takes the text for a model of nothing
        build(b"this is no model")
    with pytest.raises(ModelFileError, match="the model is empty"):
        build(b"")


@pytest.mark.parametrize("model", [None, 5, gs.Node("Relu")], ids=["None", "int", "Node"])
@pytest.mark.parametrize("call", [build, gs.trt.check, gs.trt.describe, gs.trt.prepare])
def test_things_that_are_no_models(call, model):
    with pytest.raises(gs.GraphError, match=r"is no (model|graph)"):
        call(model)


@pytest.mark.parametrize("place", [".", "no/such/folder/e.engine"])
def test_a_place_where_no_engine_can_be_is_said_before_the_build(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builder, "build_source", lambda *_: pytest.fail("it was built"))
    with pytest.raises(ModelFileError, match=r"cannot be written: (it is a folder|there is no folder 'no/such/folder')"):
        build(parse(ADD), place)


def test_a_place_where_no_timing_cache_can_be_is_said_before_the_build(tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "build_source", lambda *_: pytest.fail("it was built"))
    with pytest.raises(ModelFileError, match="there is no folder"):
        build(parse(ADD), timing_cache=tmp_path / "no" / "timing.cache")
    with pytest.raises(ModelFileError, match="cannot be read"):
        build(parse(ADD), timing_cache=tmp_path)


def test_a_file_that_is_no_timing_cache_stays_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    assert any("keeps no timings" in text for text in build(parse(ADD), timing_cache=path).report.warnings)
    assert path.read_text() == "notes"


def test_no_workspace_at_all_says_what_to_raise():
    with pytest.raises(TensorRTError) as raised:
        build(parse(ADD), workspace=0)
    assert raised.value.fix.startswith("raise workspace (it is 0 bytes)")


def test_what_is_no_allocator_and_no_progress():
    with pytest.raises(gs.GraphError, match="int is no allocator"):
        build(parse(ADD), gpu_allocator=3)
    with pytest.raises(gs.GraphError, match="progress is 3"):
        build(parse(ADD), progress=3)


def test_the_wrong_number_of_values_of_an_input_that_sets_shapes():
    model = parse("g (float[n,2] x, int64[2] s) => (float[a,b] y) { y = Reshape (x, s) }")
    with pytest.raises(GraphValueError, match="input 's' holds 2 values, but the range 2x2x2 has 3") as raised:
        build(model, shapes="x:2x2,s=2x2x2")
    assert raised.value.fix.endswith("s=1x1..4x4..8x8")
    with pytest.raises(GraphValueError, match="no range is given") as raised:
        build(model, shapes="x:2x2")
    assert raised.value.fix.endswith("s=1x1..4x4..8x8")


# -- isolation ------------------------------------------------------------------------------------------------


def test_an_isolated_build_gives_the_same_engine(tmp_path):
    events = []
    engine = build(parse(ADD), tmp_path / "m.engine", isolate=True, progress=lambda *event: events.append(event))
    assert bytes(engine) == bytes(build(parse(ADD)))
    assert engine.report.memory
    assert events
    assert names(tmp_path) == ["m.engine"]


def test_an_isolated_build_into_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be written"):
        build(parse(ADD), tmp_path / "no" / "m.engine", isolate=True)


def test_an_isolated_build_is_cancelled_like_any_other(tmp_path):
    with pytest.raises(TensorRTError, match="the build was cancelled"):
        build(parse(ADD), tmp_path / "m.engine", isolate=True, progress=lambda *_: False)
    assert not names(tmp_path)


def test_a_disk_that_is_full_for_an_isolated_build(tmp_path, monkeypatch):
    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelFileError) as raised:
        build(parse(ADD), tmp_path / "m.engine", isolate=True)
    assert raised.value.what == f"'{tmp_path / 'm.engine'}' cannot be written: No space left on device"
    assert not names(tmp_path)


def test_an_error_of_an_isolated_build_names_the_engine_that_was_asked_for(tmp_path, monkeypatch):
    child = """
import sys; from pathlib import Path; from onnx_gs.trt import isolation, builder
from onnx_gs.errors import ModelFileError
def build(model, engine, **_): raise ModelFileError(f"'{engine}' cannot be written: No space left on device")
builder.build = build
isolation.main(Path(sys.argv[1]))
"""
    monkeypatch.setattr(isolation, "command", lambda folder: [sys.executable, "-c", child, str(folder)])
    with pytest.raises(ModelFileError) as raised:
        build(parse(ADD), tmp_path / "m.engine", isolate=True)
    assert raised.value.what == f"'{tmp_path / 'm.engine'}' cannot be written: No space left on device"
    assert not names(tmp_path)


def test_an_isolated_build_passes_errors_on():
    with pytest.raises(TensorRTError, match="no importer for Det"):
        build(parse("g (float[2,2] x) => (float y) { y = Det (x) }"), isolate=True)


@pytest.mark.parametrize(
    ("number", "what", "fix"), [(9, "killed by the system, probably for lack of memory", "lower workspace"), (11, "crashed", "bisect")]
)
def test_a_child_that_dies_is_one_error(number, what, fix, tmp_path, monkeypatch):
    monkeypatch.setattr(isolation, "command", lambda _folder: [sys.executable, "-c", f"import os; os.kill(os.getpid(), {number})"])
    with pytest.raises(TensorRTError) as raised:
        build(parse(ADD), tmp_path / "m.engine", isolate=True)
    assert what in raised.value.what
    assert fix in raised.value.fix
    assert not names(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="kills by signals")
def test_a_child_ends_with_its_parent_and_leaves_nothing(tmp_path):
    onnx.save(gs.export_onnx(parse(ADD)), tmp_path / "m.onnx")
    code = f"""
import time
from onnx_gs.trt import build
build({str(tmp_path / "m.onnx")!r}, {str(tmp_path / "m.engine")!r}, isolate=True, progress=lambda *_: time.sleep(100))
"""
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".onnx_gs_*/engine*")) + list(tmp_path.glob(".onnx_gs_*/.engine*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(list(tmp_path.iterdir())) == 2, "the child has not begun"
        parent.kill()
    while len(names(tmp_path)) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert names(tmp_path) == ["m.onnx"]


# -- threads and memory ----------------------------------------------------------------------------------------


def test_builders_in_several_threads():
    def one(k):
        if k % 3 == 2:
            with pytest.raises(TensorRTError) as raised:
                build(parse("g (float[2,2] x) => (float y) { y = Det (x) }"))
            return raised.value.what
        return bytes(build(parse(LOOP if k % 3 else ADD)))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(one, range(12)))
    assert len({f for k, f in enumerate(found) if k % 3 == 0}) == 1
    assert all(f.startswith(b"vtrt") for k, f in enumerate(found) if k % 3 == 1)
    assert all("Det" in f for k, f in enumerate(found) if k % 3 == 2)


def test_interrupts_are_left_alone_outside_the_main_thread():
    seen = []

    def work():
        with session.interruptible() as interrupted:
            seen.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


@pytest.mark.slow
def test_two_hundred_builds_leak_nothing():
    good, bad = model(LOOP).SerializeToString(), model("g (float[2,2] x) => (float y) { y = Det (x) }").SerializeToString()

    def round_trip(count):
        for k in range(count):
            if k % 4 == 3:
                with pytest.raises(TensorRTError):
                    build(bad)
            else:
                build(good)

    def resident():
        return int(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))) / 1024

    round_trip(20)
    before, started = resident(), time.perf_counter()
    round_trip(200)
    grown = resident() - before
    print(f"200 builds: {time.perf_counter() - started:.1f} s, grown by {grown:.1f} MiB")
    assert grown < 30


@pytest.mark.slow
def test_networks_and_checks_leak_nothing():
    import gc

    from onnx_gs.trt import NetworkBuilder, check, describe

    graph = parse(LOOP)

    def resident():
        gc.collect()
        return int(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))) / 1024

    def round_trip(count):
        for _ in range(count):
            check(graph)
            describe(graph)
            NetworkBuilder.from_graph(graph).build()

    round_trip(10)
    before = resident()
    round_trip(60)
    grown = resident() - before
    print(f"60 of each: grown by {grown:.1f} MiB")
    assert grown < 3


def test_the_report_is_plain_data():
    import json

    assert json.loads(json.dumps(build(parse(ADD)).report.as_dict()))["library"].startswith("tensorrt_rtx")
    assert onnx.__version__
