"""Draws are the same whatever `jax_threefry_partitionable` says."""

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

DRAWS = {
    "normal": lambda key, n: gt.random.normal(key, (n,)),
    "of a split key": lambda key, n: gt.random.uniform(gt.random.split(key)[1], (n,)),
    "bits": lambda key, n: gt.random.bits(key, (n, 3)),
    "in a loop": lambda key, n: gt.scan(
        lambda carry, row: (carry + gt.sum(gt.random.normal(key, (3,))) * row, carry),
        0.0,
        gt.random.normal(key, (n,)),
    )[1],
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_do_not_depend_on_the_setting(name):
    seed, x = gt.iscalar("seed"), gt.tensor("x", "float32", ("n",))
    drawn = DRAWS[name](gt.random.key(seed), x.shape[0])
    options_of = {
        "exact": {"dims": "specialize"},
        "padded": {"dims": "pad"},
        "NumPy": {"backend": "numpy"},
    }
    expected = None
    for partitionable in (True, False):
        with jax.threefry_partitionable(partitionable):
            for options in options_of.values():
                f = graphc.function([seed, x], drawn, **options)
                results = [np.asarray(f(3, np.ones(n, "float32"))) for n in (7, 5)]
                expected = expected or results
                for result, same in zip(results, expected, strict=True):
                    np.testing.assert_allclose(result, same, rtol=2e-6, atol=2e-6)


def test_programs_that_users_compile_draw_the_same():
    key, x = gt.random.key(0), gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], x + gt.random.normal(key, (x.shape[0],)))
    ones = np.ones(6, "float32")
    with jax.threefry_partitionable(False):
        drawn = jax.jit(f.jax_callable)(ones)
    np.testing.assert_allclose(drawn, f(ones), rtol=1e-6)
