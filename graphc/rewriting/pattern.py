"""Patterns of nodes, with variables for values and params.

    p.sum(p.multiply(v.a, v.b), axes=v.axes)

matches a sum of a product, whatever the params that are not named. A number matches a
constant that holds it everywhere; a variable that occurs twice, the same value or
param. `v.y(p.exp(v.x))` names the value that a pattern matches; `once(...)` matches a
value that nothing else uses. Commutative ops match their inputs in either order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphc.ops  # noqa: F401  (patterns are of primitives, which join there)
from graphc.errors import graph_error
from graphc.ir.build import CONSTANT, literal_of
from graphc.ir.graph import Value
from graphc.ir.op import PRIMITIVES

COMMUTATIVE = {
    *("add", "multiply", "maximum", "minimum", "logaddexp", "equal", "not_equal"),
    *("logical_and", "logical_or", "logical_xor", "fmax", "fmin", "hypot"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
}
Bindings = dict[str, Any]
CountUses = Callable[[Value], int]


@dataclass(frozen=True)
class Variable:
    """A name for a value, or for a param."""

    name: str

    def __call__(self, pattern: "Pattern") -> "Named":
        """The pattern, whose value has this name."""
        return Named(self.name, pattern)


@dataclass(frozen=True)
class Apply:
    """A node of a primitive, with patterns for inputs and some of its params."""

    op: str
    inputs: tuple["Pattern", ...]
    params: dict[str, Any] = field(default_factory=dict, hash=False)
    output: int = 0

    @property
    def ops(self) -> tuple[str, ...]:
        """The primitive."""
        return (self.op,)


@dataclass(frozen=True)
class OneOf:
    """A node of one of several primitives, an input of which is of some others."""

    ops: tuple[str, ...]
    over: frozenset[str]

    def fits(self, value: Value) -> bool:
        """Whether a value is of such a node."""
        inputs = value.node.inputs
        found = any(x.node.primitive.name in self.over for x in inputs)
        return found and value.node.primitive.name in self.ops


@dataclass(frozen=True)
class Named:
    """A pattern whose value has a name."""

    name: str
    pattern: "Pattern"


@dataclass(frozen=True)
class Once:
    """A pattern whose value has no other use."""

    pattern: "Pattern"


Pattern = Variable | Apply | OneOf | Named | Once | int | float | bool


class Variables:
    """`v.x` is the variable x."""

    def __getattr__(self, name: str) -> Variable:
        return Variable(name)


class Ops:
    """`p.exp(...)` is a pattern of the primitive exp."""

    def __getattr__(self, name: str) -> Callable[..., Apply]:
        if name not in PRIMITIVES:
            raise graph_error(f"there is no primitive {name!r}", op="rewrite")

        def pattern(*inputs: Pattern, **params: Any) -> Apply:
            return Apply(name, inputs, params)

        return pattern


p, v = Ops(), Variables()


def once(pattern: Pattern) -> Once:
    """The pattern, where nothing else uses its value."""
    return Once(pattern)


def one_of(ops: Sequence[str], over: Sequence[str]) -> OneOf:
    """Any node of these primitives that has an input of those that it stands over."""
    return OneOf(tuple(ops), frozenset(over))


def may_fit(pattern: Pattern, op: str, inputs: Sequence[str]) -> bool:
    """Whether a node of a primitive, on inputs of such primitives, may match."""
    match pattern:
        case Named(_, inner) | Once(inner):
            return may_fit(inner, op, inputs)
        case OneOf(ops, over):
            return op in ops and not over.isdisjoint(inputs)
        case Apply():
            return op == pattern.op and _may_fit_inputs(pattern, inputs)
        case _:
            return _may_be_of(pattern, op)


def _may_fit_inputs(pattern: Apply, inputs: Sequence[str]) -> bool:
    if len(inputs) != len(pattern.inputs):
        return False
    orders = [inputs, inputs[::-1]] if pattern.op in COMMUTATIVE else [inputs]
    return any(all(map(_may_be_of, pattern.inputs, order)) for order in orders)


def _may_be_of(pattern: Pattern, op: str) -> bool:
    """Whether a value of a primitive may match, whatever its inputs."""
    match pattern:
        case Variable():
            return True
        case Named(_, inner) | Once(inner):
            return _may_be_of(inner, op)
        case Apply() | OneOf():
            return op in pattern.ops
        case _:
            return op == CONSTANT.name


def matches(pattern: Pattern, value: Value, uses: CountUses) -> Iterator[Bindings]:
    """The bindings of the variables, for each way in which the pattern fits."""
    return _match(pattern, value, {}, uses)


def _match(
    pattern: Pattern, value: Value, bound: Bindings, uses: CountUses
) -> Iterator[Bindings]:
    match pattern:
        case Variable(name):
            yield from _bind(name, value, bound)
        case Named(name, inner):
            for found in _match(inner, value, bound, uses):
                yield from _bind(name, value, found)
        case Once(inner):
            if uses(value) <= 1:
                yield from _match(inner, value, bound, uses)
        case Apply():
            yield from _match_node(pattern, value, bound, uses)
        case OneOf():
            yield from [bound] * pattern.fits(value)
        case _:
            array = literal_of(value)
            if array is not None and array.size and np.all(array == pattern):
                yield bound


def _bind(name: str, found: Any, bound: Bindings) -> Iterator[Bindings]:
    if name not in bound:
        yield bound | {name: found}
        return
    known = bound[name]
    if found is known or (not isinstance(found, Value) and found == known):
        yield bound


def _match_node(
    pattern: Apply, value: Value, bound: Bindings, uses: CountUses
) -> Iterator[Bindings]:
    node = value.node
    if node.primitive.name != pattern.op or value.index != pattern.output:
        return
    for name, wanted in pattern.params.items():
        found = node.params[name]
        if isinstance(wanted, Variable):
            rest = next(_bind(wanted.name, found, bound), None)
            if rest is None:
                return
            bound = rest
        elif found != wanted:
            return
    if len(node.inputs) != len(pattern.inputs):
        return
    yield from _match_all(pattern.inputs, node.inputs, bound, uses)
    if pattern.op in COMMUTATIVE:
        yield from _match_all(pattern.inputs, node.inputs[::-1], bound, uses)


def _match_all(
    patterns: Sequence[Pattern],
    values: Sequence[Value],
    bound: Bindings,
    uses: CountUses,
) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in _match(patterns[0], values[0], bound, uses):
        yield from _match_all(patterns[1:], values[1:], found, uses)
