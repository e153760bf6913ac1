"""Tables that stand for schemas say what the schemas of the installed ``onnx`` say."""

import onnx.defs

from onnx_gs.io.plain_ops import PLAIN
from onnx_gs.ops.since import SINCE
from onnx_gs.ops.traits import ALL_REQUIRED_OUTPUTS, ONE_REQUIRED_OUTPUT, OUTPUTS_SINCE

KINDS = onnx.defs.OpSchema.AttrType
HELD = {KINDS.GRAPH, KINDS.GRAPHS, KINDS.TENSOR, KINDS.TENSORS, KINDS.SPARSE_TENSOR, KINDS.SPARSE_TENSORS}
SCHEMAS = [s for s in onnx.defs.get_all_schemas_with_history() if not s.domain]


def test_plain_operators_hold_no_graph_and_no_weight():
    holding = {s.name for s in SCHEMAS if any(a.type in HELD for a in s.attributes.values())}
    assert not holding & PLAIN
    assert {s.name for s in SCHEMAS} <= holding | PLAIN, "operators that are new: add them to plain_ops.py"


def test_versions_that_operators_came_with():
    found = {}
    for s in SCHEMAS:
        found[s.name] = min(s.since_version, found.get(s.name, s.since_version))
    assert found.items() <= SINCE.items(), "operators that are new: add them to since.py"
    newest = onnx.defs.onnx_opset_version()
    assert {op for op, since in SINCE.items() if since <= newest} <= set(found)


def test_outputs_that_may_be_left_out():
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    found = {}
    for s in SCHEMAS:
        found.setdefault(s.name, []).append(s)
    for s in SCHEMAS:
        if s.since_version < OUTPUTS_SINCE and any(s.since_version < other.since_version <= OUTPUTS_SINCE for other in found[s.name]):
            continue
        later = [o.option for o in s.outputs[1:]]
        if s.name in ONE_REQUIRED_OUTPUT:
            assert all(option == optional for option in later), s.name
        elif s.name in ALL_REQUIRED_OUTPUTS:
            assert all(option == single for option in later), s.name
            assert later or s.outputs[0].option != optional, s.name
