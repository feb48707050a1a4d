"""`explain()` reports named axes that can have only one size."""

import pytest

import graphc
import graphc.tensor as gt

M, X = gt.tensor("m", "float32", ("n", 3)), gt.tensor("x", "float32", ("n",))


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_size_that_must_be_a_number_is_told(backend):
    f = graphc.function([M, X], M @ X, backend=backend)
    told = [line for line in f.explain().splitlines() if "must be" in line]
    assert len(told) == 1
    assert told[0].startswith("  n must be 3: matmul at ")


@pytest.mark.parametrize(
    ("shape", "other", "told"),
    [
        (("2*n",), (6,), "n must be 3"),
        (("n",), ("m",), ""),
        (("n",), ("2*m",), ""),
        (("n",), ("n*n*n",), ""),  # not linear, whatever its values at 0, 1 and 2
    ],
)
def test_only_single_numbers_are_told(shape, other, told):
    a, b = gt.tensor("a", "float32", shape), gt.tensor("b", "float32", other)
    f = graphc.function([a, b], gt.specify_shape(a, b.shape) + b, backend="numpy")
    assert (told in f.explain()) if told else ("must be" not in f.explain())
