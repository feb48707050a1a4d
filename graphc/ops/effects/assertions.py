"""Checks that belong to a value and are made when the function runs."""

import builtins
from collections.abc import Callable
from string import Formatter
from typing import Any

from graphc.errors import CallError, ErrorKind, graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_size, as_strong_value, as_value
from graphc.ir.graph.nodes import Value, known_sizes
from graphc.ir.graph.op import (
    Array,
    Printing,
    op,
    require_at_most,
    type_error,
    views_of_inputs,
)
from graphc.ir.namespace import F, enroll, public
from graphc.ir.params.kinds import Param, Text
from graphc.ir.sizes.dims import Size, equal, less_equal
from graphc.ir.types import BOOL, ConcreteArray, TensorType
from graphc.ops.common.batching import Batched, with_batch
from graphc.ops.common.conditions import first_failure, is_reporting
from graphc.ops.common.padding import PaddedValue, Padding

EXCEPTIONS: dict[str, type[Exception]] = {  # those that checks may raise, by name
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}


@op()
def _assert_(
    x: Array, condition: Array, *, message: Text, kind: ErrorKind, error: Text
) -> TensorType:
    """`x`, provided that `condition` holds; else `error` is raised, or CallError.

    The condition is a bool, or a vector made by `telling` whose numbers the message
    shows.
    """
    if not is_reporting(condition.type) and (
        condition.dtype != BOOL or condition.type.rank
    ):
        raise type_error("the condition must be a bool scalar")
    if error.content and error.content not in EXCEPTIONS:
        problem = f"there is no exception class {error.content!r} here"
        hint = "name the class in a check in this process first"
        raise type_error(problem, hint=hint)
    return x.type.like()


_assert_.rounding = "none"
_assert_.emit("{x}")
ASSERT = _assert_
_assert_.passes_on = True
_assert_.checks = True
_assert_.linear = True


@_assert_.vjp
def _(
    g: Value, x: Value, condition: Value, **params: Param
) -> tuple[Value | None, ...]:
    """Check the derivative too: where the condition fails, there is none."""
    return _assert_(g, condition, **params), None


@_assert_.batch
def _(n: Size, batched: Batched, x: Value, condition: Value, **params: Param) -> Value:
    test = first_failure(condition) if batched[1] else condition
    return _assert_(with_batch(n, batched[0], x), test, **params)


@_assert_.padding
def _(
    pad: Padding, x: PaddedValue, condition: PaddedValue, **params: Param
) -> PaddedValue:
    return pad.result(_assert_(x.value, condition.value, **params), x.fill)


def asserted(value: Value, condition: Value, message: str, kind: ErrorKind) -> Value:
    """`value`, provided that `condition` holds; else raises a CallError of `kind`."""
    texts = {"message": Text(message), "error": Text("")}
    checked_value: Value = _assert_(value, condition, kind=kind, **texts)
    return checked_value


enroll(asserted, "_assert")


@public(name="assert_")
def assert_(
    condition: ArrayLike,
    message: str,
    value: ArrayLike,
    error: type[Exception] = CallError,
) -> Value:
    """`value`, provided that all of `condition` holds; else the call raises.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.scalar("x")
    >>> y = gt.sqrt(gt.assert_(x >= 0, "x is negative", x, ArithmeticError))
    >>> try:
    ...     graphc.function([x], y, backend="numpy")(-1.0)
    ... except ArithmeticError as error:
    ...     print(error)
    x is negative

    The call raises `CallError` with the message, the user's line and the arguments, or
    an exception of the class `error` with the message alone, whose cause is that
    CallError. The check belongs to `value`: it is made whenever `value` is needed. It
    is not dropped under jit: its flag is read where its segment ends.
    """
    text = str(message)
    name = "" if error is CallError else _exception_name(error, text)
    x, test = as_strong_value(value), all_of(as_value(condition))
    known = known_sizes(test)
    holds: Any = 0 if known is None else known[()]
    if equal(holds, 1) is True:
        return x  # it holds whatever the sizes are
    texts = {"message": Text(text), "error": Text(name)}
    checked_value: Value = _assert_(x, test, kind="check", **texts)
    return checked_value


def all_of(condition: Value) -> Value:
    """Whether a condition holds everywhere; a bool scalar is returned as it is."""
    of_one = not condition.type.rank and condition.dtype == BOOL
    return condition if of_one else F.all(condition)


def _exception_name(error: object, message: str) -> str:
    """The name under which an exception class is found when the check fails.

    Raises GraphError if the class cannot be raised with a message alone.
    """
    if not isinstance(error, type) or not issubclass(error, Exception):
        expected = "an exception class, such as ValueError"
        problem = "the error to raise is not an exception class"
        raise graph_error(problem, op="assert_", got=repr(error), expected=expected)
    try:
        error(message)
    except Exception as failure:
        problem = f"{error.__name__} cannot be made from a message alone"
        raise graph_error(problem, op="assert_", got=str(failure)) from None
    inside = "" if error.__module__ == "builtins" else f"{error.__module__}."
    base = name = f"{inside}{error.__qualname__}"
    number = 1
    while EXCEPTIONS.setdefault(name, error) is not error:  # taken by another class
        number += 1
        name = f"{base}_{number}"
    return name


@op()
def _at_most_(
    x: Array, *, low: Size, high: Size, reason: Text, asking: Text, kind: ErrorKind
) -> TensorType:
    """`x`, provided that `low <= high`; `asking` is the op that requires it."""
    require_at_most(low, high, reason.content, kind)
    return x.type.like()


_at_most_.emit("{x}")
_at_most_.views = views_of_inputs
_at_most_.linear = True
_at_most_.vjp(lambda g, x, **params: (g,))
_at_most_.batch(lambda n, batched, x, **params: _at_most_(x, **params))


@_at_most_.padding
def _(pad: Padding, x: PaddedValue, **params: Param) -> PaddedValue:
    return pad.result(x.value, x.fill)  # the guard is checked before


def at_most(
    low: ArrayLike,
    high: ArrayLike,
    reason: str,
    value: Value,
    asking: str,
    kind: ErrorKind = "shape",
) -> Value:
    """`value`, provided that `low <= high`: proved, refuted (raises) or a guard.

    `asking` is the op that messages name, and `kind` the kind of the error.
    """
    a, b = as_size(low), as_size(high)
    if less_equal(a, b) is True:
        return value
    texts = {"reason": Text(reason), "asking": Text(asking)}
    return _at_most_(value, low=a, high=b, kind=kind, **texts)


enroll(at_most, "_at_most")


@op()
def _debug_print(x: Array, *, text: Text) -> TensorType:
    """`x`, printed when it is computed."""
    return x.type.like()


def shown(x: ConcreteArray, text: str, show: Callable[..., object]) -> object:
    """Printed into programs: show `x`, and return it."""
    show(text, x)
    return x


def _print_debug(p: Printing) -> str:
    show, text = "jax.debug.print", p.node.params["text"]
    if p.xp == "np":
        show = "lambda text, x: print(text.format(x))"
    elif not _has_places(text):  # then JAX refuses the value
        show = "lambda text, x: jax.debug.callback(lambda: print(text.format()))"
    return p.call(shown, p.inputs[0], p.code(text), show)


def _has_places(text: Text) -> bool:
    """Whether a text has a place for a value; if it is malformed, calls fail."""
    try:
        parts = list(Formatter().parse(text.content))
    except ValueError:
        return True
    return any(name is not None for _, name, _, _ in parts)


_debug_print.emit(_print_debug)
_debug_print.views = views_of_inputs
_debug_print.linear = True
_debug_print.vjp(lambda g, x, *, text: (g,))
_debug_print.batch(lambda n, batched, x, *, text: _debug_print(x, text=text))
_debug_print.no_padding("it shows arrays without padding")


@public()
def debug_print(text: str, value: ArrayLike) -> Value:
    """`value`, which is printed by `text.format(value)` whenever it is computed.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.scalar("x")
    >>> y = gt.debug_print("x is {}", x) * 2
    >>> print(graphc.function([x], y, backend="numpy")(3.0))
    x is 3.0
    6.0
    """
    return _debug_print(as_strong_value(value), text=Text(text))
