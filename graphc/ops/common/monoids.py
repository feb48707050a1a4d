"""Reductions as monoids: how two results are joined, and the neutral element.

All code that reduces in parts asks this table: masks and padding fill with the neutral
element, loops join slice by slice, tiles join tile by tile.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_value
from graphc.ir.graph.nodes import Value
from graphc.ir.params.exactness import limits
from graphc.ir.rules import RuleTable
from graphc.ir.types import BOOL, DType, NDArray, is_integer

Element = complex | np.generic | NDArray  # also a bool, an integer, a float


def zero(dtype: DType) -> Element:
    """The neutral element of sums, and of `any`."""
    return False if dtype.kind == "b" else 0


def one(dtype: DType) -> Element:
    """The neutral element of products, and of `all`."""
    return True if dtype.kind == "b" else 1


def least(dtype: DType) -> Element:
    """The neutral element of maxima."""
    return _limit(dtype, low=True)


def most(dtype: DType) -> Element:
    """The neutral element of minima."""
    return _limit(dtype, low=False)


def _limit(dtype: DType, low: bool) -> Element:
    if dtype == BOOL:
        return not low
    if is_integer(dtype):
        return limits(dtype)[0 if low else 1]
    end = -np.inf if low else np.inf
    return complex(end, end) if dtype.kind == "c" else end


def scalar(number: ArrayLike, dtype: DType) -> Value:
    """A number as a constant of a dtype."""
    return as_value(np.asarray(number).astype(dtype))


def itself(x: Value) -> Value:
    """`x`: the result of a single element is that element."""
    return x


class Monoid(NamedTuple):
    """A reduction over `axes` whose partial results may be joined in any order.

    `join` names the elementwise function that joins two results. `neutral` gives, for a
    dtype, the number that changes no result. `widened`: where many results of half
    precision are joined, they are joined in float32. `ordered`: the reduction has no
    meaning for complex numbers. `of_one` turns elements into the results of each alone.
    """

    join: str
    neutral: Callable[[DType], Element]
    widened: bool = False
    ordered: bool = False
    of_one: Callable[[Value], Value] = itself


MONOIDS: RuleTable[Monoid] = RuleTable("monoids")
