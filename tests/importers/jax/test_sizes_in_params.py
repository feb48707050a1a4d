"""Params of primitives that are sizes according to their rules.

If a function needs a size as a number, its traces at several sizes are put together: an
integer may follow a formula only if a rule says that it is a size.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

from graphc.importers.jax.read.jaxprs import equations
from graphc.importers.jax.read.rules import PRIMITIVES
from tests.importers.jax.comparing import compare_together

ROW = jnp.arange(1.0, 200.0)
ONLY_OF_SYMBOLS = {("dim_as_value", "dim")}


def windows(initial, op, n):
    return (
        lax.reduce_window(ROW[: 4 * n], initial, op, (n,), (n // 2,), [(n, n)]),
        lax.reduce_window(ROW, initial, op, (2,), (1,), "VALID", window_dilation=(n,)),
        lax.reduce_window(ROW, initial, op, (-n % 5,), (1,), [(n % 3, 0)]),
    )


def largest_of_windows(row, n):
    return lax.reduce_window(row, -jnp.inf, lax.max, (n,), (n // 2,), [(n, n)])


def tangents_of_windows(n):
    row = jnp.sin(ROW[: 4 * n])
    dilated = partial(
        lax.reduce_window,
        init_value=-jnp.inf,
        computation=lax.max,
        window_dimensions=(2,),
        window_strides=(1,),
        padding="VALID",
        window_dilation=(n,),
    )
    functions = dilated, lambda row: largest_of_windows(row, n)
    return [jax.jvp(function, (row,), (row,)) for function in functions]


def convolutions(n):
    signal, kernel = ROW[None, None, : 4 * n], jnp.array([[[1.0, 2.0, 3.0]]])
    convolved = partial(lax.conv_general_dilated, signal, kernel)
    return (
        convolved((n // 2,), [(n, n + 1)]),
        convolved((1,), [(2 * n, 2 * n)], rhs_dilation=(n,)),
        convolved((1,), [(0, 0)], lhs_dilation=(n,)),
    )


def convolutions_of_groups(n):
    signal, kernels = ROW[: 5 * n].reshape(1, n, 5), ROW[: 2 * n].reshape(n, 1, 2)
    convolved = partial(lax.conv_general_dilated, window_strides=(1,), padding="VALID")
    examples = signal.reshape(n, 1, 5)
    return (
        convolved(signal, kernels, feature_group_count=n),
        convolved(examples, kernels, batch_group_count=n),
    )


# Functions of a size as a number, each for the sake of one primitive.
BY_SIZES = {
    "broadcast_in_dim": lambda n: jnp.full((n, 2), 3.0),
    "reshape": lambda n: ROW[: 4 * n].reshape(n, 4),
    "iota": jnp.arange,
    "slice": lambda n: (ROW[n : 3 * n], lax.slice(ROW, (0,), (4 * n,), (n,))),
    "split": lambda n: jnp.split(ROW, [n, 2 * n]),
    "tile": lambda n: jnp.tile(ROW[:2], n),
    "pad": lambda n: jnp.pad(ROW, (n, 1)),
    "reduce_window_max": partial(windows, -jnp.inf, lax.max),
    "reduce_window_min": partial(windows, jnp.inf, lax.min),
    "reduce_window_sum": partial(windows, 0.0, lax.add),
    "reduce_window": partial(windows, 1.0, lambda a, b: a * b / 9),
    "select_and_scatter_add": lambda n: jax.grad(
        lambda row: largest_of_windows(row, n).sum()
    )(jnp.sin(ROW[: 4 * n])),
    "select_and_gather_add": tangents_of_windows,
    "conv_general_dilated": convolutions,
    "groups of conv_general_dilated": convolutions_of_groups,
    "gather": lambda n: jax.vmap(lambda i: lax.dynamic_slice(ROW, (i,), (n,)))(
        jnp.arange(3)
    ),
    "dynamic_slice": lambda n: lax.dynamic_slice(ROW, (jnp.int32(3),), (n,)),
    "top_k": lambda n: lax.top_k(ROW, n),
    "approx_top_k": lambda n: lax.approx_max_k(ROW, n),
    "fft": lambda n: jnp.abs(jnp.fft.rfft(ROW, n)),
    "lu_pivots_to_permutation": lambda n: lax.linalg.lu_pivots_to_permutation(
        jnp.array([2, 1, 2], "int32"), n
    ),
    "scan": lambda n: lax.scan(lambda c, _: (c + 1, c), 0.0, length=n, unroll=n),
    "unrolled scan": lambda n: lax.scan(
        lambda c, _: (c + 1, c), 0.0, length=n, unroll=1 + n % 3
    ),
    "pure_callback": lambda n: jax.pure_callback(
        np.cumsum, jax.ShapeDtypeStruct((2 * n,), "float32"), ROW[: 2 * n]
    ),
    "io_callback": lambda n: io_callback(
        np.cumsum, jax.ShapeDtypeStruct((2 * n,), "float32"), ROW[: 2 * n]
    ),
    "keys": lambda n: jax.random.uniform(
        jax.random.split(jax.random.key(0), n)[1], (n,)
    ),
}


def by_size(name):
    """A function of an array that needs its size as a number."""
    return lambda x: (BY_SIZES[name](int(x.shape[0])), x + 1)


def vector(n):
    return np.ones(n, "float32")


GROUPS = 5  # functions are compiled in groups, which saves time


@pytest.mark.parametrize("group", range(GROUPS))
def test_sizes_in_params_follow_a_formula(group):
    rows = {name: (by_size(name), ["n"]) for name in [*BY_SIZES][group::GROUPS]}
    stats = compare_together(rows, (6, 8, 4), rtol=1e-4).stats()
    assert stats.fallbacks == []
    exact = [one for one in stats.compilations if one.program.startswith("exactly")]
    assert len(exact) == 1 < len(stats.compilations)  # the program of the first size


def varying(name):
    """Yield the primitives and params that differ between traces at two sizes."""
    traces = [jax.make_jaxpr(by_size(name))(vector(n)) for n in (6, 8)]
    for a, b in zip(*map(equations, traces), strict=True):
        of = a.primitive.name
        sizes = PRIMITIVES.sizes_of(of) if PRIMITIVES.has_rule(of) else ()
        yield from ((of, k) for k in sizes if a.params[k] != b.params[k])


def test_each_param_that_holds_sizes_is_tried():
    of_rules = {
        (name, param)
        for name in filter(PRIMITIVES.has_rule, PRIMITIVES)
        for param in PRIMITIVES.sizes_of(name)
    }
    tried = {pair for name in BY_SIZES for pair in varying(name)}
    assert of_rules - ONLY_OF_SYMBOLS == tried
