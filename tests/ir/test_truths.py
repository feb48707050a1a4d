"""Sizes that are selected by a condition on sizes."""

import itertools

import pytest

from graphc.ir.sizes.dims import Symbol, equal, evaluate, maximum, minimum, symbol_dim
from graphc.ir.sizes.truths import at_most, below, choose

SYMBOLS = Symbol("n"), Symbol("m")
N, M = map(symbol_dim, SYMBOLS)
CONDITIONS = {
    "below": below(N, M),
    "above": below(M, N),
    "at most": at_most(N, M),
    "at least": at_most(M, N),
    "another": below(N + 1, M),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_is_chosen(name):
    condition = CONDITIONS[name]
    found = choose(condition, N, M)
    for sizes in itertools.product(range(4), repeat=2):
        known = dict(zip(SYMBOLS, sizes, strict=True))
        expected = sizes[0] if evaluate(condition, known) else sizes[1]
        assert evaluate(found, known) == expected


def test_a_choice_of_the_larger_is_a_maximum():
    assert equal(choose(below(4, N), N - 4, 0), maximum(N - 4, 0)) is True
    assert equal(choose(CONDITIONS["at least"], N, M), maximum(N, M)) is True
    assert equal(choose(CONDITIONS["below"], N, M), minimum(N, M)) is True
