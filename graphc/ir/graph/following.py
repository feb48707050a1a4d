"""Follow integers as sizes: which sizes a new value holds, as formulas.

The rule of a primitive computes them when a value is made. Formulas of axes alone are
also followed through arithmetic of 32 bits; a guard makes the program refuse shapes for
which that would wrap around.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphc.ir.graph.nodes import Guard, Params, Value, known_sizes
from graphc.ir.params.exactness import limits, wrapped
from graphc.ir.sizes.dims import Dim, Size, Symbol, less_equal, symbols_in
from graphc.ir.types import DType, TensorType

if TYPE_CHECKING:
    from graphc.ir.graph.op import Primitive

MOST_TERMS = 32  # longer formulas are not followed further
MOST_SIZES = 16  # the most elements of an integer array that can hold sizes

Sizes = np.ndarray[Any, Any]  # an object array


class Followed(NamedTuple):
    """The sizes that a value holds, and the guards under which it holds them."""

    sizes: Sizes | None = None
    guards: tuple[Guard, ...] = ()


OPAQUE = Followed()


def follow_sizes(
    primitive: "Primitive", inputs: Sequence[Value], params: Params, type: TensorType
) -> Followed:
    """The sizes that the first output of a node holds, if they can be followed."""
    if primitive.sizes is None or not holds_sizes(type):
        return OPAQUE
    known = [k for k in map(known_sizes, inputs) if k is not None]
    if len(known) < len(inputs):
        return OPAQUE
    is_condition = type.dtype.kind == "b"
    if is_condition and any(map(_may_wrap, known)):
        return OPAQUE
    with np.errstate(invalid="ignore"):  # other code may warn: sizes are Python numbers
        most_terms = inf if primitive.long_sizes else MOST_TERMS
        sizes = _short_sizes(primitive.sizes(*known, **params), most_terms)
    if is_condition and sizes is not None and any(_symbols_of_data(sizes)):
        return OPAQUE  # not proved, so it is computed from the data
    # A converted size cannot wrap around: the program refuses one that would.
    wide = type.dtype.itemsize >= 4 and all(v.type.weak for v in inputs)
    if sizes is None or not primitive.wraps or wide:
        return Followed(sizes)
    return _as_computed(sizes, type.dtype)


def _symbols_of_data(sizes: Sizes) -> Iterator[Symbol]:
    """The symbols in these sizes that are integers of a program, not axes."""
    return (s for n in sizes.flat for s in symbols_in(n) if s.origin is not None)


def _may_wrap(sizes: Sizes) -> bool:
    """Whether unbounded data may make computed sums wrap, unlike formulas."""
    return any(s.lower is None or s.upper is None for s in _symbols_of_data(sizes))


def holds_sizes(type: TensorType) -> bool:
    """Whether values of this type may be followed as sizes: small, of no floats."""
    if type.dtype.kind not in "biu":
        return False
    size = type.size if all(isinstance(n, int) for n in type.shape) else None
    return isinstance(size, int) and size <= MOST_SIZES


def _short_sizes(result: Any, most_terms: float) -> Sizes | None:
    """The sizes as an object array; None where one is unknown or has too many terms."""
    array = np.empty(np.shape(result), dtype=object)
    array[...] = result
    flat = array.reshape(-1)  # a view
    for i, size in enumerate(flat.tolist()):
        if size is None or (isinstance(size, Dim) and size.weight > most_terms):
            return None
        if not isinstance(size, Dim):
            flat[i] = int(size)
    return array


def _as_computed(sizes: Sizes, dtype: DType) -> Followed:
    """The sizes as computed in `dtype`, with guards; opaque where these are unknown."""
    guards: dict[Guard, None] = {}
    for place, size in np.ndenumerate(sizes):
        computed = wrapped(size, dtype)
        if computed is None:
            if not _is_of_axes(size, dtype):
                return OPAQUE
            computed = size
            if dtype.itemsize < 8:  # no axis is long enough to leave 64 bits
                guards |= dict.fromkeys(_range_guards(size, dtype))
        sizes[place] = computed
    return Followed(sizes, tuple(guards))


def _is_of_axes(size: Size, dtype: DType) -> bool:
    """Whether a formula consists of axes only, so that a guard may exclude wrapping."""
    assert isinstance(size, Dim)
    signed = dtype.kind == "i" and dtype.itemsize >= 4
    return signed and all(s.origin is None for s in size.symbols)


def _range_guards(size: Size, dtype: DType) -> list[Guard]:
    low, high = limits(dtype)
    reason = f"{dtype} holds numbers from {low} to {high}"
    pairs = [(size, high), (low, size)]
    return [
        Guard("<=", a, b, reason, "range")
        for a, b in pairs
        if less_equal(a, b) is not True
    ]
