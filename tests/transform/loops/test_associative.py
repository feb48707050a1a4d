"""Running results of associative functions over axes of symbolic size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

SIZES = (0, 1, 2, 3, 5, 8, 17, 64)


def linear(a, b):
    """The composition of two steps h = factor*h + term, which does not commute."""
    return {"h": [a["h"][0] * b["h"][0], a["h"][1] * b["h"][0] + b["h"][1]]}


def program(reverse, **options):
    """A function of the values and gradients of a scan over the last axis but one."""
    factor, term = (gt.tensor(name, "float64", ("n", 2)) for name in ("factor", "term"))
    given = {"h": [factor, term]}
    found = gt.associative_scan(linear, given, reverse=reverse, axis=-2)["h"]
    loss = gt.sum(gt.sin(found[1])) + gt.sum(found[0] ** 2)
    outputs = [*found, *graphc.grad(loss, [factor, term])]
    return graphc.function([factor, term], outputs, **options)


def step_by_step(factor, term, reverse):
    """The factors and terms of the composed steps, computed one step after another."""
    some = factor[..., :0, :].sum(-2)
    ends = some + 1, some
    found = np.empty_like(factor), np.empty_like(term)
    n = factor.shape[-2]
    for i in range(n)[::-1] if reverse else range(n):
        one, other = factor[..., i, :], term[..., i, :]
        ends = ends[0] * one, ends[1] * one + other
        for array, end in zip(found, ends, strict=True):
            array[..., i, :] = end
    return found


def by_steps(factor, term, reverse):
    """The same outputs; derivatives are imaginary parts after tiny imaginary steps."""
    given = np.stack([factor, term])
    steps = 1e-30j * np.eye(given.size).reshape(given.size, *given.shape)
    moved = given + steps
    factors, terms = step_by_step(moved[:, 0], moved[:, 1], reverse)
    losses = np.sin(terms).sum((1, 2)) + (factors**2).sum((1, 2))
    gradient = (losses.imag / 1e-30).reshape(given.shape)
    return [*step_by_step(factor, term, reverse), *gradient]


def by_jax(factor, term, reverse):
    def both(given):
        found = jax.lax.associative_scan(linear, given, reverse=reverse)["h"]
        return jnp.sum(jnp.sin(found[1])) + jnp.sum(found[0] ** 2), found

    with jax.enable_x64(True):
        given = {"h": [jnp.asarray(factor), jnp.asarray(term)]}
        gradient = jax.jit(jax.value_and_grad(both, has_aux=True))
        (_, found), slopes = gradient(given)
    return [*found, *slopes["h"]]


def steps_of(n):
    random = np.random.default_rng(n)
    return [random.uniform(0.5, 1.2, (n, 2)) for _ in range(2)]


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_values_and_gradients_are_those_of_single_steps(dims, reverse):
    f = program(reverse, backend="numpy", dims=dims)
    for n in SIZES:
        assert_close(f(*steps_of(n)), by_steps(*steps_of(n), reverse))
    assert f.source.count("def body") == 2  # forward and backward


@pytest.mark.parametrize("reverse", [False, True])
def test_they_are_those_of_jax(reverse):
    given = steps_of(5)
    assert_close(by_jax(*given, reverse), by_steps(*given, reverse))


@pytest.mark.parametrize("dims", ["specialize", "pad"])
def test_jax_programs(dims):
    f = program(True, dims=dims)
    for n in (0, 5):
        assert_close(f(*steps_of(n)), by_steps(*steps_of(n), True))


def test_pairs_are_neighbours_and_in_order():
    start = gt.vector("start", "int64")

    def joined(a, b):
        whole = (a[2] & b[2]) & gt.equal(a[1] + 1, b[0])
        return [a[0], b[1], whole]

    given = [start, start, gt.equal(start, start)]
    f = graphc.function([start], gt.associative_scan(joined, given), backend="numpy")
    for n in SIZES:
        first, last, whole = f(np.arange(n))
        assert whole.all() and not first.any() and (last == np.arange(n)).all()


def test_discarded_pairs_spoil_no_gradient():
    x = gt.vector("x", "float64")
    y = gt.associative_scan(gt.multiply, x)
    slope = graphc.grad(gt.sum(y), x)
    given = np.array([1e200, 1e100, 0.0, 1e300])
    f = graphc.function([x], slope, backend="numpy")
    np.testing.assert_allclose(f(given)[:3], [1 + 1e100, 1e200, np.inf])
    static = gt.tensor("x", "float64", (4,))
    same = graphc.grad(gt.sum(gt.associative_scan(gt.multiply, static)), static)
    expected = graphc.function([static], same, backend="numpy")(given)
    np.testing.assert_allclose(f(given), expected)


@pytest.mark.parametrize("dims", ["specialize", "pad", "bound"])
def test_counts_bodies_and_batches(dims):
    x = gt.matrix("x", "float64")

    def scanned(row):
        return gt.associative_scan(gt.multiply, row)

    kept = x[:, 0][x[:, 0] > 0]
    _, rows = gt.scan(lambda c, row: (c, scanned(row)), 0.0, x)
    outputs = [gt.sum(scanned(kept)), rows, graphc.vmap(scanned)(x)]
    f = graphc.function([x], outputs, backend="numpy", dims=dims)
    for shape in ((2, 3), (5, 1), (3, 8)):
        given = np.random.default_rng(0).normal(size=shape)
        total, rows, batch = f(given)
        expected = np.multiply.accumulate(given, axis=1)
        np.testing.assert_allclose(rows, expected)
        np.testing.assert_allclose(batch, expected)
        few = given[given[:, 0] > 0, 0]
        np.testing.assert_allclose(total, np.multiply.accumulate(few).sum())


def test_a_function_that_gives_another_structure_is_refused():
    x = gt.vector("x")
    message = "the function must return the structure that it takes"
    with pytest.raises(graphc.GraphError, match=message):
        gt.associative_scan(lambda a, b: [a, b], x)
