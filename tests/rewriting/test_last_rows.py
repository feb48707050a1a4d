"""The last row that a loop stacks is replaced where the loop carries it too."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.rewrites import none

ROWS = np.arange(15.0).reshape(5, 3)
W = gt.tensor("w", "float64", (3,))


def loop(length, **options):
    """The stacked rows of a scan with two carries, and its inputs."""
    x = gt.tensor("x", "float64", (length, 3))

    def step(carry, row):
        new = gt.sin(carry[0] + row), carry[1] * 0.5
        return new, (new[0], new[1] + row, new[1])

    _, stacked = gt.scan(step, (W, W * 2), x, **options)
    return stacked, [W, x]


def applied(value, inputs):
    """Whether the rule applied; the results must equal those without rules."""
    f = graphc.function(inputs, value, backend="numpy")
    plain = graphc.function(inputs, value, backend="numpy", rewrites=none)
    given = np.array([0.5, -1.0, 2.0]), ROWS
    np.testing.assert_allclose(f(*given), plain(*given), 1e-14)
    return "last_of_stacked" in [a.rule.name for a in f.rewrites]


@pytest.mark.parametrize(
    ("at", "reverse", "expected"),
    [(-1, False, True), (4, False, True), (0, True, True), (0, False, False),
     (-1, True, False), (3, False, False)],
)  # fmt: skip
def test_it_is_the_last_step_that_counts(at, reverse, expected):
    (first, other, second), inputs = loop(5, reverse=reverse)
    assert applied(first[at], inputs) is expected
    assert applied(second[at, 1:], inputs) is expected
    assert not applied(other[at], inputs)  # no carry holds it


def test_a_loop_that_may_have_no_step_keeps_its_rows():
    (first, *_), inputs = loop("n")
    assert not applied(first[-1], inputs)


def test_rows_behind_others_are_found():
    (first, *_), inputs = loop(5)
    assert applied(gt.concatenate([W[None], first])[-1], inputs)


def test_a_part_that_may_be_empty_is_not_passed_over():
    x = gt.tensor("x", "float64", ("n", 3))
    joined = gt.concatenate([x, ROWS])
    f = graphc.function([x], [joined[0], joined[-1]], backend="numpy")
    for n in (0, 2):
        given = np.full((n, 3), 7.0)
        found = f(given)
        np.testing.assert_array_equal(found[0], [*given, *ROWS][0])
        np.testing.assert_array_equal(found[1], ROWS[-1])
    assert [a.rule.name for a in f.rewrites] == ["index_of_joined"]
