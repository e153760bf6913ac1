"""How many models TensorRT builds as they are, and how many after ``prepare``.

    python benchmarks/prepare_and_build.py FOLDER... [--backend-tests DIR] [--cache FILE] [--verbose]

Each model is prepared, held against the original in ONNX Runtime, and built as it was and as it is. A model that built before and does not any more
is *lost*, one whose results differ is *wrong*; both make the status 1.
"""

from __future__ import annotations

import argparse
import collections
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import check_agreement
import in_children

BATCH = 20
TARGET = "rtx-1.7"


def prepared(path: str) -> dict[str, Any]:
    """Prepare one model, compare and build it."""
    import onnx_gs as gs
    from onnx_gs.evaluate.verify import verify
    from onnx_gs.trt import build, prepare

    try:
        graph = gs.load(path)
        before = graph.copy()
        ready = prepare(graph, TARGET).shared["readiness"].ready
    except gs.OnnxGsError as refused:
        return {"status": "not valid ONNX", "what": refused.what}
    result: dict[str, Any] = {"ready": ready, "results": "not run"}
    try:
        verdict = verify(before, graph, sets=2, absolute=1e-6, relative=1e-5)
        result["results"] = "same" if verdict.same and verdict.ran else "differ" if verdict.outputs else "not run"
        result["difference"] = str(verdict)
    except gs.OnnxGsError as refused:
        result["difference"] = refused.what
    try:
        build(graph, **check_agreement.profile_of(path))
        result["status"] = "ok"
    except gs.OnnxGsError as refused:
        result.update(status="refused", what=refused.what, where=refused.where)
    return result


def main() -> int:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--backend-tests", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("prepared_builds.json"))
    parser.add_argument("--observed", type=Path, default=Path("observed_builds.json"), help="the cache of check_agreement.py")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--child", nargs="+")
    options = parser.parse_args()
    if options.child:
        in_children.tell(options.child, prepared)
        return 0
    folders = list(options.folders)
    if options.backend_tests:
        if not options.backend_tests.exists():
            check_agreement.write_backend_tests(options.backend_tests)
        folders.append(options.backend_tests)
    bad = 0
    for folder in folders:
        paths = sorted(p for p in folder.glob("*.onnx") if ".fixed." not in p.name)
        observed, found = check_agreement.observe(paths, options.observed), in_children.results(__file__, paths, options.cache, batch=BATCH)
        counts: collections.Counter[str] = collections.Counter()
        for path in paths:
            was, now = observed[path.name]["status"] == "ok", found[path.name]
            is_now = now["status"] == "ok"
            counts["builds as it is"] += was
            counts["builds after prepare"] += is_now
            verdicts = [("lost", was and not is_now), ("wrong", now.get("results") == "differ"), ("crash", now["status"] == "crash")]
            for verdict, holds in verdicts:
                counts[verdict] += holds
                bad += holds
                if holds and options.verbose:
                    print(f"{verdict:<6} {path.name}: {now.get('what') or now.get('difference')}")
            counts["called ready, and does not build"] += bool(now.get("ready")) and not is_now
        print(f"{folder}: {len(paths)} models; " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
