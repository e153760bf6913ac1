"""A counting loop and a conditional in TensorRT's own layers, and what TensorRT makes of them."""

import numpy as np

import onnx_gs as gs


def counting_loop() -> gs.trt.NetworkBuilder:
    """Run ``for (i = j; trips < n; i += k)`` and give the last i and the sum of all."""
    net = gs.trt.NetworkBuilder()
    j, k, n = (net.input(name, "int64", ()) for name in ("j", "k", "n"))
    loop = net.loop("count")
    loop.count(n)
    i = loop.recurrence(j, "i")
    total = loop.recurrence(np.int64(0), "total")
    loop.next(i, net.op("Add", i, k))
    loop.next(total, net.op("Add", total, i))
    net.output(loop.last(i), "last")
    net.output(loop.last(total), "sum")
    return net


def conditional() -> gs.trt.NetworkBuilder:
    """Give ``softmax(x @ w)`` where asked for, else x; the product is made only when it is needed."""
    net = gs.trt.NetworkBuilder()
    x = net.input("x", "float32", (4, 4))
    choice = net.conditional(net.input("wanted", "bool", ()), "choose")
    product = net.op("MatMul", choice.input(x), np.eye(4, dtype=np.float32), name="product")
    net.output(choice.output(net.op("Softmax", product, name="softmax"), x), "y")
    return net


if gs.trt.installed() is None:
    print("TensorRT is not installed: pip install 'onnx_gs[tensorrt-rtx]'")
else:
    for make in (counting_loop, conditional):
        net = make()
        print(net.describe())
        print(f"engine: {net.build().size} bytes")
