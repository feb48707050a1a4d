"""Sizes in arithmetic on arrays mean what they mean as Python integers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from graphc.backends.sizes import array_size
from graphc.ir.sizes.dims import clip, maximum, minimum
from graphc.ir.sizes.reader import parse
from graphc.ir.sizes.text import expression


def test_array_text_has_the_value_of_the_integer_text():
    n, m = parse("n"), parse("m")
    sizes = [
        *(clip(n - 3, m), clip(n, m) + 2 * clip(m - n, n)),
        *(maximum(n, m, 4) - minimum(n * m, 7, m - 1), maximum(1, n // 2) % 3),
    ]
    texts = [(array_size(d, str_of), expression(d, str_of)) for d in sizes]
    for n_value, m_value in itertools.product(range(6), range(6)):
        for array_text, text in texts:
            known = {"n": n_value, "m": m_value}
            arrays = {k: jnp.asarray(v) for k, v in known.items()}
            got = eval(array_text, {"jnp": jnp}, arrays)
            assert int(got) == eval(text, {}, known), (array_text, known)


def str_of(symbol):
    return symbol.name


def test_a_size_that_is_only_a_number_is_traced():
    n, x = gt.iscalar("n"), gt.tensor("x", "float32", (3,))
    y = gt.zeros(n).shape[0]
    f = graphc.function([x, n], x / gt.maximum(y, 2))
    with jax.enable_x64(True):
        for size in (0, 2, 5):
            np.testing.assert_allclose(f(np.ones(3, "f4"), size), 1 / max(size, 2))
    assert len(f.stats().compilations) == 1


x = gt.tensor("x", "float64", ("n",))
j, k = (gt.tensor(name, "int64", ("m",)) for name in "jk")
LARGE, ZERO = 2**62, np.float64(0)


def summed(start, stop=None):
    return gt.sum(x[start:stop])


def of_carries(c, _):
    start, stop, total = c
    return (start, stop, total + summed(stop - start)), None


COMPUTED = {  # from integers of a step, of the program, and of both
    "rows": gt.scan(lambda c, r: (c + summed(r[1] - r[0]), None), ZERO, (j, k))[0],
    "carries": gt.scan(of_carries, (gt.max(j), gt.max(k), ZERO), k)[0][2],
    "captured": gt.scan(lambda c, r: (c + summed(gt.max(k) - r), None), ZERO, j)[0],
    "outside": summed(gt.max(k) - gt.max(j)),
    "twice": summed(2 * gt.max(k) - gt.max(j) - gt.min(j)),
    "within another": summed(gt.minimum(gt.max(k) - gt.max(j), 3) + 1),
    "remainder": summed(gt.max(j) % 5 - 5),
}


def expected(j, k):
    numbers = np.arange(1.0, 6.0)
    bounds = [*[k - j] * 4, 2 * (k - j), min(k - j, 3) + 1]
    found = [numbers[max(-9, min(9, b)) :].sum() for b in bounds]
    return [*found, numbers[j % 5 - 5 :].sum()]


def test_sums_of_traced_integers_do_not_wrap_around():
    """Like Python's sums, they are exact even if the integers exceed any axis."""
    f = graphc.function([x, j, k], list(COMPUTED.values()), dims="pad")
    numbers = (1, 3, -5, LARGE, 2 * LARGE - 1, -LARGE, -2 * LARGE)
    for one, other in itertools.product(numbers, numbers):
        found = f(np.arange(1.0, 6.0), np.array([one]), np.array([other]))
        pairs = zip(found, expected(one, other), strict=True)
        for name, (got, wanted) in zip(COMPUTED, pairs, strict=True):
            assert np.asarray(got) == wanted, (name, one, other)
    assert len(f.stats().compilations) == 1
