"""Everyday functions of varying sizes: XLA compiles them once for each capacity."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
from tests.importers.jax.comparing import outcomes_by_jax, same

pytestmark = pytest.mark.usefixtures("compiled_quickly")
SIZES = (5, 20, 29, 7, 24, 9, 17, 32)
MOST = 3  # the first size exactly, and capacities 16 and 32


def pooled(how, start, padding):
    def loss(x):
        top = lax.reduce_window(x, start, how, (3,), (2,), padding)
        return (top * jnp.cos(jnp.arange(top.size))).sum()

    return jax.grad(loss)


def convolved(argument, **named):
    """The gradient of a convolution with the given strides and paddings."""
    kernel = np.cos(np.arange(6, dtype="float32")).reshape(2, 1, 3)

    def loss(x, kernel):
        windows = lax.conv_general_dilated(x[None, None], kernel, **named)
        return (windows * jnp.cos(jnp.arange(windows.shape[-1]))).sum()

    return lambda x: jax.grad(loss, argument)(x, kernel)


def channels_apart(x):
    """The gradient by kernels, one per channel, of as many examples as `x` has."""
    examples = x[:, None, None] * jnp.cos(jnp.arange(12.0)).reshape(3, 4)

    def loss(kernels):
        windows = lax.conv_general_dilated(
            examples, kernels, (1,), "SAME", feature_group_count=3
        )
        return (windows**2).sum()

    return jax.grad(loss)(jnp.cos(jnp.arange(6.0)).reshape(3, 1, 2))


FUNCTIONS = {
    # Results of weak types, which buffers do not have.
    "selected numbers": lambda x: jnp.where(x > 0, 1.0, 0.0),
    "a number everywhere": lambda x: jnp.full(x.shape, 2),
    "a weak and a strong type": lambda x: (jnp.where(x > 0, 1, 0), x > 0),
    "a size": lambda x: x.shape[0],
    # Slices made by JAX, none of which has a negative bound.
    "two rolls": lambda x: (jnp.roll(x, 3), jnp.roll(x, x.shape[0] // 2)),
    "the last apart": lambda x: jnp.split(x, [x.shape[0] - 3]),
    "the middle apart": lambda x: jnp.split(x, [x.shape[0] // 2, x.shape[0] - 1]),
    # Windows that start at another place for each size.
    "largest of windows": pooled(lax.max, -jnp.inf, "SAME"),
    "least of windows": pooled(lax.min, jnp.inf, "SAME"),
    "windows of even sizes": pooled(lax.max, -jnp.inf, "SAME_LOWER"),
    # Gradients of convolutions, whose paddings are formulas of sizes.
    "kernels of channels": channels_apart,
    "an array, by two": convolved(0, window_strides=(2,), padding="SAME"),
    "an array, by three": convolved(0, window_strides=(3,), padding=[(1, 1)]),
    "a kernel, by two": convolved(1, window_strides=(2,), padding="VALID"),
    "a kernel, by three": convolved(1, window_strides=(3,), padding="SAME_LOWER"),
    "a wide kernel": convolved(
        1, window_strides=(2,), padding="SAME", rhs_dilation=(2,)
    ),
}


def with_ties(n):
    return np.cos(np.arange(n, dtype="float32") ** 2).round(1)


@cache
def results_of_jax(function):
    return outcomes_by_jax(FUNCTIONS[function], {n: (with_ties(n),) for n in SIZES})


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dims", [None, "pad"])
def test_a_capacity_is_compiled_once(function, dims, events):
    theirs, expected = FUNCTIONS[function], results_of_jax(function)
    ours = graphc.jit(theirs) if dims is None else graphc.jit(theirs, dims=dims)
    compiled = 0
    for n in SIZES:
        del events[:]
        results = ours(with_ties(n))
        compiled += len(events)
        same(results, expected[n], rtol=1e-5)
    assert compiled <= MOST


@pytest.mark.parametrize("padding", [3, [1], [(0.5, 1)], "NONE"], ids=str)
def test_errors_about_paddings_are_those_of_jax(padding):
    """JAX's own function, replaced by graphc, gets paddings that are no formulas."""
    x, kernel = jnp.ones((1, 2, 5)), jnp.ones((3, 2, 2))
    with pytest.raises((ValueError, RuntimeError), match="(?i)padding"):
        graphc.jit(lambda x: lax.conv_general_dilated(x, kernel, (1,), padding))(x)
    with pytest.raises((ValueError, RuntimeError), match="(?i)padding"):
        lax.conv_general_dilated(x, kernel, (1,), padding)


def test_a_size_that_jax_treats_alone_leaves_one_program_for_the_others():
    """JAX leaves an image as it is if half of its size and 1 is its size."""

    def halved(x):
        return jax.image.resize(x, (x.shape[0] // 2 + 1, 2), "linear")

    function = graphc.jit(halved, dims="pad")
    for size in (3, 2, 5, 9, 12, 7, 15):
        x = np.cos(np.arange(2.0 * size, dtype="float32")).reshape(size, 2)
        np.testing.assert_allclose(function(x), halved(x), atol=1e-6)
    assert len(function.stats().compilations) <= MOST
