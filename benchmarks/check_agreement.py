"""How well ``check`` agrees with TensorRT's own builder.

    python benchmarks/check_agreement.py FOLDER... [--backend-tests DIR] [--static] [--cache FILE] [--verbose]

Every ``.onnx`` file of the folders is built by the installed TensorRT, in a child process, with the sizes 1, 4 and 8 for dynamic dims (or what
``MODEL.profile.json`` says), and checked. The table counts where the two agree, and what ``check`` says wrongly: *false ready* (the builder
refuses it) and *false blocker* (the builder takes it). ``--backend-tests`` writes the ONNX backend tests' models into a folder first.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import in_children

BATCH = 40
#: Operators whose integer inputs are sizes or bounds.
SIZED = {"Reshape", "Expand", "Slice", "Split", "Pad", "Tile", "Resize"}
#: What the static table is compared for: the library that was measured.
TARGET = "rtx-1.7"


def write_backend_tests(folder: Path) -> None:
    """Write the models of the ONNX backend tests."""
    import shutil

    import onnx.backend.test
    import onnx.numpy_helper
    from onnx.backend.test.case.node import collect_testcases

    folder.mkdir(parents=True, exist_ok=True)
    for case in collect_testcases(None):
        path = folder / f"{case.name}.onnx"
        path.write_bytes(case.model.SerializeToString())
        write_values(path, case.model, next(iter(case.data_sets), ([], []))[0])
    data = Path(onnx.backend.test.__file__).parent / "data"
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for model in sorted((data / kind).glob("*/model.onnx")):
            shutil.copy(model, folder / f"{model.parent.name}.onnx")
            stored = sorted((model.parent / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
            inputs = [onnx.numpy_helper.to_array(onnx.TensorProto.FromString(p.read_bytes())) for p in stored if p.stat().st_size < 1 << 20]
            write_values(folder / f"{model.parent.name}.onnx", onnx.load(model), inputs)


def write_values(path: Path, model: Any, inputs: list[Any]) -> None:
    """Write the test's own integer inputs beside its model, where they are sizes or bounds that no other values fit.

    Not for axes: with a range of one value the builder takes an axis as a constant, which is not what the model says.
    """
    if not any(node.op_type in SIZED for node in model.graph.node):
        return
    known = {}
    for info, value in zip(model.graph.input, inputs):
        if getattr(value, "dtype", None) in ("int32", "int64") and value.ndim <= 1 and 0 < value.size <= 16:
            numbers = value.reshape(-1).tolist()
            known[info.name] = {"values": {"min": numbers, "opt": numbers, "max": numbers}}
    if known:
        Path(f"{path}.profile.json").write_text(json.dumps(known))


def observe(paths: list[Path], cache: Path) -> dict[str, dict[str, Any]]:
    """Build every model that the cache does not know, and give what happened."""
    return in_children.results(__file__, paths, cache, batch=BATCH)


def built(path: str) -> dict[str, Any]:
    """Build one model."""
    from onnx_gs.errors import OnnxGsError
    from onnx_gs.trt import build

    try:
        build(path, **profile_of(path))
    except OnnxGsError as refused:
        return {"status": "refused", "what": refused.what, "where": refused.where}
    return {"status": "ok"}


def profile_of(path: str) -> dict[str, Any]:
    """Read the ranges that a probe asks for."""
    side = Path(path + ".profile.json")
    if not side.exists():
        return {}
    from onnx_gs.trt import ShapeRange

    shapes = {}
    for name, given in json.loads(side.read_text()).items():
        values = given.get("values", given)
        shapes[name] = ShapeRange.of(values["min"], values["opt"], values["max"], is_values="values" in given)
    return {"shapes": shapes}


def main() -> int:
    """Compare, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--backend-tests", type=Path)
    parser.add_argument("--static", action="store_true", help="compare the static table alone")
    parser.add_argument("--cache", type=Path, default=Path("observed_builds.json"))
    parser.add_argument("--observe-only", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--child", nargs="+")
    options = parser.parse_args()
    if options.child:
        in_children.tell(options.child, built)
        return 0
    folders = list(options.folders)
    if options.backend_tests:
        if not options.backend_tests.exists():
            write_backend_tests(options.backend_tests)
        folders.append(options.backend_tests)
    paths = [p for folder in folders for p in sorted(folder.glob("*.onnx"))]
    observed = observe(paths, options.cache)
    if options.observe_only:
        print(collections.Counter(observed[p.name]["status"] for p in paths))
        return 0
    return compare(paths, observed, static=options.static, verbose=options.verbose)


def compare(paths: list[Path], observed: dict[str, dict[str, Any]], *, static: bool, verbose: bool) -> int:
    """Check every model, and count where the verdicts differ."""
    import onnx_gs as gs
    from onnx_gs.errors import OnnxGsError
    from onnx_gs.trt import check

    counts: collections.Counter[str] = collections.Counter()
    unnamed, slowest = 0, (0.0, "")
    for path in paths:
        builds = observed[path.name]["status"] == "ok"
        started = time.perf_counter()
        try:
            found = check(gs.load(path), TARGET if static else None, static=static, **({} if static else profile_of(str(path))))
        except OnnxGsError as wrong:
            counts["not valid ONNX"] += 1
            if verbose:
                print(f"invalid        {path.name}: {wrong.what} (builder: {observed[path.name]['status']})")
            continue
        slowest = max(slowest, (time.perf_counter() - started, path.name))
        verdict = "agree" if found.ready == builds else "false ready" if found.ready else "false blocker"
        counts[verdict] += 1
        unnamed += sum(b.id == "refused" for b in found.blockers)
        if verbose and verdict != "agree":
            said = observed[path.name].get("what", "") if found.ready else "; ".join(f"{b.id}: {b.reason} at {b.path}" for b in found.blockers[:2])
            print(f"{verdict:<14} {path.name}: {said}")
    builds = sum(observed[p.name]["status"] == "ok" for p in paths)
    print(f"{len(paths)} models, {builds} build; {dict(counts)}; blockers without a row: {unnamed}; slowest {slowest[0]:.2f} s ({slowest[1]})")
    if builds:
        print(
            f"false ready {counts['false ready']}, false blockers {counts['false blocker']} ({counts['false blocker'] / builds:.2%} of what builds)"
        )
    return int(counts["false ready"] > 0)


if __name__ == "__main__":
    sys.exit(main())
