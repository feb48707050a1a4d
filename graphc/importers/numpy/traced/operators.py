"""The operators and casts of traced arrays, computed on their contents."""

import operator
import sys
from collections.abc import Callable
from functools import partial
from typing import NoReturn

import numpy as np

from graphc.errors import graph_error
from graphc.importers.lookups import may_ask
from graphc.importers.numpy.traced.arrays import (
    NUMBER,
    TracedArray,
    as_array,
    as_traced,
    call_method,
    compute_contents,
    content_of,
)
from graphc.importers.numpy.traced.python_numbers import bit_length, rounded
from graphc.importers.numpy.traced.refusals import (
    is_number,
    is_size,
    number_by,
    number_class,
    number_if_settled,
    refuse_number,
    refuse_repeating,
    truth,
)
from graphc.importers.numpy.traced.sharing import CastingRule, as_arrays
from graphc.ir.graph.accepted_types import DTypeLike
from graphc.ir.graph.build import as_value
from graphc.ir.graph.repeating import SEQUENCES


def _define_operators() -> None:
    for name in ["neg", "pos", "abs", "invert"]:
        setattr(TracedArray, f"__{name}__", _unary(getattr(operator, name)))
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        setattr(TracedArray, f"__{name}__", _binary(getattr(operator, name)))
    names = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
    for name in names.split():
        computes = getattr(operator, f"__{name}__")
        setattr(TracedArray, f"__{name}__", _binary(computes))
        setattr(TracedArray, f"__r{name}__", _reflected(computes))
        setattr(TracedArray, f"__i{name}__", _in_place(computes))
    others: dict[str, object] = {
        "__divmod__": _binary(divmod),
        "__rdivmod__": _reflected(divmod),
        "__mul__": _repeating(_binary(operator.mul)),
        "__rmul__": _repeating(_reflected(operator.mul)),
        "__pow__": _power,
        "__round__": __round__,
        "__bool__": lambda self: truth(self.content),
        "__reduce_ex__": _unpicklable,
        "__repr__": _text,
        "__format__": _formatted,
        "astype": _astype,
        "bit_length": property(_bit_length),
        "device": "cpu",
    }
    for name, member in others.items():
        setattr(TracedArray, name, member)
    for name in ["len", "iter", "contains", "setitem"]:
        method = OfArrays(getattr(TracedArray, f"__{name}__"))
        setattr(TracedArray, f"__{name}__", method)
    for computes in (int, float, complex, operator.index):
        setattr(TracedArray, f"__{computes.__name__}__", _number(computes))


class OfArrays:
    """A method of arrays that numbers lack, as `hasattr` in user code must see."""

    def __init__(self, method: Callable[..., object]) -> None:
        self.of_array = method

    def __get__(self, array: TracedArray | None, kind: type) -> Callable[..., object]:
        name = self.of_array.__name__
        if array is None:
            return self.of_array
        if array.memory.fixed == NUMBER and may_ask(sys._getframe(1), name):
            raise AttributeError(f"a number has no attribute {name!r}")
        return partial(self.of_array, array)


def _repeating(computes: Callable[..., object]) -> Callable[..., object]:
    """A product; repeating a list is refused, since it needs a known number."""

    def times(self: TracedArray, other: object) -> object:
        if isinstance(other, SEQUENCES) and is_size(self.content):
            refuse_repeating(self.content, other)
        return computes(self, other)

    return times


def _power(self: TracedArray, other: object, *modulo: object) -> object:
    """A power; for the integer exponent 2 NumPy calls `square` on arrays of bools."""
    to_bytes = self.dtype == bool and self.memory.fixed != NUMBER
    if to_bytes and type(other) is int and other == 2:
        return as_traced(compute_contents(np.square, (self.content,), {}))
    return _binary(operator.pow)(self, other, *modulo)


def __round__(self: TracedArray, digits: object = None) -> object:
    """`round` for a number; without digits the result is a Python int."""
    if self.memory.fixed != NUMBER:
        raise TypeError("type numpy.ndarray doesn't define __round__ method")
    of_python = number_class(as_value(self.content)) is int
    if digits is None and not of_python:
        if self.dtype.kind in "bc":  # NumPy rounds these to no integer
            refuse_number(self.content, "round")
        return as_traced(rounded(as_value(self.content)))
    return _binary(round)(self, *([] if digits is None else [digits]))


def _bit_length(self: TracedArray) -> Callable[[], object]:
    """The method `bit_length`, which only Python integers have."""
    content = number_if_settled(self.content)
    if not is_number(content) or number_class(as_value(content)) is not int:
        raise AttributeError("bit_length")  # then Python asks `__getattr__`
    return lambda: as_traced(bit_length(as_value(content)))


def _unpicklable(self: TracedArray, _: object) -> NoReturn:
    problem = "an array that is traced cannot be pickled"
    raise graph_error(problem, op="pickle", hint="pickle what the function returns")


def _text(self: TracedArray) -> str:
    if is_number(self.content):
        refuse_number(self.content, "str")
    return repr(self.content)


def _formatted(self: TracedArray, spec: str) -> str:
    if not spec:
        return str(self)
    return str(number_by(lambda content: format(content, spec), self.content))


def _astype(
    self: TracedArray,
    dtype: DTypeLike,
    order: str = "K",
    casting: CastingRule = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> object:
    """Cast the array, or return it if it has the dtype and need not be copied."""
    target = np.dtype(dtype)
    if not np.can_cast(self.dtype, target, casting):
        problem = f"Cannot cast array data from {self.dtype!r} to {target!r}"
        raise TypeError(f"{problem} according to the rule {casting!r}")
    if not copy and target == self.dtype:
        return self
    options = {"order": "F"} if order == "F" else {}
    result = call_method(self, "astype", dtype, **options)
    return result if self.memory.fixed == NUMBER else as_array(result)


def _unary(computes: Callable[..., object]) -> Callable[[TracedArray], object]:
    return lambda self: as_traced(computes(self.content))


def _number(computes: Callable[..., object]) -> Callable[[TracedArray], object]:
    return lambda self: number_by(computes, number_if_settled(self.content))


def _binary(computes: Callable[..., object]) -> Callable[..., object]:
    return lambda self, *other: as_traced(
        computes(self.content, *map(as_arrays, content_of(other)))
    )


def _reflected(computes: Callable[..., object]) -> Callable[..., object]:
    return lambda self, other: as_traced(
        computes(as_arrays(content_of(other)), self.content)
    )


def _in_place(computes: Callable[..., object]) -> Callable[..., object]:
    return lambda self, other: self.updated(
        as_traced(computes(self.content, as_arrays(content_of(other))))
    )


_define_operators()
