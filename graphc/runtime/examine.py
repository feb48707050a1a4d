"""Inputs, outputs and defaults of `graphc.function`, examined before compiling."""

import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphc.backends.prelude import ProgramError, expect
from graphc.backends.program import Outputs
from graphc.backends.sizes import solution_text
from graphc.control.pytree import Compound, function_error, require_shallow
from graphc.errors import GraphError, graph_error, shortened, user_level
from graphc.ir.config import Casting
from graphc.ir.graph.bodies import has_bodies
from graphc.ir.graph.build import INPUT, as_strong_value, is_body_input
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import region_between
from graphc.ir.graph.walk import operands
from graphc.ir.sizes.dims import Dim, Symbol, symbols_in
from graphc.runtime.call.arrangement import Arrangement, Placing
from graphc.transform.printed_sizes import printed_in_order
from graphc.warning_kinds import UnusedInputWarning

Unused = Literal["ignore", "warn", "error"]


@dataclass(frozen=True)
class Input:
    """An input with a default: `graphc.Input(k, default=3)`.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x, k = gt.vector("x"), gt.iscalar("k")
    >>> f = graphc.function([x, graphc.Input(k, default=2)], x[:k])
    >>> print(f(np.array([5, 6, 7], "float32")))
    [5. 6.]
    """

    value: Value
    default: Any


def take_apart(
    inputs: Sequence[object] | Mapping[str, object],
) -> tuple[Sequence[object] | Mapping[str, object], Arrangement | None]:
    """Take inputs apart that stand in structures.

    Returns their variables in one list, and how they are arranged. Inputs without
    structures are returned as they are, with None.
    """
    if isinstance(inputs, (Value, Input, str, Set)) or not isinstance(inputs, Iterable):
        return inputs, None
    by_name = isinstance(inputs, Mapping)
    parts = list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    if not any(isinstance(part, (dict, list, tuple)) for part in parts):
        return (inputs if by_name else parts), None
    require_shallow(parts)
    leaves: list[Any] = []

    def walk(part: object) -> Placing:
        if isinstance(part, dict):
            return {key: walk(item) for key, item in part.items()}
        if isinstance(part, (list, tuple)):
            items = [walk(item) for item in part]
            return items if isinstance(part, list) else tuple(items)
        if isinstance(part, Input):
            problem = "an input beside structures of inputs cannot have a default"
            raise graph_error(problem, op="function", got=repr(part.value))
        leaves.append(part)
        return len(leaves) - 1

    forms = tuple(map(walk, parts))
    part_names = (p.name if isinstance(p, Value) else "" for p in parts)
    names = _text_keys("input", inputs) if by_name else tuple(part_names)
    return leaves, Arrangement(forms, names, len(leaves), by_name)


def examine(
    inputs: Sequence[object] | Mapping[str, object],
    outputs: object,
    casting: Casting,
    unused: Unused,
) -> tuple[Graph, Outputs, dict[int, object]]:
    """Return the graph from inputs to outputs, the outputs' structure, and defaults.

    Warns of inputs that do not affect the outputs, or raises GraphError, as `unused`
    says.
    """
    for part in (inputs, outputs):
        if callable(part) and not isinstance(part, Compound):
            raise function_error("function", part, "graphc.function([x], {})")
    values, input_names, defaults = _inputs(inputs, casting)
    structure, names, results = _outputs(outputs)
    graph = Graph(values, results, input_names, names)
    idle = _check_graph(graph)
    if idle and unused == "error":
        raise _unused_inputs_error(idle)
    for value, name in idle if unused == "warn" else ():
        text = f"input {name!r} ({value.node.place}) does not affect the outputs"
        warnings.warn(text, UnusedInputWarning, stacklevel=user_level())
    return graph, structure, defaults


def _inputs(
    inputs: object, casting: Casting
) -> tuple[tuple[Value, ...], tuple[str, ...], dict[int, object]]:
    """Return the input variables, their names in calls, and defaults by position."""
    if isinstance(inputs, (Value, Input, str, Set)) or not isinstance(inputs, Iterable):
        got = shortened(repr(inputs))
        expected = "a list of variables, or a dict of them by name"
        problem = "inputs must be in a list or a dict"
        raise graph_error(problem, op="function", got=got, expected=expected)
    named = isinstance(inputs, Mapping)
    declared = list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    values = tuple(x.value if isinstance(x, Input) else x for x in declared)
    before = set[Value]()
    for value in values:
        _check_input(value, before)
        before.add(value)
    names = tuple(v.name for v in values)
    if named:
        names = _text_keys("input", inputs)
    defaults = {i: x.default for i, x in enumerate(declared) if isinstance(x, Input)}
    for i, default in defaults.items():
        _check_default(default, values[i], names[i], casting)
    copies = {i: _copied_default(default) for i, default in defaults.items()}
    return values, names, copies


def _copied_default(default: object) -> object:
    """Copy a default, so that nobody else changes it; JAX's arrays never change."""
    return default if hasattr(default, "aval") else deepcopy(default)


def _check_input(value: object, before: set[Value]) -> None:
    if not isinstance(value, Value) or value.node.primitive is not INPUT:
        raise graph_error(
            "inputs must be variables",
            op="function",
            got=shortened(repr(value)),
            hint="make one with gt.tensor(name, dtype, shape)",
        )
    if value in before:
        name = value.name
        raise graph_error(
            f"input {name!r} is given twice",
            op="function",
            got=f"{value.type}, declared at {value.node.place}",
            hint="give each variable once",
        )


def _check_default(default: object, value: Value, name: str, casting: Casting) -> None:
    """Raise GraphError unless a default fits its input, as an argument must."""
    shape = tuple(n if isinstance(n, int) else str(n) for n in value.type.shape)
    if isinstance(default, Value):
        hint = "a default is a number or an array"
        problem = f"the default of {name!r} is symbolic"
        raise graph_error(problem, op="function", got=repr(default), hint=hint)
    try:
        place = str(value.node.place)
        expect(name, default, value.dtype.name, shape, place, casting)
    except ProgramError as error:
        raise graph_error(f"the default of {error.args[0]}", op="function") from None


def _text_keys(what: str, names: Iterable[object]) -> tuple[str, ...]:
    """Return the keys of a dict of inputs or outputs, which must be text."""
    keys = []
    for name in names:
        if not isinstance(name, str):
            problem = f"the keys of the {what}s must be text"
            raise graph_error(problem, op="function", got=shortened(repr(name)))
        keys.append("".join(name))  # plain text, no subclass
    return tuple(keys)


def _outputs(outputs: object) -> tuple[Outputs, tuple[str, ...], tuple[Value, ...]]:
    """Return the structure of the outputs, their names where given, and the values."""
    named_values: list[tuple[str, Value]] = []

    def walk(part: object, path: str) -> Outputs:
        if isinstance(part, Mapping):
            keys = _text_keys("output", part)
            paths = [f"{path}.{key}" if path else key for key in keys]
            parts = tuple(map(walk, part.values(), paths))
            return Outputs("dict", keys, parts)
        if isinstance(part, (list, tuple)):
            kind = "list" if isinstance(part, list) else "tuple"
            return Outputs(kind, (), tuple([walk(item, path) for item in part]))
        named_values.append((path, as_strong_value(_checked_output(part))))
        return Outputs("single")

    require_shallow(outputs)
    structure = walk(outputs, "")
    names, values = zip(*named_values, strict=True) if named_values else ((), ())
    return structure, names, values


_CONSTANTS = (Dim, int, float, complex, np.ndarray, np.generic)


def _checked_output(value: object) -> object:
    if isinstance(value, Compound):
        return value.result()
    if isinstance(value, (Value, *_CONSTANTS)):
        return value
    raise graph_error(
        "an output must be a symbolic value",
        op="function",
        got=shortened(repr(value)),
        expected="a value, or a list, tuple or dict of values",
    )


def _check_graph(graph: Graph) -> list[tuple[Value, str]]:
    """Raise GraphError if a variable or size that the outputs need is not given.

    Returns the inputs, with their names, that the outputs do not need.
    """
    nodes = graph.nodes
    input_nodes = {v.node for v in graph.inputs}
    used: set[Node] = {n for n in nodes if n.primitive is INPUT}
    for node in nodes:
        if node.primitive is INPUT and node not in input_nodes:
            raise _missing_input_error(node, nodes, graph)
    known = {s for v in graph.inputs for s in _determined_symbols(v)}
    sized = set()
    for node in nodes:
        for symbol in printed_in_order(node):
            if symbol.origin is None:
                _check_size(symbol, known, graph, node)
                sized.add(symbol)
    return [
        (value, name)
        for value, name in zip(graph.inputs, graph.input_names, strict=True)
        if value.node not in used
        and all(sized.isdisjoint(symbols_in(n)) for n in value.type.shape)
    ]


def _unused_inputs_error(inputs: list[tuple[Value, str]]) -> GraphError:
    """Return the error for inputs that do not affect the outputs."""
    names = ", ".join(repr(name) for _, name in inputs)
    one = len(inputs) == 1
    what = f"input {names} does" if one else f"inputs {names} do"
    return graph_error(
        f"{what} not affect the outputs",
        op="function",
        got="; ".join(f"{v.type}, declared at {v.node.place}" for v, _ in inputs),
        hint=f'leave {"it" if one else "them"} out, or compile with unused="ignore"',
    )


def _missing_input_error(
    variable: Node, nodes: Iterable[Node], graph: Graph
) -> GraphError:
    """Return the error for a variable that is used but not given."""
    name, value = variable.outputs[0].name, variable.outputs[0]
    users = [n for n in nodes if any(v is value for v in operands(n))]
    if is_body_input(variable):  # name a loop that reads values computed from it
        behind = region_between(graph.outputs, [value])
        users = [n for n in behind if has_bodies(n)] or users
    user = next(iter(users), variable)
    by = f"{user.primitive.name} at {user.place}"
    needed = "is an output itself" if user is variable else f"is needed by {by}"
    if is_body_input(variable):
        return graph_error(
            "a value of the body of a loop or branch is used outside of it",
            op="function",
            got=f"{name!r} of type {value.type}, of the body at {variable.place}, "
            f"{needed}",
            hint="let the body return it, as part of the carry or as an output",
        )
    if name in graph.input_names:
        first = graph.inputs[graph.input_names.index(name)]
        return graph_error(
            f"two variables are called {name!r}, and an output depends on the one that "
            "is not an input",
            op="function",
            got=f"{name!r} of type {value.type}, declared at {variable.place}, "
            f"{needed}",
            expected=f"the input {name!r} of type {first.type}, declared at "
            f"{first.node.place}",
            hint=f"make {name!r} once and use it in both places, or rename one of them",
        )
    return graph_error(
        f"an output depends on {name!r}, which is not an input",
        op="function",
        got=f"inputs {', '.join(graph.input_names) or 'none'}; {name!r} of type "
        f"{value.type}, declared at {variable.place}, {needed}",
        hint=f"add {name!r} to the inputs",
    )


def _determined_symbols(value: Value) -> list[Symbol]:
    """Return the symbols that follow from the shape of this one argument."""
    alone = [n for n in value.type.shape if isinstance(n, Dim) and len(n.symbols) == 1]
    return [
        n.symbols[0]
        for n in alone
        if n.is_symbol or solution_text(n, n.symbols[0], "size")
    ]


def _check_size(symbol: Symbol, known: set[Symbol], graph: Graph, node: Node) -> None:
    if symbol in known:
        return
    name = symbol.name
    formulas = [
        f"axis {axis} of {input_name} is {size}"
        for value, input_name in zip(graph.inputs, graph.input_names, strict=True)
        for axis, size in enumerate(value.type.shape)
        if isinstance(size, Dim) and symbol in size.symbols
    ]
    if formulas:
        problem = f"the size {name} cannot be worked out from the inputs"
    else:
        problem = f"the size {name} is not that of any axis of the inputs"
    types = [str(v.type) for v in graph.inputs]
    # The line of a literal may be one of another program that shares the literal.
    at = "" if node.primitive.inline else f", for {node.reported} at {node.place}"
    raise graph_error(
        problem,
        op="function",
        got="; ".join(formulas) or f"inputs {', '.join(types) or 'none'}",
        expected=f"{name}{at}",
        hint=f"add a variable with an axis {name} to the inputs",
    )
