"""Truths as sizes: formulas that are 1 where a condition holds, and 0 where not."""

from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Size


def at_most(a: Size, b: Size) -> Size:
    """1 where a <= b, else 0; a plain number where that can be proved."""
    answer = dims.less_equal(a, b)
    if answer is None:
        return dims.minimum(dims.maximum(b - a + 1, 0), 1)
    return int(answer)


def below(a: Size, b: Size) -> Size:
    """1 where a < b, else 0."""
    return at_most(a + 1, b)


def same(a: Size, b: Size) -> Size:
    """1 where a == b, else 0; a plain number where that can be proved."""
    answer = dims.equal(a, b)
    if answer is None:
        return 1 - dims.minimum(dims.maximum(a - b, b - a), 1)
    return int(answer)


def differ(a: Size, b: Size) -> Size:
    """1 where a != b, else 0."""
    return 1 - same(a, b)


def truth(a: Size) -> Size:
    """1 where a size is not 0, else 0; truths are returned as they are."""
    return a if is_truth(a) else differ(a, 0)


def is_truth(a: Size) -> bool:
    """Whether a size is surely 0 or 1."""
    return dims.less_equal(0, a) is True and dims.less_equal(a, 1) is True


def both(a: Size, b: Size) -> Size:
    """1 where neither is 0, else 0."""
    return dims.minimum(truth(a), truth(b))


def either(a: Size, b: Size) -> Size:
    """1 where at least one is not 0, else 0."""
    return dims.maximum(truth(a), truth(b))


def one_of(a: Size, b: Size) -> Size:
    """1 where exactly one is not 0, else 0."""
    return differ(truth(a), truth(b))


def choose(condition: Size, a: Size, b: Size) -> Size:
    """`a` where the condition holds, else `b`; a max or min where that is the same."""
    if isinstance(condition, int):
        return a if condition else b
    if _is_one_of(condition, below(b, a), at_most(b, a)):
        return dims.maximum(a, b)
    if _is_one_of(condition, below(a, b), at_most(a, b)):
        return dims.minimum(a, b)
    return b + condition * (a - b)


def _is_one_of(condition: Size, *others: Size) -> bool:
    return any(dims.equal(condition, other) is True for other in others)
