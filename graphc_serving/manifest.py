"""The manifest of a saved model.

A model is one safetensors file. It holds programs as StableHLO, one for each set of
sizes, constants as tensors, and in its metadata the manifest, which is JSON and also
has the steps of a call, which run programs. The manifest has a digest of all the rest,
which finds damage. The digest is no signature: it does not tell who made a file.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np

from graphc_serving.kinds import (
    Kind,
    Shape,
    bytes_of,
    dtype_of,
    list_of,
    of,
    one_of,
    shape_of,
    shortened,
)
from graphc_serving.reading import Malformed, Tensors, contents
from graphc_serving.step_reader import Stage, StepReader
from graphc_serving.steps import Step
from graphc_serving.structures import Structure, leaves, structure_of

FORMAT = 5
OLDEST = 2
SERIALIZED = 4  # the first format in which JAX has serialised programs, not modules
CASTINGS = "exact", "safe", "same_kind"


class ModelError(ValueError):
    """Raised for a file that is no model, or a call that does not fit the model.

    >>> import graphc_serving, sys
    >>> try:
    ...     graphc_serving.load(sys.executable)
    ... except graphc_serving.ModelError as error:
    ...     print(error.args[0].partition(" ")[2])
    is not a model: it is not a file of safetensors, as f.export(path, ...) writes

    The message is `args[0]`; `str` names the command that explains such errors too.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}\n  help: graphc help model"


@dataclass(frozen=True)
class Array:
    """The name, dtype and shape of a constant, or of an input or output."""

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True)
class Input:
    """An input: its name, its dtype, and its axes in words, "_" for an unnamed axis."""

    name: str
    dtype: str
    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(self.axes)}]"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a model: its name, and the structure of its arrays."""

    name: str
    structure: Structure


@dataclass(frozen=True)
class Served:
    """A call that is served: shapes of the inputs, and sizes that these do not tell.

    A padded size is given by its capacity.
    """

    shapes: tuple[Shape, ...]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Module:
    """The facts about a module that JAX has not serialised with all that it needs.

    These are its calling `convention`, and the positions of the arguments that it
    takes.
    """

    convention: int
    taken: tuple[int, ...]


@dataclass(frozen=True)
class Exported:
    """A program of a stage, for shapes and `statics`; as a `module` in old formats."""

    stage: int
    statics: Shape
    arguments: tuple[Array, ...]
    outputs: tuple[Array, ...]
    module: Module | None

    @property
    def key(self) -> tuple[int, Shape, tuple[Shape, ...]]:
        """The key by which the program is chosen."""
        return self.stage, self.statics, tuple([v.shape for v in self.arguments])

    @property
    def kinds(self) -> Stage:
        """The kinds that all programs of a stage have in common."""
        arguments, outputs = map(_kinds, (self.arguments, self.outputs))
        return Stage(arguments, len(self.statics), outputs)


@dataclass(frozen=True)
class Manifest:
    """All that a file says about its model.

    `structure` says how the outputs are returned, `parameters` how the inputs are
    given. `casting` says what an input may be, as for `graphc.function`; axes of inputs
    that vary have the size `least` or more where sizes are padded, and in a graph.
    `served` are the calls that the model was exported for, at capacities where it is
    `padded`. `arguments` are constants that follow the inputs, `results` the numbers of
    the values that are returned.
    """

    jax: str
    platforms: tuple[str, ...]
    wide: bool
    casting: str
    least: int
    inputs: tuple[Input, ...]
    parameters: tuple[Parameter, ...]
    structure: Structure
    served: tuple[Served, ...]
    programs: tuple[Exported, ...]
    constants: tuple[Array, ...]
    arguments: tuple[str, ...]
    graph: tuple[str, ...] | None  # constants that the graph takes, after the inputs
    steps: tuple[Step, ...] = ()
    results: tuple[int, ...] = ()

    @cached_property
    def padded(self) -> bool:
        """Whether there is room for other sizes than the served ones."""
        return any(step.word == "capacities" for step in self.steps)

    @property
    def known(self) -> dict[str, Array]:
        """The constants by name."""
        return {constant.name: constant for constant in self.constants}


def read(path: str) -> tuple[Manifest, Tensors]:
    """Read the manifest and tensors of a file; raise ModelError if it is no model."""
    try:
        return _read(path)
    except Malformed as error:
        raise ModelError(f"{path} is not a model: {error}") from None
    except MemoryError:
        raise ModelError(f"too little memory to read {path}") from None


def digest(manifest: Mapping[str, object], tensors: Tensors) -> str:
    """Compute the digest of all that a file holds except the digest itself."""
    signed = {k: v for k, v in manifest.items() if k != "digest"}
    hashed = sha256(json.dumps(signed, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        hashed.update(f"\n{name} {array.dtype} {array.shape} ".encode())
        hashed.update(bytes_of(array).data)
    return hashed.hexdigest()


def _read(path: str) -> tuple[Manifest, Tensors]:
    stored, tensors = contents(path)
    number = stored.get("format")
    if type(number) is not int or number < 1:
        raise Malformed("its format has no number")
    if number > FORMAT:
        problem = f"a newer graphc wrote it, in format {number}; this one reads"
        raise Malformed(f"{problem} {FORMAT}")
    if number < OLDEST:
        problem = f"an older graphc wrote it, in format {number}; this one reads"
        raise Malformed(f"{problem} {FORMAT}: export it again")
    if digest(stored, tensors) != stored.get("digest"):
        raise Malformed("it is damaged or was changed: its digest does not match")
    return _manifest_of(stored, tensors), tensors


def _manifest_of(stored: Mapping[str, object], tensors: Tensors) -> Manifest:
    """Convert the manifest to records, checking that each part is of its kind."""
    try:
        if of(int, stored["format"]) < SERIALIZED:
            stored = _in_todays_format(stored)
        names = stored["graph"]
        inputs = tuple(map(_input, list_of(stored["inputs"])))
        manifest = Manifest(
            of(str, stored["jax"]),
            _names(stored["platforms"]),
            of(bool, stored["wide"]),
            one_of(CASTINGS, stored["casting"]),
            of(int, stored["least"]),
            inputs,
            _parameters(stored["parameters"], inputs),
            structure_of(stored["structure"]),
            tuple(map(_served, list_of(stored["served"]))),
            tuple(map(_program, list_of(stored["programs"]))),
            tuple(map(_array, list_of(stored["constants"]))),
            _names(stored["arguments"]),
            None if names is None else _names(names),
        )
        _require_whole(manifest, tensors)
        manifest = _with_steps(manifest, stored["steps"], stored["results"])
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__} {error}"
        raise Malformed(f"its manifest is malformed: {shortened(problem)}") from None
    return manifest


def _in_todays_format(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Translate a manifest of an old format, which says less, to today's format."""
    inputs = [[name, dtype, ["_" for _ in n]] for name, dtype, n in stored["inputs"]]
    return {
        **stored,
        "platforms": [stored["platform"]],
        "casting": "safe",
        "least": 0,
        "inputs": inputs,
        "parameters": None,
        "served": [[shapes, {}] for shapes in stored["shapes"]],
    }


def _input(stored: object) -> Input:
    name, dtype, axes = list_of(stored)
    return Input(of(str, name), dtype_of(dtype), _names(axes))


def _parameters(stored: object, inputs: Sequence[Input]) -> tuple[Parameter, ...]:
    """The parameters; there is one per input where nothing is stored."""
    if stored is None:
        return tuple([Parameter(v.name, "single") for v in inputs])
    pairs = [list_of(pair) for pair in list_of(stored)]
    parameters = tuple([Parameter(of(str, n), structure_of(s)) for n, s in pairs])
    if sum(leaves(p.structure) for p in parameters) != len(inputs):
        raise ValueError("the parameters hold a different number of inputs")
    return parameters


def _served(stored: object) -> Served:
    shapes, sizes = list_of(stored)
    known = {of(str, name): of(int, n) for name, n in of(dict, sizes).items()}
    return Served(_shapes(shapes), known)


def _names(stored: object) -> tuple[str, ...]:
    return tuple([of(str, name) for name in list_of(stored)])


def _shapes(stored: object) -> tuple[Shape, ...]:
    return tuple(map(shape_of, list_of(stored)))


def _array(stored: object) -> Array:
    name, dtype, shape = list_of(stored)
    return Array(of(str, name), dtype_of(dtype), shape_of(shape))


def _program(stored: object) -> Exported:
    stage, statics, arguments, outputs, *old = list_of(stored)
    return Exported(
        of(int, stage),
        tuple([of(int, n) for n in list_of(statics)]),
        tuple(map(_array, list_of(arguments))),
        tuple(map(_array, list_of(outputs))),
        _module(*old) if old else None,
    )


def _module(convention: object, kept_inputs: object) -> Module:
    return Module(of(int, convention), shape_of(kept_inputs))


def _kinds(arrays: Iterable[Array]) -> tuple[Kind, ...]:
    return tuple([Kind(v.dtype, len(v.shape)) for v in arrays])


def _with_steps(manifest: Manifest, steps: object, results: object) -> Manifest:
    """Add steps, which must fit the programs; raise TypeError or ValueError if not."""
    constants = [manifest.known[name] for name in manifest.arguments]
    kinds = [Kind(v.dtype, len(v.axes)) for v in manifest.inputs]
    kinds += _kinds(constants)
    reader = StepReader(kinds, _stages(manifest.programs))
    read_steps = tuple(map(reader.step, list_of(steps)))
    outputs = tuple(map(reader.array, list_of(results)))
    if len(outputs) != leaves(manifest.structure):
        raise ValueError("the structure has a different number of outputs")
    return replace(manifest, steps=read_steps, results=outputs)


def _stages(programs: Sequence[Exported]) -> list[Stage]:
    """The stages that the programs belong to, in the order of their numbers."""
    stages: dict[int, Stage] = {}
    for i, program in enumerate(programs):
        if stages.setdefault(program.stage, program.kinds) != program.kinds:
            raise ValueError(f"program {i} has other arguments or outputs")
        taken = () if program.module is None else program.module.taken
        if any(k >= len(program.arguments) for k in taken):
            raise ValueError(f"program {i} has fewer arguments")
    if stages.keys() != set(range(len(stages))):
        raise ValueError("a stage has no programs")
    return [stages[i] for i in range(len(stages))]


def _require_whole(manifest: Manifest, tensors: Tensors) -> None:
    """Raise ValueError unless all parts are there and fit each other."""
    for one in manifest.served:
        if list(map(len, one.shapes)) != [len(v.axes) for v in manifest.inputs]:
            raise ValueError("inputs have other shapes")
    if not manifest.platforms:
        raise ValueError("there is no platform")
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
    return prod(array.shape, start=size)
