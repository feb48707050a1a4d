"""Axes whose sizes are formulas: padded where the size follows, else specialized."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.errors.messages import both

POLICIES = ["auto", "pad", "specialize"]


def ones(*shape):
    return np.ones(shape, "float32")


@both
@pytest.mark.parametrize("dims", POLICIES)
@pytest.mark.parametrize(("axis", "size"), [("2*n", 6), ("n + 1", 1), ("3*n + 2", 5)])
def test_one_axis_tells_the_size(axis, size, dims, backend):
    x = gt.tensor("x", "float32", (axis,))
    f = graphc.function([x], gt.cumsum(x), dims=dims, backend=backend)
    step = {"2*n": 2, "n + 1": 1, "3*n + 2": 3}[axis]
    for rows in range(size, size + 40 * step, 7 * step):
        np.testing.assert_array_equal(f(ones(rows)), np.arange(1, rows + 1))
    if backend == "jax" and dims == "pad":
        assert len(f.stats().compilations) <= 4


@both
@pytest.mark.parametrize("dims", POLICIES)
def test_sizes_that_no_axis_tells_are_specialized(dims, backend):
    x = gt.tensor("x", "float32", ("n + m",))
    y = gt.tensor("y", "float32", ("n",))
    f = graphc.function([x, y], gt.sum(x) + gt.sum(y), dims=dims, backend=backend)
    for n in range(1, 9):
        assert f(ones(2 * n + 1), ones(n)) == 3 * n + 1
    assert f.stats().changes == []


def test_a_size_that_no_axis_tells_is_not_padded_by_name():
    x = gt.tensor("x", "float32", ("n + m",))
    y = gt.tensor("y", "float32", ("n",))
    for name in ("n", "m"):
        with pytest.raises(graphc.GraphError, match=f"{name} cannot be padded: not"):
            graphc.function([x, y], gt.sum(x) + gt.sum(y), dims={name: "pad"})


def test_shapes_of_jit_may_be_formulas():
    f = graphc.jit(lambda x: x.sum(), shapes="2*n")
    for rows in (4, 6, 8, 30, 32):
        assert f(ones(rows)) == rows
    assert len(f.stats().compilations) <= 3 and f.stats().fallbacks == []


def test_sums_of_a_capacity_that_is_a_number():
    """Of integers of 64 bits, sums are computed as floats too, of numbers as well."""
    x = gt.vector("x", "float64")
    loss = gt.sum(gt.cumsum(gt.cummax(x[x > 0.3])))
    slopes = graphc.grad(loss, x)
    plain = graphc.function([x], [loss, slopes], backend="numpy")
    padded = graphc.function([x], [loss, slopes])
    for size in (5, 40, 1, 0):
        numbers = np.sin(np.arange(size) * 3.0)
        for got, expected in zip(padded(numbers), plain(numbers), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
