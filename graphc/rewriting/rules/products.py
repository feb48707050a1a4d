"""Products of stacks of matrices, written as `matmul` or as `einsum`."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import DType, TensorType, is_float


def _same_value(value: Value) -> Value:
    return value


class Arranged(NamedTuple):
    """A value with axes of size 1 inserted and its axes in another order."""

    value: Value
    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def type(self) -> TensorType:
        """The type of the arranged value."""
        return self.rebuilt().type

    def transposed(self, order: Sequence[int]) -> "Arranged":
        """Put the axes in another order."""
        return Arranged(self.value, (*self.steps, ("transpose", tuple(order))))

    def expanded(self, axes: Sequence[int]) -> "Arranged":
        """Insert axes of size 1 at these places."""
        return Arranged(self.value, (*self.steps, ("expand_dims", tuple(axes))))

    def unconverted(self, dtype: DType) -> "Arranged":
        """Undo a conversion from `dtype` to another float, if there was one."""
        value, steps = self.value, self.steps
        while value.dtype != dtype:
            node = value.node
            if node.primitive is OP.convert:
                value = node.inputs[0]
                if value.dtype != dtype or not is_float(dtype):
                    return self
            elif node.primitive in (OP.transpose, OP.expand_dims):
                steps = ((node.primitive.name, node.params["axes"]), *steps)
                value = node.inputs[0]
            else:
                return self
        return Arranged(value, steps)

    def rebuilt(self, known: Callable[[Value], Value] = _same_value) -> Value:
        """Apply the steps to the value, or to what is `known` in its place."""
        value = known(self.value)
        for name, axes in self.steps:
            turns = name == "transpose"
            value = _transposed(value, axes) if turns else F.expand_dims(value, axes)
        return value


def _transposed(value: Value, order: tuple[int, ...]) -> Value:
    """Put the axes of a value in another order, by one transpose at most."""
    if value.node.primitive is OP.transpose:
        order = tuple(value.node.params["axes"][a] for a in order)
        value = value.node.inputs[0]
    return F.transpose(value, order)


class Product(NamedTuple):
    """A product of left (..., rows, inner) and right; `order` is that of its axes."""

    left: Arranged
    right: Arranged
    order: tuple[int, ...]


def scores_of(node: Node) -> Product | None:
    """Read a product of left (..., rows, inner) and right (..., columns, inner).

    The result is (..., rows, columns). The leading axes of the right operand may be 1.
    """
    if node.primitive is OP.matmul:
        left, right = node.inputs
        rank, turned = left.type.rank, right.node
        if rank < 2 or right.type.rank != rank or turned.primitive is not OP.transpose:
            return None
        straight = Arranged(right).transposed((*range(rank - 2), rank - 1, rank - 2))
        return Product(Arranged(left), straight, tuple(range(rank)))
    labels = _labels(node)
    if labels is None:
        return None
    (one, other), out = labels
    if len(out) < 2:
        return None
    leading, row, column = out[:-2], out[-2], out[-1]
    first, second = map(Arranged, node.inputs)
    if column in one:
        first, second, one, other = second, first, other, one
    inner = [name for name in one if name not in out]
    if len(inner) != 1 or column in one or row in other:
        return None
    query = _arrange(first, one, [*leading, row, *inner])
    key = _arrange(second, other, [*leading, column, *inner], missing=leading)
    if query is None or key is None:
        return None
    return Product(query, key, tuple(range(len(out))))


def weighted_sum_of(node: Node) -> Iterator[Product]:
    """Read products of left (..., rows, inner) and right (..., inner, columns).

    The left operand is taken as it stands.
    """
    if node.primitive is OP.matmul:
        left, right = node.inputs
        if left.type.rank == right.type.rank >= 2:
            yield Product(Arranged(left), Arranged(right), tuple(range(left.type.rank)))
        return
    labels = _labels(node) if node.primitive is OP.einsum else None
    if labels is None:
        return
    terms, out = labels
    for i in (0, 1):
        weights, others = terms[i], terms[1 - i]
        leading, row, inner = weights[:-2], weights[-2:-1], weights[-1:]
        column = [name for name in others if name not in weights]
        if (
            len(column) != 1
            or not row
            or sorted(out) != sorted([*leading, *row, *column])
        ):
            continue
        operand = Arranged(node.inputs[1 - i])
        other = _arrange(operand, others, [*leading, *inner, *column], missing=leading)
        if other is not None:
            standing = [*leading, *row, *column]
            order = tuple(standing.index(name) for name in out)
            yield Product(Arranged(node.inputs[i]), other, order)


def _labels(node: Node) -> tuple[list[str], str] | None:
    """Return the labels of two operands and of the result, if none repeats in one."""
    terms, _, out = node.params["subscripts"].partition("->")
    operands = terms.split(",")
    plain = all(len(set(term)) == len(term) for term in (*operands, out))
    return (operands, out) if len(operands) == 2 and plain else None


def _arrange(
    view: Arranged, labels: str, order: Sequence[str], missing: Sequence[str] = ()
) -> Arranged | None:
    """Return an operand with its axes in `order`, 1 for what is `missing`, or None."""
    if not set(labels) <= set(order) <= {*labels, *missing}:
        return None
    have = [name for name in order if name in labels]
    view = view.transposed([labels.index(name) for name in have])
    gaps = [i for i, name in enumerate(order) if name not in labels]
    return view.expanded(gaps) if gaps else view
