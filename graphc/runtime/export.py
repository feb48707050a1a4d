"""Models written to a file: programs for some sizes, constants, and the graph."""

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from graphc.backends.jax import emit_jax
from graphc.backends.program import Outputs
from graphc.errors import GraphError, graph_error, shortened
from graphc.ir.build import literal_of, variable
from graphc.ir.graph import Graph
from graphc.ir.op import Opaque
from graphc.ir.replay import substituted
from graphc.ir.text import to_text
from graphc.ir.types import is_inexact
from graphc.ir.walk import ancestors
from graphc.runtime.ahead import OnlySegment, only_segment
from graphc.runtime.devices import Target
from graphc.runtime.failure import Program
from graphc.runtime.prepared import Prepared
from graphc.transform.grouping import CostModel
from graphc.transform.partition import partition
from graphc.transform.plan import Plan
from graphc_serving.manifest import FORMAT, KEY, digest

PLATFORMS = "cpu", "cuda", "rocm", "tpu"
LEAST = 1024  # bytes of a constant that is no part of programs
UNDIVIDED = 1e12  # the cost of a segment of its own
_PLAIN = {  # dtypes that safetensors has in NumPy too
    *("bool", "float16", "float32", "float64"),
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
}
NDArray = np.ndarray[Any, Any]


class Lifted(NamedTuple):
    """A graph whose large constants are inputs, after its own, and these constants."""

    graph: Graph
    arrays: list[NDArray]


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


@dataclass(frozen=True)
class Exporter:
    """The program of a plan of one segment at true sizes, for `jax.export`.

    Its large constants are arguments, after its own.
    """

    jax: Any
    segment: OnlySegment
    arrays: list[NDArray]
    platform: str

    @classmethod
    def of(cls, jax: Any, plan: Plan, target: Target, platform: str) -> "Exporter":
        """Print the program of a plan once more, with constants as arguments."""
        if platform not in PLATFORMS:
            problem = f"there is no platform {platform!r}"
            expected = ", ".join(map(repr, PLATFORMS))
            raise graph_error(problem, op="export", expected=expected)
        lift = lifted(plan.graph)
        made = partition(lift.graph, CostModel(base=UNDIVIDED))
        flat = Outputs("tuple", (), (Outputs("single"),) * len(lift.graph.outputs))
        source = emit_jax(made, flat)
        program = Program(source.text, "<graphc exported program>", source.foreigns)
        facts = Prepared.of(made, source).facts
        segment = only_segment(facts, program.load(), target)
        return cls(jax, segment, lift.arrays, platform)

    def program(self, structs: Sequence[Any]) -> tuple[list[Any], bytes]:
        """The entry in the manifest, and the module, for arguments of these types."""
        make = importlib.import_module("jax.export").export
        constants = [self.jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.arrays]
        jitted = self.segment.jitted
        try:
            with self.segment.settings(self.jax):
                found = make(jitted, platforms=[self.platform])(*structs, *constants)
        except (NotImplementedError, ValueError) as error:
            if isinstance(error, GraphError):
                raise
            raise _not_exported(f"{type(error).__name__}: {error}") from None
        effects = *found.ordered_effects, *found.unordered_effects
        if effects:
            raise _not_exported(", ".join(map(str, effects)))
        shapes = [list(s.shape) for s in structs]
        results = [["", v.dtype.name, list(v.shape)] for v in found.out_avals]
        rest = [found.calling_convention_version, list(found.module_kept_var_idx)]
        return [shapes, results, *rest], found.mlir_module_serialized


def lifted(graph: Graph) -> Lifted:
    """Take the large constants out of a graph; integers may be sizes, and stay."""
    values = [v for n in ancestors(graph.outputs) for v in n.outputs]
    found = [(v, literal_of(v)) for v in values if is_inexact(v.dtype)]
    large = [(v, a) for v, a in found if a is not None and a.nbytes >= LEAST]
    names = tuple([f"constant_{i}" for i in range(len(large))])
    pairs = zip(names, large, strict=True)
    new = {v: variable(name, v.type) for name, (v, _) in pairs}
    outputs = tuple(substituted(graph.outputs, new, {}))
    inputs = (*graph.inputs, *new.values())
    made = Graph(inputs, outputs, (*graph.input_names, *names), graph.output_names)
    return Lifted(made, [a for _, a in large])


def _not_exported(why: str) -> GraphError:
    problem = "JAX cannot export the program"
    hint = "nothing in it may print, or call Python"
    return graph_error(problem, op="export", got=shortened(why), hint=hint)


def written(
    exporter: Exporter,
    graph: Graph,
    outputs: Outputs,
    programs: Sequence[tuple[list[Any], bytes]],
    with_graph: bool,
) -> bytes:
    """The content of a file; `graph` is as the user has written it."""
    constants = Constants()
    pairs = zip(graph.input_names, graph.inputs, strict=True)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "jax": exporter.jax.__version__,
        "platform": exporter.platform,
        "wide": exporter.segment.wide,
        "inputs": [[n, v.dtype.name, [0] * v.type.rank] for n, v in pairs],
        "structure": _structure(outputs),
        "programs": [said for said, _ in programs],
        "arguments": [constants.add(array) for array in exporter.arrays],
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
    for node in ancestors(graph.outputs):
        if any(isinstance(param, Opaque) for param in node.params.values()):
            raise graph_error(
                f"{node.primitive.name} holds a graph or a function, and has no text",
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
