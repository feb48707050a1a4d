"""Named functions of JAX programs keep their names if they are printed once."""

import jax
import jax.numpy as jnp
import pytest

import graphc
from graphc.rewrites import default, sharing

RULES = default - "shared_blocks" + sharing(least_saved=4)


def wave(x):
    return jnp.tanh(x) * jnp.exp(-x) + jax.nn.softmax(x)


@pytest.mark.parametrize("inner", [jax.jit(wave), wave, jax.checkpoint(wave)])
def test_functions_that_are_called_often_are_printed_once(inner):
    def many(x):
        return [inner(jnp.sin(x) * k) for k in range(1, 4)]

    graph = graphc.from_jax(many, jax.ShapeDtypeStruct((5,), "float32"))
    f = graphc.function(list(graph.inputs), list(graph.outputs), rewrites=RULES)
    assert "wave = jax.jit(wave)" in f.source
    assert f.source.count("= wave(") == 3
