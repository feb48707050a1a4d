"""NumPy's functions of values, where NumPy does not ask its arguments.

A value answers for most functions of NumPy, but `np.zeros(x.shape)`, `np.arange(n)` and
`np.take(table, i)` are not asked of it. While a function is traced, Python code that
writes `np.zeros` gets a function that gives a value where an argument is symbolic.
Nothing changes for other arguments, nor in other threads, nor for code of C, as that of
NumPy's random numbers: it writes into the memory of what `numpy.empty` gives it, and an
array that is traced has none.
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
from graphc.importers.asking import is_in_file_of_user
from graphc.importers.lookups import (
    is_for_identity,
    is_to_call,
    looks_up,
    may_ask,
    tested,
)
from graphc.importers.numpy.traced import in_place
from graphc.importers.numpy.traced.arrays import (
    NUMBER,
    TracedArray,
    content_of,
    holds_arrays,
    wrapped,
)
from graphc.importers.numpy.traced.draws import RandomNames
from graphc.importers.numpy.traced.grids import Grid, Joining
from graphc.importers.numpy.traced.memory import Memory, is_symbolic, python_fitting
from graphc.importers.numpy.traced.own import NAMES, SAME_RESULTS
from graphc.importers.numpy.traced.python_numbers import BUILTINS, CLASSES, OF_MATH
from graphc.importers.numpy.traced.raised import of_numpy
from graphc.importers.numpy.traced.sharing import READ_ONLY
from graphc.importers.numpy.traced.ufuncs import EqualToPlain, UfuncOfUser
from graphc.importers.places import replacing
from graphc.importers.reached import reached
from graphc.ir.config import default_float
from graphc.ir.forks import RenewedLock
from graphc.ir.graph.build import as_value, strong
from graphc.ir.graph.dispatch import by_position, check_options, name_of
from graphc.ir.namespace import FUNCTIONS
from graphc.ir.params.concrete import words_of_numpy
from graphc.ir.types import DTYPES, DType

# Others of `scipy.special` that are no ufuncs have other dtypes, or raise for numbers.
OF_SPECIAL = "logsumexp", "log_softmax", "softmax"
ORDERED = frozenset(["zeros", "ones", "empty", "full"])  # in memory, as C has them
OUTSIDE = "an array from outside of the function would be written"
ITERATING = "reads and writes memory, which arrays that are traced have not"


class _Tracing(threading.local):
    """How many functions this thread traces, one within the other."""

    depth = 0


_TRACING = _Tracing()
_LOCK = RenewedLock()
_tracers: set[object] = set()  # one for each function that any thread traces


class _WatchedModule(ModuleType):
    """NumPy while a thread traces: Python code looks names up here, and C too.

    Both ask the module. The instruction that the calling frame stands at distinguishes
    them: Python code that looks a name up stands at that name, and code of C has been
    called by an instruction of another kind.
    """

    def __getattribute__(self, name: str) -> object:
        plain = super().__getattribute__(name)
        if not _TRACING.depth or name not in _replaced:
            return plain
        asking = sys._getframe(1)
        of_user = name == "isscalar" or isinstance(plain, np.ufunc)
        if of_user and not is_in_file_of_user(asking):
            return plain
        if looks_up(asking, name):
            is_dtype = isinstance(plain, type) and issubclass(plain, np.generic)
            if is_for_identity(asking, name) or (is_dtype and not is_to_call(asking)):
                return plain
            return _replaced[name]
        return _replaced[name] if _is_asked_by_text(asking, name) else plain


def _is_asked_by_text(asking: FrameType, name: str) -> bool:
    """Whether a line of the user's is `getattr(np, name)`.

    Code of C that the line calls would crash with memory that is none.
    """
    is_users = not name.startswith("empty") and is_in_file_of_user(asking)
    return is_users and may_ask(asking, name)


@contextmanager
def numpy_of_values() -> Generator[None]:
    """Within: NumPy's functions take values, and floats are float64 as they are there.

    It is so in this thread, and of names that are looked up in NumPy.
    """
    token, depth = object(), _TRACING.depth
    try:
        _enter(token)
        _TRACING.depth = depth + 1
        with default_float("float64"), words_of_numpy(), _fourier_of_scipy():
            yield
    finally:
        _TRACING.depth = depth
        _leave(token)


def _enter(token: object) -> None:
    with _LOCK:
        _tracers.add(token)
        if not _replaced:
            _replaced.update({name: _of_values(f) for name, f in _functions()})
            _replaced.update(
                r_=Joining(np.r_, _made_by_user), c_=Joining(np.c_, _made_by_user, True)
            )
            _replaced.update(
                mgrid=Grid(np.mgrid, _made_by_user), ogrid=Grid(np.ogrid, _made_by_user)
            )
            _replaced.update(_ufuncs())
            _replaced.update(_dtypes())
            _replaced["ndenumerate"] = _ndenumerate
            _replaced["random"] = RandomNames(np.random)
            frequencies = np.fft.fftfreq, np.fft.rfftfreq
            of_sizes = {f.__name__: _of_points(f) for f in frequencies}
            _replaced["fft"] = _NamesOf(np.fft, of_sizes)
            _replaced["nditer"] = _nditer
            _replaced["isscalar"] = _isscalar
        # Modules have it, which pyright does not know.
        np.__class__ = _WatchedModule  # pyright: ignore[reportAttributeAccessIssue]


def _leave(token: object) -> None:
    with _LOCK:
        _tracers.discard(token)
        if not _tracers:
            np.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def names_of_user(function: Callable[..., object]) -> Generator[None]:
    """Within: functions of NumPy that the user has under other names take values too.

    Those that NumPy asks arguments about stay: user code may compare them with what it
    keeps elsewhere. `len(x)` is `x.shape[0]` there; Python's own gives a number.
    """
    members = ((vars(np)[name], item) for name, item in _replaced.items())
    taking = {id(f): item for f, item in members if not isinstance(f, _ASKING)}
    taking |= {id(member): item for member, item in _of_scipy()}
    taking |= {id(getattr(math, name)): item for name, item in OF_MATH.items()}
    taking[id(math)] = _NamesOf(math, OF_MATH)
    with replacing(function, taking, {"len": _len, **BUILTINS, **_classes(function)}):
        yield


def _classes(function: Callable[..., object]) -> dict[str, object]:
    """Python's classes of numbers, but those that the user's code may test by `is`."""
    functions = (f for f in (function, *reached(function)) if type(f) is FunctionType)
    codes = (f.__code__ for f in functions if is_user_file(f.__code__.co_filename))
    used = {name for code in codes for name in tested(code)}
    return {name: item for name, item in CLASSES.items() if name not in used}


def _len(items: Sized, /) -> object:
    """Python's `len`; of an array that is traced, the size of its first axis."""
    if type(items) is TracedArray and items.ndim:
        return items.shape[0]
    return len(items)


_len.__name__ = "len"


def _functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """The functions of NumPy that there are of values too; ufuncs ask by themselves."""
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
    """The ufuncs of NumPy as the user has them, who makes arrays by them too."""
    for name, member in vars(np).items():
        if isinstance(member, np.ufunc):
            yield name, UfuncOfUser(member, _made_by_user)


def _dtypes() -> Iterator[tuple[str, Callable[[object], object]]]:
    """The classes of numbers of NumPy as functions, which cast what they are given."""
    for name, member in vars(np).items():
        if isinstance(member, type) and member in _NUMBERS:
            yield name, _casting_to(member)


def _casting_to(kind: type) -> Callable[[object], object]:
    """Numbers and arrays of a class of NumPy's numbers; of arguments, cast."""

    def cast(number: object = 0) -> object:
        content = content_of(number)
        if not _TRACING.depth or not is_symbolic(content):
            result = kind(content)
            return _made_by_user(result) if called_by_user() else result
        dtype = np.dtype(kind)
        return wrapped(FUNCTIONS["asarray"](python_fitting(content, dtype), dtype))

    return cast


def _of_values(function: Callable[..., object]) -> Callable[..., object]:
    """A function of NumPy that leaves values to ours.

    Arrays that users make have a memory of ours, since values may be written there.
    """
    name = function.__name__
    makes_arrays = name_of(function) == "asarray"

    def asked(_: object, *args: object, **options: object) -> object:
        if not _TRACING.depth:
            return function(*args, **options)
        args, options = by_position(function, args, options)
        if is_symbolic(content_of([*args, *options.values()])):
            check_options(name, options)
            items, *others = args or (None,)
            if makes_arrays and isinstance(items, (list, tuple)):
                dtype: Any = options.get("dtype", others[0] if others else None)
                target = None if dtype is None else np.dtype(dtype)
                args = (_with_arrays(items, target), *others)
            in_rows = name in ORDERED and options.pop("order", "C") == "C"
            result = of_numpy(function, args, options)
            if in_rows:
                result.memory.ordered = True
            return result
        if holds_arrays([*args, *options.values()]):
            return of_numpy(function, args, options)
        result = function(*args, **options)
        if name.startswith("empty"):
            result = np.zeros_like(result)
        return (
            _written_later(result, args, options, name) if called_by_user() else result
        )

    asked.__code__ = asked.__code__.replace(co_name=name)  # as errors call it
    kind = type(name, (EqualToPlain,), {"__call__": asked})
    of_user: Any = kind(function)
    return update_wrapper(of_user, function)


class _NamesOf:
    """A module as the user has it, with other members in the places of some."""

    def __init__(self, module: ModuleType, members: Mapping[str, object]) -> None:
        self._module, self._members = module, members

    def __getattr__(self, name: str) -> object:
        return self._members.get(name) or getattr(self._module, name)


def _of_scipy() -> list[tuple[object, object]]:
    """Functions of SciPy that are no ufuncs, and its modules, as they take values."""
    special = sys.modules.get("scipy.special")
    if special is None:
        return []
    if not _functions_of_scipy:
        plain = [getattr(special, name) for name in OF_SPECIAL]
        taking = {f.__name__: _of_values(f) for f in plain}
        module = _NamesOf(special, taking)
        _functions_of_scipy.extend(zip(plain, taking.values(), strict=True))
        root = sys.modules["scipy"]
        _functions_of_scipy.append((special, module))
        _functions_of_scipy.append((root, _NamesOf(root, {"special": module})))
    return _functions_of_scipy


def _of_points(function: Callable[..., object]) -> Callable[..., object]:
    """The frequencies of so many points, by which NumPy divides."""
    frequencies = _of_values(function)

    @wraps(function)
    def asked(n: object, *args: object, **options: object) -> object:
        if _TRACING.depth and is_symbolic(content_of([n])) and n == 0:
            raise ZeroDivisionError("float division by zero")
        return frequencies(n, *args, **options)

    return asked


class _FourierOfScipy:
    """A backend of `scipy.fft`: its transforms, as NumPy has them."""

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
            return _made_by_user(method(*plain, **named))
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
        if array.dtype == np.float16:  # of which NumPy's results are float16
            array = array.astype(np.float32)
        return of_numpy(namesake, (array,), taken)


def _fourier_of_scipy() -> AbstractContextManager[object]:
    """Within: `scipy.fft` takes arrays that are traced, if it is imported."""
    module = sys.modules.get("scipy.fft")
    return nullcontext() if module is None else module.set_backend(_FourierOfScipy)


def _made_by_user(result: object) -> object:
    """New arrays, which code of the user may write while a function is traced."""
    return _written_later(result, (), {}, "") if _TRACING.depth else result


def _written_later(
    result: object, args: tuple[object, ...], options: Mapping[str, object], name: str
) -> object:
    """Results for code of the user: arrays as ours, since values may be written there.

    One that shares memory with an argument, which is from outside, is not written.
    """
    if isinstance(result, (list, tuple)):
        items = [_written_later(item, args, options, name) for item in result]
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


def _with_arrays(items: object, dtype: DType | None) -> object:
    """Nested lists in which numbers are arrays: these have dtypes in NumPy's lists."""
    if isinstance(items, (list, tuple)):
        return [_with_arrays(item, dtype) for item in items]
    number = content_of(items)
    if dtype is not None:
        number = python_fitting(number, dtype)
    return strong(as_value(number))


def _nditer(*args: Any, **options: Any) -> object:
    """`np.nditer`, of arrays that are not traced."""
    if holds_arrays([*args, *options.values()]):
        hint = "write an expression of whole arrays, or a loop over rows"
        raise graph_error(ITERATING, op="numpy.nditer", hint=hint)
    return _PLAIN_NDITER(*args, **options)


def _ndenumerate(array: object) -> object:
    """`np.ndenumerate`, of traced arrays too."""
    if isinstance(array, TracedArray):
        return in_place.elements_with_places(array)
    return _PLAIN_NDENUMERATE(array)


def _isscalar(element: object) -> bool:
    """`np.isscalar`, also of numbers that are traced."""
    if type(element) is TracedArray:
        return element.memory.fixed == NUMBER
    return _PLAIN_ISSCALAR(element)


_ASKING = (type(np.sum), np.ufunc, type)
_NUMBERS = {np.dtype(name).type for name in DTYPES}
_PLAIN_NDITER, _PLAIN_NDENUMERATE = np.nditer, np.ndenumerate
_PLAIN_ISSCALAR = np.isscalar


_replaced: dict[str, Any] = {}  # what names of NumPy stand for in a trace
_functions_of_scipy: list[tuple[object, object]] = []
