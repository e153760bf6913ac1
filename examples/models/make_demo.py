"""Export the demo model: a small keyword spotter with shape arithmetic, an ``If`` that shapes decide and a ``Loop`` over chunks of time.

Run ``python examples/models/make_demo.py`` with ``torch`` and ``onnx`` installed to write ``keyword_spotter.onnx`` beside this file.
The weights are random, with a fixed seed: what matters here is the graph that a real exporter makes of ordinary model code.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import Tensor, nn


class Recurrence(nn.Module):
    """Summarize chunks of frames one after the other; exported as a ``Loop``."""

    def __init__(self, channels: int, state: int, chunk: int) -> None:
        super().__init__()
        self.state, self.chunk = state, chunk
        self.read = nn.Linear(channels * chunk, state)
        self.keep = nn.Linear(state, state, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Give the last state, ``[batch, state]``, of ``x``, ``[batch, channels, frames]``."""
        chunks = x.size(2) // self.chunk
        rows = x.reshape(x.size(0), x.size(1), chunks, self.chunk).permute(2, 0, 1, 3)
        state = torch.zeros([x.size(0), self.state], dtype=x.dtype)
        for k in range(chunks):
            state = torch.tanh(self.read(rows[k].reshape(x.size(0), -1)) + self.keep(state))
        return state


class KeywordSpotter(nn.Module):
    """Say which of ten words a second of log-mel features holds."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(40, 32, 3, padding=1)
        self.norm = nn.BatchNorm1d(32)
        self.mix = nn.Conv1d(32, 32, 5, padding=2, groups=32)
        self.fewer_frames = nn.AvgPool1d(2)
        self.recurrence = Recurrence(32, 48, 8)
        self.words = nn.Linear(48, 10)

    def forward(self, features: Tensor) -> Tensor:
        """Give the score of each word, ``[batch, 10]``, from ``[batch, bands, frames]``."""
        if features.size(2) > 48:  # a front end with a shorter hop than the network was trained for
            features = self.fewer_frames(features)
        x = torch.relu(self.norm(self.stem(features)))
        groups = x.view(x.size(0), 4, x.size(1) // 4, x.size(2))
        x = x + groups.mean(dim=1, keepdim=True).expand(-1, 4, -1, -1).reshape(x.size(0), x.size(1), x.size(2))
        x = torch.relu(self.mix(x))
        return torch.softmax(self.words(self.recurrence(x)), dim=1)


def main() -> None:
    """Export, check and write the model."""
    torch.manual_seed(7)
    path = Path(__file__).with_name("keyword_spotter.onnx")
    model = torch.jit.script(KeywordSpotter().eval())
    names = {"input_names": ["features"], "output_names": ["scores"]}
    axes = {"features": {0: "batch"}, "scores": {0: "batch"}}
    torch.onnx.export(model, (torch.zeros(2, 40, 48),), str(path), **names, opset_version=17, dynamic_axes=axes, dynamo=False)
    onnx.checker.check_model(str(path), full_check=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
