"""Functions of JAX give by `graphc.jit` what they give by `jax.jit`.

By default a sample is run; GRAPHC_JAX_TABLE=all runs the whole table at more sizes.
"""

import os

import pytest

from tests.importers.jax.comparing import compare, compare_together, gradient_of
from tests.importers.jax.table import ROWS

WHOLE = os.environ.get("GRAPHC_JAX_TABLE") == "all"
SIZES = (4, 3, 5, 1, 0) if WHOLE else (4, 3, 1)
FORWARD = [
    *("jnp.nanmean", "nn.gelu", "slices", "last", "take fill", "at pairs"),
    *("vmap gather", "einsum", "solve", "vmap while", "switch", "conv last"),
    *("random.normal", "int divide", "dynamic_updates", "keys of pairs"),
    *("reshape by columns", "scan unrolled", "far outside"),
]
GRADIENTS = ["scan loss", "attention", "x[i]", "nn.softplus", "at add rows"]
GRADIENTS += ["far outside"]

# Rows whose Python code needs sizes as numbers.
FALLS_BACK = {"uneven"}


def groups(names):
    """Groups of rows that are compiled together, which saves time."""
    size = 1 if WHOLE else 5
    return [names[i : i + size] for i in range(0, len(names), size)]


@pytest.mark.parametrize("names", groups([*ROWS] if WHOLE else FORWARD), ids=", ".join)
def test_values_are_those_of_jax(names):
    rows = {name: ROWS[name] for name in names}
    stats = compare_together(rows, SIZES, may_raise=WHOLE).stats()
    if not WHOLE:
        assert stats.fallbacks == []
        assert any("n" in one.program for one in stats.compilations)


@pytest.mark.parametrize(
    "names", groups([*ROWS] if WHOLE else GRADIENTS), ids=", ".join
)
def test_gradients_are_those_of_jax(names):
    rows = {}
    for name in names:
        function, words = ROWS[name]
        slope = gradient_of(function, words)
        if slope is None:
            assert all(word[-1] in "ibck" for word in words)  # no argument is a float
        else:
            rows[name] = slope, words
    if rows:
        compare_together(rows, SIZES[:3], may_raise=WHOLE)


@pytest.mark.parametrize("name", sorted(FALLS_BACK))
def test_what_falls_back_gives_the_same(name):
    function, words = ROWS[name]
    assert compare(function, words, (4, 3, 5)).stats().fallbacks
