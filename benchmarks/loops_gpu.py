"""How much faster loops run when they are lowered, and when the lowered model is captured in a CUDA graph.

    python benchmarks/loops_gpu.py [--models FOLDER] [--trips 16 64 256] [--runs 100] [--json FILE]

Each row is one model: an RNN loop (``MatMul`` 256×256, ``Add``, ``Tanh``, batch 8) of so many trips, and, from ``--models``, the scripted
PyTorch exports ``gru_loop_ts``, ``lstm_loop_ts``, ``greedy_decode_ts`` and ``while_norm_ts`` (which may end early: unrolled behind masks).
Columns: milliseconds of a run in ONNX Runtime with the loop kept, lowered by this package, and lowered in a CUDA graph, which a model with
control flow cannot be captured in. Outputs are compared bit by bit.

With ``onnxruntime-gpu`` and a GPU it runs on CUDA, inputs and outputs on the device. Without, it runs on the CPU, says so, and leaves the CUDA
graph out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

import onnx_gs as gs
from onnx_gs.passes.lower_control_flow import LowerControlFlow
from onnx_gs.passes.simplify import Simplify

#: Scripted models: the statement about the input that decides the trip count, and the input's shape.
SCRIPTED: dict[str, tuple[dict[str, int], dict[str, tuple[int, ...]]]] = {
    "while_norm_ts": ({}, {"x": (4, 4)}),
    "gru_loop_ts": ({"t": 64}, {"x": (64, 2, 16)}),
    "lstm_loop_ts": ({"t": 64}, {"x": (64, 2, 16)}),
    "greedy_decode_ts": ({}, {"h": (1, 32)}),
}
_CONTROL_FLOW = {"If", "Loop", "Scan"}


@dataclass
class Row:
    """One line of the table; times in milliseconds, None where it could not be measured."""

    model: str
    kept: float | None = None
    lowered: float | None = None
    captured: float | None = None
    nodes: int = 0
    left: str = ""
    equal: bool = False
    note: str = ""


def rnn(trips: int) -> gs.Graph:
    """Make an RNN loop: ``h = tanh(h · w + b)`` so many times, on a batch of 8 states of 256."""
    rng = np.random.default_rng(trips)
    w = gs.Constant("w", (rng.standard_normal((256, 256)) / 16).astype(np.float32))
    b = gs.Constant("b", rng.standard_normal(256).astype(np.float32))
    x, y = gs.Variable("x", np.float32, [8, 256]), gs.Variable("y", np.float32, [8, 256])
    number, going, state = gs.Variable("number", np.int64, []), gs.Variable("going", np.bool_, []), gs.Variable("state", np.float32, [8, 256])
    go_on, p, q, after = gs.Variable("go_on", np.bool_, []), gs.Variable("p"), gs.Variable("q"), gs.Variable("after", np.float32, [8, 256])
    nodes = [
        gs.Node("Identity", inputs=[going], outputs=[go_on]),
        gs.Node("MatMul", inputs=[state, w], outputs=[p]),
        gs.Node("Add", inputs=[p, b], outputs=[q]),
        gs.Node("Tanh", inputs=[q], outputs=[after]),
    ]
    body = gs.Graph(nodes, [number, going, state], [go_on, after], name="step", opset=17, ir_version=10)
    given = [gs.Constant("trips", np.array(trips)), gs.Constant("true", np.array(True)), x]
    return gs.Graph([gs.Node("Loop", "steps", {"body": body}, given, [y])], [x], [y], name="rnn", opset=17, ir_version=10)


def lower(graph: gs.Graph, bind: dict[str, int]) -> tuple[gs.Graph, str]:
    """Lower a copy of a graph as far as it goes; give it, and what is left."""
    made = graph.copy()
    LowerControlFlow(max_nodes=100_000, bind=bind, mask=True)(made)
    Simplify()(made)
    left = sorted(node.op for part in (made, *made.subgraphs(recursive=True)) for node in part.nodes if node.op in _CONTROL_FLOW)
    return made, ", ".join(left)


class Session:
    """A model in ONNX Runtime with inputs and outputs where the provider wants them."""

    def __init__(self, graph: gs.Graph, feeds: dict[str, np.ndarray[Any, Any]], *, cuda: bool, capture: bool = False) -> None:
        """Load a graph; with ``capture`` its runs become one CUDA graph."""
        options = ort.SessionOptions()
        options.log_severity_level = 3
        provider: Any = ("CUDAExecutionProvider", {"enable_cuda_graph": "1" if capture else "0", "use_tf32": "0"}) if cuda else "CPUExecutionProvider"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            gs.save(graph, path)
            self.session = ort.InferenceSession(str(path), options, providers=[provider, "CPUExecutionProvider"] if cuda else [provider])
        device = "cuda" if cuda else "cpu"
        self.binding = self.session.io_binding()
        self.kept = [ort.OrtValue.ortvalue_from_numpy(value, device, 0) for value in feeds.values()]
        for name, value in zip(feeds, self.kept):
            self.binding.bind_ortvalue_input(name, value)
        self.results: list[Any] = []
        if capture:  # a captured run writes to the very addresses of its capture
            expected = Session(graph, feeds, cuda=cuda).run()
            for output, value in zip(self.session.get_outputs(), expected):
                self.results.append(ort.OrtValue.ortvalue_from_numpy(np.zeros_like(value), device, 0))
                self.binding.bind_ortvalue_output(output.name, self.results[-1])
        else:
            for output in self.session.get_outputs():
                self.binding.bind_output(output.name, device, 0)

    def run(self) -> list[np.ndarray[Any, Any]]:
        """Run once and give the outputs."""
        self.step()
        return [value.numpy() for value in self.results] if self.results else self.binding.copy_outputs_to_cpu()

    def step(self) -> None:
        """Run once and wait for the device."""
        self.session.run_with_iobinding(self.binding)
        self.binding.synchronize_outputs()

    def milliseconds(self, runs: int) -> float:
        """Give the median time of a run, after some to warm up."""
        for _ in range(max(3, runs // 10)):
            self.step()
        times = []
        for _ in range(runs):
            started = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - started)
        return statistics.median(times) * 1e3


def same(a: list[np.ndarray[Any, Any]], b: list[np.ndarray[Any, Any]]) -> bool:
    """Compare outputs bit for bit."""
    return len(a) == len(b) and all(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(a, b))


def measure(name: str, graph: gs.Graph, bind: dict[str, int], shapes: dict[str, tuple[int, ...]], runs: int, *, cuda: bool) -> Row:
    """Measure one model in its three forms."""
    rng = np.random.default_rng(5)
    feeds = {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
    lowered, left = lower(graph, bind)
    row = Row(name, nodes=len(lowered.nodes), left=left)
    kept = Session(graph, feeds, cuda=cuda)
    expected = kept.run()
    row.kept = kept.milliseconds(runs)
    session = Session(lowered, feeds, cuda=cuda)
    row.equal = same(expected, session.run())
    row.lowered = session.milliseconds(runs)
    if not cuda:
        row.note = "CPU: no CUDA graph"
    elif left:
        row.note = f"no CUDA graph with {left}"
    else:
        try:
            captured = Session(lowered, feeds, cuda=True, capture=True)
            captured.run()
            row.equal = row.equal and same(expected, captured.run())
            row.captured = captured.milliseconds(runs)
        except Exception as error:  # what the provider raises is its own; the row says it
            row.note = f"no CUDA graph: {str(error).splitlines()[0][:100]}"
    return row


def device_name(*, cuda: bool) -> str:
    """Name the GPU, or say that there is none."""
    tool = shutil.which("nvidia-smi") if cuda else None
    if tool is None:
        return "CPU"
    said = subprocess.run([tool, "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return said.stdout.splitlines()[0].strip() if said.stdout else "a GPU"


def table(rows: list[Row], device: str) -> str:
    """Give the rows as a Markdown table."""

    def cell(value: float | None, base: float | None) -> str:
        if value is None:
            return "–"
        return f"{value:.3f}" + (f" ({base / value:.1f} ×)" if base and value is not base else "")

    lines = [
        f"ONNX Runtime {ort.__version__} on {device}; milliseconds a run, median; in brackets how many times faster than kept.\n",
        "| model | kept | lowered | lowered, CUDA graph | nodes | bit-equal | |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for r in rows:
        cells = [cell(r.kept, None), cell(r.lowered, r.kept), cell(r.captured, r.kept), str(r.nodes), "yes" if r.equal else "NO", r.note]
        lines.append(f"| {r.model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; status 1 where outputs differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", type=Path, help="folder with the scripted exports")
    parser.add_argument("--trips", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    given = parser.parse_args()
    cuda = "CUDAExecutionProvider" in ort.get_available_providers() and shutil.which("nvidia-smi") is not None
    if not cuda:
        print("No CUDA here: times are of the CPU, and there is no CUDA graph. Install onnxruntime-gpu on a machine with a GPU for the real table.\n")
    rows = [measure(f"RNN, {n} trips", rnn(n), {}, {"x": (8, 256)}, given.runs, cuda=cuda) for n in given.trips]
    for name, (bind, shapes) in SCRIPTED.items() if given.models else ():
        path = given.models / f"{name}.onnx"
        if path.exists():
            rows.append(measure(name, gs.load(path), bind, shapes, given.runs, cuda=cuda))
        else:
            print(f"{path} is not there")
    print(table(rows, device_name(cuda=cuda)))
    if given.json:
        given.json.write_text(json.dumps({"device": device_name(cuda=cuda), "rows": [asdict(r) for r in rows]}, indent=1))
    return 0 if all(r.equal for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
