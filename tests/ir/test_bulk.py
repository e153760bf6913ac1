import gc

import pytest

from onnx_gs.ir import bulk


@pytest.fixture
def young(monkeypatch):
    """A process that has built nothing yet, and spares the collector once."""
    monkeypatch.setattr(bulk, "_spared", 0)
    monkeypatch.setattr(bulk, "SPARED", 1)


def build():
    with bulk.collector_paused():
        assert not gc.isenabled()
        with bulk.collector_paused():
            made = [[] for _ in range(20 * gc.get_threshold()[0])]
        assert not gc.isenabled()
    assert gc.isenabled()
    return made


def rounds():
    return sum(generation["collections"] for generation in gc.get_stats())


def test_what_is_built_first_is_not_looked_through(young):
    gc.collect()
    before = rounds()
    _kept = build()
    assert rounds() == before
    _more = build()
    assert rounds() > before


def test_what_callers_froze_stays_frozen(young):
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        assert frozen
        build()
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
