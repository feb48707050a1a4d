"""Unusual functions: whatever `jax.jit` accepts, `graphc.jit` accepts."""

import dataclasses
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc

SIZES = (4, 6, 0)


def vector(n):
    return np.arange(1, n + 1, dtype="float32")


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Params:
    w: Any
    b: Any
    name: str = dataclasses.field(metadata={"static": True}, default="p")


class Pair(NamedTuple):
    a: Any
    b: Any


@jax.custom_jvp
def tripled(x):
    return jnp.sin(x)


@tripled.defjvp
def _(primals, tangents):
    return tripled(primals[0]), 3 * tangents[0]


class Callable:
    weight = 2.0

    def __call__(self, x):
        return x * self.weight


def each_of(n):
    """The function, arguments, keyword arguments and options of each case, by name."""
    x = vector(n)
    key = jax.random.key(0)
    batch = Params(jnp.outer(x, vector(3)), x, "hey")
    return {
        "a data class": (
            lambda p: Pair(Params(p.w.sum(1), p.b, p.name), None),
            (batch,),
        ),
        "a named tuple": (lambda t: t._replace(a=t.a + 1), (Pair(x, [x]),)),
        "static arguments": (
            lambda x, k: x * len(k),
            (x, "abc"),
            {"static_argnums": 1},
        ),
        "weak numbers": (lambda x, a, b: (x * a + b, a * 2, b + 1), (x, 2.0, 3)),
        "dtypes": (
            lambda i: (i * 2, i.astype("bfloat16"), i // 2),
            (x.astype("int8"),),
        ),
        "a callable object": (Callable(), (x,)),
        "no results": (lambda x: None, (x,)),
        "constants only": (lambda x: (jnp.ones(3), 5, 2.0), (x,)),
        "no arguments": (lambda: jnp.arange(3), ()),
        "the argument": (lambda x: (x, x, {"y": [x, None]}), (x,)),
        "keys in a scan": (
            lambda k, x: lax.scan(
                lambda k, v: (jax.random.split(k)[0], v + jax.random.uniform(k)), k, x
            ),
            (key, x),
        ),
        "a rule in a gradient": (jax.grad(lambda x: jnp.sum(tripled(x))), (x,)),
        "a while of data": (
            lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: c + x + 1, x),
            (x,),
        ),
        "sizes as numbers": (lambda x: x * int(x.shape[0]) + len(x), (x,)),
        "numpy of a size": (lambda x: x * np.sqrt(np.arange(x.size)), (x,)),
        "half of a size": (lambda x: x[: x.shape[0] // 2], (x,)),
        "a parity": (lambda x: x.sum() if x.shape[0] % 2 else x[::2].sum(), (x,)),
        "a callback": (
            lambda x: jax.pure_callback(np.negative, jax.typeof(x), x) + 1,
            (x,),
        ),
        "an axis name": (
            jax.vmap(lambda r: r - lax.pmean(r, "b"), axis_name="b"),
            (x,),
        ),
        "an error of its own": (_raises, (x,)),
    }


def _raises(x):
    raise KeyError("mine")


@pytest.mark.parametrize("name", each_of(4))
def test_it_does_as_jax_does(name):
    function, _, *options = each_of(4)[name]
    options = options[0] if options else {}
    ours, theirs = graphc.jit(function, **options), jax.jit(function, **options)
    for n in SIZES:
        args = each_of(n)[name][1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", graphc.FallbackWarning)
            found, wanted = (_attempt(f, args) for f in (ours, theirs))
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
        for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
            _same(a, b)


def _attempt(function, args):
    try:
        return function(*args)
    except Exception as error:  # of any class
        return type(error).__name__


def _same(a, b):
    if isinstance(b, str):
        assert a == b
        return
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if jnp.issubdtype(b.dtype, jax.dtypes.prng_key):
        a, b = map(jax.random.key_data, (a, b))
    assert a.weak_type == b.weak_type
    a, b = (np.asarray(v, "float64") for v in (a, b))
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["percentile", "nanpercentile"])
@pytest.mark.parametrize(
    "share", [30, 70.0, jnp.array([30, 70]), np.array([30.0, 70], "float32"), None]
)
def test_percentiles_at_an_element_are_those_of_jax(name, share):
    """XLA multiplies a size by 0.01 before it multiplies by the percentage."""

    def higher(x, q):
        percents = q if share is None else share
        return getattr(jnp, name)(x, percents, method="higher")

    ours, theirs = graphc.jit(higher, dims="pad"), jax.jit(higher)
    for n in (5, 41, 51, 101):
        x, q = np.arange(n, dtype="float32"), np.float32(70)
        np.testing.assert_array_equal(ours(x, q), theirs(x, q))
