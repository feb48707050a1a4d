"""`vmap` of random functions, and its gradients, against a loop over examples.

Bits, and values that are only moved, are compared bit by bit, also on JAX. Functions of
them are compared only on NumPy, since XLA rounds differently in a larger program.
"""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.text.printer import to_text
from graphc.ir.text.reader import parse_graph

KEYS = np.array([[1, 2], [3, 4], [5, 6]], "uint32")
RANDOM = gt.random


def numbers(*shape):
    return np.random.default_rng(0).uniform(0.5, 3, shape)


EXACT = {
    "split": (lambda k: RANDOM.split(k, 3), ()),
    "fold_in": (RANDOM.fold_in, (np.arange(3, dtype="int32"),)),
    "bits": (lambda k: RANDOM.bits(k, (2,)), ()),
    "uniform": (lambda k, a: RANDOM.uniform(k, (4, 2), None, -a, a), (numbers(3, 2),)),
    "permutation": (lambda k, x: RANDOM.permutation(k, x, 1), (numbers(3, 2, 4),)),
    "randint": (lambda k, n: RANDOM.randint(k, (5,), 0, n), (np.array([2, 9, 100]),)),
}
ROUNDED = {
    "lognormal": (lambda k, s: RANDOM.lognormal(k, s, (4, 2)), (numbers(3, 2),)),
    "gamma": (RANDOM.gamma, (numbers(3, 2),)),
    "choice": (
        lambda k, x: RANDOM.choice(k, x, (2,), p=x / gt.sum(x)),
        (numbers(3, 5),),
    ),
    "multivariate_normal": (
        lambda k, m: RANDOM.multivariate_normal(k, m, gt.eye(2, dtype="float64"), (4,)),
        (numbers(3, 2),),
    ),
}


def variables(arrays):
    return [gt.tensor(f"x{i}", x.dtype, x.shape) for i, x in enumerate(arrays)]


def run(inputs, outputs, arrays, backend):
    return np.asarray(graphc.function(inputs, outputs, backend=backend)(*arrays))


def alone(function, params, backend):
    """Compile the function for one example."""
    inputs = variables([KEYS[0], *(np.asarray(x[0]) for x in params)])
    return graphc.function(inputs, function(*inputs), backend=backend)


def looped(one, arrays, mapped):
    """Run each example by itself and stack the results."""
    pairs = list(zip(arrays, mapped, strict=True))
    found = [one(*(x[i] if m else x for x, m in pairs)) for i in range(3)]
    return np.stack([np.asarray(x) for x in found])


def check(function, params, backend):
    """Compare `vmap` over all arguments with a loop over examples.

    On NumPy, which compiles nothing, mapping only the keys or only the parameters is
    tried too.
    """
    one = alone(function, params, backend)
    ways = [(True, True), (True, False), (False, True)]
    for mapped in ways if backend == "numpy" else ways[:1]:
        axes = mapped[:1] + mapped[1:] * len(params)
        if not any(axes):
            continue
        given = zip((KEYS, *params), axes, strict=True)
        arrays = [x if m else x[0] for x, m in given]
        inputs = variables(arrays)
        places = tuple(0 if m else None for m in axes)
        made = graphc.vmap(function, in_axes=places)(*inputs)
        found = run(inputs, made, arrays, backend)
        expected = looped(one, arrays, axes)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", EXACT)
def test_each_example_draws_as_alone(name, backend):
    check(*EXACT[name], backend)


@pytest.mark.parametrize("name", ROUNDED)
def test_each_example_draws_as_alone_on_numpy(name):
    check(*ROUNDED[name], "numpy")


def nested():
    """Log-normal draws for each key (axis 0) and each parameter (axis 1)."""
    keys, scale = variables([KEYS, numbers(2)])

    def of_key(k):
        return graphc.vmap(lambda s: RANDOM.lognormal(k, s, (4,)))(scale)

    return keys, scale, graphc.vmap(of_key)(keys)


def test_keys_and_parameters_on_two_axes():
    keys, scale, made = nested()
    found = run([keys, scale], made, [KEYS, numbers(2)], "numpy")
    normal = variables([KEYS[0]])
    for i, key in enumerate(KEYS):
        z = run(normal, RANDOM.normal(*normal, (4,), "float64"), [key], "numpy")
        for j, s in enumerate(numbers(2)):
            np.testing.assert_array_equal(found[i, j], np.exp(z * s))


def test_text_keeps_the_new_axes():
    keys, scale, made = nested()
    graph = Graph((keys, scale), (made,), ("keys", "scale"), ("",))
    assert to_text(parse_graph(to_text(graph))) == to_text(graph)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("n", [0, 2])
def test_any_number_of_examples(backend, n):
    keys = gt.tensor("keys", "uint32", ("n", 2))
    made = graphc.vmap(lambda k: RANDOM.normal(k, (3,)))(keys)
    assert run([keys], made, [KEYS[:n]], backend).shape == (n, 3)


SMOOTH = {
    "uniform": lambda k, a, b: RANDOM.uniform(k, (4, 2), "float64", a, a + b),
    "truncated_normal": lambda k, a, b: RANDOM.truncated_normal(k, -a, b),
    "lognormal": lambda k, a, b: RANDOM.lognormal(k, a + b, (4, 2)),
    "pareto": lambda k, a, b: RANDOM.pareto(k, a * b),
    "rayleigh": lambda k, a, b: RANDOM.rayleigh(k, a * b),
    "weibull_min": lambda k, a, b: RANDOM.weibull_min(k, a, b),
    "wald": lambda k, a, b: RANDOM.wald(k, a * b, (4, 2)),
    "triangular": lambda k, a, b: RANDOM.triangular(k, -a, b - 0.5, 3.0 + b, (4, 2)),
    "permutation": lambda k, a, b: RANDOM.permutation(k, a * b),
    "multivariate_normal": lambda k, a, b: RANDOM.multivariate_normal(
        k, a, a[:, None] * a + gt.diag(b), (4,)
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_jax(name):
    """Each key has draws of its own; all share the same parameters."""
    arrays = [KEYS, numbers(2), numbers(2) + 1]
    inputs = variables(arrays)
    made = graphc.vmap(SMOOTH[name], in_axes=(0, None, None))(*inputs)
    cost = gt.sum(made**2 * gt.cos(gt.reshape(gt.arange(made.size), made.shape)))
    found = graphc.function(inputs, graphc.grad(cost, inputs[1:]), backend="numpy")
    program = graphc.function(inputs, cost, backend="jax").jax_callable
    with jax.enable_x64(True):
        expected = jax.jit(jax.grad(program, (1, 2)))(*arrays)
    for g, e in zip(found(*arrays), expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-9)


def test_why_a_draw_has_no_gradient():
    key, a = variables([KEYS[0], np.asarray(2.0)])
    with pytest.raises(graphc.GraphError, match="drawn by rejection"):
        graphc.grad(gt.sum(RANDOM.gamma(key, a, (3,))), a)
