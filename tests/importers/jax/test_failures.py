"""A call that raises leaves no trace: later calls compile as if it had not happened."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.importers.jax.call.traced_family import JaxFamily
from tests.importers.jax.comparing import by_turns, outcomes_by_jax

WAYS = {
    "auto": {},
    "pad": {"dims": "pad"},
    "shapes": {"shapes": "a n, n"},
    "numpy": {"frontend": "numpy"},
    "numpy pad": {"frontend": "numpy", "dims": "pad"},
    "numpy shapes": {"frontend": "numpy", "shapes": "a n, n", "dims": "pad"},
}


def ones(*shape):
    return np.ones(shape, "float32")


def product(x, w):
    return x @ w


def history(function, fails=None, error=Exception):
    """The compilations and fallbacks of calls, where call number `fails` raises."""
    for number, n in enumerate(range(3, 8)):
        if number == fails:
            with pytest.raises(error):
                function(ones(3, 4), ones(3))
        np.testing.assert_array_equal(function(ones(3, n), ones(n)), [n] * 3)
    told = [(one.program, one.reason) for one in function.stats().compilations]
    return told, function.stats().fallbacks


@pytest.mark.parametrize("told", [{}, {"dims": "pad"}, {"frontend": "numpy"}])
def test_an_axis_of_a_call_that_fails_does_not_vary(told):
    ours = graphc.jit(product, **told)
    with pytest.raises((TypeError, graphc.GraphError)):
        ours(ones(3, 4), ones(3))
    for n in range(3, 9):
        np.testing.assert_array_equal(ours(ones(n, 4), ones(4)), [4] * n)
    assert len(ours.stats().compilations) <= 3 and ours.stats().fallbacks == []


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_fails_costs_no_compilation(way):
    wanted = history(graphc.jit(product, **WAYS[way]))
    for fails in (0, 1, 3):
        assert history(graphc.jit(product, **WAYS[way]), fails) == wanted


@pytest.mark.filterwarnings("ignore::graphc.FallbackWarning")  # by `len`
@pytest.mark.parametrize("way", ["auto", "numpy"])
@pytest.mark.parametrize("error", [graphc.GraphError, KeyboardInterrupt, ValueError])
def test_whatever_is_raised_while_tracing(error, way):
    def checked(x, w):
        if len(w) == 3 and len(x.T) == 4:
            raise error("sizes differ")
        return x @ w

    wanted = history(graphc.jit(checked, **WAYS[way]))
    for fails in (0, 1, 3):
        assert history(graphc.jit(checked, **WAYS[way]), fails, error) == wanted


@pytest.mark.usefixtures("without_audit")
def test_an_interrupt_while_traces_are_compared():
    at = []

    def function(x):
        if at and at[-1] == x.shape[0]:
            at.pop()
            raise KeyboardInterrupt
        return 2 * x

    ours = graphc.jit(function)
    for n in range(3, 9):
        at.append(n)  # so that each size is traced, as by JAX
        with pytest.raises(KeyboardInterrupt):
            ours(ones(n))
        np.testing.assert_array_equal(ours(ones(n)), 2 * ones(n))
    assert len(ours.stats().compilations) == 2 and ours.stats().fallbacks == []


def test_an_error_at_run_time_changes_no_program():
    ours = graphc.jit(lambda x: jnp.log(x))
    for n in range(3, 9):
        if n in (3, 5):
            with jax.debug_nans(True), pytest.raises(FloatingPointError):
                ours(-ones(n))
        np.testing.assert_array_equal(ours(ones(n)), 0 * ones(n))
    assert ours.stats().fallbacks == []


def test_examples_that_fail_leave_the_program_of_others():
    ours = graphc.ragged(product)
    history = ([(3, 3), (3, 5)], [(4, 3)], [(6, 6)])
    for pairs in history:
        xs = [ones(2, n) for n, _ in pairs]
        ws = [ones(m) for _, m in pairs]
        if any(n != m for n, m in pairs):
            with pytest.raises((TypeError, graphc.GraphError)):
                ours(xs, ws)
        else:
            np.testing.assert_array_equal(ours(xs, ws)[0], [xs[0].shape[1]] * 2)


# Functions that make arrays of a named dtype of a size that may not fit it.
NARROW = {
    "an array": lambda n: jnp.asarray(n + 120, "int8"),
    "a class": lambda n: jnp.uint8(n - 5),
    "in a list": lambda n: jnp.array([1, n + 120], "int8"),
    "wide": lambda n: jnp.asarray(n - 5, "uint32"),
    "cast afterwards": lambda n: jnp.asarray(n + 120).astype("int8"),
    "a fill": lambda n: jnp.full(2, n + 120, "int8"),
}


@pytest.mark.parametrize(("name", "dims"), by_turns(NARROW))
def test_sizes_must_fit_where_jax_says_so(name, dims):
    def function(x):
        return x[0] + NARROW[name](x.shape[0])

    compiled = graphc.jit(function, dims=dims)
    calls = {n: (jnp.ones(n),) for n in (6, 5, 8, 4, 7, 3)}
    expected = outcomes_by_jax(function, calls)
    for n, args in calls.items():
        if isinstance(expected[n], OverflowError):
            with pytest.raises(OverflowError, match=str(expected[n])):
                compiled(*args)
        else:
            np.testing.assert_array_equal(compiled(*args), expected[n])


def test_an_error_of_ours_at_one_size_is_told(monkeypatch):
    """Another size has a program, so the user would expect none for this one."""
    f = graphc.jit(lambda x: x * 2)
    for size in (3, 5):
        f(np.ones(size, "float32"))

    def fail(family, sizes):
        raise graphc.GraphError("broken")

    monkeypatch.setattr(JaxFamily, "_find_program", fail)
    with pytest.warns(graphc.FallbackWarning, match="compiled once for n = 9: broken"):
        assert f(np.ones(9, "float32")).tolist() == [2] * 9
