"""Slices of stacks: the function of a place, and its calls."""

from typing import Any

import numpy as np

from graphc.backends.growing import announce
from graphc.backends.layout import indent, tuple_text
from graphc.backends.module import Module
from graphc.backends.source import PrintedBody
from graphc.transform.plan import SlicesOfStacks


def slices_at_a_place(module: Module, segment: SlicesOfStacks) -> list[str]:
    """The lines of the jitted function: `return a[place], b[place]`."""
    names = [module.value_name(v) for v in segment.inputs]
    place = module.names.unique("place")
    body = PrintedBody(module, "jnp", reads=False)
    for value, name in zip(segment.inputs, names, strict=True):
        body.bind(value, name)
    announce(body, segment)
    body.line(f"return {tuple_text([f'{name}[{place}]' for name in names])}")
    function = f"segment_{segment.index}"
    return [
        f"def {function}({', '.join([place, *names])}):",
        *indent(body.lines),
        "",
        "",
        f"{function} = jax.jit({function})",
    ]


def at_places(jax: Any, segment: Any, places: Any, *stacks: Any) -> Any:
    """Printed into programs: the slices at each place, plain ones while JAX traces."""
    if any(isinstance(stack, jax.core.Tracer) for stack in stacks):
        return [[stack[place] for stack in stacks] for place in places]
    return [segment(np.int32(place), *stacks) for place in places]


def call_at_places(body: PrintedBody, segment: SlicesOfStacks) -> None:
    """`parts = at_places(jax, segment_1, range(0, 9), a, b)`; `parts[0][1]` is of b."""
    module = body.module
    stacks = ", ".join([body.value(v) for v in segment.inputs])
    places = _places_text(segment.places)
    parts = module.names.unique("parts")
    given = f"jax, segment_{segment.index}, {places}, {stacks}"
    body.line(f"{parts} = {module.helper(at_places)}({given})")
    width = len(segment.inputs)
    for i, value in enumerate(segment.outputs):
        body.bind(value, f"{parts}[{i // width}][{i % width}]")


def _places_text(places: tuple[int, ...]) -> str:
    first, last = places[0], places[-1]
    if last - first + 1 == len(places):
        return f"range({first}, {last + 1})"
    return tuple_text(map(str, places))
