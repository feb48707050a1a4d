"""Checks inside bodies: the loop carries whether they held, and raises after it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from graphc.errors import SourceLocation, standing_at
from graphc.ir.graph.nodes import Node, Params, Value
from graphc.ir.graph.replay import rebuild_with, region_between
from graphc.ops.common.conditions import both_hold, held_like
from graphc.ops.effects.assertions import ASSERT


class BodyCheck(NamedTuple):
    """A condition that must hold whenever a body has run."""

    condition: Value
    params: Params
    place: SourceLocation


def take_out_checks(
    outputs: Sequence[Value], inputs: Sequence[Value], roots: Iterable[Node] = ()
) -> tuple[list[Value], list[BodyCheck]]:
    """The outputs without the checks that they depend on, and those checks.

    The checks are the ones between the inputs or `roots` and the outputs.
    """
    region = region_between(outputs, inputs, roots)
    if not any(node.primitive is ASSERT for node in region):
        return list(outputs), []
    replacements: dict[Value, Value] = {}
    checks = []
    for node in region:
        if node.primitive is ASSERT:
            value, condition = (replacements.get(v, v) for v in node.inputs)
            checks.append(BodyCheck(condition, node.params, node.place.plain))
            replacements[node.outputs[0]] = value
        else:
            rebuild_with(node, replacements, node.place.plain)
    return [replacements.get(v, v) for v in outputs], checks


def initial_flags(checks: Iterable[BodyCheck]) -> list[Value]:
    """The init of the flags, which says that no check has failed."""
    return [held_like(check.condition) for check in checks]


def update_flags(flags: Iterable[Value], checks: Iterable[BodyCheck]) -> list[Value]:
    """The flags after a step."""
    pairs = zip(flags, checks, strict=True)
    return [both_hold(flag, check.condition) for flag, check in pairs]


def with_checks(
    values: Iterable[Value], flags: Sequence[Value], checks: Iterable[BodyCheck]
) -> list[Value]:
    """The values, each with all the checks, since any may be the only one used."""
    checked_values = list(values)
    for flag, check in zip(flags, checks, strict=True):
        with standing_at(check.place):
            checked_values = [ASSERT(v, flag, **check.params) for v in checked_values]
    return checked_values
