"""What scripts rely on: what scripts import, errors, and the logger."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import onnx
import pytest

import onnx_gs as gs
from tests.support.reference_names import module

MODULES = {
    "ir.tensor": "Tensor Variable Constant LazyValues SparseValues",
    "ir.node": "Node",
    "ir.graph": "Graph Node Constant Tensor Variable",
    "ir.function": "Function",
    "importers.onnx_importer": (
        "OnnxImporter import_onnx get_onnx_tensor_shape get_onnx_tensor_dtype get_onnx_tensor_type get_numpy_type get_itemsize get_dtype_name"
    ),
    "exporters.onnx_exporter": "OnnxExporter export_onnx constant_to_onnx_tensor dtype_to_onnx update_import_domains check_duplicate_node_names",
    "importers.base_importer": "BaseImporter",
    "exporters.base_exporter": "BaseExporter",
    "graph_pattern": "GraphPattern PatternMapping",
    "logger": "G_LOGGER LogMode",
    "util.misc": (
        "SynchronizedList default_value combine_dicts volume is_dynamic_dimension is_dynamic_shape convert_from_onnx_attr_type"
        " convert_to_onnx_attr_type"
    ),
    "util.exception": "OnnxGraphSurgeonException",
}


@pytest.mark.parametrize("path", list(MODULES))
def test_every_name_can_be_imported(path: str) -> None:
    for name in MODULES[path].split():
        assert hasattr(module(path), name), name


@pytest.mark.parametrize("name", ["import_onnx", "Graph", "Node", "Tensor", "Variable", "Constant", "Function", "GraphPattern", "PatternMapping"])
def test_the_top_level_has_the_same_objects(name: str) -> None:
    assert getattr(module(), name) is getattr(gs, name)


def test_scripts_may_replace_how_the_exporter_writes_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    top = module()
    exporter = top.exporters.onnx_exporter.OnnxExporter

    def weight(tensor: Any) -> Any:
        return onnx.helper.make_tensor(tensor.name, tensor.explicit_dtype, tensor.shape, tensor.values.tobytes(), raw=True)

    def value(tensor: Any, do_type_check: bool) -> Any:
        return onnx.helper.make_tensor_value_info(tensor.name, getattr(tensor, "explicit_dtype", onnx.TensorProto.FLOAT), tensor.shape)

    c, y = gs.Constant("c", np.zeros(2, np.uint8)), gs.Variable("y", np.float32, (2,))
    c.explicit_dtype = y.explicit_dtype = onnx.TensorProto.FLOAT8E4M3FN  # type: ignore[attr-defined]
    graph = gs.Graph([gs.Node("Identity", inputs=[c], outputs=[y])], outputs=[y], opset=19)
    assert top.export_onnx(graph).graph.initializer[0].data_type == onnx.TensorProto.UINT8
    monkeypatch.setattr(exporter, "export_tensor_proto", staticmethod(weight))
    monkeypatch.setattr(exporter, "export_value_info_proto", staticmethod(value))
    model = top.export_onnx(graph)
    assert model.graph.initializer[0].data_type == onnx.TensorProto.FLOAT8E4M3FN
    assert model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT8E4M3FN
    assert onnx.numpy_helper.to_array(model.graph.initializer[0]).shape == (2,)


def test_subpackages_are_attributes() -> None:
    top = module()
    for name in ("exporters", "graph_pattern", "importers", "ir", "logger", "util"):
        assert hasattr(top, name)
    assert top.ir.tensor.Variable is gs.Variable
    assert tuple(map(int, top.__version__.split(".")[:3])) >= (0, 5, 0)


def test_there_is_one_exception_class() -> None:
    assert issubclass(gs.OnnxGraphSurgeonException, Exception)
    assert module("util.exception").OnnxGraphSurgeonException is gs.OnnxGraphSurgeonException
    with pytest.raises(gs.OnnxGraphSurgeonException):
        gs.logger.G_LOGGER.critical("broken")


def test_base_classes_are_abstract() -> None:
    with pytest.raises(NotImplementedError):
        module("importers.base_importer").BaseImporter.import_graph(None)
    with pytest.raises(NotImplementedError):
        module("exporters.base_exporter").BaseExporter.export_graph(None)


def test_default_value_replaces_none_only() -> None:
    misc = module("util.misc")
    assert misc.default_value(None, 3) == 3
    assert misc.default_value(0, 3) == 0
    assert misc.default_value([], 3) == []


def test_combine_dicts_lets_the_second_win() -> None:
    first, second = OrderedDict(a=1, b=2), OrderedDict(b=3, c=4)
    found = module("util.misc").combine_dicts(first, second)
    assert found == OrderedDict(a=1, b=3, c=4)
    assert isinstance(found, OrderedDict)
    assert first == OrderedDict(a=1, b=2)


@pytest.mark.parametrize(("dim", "dynamic"), [("x", True), ("", True), (None, True), (-1, True), (0, False), (5, False), (np.int64(5), False)])
def test_dynamic_dimensions(dim: Any, dynamic: bool) -> None:
    misc = module("util.misc")
    assert misc.is_dynamic_dimension(dim) is dynamic
    assert misc.is_dynamic_shape((1, dim)) is dynamic


@pytest.mark.parametrize(("shape", "volume"), [((), 1), ((1, 3), 3), ((0, 4), 0), ([2, 3, 4], 24)])
def test_volume(shape: Any, volume: int) -> None:
    assert module("util.misc").volume(shape) == volume


def test_dtype_to_onnx() -> None:
    convert = module("exporters.onnx_exporter").dtype_to_onnx
    assert convert(onnx.TensorProto.BFLOAT16) == onnx.TensorProto.BFLOAT16
    assert convert(np.float32) == onnx.TensorProto.FLOAT
    assert convert(np.dtype("int64")) == onnx.TensorProto.INT64
    import ml_dtypes

    assert convert(ml_dtypes.bfloat16) == onnx.TensorProto.BFLOAT16


def test_attribute_types_convert_both_ways() -> None:
    misc = module("util.misc")
    kinds = onnx.AttributeProto
    for number in (kinds.FLOAT, kinds.INT, kinds.STRING, kinds.TENSOR, kinds.GRAPH, kinds.FLOATS, kinds.INTS, kinds.STRINGS):
        assert misc.convert_to_onnx_attr_type(misc.convert_from_onnx_attr_type(number)) == number
    assert misc.convert_from_onnx_attr_type(kinds.FLOAT) is float
    assert misc.convert_from_onnx_attr_type(kinds.TENSOR) is gs.Tensor
    assert misc.convert_to_onnx_attr_type(np.float64) == kinds.FLOAT
    assert misc.convert_to_onnx_attr_type(np.int64) == kinds.INT


# -- the logger -----------------------------------------------------------------------------------


@pytest.fixture
def log() -> Any:
    import logging

    logger = type(gs.logger.G_LOGGER)()
    target = logging.getLogger("onnx_gs")
    before = target.level, target.propagate, list(target.handlers)
    yield logger
    target.setLevel(before[0])
    target.propagate = before[1]
    target.handlers[:] = before[2]


def test_levels() -> None:
    log = gs.logger.G_LOGGER
    names = ("ULTRA_VERBOSE", "VERBOSE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    assert [getattr(log, name) for name in names] == [-10, 0, 10, 20, 30, 40, 50]
    assert int(module("logger").LogMode.EACH) == 0
    assert int(module("logger").LogMode.ONCE) == 1


def test_messages_go_to_standard_output_by_level(log: Any, capsys: pytest.CaptureFixture[str]) -> None:
    log.severity = log.INFO
    log.verbose("hidden")
    log.debug("hidden")
    log.info("shown")
    log.warning(lambda: "made when shown")
    log.debug(lambda: pytest.fail("evaluated although hidden"))
    assert [line[4:] for line in capsys.readouterr().out.splitlines()] == ["shown", "made when shown"]
    log.severity = log.ULTRA_VERBOSE
    log.ultra_verbose("now")
    assert "now" in capsys.readouterr().out


def test_once_shows_equal_messages_once(log: Any, capsys: pytest.CaptureFixture[str]) -> None:
    mode = module("logger").LogMode
    log.severity = log.INFO
    for _ in range(3):
        log.info("same", mode=mode.ONCE)
    assert capsys.readouterr().out.count("same") == 1


def test_suppress_and_indent(log: Any, capsys: pytest.CaptureFixture[str]) -> None:
    log.severity = log.INFO
    with log.suppress():
        log.error("hidden")
    with log.indent(2):
        log.info("inner")
    with log.suppress(log.ERROR):
        log.warning("hidden")
        log.error("an error")
    out = capsys.readouterr().out
    assert "hidden" not in out
    assert "\t\tinner" in out
    assert "an error" in out
    assert log.severity == log.INFO


def test_callbacks_hear_the_level(log: Any) -> None:
    heard: list[int] = []
    log.register_callback(heard.append)
    log.severity = log.DEBUG
    assert heard == [log.INFO, log.DEBUG]


def test_fields_that_tools_set(log: Any) -> None:
    for name in ("colors", "letter", "timestamp", "line_info"):
        setattr(log, name, True)
        assert getattr(log, name) is True
    log.log("message", log.INFO, module("logger").LogMode.EACH, 2)
