"""Functions that are called again are rebuilt without rules, and come out the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.importers.jax.call.alike import are_alike
from graphc.importers.jax.read import recipe

TABLE = np.arange(100, dtype="float32")


@jax.jit
def plain(x, i):
    return jnp.tanh(x) * jax.nn.softmax(x) + TABLE[:3]


@jax.jit
def loop(x, i):
    return jax.lax.scan(lambda c, r: (c + r * x[0], r * c), x[0], x)[1]


@jax.jit
def counted(x, i):
    return jax.lax.dynamic_slice(x, (i, 0), (1, 3)) + x / (i + 1) + x.shape[0]


@jax.jit
def drawn(x, i):
    return x * jax.random.uniform(jax.random.key(7), (3,))


@jax.jit
def squared(x, i):
    return plain(plain(plain(x, i), i), i)


FUNCTIONS = {
    **{"plain": plain, "loop": loop, "drawn": drawn},
    **{"counted": counted, "squared": squared, "checkpoint": jax.checkpoint(plain)},
}
KNOWN = ["counted"]  # functions of integers that are known to be sizes


def chain(function):
    """The gradient of many calls: on new values, on constants, and on one twice."""

    def cost(x, i):
        y = function(x, 3) + function(jnp.ones_like(x), i)
        for _ in range(3):
            y = function(y, i) + function(y, i + 1) + function(y, i)
        return jnp.sum(y)

    return jax.value_and_grad(cost)


def graph_of(function):
    x, i = gt.tensor("x", "float32", ("n", 3)), gt.scalar("i", "int32")
    return graphc.from_jax(function, x, i)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_graphs_are_those_of_rules(name, monkeypatch):
    made = []
    copied = recipe.Recipe.results_for
    monkeypatch.setattr(
        recipe.Recipe, "results_for", lambda self, v: made.append(1) or copied(self, v)
    )
    own = graph_of(chain(FUNCTIONS[name]))
    assert bool(made) == (name not in KNOWN)
    monkeypatch.setattr(recipe, "READ", 10**6)
    by_rules = graph_of(chain(FUNCTIONS[name]))
    assert are_alike(own, by_rules)
