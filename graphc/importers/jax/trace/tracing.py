"""Trace functions with JAX, at sizes that are numbers or symbols, into graphs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

import jax.export
import numpy as np
from jax.extend.core import Jaxpr

from graphc.importers.jax.read import (
    callbacks,
    calls,
    control,
    decompositions,
    elementwise,
    indexing,
    libraries,
    products,
    random,
    reductions,
    structural,
)
from graphc.importers.jax.read.foreign import Origin
from graphc.importers.jax.read.jaxprs import array_type, is_array_type, open_jaxpr
from graphc.importers.jax.read.reader import PulledRules, Reader
from graphc.importers.jax.read.settings import for_many_sizes, is_wide
from graphc.importers.jax.read.sizes import JaxSizes, names_in
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.trace import (
    associative,
    convolutions,
    product_slopes,
    searches,
)
from graphc.importers.jax.trace.dimensions import recording
from graphc.importers.jax.trace.recorder import Recorder
from graphc.importers.jax.trace.references import without_references
from graphc.ir.graph.build import variable
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size
from graphc.ir.types import ConcreteArray

FAMILIES = (
    *(callbacks, calls, control, decompositions, elementwise, indexing),
    *(libraries, products, random, reductions, structural),
)  # importing them fills the table of rules
REPLACED = associative, convolutions, product_slopes, searches  # imported to replace
MOST_CONSTANT = 64  # elements in an array that is printed into a program

SpecShape = tuple[int | str, ...]


@dataclass(frozen=True)
class Spec:
    """The type of a traced function's argument; sizes that are text are symbols."""

    shape: SpecShape
    dtype: Any
    weak: bool = False

    @classmethod
    def of(cls, leaf: object) -> "Spec":
        """The spec of an array, or of anything that JAX accepts as one."""
        aval = jax.typeof(leaf)
        if not is_array_type(aval):  # a token, or a reference to memory
            return cls((), str(aval))
        return cls(aval.shape, aval.dtype, getattr(aval, "weak_type", False))

    @property
    def struct(self) -> object:
        """The same type as an object of JAX; all sizes must be numbers."""
        return array_type([*map(int, self.shape)], self.dtype, self.weak)

    def at(self, numbers: Mapping[str, int]) -> "Spec":
        """The spec with these numbers in place of the symbols."""
        sizes = JaxSizes(numbers)
        return Spec(tuple(map(sizes.number, self.shape)), self.dtype, self.weak)


def is_array(leaf: object) -> bool:
    """Whether an argument that JAX takes is an array or a number."""
    return is_array_type(jax.typeof(leaf))


@dataclass(frozen=True)
class TracedFunction:
    """A function as JAX traced it; `tree` is the structure of its results.

    `retrace` traces the function at numbers, given by the names of its symbols. If it
    was `sampled`, it was combined from several traces; the constants and literals in
    `fed` are then inputs after the arguments, with these types. `pulled` holds the
    traces of derivative rules of its equations.
    """

    jaxpr: Any
    tree: Any
    retrace: Callable[[Mapping[str, int]], Any]
    sampled: bool = False
    fed: Sequence[tuple[Any, Any]] = ()
    pulled: PulledRules = field(default_factory=dict, compare=False)

    @property
    def inner(self) -> Jaxpr:
        """The jaxpr without its constants."""
        return open_jaxpr(self.jaxpr)[0]

    @property
    def consts(self) -> Sequence[ConcreteArray]:
        """The arrays that the function captures."""
        return open_jaxpr(self.jaxpr)[1]

    @property
    def weak(self) -> list[bool]:
        """For each result, whether it promotes like a Python number."""
        avals = [v.aval for v in self.inner.outvars]
        return [getattr(aval, "weak_type", False) for aval in avals]


def trace_function(
    function: Callable[..., object],
    specs: Sequence[Spec],
    least: int | None = None,
    recorder: Recorder | None = None,
) -> TracedFunction:
    """Trace `function`, which takes flat arguments, with JAX.

    Symbols are at least `least` if that is given; JAX takes them to be at least 1. The
    `recorder` answers questions about them that this leaves open.
    """
    texts = dict.fromkeys(n for s in specs for n in s.shape if isinstance(n, str))
    symbols = symbols_of(list(texts), least)
    types = [_type_at(spec, symbols) for spec in specs]
    watch = recording(recorder, symbols.values()) if recorder else nullcontext()
    trees: list[Any] = []

    @wraps(function)
    def recorded(*leaves: object) -> object:
        results = function(*leaves)
        trees.append(jax.tree.structure(results))
        return results

    with watch:
        jaxpr = without_references(jax.make_jaxpr(recorded)(*types))
    retrace = retracer_of(partial(trace_function, function), specs)
    return TracedFunction(jaxpr, trees[-1], retrace)


def retracer_of(
    trace: Callable[[Sequence[Spec]], TracedFunction], specs: Sequence[Spec]
) -> Callable[[Mapping[str, int]], object]:
    """Return a function that gives the jaxpr at numbers, under the current settings."""
    wide = is_wide()

    def retrace(numbers: Mapping[str, int]) -> object:
        with jax.enable_x64(wide), for_many_sizes():
            return trace([s.at(numbers) for s in specs]).jaxpr

    return retrace


def _type_at(spec: Spec, symbols: Mapping[str, object]) -> object:
    shape = [symbols[n] if isinstance(n, str) else n for n in spec.shape]
    return array_type(shape, spec.dtype, spec.weak)


def symbols_of(texts: list[str], least: int | None) -> dict[str, object]:
    """JAX's symbols for texts that are names or formulas of names."""
    if not texts:
        return {}
    limited = dict.fromkeys([*(n for text in texts for n in names_in(text)), *texts])
    limits = [] if least is None else [f"{text} >= {least}" for text in limited]
    symbols = jax.export.symbolic_shape(", ".join(texts), constraints=limits)
    return dict(zip(texts, symbols, strict=True))


@dataclass(frozen=True)
class ImportedGraph:
    """A graph, and the arrays to pass after the arguments as its inputs."""

    graph: Graph
    captured: tuple[Any, ...]
    foreign: tuple[str, ...]  # equations that JAX runs, and why
    acts: bool = False  # whether it has effects, such as printing


def inputs_of(
    function: TracedFunction, sizes: Mapping[str, Size], names: Sequence[str]
) -> list[Value]:
    """Create variables for the arguments of a traced function."""
    reader = Reader(JaxSizes(sizes))
    avals = [v.aval for v in function.inner.invars]
    types = map(reader.type_of, avals)
    return [variable(name, type) for name, type in zip(names, types, strict=True)]


def import_traced(
    function: TracedFunction,
    sizes: Mapping[str, Size],
    inputs: Sequence[Value],
    most: int = MOST_CONSTANT,
    differentiates: bool = False,
    keeps_rules: bool = False,
    may_act: bool = False,
) -> ImportedGraph:
    """Read the graph of a traced function, with `sizes` for JAX's symbols.

    Captured arrays with more than `most` elements become inputs. If `differentiates` is
    set, functions keep their derivative rules; if `keeps_rules` is set, JAX gets to see
    the rules. Side effects are refused unless it `may_act`; they are attached to the
    last result, and a function without results gets one that follows its effects.
    Raises Unsupported if the function cannot be read.
    """
    acts = bool(function.inner.effects)
    if acts and (differentiates or keeps_rules or not may_act):
        effects = ", ".join(sorted(map(str, function.inner.effects)))
        raise Unsupported(f"it has side effects: {effects}")
    origin = Origin(function.jaxpr, tuple(sizes), function.retrace, function.sampled)
    jax_sizes = JaxSizes(sizes)
    reader = Reader(jax_sizes, differentiates, origin, keeps_rules, function.pulled)
    for i, (item, aval) in enumerate(function.fed):
        reader.fed[id(item)] = variable(f"number_{i}", reader.type_of(aval))
    consts, variables, arrays = [], [], []
    for i, array in enumerate(function.consts):
        if not is_array(array):
            got = jax.typeof(array)
            raise Unsupported(f"it captures something that is not an array: {got}")
        value = reader.constant(array)
        if id(array) not in reader.fed and np.size(array) > most:
            value = variable(f"captured_{i}", value.type)
            variables.append(value)
            fixed = isinstance(array, jax.Array)  # NumPy's may be written later
            arrays.append(array if fixed else np.array(array))
        consts.append(value)
    outputs = reader.read(function.inner, consts, inputs)
    if may_act and not outputs:
        outputs = [reader.token]
    elif acts:
        outputs = [*outputs[:-1], F._barrier(outputs[-1], reader.token)]
    all_inputs = (*inputs, *variables, *reader.fed.values())
    graph = Graph.of(all_inputs, outputs)
    foreign = tuple(dict.fromkeys(reader.foreign))
    return ImportedGraph(graph, tuple(arrays), foreign, acts)
