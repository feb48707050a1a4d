"""Running results of an associative function: in halves, or in doubling steps.

Where the size of the axis is a number, pairs are combined first, and then the results,
as `jax.lax.associative_scan` does: 2 n slices in all. Where it is symbolic, the j-th of
log2(n) steps combines each element with the one 2**j before it (Hillis and Steele, Data
parallel algorithms, 1986): one loop for all sizes, with n slices in each step.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.control.carries import flatten_values, ordered_like
from graphc.control.pytree import unflatten
from graphc.errors import graph_error
from graphc.ir.graph.build import (
    as_size,
    as_value,
    cast,
    constant,
    normal_axis,
    size_value,
)
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import require_equal
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Dim, Size, maximum, substitute
from graphc.ir.sizes.growth import grows
from graphc.ir.types import FLOAT64
from graphc.transform.loops.scan_api import scan

Combine = Callable[[list[Value], list[Value]], list[Value]]


@public()
def associative_scan(
    fn: Callable[[Any, Any], object],
    x: object,
    reverse: bool = False,
    axis: int = 0,
) -> Any:
    """All running results of an associative function along `axis`.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> y = gt.associative_scan(gt.maximum, x)
    >>> graphc.function([x], y, backend="numpy")(np.array([1, 3, 2], "float32"))
    array([1., 3., 3.], dtype=float32)

    With `reverse`, the scan runs from the last element on, which is then the first
    argument. `fn(a, b)` combines slices of equal sizes, elementwise along the axis, and
    keeps their dtypes and shapes; `x` is one array or a structure of arrays, as is what
    `fn` takes and returns. `a` always comes from elements that the scan meets before
    those of `b`.

    Where the size of the axis is a number, `fn` is applied about 2 log2(n) times, to 2
    n slices in all, as by `jax.lax.associative_scan`. Where it is a symbolic size `n`,
    `fn` stands in the program once, in a loop of log2(n) steps of n slices each.
    """
    values, like = flatten_values(x)
    if not values:
        raise graph_error("needs at least one array", op="associative_scan")
    at = [normal_axis(axis, v.type.rank, "associative_scan") for v in values]
    n = _common_size(values, at)

    def combine(a: list[Value], b: list[Value]) -> list[Value]:
        before, after = (unflatten(like, _axes_back(part, at)) for part in (a, b))
        combined = fn(before, after)
        ordered = ordered_like(combined, like, _OTHER_FORM, "associative_scan")
        results, _ = flatten_values(ordered)
        if [v.dtype for v in results] != [v.dtype for v in values]:
            got = ", ".join(str(v.type) for v in results)
            problem = "the function must keep the dtypes"
            raise graph_error(problem, op="associative_scan", got=got)
        pairs = zip(results, at, a, strict=True)
        return [
            F.specify_shape(_axis_first(v, i), old.type.shape) for v, i, old in pairs
        ]

    moved = list(map(_axis_first, values, at))
    moved = [F.flip(v, 0) for v in moved] if reverse else moved
    if isinstance(n, int):
        running = _scan_in_halves(combine, moved, n)
    else:
        running = _scan_by_doubling(combine, moved, n)
    running = [F.flip(v, 0) for v in running] if reverse else running
    return unflatten(like, _axes_back(running, at))


_OTHER_FORM = "the function must return the structure that it takes"


def _common_size(values: list[Value], axes: list[int]) -> Size:
    sizes = [v.type.shape[a] for v, a in zip(values, axes, strict=True)]
    for other in sizes[1:]:
        require_equal(sizes[0], other, "one slice of each array")
    return next((n for n in sizes if isinstance(n, int)), sizes[0])


def _axis_first(value: Value, axis: int) -> Value:
    return F.moveaxis(value, axis, 0)


def _axes_back(values: list[Value], axes: list[int]) -> list[Value]:
    return [F.moveaxis(v, 0, a) for v, a in zip(values, axes, strict=True)]


def _scan_by_doubling(combine: Combine, x: list[Value], n: Dim) -> list[Value]:
    """Combine each element with those 1, 2, 4 ... before it, until all are done.

    Elements at the start, which are done, are combined with the very first one; these
    results are not taken.
    """
    index = F.arange(size_value(n))

    def step(carry: list[Value], _: None) -> tuple[list[Value], None]:
        distance, *now = carry
        before = F.maximum(index - distance, 0)
        combined = combine([F.take(v, before, axis=0) for v in now], now)
        late = F.greater_equal(index, distance)
        after = [
            F.where(F.reshape(late, (n, *[1] * (v.type.rank - 1))), new, v)
            for new, v in zip(combined, now, strict=True)
        ]
        return [distance * 2, *after], None

    (_, *running), _ = scan(step, [constant(np.int64(1)), *x], length=_doublings_to(n))
    return running


def _doublings_to(n: Dim) -> Size:
    """Return how often 1 must be doubled to reach `n`, or the bound of `n`.

    A bound serves all counts, so that no program is compiled for a count or waits for
    one.
    """
    computed = [s for s in n.symbols if s.origin is not None]
    counts = {s: s.upper for s in computed if s.upper is not None}
    most = substitute(n, counts) if grows(n, counts) else n
    last = maximum(most - 1, 0)
    if isinstance(last, int):
        return last.bit_length()
    _, levels = F.frexp(cast(as_value(size_value(last)), FLOAT64))
    return maximum(as_size(levels), 0)


def _scan_in_halves(combine: Combine, x: list[Value], n: int) -> list[Value]:
    """Scan pairs first: they give the odd elements, from which the even ones follow."""
    if n <= 1:
        return x
    half, evens = n // 2, (n - 1) // 2
    pairs = combine(
        [_every_second(v, 0, half) for v in x], [_every_second(v, 1, half) for v in x]
    )
    odd = _scan_in_halves(combine, pairs, half)
    even = combine([v[:evens] for v in odd], [_every_second(v, 2, evens) for v in x])
    interleaved = []
    for first, a, b in zip(x, even, odd, strict=True):
        interleaved.append(_interleaved(F.concatenate([first[:1], a]), b, n))
    return interleaved


def _every_second(x: Value, start: int, count: int) -> Value:
    """Return `count` elements from `start` on, every second one."""
    return x[start : 2 * count + start : 2]


def _interleaved(even: Value, odd: Value, n: int) -> Value:
    """Interleave the elements of both, `even` first, which may have one more."""
    out = F.zeros((n, *even.type.shape[1:]), even.dtype)
    return out.at[::2].set(even).at[1::2].set(odd)
