"""Functions of the user that programs call on the host, as `pure_callback` does.

One that holds no size is the same function at all sizes; it is called on arrays of
their true sizes. Where traces at several sizes are put together, a call gets the
functions of its own trace, each by a number. Any other is found by the sizes of its
trace: see `foreign`.

Those that act, as `io_callback` and `debug.print`, take a token and give one: each
comes after the one before it, and once for each time that the function says so.
"""

import sys
import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import jax.core
import numpy as np

from graphc.importers.jax.read.jaxprs import is_key
from graphc.importers.jax.read.reader import Equation
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.settings import is_wide
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.nodes import Value
from graphc.ir.types import ConcreteArray
from graphc.ops.effects.host_calls import HostFunction, host_call

MOST_WITHIN = 8  # functions within functions, and structures
_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, np.dtype, np.generic),
    jax.tree_util.PyTreeDef,
)


@dataclass
class _Sharing:
    """Which functions are called as those of all sizes, in the order of reading.

    In a trace at numbers a function that holds sizes holds numbers: it is taken as it
    was at symbols, by the `verdicts` on that trace. Where the `whole` of what it holds
    counts, it must hold the same in each trace.
    """

    is_allowed: bool = False
    whole: bool = False
    earlier: Iterator[bool] | None = None
    verdicts: list[bool] = field(default_factory=list)

    def identity(self, function: object) -> Hashable | None:
        """A key of a function, where it is one for all sizes."""
        allowed = self.is_allowed and (
            self.earlier is None or next(self.earlier, False)
        )
        identity = _identity_if_known(function, self.whole) if allowed else None
        self.verdicts.append(identity is not None)
        return identity


class _SharingOfThread(threading.local):
    sharing = _Sharing()


_THREAD = _SharingOfThread()


@contextmanager
def sharing(
    is_allowed: bool, whole: bool, verdicts: Sequence[bool] | None = None
) -> Generator[list[bool]]:
    """Let functions that hold no size be called here as those of all sizes.

    They are not `allowed` to where code asks for the text of a size: it may be in what
    they hold. Where it asks for a hash, the `whole` of that must be the same in each
    trace. Gives the verdicts on functions, for the same trace at other sizes.
    """
    outer = _THREAD.sharing
    earlier_verdicts = None if verdicts is None else iter(verdicts)
    _THREAD.sharing = _Sharing(is_allowed, whole, earlier_verdicts)
    try:
        yield _THREAD.sharing.verdicts
    finally:
        _THREAD.sharing = outer


@PRIMITIVES.define("pure_callback", sizes=("result_avals",), called="callback")
def _pure_callback(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """The results of a function of Python, on arrays of their true sizes."""
    callback = eqn.params["callback"]
    function = _host_function(eqn, callback, _on_arrays_of_jax(callback))
    numbers = _number_of(eqn, callback)
    return host_call(function, [*numbers, *inputs], [t.shape for t in eqn.results])


@PRIMITIVES.define("io_callback", sizes=("result_avals",), called="callback")
@PRIMITIVES.define("debug_callback", called="callback")
def _callback_that_acts(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """The results of a function of Python that does more than compute."""
    callback = eqn.params["callback"]
    numbers = _number_of(eqn, callback)
    return _acting(eqn, callback, _on_arrays_of_jax(callback), [*numbers, *inputs])


@PRIMITIVES.define("debug_print", called="fmt")
def _debug_print(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """Nothing: arrays are printed by JAX, as they are at their true sizes."""
    primitive: Any = eqn.eqn.primitive
    params, text = dict(eqn.params), eqn.params["fmt"]

    def of_trace(number: ConcreteArray, *arrays: ConcreteArray) -> Sequence[Any]:
        of_call = params | {"fmt": text[number]}
        results: Sequence[Any] = primitive.impl(*arrays, **of_call)
        return results

    if isinstance(text, OfEachTrace):
        return _acting(eqn, text, of_trace, [*_number_of(eqn, text), *inputs])
    shown = tuple(sorted(params.items()))
    return _acting(eqn, shown, partial(primitive.impl, **params), inputs)


def _acting(
    eqn: Equation,
    content: object,
    call: Callable[..., Sequence[Any]],
    inputs: Sequence[Value],
) -> list[Value]:
    """The results of a call that has a token, which changes hands."""

    def after(token: ConcreteArray, *arrays: ConcreteArray) -> list[ConcreteArray]:
        return [token, *call(*arrays)]

    computing = _host_function(eqn, content, after)
    token = eqn.token()[0]
    function = replace(computing, dtypes=(token.dtype, *computing.dtypes), acts=True)
    shapes = [t.shape for t in (token.type, *eqn.results)]
    new, *results = host_call(function, [token, *inputs], shapes)
    eqn.go_on([new])
    return results


def _host_function(
    eqn: Equation, content: object, call: Callable[..., Sequence[Any]]
) -> HostFunction:
    """The function of an equation, told apart from others by its content.

    Raises Unsupported where that may hold a size.
    """
    origin, name = eqn.reader.origin, eqn.eqn.primitive.name
    identity = _identity_here(content, origin is not None and origin.sampled)
    if identity is None or origin is None:
        raise Unsupported(f"{name}: what Python does in it may depend on a size")
    if eqn.params.get("sharding") is not None or eqn.params.get("partitioned"):
        raise Unsupported(f"{name}: it is told where to run")
    avals: list[Any] = [a.aval for a in (*eqn.eqn.invars, *eqn.eqn.outvars)]
    if any(is_key(aval.dtype) for aval in avals):
        raise Unsupported(f"{name}: of keys there is no op here")
    return HostFunction(name, tuple(t.dtype for t in eqn.results), identity, call)


def _number_of(eqn: Equation, callback: object) -> list[Value]:
    """The number of the function of a trace, where it differs between traces."""
    of_trace = isinstance(callback, OfEachTrace)
    return [eqn.reader.fed[id(callback)]] if of_trace else []


def _identity_here(content: object, is_sampled: bool) -> Hashable | None:
    """A key of the function of an equation, where it is one for all sizes."""
    if isinstance(content, OfEachTrace):
        return content
    if is_sampled:  # other traces hold the same
        return whole_identity(content)
    return _THREAD.sharing.identity(content)


class OfEachTrace:
    """The functions, or texts, at one place in the traces of a function, by numbers.

    The number of a function is what a call has before the arrays that it takes.
    """

    aval: Any = jax.core.ShapedArray((), np.dtype("int32"))

    def __init__(self) -> None:
        self._contents: list[Any] = []

    def number_of(self, content: object) -> int:
        """A number for the function of one more trace."""
        self._contents.append(content)
        return len(self._contents) - 1

    def __getitem__(self, number: ConcreteArray) -> Any:
        """The function of a number."""
        return self._contents[int(number)]

    def __call__(self, number: ConcreteArray, *arrays: ConcreteArray) -> Any:
        """The results of a function."""
        return self[number](*arrays)


def _on_arrays_of_jax(function: Any) -> Callable[..., Sequence[Any]]:
    """The function of an equation, which JAX gives arrays of its own.

    Numbers in it are as wide as where it was traced, whatever the program around it
    computes in. Results of 64 bits are taken for those of 32 where there are no wider.
    """
    wide = is_wide()

    def called(*arrays: ConcreteArray) -> list[ConcreteArray]:
        device = jax.local_devices(backend="cpu")[0]
        with jax.default_device(device), jax.enable_x64(wide):
            results = function(*(jax.device_put(x, device) for x in arrays))
            return [*map(_canonical, results)]

    return called


def _canonical(result: object) -> ConcreteArray:
    array = np.asarray(result)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


class _Unknown(Exception):
    """Raised for what may hold a size."""


def whole_identity(function: object) -> Hashable | None:
    """A key of a function and of all that it holds now; None where that is unknown."""
    return _identity_if_known(function, whole=True)


def _identity_if_known(function: object, whole: bool = False) -> Hashable | None:
    try:
        return _identity(function, MOST_WITHIN, whole)
    except _Unknown:
        return None


def _identity(item: object, depth: int, whole: bool) -> Hashable:
    """A key of an object, as far as it can change.

    Objects that change in place, as lists, count by their kind alone, unless all of
    the `whole` counts. Raises _Unknown for what may hold sizes.
    """
    if isinstance(item, _PLAIN):
        return type(item), repr(item)
    if isinstance(item, CodeType):
        return item
    if isinstance(item, (type, ModuleType)) or _is_of_module(item):
        return id(item)
    if not depth:
        raise _Unknown
    parts = _parts(item)
    if parts is None:
        raise _Unknown
    inner = tuple(_identity(part, depth - 1, whole) for part in parts)
    changes = isinstance(item, (list, dict, set))
    return type(item), () if changes and not whole else inner


def _parts(item: Any) -> Sequence[Any] | None:
    """The parts that an object is made of; None where these are not known."""
    if isinstance(item, FunctionType):
        return _of_function(item)
    if isinstance(item, MethodType):
        return item.__func__, item.__self__
    if isinstance(item, BuiltinFunctionType):
        return item.__name__, item.__self__
    if isinstance(item, partial):
        return item.func, item.args, dict(item.keywords)
    if type(item) in (tuple, list, set, frozenset):
        return tuple(item)
    if type(item) is dict:
        return *item, *item.values()
    if hasattr(item, "callback_func"):  # of JAX, with the structure of the arguments
        return item.callback_func, str(item.in_tree)
    return None


def _of_function(function: FunctionType) -> Sequence[object] | None:
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # one is empty so far
        return None
    named: Mapping[str, Any] = function.__kwdefaults__ or {}
    defaults = *(function.__defaults__ or ()), *named.values()
    return function.__code__, *cells, *defaults


def _is_of_module(item: object) -> bool:
    """Whether a module has it by name, so that it is no part of a trace."""
    of_numpy = "numpy" * isinstance(item, np.ufunc)  # they say no module before 2.2
    module = sys.modules.get(getattr(item, "__module__", None) or of_numpy)
    name = getattr(item, "__name__", None)
    return isinstance(name, str) and getattr(module, name, None) is item
