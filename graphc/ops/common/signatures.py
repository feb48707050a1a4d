"""Signatures of public functions that wrap functions of values."""

import inspect
from collections.abc import Callable
from typing import get_args

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Value


def taking_arrays(outer: Callable[..., Value], function: Callable[..., Value]) -> None:
    """Give `outer` the signature of `function`, taking any array in place of a value.

    `outer` turns its arguments into values before it calls `function`.
    """
    signature = inspect.signature(function)
    parameters = [
        p.replace(annotation=ArrayLike) if _is_value(p.annotation) else p
        for p in signature.parameters.values()
    ]
    outer.__dict__["__signature__"] = signature.replace(parameters=parameters)


def _is_value(annotation: object) -> bool:
    return annotation is Value or Value in get_args(annotation)
