"""Functions of JAX in a function of NumPy: the error says what to write instead."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest
from jax import lax, nn

import graphc
import graphc.tensor as gt

X = np.array([1.0, -1.0, 2.0])
CALLS = {
    "jnp.sort": (lambda x: jnp.sort(x)[:2], "np.sort"),
    "jnp.tanh": (lambda x: 1 + jnp.tanh(x), "np.tanh"),
    "jnp.where": (lambda x: jnp.where(x > 0, x, 0), "np.where"),
    "jnp.sum": (lambda x: np.abs(jnp.sum(x)), "np.sum"),
    "jnp.concatenate": (lambda x: jnp.concatenate([x, x]), "np.concatenate"),
    "jnp.linalg.norm": (lambda x: jnp.linalg.norm(x), "np.linalg.norm"),
    "jnp.fft.fft": (lambda x: jnp.fft.fft(x), "np.fft.fft"),
    "jnp.asarray": (lambda x: jnp.asarray(x), "np.asarray"),
    "jnp.einsum": (lambda x: jnp.einsum("i,i->", x, x), "np.einsum"),
    "jnp.arange": (lambda x: jnp.arange(x.sum()), "np.arange"),
    "jax.nn.softmax": (lambda x: jax.nn.softmax(x), "gt.nn.softmax of graphc.tensor"),
    "nn.relu": (lambda x: nn.relu(x), "gt.nn.relu of graphc.tensor"),
    "jsp.special.erf": (
        lambda x: jsp.special.erf(x),
        "gt.special.erf of graphc.tensor",
    ),
    "lax.cond": (
        lambda x: lax.cond(x[0] > 0, lambda: x, lambda: -x),
        "gt.cond of graphc.tensor",
    ),
    "lax.top_k": (lambda x: lax.top_k(x, 2), "gt.top_k of graphc.tensor"),
}
WORKS = {
    "np.sort": lambda x: np.sort(x)[:2],
    "gt.nn.softmax": lambda x: gt.nn.softmax(x),
    "gt.special.erf": lambda x: gt.special.erf(x),
    "gt.top_k": lambda x: gt.top_k(x, 2),
    "np.asarray": lambda x: np.asarray([1.0, 2.0, 3.0])[np.argmax(x)],
    "np.asarray of a part": lambda x: np.asarray((1.0, 2.0, 3.0))[np.argmax(x) :],
}


@pytest.mark.parametrize("name", CALLS)
def test_the_name_to_write(name):
    function, meant = CALLS[name]
    with pytest.raises(TypeError) as error:
        graphc.jit(function, frontend="numpy")(X)
    told = f'{name} takes no arrays that are traced with frontend="numpy": write '
    assert str(error.value).endswith(told + meant)


def test_what_has_no_name_there():
    with pytest.raises(TypeError, match=r"jax.jit takes no .* or leave frontend out"):
        graphc.jit(lambda x: jax.jit(lambda y: y)(x), frontend="numpy")(X)


@pytest.mark.parametrize("name", WORKS)
def test_it_works_when_typed(name):
    graphc.jit(WORKS[name], frontend="numpy", backend="numpy")(X)


HINTS = {
    "use np.where(condition, a, b)\n": lambda x: x if x.sum() > 0 else -x,
    "use np.maximum(a, b)\n": lambda x: max([x.sum(), x[0]]),
    "use np.max(x)\n": lambda x: max(x),
    "use np.isin(x, numbers)\n": lambda x: x if x[0] in x else -x,
    "write ~a, or np.logical_not(a)\n": lambda x: not x.sum(),
    "use np.arange(n), or gt.fori_loop(": lambda x: range((x > 0).sum()),
}


@pytest.mark.parametrize("hint", HINTS)
def test_hints_are_in_the_words_of_numpy(hint):
    with pytest.raises(graphc.GraphError) as error:
        graphc.jit(HINTS[hint], frontend="numpy")(X)
    assert f"hint: {hint}" in str(error.value)


def test_hints_elsewhere_are_in_those_of_graphc():
    x = gt.scalar("x")
    with pytest.raises(graphc.GraphError, match="use gt.cond.*gt.where"):
        x = 1 if x > 0 else 2
