"""Blocks that a function of JAX repeats, by an inner `jit` or `checkpoint`."""

import re

import jax
import jax.numpy as jnp
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewriting.engine.rule import Rules
from graphc.rewriting.loops.roll.chains import rolling

ALWAYS = Rules((rolling(least_saved=0, least_work=0),))
WAYS = {"jit": jax.jit, "checkpoint": jax.checkpoint}


def text_of(way, count):
    """The text of the program of a chain of `count` blocks."""

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


def attention(x, p):
    """A block with many similar nodes: the heads of attention and their parts."""
    heads = [jnp.reshape(x @ p[i], (*x.shape[:2], 2, 2)) for i in range(3)]
    q, k, v = (jnp.transpose(y, (0, 2, 1, 3)) for y in heads)
    weights = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2))
    joined = jnp.transpose(weights @ v, (0, 2, 1, 3)).reshape(x.shape)
    x = x + joined @ p[3]
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return x + centred / jnp.sqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1)


def slopes_of(count):
    """The program of the gradient of `count` blocks that are rematerialised."""
    block = jax.checkpoint(attention)

    def loss(weights, x):
        for p in weights:
            x = block(x, p)
        return jnp.mean(x * x)

    x = gt.tensor("x", "float32", ("n", 3, 4))
    weights = [gt.tensor(f"w{i}", "float32", (4, 4, 4)) for i in range(count)]
    graph = graphc.from_jax(jax.grad(loss), weights, x)
    return graphc.function(graph.inputs, graph.outputs, rewrites=ALWAYS).source


def test_gradients_of_chains_are_loops_both_ways():
    short, long = slopes_of(6), slopes_of(9)
    for one in ("jnp.exp(", "jnp.sqrt(", "scan_jax("):
        assert long.count(one) == short.count(one)
    forward, backward = re.findall(r"scan_jax\(jax, .*?\], (\d+), ", long)
    assert (forward, backward) == ("9", "8")


@pytest.mark.parametrize("way", WAYS)
def test_the_text_does_not_grow_with_the_chain(way):
    short, long = text_of(way, 6), text_of(way, 12)
    assert long.count("jnp.tanh(") <= short.count("jnp.tanh(") < 6
    assert "lax.scan" in long
