"""The jitted function of a program that is one segment, and how segments run."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from graphc.errors import graph_error, shortened
from graphc.ir.graph.nodes import Graph
from graphc.ir.types import ConcreteArray
from graphc.runtime.driver.devices import Target


@dataclass(frozen=True)
class OnlySegment:
    """The jitted function that runs the graph of a plan; `wide` if it needs 64 bits."""

    jitted: Any
    wide: bool
    target: Target

    def lowered(self, jax: ModuleType, args: tuple[object, ...]) -> Any:
        """Lower the jitted function for these arguments."""
        with self.target.settings(jax, self.wide):
            return self.jitted.lower(*args)

    def placed(self, jax: ModuleType, number: object) -> object:
        """Turn a number into an array, so that JAX need not do so at each call.

        `jnp.asarray` would compile a program for the first number of a dtype.
        """
        with self.target.settings(jax, self.wide):
            return jax.device_put(number)


def structs_of(
    jax: ModuleType, arguments: Sequence[ConcreteArray], called: Graph
) -> tuple[object, ...]:
    """Return structs for arguments of given shapes, in the dtypes of the inputs."""
    return tuple(
        jax.ShapeDtypeStruct(_shape(x), v.dtype)
        for x, v in zip(arguments, called.inputs, strict=True)
    )


def _shape(argument: object) -> tuple[int, ...]:
    """Return a shape that was given, or the shape of an array."""
    shape = getattr(argument, "shape", argument)
    if isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape):
        return shape
    raise graph_error(
        "an argument must be given as its shape",
        op="compiled",
        got=shortened(repr(argument)),
        expected="a tuple of integers, or an array",
    )
