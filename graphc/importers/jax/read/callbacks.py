"""The user's functions that programs call on the host, as `pure_callback` does.

A function that holds no size is the same at all sizes; it is called on arrays of their
true sizes. If traces at several sizes are combined, each call gets the functions of its
own trace, identified by number. Any other function is found by the sizes of its trace:
see `foreign`.

Callbacks with effects, such as `io_callback` and `debug.print`, take a token and return
one. So each runs after the one before it, exactly as often as the function calls it.
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
    """The functions that may be called as the same at all sizes, in reading order.

    In a trace at numbers, a function that holds sizes holds numbers. So it is judged by
    `earlier`: the verdicts on the same trace at symbols. If `whole` is set, everything
    that a function holds counts, and must be the same in each trace.
    """

    is_allowed: bool = False
    whole: bool = False
    earlier: Iterator[bool] | None = None
    verdicts: list[bool] = field(default_factory=list)

    def identity(self, function: object) -> Hashable | None:
        """A key of a function if it is the same at all sizes, else None."""
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
    """Let functions that hold no size be called here as the same at all sizes.

    `is_allowed` is false if code asks for the text of a size, since functions may then
    hold that text. `whole` is set if code asks for a size's hash: everything that
    functions hold must then be the same in each trace. Yields the verdicts on
    functions, to be passed on for the same trace at other sizes.
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
    """Call a Python function on arrays of their true sizes."""
    callback = eqn.params["callback"]
    function = _host_function(eqn, callback, _taking_arrays_of_jax(callback))
    numbers = _input_for_number(eqn, callback)
    return host_call(function, [*numbers, *inputs], [t.shape for t in eqn.results])


@PRIMITIVES.define("io_callback", sizes=("result_avals",), called="callback")
@PRIMITIVES.define("debug_callback", called="callback")
def _callback_that_acts(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """Call a Python function that has effects besides its results."""
    callback = eqn.params["callback"]
    numbers = _input_for_number(eqn, callback)
    return _call_with_effects(
        eqn, callback, _taking_arrays_of_jax(callback), [*numbers, *inputs]
    )


@PRIMITIVES.define("debug_print", called="fmt")
def _debug_print(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """Let JAX print arrays at their true sizes; there are no results."""
    primitive: Any = eqn.eqn.primitive
    params, text = dict(eqn.params), eqn.params["fmt"]

    def of_trace(number: ConcreteArray, *arrays: ConcreteArray) -> Sequence[Any]:
        of_call = params | {"fmt": text[number]}
        results: Sequence[Any] = primitive.impl(*arrays, **of_call)
        return results

    if isinstance(text, FunctionsByTrace):
        return _call_with_effects(
            eqn, text, of_trace, [*_input_for_number(eqn, text), *inputs]
        )
    shown = tuple(sorted(params.items()))
    return _call_with_effects(eqn, shown, partial(primitive.impl, **params), inputs)


def _call_with_effects(
    eqn: Equation,
    content: object,
    call: Callable[..., Sequence[Any]],
    inputs: Sequence[Value],
) -> list[Value]:
    """Call a function with effects, passing the token through it."""

    def after(token: ConcreteArray, *arrays: ConcreteArray) -> list[ConcreteArray]:
        return [token, *call(*arrays)]

    computing = _host_function(eqn, content, after)
    token = eqn.token()[0]
    function = replace(computing, dtypes=(token.dtype, *computing.dtypes), acts=True)
    shapes = [t.shape for t in (token.type, *eqn.results)]
    new, *results = host_call(function, [token, *inputs], shapes)
    eqn.set_token([new])
    return results


def _host_function(
    eqn: Equation, content: object, call: Callable[..., Sequence[Any]]
) -> HostFunction:
    """Return the function of an equation, told apart from others by its content.

    Raises Unsupported if the content may hold a size, or if the equation names a device
    or has keys.
    """
    origin, name = eqn.reader.origin, eqn.eqn.primitive.name
    identity = _identity_here(content, origin is not None and origin.sampled)
    if identity is None or origin is None:
        raise Unsupported(f"{name}: what Python does in it may depend on a size")
    if eqn.params.get("sharding") is not None or eqn.params.get("partitioned"):
        raise Unsupported(f"{name}: it says where to run")
    avals: list[Any] = [a.aval for a in (*eqn.eqn.invars, *eqn.eqn.outvars)]
    if any(is_key(aval.dtype) for aval in avals):
        raise Unsupported(f"{name}: there is no op for keys here")
    return HostFunction(name, tuple(t.dtype for t in eqn.results), identity, call)


def _input_for_number(eqn: Equation, callback: object) -> list[Value]:
    """The input that tells which trace's function to call, if traces differ in it."""
    of_trace = isinstance(callback, FunctionsByTrace)
    return [eqn.reader.fed[id(callback)]] if of_trace else []


def _identity_here(content: object, is_sampled: bool) -> Hashable | None:
    """A key of an equation's function if it is the same at all sizes, else None."""
    if isinstance(content, FunctionsByTrace):
        return content
    if is_sampled:  # other traces must hold the same
        return whole_identity(content)
    return _THREAD.sharing.identity(content)


class FunctionsByTrace:
    """The functions, or texts, at one place in several traces of a function, by number.

    A call passes the number of its function before the arrays.
    """

    aval: Any = jax.core.ShapedArray((), np.dtype("int32"))

    def __init__(self) -> None:
        self._contents: list[Any] = []

    def number_of(self, content: object) -> int:
        """Add the function of another trace and return its number."""
        self._contents.append(content)
        return len(self._contents) - 1

    def __getitem__(self, number: ConcreteArray) -> Any:
        """The function with this number."""
        return self._contents[int(number)]

    def __call__(self, number: ConcreteArray, *arrays: ConcreteArray) -> Any:
        """Call the function with this number."""
        return self[number](*arrays)


def _taking_arrays_of_jax(function: Any) -> Callable[..., Sequence[Any]]:
    """Wrap an equation's function, which expects arrays of JAX.

    Numbers in the function are as wide as where it was traced, whatever the surrounding
    program computes in. If x64 is off there, 64-bit results become 32-bit ones.
    """
    wide = is_wide()

    def called(*arrays: ConcreteArray) -> list[ConcreteArray]:
        device = jax.local_devices(backend="cpu")[0]
        with jax.default_device(device), jax.enable_x64(wide):
            results = function(*(jax.device_put(x, device) for x in arrays))
            return [*map(_as_canonical, results)]

    return called


def _as_canonical(result: object) -> ConcreteArray:
    array = np.asarray(result)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


class _Unknown(Exception):
    """Raised for an object that may hold a size."""


def whole_identity(function: object) -> Hashable | None:
    """A key of a function and all that it holds now; None if parts are unknown."""
    return _identity_if_known(function, whole=True)


def _identity_if_known(function: object, whole: bool = False) -> Hashable | None:
    try:
        return _identity(function, MOST_WITHIN, whole)
    except _Unknown:
        return None


def _identity(item: object, depth: int, whole: bool) -> Hashable:
    """A key that tells an object from others, except for changes in place.

    Objects that change in place, such as lists, count by their type alone, unless
    `whole` is set. Raises _Unknown for objects that may hold sizes.
    """
    if isinstance(item, _PLAIN):
        return type(item), repr(item)
    if isinstance(item, CodeType):
        return item
    if isinstance(item, (type, ModuleType)) or _is_named_by_module(item):
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
    """The parts that make up an object; None if they are unknown."""
    if isinstance(item, FunctionType):
        return _parts_of_function(item)
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
    if hasattr(item, "callback_func"):  # of JAX, with the structure of arguments
        return item.callback_func, str(item.in_tree)
    return None


def _parts_of_function(function: FunctionType) -> Sequence[object] | None:
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a cell is still empty
        return None
    named: Mapping[str, Any] = function.__kwdefaults__ or {}
    defaults = *(function.__defaults__ or ()), *named.values()
    return function.__code__, *cells, *defaults


def _is_named_by_module(item: object) -> bool:
    """Whether a module holds the object by name, so that no trace created it."""
    of_numpy = "numpy" * isinstance(item, np.ufunc)  # ufuncs name no module before 2.2
    module = sys.modules.get(getattr(item, "__module__", None) or of_numpy)
    name = getattr(item, "__name__", None)
    return isinstance(name, str) and getattr(module, name, None) is item
