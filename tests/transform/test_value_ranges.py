"""Ranges of integers: as narrow as they are known, and left by no value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Dim, evaluate, symbol_dim
from graphc.ir.sizes.ranges import SizeRange
from graphc.ops.arrays.integer_ranges import upper_bound
from graphc.rewrites import none
from graphc.transform.padding.value_ranges import ValueRanges

x, i = gt.tensor("x", "float64", ("n",)), gt.tensor("i", "int64", (4,))
n, three, zero = x.shape[0], gt.asarray(3), gt.asarray(0)
steps = gt.arange(n)


def known(symbol):
    size = symbol_dim(symbol)
    return SizeRange(size, size)


def ranges_of(value):
    """The values from which `value` is computed, itself last, with their ranges."""
    ranges, nodes = ValueRanges(known), ancestors([value])
    for node in nodes:
        ranges.observe(node)
    return [(v, ranges.of(v)) for node in nodes for v in node.outputs]


def counted(body, first=zero, length=n):
    return gt.fori_loop(0, length, lambda t, c: body(t, c), first)


def stepwise(of, by=2, first=zero, length=5):
    """The outputs of a loop, computed from the step's number and a growing carry."""
    return gt.scan(lambda c, t: (c + by, of(t, c)), first, gt.arange(length))[1]


RANGES = {
    "steps": (steps, "0", "n - 1"),
    "steps from 2": (gt.arange(2, n + 2, 3), "2", "3*((n + 2)//3) - 1"),
    "backwards": (gt.arange(9, 0, -2), "1", "9"),
    "a constant": (gt.asarray([3, -1, 8]), "-1", "8"),
    "an empty constant": (gt.asarray(np.zeros(0, "int64")), None, None),
    "an argument": (i + 0, None, None),
    "floats": (gt.astype(x, "int64"), None, None),
    "position": (gt.argmax(x), "0", "n - 1"),
    "positions": (gt.nonzero(x)[0], "0", "n - 1"),
    "order": (gt.argsort(x), "0", "n - 1"),
    "moved": (gt.sort(gt.cummax(steps[::-1])[None, i].astype("int32")), "0", "n - 1"),
    "joined": (gt.concatenate([steps, gt.asarray([7])]), "0", "max(7, n - 1)"),
    "chosen": (gt.where(x > 0, steps, -steps), "min(0, 1 - n)", "max(0, n - 1)"),
    "condition aside": (gt.where(i > 0, three, 5), "3", "5"),
    "sum": (steps + three, "3", "n + 2"),
    "difference": (three - steps, "4 - n", "3"),
    "product": (steps * three, "0", "3*n - 3"),
    "quotient": (steps // 2, "0", "(n + 1)//2 - 1"),
    "larger": (gt.maximum(steps, three), "3", "max(3, n - 1)"),
    "smaller": (gt.minimum(steps, i), None, "n - 1"),
    "negative": (-steps, "1 - n", "0"),
    "remainder": (i % 7, "0", "6"),
    "remainder of a size": (i % (steps + 1)[0], "0", "n - 1"),
    "remainder by 0": (i % steps[0], "0", "max(0, n - 2)"),
    "remainder by less": (i % -3, "-2", "0"),
    "remainder by any": (steps % i[0], None, None),
    "remainder by its axis": (gt.astype(x, "int64") % n, "0", "max(1, n) - 1"),
    "remainder by less than its axis": (
        gt.astype(x, "int64") % (n // 2),
        *("0", "max(0, n//2 - 1)"),
    ),
    "bools": (gt.astype(x > 0, "int32"), "0", "1"),
    "bits": (gt.bitwise_and(i, 7), "0", "7"),
    "bits of a negative": (gt.bitwise_and(i, -8), None, None),
    "place among sorted": (gt.searchsorted(x, x), "0", "n"),
    "by 3": (counted(lambda t, c: c + 3), "0", "3*n"),
    "back by 3": (counted(lambda t, c: c - 3), "-3*n", "0"),
    "both": (counted(lambda t, c: 1 + c - 3), "-2*n", "0"),
    "by none": (counted(lambda t, c: c, three), "3", "3"),
    "reversed": (counted(lambda t, c: 3 - c), None, None),
    "doubled": (counted(lambda t, c: c * 2), None, None),
    "by steps": (counted(lambda t, c: c + t), None, None),
    "in steps": (stepwise(lambda t, c: t), "0", "4"),
    "carries": (stepwise(lambda t, c: c), "0", "8"),
    "carries back": (stepwise(lambda t, c: c - t, -1, three, n), "5 - 2*n", "3"),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges(name):
    value, low, high = RANGES[name]
    found = ranges_of(value)[-1][1]
    assert [None if end is None else str(end) for end in found] == [low, high]


PAIRS = (
    *(lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, gt.maximum),
    *(gt.minimum, lambda a, b: a // gt.maximum(b, 1), lambda a, b: a % 3 - b % 5),
    *(lambda a, b: gt.where(b > 1, a, b), lambda a, b: gt.max(a, initial=2) - b),
    *(lambda a, b: -gt.sort(a), lambda a, b: gt.argsort(a) + b),
    *(lambda a, b: counted(lambda t, c: c + 2, b, 3) - a, lambda a, b: b[i % 2] + a[0]),
    lambda a, b: stepwise(lambda t, c: c - t, -3, a[1], n)[0] + b,
)
RECIPES = st.lists(
    st.tuples(st.sampled_from(PAIRS), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=4,
)


def number(end, size):
    known = isinstance(end, Dim)
    return evaluate(end, dict.fromkeys(end.symbols, size)) if known else end


@settings(deadline=None, max_examples=12)
@given(RECIPES, st.integers(0, 3))
def test_no_value_is_beyond_its_range(recipe, size):
    made = [gt.arange(4) - n, gt.asarray([-2, 3, 0, 9]), i % 5, -steps[0] + i * 0]
    for pair, a, b in recipe:
        one, other = made[a % len(made)], made[b % len(made)]
        made.append(gt.broadcast_to(pair(one, other), (4,)))
    given = [(v, ends) for v, ends in ranges_of(made[-1]) if ends != (None, None)]
    values = [v for v, _ in given]
    f = graphc.function([x, i], values, backend="numpy", unused="ignore", rewrites=none)
    found = f(np.arange(4.0) - size, np.array([size, 0, 3, 1]))
    for (value, ends), array in zip(given, found, strict=True):
        low, high = (number(end, 4) for end in ends)
        assert np.all(low is None or array >= low), (value, ends)
        assert np.all(high is None or array <= high), (value, ends)


DTYPES = ("int8", "uint8", "int32", "uint32", "int64")
ONES = (
    *(lambda a: gt.clip(a, 0, 4), lambda a: a % 5, lambda a: gt.bitwise_and(a, 6)),
    *(lambda a: -a, lambda a: a - 5, lambda a: 100 - a, lambda a: a * 90),
    *(lambda a: a // 7, lambda a: gt.maximum(a, 3), lambda a: gt.cumsum(a)),
    *(lambda a, t=t: gt.astype(a, t) for t in DTYPES),
    *(lambda a: a + a[::-1], lambda a: a * a, lambda a: gt.where(a > 2, a, 9)),
    *(lambda a: a % gt.maximum(a, 3), lambda a: a // (a % 3 + 1)),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(ONES), max_size=6), st.sampled_from(DTYPES))
def test_no_value_is_above_its_upper_bound(chain, dtype):
    """Also not where it wraps around: sizes of results rely on it."""
    y = value = gt.tensor("y", dtype, ("n",))
    values = [value := one(value) for one in chain] or [value + 0]
    limits = np.iinfo(dtype)
    numbers = np.array([limits.min, limits.max, 0, 1, 5, 100, limits.max - 2], dtype)
    for result, of in zip(
        graphc.function([y], values, backend="numpy", rewrites=none)(numbers),
        values,
        strict=True,
    ):
        most = upper_bound(of)
        if most is not None:
            assert result.max() <= number(most, len(numbers))


def counts_of(numbers, length):
    return gt.bincount(numbers, minlength=length)


rows, k = gt.tensor("rows", "float32", ("n", "m")), gt.iscalar("k")
pixels = gt.tensor("pixels", "uint8", ("n",))
COUNTS = {
    "clipped": (i, counts_of(gt.clip(i, 0, 4), 5), "5"),
    "of few bits": (pixels, counts_of(pixels, 256), "256"),
    "one too few": (pixels, counts_of(pixels, 255), "max + 1"),
    "nearest": (rows, counts_of(gt.argmin(rows, axis=1), rows.shape[1]), "m"),
    "wrapped": (pixels, counts_of(gt.clip(pixels, 0, 4) - 5, 5), "max + 1"),
    "remainders": (i, counts_of(i % 3, 4), "4"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_bounds_tell_how_many_numbers_are_counted(name):
    argument, counts, length = COUNTS[name]
    assert str(counts.type.shape[0]) == length
    f = graphc.function([argument], counts, dims="pad")
    assert (f.plan.reads == 0) == ("max" not in length)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_numbers_below_an_argument_are_counted(backend):
    """For k = 0, all remainders are 0, and there is one count where there is one."""
    f = graphc.function([i, k], counts_of(i % k, k), backend=backend, dims="pad")
    assert f.plan.reads == 0
    numbers = np.array([5, -1, 2, 7])
    for below, right in [(3, [0, 1, 3]), (9, [0, 0, 1, 0, 0, 1, 0, 1, 1]), (0, [4])]:
        np.testing.assert_array_equal(f(numbers, below), right)
