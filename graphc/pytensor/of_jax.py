"""Ops that are functions of JAX: `wrap_jax`, and registrations of `jax_funcify`."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytensor.configdefaults import config

from graphc.control.carries import variable_like
from graphc.errors import GraphError, graph_error
from graphc.ir.forks import fork_error, jax_is_lost
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.replay import rebuilt

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

_DISPATCH = "pytensor.link.jax.dispatch.basic"
OWN_MODULES = ("pytensor.", "pymc.")  # prefixes of modules whose Ops are known by name


def of_jax(function: Callable[..., object], inputs: Sequence[Value]) -> list[Value]:
    """The results of a function of JAX. Raises GraphError where it cannot be traced.

    Floats have the width in which PyTensor would compute them.
    """
    jax, importers = import_module("jax"), import_module("graphc.importers.jax")
    if jax_is_lost():
        raise fork_error("JAXOp")
    variables, wide = [variable_like(v) for v in inputs], config.floatX == "float64"
    try:
        with jax.enable_x64(wide or jax.config.jax_enable_x64):
            outputs = list(importers.from_jax(function, *variables).outputs)
    except GraphError:
        raise
    except Exception as error:  # raised by the user's function, or by JAX
        problem = f"JAX cannot trace it for all sizes: {type(error).__name__}: {error}"
        raise graph_error(problem, op="JAXOp") from error
    places = dict(zip(variables, inputs, strict=True))
    return rebuilt(outputs, places)


def has_function(op: object) -> bool:
    """Whether a user has registered their own Op for PyTensor's mode "JAX"."""
    table = getattr(sys.modules.get(_DISPATCH), "jax_funcify", None)
    if table is None or type(op).__module__.startswith(OWN_MODULES):
        return False
    return bool(table.dispatch(type(op)) is not table.dispatch(object))


def function_of(op: "Op", node: "Apply") -> Callable[..., object]:
    """The function that PyTensor's mode "JAX" runs for a node."""
    function: Callable[..., Any] = sys.modules[_DISPATCH].jax_funcify(op, node=node)
    return function
