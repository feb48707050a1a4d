"""The manifest of a saved model, and how files are read.

A model is one file of safetensors: programs as StableHLO, one per sizes, constants as
tensors, and in its metadata the manifest, which is JSON. The manifest has a digest of
all the rest, which finds damage. It is no signature: it does not tell who made a file.
"""

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

FORMAT = 1
LARGEST = 2**34  # bytes of a file
LARGEST_MANIFEST = 2**26
KEY = "graphc"  # of the manifest, in the metadata
DTYPES = {
    *("bool", "bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
}
Shape = tuple[int, ...]
NDArray = np.ndarray[Any, Any]
Tensors = Mapping[str, NDArray]


class ModelError(ValueError):
    """A file that is no model, or a call that does not fit it."""


@dataclass(frozen=True)
class Array:
    """The name, dtype and shape of a constant, or of an input or output."""

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True)
class Exported:
    """A program for some shapes of its inputs, in the calling convention of JAX.

    `kept` are positions of the arguments that the module takes, constants included.
    """

    shapes: tuple[Shape, ...]
    outputs: tuple[Array, ...]
    convention: int
    kept: tuple[int, ...]


@dataclass(frozen=True)
class Manifest:
    """All that a file says about its model.

    `structure` says how the outputs are returned: "single", or a pair of "list",
    "tuple" or a list of keys, and of the parts. Inputs have shapes per program.
    """

    jax: str
    platform: str
    wide: bool
    inputs: tuple[Array, ...]
    structure: Any
    programs: tuple[Exported, ...]
    constants: tuple[Array, ...]
    arguments: tuple[str, ...]  # constants that programs take, after the inputs
    graph: tuple[str, ...] | None  # constants that the graph takes, likewise

    @property
    def known(self) -> dict[str, Array]:
        """The constants by name."""
        return {constant.name: constant for constant in self.constants}


class _Malformed(Exception):
    """A part of a file that is not as it must be."""


def read(path: str) -> tuple[Manifest, Tensors]:
    """The manifest and tensors of a file. Raises ModelError where it is no model."""
    try:
        return _read(path)
    except _Malformed as error:
        raise ModelError(f"{path} is no model: {error}") from None


def digest(manifest: Mapping[str, Any], tensors: Tensors) -> str:
    """A digest of all that a file holds, but for itself."""
    rest = {k: v for k, v in manifest.items() if k != "digest"}
    found = sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        found.update(f"\n{name} {array.dtype} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _read(path: str) -> tuple[Manifest, Tensors]:
    if os.path.getsize(path) > LARGEST:
        raise _Malformed(f"it has more than {LARGEST} bytes")
    with open(path, "rb") as file:
        content = file.read(LARGEST)
    given = _manifest_of(content)
    number = given.get("format")
    if type(number) is not int or number < 1:
        raise _Malformed("its format has no number")
    if number > FORMAT:
        problem = f"a newer graphc wrote it, in format {number}; this one reads"
        raise _Malformed(f"{problem} {FORMAT}")
    try:
        tensors = importlib.import_module("safetensors.numpy").load(content)
    except Exception as error:  # the reader has errors of its own, and of NumPy
        raise _Malformed(shortened(f"safetensors: {error}")) from None
    if digest(given, tensors) != given.get("digest"):
        raise _Malformed("it is damaged or was changed: its digest is another one")
    return _checked(given, tensors), tensors


def _manifest_of(content: bytes) -> dict[str, Any]:
    """The manifest, in the header with which such a file begins."""
    size = int.from_bytes(content[:8], "little")
    if size > LARGEST_MANIFEST:
        raise _Malformed(f"its header has more than {LARGEST_MANIFEST} bytes")
    try:
        header = json.loads(content[8 : 8 + size])
        found = json.loads(header["__metadata__"][KEY])
    except (KeyError, RecursionError, TypeError, ValueError):
        raise _Malformed("it has no manifest of graphc") from None
    return found if isinstance(found, dict) else {}


def _checked(given: Mapping[str, Any], tensors: Tensors) -> Manifest:
    """The manifest as records, each part of the kind that it must have."""
    try:
        names = given["graph"]
        found = Manifest(
            _of(str, given["jax"]),
            _of(str, given["platform"]),
            _of(bool, given["wide"]),
            tuple(map(_array, _of(list, given["inputs"]))),
            given["structure"],
            tuple(map(_program, _of(list, given["programs"]))),
            tuple(map(_array, _of(list, given["constants"]))),
            _names(given["arguments"]),
            None if names is None else _names(names),
        )
        _require_whole(found, tensors)
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__} {error}"
        raise _Malformed(f"its manifest is malformed: {shortened(problem)}") from None
    return found


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{shortened(repr(value), 40)} is no {kind.__name__}")
    return value


def _names(given: Any) -> tuple[str, ...]:
    return tuple([_of(str, name) for name in _of(list, given)])


def _shape(given: Any) -> Shape:
    shape = tuple([_of(int, n) for n in _of(list, given)])
    if any(not 0 <= n < 2**63 for n in shape):
        raise ValueError(f"{shape} is no shape")
    return shape


def _array(given: Any) -> Array:
    name, dtype, shape = _of(list, given)
    if _of(str, dtype) not in DTYPES:
        raise ValueError(f"there is no dtype {shortened(dtype, 20)}")
    return Array(_of(str, name), dtype, _shape(shape))


def _program(given: Any) -> Exported:
    shapes, outputs, convention, kept = _of(list, given)
    return Exported(
        tuple(map(_shape, _of(list, shapes))),
        tuple(map(_array, _of(list, outputs))),
        _of(int, convention),
        _shape(kept),
    )


def _require_whole(manifest: Manifest, tensors: Tensors) -> None:
    """Raise ValueError unless all parts are there and fit each other."""
    count = len(manifest.inputs) + len(manifest.arguments)
    outputs = _leaves(manifest.structure)
    for i, program in enumerate(manifest.programs):
        ranks = [len(shape) for shape in program.shapes]
        if ranks != [len(v.shape) for v in manifest.inputs]:
            raise ValueError(f"program {i} has other inputs")
        if len(program.outputs) != outputs or any(k >= count for k in program.kept):
            raise ValueError(f"program {i} has other outputs or arguments")
    names = {f"program_{i}" for i in range(len(manifest.programs))}
    names |= {"graph"} if manifest.graph is not None else set()
    for constant in manifest.constants:
        if tensors[constant.name].nbytes != _bytes(constant):
            raise ValueError(f"{constant.name} has another size")
    known = manifest.known.keys()
    if not known >= {*manifest.arguments, *(manifest.graph or ())}:
        raise ValueError("constants are missing")
    if names | known != tensors.keys():
        raise ValueError("tensors are missing, or there are others")


def _bytes(array: Array) -> int:
    size = np.dtype(array.dtype).itemsize if array.dtype != "bfloat16" else 2
    for n in array.shape:
        size *= n
    return size


def _leaves(structure: Any) -> int:
    """How many outputs a structure has. Raises TypeError for what is none."""
    if structure == "single":
        return 1
    kind, parts = _of(list, structure)
    if kind not in ("list", "tuple"):
        keys = [_of(str, key) for key in _of(list, kind)]
        if len(keys) != len(parts):
            raise ValueError("a dict has as many keys as parts")
    return sum(map(_leaves, _of(list, parts)))


def shortened(text: str, longest: int = 100) -> str:
    """The text, cut where it is longer than a message should repeat."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
