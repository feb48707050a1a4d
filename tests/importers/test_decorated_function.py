"""Copies and pickles of decorated functions work, and share nothing compiled."""

import copy
import functools
import pickle

import cloudpickle
import numpy as np
import pytest

import graphc

X = np.ones(3, "float32")
WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda f: pickle.loads(pickle.dumps(f)),
    "pickle 2": lambda f: pickle.loads(pickle.dumps(f, 2)),
    "cloudpickle": lambda f: cloudpickle.loads(cloudpickle.dumps(f)),
}


def plain(x):
    return 2 * x


def times(factor, x):
    return factor * x


def cost(x):
    return (x**2).sum()


@graphc.jit
def decorated(x):
    return 2 * x


@graphc.jit(frontend="numpy", shapes="n", dims={"n": graphc.Pad(buckets=[8])})
def of_numpy(x):
    return 2 * x


@graphc.grad
def slope(x):
    return (x**2).sum()


class Model:
    scale = 2

    @graphc.jit
    def static(x):
        return 2 * x

    @functools.partial(graphc.jit, static_argnums=0)
    def method(self, x):
        return self.scale * x


MADE = {
    "jit": lambda: graphc.jit(plain, shapes="n", dims="pad"),
    "numpy": lambda: graphc.jit(plain, frontend="numpy", backend="numpy"),
    "rules": lambda: graphc.jit(plain, rewrites=graphc.rewrites.none),
    "static": lambda: graphc.jit(plain, static_argnums=(), donate_argnums=()),
    "partial": lambda: graphc.jit(functools.partial(times, 2)),
    "optimize": lambda: graphc.optimize(plain),
    "jit of grad": lambda: graphc.jit(graphc.grad(cost)),
    "grad": lambda: graphc.grad(cost),
    "ragged": lambda: graphc.ragged(plain),
}
BY_NAME = decorated, of_numpy, slope, Model.static


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MADE)
def test_functions_of_module_level(name, way):
    f = MADE[name]()
    given = [X] if name == "ragged" else X
    f(given)
    g = WAYS[way](f)
    assert g is not f and repr(g)[:12] == repr(f)[:12]
    if hasattr(g, "stats"):
        assert (g.stats().calls, g.stats().compilations) == (0, [])
    np.testing.assert_array_equal(np.ravel(g(given)), [2, 2, 2])
    np.testing.assert_array_equal(np.ravel(f(given)), [2, 2, 2])


@pytest.mark.parametrize("way", WAYS)
def test_those_that_a_module_has_are_pickled_by_name(way):
    for f in BY_NAME:
        g = WAYS[way](f)
        assert (g is f) == ("pickle" in way)
        np.testing.assert_array_equal(g(X), [2, 2, 2])


def test_methods_of_copies_of_their_object():
    model = Model()
    other = copy.deepcopy(model)
    other.scale = 3
    np.testing.assert_array_equal(model.method(X), [2, 2, 2])
    np.testing.assert_array_equal(other.method(X), [3, 3, 3])


def test_functions_that_no_module_has():
    f = graphc.jit(lambda x: 2 * x)
    with pytest.raises(Exception, match="lambda"):
        pickle.dumps(f)
    np.testing.assert_array_equal(WAYS["cloudpickle"](f)(X), [2, 2, 2])


def test_what_main_has_is_pickled_by_value():
    """With cloudpickle, as from a notebook."""
    text = """
import cloudpickle, graphc
@graphc.jit(frontend="numpy", backend="numpy")
def f(x):
    return 3 * x
f([1.0])
content = cloudpickle.dumps({"f": f, "g": graphc.jit(lambda x: 2 * x)})
"""
    main = {"__name__": "__main__"}
    exec(text, main)
    found = pickle.loads(main["content"])
    np.testing.assert_array_equal(found["f"](X), 3 * X)
    np.testing.assert_array_equal(found["g"](X), 2 * X)
