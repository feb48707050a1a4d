"""Blocks that a function of JAX repeats, by an inner `jit` or `checkpoint`."""

import jax
import jax.numpy as jnp
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewriting.loops.roll import rolling
from graphc.rewriting.rule import Rules

ALWAYS = Rules((rolling(least_saved=0, least_work=0),))
WAYS = {"jit": jax.jit, "checkpoint": jax.checkpoint}


def text_of(way, count):
    """The program of a chain of so many blocks."""

    @WAYS[way]
    def block(x, w):
        return jnp.tanh(x @ w) * jax.nn.softmax(x) + x

    def model(x, *weights):
        for w in weights:
            x = block(x, w)
        return x

    x = gt.tensor("x", "float32", ("n", 3))
    weights = [gt.tensor(f"w{i}", "float32", (3, 3)) for i in range(count)]
    graph = graphc.from_jax(model, x, *weights)
    return graphc.function(graph.inputs, graph.outputs[0], rewrites=ALWAYS).source


@pytest.mark.parametrize("way", WAYS)
def test_the_text_does_not_grow_with_the_chain(way):
    short, long = text_of(way, 6), text_of(way, 12)
    assert long.count("jnp.tanh(") <= short.count("jnp.tanh(") < 6
    assert "lax.scan" in long
