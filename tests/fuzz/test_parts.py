"""Random programs over parts of arrays, against NumPy and unrewritten gradients.

`GRAPHC_FUZZ=500 pytest tests/fuzz/test_parts.py` runs that many programs.
"""

import os
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.fuzz.parts import NUMBERS, SYMBOLS, text_of

pytestmark = pytest.mark.usefixtures("wide")
COUNT = int(os.environ.get("GRAPHC_FUZZ", "4"))
START = int(os.environ.get("GRAPHC_FUZZ_START", "0"))
SIZES = (5, 3, 2), (1, 1, 1), (40, 70, 33), (3, 2, 0), (0, 3, 0), (130, 200, 99)
FEW_SIZES = SIZES[0], SIZES[2]  # JAX takes seconds to compile each
OTHERS = {"rewritten": {}, "padded": {"dims": "pad"}}
X, Y = gt.tensor("x", "float64", "n"), gt.tensor("y", "float64", "m")
A, K = gt.tensor("a", "float64", "n m"), gt.scalar("k", "int64")


def function_of(text, backend, **options):
    """Compile a program together with its gradients."""
    scope = {"F": SYMBOLS, "x": X, "y": Y, "a": A, "k": K}
    value = eval(text, scope)
    gradients = graphc.grad(value, [X, Y, A], disconnected="zero")
    return graphc.function(
        [X, Y, A, K], [value, *gradients], backend=backend, unused="ignore", **options
    )


def arguments_of(seed, sizes):
    n, m, k = sizes
    rng = np.random.default_rng((seed, *sizes))
    return [
        rng.standard_normal(n),
        rng.standard_normal(m),
        rng.standard_normal((n, m)) * 0.3,
        k,
    ]


def assert_close(results, expected, where):
    """Compare results, up to rounding relative to the largest element of each array."""
    for result, other in zip(results, expected, strict=True):
        assert np.shape(result) == np.shape(other), where
        largest = np.abs(np.where(np.isfinite(other), other, 0)).max(initial=1)
        np.testing.assert_allclose(
            result, other, rtol=1e-6, atol=1e-8 * largest, err_msg=where
        )


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_values_and_gradients(backend):
    count, all_sizes = (COUNT, SIZES) if backend == "numpy" else (COUNT // 4, FEW_SIZES)
    for seed in range(START, START + count):
        text = text_of(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = function_of(text, "numpy", rewrites=graphc.rewrites.none)
            others = {
                name: function_of(text, backend, **options)
                for name, options in OTHERS.items()
            }
            for sizes in all_sizes:
                arguments = arguments_of(seed, sizes)
                expected = plain(*arguments)
                where = f"seed {seed}, {sizes}: {text}"
                by_name = dict(zip("xyak", arguments, strict=True))
                assert_close(
                    expected[:1], [eval(text, {"F": NUMBERS, **by_name})], where
                )
                for name, function in others.items():
                    assert_close(function(*arguments), expected, f"{name}, {where}")
