"""Products of several matrices in the order that needs the fewest multiplications."""

from collections.abc import Sequence
from functools import reduce

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import Size
from graphc.ops.common.broadcasting import promoted


@public(name="linalg.multi_dot")
def multi_dot(arrays: Sequence[ArrayLike]) -> Value:
    """The product of two or more matrices; the first and last may be vectors.

    Where all sizes are static, the order is the one with the fewest multiplications, as
    in `numpy.linalg.multi_dot`; otherwise the product goes from left to right.
    """
    values = promoted(*arrays) if len(arrays) > 1 else []
    if not values:
        raise graph_error("needs at least two arrays", op="linalg.multi_dot")
    for i, v in enumerate(values):
        ranks = (1, 2) if i in (0, len(values) - 1) else (2,)
        if v.type.rank not in ranks:
            got = f"{v.type} at position {i}"
            problem = "needs matrices; the first and last may be vectors"
            raise graph_error(problem, op="linalg.multi_dot", got=got)
    sizes = _chain_sizes(values)
    static = [n for n in sizes if isinstance(n, int)]
    if len(static) < len(sizes):
        return reduce(F.matmul, values)
    return _chain(values, _splits(static), 0, len(values) - 1)


def _chain_sizes(values: Sequence[Value]) -> list[Size]:
    """The rows of each matrix and the columns of the last; a vector counts as one."""
    first, last = values[0].type, values[-1].type
    rows = [first.shape[0] if first.rank == 2 else 1]
    rows += [v.type.shape[0] for v in values[1:]]
    return [*rows, last.shape[1] if last.rank == 2 else 1]


Splits = dict[tuple[int, int], int]


def _splits(sizes: Sequence[int]) -> Splits:
    """The cut of each product of matrices i to j that needs fewest multiplications."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cuts: Splits = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            ends = sizes[i] * sizes[j + 1]
            cost[i, j], cuts[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + ends * sizes[k + 1], k)
                for k in range(i, j)
            )
    return cuts


def _chain(values: Sequence[Value], cuts: Splits, i: int, j: int) -> Value:
    if i == j:
        return values[i]
    cut = cuts[i, j]
    return F.matmul(_chain(values, cuts, i, cut), _chain(values, cuts, cut + 1, j))
