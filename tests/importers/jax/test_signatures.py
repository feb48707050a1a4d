"""A decorated function keeps its signature, and methods are bound."""

import functools
import inspect
import typing

import numpy as np
import pytest

import graphc


def scaled(x: int, *, by: float = 2.0) -> float:
    """The product."""
    return x * by


@pytest.mark.parametrize("told", [{}, {"frontend": "numpy"}, {"shapes": "()"}])
def test_signatures(told):
    f = graphc.jit(scaled, **told)
    assert inspect.signature(f) == inspect.signature(scaled)
    assert (f.__name__, f.__doc__, f.__module__) == ("scaled", "The product.", __name__)
    assert typing.get_type_hints(f) == typing.get_type_hints(scaled)
    assert inspect.unwrap(f) is scaled and callable(f)


class Model:
    scale = 3

    @functools.partial(graphc.jit, static_argnums=0)
    def method(self, x):
        return self.scale * x

    @functools.partial(graphc.jit, static_argnames="self", frontend="numpy")
    def of_numpy(self, x):
        return self.scale * np.sum(x)

    @staticmethod
    @graphc.jit
    def static(x):
        return 3 * x

    @property
    @functools.partial(graphc.jit, static_argnums=0)
    def value(self):
        return np.float32(self.scale)


def test_methods():
    model = Model()
    for n in (2, 3, 4):
        x = np.ones(n, "float32")
        for found in (model.method(x), Model.method(model, x), model.static(x)):
            np.testing.assert_array_equal(found, 3 * x)
        assert model.of_numpy(x) == 3 * n and model.value == 3
    assert inspect.ismethod(model.method)
    assert list(inspect.signature(model.method).parameters) == ["x"]
    assert model.method.stats().calls == 6
