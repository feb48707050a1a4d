"""Methods of JAX's symbolic dimensions, answered by a recorder while it watches.

For sizes of a trace that is not recorded, they do what JAX's own methods do.
"""

import dis
import inspect
import math
import operator
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Complex, Integral, Number, Real
from types import FrameType
from typing import Any

import jax.export
import jax.numpy as jnp
import numpy as np

from graphc.errors import NOWHERE
from graphc.importers.asking import is_asked_by_user
from graphc.importers.jax.trace.decisions import Relation
from graphc.importers.jax.trace.recorder import (
    RECORDING,
    THREAD,
    Recorder,
    recorder_of,
    scope_of,
)
from graphc.ir.params.exactness import limits

DIMENSION: Any = type(jax.export.symbolic_shape("n")[0])


@contextmanager
def recording(recorder: Recorder, symbols: Iterable[object] = ()) -> Generator[None]:
    """Let a recorder answer about these symbols, or else about the earlier ones."""
    recorder.scope = scope_of(symbols) or recorder.scope
    if not WATCHED:
        recorder.observe(lambda: NOWHERE)
    key = recorder.scope or recorder  # a key of its own if there are no symbols
    outer = RECORDING.get(key)
    RECORDING[key] = recorder
    try:
        with _TYPES.watched():
            yield
    finally:
        if outer is None:
            del RECORDING[key]
        else:
            RECORDING[key] = outer


class _WatchedTypes:
    """Makes `isinstance(n, int)` true in the user's code while a recorder watches.

    `isinstance` asks for `__class__`. A method that intercepts all attributes slows all
    of them down, so it is installed only while some thread watches.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watching = 0

    @contextmanager
    def watched(self) -> Generator[None]:
        """Answer for types within."""
        with self._lock:
            self._watching += 1
            DIMENSION.__getattribute__ = _attribute
        try:
            yield
        finally:
            with self._lock:
                self._watching -= 1
                if not self._watching:
                    del DIMENSION.__getattribute__


# Modules of Python that ask for the class on the user's behalf, as `isinstance` does.
_ASKING_FOR_USERS = ("abc", "functools", "typing")


def _attribute(size: object, name: str) -> object:
    if name == "__class__" or name in _OF_INTEGERS:
        recorder = recorder_of(size)
        frame = sys._getframe(1)
        if recorder is not None and is_asked_by_user(frame):
            module = frame.f_globals.get("__name__", "").partition(".")[0]
            direct = module not in sys.stdlib_module_names
            if name in _OF_INTEGERS or not (direct or module in _ASKING_FOR_USERS):
                recorder.observe()  # whoever catches the error decides by type
            elif name == "__class__":
                return int
    return object.__getattribute__(size, name)


_TYPES = _WatchedTypes()


# Comparisons of objects that hold sizes, such as avals, compare fields, and so sizes.
_EQUALITIES = "__eq__", "__ne__"


def _is_written(frame: FrameType) -> bool:
    """Whether a frame compares sizes by a comparison written in its code.

    JAX's caches compare keys from C, or by `__eq__` of objects that hold sizes. If two
    such keys were called equal, the cache would return what was traced for other sizes.
    """
    return frame.f_code.co_name not in _EQUALITIES and _compares(frame)


def _is_asked_by_cache(frame: FrameType) -> bool:
    """Whether C code asks for a comparison, for the keys of a cache.

    Caches compare keys whose hashes collide; that happens by chance and decides
    nothing.
    """
    asking: FrameType | None = frame
    while asking is not None and asking.f_code.co_name in _EQUALITIES:
        asking = asking.f_back
    return asking is not None and not _compares(asking)


def _compares(frame: FrameType) -> bool:
    code = frame.f_code
    return dis.opname[code.co_code[frame.f_lasti]] in ("COMPARE_OP", "CONTAINS_OP")


# Methods of JAX objects that hold sizes, and through which sizes are asked about.
_OF_HOLDERS = frozenset({"__eq__", "__ne__", "__hash__", "<genexpr>", "<listcomp>"})
_OF_TEXTS = frozenset({"__str__", "__repr__", "__format__", "str_short"})


def _asking_frame(frame: FrameType) -> FrameType:
    """The frame that asks: the user's if it asks an object that holds sizes."""
    asking: FrameType | None = frame
    while asking is not None and not is_asked_by_user(asking):
        if asking.f_code.co_name not in _OF_HOLDERS:
            return frame
        asking = asking.f_back
    return asking or frame


def _asks_for_text(frame: FrameType) -> bool:
    """Whether the user's code asks for the text of an object that holds sizes."""
    entered, asking = frame, frame.f_back
    while asking is not None and not is_asked_by_user(asking):
        entered, asking = asking, asking.f_back
    return asking is not None and entered.f_code.co_name in _OF_TEXTS


@dataclass(slots=True)
class _MethodCall:
    """A call of a method of JAX's dimensions while a recorder watches."""

    recorder: Recorder
    original: Callable[..., Any]
    frame: FrameType

    @property
    def is_from_user(self) -> bool:
        return is_asked_by_user(self.frame)

    def answer(self, left: object, relation: Relation, right: object) -> bool:
        return self.recorder.answer(left, relation, right, self.frame)


_Answer = Callable[..., Any]  # takes a _MethodCall and the method's arguments


def _answered_if_watched(
    original: Callable[..., object], answer: _Answer
) -> Callable[..., object]:
    """Wrap a method of dimensions so that a recorder answers, if one watches."""

    def method(self: object, *args: object) -> object:
        recorder = recorder_of(self)
        if recorder is None:
            return original(self, *args)
        THREAD.is_answering = True
        try:
            call = _MethodCall(recorder, original, _asking_frame(sys._getframe(1)))
            return answer(call, self, *args)
        finally:
            THREAD.is_answering = False

    return method


def _is_comparable(call: _MethodCall, other: object) -> bool:
    """Whether `other` is a size of the same trace, or an integer."""
    if isinstance(other, DIMENSION):
        return call.recorder.knows(other)
    return isinstance(other, Integral)


def _equal_integer(number: Any) -> object:
    """The integer that equals a number of another type, or None."""
    if isinstance(number, Complex):
        if number.imag != 0:
            return None
        number = number.real
    try:
        whole = int(number)
    except (TypeError, ValueError, OverflowError):
        return None
    return whole if whole == number else None


_EQUAL: Callable[[Any, Any], bool] = DIMENSION.__eq__  # as JAX decides it


def _equals(call: _MethodCall, size: object, other: object) -> object:
    if size is other or _EQUAL(size, other):
        return True
    if isinstance(other, Number) and not isinstance(other, Integral):
        other = _equal_integer(other)
        if other is None:
            return False
    if _is_comparable(call, other):
        if call.is_from_user or _is_written(call.frame):
            return call.answer(size, "==", other)
        if not _is_asked_by_cache(call.frame):
            call.recorder.differ(size, other)
        return False
    if isinstance(other, DIMENSION):  # another trace's, as scopes tell
        if call.is_from_user:
            call.recorder.observe()
        return False
    return NotImplemented if call.is_from_user else False  # for an array, for example


def _differs(call: _MethodCall, size: object, other: object) -> object:
    answer = _equals(call, size, other)
    return answer if answer is NotImplemented else not answer


def _comparison(compare: Callable[..., bool], swapped: bool, negated: bool) -> _Answer:
    """Answer a comparison such as `>=`, with its sides swapped, or negated, or both."""

    def answer(call: _MethodCall, size: object, other: object) -> object:
        if isinstance(other, Real) and not isinstance(other, Integral):
            number = float(other)
            if not math.isfinite(number):
                return compare(0, number)
            # n >= 2.5 is n >= 3, and 2.5 >= n is 2 >= n.
            other = math.floor(number) if swapped else math.ceil(number)
        if not _is_comparable(call, other):
            by_user = not isinstance(other, DIMENSION) and call.is_from_user
            return NotImplemented if by_user else call.original(size, other)
        try:
            return call.original(size, other)
        except Exception:  # the symbols leave it open
            if not (call.recorder.answers_jax or call.is_from_user):
                call.recorder.was_silent = True
                raise
        left, right = (other, size) if swapped else (size, other)
        return call.answer(left, ">=", right) is not negated

    return answer


def _division(reflected: bool) -> _Answer:
    """Answer a division: the user's code must learn if the divisor is zero."""

    def answer(call: _MethodCall, size: object, other: object) -> object:
        divisor = size if reflected else other
        asks = isinstance(divisor, DIMENSION) and call.is_from_user
        asks = asks and call.recorder.knows(divisor) and _may_be_zero(divisor)
        if asks and call.answer(divisor, "==", 0):
            raise ZeroDivisionError("integer division or modulo by zero")
        return call.original(size, other)

    return answer


_AT_LEAST: Callable[[Any, int], bool] = DIMENSION.__ge__  # as JAX decides it


def _may_be_zero(size: object) -> bool:
    """Whether the symbols do not rule out that a size is 0."""
    try:
        return not _AT_LEAST(size, 1)
    except Exception:
        return True


def _is_true(call: _MethodCall, size: object) -> bool:
    return not call.answer(size, "==", 0)


def _text_of(call: _MethodCall, size: object, *args: Any) -> object:
    """The text of a size; for the user's code, the text of its number."""
    by_user = call.is_from_user or _asks_for_text(call.frame)
    if not (by_user and call.recorder.sizes):
        return call.original(size, *args)
    call.recorder.observe()
    return format(call.recorder.number(size), *args)


def _number_of(call: _MethodCall, size: object, *args: object) -> object:
    """The number of a size, as JAX gives it: the user may do anything with it."""
    if call.is_from_user:
        call.recorder.observe()
    return call.original(size, *args)


def _hash_of(call: _MethodCall, size: object) -> object:
    """The hash of a size, by which the user's code may find anything."""
    if call.is_from_user:
        call.recorder.observe(tells=False)
    return call.original(size)


def _size_itself(_: object, size: object, *args: object) -> object:
    return size


def _as_array(call: _MethodCall, size: object) -> object:
    """The array that JAX makes of a size's number, which must fit a named dtype.

    Raises OverflowError, as JAX does, if it does not fit.
    """
    dtype = _named_dtype(call.frame)
    if dtype is not None and dtype.kind in "iu":
        low, high = limits(dtype)
        questions: list[tuple[object, object]] = []
        if dtype.kind == "u" or dtype.itemsize < _LONGEST:
            questions.append((size, low))
        if dtype.itemsize < _LONGEST:  # no axis is too long for wider ones
            questions.append((high, size))
        for larger, smaller in questions:
            known = _is_known(larger, smaller)
            if not (known or call.recorder.holds(larger, smaller, call.frame)):
                number = call.recorder.number(size)
                problem = f"Python integer {number} out of bounds for {dtype}"
                raise OverflowError(problem)
    return call.original(size)


_LONGEST = 4  # bytes of the integers that can count any axis


def _named_dtype(frame: FrameType | None) -> np.dtype[Any] | None:
    """The dtype that was passed to `jnp.array`, or None."""
    for _ in range(2):  # perhaps from a comprehension in it
        if frame is not None and frame.f_code is not _ARRAY:
            frame = frame.f_back
    if frame is None or frame.f_code is not _ARRAY:
        return None
    dtype = frame.f_locals["dtype"]
    return None if dtype is None else np.dtype(dtype)


_ARRAY = getattr(inspect.unwrap(jnp.array), "__code__", None)


def _is_known(larger: Any, smaller: Any) -> bool:
    """Whether the symbols alone prove that one size is at least the other."""
    try:
        return _AT_LEAST(larger - smaller, 0)
    except Exception:
        return False


def _refusal(kind: str) -> Callable[..., object]:
    """Return a method that raises TypeError, as Python does if there is none."""

    def refuse(size: object, *args: object) -> object:
        name = type(size).__name__
        raise TypeError(f"{name!r} object cannot be interpreted as {kind}")

    return refuse


# The methods of JAX's dimensions that reveal something about a size. For the methods
# that dimensions lack, `_ABSENT` has what Python does in their absence.
_ANSWERS: dict[str, _Answer] = {
    "__eq__": _equals,
    "__ne__": _differs,
    "__ge__": _comparison(operator.ge, swapped=False, negated=False),
    "__lt__": _comparison(operator.lt, swapped=False, negated=True),
    "__le__": _comparison(operator.le, swapped=True, negated=False),
    "__gt__": _comparison(operator.gt, swapped=True, negated=True),
    "__hash__": _hash_of,
    "__int__": _number_of,
    "__str__": _text_of,
    "__repr__": _text_of,
    "__deepcopy__": _size_itself,
    "__jax_array__": _as_array,
}
for _name in ("floordiv", "mod", "divmod", "truediv"):
    for _side in ("", "r"):
        if f"__{_side}{_name}__" in vars(DIMENSION):
            _ANSWERS[f"__{_side}{_name}__"] = _division(reflected=_side == "r")
_ABSENT: dict[str, tuple[Callable[..., Any], _Answer]] = {
    "__bool__": (lambda _: True, _is_true),
    "__float__": (_refusal("a number"), _number_of),
    "__complex__": (_refusal("a number"), _number_of),
    "__index__": (_refusal("an integer"), _number_of),
    "__round__": (_refusal("a number"), _number_of),
    "__abs__": (_refusal("a number"), _number_of),
    "__pos__": (_refusal("a number"), _size_itself),
    "__invert__": (_refusal("an integer"), _number_of),
    "__format__": (object.__format__, _text_of),
    "__reduce_ex__": (object.__reduce_ex__, _number_of),
    "__copy__": (lambda size: size, _size_itself),
}
for _name in ("and", "or", "xor", "lshift", "rshift"):
    for _side in ("", "r"):
        _ABSENT[f"__{_side}{_name}__"] = (lambda *_: NotImplemented, _number_of)


def _watch_dimensions() -> bool:
    """Let recorders answer for dimensions; False if this JAX has other methods.

    Without a recorder, the methods do what they did before.
    """
    methods = vars(DIMENSION)
    if not methods.keys() >= _ANSWERS.keys():
        return False
    for name, answer in _ANSWERS.items():
        setattr(DIMENSION, name, _answered_if_watched(methods[name], answer))
    for name, (original, answer) in _ABSENT.items():
        setattr(
            DIMENSION, name, _answered_if_watched(methods.get(name, original), answer)
        )
    return True


WATCHED = _watch_dimensions()
_OF_INTEGERS = frozenset(dir(int)).difference(dir(DIMENSION))  # which dimensions lack
