"""Functions that JAX calls on the host get arrays of true sizes, in one program."""

import math
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify, io_callback

import graphc

SIZES = (3, 6, 4, 5)


def vector(n):
    return np.arange(1, n + 1, dtype="float32")


def kind(x, *more):
    return jax.ShapeDtypeStruct((*x.shape, *more), x.dtype)


def as_jax_by_each(function, foreign=False, dims="pad"):
    """Compare with JAX at several sizes; return the compilations."""
    ours, theirs = graphc.jit(function, dims=dims), jax.jit(function)
    for n in SIZES:
        found, other = (jax.tree.leaves(f(vector(n))) for f in (ours, theirs))
        for a, b in zip(found, other, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-5)
    stats = ours.stats()
    assert stats.fallbacks == [] and bool(stats.foreign) == foreign
    return stats.compilations


def test_arrays_are_those_of_true_sizes():
    seen = []

    def called(v, w, z):
        assert isinstance(v, jax.Array)
        seen.append((v.shape, w.shape, z.shape))
        return {"a": np.outer(v, w), "b": np.sort(v)[::-1]}

    def function(x):
        kinds = {"a": kind(x, 2 * x.shape[0]), "b": kind(x)}
        found = jax.pure_callback(called, kinds, x * 2, jnp.repeat(x, 2), x[0])
        fixed = jax.pure_callback(np.square, jax.ShapeDtypeStruct((), x.dtype), x[1])
        return found["a"].sum(0), found["b"] + fixed

    assert len(as_jax_by_each(function)) == 2
    assert {*seen} == {((n,), (2 * n,), ()) for n in SIZES}


@pytest.mark.parametrize("dims", ["pad", "specialize"])
def test_a_function_that_raises_is_called_in_its_branch_only(dims):
    def fails(_):
        raise RuntimeError("called")

    def guarded(x):
        """Libraries check values so, with a callback that gets none of the arrays."""
        return lax.cond(
            x[0] > x[-1],
            lambda: jax.pure_callback(fails, kind(x), jnp.int32(0)),
            lambda: x * 2,
        )

    as_jax_by_each(guarded, dims=dims)
    ours = graphc.jit(guarded, dims=dims)
    ours(vector(3)), ours(vector(4))
    with pytest.raises(jax.errors.JaxRuntimeError, match="called"):
        jax.block_until_ready(ours(-vector(5)))


def test_a_function_that_holds_sizes_is_that_of_its_trace():
    def function(x):
        n, box = x.shape[0], [x.shape]

        def scaled(v):
            return np.asarray(v) * n + box[0][0]

        return jax.pure_callback(scaled, kind(x), x)

    def by_text(x):
        text = f"{x.shape[0]}"  # the callback holds a text that differs by size
        return jax.pure_callback(lambda v: np.asarray(v) * int(text), kind(x), x)

    as_jax_by_each(function, foreign=True)
    as_jax_by_each(by_text, foreign=True)


def checked(x, message):
    """Libraries check values so, with a callback that holds a new mark each time."""
    marks = [os.urandom(16), message]

    def raises(_):
        raise RuntimeError(marks[1])

    struct = kind(x)
    return lax.cond(
        x[0] > x[-1],
        lambda: jax.pure_callback(raises, struct, jnp.int32(0)),
        lambda: x,
    )


def test_traces_at_several_sizes_call_the_functions_of_each():
    def function(x):
        n, box = int(x.shape[0]), [len(x) * 1.5]
        y = checked(x / math.sqrt(n), f"of {n}")
        y += jax.pure_callback(lambda v: np.asarray(v) * np.float32(box[0]), kind(y), y)
        return y + jax.pure_callback(lambda v: np.cos(v), kind(x), x)

    assert len(as_jax_by_each(function)) <= 3
    ours = graphc.jit(function, dims="pad")
    errors = ValueError, jax.errors.JaxRuntimeError  # JAX raises one of these
    for n in (3, 4, 5, 4):
        ours(vector(n))
        with pytest.raises(errors, match=f"of {n}"):
            jax.block_until_ready(ours(-vector(n)))


def test_functions_that_hold_the_same_are_one_for_several_traces():
    def function(x):
        y = jax.pure_callback(lambda v: np.cos(v), kind(x), x / math.sqrt(x.shape[0]))
        return y * np.arange(x.shape[0], dtype="float32")

    assert len(as_jax_by_each(function)) <= 3


def test_a_result_of_another_shape_is_an_error():
    ours = graphc.jit(lambda x: jax.pure_callback(lambda v: v[:2], kind(x), x))
    for n in (3, 4, 5):
        with pytest.raises(jax.errors.JaxRuntimeError):
            jax.block_until_ready(ours(vector(n)))


def test_both_backends_call_it():
    def function(x):
        return jax.pure_callback(lambda v: np.asarray(v) + math.pi, kind(x), x) * 2

    for backend in ("numpy", "jax"):
        ours = graphc.jit(function, backend=backend, shapes="n", dims="pad")
        for n in SIZES:
            found = np.asarray(ours(vector(n)))
            np.testing.assert_allclose(found, (vector(n) + math.pi) * 2, rtol=1e-6)


def test_examples_of_different_sizes():
    def function(x):
        shape = kind(x)
        return jax.pure_callback(np.cumsum, shape, x, vmap_method="sequential") + x

    ours = graphc.ragged(function)
    for sizes in ((3, 4, 2), (5, 2)):
        for row, n in zip(ours([vector(n) for n in sizes]), sizes, strict=True):
            np.testing.assert_allclose(row, np.cumsum(vector(n)) + vector(n))


CALLS = {
    "pure": jax.pure_callback,
    "acting": io_callback,
    "acting in order": partial(io_callback, ordered=True),
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_numbers_are_as_wide_as_in_the_function(name, wide):
    widths = []

    def called(v):
        widths.append((jnp.ones(2) * 0.5).dtype)
        return np.asarray(v, "float64") * 2

    def function(x):
        return CALLS[name](called, kind(x), x)

    with jax.enable_x64(wide):
        as_jax_by_each(lambda x: function(x.astype(float)))
    assert {*widths} == {np.dtype("float64" if wide else "float32")}


def test_a_loop_that_is_checked_is_read():
    def step(carry):
        checkify.check(carry[0] < 2, "two steps are too many")
        return carry[0] + 1, carry[1] * 2

    def loop(x):
        return lax.while_loop(lambda c: c[0] < 4, step, (0, x))[1]

    checked = graphc.jit(checkify.checkify(loop))
    for n in SIZES:
        error, result = checked(vector(n))
        np.testing.assert_array_equal(result, vector(n) * 16)
        assert "two steps" in error.get()
    assert checked.stats().fallbacks == []
