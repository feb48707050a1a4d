"""Ops that wrap JAX functions: the importer reads them or leaves them to PyTensor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.jax.dispatch import jax_funcify
from pytensor.link.jax.ops import JAXOp
from pytensor.tensor.type import TensorType

import graphc.pytensor

pytestmark = pytest.mark.usefixtures("compiled_quickly", "python_only", "wide")
VECTOR, SCALAR = TensorType("float64", (None,)), TensorType("float64", ())


class Waved(Op):
    """An Op that only runs in PyTensor's JAX mode."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        raise NotImplementedError


@jax_funcify.register(Waved)
def _(op, **_):
    return lambda x: jnp.sin(x) + x.shape[0]


@jax.custom_vjp
def steep(x):
    return jnp.sum(x**2)


steep.defvjp(lambda x: (steep(x), x), lambda x, g: (100 * g * x,))


def of(function, inputs=1, output=VECTOR):
    return JAXOp([VECTOR] * inputs, [output], lambda *args: (function(*args),))


folded = of(lambda x: jax.lax.scan(lambda c, v: (c / 2 + v, c), 0.0, x)[0], 1, SCALAR)
READ = {
    "plain": (
        of(lambda x: x * jnp.arange(x.shape[0])),
        lambda x: x * np.arange(len(x)),
    ),
    "loop": (folded, lambda x: sum(v / 2**i for i, v in enumerate(x[::-1]))),
    "slope": (
        lambda x: pytensor.grad(folded(x), x),
        lambda x: 0.5 ** np.arange(len(x))[::-1],
    ),
    "custom": (
        lambda x: pytensor.grad(of(steep, 1, SCALAR)(x), x),
        lambda x: 100 * x,
    ),
    "funcify": (Waved(), lambda x: np.sin(x) + len(x)),
}
LEFT = {
    "decides": (of(lambda x: x * 2 if x.shape[0] > 2 else x), "decides by a size"),
    "two": (lambda x: of(lambda a, b: a + b, 2)(x, x[::-1][:3]), "for all sizes"),
}


@pytest.mark.parametrize("name", READ)
def test_functions_of_jax_are_compiled_for_all_sizes(name):
    op, expected = READ[name]
    x = VECTOR("x")
    for backend in ("numpy", "jax"):
        f = pytensor.function([x], op(x), mode=graphc.pytensor.mode(backend=backend))
        assert len(graphc.pytensor.program_of(f).functions) == 1
        assert "host:" not in graphc.pytensor.program_of(f).explain()
        for n in (1, 2, 5):
            given = np.arange(n) + 1.0
            np.testing.assert_allclose(f(given), expected(given), 1e-12)


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_read_is_performed(name):
    op, reason = LEFT[name]
    x = VECTOR("x")
    f = pytensor.function([x], op(x), mode="GRAPHC")
    assert reason in graphc.pytensor.program_of(f).explain()
    expected = pytensor.function([x], op(x), mode="FAST_COMPILE")
    for n in (2, 3):
        given = np.arange(n) + 1.0
        np.testing.assert_allclose(f(given), expected(given))
