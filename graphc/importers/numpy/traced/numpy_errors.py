"""Errors that NumPy raises too, of NumPy's classes, so that functions can catch them.

Where all sizes are known, NumPy computes on stand-ins for the arguments. An error that
it raises for every stand-in is due to the sizes, so a function that catches the error
takes a decision by these sizes.
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
    call_method,
    call_on_arrays,
    content_of,
)
from graphc.importers.numpy.traced.memory import (
    Content,
    count_computed,
    forget_computed,
)
from graphc.importers.numpy.traced.refusals import attach_error
from graphc.ir.graph.build import literal_of
from graphc.ir.graph.dispatch import pass_by_position
from graphc.ir.graph.nodes import Value
from graphc.ir.types import NDArray

_Fill = Callable[[tuple[int, ...]], NDArray]  # makes numbers for a shape
MOST = 10**6  # elements of all stand-ins together
_FILLS: tuple[_Fill, ...] = (np.zeros, np.ones, np.random.default_rng(0).random)
_OF_SIZES = "dimension", "square"  # in a LinAlgError due to sizes, not to numbers
_PLAIN = (str, bytes, int, float, complex, np.generic, np.dtype, type(None))


class _NoStandInError(Exception):
    """Raised for an argument without a stand-in: a symbolic size, or user code."""


def call_like_numpy(ours: Callee, plain: Callee, args: Args, options: Kwargs) -> Any:
    """Call `ours`; where `plain` fails too, raise NumPy's error instead of ours."""
    before = count_computed()
    try:
        return ours(*args, **options)
    except GraphError as error:
        raised = _error_of_numpy(plain, args, options)
        if raised is None:
            raise
        attach_error(raised, error)
        forget_computed(before)
    raise raised


def _error_of_numpy(plain: Callee, args: Args, options: Kwargs) -> Exception | None:
    """The error that NumPy raises whatever the elements are; None if there is none."""
    contents = content_of([list(args), dict(options)])
    raised = [_error_for_stand_ins(plain, contents, fill) for fill in _FILLS]
    error, of_one_kind = raised[0], len(set(map(type, raised))) == 1
    of_numbers = isinstance(error, np.linalg.LinAlgError) and not any(
        word in str(error) for word in _OF_SIZES
    )
    return error if of_one_kind and not of_numbers else None


def _error_for_stand_ins(
    plain: Callee, contents: Content, fill: _Fill
) -> Exception | None:
    """The error that NumPy's function raises for stand-ins, or None."""
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
    """NumPy arrays that take the places of values, all filled in the same way."""

    def __init__(self, fill: _Fill) -> None:
        self._fill = fill
        self._room = MOST

    def of(self, content: Content) -> Any:
        """Return the stand-in for some content."""
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


# Methods of Python objects rather than NumPy arrays, and those that look at their
# caller.
_OF_PYTHON = (
    "init hash setattr getattr deepcopy graphc_value array array_ufunc iter len"
)
_OF_NUMBERS = "bool int float complex index repr format reduce_ex"
_AS_THEY_ARE = {f"__{name}__" for name in f"{_OF_PYTHON} {_OF_NUMBERS}".split()}
_AS_THEY_ARE |= {"viewed", "updated"}


def _methods() -> Iterator[tuple[str, FunctionType]]:
    """The methods of traced arrays that NumPy's arrays have as well."""
    for name, method in vars(TracedArray).items():
        is_function = isinstance(method, FunctionType) and name not in _AS_THEY_ARE
        if is_function and (name.startswith("__") or not name.startswith("_")):
            yield name, method


def _call_method(of: object, name: str, *args: object, **options: object) -> object:
    """Call a method of a NumPy array or ufunc."""
    method: Callee = getattr(of, name)
    return method(*args, **options)


def _method_like_numpys(name: str, method: Callee) -> Callee:
    """A method that raises the errors of NumPy's method of the same name."""

    def plain(array: object, *args: object, **options: object) -> object:
        return _call_method(array, name, *args, **options)

    def asked(*args: object, **options: object) -> object:
        return call_like_numpy(method, plain, args, options)

    asked.__code__ = asked.__code__.replace(co_name=name)  # for error messages
    return asked


def _by_first_argument(method: Callee) -> Callee:
    """A method that raises the errors of the NumPy method its first argument names."""

    def asked(*args: object, **options: object) -> object:
        return call_like_numpy(method, _call_method, args, options)

    return asked


def _array_ufunc(method: Callee) -> Callee:
    """A method `__array_ufunc__` that raises the errors of NumPy's ufunc."""

    def asked(self: TracedArray, *args: object, **options: object) -> object:
        return call_like_numpy(partial(method, self), _call_method, args, options)

    return asked


def call_with_numpy_errors(function: Callee, args: Args, options: Kwargs) -> Any:
    """Call a function of NumPy as `call_on_arrays` does, with NumPy's own errors."""

    def ours(*args: object, **options: object) -> object:
        return call_on_arrays(function, args, options)

    return call_like_numpy(ours, function, args, options)


def _array_function(
    self: TracedArray, function: Callee, _: object, args: Args, options: Kwargs
) -> object:
    """`__array_function__` with the errors of NumPy's function."""
    return call_with_numpy_errors(function, *pass_by_position(function, args, options))


def _wrap_methods() -> None:
    """Make the methods of traced arrays raise the errors that NumPy's raise."""
    for name, method in list(_methods()):
        setattr(TracedArray, name, _method_like_numpys(name, method))
    members = vars(TracedArray)
    writes = _method_like_numpys("__setitem__", members["__setitem__"].of_array)
    others = {
        "_by_method": _by_first_argument(members["_by_method"]),
        "_method": _by_first_argument(call_method),
        "__array_ufunc__": _array_ufunc(members["__array_ufunc__"]),
        "__array_function__": _array_function,
        "__setitem__": operators.OfArrays(writes),
    }
    for name, member in others.items():
        setattr(TracedArray, name, member)


_wrap_methods()
