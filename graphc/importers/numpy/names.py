"""NumPy's functions for values, in cases where NumPy does not ask its arguments.

A value answers for most functions of NumPy, but NumPy does not ask it in
`np.zeros(x.shape)`, `np.arange(n)` and `np.take(table, i)`. While a function is traced,
Python code that writes `np.zeros` gets a function that returns a value if an argument
is symbolic. Nothing changes for other arguments, nor in other threads, nor for C code
such as NumPy's random numbers: that writes into the memory of what `numpy.empty`
returns, and a traced array has no memory.
"""

import math
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import update_wrapper, wraps
from inspect import signature
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from graphc.errors import called_by_user, graph_error, is_user_file
from graphc.importers.asking import is_asked_in_user_file
from graphc.importers.lookups import (
    is_for_identity,
    is_to_call,
    looks_up,
    may_ask,
    names_tested_by_is,
)
from graphc.importers.numpy.traced import in_place
from graphc.importers.numpy.traced.arrays import (
    NUMBER,
    TracedArray,
    as_traced,
    content_of,
    holds_arrays,
)
from graphc.importers.numpy.traced.draws import RandomNames
from graphc.importers.numpy.traced.grids import Grid, Joining
from graphc.importers.numpy.traced.memory import (
    Memory,
    cast_python_integers,
    is_symbolic,
)
from graphc.importers.numpy.traced.numpy_errors import call_with_numpy_errors
from graphc.importers.numpy.traced.numpy_functions import NAMES, SAME_RESULTS
from graphc.importers.numpy.traced.python_numbers import (
    BUILTINS,
    CLASSES,
    MATH_FUNCTIONS,
)
from graphc.importers.numpy.traced.sharing import READ_ONLY
from graphc.importers.numpy.traced.ufuncs import EqualToPlain, UfuncOfUser
from graphc.importers.places import replacing
from graphc.importers.reachable import reachable_objects
from graphc.ir.config import default_float
from graphc.ir.forks import RenewedLock
from graphc.ir.graph.build import as_strong_value
from graphc.ir.graph.dispatch import check_options, name_of, pass_by_position
from graphc.ir.namespace import FUNCTIONS
from graphc.ir.params.concrete import words_of_numpy
from graphc.ir.types import DTYPES, DType

# The other non-ufuncs in `scipy.special` have other dtypes, or raise for numbers.
OF_SPECIAL = "logsumexp", "log_softmax", "softmax"
ORDERED = frozenset(["zeros", "ones", "empty", "full"])  # in memory, in C order
OUTSIDE = "an array from outside of the function would be written"
ITERATING = "reads and writes memory, which traced arrays do not have"


class _Tracing(threading.local):
    """The number of functions that this thread traces, one within the other."""

    depth = 0


_TRACING = _Tracing()
_LOCK = RenewedLock()
_tracers: set[object] = set()  # one for each function being traced in any thread


class _WatchedModule(ModuleType):
    """NumPy while a thread traces: Python code looks names up here, and so does C code.

    Both ask the module. The current instruction of the calling frame distinguishes
    them: Python code that looks a name up stands at that name, while C code was called
    by an instruction of another kind.
    """

    def __getattribute__(self, name: str) -> object:
        # `super()` would fail if another thread ends its trace just now: NumPy is then
        # a plain module again.
        plain = ModuleType.__getattribute__(self, name)
        if not _TRACING.depth or name not in _replaced:
            return plain
        asking = sys._getframe(1)
        of_user = name == "isscalar" or isinstance(plain, np.ufunc)
        if of_user and not is_asked_in_user_file(asking):
            return plain
        if looks_up(asking, name):
            is_dtype = isinstance(plain, type) and issubclass(plain, np.generic)
            if is_for_identity(asking, name) or (is_dtype and not is_to_call(asking)):
                return plain
            return _replaced[name]
        return _replaced[name] if _is_asked_by_text(asking, name) else plain


def _is_asked_by_text(asking: FrameType, name: str) -> bool:
    """Whether a line of the user's code is `getattr(np, name)`.

    Names that begin with "empty" are excluded: C code called in that line would crash
    with an array that has no memory.
    """
    is_users = not name.startswith("empty") and is_asked_in_user_file(asking)
    return is_users and may_ask(asking, name)


@contextmanager
def numpy_of_values() -> Generator[None]:
    """Within, NumPy's functions accept values, and floats are float64 as in NumPy.

    This holds in this thread, and for names that are looked up in NumPy.
    """
    token, depth = object(), _TRACING.depth
    try:
        _begin_watching(token)
        _TRACING.depth = depth + 1
        with default_float("float64"), words_of_numpy(), _watch_scipy_fft():
            yield
    finally:
        _TRACING.depth = depth
        _end_watching(token)


def _begin_watching(token: object) -> None:
    with _LOCK:
        _tracers.add(token)
        if not _replaced:
            _replaced.update(_replacements())
        # Modules allow this, which pyright does not know.
        np.__class__ = _WatchedModule  # pyright: ignore[reportAttributeAccessIssue]


def _replacements() -> dict[str, object]:
    """The members of NumPy as user code gets them while a function is traced."""
    frequencies = np.fft.fftfreq, np.fft.rfftfreq
    of_sizes = {f.__name__: _accepting_points(f) for f in frequencies}
    return {
        **{name: _accepting_values(f) for name, f in _functions_of_numpy()},
        **dict(_ufuncs()),
        **dict(_dtypes()),
        "r_": Joining(np.r_, _as_writeable),
        "c_": Joining(np.c_, _as_writeable, True),
        "mgrid": Grid(np.mgrid, _as_writeable),
        "ogrid": Grid(np.ogrid, _as_writeable),
        "random": RandomNames(np.random),
        "fft": _ModuleOfUser(np.fft, of_sizes),
        "ndenumerate": _ndenumerate,
        "nditer": _nditer,
        "isscalar": _isscalar,
    }


def _end_watching(token: object) -> None:
    with _LOCK:
        _tracers.discard(token)
        if not _tracers:
            np.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def names_of_user(function: Callable[..., object]) -> Generator[None]:
    """Within, NumPy functions that the user has under other names accept values too.

    Functions through which NumPy asks its arguments stay: user code may compare them
    with functions that it keeps elsewhere. `len(x)` becomes `x.shape[0]`, since
    Python's own `len` must return a number.
    """
    members = ((vars(np)[name], item) for name, item in _replaced.items())
    taking = {id(f): item for f, item in members if not isinstance(f, _ASKING)}
    taking |= {id(member): item for member, item in _scipy_replacements()}
    taking |= {id(getattr(math, name)): item for name, item in MATH_FUNCTIONS.items()}
    taking[id(math)] = _ModuleOfUser(math, MATH_FUNCTIONS)
    with replacing(function, taking, {"len": _len, **BUILTINS, **_classes(function)}):
        yield


def _classes(function: Callable[..., object]) -> dict[str, object]:
    """Replacements for Python's number classes that user code cannot test by `is`."""
    functions = (
        f for f in (function, *reachable_objects(function)) if type(f) is FunctionType
    )
    codes = (f.__code__ for f in functions if is_user_file(f.__code__.co_filename))
    used = {name for code in codes for name in names_tested_by_is(code)}
    return {name: item for name, item in CLASSES.items() if name not in used}


def _len(items: Sized, /) -> object:
    """Python's `len`; for a traced array, the size of its first axis."""
    if type(items) is TracedArray and items.ndim:
        return items.shape[0]
    return len(items)


_len.__name__ = "len"


def _functions_of_numpy() -> Iterator[tuple[str, Callable[..., object]]]:
    """The NumPy functions that exist for values too; ufuncs ask their arguments."""
    for name, member in vars(np).items():
        plain = hasattr(member, "__name__") and not isinstance(member, (np.ufunc, type))
        is_of_numpy = plain and callable(member) and member.__module__ == "numpy"
        if (
            is_of_numpy
            and not name.startswith("_")
            and (name_of(member) in FUNCTIONS or name in NAMES)
        ):
            yield name, member


def _ufuncs() -> Iterator[tuple[str, UfuncOfUser]]:
    """NumPy's ufuncs as the user gets them, which make arrays that can be written."""
    for name, member in vars(np).items():
        if isinstance(member, np.ufunc):
            yield name, UfuncOfUser(member, _as_writeable)


def _dtypes() -> Iterator[tuple[str, Callable[[object], object]]]:
    """NumPy's number classes as functions that cast their argument."""
    for name, member in vars(np).items():
        if isinstance(member, type) and member in _NUMBERS:
            yield name, _casting_to(member)


def _casting_to(kind: type) -> Callable[[object], object]:
    """Return a function that makes numbers of a class, or casts symbolic ones."""

    def cast(number: object = 0) -> object:
        content = content_of(number)
        if not _TRACING.depth or not is_symbolic(content):
            result = kind(content)
            return _as_writeable(result) if called_by_user() else result
        dtype = np.dtype(kind)
        number = cast_python_integers(content, dtype)
        return as_traced(FUNCTIONS["asarray"](number, dtype))

    return cast


def _accepting_values(function: Callable[..., object]) -> Callable[..., object]:
    """Wrap a NumPy function so that graphc computes for symbolic arguments.

    Arrays that users make get a memory of ours, since values may be written there.
    """
    name = function.__name__
    makes_arrays = name_of(function) == "asarray"

    def asked(_: object, *args: object, **options: object) -> object:
        if not _TRACING.depth:
            return function(*args, **options)
        args, options = pass_by_position(function, args, options)
        if is_symbolic(content_of([*args, *options.values()])):
            check_options(name, options)
            items, *others = args or (None,)
            if makes_arrays and isinstance(items, (list, tuple)):
                dtype: Any = options.get("dtype", others[0] if others else None)
                target = None if dtype is None else np.dtype(dtype)
                args = (_numbers_as_arrays(items, target), *others)
            in_rows = name in ORDERED and options.pop("order", "C") == "C"
            result = call_with_numpy_errors(function, args, options)
            if in_rows:
                result.memory.ordered = True
            return result
        if holds_arrays([*args, *options.values()]):
            return call_with_numpy_errors(function, args, options)
        result = function(*args, **options)
        if name.startswith("empty"):
            result = np.zeros_like(result)
        by_user = called_by_user()
        return _as_traced_arrays(result, args, options, name) if by_user else result

    asked.__code__ = asked.__code__.replace(co_name=name)  # the name shown in errors
    kind = type(name, (EqualToPlain,), {"__call__": asked})
    of_user: Any = kind(function)
    return update_wrapper(of_user, function)


class _ModuleOfUser:
    """A module as the user sees it, with some members replaced."""

    def __init__(self, module: ModuleType, members: Mapping[str, object]) -> None:
        self._module, self._members = module, members

    def __getattr__(self, name: str) -> object:
        return self._members.get(name) or getattr(self._module, name)


def _scipy_replacements() -> list[tuple[object, object]]:
    """SciPy's non-ufuncs and modules, each with a replacement that accepts values."""
    special = sys.modules.get("scipy.special")
    if special is None:
        return []
    if not _functions_of_scipy:
        plain = [getattr(special, name) for name in OF_SPECIAL]
        taking = {f.__name__: _accepting_values(f) for f in plain}
        module = _ModuleOfUser(special, taking)
        _functions_of_scipy.extend(zip(plain, taking.values(), strict=True))
        root = sys.modules["scipy"]
        _functions_of_scipy.append((special, module))
        _functions_of_scipy.append((root, _ModuleOfUser(root, {"special": module})))
    return _functions_of_scipy


def _accepting_points(function: Callable[..., object]) -> Callable[..., object]:
    """Wrap a function of frequencies, which divides by the number of points."""
    frequencies = _accepting_values(function)

    @wraps(function)
    def asked(n: object, *args: object, **options: object) -> object:
        if _TRACING.depth and is_symbolic(content_of([n])) and n == 0:
            raise ZeroDivisionError("float division by zero")
        result = frequencies(n, *args, **options)
        return _as_writeable(result) if called_by_user() else result

    return asked


class _FourierOfScipy:
    """A backend of `scipy.fft` that computes its transforms as NumPy does."""

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(
        method: Callable[..., object],
        args: tuple[object, ...],
        options: dict[str, object],
    ) -> object:
        if not holds_arrays([*args, *options.values()]):
            return NotImplemented
        plain, named = content_of(args), content_of(options)
        if not is_symbolic([*plain, *named.values()]):
            return _as_writeable(method(*plain, **named))
        name = method.__name__
        namesake = getattr(np.fft, name, None)
        if namesake is None:
            problem = "takes no arrays that are traced"
            hint = "write it with the transforms of numpy.fft"
            raise graph_error(problem, op=f"scipy.fft.{name}", hint=hint)
        taken = signature(method).bind(*args, **options).arguments
        array = np.asarray(taken.pop("x"))
        for about_memory in ("overwrite_x", "workers", "plan"):
            taken.pop(about_memory, None)
        if array.dtype == np.float16:  # NumPy would return float16
            array = array.astype(np.float32)
        return call_with_numpy_errors(namesake, (array,), taken)


def _watch_scipy_fft() -> AbstractContextManager[object]:
    """Within, `scipy.fft` accepts traced arrays, if it has been imported."""
    module = sys.modules.get("scipy.fft")
    return nullcontext() if module is None else module.set_backend(_FourierOfScipy)


def _as_writeable(result: object) -> object:
    """Make new arrays writeable by user code while a function is traced."""
    return _as_traced_arrays(result, (), {}, "") if _TRACING.depth else result


def _as_traced_arrays(
    result: object, args: tuple[object, ...], options: Mapping[str, object], name: str
) -> object:
    """Turn arrays for user code into ours, since values may be written there.

    An array that shares memory with an argument, which comes from outside, is
    read-only.
    """
    if isinstance(result, (list, tuple)):
        items = [_as_traced_arrays(item, args, options, name) for item in result]
        if name in SAME_RESULTS:
            items = items[:1] * len(items)
        return getattr(result, "_make", type(result))(items)
    if not isinstance(result, np.ndarray):
        return result
    arrays = (a for a in (*args, *options.values()) if isinstance(a, np.ndarray))
    fixed = OUTSIDE if any(np.may_share_memory(result, a) for a in arrays) else ""
    if not result.flags.writeable or (result.size and 0 in result.strides):
        fixed = fixed or READ_ONLY
    ordered = name in ORDERED and options.get("order", "C") == "C"
    return TracedArray(Memory(result, fixed, ordered))


def _numbers_as_arrays(items: object, dtype: DType | None) -> object:
    """Turn numbers in nested lists into arrays, whose dtypes NumPy's lists have."""
    if isinstance(items, (list, tuple)):
        return [_numbers_as_arrays(item, dtype) for item in items]
    number = content_of(items)
    if dtype is not None:
        number = cast_python_integers(number, dtype)
    return as_strong_value(number)


def _nditer(*args: Any, **options: Any) -> object:
    """`np.nditer`, which raises GraphError for traced arrays."""
    if holds_arrays([*args, *options.values()]):
        hint = "write an expression of whole arrays, or a loop over rows"
        raise graph_error(ITERATING, op="numpy.nditer", hint=hint)
    return _PLAIN_NDITER(*args, **options)


def _ndenumerate(array: object) -> object:
    """`np.ndenumerate`, which accepts traced arrays."""
    if isinstance(array, TracedArray):
        return in_place.elements_with_places(array)
    return _PLAIN_NDENUMERATE(array)


def _isscalar(element: object) -> bool:
    """`np.isscalar`, which recognizes traced numbers."""
    if type(element) is TracedArray:
        return element.memory.fixed == NUMBER
    return _PLAIN_ISSCALAR(element)


_ASKING = (type(np.sum), np.ufunc, type)
_NUMBERS = {np.dtype(name).type for name in DTYPES}
_PLAIN_NDITER, _PLAIN_NDENUMERATE = np.nditer, np.ndenumerate
_PLAIN_ISSCALAR = np.isscalar


_replaced: dict[str, Any] = {}  # replacements of NumPy's names in a trace
_functions_of_scipy: list[tuple[object, object]] = []
