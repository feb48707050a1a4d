"""Questions about sizes: functions that return integers or answers, not arrays."""

from typing import Any

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import (
    INPUT,
    as_size,
    as_value,
    is_body_input,
    literal_of,
    normal_axes,
    size_value,
)
from graphc.ir.graph.nodes import Value, known_sizes
from graphc.ir.namespace import public
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.types import is_integer, product

Known = int | Dim | tuple["Known", ...]


@public()
def shape(x: ArrayLike) -> "tuple[int | Value, ...]":
    """The sizes of the axes, as `x.shape`: ints where static, else symbolic integers.

    >>> import graphc.tensor as gt
    >>> gt.shape(gt.tensor("x", "float32", (2, 3))), gt.shape(1.0)
    ((2, 3), ())
    """
    return as_value(x).shape


@public()
def size(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> "int | Value":
    """The number of elements, in total or along some axes, as `numpy.size`."""
    sizes = as_value(x).type.shape
    axes = normal_axes(axis, len(sizes), "size")
    return size_value(product([sizes[a] for a in axes]))


@public()
def ndim(x: ArrayLike) -> int:
    """The number of axes, which is always known when the graph is built."""
    return as_value(x).type.rank


@public()
def known(x: ArrayLike) -> Known | None:
    """The integer that `x` is, as far as it is known while the graph is built.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.tensor("x", "float32", ("n", 3))
    >>> graphc.known(x.shape[1]), graphc.known(x.size), graphc.known(x[0, 0])
    (3, Dim(3*n), None)
    >>> graphc.known(gt.stack(x.shape)), graphc.known(gt.count_nonzero(x))
    ((Dim(n), 3), None)

    The result is an int if `x` is a constant. It is a `graphc.Dim` if `x` is arithmetic
    with sizes of axes and with inputs that are integer scalars, all of which are known
    when a call arrives. It is None if `x` depends on the contents of arrays or on a
    step of a loop, or is no integer. For an integer array it is nested tuples of these,
    or None if one element is not known.
    """
    if isinstance(x, Dim):
        return x if _is_known_at_call(x) else None
    value = as_value(x)
    if not is_integer(value.dtype):
        return None
    array = literal_of(value)
    sizes = known_sizes(value) if array is None else array
    return None if sizes is None else _as_tuples(sizes.tolist())


def _as_tuples(sizes: Any) -> Known | None:
    """Turn lists into tuples; return None if a size in them depends on data."""
    if not isinstance(sizes, list):
        size: Size = sizes
        return size if _is_known_at_call(size) else None
    parts = [_as_tuples(part) for part in sizes]
    return None if None in parts else tuple(p for p in parts if p is not None)


def _is_known_at_call(size: Size) -> bool:
    """Whether everything that a size is computed from is known when a call arrives."""
    if isinstance(size, int):
        return True
    origins = [s.origin for s in size.symbols if s.origin is not None]
    return all(isinstance(o, Value) and _is_argument(o) for o in origins)


def _is_argument(value: Value) -> bool:
    return value.node.primitive is INPUT and not is_body_input(value.node)


@public()
def same_size(a: ArrayLike, b: ArrayLike) -> bool | None:
    """Whether two sizes are equal: True or False if that is proved, else None.

    >>> import graphc, graphc.tensor as gt
    >>> n, m = gt.tensor("x", "float32", ("n", "m")).shape
    >>> graphc.same_size(2 * n, n + n), graphc.same_size(n, n + 1)
    (True, False)
    >>> print(graphc.same_size(n, m))
    None

    Sizes are ints, symbolic integers or `graphc.Dim`s. True and False hold for every
    value of the symbols; None is no answer and must never be taken for False.
    """
    return dims.equal(as_size(a), as_size(b))
