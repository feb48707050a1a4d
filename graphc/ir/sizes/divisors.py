"""The divisors in sizes that may be 0."""

from graphc.ir.sizes.dims import (
    FUNCTIONS,
    Dim,
    Size,
    less_equal,
    maximum,
    minimum,
    with_atoms,
)
from graphc.ir.sizes.polynomials import Atom, calls_in


def divisors(size: object) -> list[Size]:
    """The divisors within a size that may be 0; an object that is no size has none."""
    if not isinstance(size, Dim):
        return []
    divide = [call.args[-1] for call in calls_in(size) if call.op == "//"]
    return [by for by in dict.fromkeys(divide) if not _is_never_zero(by)]


def with_nonzero_divisors(size: Size) -> Size:
    """The size with 1 in place of each divisor that is 0."""
    values: dict[Atom, Size] = {}
    for call in calls_in(size):
        args = [with_atoms(n, values) for n in call.args]
        if call.op == "//" and not _is_never_zero(args[-1]):
            args[-1] = _nonzero(args[-1])
        values[call] = FUNCTIONS[call.op](*args)
    return with_atoms(size, values) if values else size


def _nonzero(by: Size) -> Size:
    if less_equal(0, by) is True:
        return maximum(by, 1)
    return by + 1 - minimum(1, maximum(by, -by))


def _is_never_zero(size: Size) -> bool:
    return less_equal(1, size) is True or less_equal(size, -1) is True
