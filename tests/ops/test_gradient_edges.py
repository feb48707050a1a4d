"""Gradients at edge cases that the samples leave out.

These are reads and writes at repeated and stray indices, products with zeros, and
windows with ties.
"""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

# Many of these gradients do not depend on the point, so inputs are unused.
pytestmark = pytest.mark.filterwarnings("ignore::graphc.UnusedInputWarning")
BACKENDS = pytest.mark.parametrize("backend", ["numpy", "jax"])
X = np.array([1.0, 2.0, 3.0])
V = np.array([5.0, 7.0, 11.0, 13.0])
W = np.array([1.0, 10.0, 100.0])
PLACES = np.array([1, 1, 5, 0])  # one repeated, one out of bounds


def gradients(backend, cost, *arrays):
    """Gradients of the sum of `cost` weighted by W, in all arrays of floats."""
    variables = [gt.tensor("x", a.dtype.name, a.shape) for a in arrays]
    total = gt.sum(cost(*variables) * W)
    wrt = [v for v in variables if v.dtype.kind == "f"]
    found = graphc.grad(total, wrt)
    return graphc.function(variables, found, backend=backend)(*arrays)


@BACKENDS
@pytest.mark.parametrize(
    "how, of_x, of_v",
    [
        ("set", [0, 0, 100], [0, 10, 0, 1]),
        ("add", [1, 10, 100], [10, 10, 0, 1]),
        ("multiply", [13, 350, 100], [140, 100, 0, 1]),
        ("max", [0, 0, 100], [0, 10, 0, 1]),
        ("min", [1, 10, 100], [0, 0, 0, 0]),
    ],
)
def test_updates_at_repeated_and_stray_indices(backend, how, of_x, of_v):
    found = gradients(backend, lambda x, v, i: getattr(x.at[i], how)(v), X, V, PLACES)
    np.testing.assert_allclose(found[0], of_x)
    np.testing.assert_allclose(found[1], of_v)


@BACKENDS
def test_rows_of_elements_that_are_not_zero_repeat(backend):
    places = np.array([[1, 1], [0, 0], [1, 1]])
    (_, of_v) = gradients(
        backend, lambda x, v, m: x.at[gt.nonzero(m)[0]].set(v), X, V, places
    )
    np.testing.assert_allclose(of_v, [0, 1, 0, 100])


@BACKENDS
def test_short_integers_that_wrap_around_repeat(backend):
    places = gt.astype(gt.arange(257), "int8")
    (_, of_v) = gradients(
        backend, lambda x, v: x.at[places].set(v), X, np.arange(257.0)
    )
    np.testing.assert_allclose(of_v[np.array([0, 253, 255, 256])], [0, 0, 100, 1])


@BACKENDS
def test_ties_of_an_update_share(backend):
    v = np.array([2.0, 2.0, 0.0, 3.0])
    x, y = gradients(
        backend, lambda x, v, i: x.at[i].max(v), X, v, np.array([1, 1, 2, 2])
    )
    np.testing.assert_allclose(x, [1, 10 / 3, 50])
    np.testing.assert_allclose(y, [10 / 3, 10 / 3, 0, 50])


@BACKENDS
def test_stray_reads_count_for_the_nearest_element(backend):
    (x,) = gradients(backend, lambda x, i: x[i], X, np.array([9, -9, -1]))
    np.testing.assert_allclose(x, [10, 0, 101])


@BACKENDS
def test_factors_that_are_zero(backend):
    v = np.array([0.0, 0.0, 4.0, 0.0])
    places = np.array([0, 0, 1, 1])
    x, y = gradients(backend, lambda x, v, i: x.at[i].multiply(v), X, v, places)
    np.testing.assert_allclose(x, [0, 0, 100])
    np.testing.assert_allclose(y, [0, 0, 0, 80])
    (y,) = gradients(backend, lambda v, i: gt.segment_prod(v, i, 3), v, places)
    np.testing.assert_allclose(y, [0, 0, 0, 40])


@BACKENDS
def test_running_products_through_zeros(backend):
    x = np.array([2.0, 0.0, 5.0])
    (g,) = gradients(backend, gt.cumprod, x)
    np.testing.assert_allclose(g, [1, 2 * 10 + 10 * 100, 0])
    (h,) = gradients(
        backend, lambda x: graphc.grad(gt.sum(gt.cumprod(x) * W), x), x
    )  # the Hessian with W
    np.testing.assert_allclose(h, [10 * 510, 510 + 100 * 200, 10 * 200])


@BACKENDS
def test_a_running_extreme_is_shared_by_its_ties(backend):
    (g,) = gradients(backend, gt.cummax, np.array([4.0, 4.0, 4.0]))
    np.testing.assert_allclose(g, [1 + 5 + 100 / 3, 5 + 100 / 3, 100 / 3])
    (g,) = gradients(backend, gt.cummin, np.array([4.0, 1.0, 3.0]))
    np.testing.assert_allclose(g, [1, 110, 0])


@BACKENDS
def test_sums_of_exponentials_of_nothing(backend):
    (g,) = gradients(backend, gt.cumlogsumexp, np.array([-np.inf, -np.inf, 0.0]))
    np.testing.assert_allclose(g, [6, 5, 100])


@BACKENDS
def test_the_first_of_equal_elements_of_a_window_counts(backend):
    x = np.array([3.0, 3.0, 1.0, 1.0, 1.0])
    for pool, of_x in (
        (gt.nn.max_pool, [1, 10, 100, 0, 0]),
        (gt.nn.min_pool, [0, 0, 111, 0, 0]),
    ):
        (g,) = gradients(backend, lambda x, pool=pool: pool(x, (3,), stride=1), x)
        np.testing.assert_allclose(g, of_x)


def slope(function, name, backend, *numbers):
    """The derivative in the number called `name`."""
    variables = [gt.tensor(n, "float64", ()) for n in ("x", "y")]
    made = function(*variables)
    wrt = [v for v in variables if v.name == name]
    f = graphc.function(variables, graphc.grad(made, wrt), backend=backend)
    return float(f(*numbers)[0])


@BACKENDS
def test_the_slope_of_a_remainder_counts_what_was_taken_off(backend):
    """The rounded quotient 1 / 0.1 is 10, but 0.1 fits into 1 only 9 times."""
    assert slope(gt.remainder, "y", backend, 1.0, 0.1) == -9
    assert slope(gt.remainder, "y", backend, -1.0, np.inf) == 1


@BACKENDS
@pytest.mark.parametrize("x", [2.0, np.inf, 0.0, 1e-310])
def test_slopes_of_powers_at_the_exponent_zero(backend, x):
    assert slope(gt.power, "x", backend, x, 0.0) == 0
    both = lambda x, y: graphc.grad(gt.power(x, y), x)
    assert slope(both, "y", backend, 2.0, 0.0) == 0.5


# Reductions along all axes and along some.

REDUCED = (gt.sum, gt.prod, gt.max, gt.min, gt.mean, gt.var, gt.std, gt.nn.logsumexp)
REDUCED += (gt.nansum, gt.nanprod, gt.nanmax, gt.nanmean, gt.median, gt.ptp)
SOME_AXES = (None, 0, 1, -1, (0, 1), (0, 2), (2, 1), (0, 1, 2))


def test_reductions_along_some_axes_are_as_differences_say():
    """One function computes all costs at two points, and the gradients between them."""
    x = gt.tensor("x", "float64", (2, 3, 4))
    a = np.random.default_rng(0).permutation(24).reshape(2, 3, 4) / 9 - 1
    way, step = np.cos(np.arange(24.0)).reshape(2, 3, 4), 1e-6
    names, costs = [], []
    for function in REDUCED:
        for axes in SOME_AXES:
            y = function(x, axis=axes)
            weights = gt.cos(gt.reshape(gt.arange(float(y.size)), y.shape))
            names.append((function.__name__, axes))
            costs.append(gt.sum(weights * y))
    slopes = [gt.sum(graphc.grad(cost, x) * way) for cost in costs]
    f = graphc.function([x], gt.stack([*costs, *slopes]), backend="numpy")
    low, high = (f(a + side * way)[: len(costs)] for side in (-step, step))
    found, expected = f(a)[len(costs) :], (high - low) / (2 * step)
    wrong = ~np.isclose(found, expected, 1e-6, 1e-6)
    assert not wrong.any(), [names[i] for i in np.flatnonzero(wrong)]


def shared_so_far(x, weights, better):
    """The gradient of running extremes: elements that tie so far share it equally."""
    slopes = np.zeros_like(x)
    for t, weight in enumerate(weights):
        ties = np.flatnonzero(x[: t + 1] == better(x[: t + 1]))
        slopes[ties] += weight / len(ties)
    return slopes


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["max", "min"])
def test_running_extremes_that_tie(name, reverse):
    x, w = gt.vector("x", "float64"), gt.vector("w", "float64")
    cost = gt.sum(getattr(gt, f"cum{name}")(x, 0, reverse=reverse) * w)
    f = graphc.function([x, w], graphc.grad(cost, x), backend="numpy")
    turn = slice(None, None, -1 if reverse else 1)
    for numbers in ([1, 1, 2, 2, 2, 0, 3], [3, 3, 3, 1, 3], [0], [2, 1, 1, 2, 1]):
        a, weights = np.array(numbers, float), np.arange(1.0, len(numbers) + 1)
        wanted = shared_so_far(a[turn], weights[turn], getattr(np, name))[turn]
        np.testing.assert_allclose(f(a, weights), wanted)
