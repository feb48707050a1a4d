"""Extremes of large arrays are NaN if an element is; XLA overlooks that on CPUs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.types import dtype_of

x = gt.tensor("x", "float32", ("n", "m"))
y = gt.tensor("y", "float32", ("n", "m"))
mask = gt.tensor("mask", "bool", ("n", "m"))


def top(a, axis=1):
    return gt.max(a, axis=axis, keepdims=True)


powers = gt.exp(x - top(x))
row_sums = gt.sum(powers, axis=1, keepdims=True)
highest, _ = gt.scan(lambda c, row: (gt.maximum(c, gt.max(row)), c), -np.inf, x)
SHIFTED = {
    "softmax": gt.nn.softmax(x, axis=1),
    "log_softmax": gt.nn.log_softmax(x, axis=1),
    "logsumexp": gt.nn.logsumexp(x, axis=1),
    "attention": gt.nn.softmax(x @ x.T, axis=1) @ x,
    "its gradient": graphc.grad(gt.sum((gt.nn.softmax(x @ x.T, axis=1) @ x) ** 2), x),
    "by hand": gt.log(gt.sum(gt.exp(x - gt.max(x)))) + gt.max(x),
    "divided": powers / row_sums,
}
SHOWN = {
    "alone": gt.max(x),
    "smallest": gt.min(x, axis=0),
    "of differences": x - gt.max(x),
    "of masked differences": gt.sum(powers) + gt.where(mask, x - top(x), 0),
    "of powers": powers,
    "of powers beside their sum": [powers, row_sums],
    "beside its use": gt.sum(powers) + gt.sum(gt.max(x, axis=1)),
    "in a loop": highest,
    "compared": gt.sum(gt.where(x == gt.max(x), powers, 0)),
    "of others": gt.sum(gt.exp(y - top(x)), axis=1),
    "over more axes": gt.sum(gt.exp(x - gt.max(x)), axis=1),
    "of more": gt.sum(gt.where(mask, powers, 0), axis=1),
    "beside a logarithm": [row_sums, gt.max(x, axis=1) + gt.log(gt.sum(y))],
    "where a sum is not": gt.where(row_sums > 0, 0, powers),
}


def compared(outputs, turn):
    """Return the programs of two policies; the results of one must be NumPy's.

    One element of the argument is NaN. The policies take turns.
    """
    inputs, rng = [x, y, mask], np.random.default_rng(0)
    numbers, others = rng.normal(size=(2, 70, 90)).astype("float32")
    numbers[2, 3] = np.nan
    arrays = numbers, others, rng.random((70, 90)) < 0.5
    numpy = graphc.function(inputs, outputs, backend="numpy", unused="ignore")
    expected = jax.tree.leaves(numpy(*arrays))
    functions = [
        graphc.function(inputs, outputs, dims=dims, unused="ignore")
        for dims in ("specialize", "pad")
    ]
    results = jax.tree.leaves(functions[turn % 2](*arrays))
    for result, number in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, number, rtol=1e-3, atol=1e-4)
    return functions


SPECIAL = [(np.nan,), (np.inf, -np.inf), (np.inf, np.nan)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_nan_of_one_element(dtype):
    a = gt.tensor("a", dtype, ("n", "m", "k"))
    pools = [gt.nn.max_pool(a, 2), gt.nn.min_pool(a, 2)]
    whole = [gt.max(a), gt.min(a), gt.max(a, initial=1.0)]
    rows = [gt.max(a, axis=2), gt.min(a, axis=(0, 1), keepdims=True)]
    outputs = [*whole, *rows, *pools, gt.linalg.norm(a[0], np.inf)]
    exact = graphc.function([a], outputs, backend="numpy")
    on_jax = [graphc.function([a], outputs, dims=d) for d in ("specialize", "pad")]
    for special in SPECIAL:
        numbers = np.linspace(-3, 2, 17 * 16 * 24).reshape(17, 16, 24)
        numbers[0, 3, : len(special)] = special
        numbers = numbers.astype(dtype_of(dtype))
        expected = exact(numbers)
        for f in on_jax:
            for result, number in zip(f(numbers), expected, strict=True):
                np.testing.assert_array_equal(
                    np.asarray(result, "float32"), np.asarray(number, "float32")
                )


@pytest.mark.parametrize("name", SHIFTED)
def test_largest_elements_that_shift_exponentials_are_not_asked(name):
    """The sum becomes NaN in any case, whatever the exponentials are shifted by."""
    for f in compared(SHIFTED[name], turn=list(SHIFTED).index(name)):
        assert "extreme(" not in f.source


@pytest.mark.parametrize("name", SHOWN)
def test_others_are_asked(name):
    for f in compared(SHOWN[name], turn=list(SHOWN).index(name)):
        assert "extreme(" in f.source


def test_functions_of_jax_at_other_sizes():
    f = graphc.jit(lambda x: jnp.max(x, axis=1), dims="pad")
    f(np.ones((4, 5), "float32"))
    numbers = np.ones((70, 90), "float32")
    numbers[2, 3] = np.nan
    np.testing.assert_array_equal(f(numbers), numbers.max(1))
