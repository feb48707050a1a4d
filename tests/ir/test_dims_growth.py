"""Sizes that grow with others: each answer is tried with numbers."""

import operator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphc.ir.sizes.dims import (
    Dim,
    Size,
    Symbol,
    clip,
    evaluate,
    fresh_axis,
    maximum,
    minimum,
    symbol_dim,
)
from graphc.ir.sizes.growth import grows
from tests.ir.test_dims import (
    ASSIGNMENTS,
    DIMS,
    SYMBOLS,
    apply,
    built,
    constant,
    index,
    k,
    leaf,
    m,
    n,
    python_value,
    recipes,
)

shifted = symbol_dim(Symbol("shifted", origin="argument", lower=-3))


@pytest.mark.parametrize(
    ("size", "answer"),
    [
        (n, True),
        (-n, False),
        (m - n, False),
        (m - 3 * k, True),  # neither of them varies
        (n * m, True),
        (n * index, False),
        (n * shifted, False),
        (n // 2, True),
        (-(n // 2), False),
        ((5 - n) // 2, False),
        (n // index, False),
        (n // (m + 1), True),
        (m // (n + 1), False),
        (minimum(n, m), True),
        (maximum(n, m - n), False),
        (maximum(n - 3, m), True),
        (maximum(m - n, 0), False),
        (clip(index, n), False),
        (n - n // 2, True),
        (n % 4, False),
    ],
)
def test_growth_with_one_size(size: Size, answer: bool) -> None:
    assert grows(size, [n.symbols[0]]) is answer


def test_long_sums_grow_by_their_parts() -> None:
    """No proof is needed, and factors that may be negative leave it unknown."""
    axes = [fresh_axis("a") for _ in range(100)]
    total = sum(a * b for a, b in zip(axes, axes[1:], strict=False))
    assert isinstance(total, Dim) and grows(total, total.symbols)
    assert not grows(total * (index + 1), total.symbols)
    assert not grows(total - 2 * axes[0] * axes[1], total.symbols)


DIVIDED = apply(operator.floordiv, leaf(0), leaf(4))
SCALED = apply(operator.mul, leaf(0), apply(operator.sub, leaf(4), constant(1)))


@given(recipes(5), st.sets(st.sampled_from(SYMBOLS), min_size=1))
@example(DIVIDED, {SYMBOLS[0]})
@example(SCALED, {SYMBOLS[0]})
@settings(deadline=None, max_examples=60)
def test_what_grows_is_no_smaller_where_sizes_are_larger(recipe, symbols) -> None:
    size = built(recipe, DIMS)
    if not grows(size, symbols):
        return
    for sizes in ASSIGNMENTS[::29]:
        more = {s: a + (s in symbols) for s, a in sizes.items()}
        if more[SYMBOLS[3]] > more[SYMBOLS[0]]:
            continue  # it counts elements of the first axis
        if None not in (python_value(recipe, sizes), python_value(recipe, more)):
            assert evaluate(size, sizes) <= evaluate(size, more)
