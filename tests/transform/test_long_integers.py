"""Integers computed from sizes are Python's, with any number of bits.

Programs compute sizes in 32 bits if these are enough; XLA would drop all others.
"""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc_serving

POLICIES = ("specialize", "pad")
BACKENDS = ("jax", "numpy")
FAR = 2**40
SIZES = {"specialize": (1, 39, 100), "pad": (1, 5, 12, 39, 70, 100)}
COMPUTED = {
    "and": lambda n: (n + FAR) & (FAR + 4),
    "or": lambda n: n | FAR,
    "xor": lambda n: n ^ FAR,
    "shift": lambda n: 12 << n,
    "power": lambda n: 3**n,
    "power of a size": lambda n: n**9 % 1000,
    "remainder": lambda n: 5**n % 11,
    "of a power": lambda n: (2**n - n) // 3,
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", COMPUTED)
def test_they_are_those_of_python(name, backend, policy):
    compute = COMPUTED[name]
    x = gt.vector("x", "float64")
    number = compute(x.shape[0])
    f = graphc.function([x], [x * number, x / number], backend=backend, dims=policy)
    for n in SIZES[policy]:
        array = np.arange(1.0, n + 1)
        product, quotient = f(array)
        np.testing.assert_allclose(product, array * float(compute(n)), rtol=1e-15)
        with np.errstate(divide="ignore"):
            expected = array / np.float64(compute(n))
        np.testing.assert_allclose(quotient, expected, rtol=1e-15)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_common_divisors_and_multiples_of_sizes(name, backend, policy):
    x = gt.vector("x", "float64")
    n, compute, of_numpy = x.shape[0], getattr(gt, name), getattr(np, name)

    def pairs(n):
        return [(n, 12), (0, n), (n, n), (n * n, n), (n, FAR)]

    numbers = [x * compute(*pair) for pair in pairs(n)]
    f = graphc.function([x], numbers, backend=backend, dims=policy)
    for n in (1, 12, 40):
        for found, pair in zip(f(np.ones(n)), pairs(n), strict=True):
            np.testing.assert_array_equal(found, np.ones(n) * of_numpy(*pair))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_they_are_compared_and_chosen(backend, policy):
    x = gt.vector("x", "float64")
    n = x.shape[0]
    outputs = [
        gt.where(n < FAR, x, -x),
        x * gt.fmax(n, FAR),
        x * gt.fmin(n, FAR),
        gt.where(2**n > 10**18, x, -x),
    ]
    f = graphc.function([x], outputs, backend=backend, dims=policy)
    for n in (1, 59, 60):
        found = f(np.ones(n))
        numbers = 1, FAR, n, 1 if 2**n > 10**18 else -1
        for array, number in zip(found, numbers, strict=True):
            np.testing.assert_array_equal(array, np.full(n, float(number)))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_powers_of_large_sizes_are_no_integers_of_64_bits(backend, policy):
    """The cube of 3,000,000 takes 65 bits."""
    x = gt.tensor("x", "float64", ("n", 0))
    n = x.shape[0]

    def numbers(n):
        return [n**3 * 1.5, n**4 / 7, n**3 / n**2, n * n * 10.0**7]

    outputs = [*numbers(n), gt.sum(x) / n**3, gt.full((2,), n**4, "float64")]
    f = graphc.function([x], outputs, backend=backend, dims=policy)
    for n in (3, 3_000_000):
        expected = [*numbers(n), 0.0, np.full(2, float(n**4))]
        for found, number in zip(f(np.ones((n, 0))), expected, strict=True):
            np.testing.assert_allclose(found, number, rtol=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_they_are_in_the_steps_of_loops(policy):
    x = gt.vector("x", "float64")
    n = x.shape[0]
    total, _ = gt.scan(lambda c, v: (c + v * 2**n, v), gt.zeros((), "float64"), x)
    f = graphc.function([x], total, dims=policy)
    for n in (3, 40, 70):
        assert float(f(np.ones(n))) == n * 2**n


@pytest.mark.parametrize("policy", POLICIES)
def test_an_integer_of_more_than_64_bits_is_refused(policy):
    x = gt.vector("x", "float64")
    power = gt.asarray(3 ** x.shape[0])
    f = graphc.function([x], x * power, dims=policy)
    assert float(f(np.ones(30))[0]) == 3**30
    with pytest.raises(graphc.CallError, match="OverflowError"):
        f(np.ones(70))


@pytest.mark.parametrize("policy", POLICIES)
def test_files_have_those_of_64_bits(policy, tmp_path):
    x = gt.vector("x", "float64")
    n = x.shape[0]
    outputs = [x / 2**n, x * (1 << n), x * (3**n % 7), x / n**3]
    f = graphc.function([x], outputs, dims=policy)
    sizes = (3, 5, 20, 30)
    f.export(tmp_path / "long.model", {"x_0": sizes})
    model = graphc_serving.load(tmp_path / "long.model")
    for n in sizes:
        array = np.arange(1.0, n + 1)
        for found, expected in zip(model(array), f(array), strict=True):
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(graphc.CallError, match="3 and 40 give an integer of over 64"):
        f.export(tmp_path / "longer.model", {"x_0": [40]})
