"""`from_jax`: the graph of a function written for JAX."""

import inspect
import sys
from collections.abc import Callable
from itertools import chain, count
from typing import Any

import jax
import jax.export

from graphc.errors import check_function, graph_error
from graphc.importers.jax.read.sizes import names_in
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.trace.recorder import NoNumbers, Undecided
from graphc.importers.jax.trace.tracing import (
    Spec,
    SpecShape,
    import_traced,
    inputs_of,
    trace_function,
)
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.sizes.dims import Size, axis, symbol_dim
from graphc.ir.sizes.polynomials import Symbol
from graphc.ir.sizes.text import expression
from graphc.ir.tracebacks import hide_own_frames


def _require_one_each(
    function: Callable[..., object], specs: tuple[object, ...]
) -> None:
    """Raise GraphError if the function does not take one argument for each type."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function written in C may have none
        return
    try:
        signature.bind(*specs)
    except TypeError as error:
        raise graph_error(
            f"needs the type of each argument of the function: {error}",
            op="from_jax",
            got=f"{len(specs)} of {signature}",
            hint='jax.ShapeDtypeStruct((3,), "float32"), or gt.vector("x")',
        ) from None


@hide_own_frames
def from_jax(function: Callable[..., object], *specs: object) -> Graph:
    """Return the graph of a function written for JAX, for arguments like these.

    >>> import jax.numpy as jnp, numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.tensor("x", "float32", ("n",))
    >>> graph = graphc.from_jax(lambda x: jnp.sum(x**2) / x.shape[0], x)
    >>> mean_square = graphc.function(graph.inputs, graph.outputs[0])
    >>> print(mean_square(np.array([1, 2, 4], "float32")))
    7.0

    An argument is a variable of graphc, which becomes an input of the graph; an array;
    a `jax.ShapeDtypeStruct`, whose sizes may be symbols of `jax.export`; or a dict,
    list or other pytree of these. The function is traced once. JAX takes symbolic sizes
    to be at least 1, and different symbols to be different sizes.

    Arrays that the function captures become constants of the graph. Raises GraphError,
    with the user's line, if a primitive has no op here, or if the function decides by a
    symbolic size.
    """
    check_function(function, "from_jax")
    _require_one_each(function, specs)
    leaves, form = jax.tree.flatten(specs)
    symbols = _Symbols()
    traced_specs = [_spec(leaf, symbols) for leaf in leaves]

    def flat(*arguments: object) -> object:
        return function(*jax.tree.unflatten(form, arguments))

    try:
        trace = trace_function(flat, traced_specs, recorder=NoNumbers())
        names = [f"argument_{i}" for i in range(len(leaves))]
        new_inputs = inputs_of(trace, symbols.sizes, names)
        pairs = zip(leaves, new_inputs, strict=True)
        inputs = [leaf if isinstance(leaf, Value) else v for leaf, v in pairs]
        return import_traced(trace, symbols.sizes, inputs, sys.maxsize).graph
    except Unsupported as error:
        problem = f"this function of JAX cannot be read: {error.reason}"
        raise graph_error(problem, op="from_jax", where=error.place) from None
    except Undecided as error:
        raise graph_error(
            "this function of JAX decides by a size, but has one graph for all sizes",
            op="from_jax",
            got=f"{error.question}, which is open",
            hint="give the size as a number, or let graphc.jit trace the function",
            where=error.place,
        ) from None


class _Symbols:
    """Unique names, as JAX needs them, for the symbols of sizes."""

    def __init__(self) -> None:
        self.sizes: dict[str, Size] = {}
        self._names: dict[Symbol, str] = {}

    def text(self, size: Size) -> int | str:
        """Return a size in the form that JAX reads."""
        if isinstance(size, int):
            return size
        return expression(size, self._name)

    def _name(self, symbol: Symbol) -> str:
        if symbol not in self._names:
            numbered = (f"{symbol.name}_{i}" for i in count(1))
            candidates = chain([symbol.name], numbered)
            name = next(n for n in candidates if n not in self.sizes)
            self._names[symbol] = name
            self.sizes[name] = symbol_dim(symbol)
        return self._names[symbol]

    def of_jax(self, size: Any) -> int | str:
        """Return a size of JAX, and add an axis for each of its symbols."""
        if jax.export.is_symbolic_dim(size):
            for name in names_in(str(size)):
                self.sizes.setdefault(name, axis(name))
            return str(size)
        return int(size)


def _spec(leaf: object, symbols: _Symbols) -> Spec:
    """The type of an argument. Raises GraphError for other kinds of arguments."""
    if isinstance(leaf, Value):
        if leaf.node.primitive is not INPUT:
            raise graph_error(
                "arguments must be variables", op="from_jax", got=repr(leaf)
            )
        shape: SpecShape = tuple(map(symbols.text, leaf.type.shape))
        return Spec(shape, leaf.dtype)
    if isinstance(leaf, jax.ShapeDtypeStruct):
        sizes = tuple(map(symbols.of_jax, leaf.shape))
        return Spec(sizes, leaf.dtype, bool(leaf.weak_type))
    try:
        return Spec.of(leaf)
    except TypeError:
        raise graph_error(
            "arguments must be arrays, types of arrays, or variables",
            op="from_jax",
            got=repr(leaf),
            hint='jax.ShapeDtypeStruct((3,), "float32"), or gt.vector("x")',
        ) from None
