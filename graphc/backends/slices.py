"""Slices of stacks, and what is made of each: the function of a place, its calls."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from graphc.backends.growing import announce
from graphc.backends.layout import indent, tuple_text
from graphc.backends.module import Module
from graphc.backends.source import PrintedBody
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Value
from graphc.transform.planning.plan import SlicesOfStacks


def slices_at_a_place(module: Module, segment: SlicesOfStacks) -> list[str]:
    """The lines of the function of a place, and of the jitted one that calls it."""
    values = (*segment.inputs, *segment.own[0])
    names = [module.value_name(v) for v in values]
    place = module.names.unique("place")
    plain = f"at_place_{segment.index}"
    parameters = ", ".join([place, *names])
    body = PrintedBody(module, "jnp", reads=False)
    _bind(body, values, names)
    _print_part(body, segment, place)
    jitted = PrintedBody(module, "jnp", reads=False)
    _bind(jitted, values, names)
    announce(jitted, segment)
    jitted.line(f"return {plain}({parameters})")
    function = f"segment_{segment.index}"
    return [
        f"def {plain}({parameters}):",
        *indent(body.lines),
        "",
        "",
        f"def {function}({parameters}):",
        *indent(jitted.lines),
        "",
        "",
        f"{function} = jax.jit({function})",
    ]


def _bind(body: PrintedBody, values: Sequence[Value], names: Sequence[str]) -> None:
    for value, name in zip(values, names, strict=True):
        body.bind(value, name)


def _print_part(body: PrintedBody, segment: SlicesOfStacks, place: str) -> None:
    """Print what is computed at the first place, and the line that returns it."""
    module = body.module
    count = len(segment.places)
    nodes = segment.nodes[: len(segment.nodes) // count]
    results = segment.outputs[: len(segment.outputs) // count]
    for value in (*segment.inputs, *segment.own[0]):
        if value.type.rank == 0 and value.node.primitive is INPUT:
            name = body.value(value)
            body.line(f'{name} = jnp.asarray({name}, "{value.dtype.name}")')
    slices = dict.fromkeys(segment.slices[: len(segment.slices) // count])
    work = [n for n in nodes if n.outputs[0] not in slices]
    used = {module.resolve(v) for n in work for v in n.inputs}
    for value in slices:
        text = f"{body.value(module.resolve(value.node.inputs[0]))}[{place}]"
        if value in used:
            name = module.value_name(value)
            body.line(f"{name} = {text}  # {module.type_text(value)}")
            text = name
        body.bind(value, text)
    for node in work:
        body.node(node)
    body.line(f"return {tuple_text([body.value(v) for v in results])}")


def at_places(
    jax: ModuleType, part: Any, segment: Any, places: Any, own: Any, *given: object
) -> object:
    """Printed into programs: the part at each place, plain ones while JAX traces.

    `own` has what each takes alone, `given` what all take.
    """
    arrays = [*given, *(array for row in own for array in row)]
    pairs = zip(places, own, strict=True)
    if any(isinstance(array, jax.core.Tracer) for array in arrays):
        return [part(place, *given, *row) for place, row in pairs]
    return [segment(np.int32(place), *given, *row) for place, row in pairs]


def call_at_places(body: PrintedBody, segment: SlicesOfStacks) -> None:
    """`parts = at_places(jax, at_place_1, segment_1, range(0, 9), ((),) * 9, a, b)`.

    `parts[0][1]` is the second value at the first place.
    """
    module, index = body.module, segment.index
    places = _places_text(segment.places)
    place_values = tuple_text([tuple_text(map(body.value, row)) for row in segment.own])
    if not segment.own[0]:
        place_values = f"((),) * {len(segment.own)}"
    parts = module.names.unique("parts")
    functions = f"at_place_{index}, segment_{index}"
    arguments = ", ".join([places, place_values, *map(body.value, segment.inputs)])
    body.line(f"{parts} = {module.helper(at_places)}(jax, {functions}, {arguments})")
    width = len(segment.outputs) // len(segment.places)
    for i, value in enumerate(segment.outputs):
        body.bind(value, f"{parts}[{i // width}][{i % width}]")


def _places_text(places: tuple[int, ...]) -> str:
    first, last = places[0], places[-1]
    if last - first + 1 == len(places):
        return f"range({first}, {last + 1})"
    return tuple_text(map(str, places))
