"""`graphc.optimize`: rewritten functions that JAX transforms."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import graphc
from graphc.importers.jax.read.jaxprs import equations
from tests.importers.jax.test_derivatives import close, doubled


def loss(params, x, *, scale=1.0):
    """JAX would stack the losses; rewriting sums them in the loop."""

    def step(carry, row):
        carry = jnp.tanh(params["w"] @ carry + doubled(row))
        return carry, (carry - row) ** 2

    return scale * lax.scan(step, jnp.zeros(3), x)[1].mean(), None


def arguments(n=5):
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=(3, 3)).astype("float32")}, jnp.asarray(
        rng.normal(size=(n, 3)), "float32"
    )


def test_it_is_plain_jax_that_stacks_less():
    ours = graphc.optimize(loss)
    params, x = arguments()
    close(ours(params, x, scale=2.0), loss(params, x, scale=2.0))
    assert [_stacked(f, params, x) for f in (ours, loss)] == [False, True]
    assert "as JAX traces it" not in ours.explain()


def _stacked(function, *args):
    """Whether some scan stacks all losses in an array."""
    scans = [
        eqn
        for eqn in equations(jax.make_jaxpr(function)(*args))
        if eqn.primitive.name == "scan"
    ]
    assert scans
    return any(v.aval.shape == (5, 3) for eqn in scans for v in eqn.outvars)


def test_transformations_see_rules_of_functions():
    ours = graphc.optimize(loss)
    params, x = arguments()
    for way in (jax.jit, lambda f: jax.jit(jax.grad(f, has_aux=True))):
        close(way(ours)(params, x), way(loss)(params, x))
    xs = jnp.stack([x, x + 1])
    both = [jax.vmap(f, (None, 0))(params, xs) for f in (ours, loss)]
    close(*both)


def test_what_rewriting_does_not_help_is_as_jax_traces_it():
    ours = graphc.optimize(lambda x: jnp.sin(x) * 2)
    assert ours(1.0).weak_type and ours(1.0) == jnp.sin(1.0) * 2
    assert "as JAX traces it" in ours.explain()


def test_jax_lowers_them_with_32_bits():
    """Indices, which have 64 bits in graphs, are included; so are negative seeds."""

    def function(x):
        def step(carry, row):
            drawn = jax.random.uniform(jax.random.key(-5)) * row
            places = jnp.argmax(x) - jnp.argmin(x, keepdims=True)[0]
            return carry * 0.5 + drawn, carry + places

        return lax.scan(step, 0.0, x)[1].sum()

    x = jnp.asarray([2.0, 4.0, 1.0, 3.0, 0.0])
    ours = graphc.jit(function)
    close(ours(x), function(x))
    assert "as JAX traces it" not in ours.explain()
