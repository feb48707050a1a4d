"""Calls that XLA would compute wrongly, even at the first size, agree with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
from graphc.importers.jax.call.xla_mistakes import may_abort

X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
BYTES = np.random.default_rng(1).integers(-128, 128, (64, 70)).astype("int8")


def shifted(y):
    """Move rows on by one; the first one stays."""
    new = y.copy()
    new[1:] = y[:-1]
    return new


def turned(y):
    """Turn the first column upside down."""
    new = y.copy()
    new[:, 0] = y[::-1, 0]
    return new


def within(f):
    """Wrap `f` in a function that calls it jitted."""
    return lambda x: jax.jit(f)(x * 2, x * 2)


OVERLAPS = {  # functions of JAX and of NumPy
    "rows": (
        lambda x: (x * 2).at[1:].set((x * 2)[:-1])[None],
        lambda x: shifted(2 * x),
    ),
    "of an argument": (lambda x: x.at[1:].set(x[:-1])[None], shifted),
    "column": (
        lambda x: jnp.tanh(x).at[:, 0].set(jnp.tanh(x)[::-1, 0])[None],
        lambda x: turned(np.asarray(jnp.tanh(x))),
    ),
    "window": (
        lambda x: lax.dynamic_update_slice(x + 1, (x + 1)[:-1], (1, 0))[None],
        lambda x: shifted(x + 1),
    ),
    "reshaped": (
        lambda x: (x * 2).reshape(3, 8).at[1:].set((x * 2).reshape(3, 8)[:-1])[None],
        lambda x: shifted((x * 2).reshape(3, 8)),
    ),
    "jitted within": (
        within(lambda a, b: a.at[1:].set(b[:-1])[None]),
        lambda x: shifted(2 * x),
    ),
    "loop": (
        lambda x: lax.fori_loop(0, 2, lambda i, y: y.at[1:].set(y[:-1]), x * 2)[None],
        lambda x: shifted(shifted(2 * x)),
    ),
}


@pytest.mark.parametrize("dims", ["auto", "specialize", "pad"])
@pytest.mark.parametrize("name", OVERLAPS)
def test_part_of_an_array_that_is_set_by_other_elements(name, dims):
    function, expected = OVERLAPS[name]
    f = graphc.jit(function, dims=dims)
    for _ in range(2):
        np.testing.assert_allclose(f(X)[0], expected(X), rtol=1e-6)


NARROW = {
    "extreme": (lambda x: jnp.max(x * x), lambda x: np.max(x * x)),
    "of rows": (lambda x: jnp.min(x + x, 1), lambda x: np.min(x + x, 1)),
    "that is read": (lambda x: x - jnp.max(x), lambda x: x - np.max(x)),
    "sum of floats": (
        lambda x: jnp.sum((x * x).astype("float32")),
        lambda x: np.sum((x * x).astype("float32")),
    ),
    "jitted within": (within(lambda a, b: jnp.max(a * b)), lambda x: np.max(4 * x * x)),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", NARROW)
def test_integers_of_8_bits_wrap_around(name, dtype):
    function, expected = NARROW[name]
    x = BYTES.view(dtype)
    result = graphc.jit(function)(x)
    assert result.dtype == expected(x).dtype
    np.testing.assert_array_equal(result, expected(x))


def doubled(x):
    """Update a part that depends only on itself."""
    return x.at[1:3].multiply(2.0)


def appended(x):
    """Write a row that is computed from other arrays."""
    return jnp.zeros((8, 4), "float32").at[2].set(jnp.tanh(x[0]))


def rewritten_in_place(x):
    """Replace a window by what is computed from it."""
    return lax.dynamic_update_slice(x, lax.dynamic_slice(x, (2, 0), (2, 4)) * 2, (2, 0))


STAY = {
    "part of itself": (doubled, X),
    "of others": (appended, X),
    "window in its place": (rewritten_in_place, X),
    "floats": (lambda x: jnp.max(x * x), BYTES.astype("float32")),
    "bytes that are not computed": (lambda x: jnp.sum(x.astype("float32")), BYTES),
    "few bytes": (lambda x: jnp.max(x * x), BYTES[:4, :4]),
}


@pytest.mark.parametrize("name", STAY)
def test_others_are_compiled_as_jax_traces_them(name):
    function, x = STAY[name]
    f = graphc.jit(function)
    np.testing.assert_array_equal(f(x), jax.jit(function)(x))
    assert "as JAX traces it" in f.explain()


def test_programs_of_graphs_say_so():
    f = graphc.jit(OVERLAPS["rows"][0])
    f(X)
    assert "as JAX traces it" not in f.explain() and "rewritten" in f.explain()


EMPTY = {
    "slice": lambda x, y: jnp.concatenate([x, y, x])[len(x) : len(x)],
    "split": lambda x, y: jnp.split(jnp.concatenate([x, y]), [3, 3])[1],
    "window": lambda x, y: jax.jit(
        lambda x, y: lax.dynamic_slice(jnp.concatenate([x, y]), (3,), (0,))
    )(x, y),
}


@pytest.mark.parametrize("name", EMPTY)
def test_no_elements_next_to_an_empty_array(name):
    x, y = jnp.ones(3), jnp.ones(0)
    assert may_abort(jax.make_jaxpr(EMPTY[name])(x, y).jaxpr)  # else the test might
    assert graphc.jit(EMPTY[name])(x, y).shape == (0,)


def test_no_results_of_no_elements():
    ours = graphc.jit(lambda x, y: {} if EMPTY["slice"](x, y).size else [None])
    assert ours(jnp.ones(3), jnp.ones(0)) == [None]
    assert "rewritten" in ours.explain()


def test_other_empty_arrays_leave_the_trace_to_jax():
    ours = graphc.jit(lambda x, y: (jnp.concatenate([x, y]), x[1:]))
    assert ours(jnp.ones(3), jnp.ones(0))[0].shape == (3,)
    assert "as JAX traces it" in ours.explain()


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_ranges_that_wrap_around_are_negative_there(dtype):
    def numbers(x):
        i = jnp.arange(257, dtype=dtype)
        return jnp.where(i < 0, x[0], 1), x[:100].at[i].add(1)

    ours, x = graphc.jit(numbers), jnp.arange(257.0) + 2
    for ours_part, part in zip(ours(x), numbers(x), strict=True):
        np.testing.assert_array_equal(ours_part, part)
    assert ("as JAX traces it" in ours.explain()) == (dtype == "int32")
