"""The operators of values: each calls a function of `graphc.tensor`, bound late.

NumPy's arrays and functions leave expressions that contain a value to these operators.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from graphc.ir.graph.accepted_types import ArrayLike, IndexLike
from graphc.ir.graph.dispatch import apply_function, apply_ufunc
from graphc.ir.graph.repeating import SEQUENCES, refuse_repeating
from graphc.ir.namespace import F
from graphc.ir.tracebacks import hide_frames_of_methods

if TYPE_CHECKING:
    from graphc.ir.graph.nodes import Value


@hide_frames_of_methods
class Operators:
    """The indexing, arithmetic, comparison and bitwise operators of a value."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __hash__(self) -> int: ...
    else:
        __hash__ = object.__hash__

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
    ) -> object:
        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(
        self,
        function: Callable[..., object],
        _: object,
        args: tuple[object, ...],
        options: dict[str, object],
    ) -> object:
        return apply_function(function, args, options)

    def __getitem__(self, index: IndexLike) -> "Value":
        return F.getitem(self, index)

    def __add__(self, other: ArrayLike) -> "Value":
        return F.add(self, other)

    def __radd__(self, other: ArrayLike) -> "Value":
        return F.add(other, self)

    def __sub__(self, other: ArrayLike) -> "Value":
        return F.subtract(self, other)

    def __rsub__(self, other: ArrayLike) -> "Value":
        return F.subtract(other, self)

    def __mul__(self, other: ArrayLike) -> "Value":
        if isinstance(other, SEQUENCES):
            refuse_repeating(cast("Value", self), other)
        return F.multiply(self, other)

    def __rmul__(self, other: ArrayLike) -> "Value":
        if isinstance(other, SEQUENCES):
            refuse_repeating(cast("Value", self), other)
        return F.multiply(other, self)

    def __truediv__(self, other: ArrayLike) -> "Value":
        return F.true_divide(self, other)

    def __rtruediv__(self, other: ArrayLike) -> "Value":
        return F.true_divide(other, self)

    def __floordiv__(self, other: ArrayLike) -> "Value":
        return F.floor_divide(self, other)

    def __rfloordiv__(self, other: ArrayLike) -> "Value":
        return F.floor_divide(other, self)

    def __mod__(self, other: ArrayLike) -> "Value":
        return F.remainder(self, other)

    def __rmod__(self, other: ArrayLike) -> "Value":
        return F.remainder(other, self)

    def __pow__(self, other: ArrayLike) -> "Value":
        return F.power(self, other)

    def __rpow__(self, other: ArrayLike) -> "Value":
        return F.power(other, self)

    def __matmul__(self, other: ArrayLike) -> "Value":
        return F.matmul(self, other)

    def __rmatmul__(self, other: ArrayLike) -> "Value":
        return F.matmul(other, self)

    def __and__(self, other: ArrayLike) -> "Value":
        return F.bitwise_and(self, other)

    def __rand__(self, other: ArrayLike) -> "Value":
        return F.bitwise_and(other, self)

    def __or__(self, other: ArrayLike) -> "Value":
        return F.bitwise_or(self, other)

    def __ror__(self, other: ArrayLike) -> "Value":
        return F.bitwise_or(other, self)

    def __xor__(self, other: ArrayLike) -> "Value":
        return F.bitwise_xor(self, other)

    def __rxor__(self, other: ArrayLike) -> "Value":
        return F.bitwise_xor(other, self)

    def __lshift__(self, other: ArrayLike) -> "Value":
        return F.left_shift(self, other)

    def __rlshift__(self, other: ArrayLike) -> "Value":
        return F.left_shift(other, self)

    def __rshift__(self, other: ArrayLike) -> "Value":
        return F.right_shift(self, other)

    def __rrshift__(self, other: ArrayLike) -> "Value":
        return F.right_shift(other, self)

    def __divmod__(self, other: ArrayLike) -> "tuple[Value, Value]":
        return F.divmod(self, other)

    def __rdivmod__(self, other: ArrayLike) -> "tuple[Value, Value]":
        return F.divmod(other, self)

    def __eq__(self, other: ArrayLike) -> "Value":  # type: ignore[override]
        return F.equal(self, other)

    def __ne__(self, other: ArrayLike) -> "Value":  # type: ignore[override]
        return F.not_equal(self, other)

    def __lt__(self, other: ArrayLike) -> "Value":
        return F.less(self, other)

    def __le__(self, other: ArrayLike) -> "Value":
        return F.less_equal(self, other)

    def __gt__(self, other: ArrayLike) -> "Value":
        return F.greater(self, other)

    def __ge__(self, other: ArrayLike) -> "Value":
        return F.greater_equal(self, other)

    def __neg__(self) -> "Value":
        return F.negative(self)

    def __pos__(self) -> "Value":
        return F.positive(self)

    def __abs__(self) -> "Value":
        return F.absolute(self)

    def __invert__(self) -> "Value":
        return F.invert(self)

    def __round__(self, ndigits: int = 0) -> "Value":
        return F.round(self, ndigits)
