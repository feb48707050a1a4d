"""`graphc.optimize`: rewrite a JAX function, for users to transform further."""

from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Any

import jax.export
import jax.numpy as jnp

from graphc.errors import check_function
from graphc.importers.decorated_function import DecoratedFunction
from graphc.importers.jax.call.exact import Exact, compile_exactly
from graphc.importers.jax.sizes.pattern import shapes_of
from graphc.importers.jax.trace.arguments import Arguments
from graphc.importers.jax.trace.choices import Options
from graphc.importers.jax.trace.subject import Subject
from graphc.ir.tracebacks import hide_own_frames
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.engine.rule import Rules
from graphc.runtime.compile import check_options


class OptimizedFunction(DecoratedFunction):
    """A JAX function that is rewritten when it is called; see `optimize`."""

    def __init__(self, function: Callable[..., object], options: Options) -> None:
        check_function(function, "optimize")
        update_wrapper(self, function)
        self._function = function
        self._arguments = Arguments(function)
        self._options = options
        self._known: dict[Hashable, Exact] = {}

    def _parts(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._function, (self._options,)

    @hide_own_frames
    def __call__(self, /, *args: object, **named: object) -> Any:
        """Compute the results with the rewritten program; arguments may be traced."""
        call = self._arguments.call(args, named)
        specs = call.specs()
        sizes = [n for leaf in call.leaves for n in jnp.shape(leaf)]
        if any(map(jax.export.is_symbolic_dim, sizes)):
            return self._function(*args, **named)  # the whole trace is rewritten
        key = call.kind(specs), shapes_of(specs)
        if key not in self._known:
            form = call.without_leaves()
            subject = Subject(self._function, form, keeps_rules=True)
            names = [f"x{i}" for i in range(len(specs))]
            self._known[key] = compile_exactly(subject, specs, names, self._options)
        return self._known[key]([_as_array(leaf) for leaf in call.leaves])

    def explain(self) -> str:
        """The rules that were applied to each kind of call."""
        lines = [f"optimize of {getattr(self._function, '__name__', 'the function')}"]
        for one in self._known.values():
            applied = [] if one.rewritten is None else one.rewritten.rewrites
            lines += map(str, applied) if applied else ["as JAX traces it"]
            lines += [f"not read as a graph: {one.reason}"] * bool(one.reason)
            lines += [f"run by JAX in it: {reason}" for reason in one.foreign]
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return f"<graphc.optimize of {self._function!r}>"


def _as_array(leaf: object) -> Any:
    return leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf)


def optimize(
    function: Callable[..., object], *, rewrites: Rules = DEFAULT
) -> OptimizedFunction:
    """Rewrite a function of JAX: the result is plain JAX, to jit or to transform.

    >>> import jax, jax.numpy as jnp, numpy as np, graphc
    >>> def total(x):
    ...     return jnp.sum(jax.lax.scan(lambda c, v: (c + v, c * v), 0.0, x)[1])
    >>> slope = jax.jit(jax.grad(graphc.optimize(total)))
    >>> print(slope(np.array([1, 2, 3], "float32")))
    [5. 4. 3.]

    The rewritten function is what `graphc.jit` compiles for the sizes of a call: loops
    stack less, and needless arrays are not made. Functions with derivative rules of
    their own keep these, under the transformations of JAX too. The rest stays as JAX
    traces it; `explain()` tells what was done.
    """
    check_options("optimize", "jax", rewrites, None)
    return OptimizedFunction(function, Options(None, rewrites, "jax"))
