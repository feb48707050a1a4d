"""Equations that JAX runs, because their primitives have no rule here.

At other sizes, the equation is taken from another trace, made at those sizes: params
may hold functions, in which symbols cannot be replaced with numbers.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

from graphc.importers.jax.read.jaxprs import (
    apply_equation,
    array_of,
    equations,
    words_of,
)
from graphc.importers.jax.read.settings import is_wide
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.types import ConcreteArray, TensorType, is_inexact
from graphc.ops.effects.foreign import ForeignFunction

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, Jaxpr

_BY_ELEMENT = {"igamma_grad_a", "random_gamma_grad", "reduce_precision"}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+|id=\d+")


@dataclass(frozen=True)
class JaxFunction(ForeignFunction):
    """A function of arrays that JAX traces wherever a program calls it."""

    @abstractmethod
    def run(
        self, sizes: Sequence[int], arrays: Sequence[ConcreteArray]
    ) -> list[ConcreteArray]:
        """Compute the results when the sizes it depends on have these values."""

    @abstractmethod
    def equation(self, sizes: Sequence[int]) -> JaxprEqn:
        """The equation behind the function, at these sizes."""

    def described(self, sizes: Sequence[int]) -> Hashable:
        """Everything that identifies it at these sizes: equals compute the same."""
        return _equation_text(self.equation(sizes))

    def on_host(self, sizes: Sequence[int], arrays: Sequence[object]) -> list[Any]:
        """Compute the results as arrays of NumPy."""
        with jax.enable_x64(True):  # keeps 64-bit arrays as they are
            return [np.asarray(x) for x in self.run(sizes, [*map(jnp.asarray, arrays)])]

    def pulled(
        self, inputs: Sequence[TensorType], needed: Sequence[bool]
    ) -> "JaxFunction":
        """The pullback, from inputs and cotangents of results to needed cotangents.

        Only results of inexact dtypes have cotangents.
        """
        pairs = zip(inputs, needed, strict=True)
        needed_types = [type for type, is_needed in pairs if is_needed]
        dtypes = tuple(t.dtype for t in needed_types)
        ranks = tuple(t.rank for t in needed_types)
        return _Pulled(f"{self.name}_vjp", dtypes, ranks, self, tuple(needed))

    def batched(self, axes: Sequence[bool]) -> "JaxFunction":
        """The function, mapped over the first axis of the inputs marked in `axes`."""
        ranks = tuple(rank + 1 for rank in self.ranks)
        return _Batched(self.name, self.dtypes, ranks, self, tuple(axes))


@dataclass(frozen=True)
class _Derivative(JaxFunction):
    """A function that JAX derives from another."""

    function: JaxFunction

    def equation(self, sizes: Sequence[int]) -> JaxprEqn:
        """The equation of the original function."""
        return self.function.equation(sizes)


@dataclass(frozen=True)
class _Pulled(_Derivative):
    needed: tuple[bool, ...]

    def described(self, sizes: Sequence[int]) -> Hashable:
        """The description of the original function, and the cotangents wanted."""
        return "vjp", self.needed, self.function.described(sizes)

    def run(
        self, sizes: Sequence[int], arrays: Sequence[ConcreteArray]
    ) -> list[ConcreteArray]:
        inputs = list(arrays[: len(self.needed)])
        at = [i for i, w in enumerate(self.needed) if w]

        def float_results(*chosen: Any) -> list[object]:
            for i, x in zip(at, chosen, strict=True):
                inputs[i] = x
            results = self.function.run(sizes, inputs)
            pairs = zip(results, self.function.dtypes, strict=True)
            return [x for x, dtype in pairs if is_inexact(dtype)]

        _, pull = jax.vjp(float_results, *[inputs[i] for i in at])
        return list(pull(list(arrays[len(self.needed) :])))


@dataclass(frozen=True)
class _Batched(_Derivative):
    axes: tuple[bool, ...]

    def described(self, sizes: Sequence[int]) -> Hashable:
        """The description of the original function, and which inputs are batched."""
        return "batched", self.axes, self.function.described(sizes)

    def run(
        self, sizes: Sequence[int], arrays: Sequence[ConcreteArray]
    ) -> list[ConcreteArray]:
        def one(*arrays: ConcreteArray) -> list[ConcreteArray]:
            return self.function.run(sizes, arrays)

        results: list[Any] = jax.vmap(one, [0 if b else None for b in self.axes])(
            *arrays
        )
        return results


@dataclass(frozen=True)
class EquationAt(JaxFunction):
    """An equation, found by the sizes of its trace."""

    text: str  # equations with equal texts are the same
    find: Callable[[tuple[int, ...]], JaxprEqn] = field(compare=False)
    wide: bool = field(compare=False)  # whether x64 is on where it was traced

    @property
    def is_elementwise(self) -> bool:
        """Whether the primitive is one of those that work element by element."""
        return self.name in _BY_ELEMENT

    def equation(self, sizes: Sequence[int]) -> JaxprEqn:
        """The equation in the trace at these sizes."""
        return self.find(tuple(sizes))

    def run(self, sizes: Sequence[int], arrays: Sequence[ConcreteArray]) -> list[Any]:
        """Compute the results of the equation."""
        eqn = self.equation(sizes)
        pairs = zip(arrays, eqn.invars, strict=True)
        with jax.enable_x64(self.wide):
            operands = [array_of(x, atom.aval) for x, atom in pairs]
            return [words_of(x) for x in apply_equation(eqn, operands)]


@dataclass(frozen=True)
class Origin:
    """The jaxpr that a graph is read from, and how to get it at other sizes."""

    jaxpr: Any
    names: tuple[str, ...]  # of the symbolic sizes
    trace: Callable[[Mapping[str, int]], Any]  # traces at sizes that are numbers
    sampled: bool  # whether its params hold functions of the first of several traces

    def make_function(self, eqn: JaxprEqn, results: Sequence[TensorType]) -> EquationAt:
        """Make a function of an equation.

        Raises Unsupported if the equation has side effects, or cannot be found in a
        trace at other sizes.
        """
        name = eqn.primitive.name
        if eqn.effects:
            raise Unsupported(f"{name}: it has side effects")
        dtypes, ranks = tuple(t.dtype for t in results), tuple(t.rank for t in results)
        wide = is_wide()
        find = (lambda _: eqn) if name in _BY_ELEMENT else self._finder(eqn)
        return EquationAt(name, dtypes, ranks, _equation_text(eqn), find, wide)

    def _finder(self, eqn: JaxprEqn) -> Callable[[tuple[int, ...]], JaxprEqn]:
        if not self.names:
            return lambda _: eqn
        name = eqn.primitive.name
        alike = _equations_named(self.jaxpr, name)
        position = next((i for i, e in enumerate(alike) if e is eqn), None)
        if position is None:
            problem = "it is not found in traces at sizes that are numbers"
            raise Unsupported(f"{name}: {problem}")
        by_sizes: dict[tuple[int, ...], JaxprEqn] = {}

        def find(sizes: tuple[int, ...]) -> JaxprEqn:
            if sizes not in by_sizes:
                candidates = self._equations_at(name, sizes)
                if len(candidates) != len(alike):
                    problem = "traces at other sizes have more of them, or fewer"
                    raise Unsupported(f"{name}: {problem}")
                by_sizes[sizes] = candidates[position]
            return by_sizes[sizes]

        return find

    def _equations_at(self, name: str, sizes: tuple[int, ...]) -> list[JaxprEqn]:
        numbers = dict(zip(self.names, sizes, strict=True))
        return _equations_named(self.trace(numbers), name)


def _equations_named(jaxpr: "Jaxpr | ClosedJaxpr", name: str) -> list[JaxprEqn]:
    return [eqn for eqn in equations(jaxpr) if eqn.primitive.name == name]


def _equation_text(eqn: JaxprEqn) -> str:
    """Everything that makes up an equation except its inputs, as text."""
    params = ", ".join(f"{k}={v}" for k, v in sorted(eqn.params.items()))
    return _ADDRESS.sub("", f"{eqn.primitive.name}({params})")
