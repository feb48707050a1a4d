"""Errors that NumPy raises as well: of its classes, so that a function catches them.

Where all sizes are numbers, NumPy computes on stand-ins of arguments. An error that it
has for each of them is one of sizes: who catches it decides for these sizes.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from graphc.errors import GraphError
from graphc.importers.numpy.traced import (  # noqa: F401  (arrays have what these define)
    in_place,
    operators,
    ufuncs,
)
from graphc.importers.numpy.traced.arrays import (
    Args,
    Callee,
    Kwargs,
    TracedArray,
    called,
    content_of,
    method_of,
)
from graphc.importers.numpy.traced.asked import tells
from graphc.importers.numpy.traced.memory import (
    Content,
    count_computed,
    forget_computed,
)
from graphc.ir.graph.build import literal_of
from graphc.ir.graph.dispatch import by_position
from graphc.ir.graph.nodes import Value
from graphc.ir.types import NDArray

_Fill = Callable[[tuple[int, ...]], NDArray]  # numbers for a shape
MOST = 10**6  # elements of all stand-ins
_FILLS: tuple[_Fill, ...] = (np.zeros, np.ones, np.random.default_rng(0).random)
_OF_SIZES = "dimension", "square"  # in texts of LinAlgError, else it is of numbers
_PLAIN = (str, bytes, int, float, complex, np.generic, np.dtype, type(None))


class _NoStandInError(Exception):
    """Nothing stands for an argument: a size is symbolic, or code is the user's."""


def like_numpy(ours: Callee, plain: Callee, args: Args, options: Kwargs) -> Any:
    """The results of `ours`. Raises the error that `plain` has too in place of ours."""
    before = count_computed()
    try:
        return ours(*args, **options)
    except GraphError as error:
        raised = _raised(plain, args, options)
        if raised is None:
            raise
        tells(raised, error)
        forget_computed(before)
    raise raised


def _raised(plain: Callee, args: Args, options: Kwargs) -> Exception | None:
    """NumPy's error where it has one for any elements."""
    contents = content_of([list(args), dict(options)])
    raised = [_error_of(plain, contents, fill) for fill in _FILLS]
    error, of_one_kind = raised[0], len(set(map(type, raised))) == 1
    of_numbers = isinstance(error, np.linalg.LinAlgError) and not any(
        word in str(error) for word in _OF_SIZES
    )
    return error if of_one_kind and not of_numbers else None


def _error_of(plain: Callee, contents: Content, fill: _Fill) -> Exception | None:
    """The error that NumPy's function has for stand-ins."""
    try:
        args, options = _StandIns(fill).of(contents)
    except _NoStandInError:
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if plain(*args, **options) is NotImplemented:
                return TypeError("unsupported operand types")
    except Exception as error:
        return error.with_traceback(None)
    return None


class _StandIns:
    """Arrays of NumPy in the places of values, filled in one way."""

    def __init__(self, fill: _Fill) -> None:
        self._fill = fill
        self._room = MOST

    def of(self, content: Content) -> Any:
        """The stand-in of some content."""
        if isinstance(content, (list, tuple)):
            return type(content)([self.of(item) for item in content])
        if isinstance(content, dict):
            return {key: self.of(item) for key, item in content.items()}
        if isinstance(content, slice):
            return slice(*map(self.of, (content.start, content.stop, content.step)))
        if isinstance(content, Value):
            return self._of_value(content)
        if isinstance(content, np.ndarray):
            return content.copy()
        known = content is Ellipsis or isinstance(content, (*_PLAIN, type))
        if known or isinstance(content, np.ufunc):
            return content
        raise _NoStandInError

    def _of_value(self, value: Value) -> Any:
        shape = tuple(n for n in value.type.shape if isinstance(n, int))
        self._room -= int(np.prod(shape))
        if len(shape) < value.type.rank or self._room < 0:
            raise _NoStandInError
        constant = literal_of(value)
        if constant is None:
            numbers = self._fill(shape)
            is_whole = value.dtype.kind in "iu"
            constant = np.asarray(numbers * 3 if is_whole else numbers)
        array = np.array(constant).astype(value.dtype)
        if shape:
            return array
        return array.item() if value.type.weak else array[()]


# Methods of Python's, not of NumPy's arrays, and those that ask who calls them.
_OF_PYTHON = (
    "init hash setattr getattr deepcopy graphc_value array array_ufunc iter len"
)
_OF_NUMBERS = "bool int float complex index repr format reduce_ex"
_AS_THEY_ARE = {f"__{name}__" for name in f"{_OF_PYTHON} {_OF_NUMBERS}".split()}
_AS_THEY_ARE |= {"viewed", "updated"}


def _methods() -> Iterator[tuple[str, FunctionType]]:
    """The methods of arrays that NumPy's arrays have as well."""
    for name, method in vars(TracedArray).items():
        is_function = isinstance(method, FunctionType) and name not in _AS_THEY_ARE
        if is_function and (name.startswith("__") or not name.startswith("_")):
            yield name, method


def _member(of: object, name: str, *args: object, **options: object) -> object:
    """The results of a method of NumPy's arrays or ufuncs."""
    method: Callee = getattr(of, name)
    return method(*args, **options)


def _by_own_name(name: str, method: Callee) -> Callee:
    """A method with the errors of NumPy's method of its name."""

    def plain(array: object, *args: object, **options: object) -> object:
        return _member(array, name, *args, **options)

    def asked(*args: object, **options: object) -> object:
        return like_numpy(method, plain, args, options)

    asked.__code__ = asked.__code__.replace(co_name=name)  # as errors call it
    return asked


def _by_first_argument(method: Callee) -> Callee:
    """A method with the errors of that of NumPy which its first argument names."""

    def asked(*args: object, **options: object) -> object:
        return like_numpy(method, _member, args, options)

    return asked


def _ufunc(method: Callee) -> Callee:
    """The answer to `__array_ufunc__`, with the errors of NumPy's ufunc."""

    def asked(self: TracedArray, *args: object, **options: object) -> object:
        return like_numpy(partial(method, self), _member, args, options)

    return asked


def of_numpy(function: Callee, args: Args, options: Kwargs) -> Any:
    """The results of a function of NumPy, as `called`, and its errors."""

    def ours(*args: object, **options: object) -> object:
        return called(function, args, options)

    return like_numpy(ours, function, args, options)


def _function(
    self: TracedArray, function: Callee, _: object, args: Args, options: Kwargs
) -> object:
    """The answer to `__array_function__`, with the errors of NumPy's function."""
    return of_numpy(function, *by_position(function, args, options))


def _let_catch() -> None:
    """Have the methods of arrays raise what NumPy's do."""
    for name, method in list(_methods()):
        setattr(TracedArray, name, _by_own_name(name, method))
    by_method = TracedArray._by_method
    setattr(TracedArray, "_by_method", _by_first_argument(by_method))  # noqa: B010
    setattr(TracedArray, "_method", _by_first_argument(method_of))  # noqa: B010
    of_ufunc = vars(TracedArray)["__array_ufunc__"]
    setattr(TracedArray, "__array_ufunc__", _ufunc(of_ufunc))  # noqa: B010
    setattr(TracedArray, "__array_function__", _function)  # noqa: B010
    written = vars(TracedArray)["__setitem__"]
    writes = operators.OfArrays(_by_own_name("__setitem__", written.of_array))
    setattr(TracedArray, "__setitem__", writes)  # noqa: B010


_let_catch()
