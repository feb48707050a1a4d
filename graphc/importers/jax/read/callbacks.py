"""`pure_callback`: functions of the user that programs call on the host.

One that holds no size is the same function at all sizes; it is called on arrays of
their true sizes. Any other is found by the sizes of its trace: see `foreign`.
"""

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np
from jax.extend.core import JaxprEqn

from graphc.importers.jax.read.jaxprs import is_key
from graphc.importers.jax.read.reader import Equation
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.nodes import Value
from graphc.ir.types import ConcreteArray
from graphc.ops.effects.host_calls import HostFunction, host_call

MOST_WITHIN = 8  # functions within functions, and structures
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.dtype, np.generic)


@dataclass
class _Sharing:
    """Which functions are called as those of all sizes, in the order of reading.

    In a trace at numbers a function that holds sizes holds numbers: it is taken as it
    was at symbols, by the `verdicts` on that trace.
    """

    is_allowed: bool = False
    earlier: Iterator[bool] | None = None
    verdicts: list[bool] = field(default_factory=list)

    def identity(self, function: object) -> Hashable | None:
        """A key of a function, where it is one for all sizes."""
        allowed = self.is_allowed and (
            self.earlier is None or next(self.earlier, False)
        )
        identity = _identity_if_known(function) if allowed else None
        self.verdicts.append(identity is not None)
        return identity


class _SharingOfThread(threading.local):
    sharing = _Sharing()


_THREAD = _SharingOfThread()


@contextmanager
def sharing(
    is_allowed: bool, verdicts: Sequence[bool] | None = None
) -> Iterator[list[bool]]:
    """Let functions that hold no size be called here as those of all sizes.

    They are not where code asks for the text or the hash of a size: it may be in what
    they hold. Gives the verdicts on functions, for the same trace at other sizes.
    """
    outer = _THREAD.sharing
    earlier_verdicts = None if verdicts is None else iter(verdicts)
    _THREAD.sharing = _Sharing(is_allowed, earlier_verdicts)
    try:
        yield _THREAD.sharing.verdicts
    finally:
        _THREAD.sharing = outer


@PRIMITIVES.define("pure_callback")
def _pure_callback(eqn: Equation, *inputs: Value) -> Sequence[Value]:
    """The results of a function of Python, on arrays of their true sizes."""
    origin, name = eqn.reader.origin, "pure_callback"
    identity = _THREAD.sharing.identity(eqn.params["callback"])
    if identity is None or origin is None or origin.sampled:
        raise Unsupported(f"{name}: it calls a function of Python")
    if eqn.params.get("sharding") is not None:
        raise Unsupported(f"{name}: it is told where to run")
    avals: list[Any] = [a.aval for a in (*eqn.eqn.invars, *eqn.eqn.outvars)]
    if any(is_key(aval.dtype) for aval in avals):
        raise Unsupported(f"{name}: of keys there is no op here")
    types = eqn.results
    function = HostFunction(
        name,
        tuple(t.dtype for t in types),
        identity,
        _on_arrays_of_jax(eqn.eqn),
    )
    return host_call(function, inputs, [t.shape for t in types])


def _on_arrays_of_jax(eqn: JaxprEqn) -> Callable[..., Sequence[Any]]:
    """The function of an equation, which JAX gives arrays of its own."""
    function: Any = eqn.params["callback"]

    def called(*arrays: ConcreteArray) -> list[ConcreteArray]:
        device = jax.local_devices(backend="cpu")[0]
        with jax.default_device(device):
            return list(function(*(jax.device_put(x, device) for x in arrays)))

    return called


class _Unknown(Exception):
    """Raised for what may hold a size."""


def _identity_if_known(function: object) -> Hashable | None:
    try:
        return _identity(function, MOST_WITHIN)
    except _Unknown:
        return None


def _identity(item: object, depth: int) -> Hashable:
    """A key of an object, as far as it can change.

    Objects that change in place, as lists, are told by their kind alone. Raises
    _Unknown for what may hold sizes.
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
    inner = tuple(_identity(part, depth - 1) for part in parts)
    return type(item), () if isinstance(item, (list, dict, set)) else inner


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
    module = sys.modules.get(getattr(item, "__module__", None) or "")
    name = getattr(item, "__name__", None)
    return isinstance(name, str) and getattr(module, name, None) is item
