"""Models written to a file: programs for some sizes, constants, and the graph."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from graphc.backends.program import Outputs
from graphc.errors import GraphError, graph_error
from graphc.ir.graph.nodes import Graph
from graphc.ir.text.reader import parse_graph
from graphc.ir.types import NDArray
from graphc.runtime.save.exporter import ExportedModule, Exporter
from graphc.runtime.save.graph_text import lift_constants, text_of
from graphc_serving.kinds import bytes_of
from graphc_serving.manifest import FORMAT, digest
from graphc_serving.packages import needed
from graphc_serving.reading import KEY
from graphc_serving.structures import Parts, Structure

_PLAIN = {  # dtypes that safetensors has in NumPy too
    *("bool", "float16", "float32", "float64"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
}


class Constants:
    """Constants by name; equal ones are kept once."""

    def __init__(self) -> None:
        self._names: dict[tuple[object, ...], str] = {}
        self.listed: list[list[Any]] = []
        self.tensors: dict[str, NDArray] = {}

    def add(self, array: NDArray) -> str:
        """Keep an array, and return its name."""
        key = array.dtype.name, array.shape, sha256(array.tobytes()).digest()
        if key not in self._names:
            name = self._names[key] = f"constant_{len(self._names)}"
            plain = array.dtype.name in _PLAIN
            self.tensors[name] = array if plain else bytes_of(array)
            self.listed.append([name, array.dtype.name, list(array.shape)])
        return self._names[key]


@dataclass
class Contents:
    """The contents of a model file; see `graphc_serving.manifest.Manifest`.

    Types are lists of a name, a dtype and a shape. `parameters` is None where each
    input is one. Each of `programs` is its entry in the manifest, and the bytes that
    JAX has written.
    """

    jax: str
    platforms: Sequence[str]
    wide: bool
    casting: str
    inputs: list[list[Any]]
    structure: Structure
    served: list[list[Any]]
    programs: list[ExportedModule]
    steps: list[list[Any]]
    results: list[int]
    arguments: Sequence[NDArray]
    parameters: list[list[Any]] | None = None
    least: int = 0

    def manifest(self) -> dict[str, object]:
        """Return the manifest, without the entries for constants and the graph."""
        return {
            "format": FORMAT,
            "jax": self.jax,
            "platforms": list(self.platforms),
            "wide": self.wide,
            "casting": self.casting,
            "least": self.least,
            "inputs": self.inputs,
            "parameters": self.parameters,
            "structure": self.structure,
            "served": self.served,
            "programs": [entry for entry, _ in self.programs],
            "steps": self.steps,
            "results": self.results,
        }


def contents_of(
    exporter: Exporter, graph: Graph, outputs: Outputs, casting: str
) -> Contents:
    """Collect the contents of a file of exported programs.

    `graph` is the graph as the user wrote it.
    """
    pairs = zip(graph.input_names, graph.inputs, strict=True)
    return Contents(
        exporter.jax.__version__,
        exporter.platforms,
        exporter.wide,
        casting,
        [[n, v.dtype.name, list(map(str, v.type.shape))] for n, v in pairs],
        _structure_data(outputs),
        exporter.served,
        list(exporter.programs.values()),
        exporter.steps(),
        exporter.driver.results,
        exporter.constants,
    )


def file_bytes(contents: Contents, graph: Graph | None) -> bytes:
    """Return the bytes of a file, with a graph, if given, for yet other sizes."""
    constants = Constants()
    manifest = contents.manifest()
    tensors = {
        f"program_{i}": np.frombuffer(program, np.uint8)
        for i, (_, program) in enumerate(contents.programs)
    }
    manifest["arguments"] = [constants.add(array) for array in contents.arguments]
    manifest["graph"] = None
    if graph is not None:
        lift = lift_constants(graph)
        hint = "leave graph=True out: the sizes that you list need no graph"
        text = text_of(lift.graph, "export", hint)
        require_readable(text, contents.least, hint)
        tensors["graph"] = np.frombuffer(text.encode(), np.uint8)
        manifest["graph"] = [constants.add(array) for array in lift.arrays]
    tensors |= constants.tensors
    manifest["constants"] = constants.listed
    manifest["digest"] = digest(manifest, tensors)
    save = needed("export")[0].save
    content: bytes = save(tensors, {KEY: json.dumps(manifest)})
    return content


def require_readable(text: str, least: int, hint: str) -> None:
    """Raise GraphError for a graph that its text would not give again."""
    try:
        parse_graph(text, least=least)
    except GraphError as error:
        reason = str(error).splitlines()[0]
        problem = "the text of the graph cannot be read again"
        raise graph_error(problem, op="export", got=reason, hint=hint) from error


def _structure_data(outputs: Outputs) -> Structure:
    if outputs.kind == "single":
        return "single"
    kind = list(outputs.keys) if outputs.kind == "dict" else outputs.kind
    return Parts(kind, list(map(_structure_data, outputs.parts)))
