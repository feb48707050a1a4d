"""Sizes as arithmetic on arrays mean what they mean as Python integers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from graphc.backends.sizes import array_size
from graphc.ir.dims import clip, expression, maximum, minimum
from graphc.ir.dims_reader import parse


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
