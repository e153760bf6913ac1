import gc
import os
import pickle
import threading

import numpy as np
import pytest

from onnx_gs.errors import ModelFileError
from onnx_gs.io import regions
from onnx_gs.io.regions import Region, SourceFile

CONTENT = np.arange(5000, dtype=np.uint8).tobytes()


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "w.bin"
    found.write_bytes(CONTENT)
    return found


def private_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def test_view_and_read_give_the_bytes(path):
    region = Region(SourceFile.of(path), 100, 300)
    assert region.view().tobytes() == region.read() == CONTENT[100:400]
    assert region.read(10, 5) == CONTENT[110:115]
    assert not region.view().flags.writeable


def test_view_is_a_map(tmp_path):
    path = tmp_path / "big.bin"
    with open(path, "wb") as file:
        file.truncate(256 << 20)
    region = Region(SourceFile.of(path), 1, (256 << 20) - 1)
    before = private_kib()
    assert int(region.view().max()) == 0
    assert private_kib() - before < 8 << 10


def test_views_share_one_map_and_outlive_the_file_object(path, monkeypatch):
    monkeypatch.setattr(regions, "COPIED_FILE", 0)
    gc.collect()  # graphs of other tests that nobody holds may still have files mapped, and so many are allowed
    file = SourceFile.of(path)
    views = [Region(file, i, 1).view() for i in range(100)]
    maps = {id(v.base.obj if isinstance(v.base, memoryview) else v.base) for v in views}
    assert len(maps) == 1
    del file
    gc.collect()
    os.unlink(path)
    assert b"".join(v.tobytes() for v in views) == CONTENT[:100]


@pytest.mark.parametrize(("offset", "length"), [(-1, 2), (0, 5001), (5001, 0), (4999, 2), (1 << 62, 1 << 62), (0, -1)])
def test_ranges_outside_the_file_are_refused(path, offset, length):
    with pytest.raises(ModelFileError, match="do not lie within the 5000 bytes"):
        Region(SourceFile.of(path), offset, length)


def test_ranges_outside_the_region_are_refused(path):
    with pytest.raises(ModelFileError, match="do not lie within a range of 10"):
        Region(SourceFile.of(path), 0, 10).read(5, 6)


def test_empty_region(path):
    region = Region(SourceFile.of(path), 5000, 0)
    assert region.view().size == 0
    assert region.read() == b""


def test_copy_to(path, tmp_path):
    region = Region(SourceFile.of(path), 7, 4000)
    with open(tmp_path / "out", "wb", buffering=0) as out:
        out.write(b"start")
        region.copy_to(out.fileno())
        region.copy_to(out.fileno())
    assert (tmp_path / "out").read_bytes() == b"start" + CONTENT[7:4007] * 2


@pytest.mark.parametrize("missing", [["copy_file_range"], ["copy_file_range", "sendfile"]])
def test_copy_to_without_help_of_the_kernel(path, tmp_path, monkeypatch, missing):
    for name in missing:
        monkeypatch.delattr(os, name)
    with open(tmp_path / "out", "wb", buffering=0) as out:
        Region(SourceFile.of(path), 7, 4000).copy_to(out.fileno())
    assert (tmp_path / "out").read_bytes() == CONTENT[7:4007]


def test_copy_to_where_the_kernel_refuses(path, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(18, "cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    monkeypatch.setattr(os, "sendfile", refuse)
    with open(tmp_path / "out", "wb", buffering=0) as out:
        Region(SourceFile.of(path), 7, 4000).copy_to(out.fileno())
    assert (tmp_path / "out").read_bytes() == CONTENT[7:4007]


def test_one_object_a_file(path):
    assert SourceFile.of(path) is SourceFile.of(os.path.join(path.parent, ".", path.name))


def test_replaced_file_is_read_on_from_its_descriptor(path):
    region = Region(SourceFile.of(path, pinned=True), 0, 10)
    other = path.with_name("other")
    other.write_bytes(b"x" * 5000)
    os.replace(other, path)
    assert region.read() == CONTENT[:10]
    assert Region(SourceFile.of(path), 0, 10).read() == b"x" * 10


def test_descriptors_are_bounded_and_files_are_opened_again(tmp_path, monkeypatch):
    monkeypatch.setattr(regions, "OPEN_FILES", 4)
    before = len(os.listdir("/proc/self/fd"))
    files = []
    for i in range(50):
        path = tmp_path / str(i)
        path.write_bytes(bytes([i]))
        files.append(SourceFile.of(path))
    assert len(os.listdir("/proc/self/fd")) <= before + 4 + 1
    assert [f.read(0, 1)[0] for f in files] == list(range(50))
    assert len(os.listdir("/proc/self/fd")) <= before + 4 + 1
    pinned = files[3]
    regions.pin(str(tmp_path / "3"))
    for file in files:
        file.read(0, 1)
    os.unlink(tmp_path / "3")
    assert pinned.read(0, 1) == b"\3"
    del files, file, pinned
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_a_file_changed_while_closed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(regions, "OPEN_FILES", 1)
    for name in "ab":
        (tmp_path / name).write_bytes(b"12345678")
    first, _second = SourceFile.of(tmp_path / "a"), SourceFile.of(tmp_path / "b")
    (tmp_path / "new").write_bytes(b"87654321")
    os.replace(tmp_path / "new", tmp_path / "a")
    with pytest.raises(ModelFileError, match="changed or replaced since"):
        first.read(0, 8)


def test_many_mapped_files_are_read_instead(tmp_path, monkeypatch):
    monkeypatch.setattr(regions, "MAPPED_FILES", 2)
    views = []
    for i in range(5):
        (tmp_path / str(i)).write_bytes(bytes([i] * 100))
        views.append(Region(SourceFile.of(tmp_path / str(i)), 0, 100).view())
    assert [set(v.tolist()) for v in views] == [{i} for i in range(5)]
    assert not any(v.flags.writeable for v in views)


def test_a_truncated_file_is_an_error_not_a_crash(path):
    region = Region(SourceFile.of(path), 0, 5000)
    os.truncate(path, 100)
    with pytest.raises(ModelFileError, match="file ends at byte 100"):
        region.read()
    with pytest.raises(ModelFileError, match="file ends at byte 100"):
        region.view()
    with pytest.raises(ModelFileError, match="file has 100 bytes"):
        region.peek()


def test_views_of_small_files_do_not_change_with_the_file(path):
    region = Region(SourceFile.of(path), 0, 5000)
    view = region.view()
    path.write_bytes(b"x" * 10)
    assert view.tobytes() == CONTENT
    assert not view.flags.writeable


def test_pickle_keeps_path_and_range(path):
    found = pickle.loads(pickle.dumps(Region(SourceFile.of(path), 5, 10)))
    assert (found.file.path, found.offset, found.length) == (str(path), 5, 10)
    assert found.read() == CONTENT[5:15]


def test_pickle_of_a_replaced_file_is_refused(path):
    region = Region(SourceFile.of(path, pinned=True), 5, 10)
    stored = pickle.dumps(region)
    other = path.with_name("other")
    other.write_bytes(CONTENT[::-1] + b"1")
    os.replace(other, path)
    with pytest.raises(ModelFileError, match="cannot be pickled"):
        pickle.dumps(region)
    with pytest.raises(ModelFileError, match="changed since the weights in it were pickled"):
        pickle.loads(stored)


@pytest.mark.parametrize("special", ["folder", "fifo", "/dev/zero", "missing"])
def test_only_regular_files(tmp_path, special):
    path = tmp_path / special
    if special == "folder":
        path.mkdir()
    elif special == "fifo":
        os.mkfifo(path)
    elif special.startswith("/"):
        path = special
    with pytest.raises(ModelFileError, match=r"not a regular file|cannot be opened: No such file"):
        SourceFile.of(path)


def test_threads_read_their_own_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(regions, "OPEN_FILES", 2)
    files = []
    for i in range(8):
        (tmp_path / str(i)).write_bytes(bytes([i]) * 4096)
        files.append(SourceFile.of(tmp_path / str(i)))
    wrong = []

    def read(start):
        for k in range(300):
            i = (start + k) % 8
            if set(files[i].read(k, 64)) != {i}:
                wrong.append(i)

    threads = [threading.Thread(target=read, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
