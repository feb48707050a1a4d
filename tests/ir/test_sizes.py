"""Integers that are followed as sizes: how far, and that names do not matter."""

import graphc
import graphc.tensor as gt
from graphc.ir.build import as_size
from graphc.ir.graph import origins


def weighted(names):
    """A sum over sizes, and the sizes."""
    sizes = [gt.iscalar(name) for name in names]
    total = sizes[0] * sizes[1]
    for i, n in enumerate(sizes):
        total = gt.maximum(total + (i + 1) * n, n)
    return total, sizes


def test_long_names_do_not_change_what_is_followed():
    long = [f"a_rather_long_name_of_a_size_{c}" for c in "abcdef"]
    for names in (long, "abcdef"):
        total, sizes = weighted(names)
        assert set(origins(as_size(total))) == set(sizes)
        f = graphc.function(sizes, gt.zeros(total), backend="numpy")
        assert f(1, 2, 3, 4, 5, 6).shape == (1 * 2 + 1 + 4 + 9 + 16 + 25 + 36,)


def test_formulas_that_grow_without_end_are_cut():
    """From there on, the result is a size of its own, read when it is known."""
    total, sizes = weighted([f"n{i}" for i in range(40)])
    assert not set(origins(as_size(total))) & set(sizes[:20])
    f = graphc.function(sizes, gt.zeros(total), backend="numpy")
    assert f(*[1] * 40).shape == (1 + sum(range(1, 41)),)
