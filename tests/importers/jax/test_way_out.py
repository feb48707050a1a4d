"""Errors of JAX about sizes that depend on values say how to avoid them."""

import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt
from graphc.importers.jax.call.way_out import (
    CHOICE,
    NUMBER,
    PLACE,
    WAY_OUT,
)

X = np.array([1, -1, 2], "float32")


def count(x):
    return (x > 0).sum()


# With JAX's names, and with NumPy's.
FUNCTIONS = {
    "mask": (lambda x: x[x > 0],) * 2,
    "nonzero": (lambda x: jnp.nonzero(x), lambda x: np.nonzero(x)),
    "unique": (lambda x: jnp.unique(x), lambda x: np.unique(x)),
    "numpy": (lambda x: np.nonzero(x),) * 2,
    "arange": (lambda x: jnp.arange(count(x)), lambda x: np.arange(count(x))),
    "slice": (lambda x: jnp.sort(x)[: count(x)], lambda x: np.sort(x)[: count(x)]),
    "start": (lambda x: x[count(x) :],) * 2,
    "step": (lambda x: x[:: count(x)],) * 2,
    "zeros": (lambda x: jnp.zeros(count(x)), lambda x: np.zeros(count(x))),
    "full": (lambda x: jnp.full((count(x), 2), 3.0), lambda x: np.full((2, 2), 3.0)),
    "linspace": (
        lambda x: jnp.linspace(0, 1, count(x)),
        lambda x: np.linspace(0, 1, count(x)),
    ),
    "zeros of numpy": (lambda x: np.zeros(count(x)), lambda x: np.zeros(count(x))),
    "eye": (lambda x: jnp.eye(count(x)), lambda x: np.eye(count(x))),
    "tri": (lambda x: jnp.tri(count(x)), lambda x: np.tri(count(x))),
    "repeat": (lambda x: jnp.repeat(x, count(x)), lambda x: np.repeat(x, count(x))),
    "reshape": (lambda x: x.reshape(count(x) + 1, -1),) * 2,
    "tile": (lambda x: jnp.tile(x, count(x)), lambda x: np.tile(x, count(x))),
    "pad": (lambda x: jnp.pad(x, (0, count(x))), lambda x: np.pad(x, (0, count(x)))),
    "broadcast_to": (
        lambda x: jnp.broadcast_to(x, (count(x), 3)),
        lambda x: np.broadcast_to(x, (count(x), 3)),
    ),
    "where": (lambda x: jnp.where(x > 0), lambda x: np.where(x > 0)),
    "compress": (lambda x: jnp.compress(x > 0, x), lambda x: np.compress(x > 0, x)),
    "resize": (lambda x: jnp.resize(x, (count(x),)), lambda x: np.resize(x, (2,))),
    "setdiff1d": (lambda x: jnp.setdiff1d(x, X), lambda x: np.setdiff1d(x, X)),
    "histogram": (
        lambda x: jnp.histogram(x, bins=count(x))[0],
        lambda x: np.histogram(x, bins=2)[0],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_is_that_of_jax_and_names_the_way_out(name):
    function, _ = FUNCTIONS[name]
    with pytest.raises(Exception) as wanted:  # of any class
        jax.jit(function)(X)
    with pytest.raises(type(wanted.value)) as found:
        graphc.jit(function)(X)
    text = str(found.value)
    assert text[:40] == str(wanted.value)[:40] and text.endswith(WAY_OUT)
    assert 'graphc.jit(function, frontend="numpy")' in text
    assert text.count(WAY_OUT) == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_a_way_out(name):
    _, function = FUNCTIONS[name]
    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    jax.tree.map(np.testing.assert_array_equal, ours(X), function(X))


def test_it_is_told_at_later_sizes_too():
    def late(x):
        return jnp.sort(x)[: count(x)] if x.shape[0] == 5 else x

    ours = graphc.jit(late)
    for n in (3, 4):
        ours(np.ones(n))
    with pytest.raises(IndexError) as found:
        ours(np.ones(5))
    assert str(found.value).endswith(WAY_OUT)


NUMBERS = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "while": lambda x: [x for _ in iter(lambda: bool(x.sum() > 0), False)],
    "int": lambda x: x * int(x.sum()),
    "float": lambda x: x * float(x.sum()),
    "assert": lambda x: x if 1 in x else -x,
    "item": lambda x: x * x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "range": lambda x: [x for _ in range(int(x.sum()))],
    "math": lambda x: math.sqrt(x.sum()),
    "and": lambda x: x.sum() > 0 and x,
}
CHOICES = "if", "while", "assert", "and"
OF_PYTHON = "int", "float", "math"
PLACES = {
    "list": lambda x: [1, 2, 3][count(x)],
    "text": lambda x: "abc"[count(x)],
    "range": lambda x: sum(range(count(x))),
    "index": lambda x: operator.index(count(x)),
    "dict": lambda x: {0: 1.0, 2: 2.0}[count(x)],
    "set": lambda x: count(x) in {1, 2},
}


@pytest.mark.parametrize("name", OF_PYTHON)
def test_functions_of_numpy_have_numbers_of_python(name):
    ours = graphc.jit(NUMBERS[name], frontend="numpy")
    np.testing.assert_allclose(ours(X), NUMBERS[name](X), rtol=1e-6)


@pytest.mark.parametrize("name", NUMBERS)
def test_no_way_is_told_where_there_is_none(name):
    for told in ({}, {"frontend": "numpy"})[: 1 if name in OF_PYTHON else 2]:
        with pytest.raises(Exception) as error:
            graphc.jit(NUMBERS[name], **told)(X)
        assert "frontend" not in str(error.value)


@pytest.mark.parametrize("name", NUMBERS)
def test_what_to_write_instead_is_told_with_the_line(name):
    with pytest.raises(jax.errors.ConcretizationTypeError) as wanted:
        jax.jit(NUMBERS[name])(X)
    ours = graphc.jit(NUMBERS[name])
    for x in (X, X[:2]):
        with pytest.raises(type(wanted.value)) as found:
            ours(x)
        told = str(found.value).removeprefix(str(wanted.value)[:40])
        way = CHOICE if name in CHOICES else NUMBER
        begins, ends = way.split("{place}")
        assert told.endswith(ends) and told.count(ends) == 1
        line = NUMBERS[name].__code__.co_firstlineno
        assert f"{begins}, at test_way_out.py:{line}" in told


@pytest.mark.parametrize("name", PLACES)
def test_lookups_of_python_are_told_how_to_be_written(name):
    with pytest.raises(TypeError) as error:
        graphc.jit(PLACES[name])(X)
    begins, ends = PLACE.split("{place}")
    line = PLACES[name].__code__.co_firstlineno
    assert f"{begins}, at test_way_out.py:{line}{ends}" in str(error.value)
    assert "frontend" not in str(error.value)


TEXTS = [lambda x: "%d" % x[0], lambda x: f"{x[0]:d}"]  # noqa: UP031


@pytest.mark.parametrize("function", TEXTS)
def test_texts_of_numbers_are_told_how_to_be_printed(function):
    with pytest.raises(TypeError, match=r'jax\.debug\.print\("\{x\}", x=x\)'):
        graphc.jit(function)(X)


def test_what_is_told_to_write_can_be_written():
    def function(x):
        i = x.argmin()
        x = jnp.array([1, 2, 3])[i] * jax.lax.switch(i, [jnp.sin, jnp.cos], x)
        test, n = x.sum() > 0, x.sum().astype(int)
        chosen = jnp.where(test, x, -x) + lax.cond(test, jnp.sin, jnp.cos, x)
        steps = lax.while_loop(lambda x: x.sum() < 9, lambda x: x * 2, chosen)
        return lax.fori_loop(0, n, lambda i, x: jnp.sqrt(x), steps)

    ours = graphc.jit(function)
    for n in (3, 4, 5):
        x = np.arange(1, n + 1, dtype="float32")
        np.testing.assert_allclose(ours(x), jax.jit(function)(x), rtol=1e-6)
    assert ours.stats().fallbacks == []


def test_errors_of_other_kinds_stay_as_they_are():
    for function in (lambda x: x[:"a"], lambda x: jnp.zeros("a"), lambda x: x @ X[:2]):
        with pytest.raises(Exception) as wanted:
            jax.jit(function)(X)
        with pytest.raises(type(wanted.value)) as found:
            graphc.jit(function)(X)
        assert str(found.value) == str(wanted.value)


def test_a_function_of_graphs_takes_no_arrays_of_jax():
    f = graphc.jit(lambda x: gt.sum(x))
    message = r"sum: not an array: JAX is tracing it[^$]*use jax\.numpy"
    with pytest.raises(graphc.GraphError, match=message) as caught:
        f(X)
    assert "test_way_out.py:" in str(caught.value)
