"""What to do about a file that is no model: what it is instead, or which file was meant. Looked at only after reading it has failed."""

from __future__ import annotations

import difflib
import os

from onnx_gs.errors import ModelFileError

#: Offset, bytes found there, what such a file is, and what to do.
SIGNATURES = (
    (0, b"version https://git-lfs.github.com", "a pointer that Git LFS left in place of the file", "fetch the file with `git lfs pull`"),
    (0, b"PK\x03\x04", "a ZIP archive, as are PyTorch's .pt and .pth files", "unpack it, or export the model with torch.onnx.export"),
    (0, b"PK\x05\x06", "an empty ZIP archive", "fetch the file again"),
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j", "a file of PyTorch", "export the model with torch.onnx.export"),
    (0, b"\x1f\x8b", "packed by gzip", "unpack it with gunzip"),
    (0, b"BZh", "packed by bzip2", "unpack it with bunzip2"),
    (0, b"\xfd7zXZ\x00", "packed by xz", "unpack it with unxz"),
    (0, b"(\xb5/\xfd", "packed by zstd", "unpack it with unzstd"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes", "convert the model with tf2onnx"),
    (4, b"TFL3", "a TensorFlow Lite model", "convert the model with tf2onnx"),
    (4, b"ORTM", "a model in the format of ONNX Runtime alone", "give the ONNX model that it was made from"),
    (0, b"ftrt", "a TensorRT engine", "give the ONNX model that it was built from"),
    (0, b"\x89PNG\r\n\x1a\n", "a PNG picture", "give the path of a model"),
    (0, b"\xff\xd8\xff", "a JPEG picture", "give the path of a model"),
    (0, b"%PDF-", "a PDF document", "give the path of a model"),
)
HEAD = 512  # bytes looked at


def explained(error: ModelFileError, path: str) -> ModelFileError:
    """Give an error about a file that was to be a model, with what the file is and what to do added, as far as that can be told.

    Args:
        error: what reading it raised.
        path: the file.
    """
    if path and error.where != f"file '{path}'":  # about another file, such as external data
        return error
    head = _head(path)
    what, fix = error.what, error.fix
    if head is None:
        fix = fix or _other_name(path)
    elif not head:
        fix = fix or "fetch or write it again"
    elif (kind := identified(head)) is not None:
        what, fix = f"this is no ONNX model but {kind[0]} ({what})", kind[1]
    return ModelFileError(what, where=f"file '{path}'", fix=fix)


def _head(path: str) -> bytes | None:
    """Read the first bytes of a regular file; None where there is none, as of a pipe, which would wait for what nobody writes."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            return file.read(HEAD)
    except (OSError, ValueError):
        return None


def identified(head: bytes) -> tuple[str, str] | None:
    """Tell from its first bytes what a file is that is no model, and what to do; None where that is not known.

    Example:
        >>> identified(b"PK" + bytes([3, 4]))[0]
        "a ZIP archive, as are PyTorch's .pt and .pth files"
        >>> identified(b"hello world")[0]
        'text'
    """
    for offset, signature, kind, fix in SIGNATURES:
        if head.startswith(signature, offset):
            return kind, fix
    if head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "a web page", "fetch the file itself, not the page about it"
    try:
        shown = head.decode("utf-8", errors="ignore" if len(head) == HEAD else "strict")
    except UnicodeDecodeError:
        return None
    if all(c.isprintable() or c in "\t\r\n" for c in shown):
        return "text", "a model that is stored as text is named .onnxtxt, .textproto or .json"
    return None


def _other_name(path: str) -> str:
    """Say which file may have been meant."""
    folder, name = os.path.split(path)
    if not path or "\0" in path or len(name.encode(errors="replace")) > 255:
        return "give the path of a model"
    if os.path.isdir(path):
        return "give the path of a model in it"
    try:
        there = os.listdir(folder or os.curdir)
    except NotADirectoryError:
        return f"'{folder}' is a file, not a folder"
    except OSError:
        return f"there is no folder '{folder}' that can be read; check the path"
    if name in there:
        return "give the path of a regular file that you may read"
    near = difflib.get_close_matches(name, there, n=1, cutoff=0.75)
    return f"did you mean '{os.path.join(folder, near[0])}'?" if near else "check the path"
