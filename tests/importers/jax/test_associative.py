"""`jax.lax.associative_scan`: one program for all sizes, with JAX's results at each."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.lax import associative_scan  # found under any name

import graphc

SIZES = (3, 5)  # compiled exactly, and padded


def affine(first, second):
    """Compose maps of the form a x + b, which is not commutative."""
    return {
        "a": first["a"] * second["a"],
        "b": second["a"] * first["b"] + second["b"],
    }


def scanned(x):
    parts = {"a": jnp.cos(x), "b": x}
    by_rows = associative_scan(affine, parts)
    by_columns = lax.associative_scan(affine, parts, reverse=True, axis=1)
    return by_rows, by_columns, lax.associative_scan(jnp.bitwise_xor, x.astype(int))


def weighted(x):
    """The captured weight of the combining function has a derivative, too."""
    weight = jnp.cos(x.sum())
    found = lax.associative_scan(lambda a, b: weight * a * b, jnp.sin(x), axis=-1)
    return jnp.sum(found**2)


def of_each(x):
    """Scan products of matrices under `vmap`, which adds another size."""
    turns = jnp.stack([jnp.cos(x), -jnp.sin(x), jnp.sin(x), jnp.cos(x)], -1)
    turns = turns.reshape(*x.shape, 2, 2)
    return jax.vmap(lambda m: lax.associative_scan(jnp.matmul, m))(turns)


def slopes(x):
    def cost(y):
        weight = jnp.cos(y.mean())

        def weighted(first, second):
            both = affine(first, second)
            return {"a": both["a"], "b": weight * both["b"]}

        parts = {"a": jnp.sin(y), "b": jnp.cos(y)}
        rows = lax.associative_scan(weighted, parts, reverse=True)
        return jnp.sum(jnp.sin(rows["b"]))

    return jax.value_and_grad(cost)(x[0])


def square(n):
    return np.random.default_rng(n).normal(size=(n, n)).astype("float32")


def as_jax_by_each(function, sizes=SIZES, **options):
    ours, theirs = graphc.jit(function, dims="pad", **options), jax.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in sizes:
            x = square(n)
            own, other = jax.tree.leaves_with_path(ours(x)), theirs(x)
            for (path, a), b in zip(own, jax.tree.leaves(other), strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape), path
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    compiled = len(ours.stats().compilations)
    ours(square(sizes[-1] + 1))  # has the same capacity
    assert len(ours.stats().compilations) == compiled
    return compiled


def as_jax_when_padded(function, size=5):
    """Compare at one size, which a program for many serves from the first call on."""
    return as_jax_by_each(function, [size], shapes="n n")


def in_order(x):
    """Functions that are not associative: every result depends on JAX's order."""

    def mixed(a, b):
        return a[0] * a[0] - b[0] * jnp.cos(a[0]), a[1] - 3 * b[1]

    pairs = jnp.sin(x), jnp.arange(x.size).reshape(x.shape)
    weak = jnp.broadcast_to(2.0, x.shape)
    scans = lax.associative_scan(mixed, pairs), lax.associative_scan(mixed, pairs, True)
    return scans, lax.associative_scan(lambda a, b: (a + b) / 2, weak)


def slopes_in_order(x):
    def cost(y):
        return jnp.sum(lax.associative_scan(lambda a, b: a * a - b, y))

    return jax.jacrev(jax.grad(cost))(jnp.sin(x[0]))  # jacrev takes all rows at once


def averaged(x):
    """Weakly typed weights, which promotion turns into strong ones in some steps."""

    def joined(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    weights = jnp.broadcast_to(0.9, x.shape)
    return lax.associative_scan(joined, (weights, x / 9))[1]


@jax.jit
def in_a_function(x):
    """JAX keeps the trace of the first call, in which the size is a number."""
    return lax.associative_scan(affine, {"a": jnp.cos(x), "b": x})


def products(x):
    """First and second derivatives of products, also where elements are zero."""
    with_zeros = jnp.where(jnp.abs(x) < 0.5, 0, x)
    cost = lambda x: jnp.sum(jnp.prod(x, 1) ** 2) + jnp.prod(1 + 1j * x)
    real = jax.grad(lambda x: jnp.real(cost(x)))
    running = jax.grad(lambda x: jnp.sum(jnp.cumprod(x, 0) ** 2))
    return real(with_zeros), jax.hessian(jnp.prod)(x[0]), running(x)


def at_the_end(x):
    """First derivatives of the last result alone, and second derivatives."""
    last = jax.grad(lambda x: lax.associative_scan(jnp.multiply, x)[-1])
    running = jax.grad(lambda x: jnp.cumprod(x).sum())
    return last(1 + x[0] / 9), jax.jvp(running, (1 + x[0] / 9,), (jnp.abs(x[0]),))


def searches(x):
    """Search tables, sorted or not, with NaN, by rows, and within a gradient."""
    table, many = jnp.sort(x.ravel()), jnp.arange(x.size).astype(float)
    missing = jnp.where(jnp.arange(x.size) > 4, jnp.nan, table)
    queries = jnp.append(x[:2], jnp.array([jnp.nan, jnp.inf]))
    both = [
        jnp.searchsorted(t, queries, side=side)
        for t in (table, missing, x[0], many)
        for side in ("left", "right")
    ]
    slope = jax.grad(lambda x: jnp.sum(x[jnp.searchsorted(jnp.sort(x), 0.0) - 1] ** 2))
    return both, jax.vmap(jnp.searchsorted)(jnp.sort(x), x), slope(x[0])


@pytest.mark.parametrize("functions", [(scanned, of_each, in_a_function), (searches,)])
def test_one_program_serves_all_sizes(functions):
    together = lambda x: [function(x) for function in functions]
    assert as_jax_by_each(together) == 2


@pytest.mark.parametrize("functions", [(in_order, averaged), (products,)])
def test_one_program_is_padded(functions):
    together = lambda x: [function(x) for function in functions]
    assert as_jax_when_padded(together) == 1


def test_derivatives_of_many_elements():
    """From 32 elements on, pairs are combined repeatedly, and a loop scans the rest."""
    assert as_jax_when_padded(slopes, 33) == 1


def test_derivatives_of_the_last_and_of_derivatives():
    assert as_jax_when_padded(at_the_end) == 1


def test_derivatives_are_those_of_the_order():
    assert as_jax_when_padded(slopes_in_order) == 1


def test_the_graph_is_differentiated():
    assert as_jax_by_each(graphc.grad(weighted)) == 2


def test_a_function_that_keeps_no_shapes_is_left_to_jax():
    ours = graphc.jit(lambda x: lax.associative_scan(lambda a, b: (a + b)[:1], x))
    theirs = jax.jit(lambda x: lax.associative_scan(lambda a, b: (a + b)[:1], x))
    for n in (4, 5):
        x = np.arange(n, dtype="float32")
        np.testing.assert_array_equal(ours(x), theirs(x))
    assert len(ours.stats().compilations) == 2  # one for each size


def test_traces_by_others_are_those_of_jax():
    """With numbers as sizes, or symbols of `jax.export`, nothing is replaced."""
    x = np.arange(6, dtype="float32")
    found = str(jax.make_jaxpr(lambda x: lax.associative_scan(jnp.add, x))(x))
    assert "while" not in found and "custom_jvp" not in found
    (n,) = jax.export.symbolic_shape("n")
    kind = jax.ShapeDtypeStruct((n,), x.dtype)
    with pytest.raises(Exception, match="non-constant size"):
        jax.export.export(jax.jit(lambda x: lax.associative_scan(jnp.add, x)))(kind)
