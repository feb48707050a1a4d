"""Programs of one segment, lowered and compiled before they are called.

JAX keeps what it has lowered and compiled: a call for which this was done ahead finds
it there.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from graphc.backends.program import entry
from graphc.errors import graph_error, shortened
from graphc.ir.dims import Symbol, evaluate
from graphc.ir.graph import Graph, Value
from graphc.runtime.devices import Target
from graphc.runtime.jax_cache import Executables
from graphc.runtime.prepared import ProgramFacts
from graphc.transform.forecast import SizesGiven, known_sizes
from graphc.transform.plan import Plan


@dataclass(frozen=True)
class OnlySegment:
    """The jitted function that runs the graph of a plan, and whether under 64 bits."""

    jitted: Any
    wide: bool
    target: Target

    @contextmanager
    def settings(self, jax: Any) -> Iterator[None]:
        """Within: JAX has the bits and the device that it runs under."""
        bits = jax.enable_x64(True) if self.wide else nullcontext()
        with bits, self.target.context(jax):
            yield

    def lowered(self, jax: Any, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The jitted function lowered for arguments."""
        with self.settings(jax):
            return [self.jitted.lower(*args) for args in calls]

    def compiled(
        self, jax: Any, calls: Sequence[tuple[Any, ...]], threads: int | None
    ) -> list[Any]:
        """The executables for arguments; XLA compiles them on threads."""
        lowered = self.lowered(jax, calls)
        executables = Executables(jax)

        def compile(one: Any) -> Any:
            with executables.kept():
                return one.compile()

        with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
            return list(pool.map(compile, lowered))


def only_segment(facts: ProgramFacts, module: Any, target: Target) -> OnlySegment:
    """The segment of a program for JAX, `module`, that does nothing else."""
    jitted = module.segment_0
    wide = jitted is not getattr(module, entry(facts.padded))
    return OnlySegment(jitted, wide, target)


def structs_of(jax: Any, given: Sequence[Any], called: Graph) -> tuple[Any, ...]:
    """Arguments of given shapes, in the dtypes of the inputs."""
    return tuple(
        jax.ShapeDtypeStruct(_shape(x), v.dtype)
        for x, v in zip(given, called.inputs, strict=True)
    )


def structs_at(
    jax: Any, plan: Plan, sizes: Mapping[str, SizesGiven], op: str
) -> list[tuple[Any, ...]]:
    """The arguments of a plan's segment at these sizes, each combination once."""
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    count = len(plan.called.inputs)
    for known in known_sizes(plan.called, plan.padded, sizes, op):
        shapes = [_shape_at(v, known) for v in plan.graph.inputs[:count]]
        given = zip(shapes, plan.graph.inputs, strict=False)
        lengths = [known[v.symbol] for v in plan.graph.inputs[count:]]
        key = tuple([*shapes, len(lengths)])
        structs = [jax.ShapeDtypeStruct(shape, v.dtype) for shape, v in given]
        found.setdefault(key, (*structs, *lengths))
    return list(found.values())


def _shape_at(value: Value, sizes: Mapping[Symbol, int]) -> tuple[int, ...]:
    return tuple([evaluate(n, sizes) for n in value.type.shape])


def _shape(given: Any) -> tuple[int, ...]:
    """A shape that was given, or that of what has one."""
    shape = getattr(given, "shape", given)
    if isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape):
        return shape
    raise graph_error(
        "an argument is told by its shape",
        op="compiled",
        got=shortened(repr(given)),
        expected="a tuple of integers, or an array",
    )
