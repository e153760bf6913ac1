"""Export a loop with a branch in it: add up the even numbers of a tensor, one after the other.

Run ``python examples/models/make_sum_even.py`` with ``torch`` and ``onnx`` installed to write ``sum_even.onnx`` beside this file.
Scripting keeps Python's ``for`` and ``if``: the exporter writes a ``Loop`` with an ``If`` inside, and the number of items stays open.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import Tensor, nn


class SumEven(nn.Module):
    """Add up what is even, and keep every partial sum."""

    def forward(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Give the sum, and the sums on the way, of a vector of whole numbers."""
        total = torch.zeros(1, dtype=torch.float32)
        sums = torch.zeros(0, dtype=torch.float32)
        for item in items:
            if bool(item % 2 == 0):
                total = total + item
            sums = torch.cat([sums, total])
        return total, sums


def main() -> None:
    """Export, check and write the model."""
    path = Path(__file__).with_name("sum_even.onnx")
    items = torch.tensor([1.0, 2, 3, 4, 6])
    torch.onnx.export(
        torch.jit.script(SumEven()), (items,), str(path), input_names=["items"], output_names=["total", "sums"],
        dynamic_axes={"items": {0: "count"}, "sums": {0: "count"}}, opset_version=17, dynamo=False,
    )  # fmt: skip
    onnx.checker.check_model(onnx.load(path), full_check=True)


if __name__ == "__main__":
    main()
