"""The open table of conversions: from an Op of PyTensor to functions of graphc."""

from collections.abc import Callable
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

import graphc.tensor as gt
from graphc.ir.graph.nodes import Value

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

try:
    from graphc.pytensor.of_jax import OWN_MODULES, function_of, has_function, of_jax
except ImportError:
    raise ImportError(
        "graphc.pytensor needs PyTensor, which is not installed: "
        "pip install 'graphc[pytensor]'"
    ) from None

ConvertOp = Callable[..., Any]  # (op, node, *inputs) -> a value, or one per output

RULES: dict[str, ConvertOp] = {}  # by class name: in PyTensor and PyMC, modules move


class NotConverted(Exception):
    """Raised where an Op has no conversion, or none for its parameters or inputs.

    PyTensor performs such an Op, on the host.
    """


@singledispatch
def convert_op(op: "Op", node: "Apply", *inputs: Value) -> Value | list[Value]:
    """The outputs of a node of PyTensor as values; Ops of your own may be registered.

    `inputs` are values; an index may also be a slice or None, and the branches of an
    IfElse are functions. Results are cast to the dtypes that PyTensor knows, unless
    that would make complex numbers real. A rule that raises `NotConverted` leaves the
    node to PyTensor, which performs it on the host.

        @graphc.pytensor.convert_op.register(MyOp)
        def _(op, node, x):
            return gt.sin(x) * op.factor
    """
    rule = _named_rule(op)
    if rule is None and has_function(op):
        return of_jax(function_of(op, node), inputs)
    if rule is None:
        raise NotConverted(f"there is no conversion of {type(op).__name__}")
    return rule(op, node, *inputs)


def rule(*names: str) -> Callable[[ConvertOp], ConvertOp]:
    """Register a conversion for the classes of PyTensor that have these names."""

    def decorate(function: ConvertOp) -> ConvertOp:
        for name in names:
            assert name not in RULES, name
            RULES[name] = function
        return function

    return decorate


def as_stated(value: Value, dtype: str) -> Value:
    """Cast a value to the dtype that PyTensor states, but keep imaginary parts.

    PyTensor states real dtypes for some Ops whose results are complex for complex
    matrices.
    """
    if value.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        return value
    return value if value.dtype.name == dtype else gt.astype(value, dtype)


def has_conversion(op: object) -> bool:
    """Whether a conversion is registered for the class of an Op, or a base of it."""
    is_registered = convert_op.dispatch(type(op)) is not convert_op.dispatch(object)
    return is_registered or _named_rule(op) is not None or has_function(op)


def _named_rule(op: object) -> ConvertOp | None:
    """The rule for the first class that has one, among those of PyTensor and PyMC."""
    for kind in type(op).__mro__:
        if kind.__name__ in RULES and kind.__module__.startswith(OWN_MODULES):
            return RULES[kind.__name__]
    return None
