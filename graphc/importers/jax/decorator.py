"""`graphc.jit`: the decorator, for functions of JAX and for those of NumPy."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack, overload

from graphc.errors import check_function, graph_error
from graphc.importers.jax.call.decorated_types import (
    Choices,
    Decorator,
    Jitted,
    NumpyDecorator,
    P,
    R,
    SizedCallable,
)
from graphc.importers.jax.jit_function import JitFunction
from graphc.importers.jax.jit_options import JitOptions
from graphc.importers.jax.trace.arguments import Arguments, Positional, StaticNames
from graphc.importers.jax.trace.choices import (
    Options,
    check_choices,
    check_frontend,
    checking_of,
)
from graphc.importers.numpy.function import NumpyFunction
from graphc.ir.tracebacks import hide_own_frames
from graphc.ops.common.conditions import Checking
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.engine.rule import Rules
from graphc.runtime.call.arguments import Backend
from graphc.runtime.shards import unused_mesh_error, with_mesh
from graphc.runtime.variants.decisions import decisions_of

Frontend = Literal["jax", "numpy"]


@overload
def jit(
    function: Callable[P, R],
    *,
    frontend: Literal["jax"] = ...,
    **options: Unpack[Choices],
) -> Jitted[P, R]: ...
@overload
def jit(
    function: Callable[P, R], *, frontend: Frontend, **options: Unpack[Choices]
) -> SizedCallable[P, R]: ...
@overload
def jit(
    function: None = None,
    *,
    frontend: Literal["jax"] = ...,
    **options: Unpack[Choices],
) -> Decorator: ...
@overload
def jit(
    function: None = None, *, frontend: Frontend, **options: Unpack[Choices]
) -> NumpyDecorator: ...
@hide_own_frames
def jit(
    function: Callable[..., object] | None = None,
    *,
    dims: object = None,
    shapes: object = None,
    static_argnums: Positional = None,
    static_argnames: StaticNames = None,
    rewrites: Rules = DEFAULT,
    backend: Backend | None = "jax",
    frontend: Frontend = "jax",
    decisions: object = None,
    check: Checking | None = None,
    mesh: object = None,
    **of_jax: object,
) -> Any:
    """Compile a function written for JAX, as `jax.jit` does, but for many sizes.

    >>> import jax.numpy as jnp, numpy as np, graphc
    >>> @graphc.jit
    ... def mean_square(x):
    ...     return jnp.sum(x**2) / x.shape[0]
    >>> for size in (3, 4, 5, 6, 7, 8):
    ...     value = mean_square(np.ones(size, "float32"))
    >>> print(value, len(mean_square.stats().compilations) < 6)
    1.0 True
    >>> @graphc.jit(frontend="numpy", backend="numpy")
    ... def positive(x):
    ...     return np.sort(x[x > 0])
    >>> positive(np.array([3.0, -1.0, 2.0]))
    array([2., 3.])

    The first call is compiled for its sizes, as by `jax.jit`, though its loops stack
    less. When an axis takes a second size, the function is traced again with a symbol
    for it. The new program then serves all sizes, by the policies in `dims`.

    `shapes="n d, d -> n"` says from the start which axes vary and gives each a name, in
    the order of the leaves of the arguments. JAX traces axes of one element or none
    differently, so these are compiled separately.

    Wherever this cannot be done, `jax.jit` compiles the function, once for each size;
    `explain()` and one `FallbackWarning` say why. Inside transformations of JAX, the
    function acts as `jax.jit` of itself. Other options are those of `jax.jit`, such as
    `inline` and `donate_argnums` (of exact calls; a warning says where sizes vary);
    with `in_shardings`, `device` or `compiler_options` JAX compiles each call.

    `frontend="numpy"` is for a function written with the names of `numpy`. It is traced
    on values of graphc with NumPy's dtypes, and sizes may depend on data, as in
    `x[mask]`, `np.nonzero` and `np.unique`. It raises where NumPy does, as for an index
    out of bounds; `check=False` turns these checks off. `decisions` are files that
    `f.decisions.save(path)` wrote, which tell which sizes vary. `mesh`, or that of
    `jax.set_mesh`, is for `graphc.Shard` in `dims`, on axes that `shapes` names.
    """
    as_jax = JitOptions.read(static_argnums, static_argnames, of_jax)
    check_frontend(frontend)
    decided, checking = decisions_of(decisions, "jit"), checking_of(check, frontend)
    how = Options(dims, rewrites, _backend_for(backend), decided, checking)
    options = _on_mesh(how, mesh, as_jax.reason)
    check_choices(options, shapes, counts=frontend == "numpy")
    make = partial(_FRONTENDS[frontend], as_jax=as_jax, shapes=shapes, options=options)
    return _decorator(make) if function is None else _decorator(make)(function)


def _backend_for(choice: Backend | None) -> Backend:
    """The backend chosen. None is the default of `jax.jit`, which wrappers pass on."""
    return "jax" if choice is None else choice


def _decorator(make: Callable[..., object]) -> Callable[..., object]:
    @hide_own_frames
    def decorated(function: Callable[..., object]) -> object:
        check_function(function, "jit")
        return make(function)

    return decorated


def _on_mesh(options: Options, mesh: object, contradiction: str) -> Options:
    """Return the options with sizes sharded over the mesh that is given or set.

    Raises GraphError if nothing is sharded over a given mesh, or if other options place
    arrays as well.
    """
    dims = with_mesh(options.dims, mesh, {"backend": options.backend}, "jit")
    options = replace(options, dims=dims)
    if options.mesh is None and mesh is not None:
        raise unused_mesh_error("jit")
    if options.mesh is not None and contradiction:
        hint = "leave them out: graphc.Shard in dims says where arrays lie"
        raise graph_error(contradiction, op="jit", hint=hint)
    return options


def _of_numpy(
    function: Callable[..., object],
    as_jax: JitOptions,
    shapes: object,
    options: Options,
) -> NumpyFunction:
    if as_jax.others:
        got = ", ".join(f"{name}={option}" for name, option in as_jax.others.items())
        problem = "only functions of JAX donate arguments, or place them"
        raise graph_error(problem, op="jit", got=got)
    as_jax.jitted(function)  # raises ValueError if it has no such static arguments
    numbers, names = as_jax.static_argnums, as_jax.static_argnames
    arguments = Arguments(function, numbers, names, ordered=True)
    return NumpyFunction(function, arguments, shapes, options)


_FRONTENDS = {"jax": JitFunction, "numpy": _of_numpy}
