"""The manifest of a saved model, and how files are read.

A model is one file of safetensors: programs as StableHLO, one per sizes, constants as
tensors, and in its metadata the manifest, which is JSON: also the steps of a call,
which run programs. The manifest has a digest of all the rest, which finds damage. It is
no signature: it does not tell who made a file.
"""

import importlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from graphc_serving.kinds import Shape, dtype_of, list_of, of, shape_of, shortened
from graphc_serving.step_reader import Stage, StepReader
from graphc_serving.steps import Kind, Step

FORMAT = 3
OLDEST = 2  # whose steps are among those of today
LARGEST = 2**34  # bytes of a file
LARGEST_MANIFEST = 2**26
KEY = "graphc"  # of the manifest, in the metadata
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
    """A program of a stage, for shapes and `statics`, in the calling convention of JAX.

    `kept` are positions of the arguments that the module takes.
    """

    stage: int
    statics: Shape
    arguments: tuple[Array, ...]
    outputs: tuple[Array, ...]
    convention: int
    kept: tuple[int, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """By which it is chosen."""
        return self.stage, self.statics, tuple([v.shape for v in self.arguments])

    @property
    def kinds(self) -> Stage:
        """What all programs of a stage have in common."""
        arguments, outputs = map(_kinds, (self.arguments, self.outputs))
        return Stage(arguments, len(self.statics), outputs)


@dataclass(frozen=True)
class Manifest:
    """All that a file says about its model.

    `structure` says how the outputs are returned: "single", or a pair of "list",
    "tuple" or a list of keys, and of the parts. Inputs have ranks only: `shapes` are
    those that it was exported for. `arguments` are constants that follow the inputs,
    `results` the numbers of the values that are returned.
    """

    jax: str
    platform: str
    wide: bool
    inputs: tuple[Array, ...]
    structure: Any
    shapes: tuple[tuple[Shape, ...], ...]
    programs: tuple[Exported, ...]
    constants: tuple[Array, ...]
    arguments: tuple[str, ...]
    graph: tuple[str, ...] | None  # constants that the graph takes, after the inputs
    steps: tuple[Step, ...] = ()
    results: tuple[int, ...] = ()

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
    if number < OLDEST:
        problem = f"an older graphc wrote it, in format {number}; this one reads"
        raise _Malformed(f"{problem} {FORMAT}: export it again")
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
            of(str, given["jax"]),
            of(str, given["platform"]),
            of(bool, given["wide"]),
            tuple(map(_array, list_of(given["inputs"]))),
            given["structure"],
            tuple(map(_shapes, list_of(given["shapes"]))),
            tuple(map(_program, list_of(given["programs"]))),
            tuple(map(_array, list_of(given["constants"]))),
            _names(given["arguments"]),
            None if names is None else _names(names),
        )
        _require_whole(found, tensors)
        found = _with_steps(found, given["steps"], given["results"])
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__} {error}"
        raise _Malformed(f"its manifest is malformed: {shortened(problem)}") from None
    return found


def _names(given: Any) -> tuple[str, ...]:
    return tuple([of(str, name) for name in list_of(given)])


def _shapes(given: Any) -> tuple[Shape, ...]:
    return tuple(map(shape_of, list_of(given)))


def _array(given: Any) -> Array:
    name, dtype, shape = list_of(given)
    return Array(of(str, name), dtype_of(dtype), shape_of(shape))


def _program(given: Any) -> Exported:
    stage, statics, arguments, outputs, convention, kept = list_of(given)
    return Exported(
        of(int, stage),
        tuple([of(int, n) for n in list_of(statics)]),
        tuple(map(_array, list_of(arguments))),
        tuple(map(_array, list_of(outputs))),
        of(int, convention),
        shape_of(kept),
    )


def _kinds(arrays: Iterable[Array]) -> tuple[Kind, ...]:
    return tuple([Kind(v.dtype, len(v.shape)) for v in arrays])


def _with_steps(manifest: Manifest, steps: Any, results: Any) -> Manifest:
    """With its steps, which must fit the programs. Raises TypeError or ValueError."""
    constants = [manifest.known[name] for name in manifest.arguments]
    given = _kinds([*manifest.inputs, *constants])
    reader = StepReader(given, _stages(manifest.programs))
    made = tuple(map(reader.step, list_of(steps)))
    found = tuple(map(reader.array, list_of(results)))
    if len(found) != _leaves(manifest.structure):
        raise ValueError("the structure has another number of outputs")
    return replace(manifest, steps=made, results=found)


def _stages(programs: Sequence[Exported]) -> list[Stage]:
    """The stages that there are programs of, by their numbers."""
    found: dict[int, Stage] = {}
    for i, program in enumerate(programs):
        if found.setdefault(program.stage, program.kinds) != program.kinds:
            raise ValueError(f"program {i} has other arguments or outputs")
        if any(k >= len(program.arguments) for k in program.kept):
            raise ValueError(f"program {i} has fewer arguments")
    if found.keys() != set(range(len(found))):
        raise ValueError("a stage has no programs")
    return [found[i] for i in range(len(found))]


def _require_whole(manifest: Manifest, tensors: Tensors) -> None:
    """Raise ValueError unless all parts are there and fit each other."""
    for shapes in manifest.shapes:
        if list(map(len, shapes)) != [len(v.shape) for v in manifest.inputs]:
            raise ValueError("inputs have other shapes")
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
    kind, parts = list_of(structure)
    if kind not in ("list", "tuple"):
        keys = [of(str, key) for key in list_of(kind)]
        if len(keys) != len(parts):
            raise ValueError("a dict has as many keys as parts")
    return sum(map(_leaves, list_of(parts)))
