"""`graphc.jit` under transformations, control flow and settings of JAX."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import graphc
import graphc.tensor as gt


def some(n):
    return np.cos(np.arange(n)).astype("float32")


def cost(x):
    return jnp.sum(jax.nn.relu(x) * jnp.tanh(x)) / x.shape[0]


def close(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def compared(ours, theirs, sizes):
    """Require JAX's results at several sizes, without warnings."""
    theirs = jax.jit(theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in sizes:
            close(ours(some(n)), theirs(some(n)))


@pytest.fixture(scope="module")
def seasoned():
    """A function that already has a program for many sizes."""
    ours = graphc.jit(cost)
    compared(ours, cost, (3, 4, 5))
    return ours


def in_a_scan(f):
    return lambda x: lax.scan(lambda c, v: (c + f(v * x), f(x + c)), 0.0, x)


AROUND = {
    "jit": jax.jit,
    "grad": jax.grad,
    "value_and_grad": lambda f: jax.jit(jax.value_and_grad(f)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x + 1])),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, x])),
    "jacfwd": jax.jacfwd,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[1](jnp.float32(2)),
    "scan": in_a_scan,
    "map": lambda f: lambda x: lax.map(lambda v: f(v * x), x),
    "cond": lambda f: lambda x: lax.cond(x[0] > 0, f, lambda x: x[0], x),
    "switch": lambda f: lambda x: lax.switch(jnp.int32(1), [jnp.sum, f], x),
    "while": lambda f: lambda x: lax.while_loop(
        lambda c: c[1] < 3, lambda c: (c[0] + f(x * c[0]), c[1] + 1), (0.0, 0)
    ),
    "captured": lambda f: lambda x: jax.grad(lambda w: f(x * w))(2.0),
    "static": lambda f: jax.jit(functools.partial(lambda g, x: g(x), f)),
}


@pytest.mark.parametrize("way", AROUND)
def test_transformations_around_it(seasoned, way):
    compared(AROUND[way](seasoned), AROUND[way](cost), (4,))


@pytest.mark.parametrize("way", ["vmap of grad", "checkpoint", "scan", "while", "cond"])
def test_transformations_inside_of_it(way):
    ours = graphc.jit(AROUND[way](graphc.jit(cost)))
    compared(ours, AROUND[way](cost), (3, 4))
    assert len(ours.stats().compilations) == 2 and not ours.stats().fallbacks


def test_abstract_evaluation():
    ours = graphc.jit(lambda x, k: {"s": cost(x) * k})
    for n in (3, 4, 5):
        found = jax.eval_shape(ours, some(n), 2)["s"]
        assert (found.shape, found.dtype) == ((), "float32")
        assert "tanh" in str(jax.make_jaxpr(ours)(some(n), 2))
    assert ours.stats().compilations == []
    assert "tanh" in ours.lower(some(3), 2).as_text()


def test_it_is_traced_with_symbols():
    """Export, like other importers, traces it as it traces `jax.jit`."""
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), jnp.float32)
    ours = graphc.jit(cost)
    assert "tanh" in str(jax.make_jaxpr(ours)(x))
    for n in (3, 4, 5):
        exported = jax.export.export(ours)(x)
        close(exported.call(some(n)), jax.jit(cost)(some(n)))
        close(ours(some(n)), jax.jit(cost)(some(n)))


@pytest.mark.parametrize("dims", [None, "pad"])
def test_a_function_of_a_graph_runs_as_before_after_traces_with_symbols(dims):
    y = gt.tensor("y", "float32", ("n",))
    of_graph = graphc.function([y], gt.cumsum(y) / gt.sum(y), dims=dims)
    ours = graphc.jit(lambda x: of_graph(x) + 1)
    for sizes in ((3, 4, 5), (20, 6)):
        compared(ours, lambda x: jnp.cumsum(x) / jnp.sum(x) + 1, sizes)
        compared(of_graph, lambda x: jnp.cumsum(x) / jnp.sum(x), sizes)
    assert ours.stats().fallbacks == []
    compiled_for = [c.sizes for c in of_graph.stats().compilations]
    assert all(type(n) is int for sizes in compiled_for for n in sizes.values())


def scaled(x):
    return {"y": x * 2 + jnp.arange(x.shape[0]), "dot": x @ x}


SETTINGS = {
    "x64": lambda: jax.enable_x64(True),
    "without jit": jax.disable_jit,
    "device": lambda: jax.default_device(jax.devices("cpu")[0]),
    "leaks": jax.checking_leaks,
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_that_change_between_calls(setting):
    ours, theirs = graphc.jit(scaled), jax.jit(scaled)
    for n in (3, 4):
        x = np.arange(n, dtype="float64")
        close(ours(x), theirs(x))
        with SETTINGS[setting]():
            close(ours(x), theirs(x))
    assert ours.stats().fallbacks == []


@pytest.mark.filterwarnings("error")
def test_rules_of_promotion_hold_in_programs_for_many_sizes():
    ours = graphc.jit(lambda x, y: x + y)
    for n in (3, 4):
        ours(some(n), np.arange(n))
        refused = pytest.raises(jax.dtypes.TypePromotionError)
        with jax.numpy_dtype_promotion("strict"), refused:
            ours(some(n), np.arange(n))
