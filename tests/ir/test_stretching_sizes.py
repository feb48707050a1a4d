"""Sizes of axes that may be 1: how they combine, and what can be proved of them."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.ir.sizes.dims import (
    Size,
    axis,
    bounds,
    ceil_div,
    equal,
    evaluate,
    less_equal,
    maximum,
    may_be_one,
    minimum,
    stretch,
    substitute,
)
from graphc.ir.sizes.growth import grows
from graphc.ir.sizes.reader import parse

b, c, n = axis("b?"), axis("c?"), axis("n")
B, C, N = (size.symbols[0] for size in (b, c, n))


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ((), 1),
        ((1, 1), 1),
        ((b,), b),
        ((b, 1, b), b),
        ((b, n), n),
        ((4, b), 4),
        ((0, b), 0),
        ((n + 1, c, b), n + 1),
        ((b, b + 1), b + 1),
    ],
    ids=str,
)
def test_what_is_never_1_decides(sizes, together):
    assert equal(stretch(*sizes), together)


def test_stretching_is_flat_and_in_no_order():
    d = axis("d?")
    assert stretch(b, c) is stretch(c, b) is stretch(b, c, b)
    assert stretch(stretch(b, c), d) is stretch(b, stretch(d, c))
    assert stretch(stretch(b, c), n) is n


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (b, "b?"),
        (2 * b + 1, "2*b? + 1"),
        (n * stretch(c, b), "n*stretch(b?, c?)"),
        (stretch(b, c) // 2, "stretch(b?, c?)//2"),
        (stretch(b * c, c), "stretch(b?*c?, c?)"),
    ],
)
def test_texts_are_read_back(size, text):
    assert str(size) == text
    assert parse(text) is size


def test_a_question_mark_stands_behind_a_name():
    assert parse("β?") is axis("β?")
    assert parse(" b ? + 1") is b + 1
    assert axis("b?").symbols[0].may_be_one
    assert not axis("b").symbols[0].may_be_one
    assert not axis("2?").symbols[0].may_be_one
    for text in ("?", "b??", "2?", "?b", "b.may_be_one", "b? c?"):
        with pytest.raises(ValueError, match="cannot read the size"):
            parse(text)


@pytest.mark.parametrize("size", [b, b * c, 2 * b - 1, minimum(b, 3), stretch(b, c)])
def test_sizes_that_follow_axes_that_are_1(size):
    assert may_be_one(size)


@pytest.mark.parametrize("size", [1, n, b + 1, 2 * b, b - 1, b * n, maximum(b, 2)])
def test_sizes_that_do_not(size):
    assert not may_be_one(size)


def test_resolved_sizes():
    size = stretch(b, c)
    assert substitute(size, {B: 1}) is c
    assert substitute(size, {B: 1, C: 1}) == 1
    assert substitute(size, {B: n}) is n
    assert substitute(size + b, {B: 1}) is c + 1


ATOMS = st.sampled_from([b, c, n, stretch(b, c), b * c, 0, 1, 2])


@st.composite
def sizes(draw: st.DrawFn) -> Size:
    first, second, third = (draw(ATOMS) for _ in range(3))
    kind = draw(st.sampled_from(["sum", "min", "max", "stretch", "product", "part"]))
    match kind:
        case "sum":
            return first + 2 * second - third
        case "min":
            return minimum(first, second + third)
        case "max":
            return maximum(first, second - third)
        case "stretch":
            return stretch(first, second) * third
        case "part":
            return ceil_div(stretch(first, second), 2) - third
    return stretch(first * second, third)


def values(size):
    """Yield values of a size where axes other than 1 agree, as broadcasting needs."""
    for many, lone in itertools.product((0, 1, 2, 5), (0, 1, 3)):
        for one_b, one_c in itertools.product((1, many), repeat=2):
            yield evaluate(size, {B: one_b, C: one_c, N: lone})


@given(sizes(), sizes())
@settings(max_examples=150, deadline=None)
def test_proofs_hold_wherever_arrays_broadcast(first, second):
    low, high = bounds(first)
    pairs = list(zip(values(first), values(second), strict=True))
    for value, other in pairs:
        assert (low is None or low <= value) and (high is None or value <= high)
        if equal(first, second) is not None:
            assert (value == other) or not equal(first, second)
        if less_equal(first, second) is not None:
            assert (value <= other) is less_equal(first, second)


def test_what_stretches_need_not_grow():
    assert not grows(stretch(b, c), [B])  # with c = 5, b from 1 to 0 shrinks it
    assert grows(stretch(b, c), [N])
