"""Conditions of checks: a bool, or numbers that say what is wrong.

`BOUNDS` holds, for each op, the conditions on its nodes that checked programs test.

A condition of numbers crosses segments, loops and branches as one vector, just as a
bool would. Its first element is 0 as long as nothing is wrong; the others stand for the
last `{}` in the message.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from graphc.errors import ErrorKind
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.rules import RuleTable
from graphc.ir.types import INT32, TensorType, is_integer

Conditions = Callable[[Node], list[tuple[Value, str]]]  # each with its message


class BoundsRule(NamedTuple):
    """The conditions that `check=True` requires, and the kind of error if one fails."""

    conditions: Conditions
    kind: ErrorKind = "index"


BOUNDS: RuleTable[BoundsRule] = RuleTable("bounds")
Checking = bool | Literal["index"]
CHECKS: tuple[Checking, ...] = (True, False, "index")


def checks_of(node: Node, check: Checking) -> BoundsRule | None:
    """The conditions to check for a node, or None if `check` asks for none."""
    if node.primitive not in BOUNDS:
        return None
    rule = BOUNDS.rules[node.primitive]
    return None if check == "index" and rule.kind == "matrix" else rule


def is_reporting(type: TensorType) -> bool:
    """Whether a condition is a vector of numbers."""
    count = type.shape[0] if type.rank == 1 else 0
    return is_integer(type.dtype) and isinstance(count, int) and count > 0


def reporting(wrong: Value, index: Value, *sizes: ArrayLike) -> Value:
    """A condition that fails if any element is `wrong`, and says what it found.

    It is a vector: whether something is wrong, then the largest wrong index and the
    sizes. Its dtype is that of `index`, or int32 if `index` is narrower.
    """
    wide = index.dtype if index.dtype.itemsize >= INT32.itemsize else INT32
    least = int(np.iinfo(wide.name).min)
    wrong_indices = F.where(wrong, cast(index, wide), np.asarray(least, wide.name))
    parts = [F.any(wrong), F.max(wrong_indices, initial=least), *map(as_value, sizes)]
    report: Value = F.stack([cast(part, wide) for part in parts])
    return report


def held_like(condition: Value) -> Value:
    """A condition that holds, of the same type as `condition`."""
    if condition.type.rank == 0:
        return as_value(True)
    return F.zeros(condition.type.shape, condition.dtype)


def both_hold(first: Value, second: Value) -> Value:
    """The condition that both of one type hold; it reports the first failure."""
    if first.type.rank == 0:
        return F.logical_and(first, second)
    return F.where(F.not_equal(first[0], 0), first, second)


def first_failure(rows: Value) -> Value:
    """The condition that all of a batch hold; it reports the first failure."""
    if rows.type.rank == 1:
        return F.all(rows)
    behind = F.concatenate([F.zeros((1, rows.type.shape[1]), rows.dtype), rows])
    return behind[F.argmax(F.not_equal(behind[:, 0], 0))]
