"""Read the file of a model, checking the lengths it states against its own length.

Nothing is read, and no memory is taken, for more than the file has.
"""

import json
import os
import stat
from collections.abc import Mapping
from typing import Any, BinaryIO

from graphc_serving.kinds import NDArray, shortened
from graphc_serving.packages import needed

LARGEST = 2**34  # bytes of a file
LARGEST_MANIFEST = 2**26
KEY = "graphc"  # of the manifest, in the metadata
Tensors = Mapping[str, NDArray]
_OTHER = "it is not a file of safetensors, as f.export(path, ...) writes"
_LENGTH = 8  # bytes that hold the length of the header


class Malformed(Exception):
    """Raised for a part of a file that is not as it must be."""


def contents(path: str) -> tuple[dict[str, Any], Tensors]:
    """Read the manifest and the tensors of a file; raise Malformed, or OSError."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise Malformed("it is not a regular file")  # a pipe might never end
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            raise Malformed(f"it has more than {LARGEST} bytes")
        start = _header(file, size)
        manifest = _manifest_of(start[_LENGTH:])
        content = start + file.read(size - len(start))
    return manifest, _tensors(content)


def _header(file: BinaryIO, size: int) -> bytes:
    """Read the header of a file, with its length before it."""
    length_bytes = file.read(_LENGTH)
    length = int.from_bytes(length_bytes, "little")
    if length > size - _LENGTH or file.peek(1)[:1] != b"{":  # type: ignore[attr-defined]
        raise Malformed(_OTHER)
    if length > LARGEST_MANIFEST:
        raise Malformed(f"its header has more than {LARGEST_MANIFEST} bytes")
    return length_bytes + file.read(length)


def _manifest_of(header: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(header)
    except (RecursionError, ValueError):
        raise Malformed(_OTHER) from None
    try:
        manifest = json.loads(decoded["__metadata__"][KEY])
    except (KeyError, RecursionError, TypeError, ValueError):
        raise Malformed("it has no manifest of graphc") from None
    return manifest if isinstance(manifest, dict) else {}


def _tensors(content: bytes) -> Tensors:
    load = needed("loading a model")[0].load
    try:
        tensors: Tensors = load(content)
    except Exception as error:  # the reader has errors of its own, and of NumPy
        raise Malformed(shortened(f"safetensors: {error}")) from None
    return tensors
