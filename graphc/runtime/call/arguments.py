"""The arguments of a call: put in order, and made fit to be handed to the program."""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from types import ModuleType
from typing import Any, Literal

import numpy as np

from graphc.backends.prelude import LONGEST
from graphc.errors import CallError, ErrorKind, shortened
from graphc.ir.config import Casting
from graphc.ir.graph.nodes import Value
from graphc.ir.types import INT64, DType
from graphc.runtime.driver.failure import DIVIDED_BY_ZERO, ZERO_HINT, refused_call
from graphc_serving.arguments import Refusal, admitted, copy

Backend = Literal["jax", "numpy"]
ArgumentValues = tuple[Any, ...]
_MOST_SHOWN = 8  # arguments in a message
_NUMBERS = {float, complex, bool}


class Signature:
    """The arguments that a call must bring.

    `plain` are the types of arguments that need no admission: arrays of JAX, whose
    dtypes the program sees, and arrays of NumPy for a NumPy program. JAX would cast
    NumPy's 64-bit arrays silently, and wrap a Python integer that does not fit. `jax`
    is given where the program may read arguments after it has returned, as XLA does:
    NumPy's arrays are copied then, since the caller may write to them in the meantime.
    The program itself copies the arrays that it pads.
    """

    def __init__(
        self,
        inputs: Sequence[Value],
        names: Sequence[str],
        defaults: Mapping[int, object],
        backend: Backend,
        check: Callable[..., Iterable[object]],
        casting: Casting,
        jax: ModuleType | None = None,
        padded: Collection[int] = (),
    ) -> None:
        self._padded = tuple([i in padded for i in range(len(inputs))])
        self._inputs = inputs
        self._names = names
        self._defaults = dict(defaults)
        self._backend = backend
        self._check = check
        self._jax = jax
        self._casting = casting
        self._mixed = False  # whether arrays of JAX have come in other dtypes
        self.count: int = len(inputs)
        self.dtypes: tuple[DType, ...] = tuple(v.dtype for v in inputs)
        self.plain: set[type] = set(_NUMBERS)
        self.direct: set[type] = set(_NUMBERS)  # and arrays of JAX, where plain
        if backend == "numpy":
            self.plain.add(np.ndarray)
        if all(v.dtype == INT64 for v in inputs if not v.type.rank):
            self.plain.add(int)

    def bind(self, args: ArgumentValues, named: Mapping[str, object]) -> ArgumentValues:
        """Put arguments by position and by name, and defaults, in order."""
        count = len(self._names)
        if len(args) > count:
            problem = f"{len(args)} arguments for {count} inputs"
            raise self.mismatch(problem, "unexpected")
        by_position = dict(enumerate(args))
        for name, argument in named.items():
            position = self._position_of(name)
            if position in by_position:
                raise self.mismatch(f"input {name!r} is given twice", "unexpected")
            by_position[position] = argument
        by_position = self._defaults | by_position
        missing = [n for i, n in enumerate(self._names) if i not in by_position]
        if missing:
            problem = f"missing inputs: {', '.join(missing)}"
            raise self.mismatch(problem, "missing", self._unpacked_call(args))
        return tuple(by_position[i] for i in range(count))

    def _unpacked_call(self, args: ArgumentValues) -> str:
        """Return a hint at the call that is meant where all arguments came as one."""
        only = args[0] if len(args) == 1 else None
        if isinstance(only, dict) and {*only} <= {*self._names}:
            return "write f(**arguments)"
        listed = isinstance(only, (list, tuple)) and len(only) == len(self._names)
        return "write f(*arguments)" if listed else ""

    def _position_of(self, name: str) -> int:
        count = self._names.count(name)
        if count == 1:
            return self._names.index(name)
        if count:
            problem, hint = f"{count} inputs are called {name!r}", "give them in order"
        else:
            close = get_close_matches(name, self._names, 1)
            problem = f"there is no input called {name!r}"
            hint = f"is {close[0]!r} meant?" if close else ""
        raise self.mismatch(problem, "unexpected", hint)

    def mismatch(self, problem: str, kind: ErrorKind, hint: str = "") -> CallError:
        """Return the error of a call that cannot be matched with the inputs."""
        inputs = ", ".join(
            f"{name}: {value.type}"
            for name, value in zip(self._names, self._inputs, strict=True)
        )
        return refused_call(problem, kind, op="call", expected=inputs, hint=hint)

    def admit(self, args: ArgumentValues) -> ArgumentValues:
        """Return the arguments in forms and dtypes that the program takes.

        Raises CallError for what is no array or number that may be cast to the dtypes
        of the inputs.
        """
        copies = self._own_copies(args)
        if copies is not None:
            return copies
        admitted, cast = list(args), False
        for i, dtype in enumerate(self.dtypes):
            argument = args[i]
            if type(argument) is not np.ndarray or argument.dtype != dtype:
                converted = admitted[i] = self._admit_one(i, argument)
                cast = cast or _differs(converted, dtype)
        if cast:
            admitted = self._cast(admitted, args)
        if self._jax is None:
            return tuple(admitted)
        jax = self._jax
        take = partial(_placed_copy, jax) if jax.config.jax_disable_jit else _own_copy
        pairs = zip(admitted, self._padded, strict=True)
        return tuple([a if padded else take(a) for a, padded in pairs])

    def _own_copies(self, args: ArgumentValues) -> ArgumentValues | None:
        """Return the arguments if arrays of NumPy need at most a copy, or else None.

        This is the most frequent case.
        """
        if self._jax is None or self._jax.config.jax_disable_jit:
            return None
        plain, copies = self.plain, []
        for a, dtype, padded in zip(args, self.dtypes, self._padded, strict=True):
            if type(a) is np.ndarray and a.dtype is dtype:
                copies.append(a if padded else copy(a))
            elif type(a) in plain:
                copies.append(a)
            else:
                return None
        return tuple(copies)

    def _cast(self, admitted: list[object], args: ArgumentValues) -> list[object]:
        """Cast the arguments to the dtypes of the inputs, where that is allowed."""
        try:
            return self._cast_checked(admitted)
        except CallError as error:
            raise self.misfit(error, args) from None

    def _admit_one(self, i: int, argument: object) -> object:
        """Return one argument in a form that the program takes, or will refuse."""
        kind = type(argument)
        if kind is int and int not in self.plain:
            return self._admit_by_table(i, argument)
        if kind in self.plain or isinstance(argument, (type, np.generic)):
            return argument
        if isinstance(argument, Value):
            hint = "pass an array, or go on building the graph"
            problem = f"is the symbolic value {argument!r}"
            raise self._refusal(i, problem, "argument", hint)
        if hasattr(argument, "aval"):
            return self._admit_jax_array(i, argument)
        return self._admit_by_table(i, argument)

    def _admit_by_table(self, i: int, argument: object) -> object:
        """Admit an argument by the table that saved models use, too."""
        try:
            converted = admitted(argument, self.dtypes[i], self._casting)
        except Refusal as refusal:
            problem, kind, hint = refusal.problem, refusal.kind, refusal.hint
            raise self._refusal(i, problem, kind, hint) from None
        if isinstance(converted, (list, tuple)) and _holds_values(converted):
            hint = "pass arrays or numbers, or go on building the graph"
            raise self._refusal(i, "holds symbolic values", "argument", hint)
        return converted

    def _admit_jax_array(self, i: int, array: Any) -> object:
        if str(array.dtype).startswith("key<") and self.dtypes[i] == np.uint32:
            words = sys.modules["jax"].random.key_data(array)
            return words if self._backend == "jax" else np.asarray(words)
        if self._backend == "jax":
            self._mixed = self._mixed or _differs(array, self.dtypes[i])
            self._note_kind(type(array))
            return array
        try:
            weak = getattr(array, "weak_type", False) and not array.shape
            return np.asarray(array).item() if weak else np.asarray(array)
        except TypeError:  # the conversion error of a tracer, or of a key
            if str(array.dtype).startswith("key<"):
                return array  # which has another dtype, as is said later
            problem = "is traced by jax.jit, jax.vmap or jax.grad: NumPy cannot take it"
            hint = 'compile with backend="jax"'
            raise self._refusal(i, problem, "traced", hint) from None

    def _note_kind(self, kind: type) -> None:
        """Let arrays of JAX pass without admission, unless some must be cast."""
        if self._mixed:
            self.plain.discard(kind)
            self.direct.discard(kind)
        else:
            self.plain.add(kind)
            if not kind.__name__.endswith("Tracer"):
                self.direct.add(kind)

    def fits(self, args: ArgumentValues, borrowed: bool = False) -> bool:
        """Whether all arguments are JAX arrays in the inputs' dtypes, or numbers.

        Numbers are of kinds that JAX distinguishes from arrays: where one has been
        taken, others of its kind are. Arrays of NumPy that are `borrowed` fit as well.
        """
        if len(args) != len(self.dtypes) or self._jax is None:
            return False
        array, tracer = self._jax.Array, self._jax.core.Tracer
        kinds = _NUMBERS | {np.ndarray} if borrowed else _NUMBERS
        return all(
            (type(a) in kinds or isinstance(a, array))
            and not isinstance(a, tracer)
            and not _differs(a, d)
            for a, d in zip(args, self.dtypes, strict=True)
        )

    @property
    def numbers(self) -> dict[str, complex]:
        """A Python number for each kind of dtype as which such numbers are passed."""
        return {"f": 0.0, "c": 0j} | ({"i": 0} if int in self.plain else {})

    def need_copies(self, args: ArgumentValues) -> bool:
        """Whether only NumPy arrays in the inputs' dtypes need admission."""
        plain, pairs = self.plain, zip(args, self.dtypes, strict=True)
        return np.ndarray in map(type, args) and all(
            a.dtype == d if type(a) is np.ndarray else type(a) in plain
            for a, d in pairs
        )

    def check(self, args: ArgumentValues) -> CallError | None:
        """Return the error of the arguments, or None if they fit."""
        try:
            self._cast_checked(args)
        except CallError as error:
            return self.misfit(error, args)
        return None

    def _cast_checked(self, args: Sequence[object]) -> list[object]:
        """Cast the arguments to the inputs' dtypes. Raises CallError of any misfit."""
        try:
            result = self._check(*args)
        except ZeroDivisionError:
            raise CallError(DIVIDED_BY_ZERO, "zero") from None
        return list(result) if len(args) > 1 else [result]

    def misfit(self, error: CallError, args: ArgumentValues) -> CallError:
        """Return the error of a program, with the arguments and the user's line."""
        hint = ZERO_HINT if error.kind == "zero" else ""
        arguments = self.text(args)
        return refused_call(error.args[0], error.kind, arguments=arguments, hint=hint)

    def _refusal(self, i: int, problem: str, kind: ErrorKind, hint: str) -> CallError:
        whole, expected = f"input {self._names[i]} {problem}", f"{self._inputs[i].type}"
        return refused_call(whole, kind, expected=expected, hint=hint)

    def text(self, args: ArgumentValues) -> str:
        """The arguments as a message shows them."""
        pairs = list(zip(self._names, args, strict=True))
        shown = [f"{shortened(n, LONGEST)}: {_argument_text(a)}" for n, a in pairs]
        more = ["..."] if len(shown) > _MOST_SHOWN else []
        return ", ".join(shown[:_MOST_SHOWN] + more)


def _own_copy(argument: object) -> object:
    """Return an argument; an array of NumPy is copied, as the caller may change it.

    Copying 20 small arrays takes 6 us; JAX's own copies, by `device_put`, take 2,000.
    """
    return copy(argument) if isinstance(argument, np.ndarray) else argument


def _placed_copy(jax: ModuleType, argument: object) -> object:
    """Copy as `_own_copy` does, but to a JAX array, where JAX does not trace."""
    if not isinstance(argument, np.ndarray):
        return argument
    with jax.enable_x64(True):  # keeps 64-bit arrays as they are
        return jax.device_put(argument.copy())


def _differs(array: object, dtype: DType) -> bool:
    """Whether an array has another dtype, and does not adapt as Python numbers do."""
    other = getattr(array, "dtype", dtype) != dtype
    return other and not getattr(array, "weak_type", False)


def _holds_values(items: object) -> bool:
    """Whether there are symbolic values in lists, nested ones included."""
    if isinstance(items, (list, tuple)):
        return any(map(_holds_values, items))
    return isinstance(items, Value)


def _argument_text(argument: object) -> str:
    shape = getattr(argument, "shape", None)
    array = isinstance(argument, np.ndarray) or hasattr(argument, "aval")
    if isinstance(shape, tuple) and (shape or array):
        return f"{getattr(argument, 'dtype', '?')}[{', '.join(map(str, shape))}]"
    if isinstance(argument, (int, float, complex, np.generic)):
        return shortened(repr(argument), 30)
    return type(argument).__name__
