"""Models written to a file: programs for some sizes, constants, and the graph."""

import importlib
import json
from hashlib import sha256
from typing import Any

import numpy as np

from graphc.backends.program import Outputs
from graphc.errors import graph_error
from graphc.ir.graph import Graph
from graphc.ir.inner import within
from graphc.ir.text import has_text, to_text
from graphc.ir.walk import ancestors
from graphc.runtime.exporter import Exporter, NDArray, lifted
from graphc_serving.manifest import FORMAT, KEY, digest

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
        """The name under which an array is kept."""
        key = array.dtype.name, array.shape, sha256(array.tobytes()).digest()
        if key not in self._names:
            name = self._names[key] = f"constant_{len(self._names)}"
            plain = array.dtype.name in _PLAIN
            self.tensors[name] = array if plain else as_bytes(array)
            self.listed.append([name, array.dtype.name, list(array.shape)])
        return self._names[key]


def as_bytes(array: NDArray) -> NDArray:
    """The bytes of an array, as a vector."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def written(
    exporter: Exporter, graph: Graph, outputs: Outputs, with_graph: bool
) -> bytes:
    """The content of a file; `graph` is as the user has written it."""
    constants = Constants()
    programs = exporter.programs.values()
    pairs = zip(graph.input_names, graph.inputs, strict=True)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "jax": exporter.jax.__version__,
        "platform": exporter.platform,
        "wide": exporter.wide,
        "inputs": [[n, v.dtype.name, [0] * v.type.rank] for n, v in pairs],
        "structure": _structure(outputs),
        "shapes": exporter.shapes,
        "programs": [said for said, _ in programs],
        "steps": exporter.steps(),
        "results": exporter.driver.results,
        "arguments": [constants.add(array) for array in exporter.constants],
        "graph": None,
    }
    tensors = {
        f"program_{i}": np.frombuffer(module, np.uint8)
        for i, (_, module) in enumerate(programs)
    }
    if with_graph:
        lift = lifted(graph)
        tensors["graph"] = np.frombuffer(_text(lift.graph).encode(), np.uint8)
        manifest["graph"] = [constants.add(array) for array in lift.arrays]
    tensors |= constants.tensors
    manifest["constants"] = constants.listed
    manifest["digest"] = digest(manifest, tensors)
    save = importlib.import_module("safetensors.numpy").save
    content: bytes = save(tensors, {KEY: json.dumps(manifest)})
    return content


def _text(graph: Graph) -> str:
    """A graph as text. Raises GraphError where it has none."""
    for node in within(ancestors(graph.outputs)):
        if not has_text(node):
            raise graph_error(
                f"{node.primitive.name} holds a function, and has no text",
                op="export",
                hint="leave graph=True out: the sizes that you list need no graph",
                where=node.place,
            )
    return to_text(graph)


def _structure(outputs: Outputs) -> Any:
    if outputs.kind == "single":
        return "single"
    kind = list(outputs.keys) if outputs.kind == "dict" else outputs.kind
    return [kind, list(map(_structure, outputs.parts))]
