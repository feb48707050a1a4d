"""`vmap`, `checkpoint`, `block`, `ragged`: for functions of values or JAX arrays."""

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, overload

from graphc.errors import check_function, graph_error
from graphc.ir.config import Casting
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.tracebacks import hide_own_frames
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.engine.rule import Rules
from graphc.runtime import ragged as examples
from graphc.runtime.call.arguments import Backend
from graphc.runtime.compile import check_options
from graphc.runtime.ragged import check_packing
from graphc.transform import block as blocks
from graphc.transform.derivatives import checkpoint as checkpoints
from graphc.transform.derivatives import vectorize
from graphc.transform.policies import Pad
from graphc.transform.sharding.shards import Shard

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _jax_if_used(arguments: object) -> ModuleType | None:
    """The module JAX if there are arrays of JAX among the arguments, traced or not."""
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    leaves = jax.tree.leaves(arguments)
    return jax if any(isinstance(leaf, jax.Array) for leaf in leaves) else None


@overload
def vmap(
    function: Callable[Parameters, Result], in_axes: object = 0, out_axes: object = 0
) -> Callable[Parameters, Result]: ...
@overload
def vmap(
    function: Graph, in_axes: object = 0, out_axes: object = 0
) -> Callable[..., Any]: ...
def vmap(
    function: Callable[..., object] | Graph, in_axes: object = 0, out_axes: object = 0
) -> Callable[..., Any]:
    """Apply `function` at each index of an axis of its arguments, all at once.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.matrix("x")
    >>> y = graphc.vmap(lambda row: row / gt.sum(row))(x)
    >>> f = graphc.function([x], y, backend="numpy")
    >>> f(np.array([[1, 3], [2, 2]], "float32"))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]], dtype=float32)

    A graph stands for the function of its inputs that returns its output, or a list of
    its outputs.

    An axis is a number, or the name of its size; None passes the whole argument to
    every example. `in_axes` is one axis for all arguments, or a tuple or list with one
    per argument; if an argument is a list or dict of values, these share its axis, or
    their axes are given in the same structure. `out_axes` says where the new axis is in
    the outputs; None is for an output that is the same for all examples.

    The function returned raises GraphError where the mapped axes differ in size, where
    an op cannot be batched, and where a size would differ between examples.

    Called with arrays of JAX, it is `jax.vmap` of the function.
    """
    of_values = vectorize.vmap(function, in_axes, out_axes)
    if isinstance(function, Graph):
        return of_values

    @wraps(function)
    @hide_own_frames
    def mapped(*args: object, **named: object) -> object:
        jax = _jax_if_used((args, named))
        if jax is None:
            return of_values(*args, **named)
        return jax.vmap(function, in_axes, out_axes)(*args, **named)

    return mapped


def checkpoint(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make gradients of `function` recompute its inner values where they need them.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.scalar("x")
    >>> y = graphc.checkpoint(lambda x: gt.sin(gt.exp(x)))(x)
    >>> f = graphc.function([x], graphc.grad(y, x), backend="numpy")
    >>> print(round(float(f(0.0)), 6))
    0.540302

    This trades time for memory: only the arguments, and the values from outside that
    `function` uses, are kept until the backward pass. The values stay the same.

    Called with arrays of JAX, it is `jax.checkpoint` of the function.
    """
    check_function(function, "checkpoint")
    of_values = checkpoints.checkpoint(function)

    @wraps(function)
    def recomputed(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        jax = _jax_if_used((args, named))
        if jax is None:
            return of_values(*args, **named)
        return jax.checkpoint(function)(*args, **named)

    return recomputed


def block(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Mark `function` as a block that a program repeats, such as a layer of a network.

    >>> import graphc, graphc.tensor as gt
    >>> @graphc.block
    ... def layer(x, w):
    ...     return gt.tanh(x @ w) + x
    >>> x, v, w = (gt.tensor(name, "float32", ("n", "n")) for name in "xvw")
    >>> f = graphc.function([x, v, w], layer(layer(x, v), w))
    >>> f.source.count("= layer(")
    2

    Calls that do the same are compiled once: a chain of them as a loop, if that slows
    down no call, and others as one function. Parts of programs that nobody has marked
    are found too, if they are large enough; a marked function is shared however small
    it is, and its name appears in the program. Calls with arguments of the same types
    that do not do the same give a `graphc.BlockWarning`, which names the first op that
    differs and its place.

    Called with arrays of JAX, it is `jax.jit` of the function.
    """
    check_function(function, "block")
    of_values = blocks.block(function)

    @wraps(function)
    def marked(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        jax = _jax_if_used((args, named))
        if jax is None:
            return of_values(*args, **named)
        return jax.jit(function)(*args, **named)

    return marked


@hide_own_frames
def ragged(
    inputs: Sequence[Value] | Callable[..., object],
    outputs: object = None,
    *,
    shared: Sequence[Value] | Sequence[int] = (),
    total: bool = False,
    pad: Pad | None = None,
    group: bool = False,
    batch: int | None = None,
    backend: Backend = "jax",
    rewrites: Rules = DEFAULT,
    casting: Casting | None = None,
    shard: Shard | None = None,
    mesh: object = None,
) -> Any:
    """Compile the graph of one example, to be called with lists of examples.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.tensor("x", "float32", ("n",))
    >>> f = graphc.ragged([x], x / gt.sum(x), backend="numpy")
    >>> for row in f([np.float32([1, 3]), np.float32([2, 1, 1])]):
    ...     print(row)
    [0.25 0.75]
    [0.5  0.25 0.25]
    >>> g = graphc.ragged(lambda w, x: w * x.sum(), shared=[0], total=True)
    >>> print(g(2.0, [np.float32([1, 3]), np.float32([2, 1, 1])]))
    16.0

    The inputs in `shared` are passed once, for all examples. Examples are stacked at
    the capacity of the largest (see `graphc.Pad`), and their true sizes are traced, so
    that compilations depend on capacities only. `group=True` makes one call per
    capacity instead of one for all, which wastes less where sizes differ much. `batch`
    packs the examples, in the order of their sizes, into calls of at most that many:
    memory is bounded, and compilations depend on the sizes of single examples alone.
    `total` sums each output over the examples, as gradients of a loss need; otherwise
    each output is a list of NumPy arrays of their true sizes. `casting` is as for
    `function`. `shard`, such as `graphc.Shard("data")`, spreads the examples over a
    `mesh`, with elements evenly divided.

    In place of inputs and outputs there may be a function of one example, written for
    JAX; `shared` are then the positions of the arguments passed once. Calls take a list
    of examples for each other argument, whose axes vary where the examples' sizes do.

    Raises GraphError where an op needs true sizes, and for a batch of no examples.
    """
    check_options("ragged", backend, rewrites, None)
    check_packing(pad, batch, total, group, shard)
    options: dict[str, Any] = {"total": total, "pad": pad, "group": group}
    options |= {"batch": batch, "backend": backend, "rewrites": rewrites}
    options |= {"shard": shard, "mesh": mesh}
    if not callable(inputs):
        shared_inputs: Any = shared
        return examples.ragged(
            inputs, outputs, shared=shared_inputs, casting=casting, **options
        )
    if outputs is not None or casting is not None:
        problem = "a function has its own outputs, and takes arguments as JAX does"
        raise graph_error(problem, op="ragged", hint="leave outputs and casting out")
    module = importlib.import_module("graphc.importers.jax.ragged")
    return module.RaggedFunction(inputs, tuple(shared), options)
