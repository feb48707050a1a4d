"""Integers that are followed as sizes: how far, and that names do not matter."""

import numpy as np
import pytest

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


# Questions about sizes.

x = gt.tensor("x", "float32", ("n", 3))
k = gt.iscalar("k")
n = x.shape[0]
kept = x[x[:, 0] > 0].shape[0]


def in_loop(question):
    """The answer for the step of a loop, while its body is built."""
    answers = []

    def step(i, total):
        answers.append(question(i))
        return total

    gt.fori_loop(0, k, step, 0.0)
    return answers[-1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, "3"),
        (np.int8(3), "3"),
        (gt.asarray(3), "3"),
        (x.shape[1], "3"),
        (n, "Dim(n)"),
        (as_size(n), "Dim(n)"),
        (2 * n + k, "Dim(k + 2*n)"),
        (gt.minimum(n, 4), "Dim(min(4, n))"),
        (kept, "None"),
        (as_size(kept), "None"),
        (n + kept, "None"),
        (n - n + kept - kept, "0"),
        (gt.argmax(x), "None"),
        (True, "None"),
        (2.0, "None"),
        (n / 2, "None"),
        (gt.stack(x.shape), "(Dim(n), 3)"),
        ([[1, k], [2, 3]], "((1, Dim(k)), (2, 3))"),
        (gt.stack([n, kept]), "None"),
        (np.zeros(0, "int64"), "()"),
        (np.arange(20), str(tuple(range(20)))),
        (gt.ivector("v"), "None"),
        (gt.ivector("v", (2,)), "None"),
    ],
)
def test_what_is_known_while_the_graph_is_built(value, expected):
    assert repr(graphc.known(value)) == expected


def test_a_step_of_a_loop_is_not_known():
    assert in_loop(graphc.known) is None
    assert in_loop(lambda i: graphc.same_size(i, i)) is True
    assert in_loop(lambda i: graphc.same_size(i, n)) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (3, np.int32(3), True),
        (3, 4, False),
        (n, as_size(n), True),
        (n * n - 1, (n + 1) * (n - 1), True),
        (n, n + 1, False),
        (2 * n, 2 * k + 1, False),
        (n, -1, False),
        (n, k, None),
        (n, 3, None),
        (kept, n + 1, False),
        (kept, n, None),
    ],
)
def test_sizes_are_equal_different_or_neither_is_proved(a, b, expected):
    assert graphc.same_size(a, b) is expected
    assert graphc.same_size(b, a) is expected


def test_only_sizes_are_compared():
    with pytest.raises(graphc.GraphError, match="same_size: a size must be an integer"):
        graphc.same_size(n, 2.0)
