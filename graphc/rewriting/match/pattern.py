"""Patterns of nodes, with variables for values and params.

    p.sum(p.multiply(v.a, v.b), axes=v.axes)

matches a sum of a product, whatever the params that are not named. A number matches a
constant that holds it everywhere. A variable that occurs twice matches the same value
or param both times. `v.y(p.exp(v.x))` names the value that a pattern matches;
`once(...)` matches a value that nothing else uses. Commutative ops match their inputs
in either order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphc.ops  # noqa: F401  (patterns are of primitives, which join there)
from graphc.errors import graph_error
from graphc.ir.graph.build import CONSTANT, literal_of
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.namespace import misspelled
from graphc.ir.params.kinds import Param

COMMUTATIVE = {
    *("add", "multiply", "maximum", "minimum", "logaddexp", "equal", "not_equal"),
    *("logical_and", "logical_or", "logical_xor", "fmax", "fmin", "hypot"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
}
Bindings = dict[str, Any]
AllBindings = Sequence[Bindings]  # with which a pattern fits
CountUses = Callable[[Value], int]


@dataclass(frozen=True)
class Variable:
    """A name for a value, or for a param."""

    name: str

    def __call__(self, pattern: "Pattern") -> "Named":
        """Return the pattern with this name for its value."""
        return Named(self.name, pattern)

    def match(self, value: Value, bound: Bindings, uses: CountUses) -> AllBindings:
        """Return all bindings with which the variable fits a value."""
        return _bind(self.name, value, bound)


@dataclass(frozen=True)
class Apply:
    """A node of a primitive, with patterns for inputs and some of its params."""

    op: str
    inputs: tuple["Pattern", ...]
    params: dict[str, Any] = field(default_factory=dict, hash=False)
    output: int = 0

    @property
    def ops(self) -> tuple[str, ...]:
        """The name of the primitive."""
        return (self.op,)

    def match(self, value: Value, bound: Bindings, uses: CountUses) -> AllBindings:
        """Return all bindings with which the pattern fits a value."""
        node = value.node
        inputs, params = node.inputs, node.params
        if node.primitive.name != self.op or value.index != self.output:
            return ()
        for name, param in self.params.items():
            if isinstance(param, Variable):
                all_bindings = _bind(param.name, params[name], bound)
                if not all_bindings:
                    return ()
                bound = all_bindings[0]
            elif params[name] != param:
                return ()
        if len(inputs) != len(self.inputs):
            return ()
        all_bindings = _match_all(self.inputs, inputs, bound, uses)
        if self.op in COMMUTATIVE:
            return [*all_bindings, *_match_all(self.inputs, inputs[::-1], bound, uses)]
        return all_bindings


@dataclass(frozen=True)
class OneOf:
    """A node of one of the primitives `ops`, with an input of one of those `over`."""

    ops: tuple[str, ...]
    over: frozenset[str]

    def fits(self, value: Value) -> bool:
        """Whether such a node computes a value."""
        inputs = value.node.inputs
        is_over = any(x.node.primitive.name in self.over for x in inputs)
        return is_over and value.node.primitive.name in self.ops

    def match(self, value: Value, bound: Bindings, uses: CountUses) -> AllBindings:
        """Return all bindings with which the pattern fits a value."""
        return [bound] if self.fits(value) else ()


@dataclass(frozen=True)
class Named:
    """A pattern whose value has a name."""

    name: str
    pattern: "Pattern"

    def match(self, value: Value, bound: Bindings, uses: CountUses) -> AllBindings:
        """Return all bindings with which the pattern fits a value."""
        all_bindings = _match(self.pattern, value, bound, uses)
        return [
            new
            for bindings in all_bindings
            for new in _bind(self.name, value, bindings)
        ]


@dataclass(frozen=True)
class Once:
    """A pattern whose value has no other use."""

    pattern: "Pattern"

    def match(self, value: Value, bound: Bindings, uses: CountUses) -> AllBindings:
        """Return all bindings with which the pattern fits a value."""
        return _match(self.pattern, value, bound, uses) if uses(value) <= 1 else ()


Pattern = Variable | Apply | OneOf | Named | Once | int | float | bool


class Variables:
    """`v.x` is the variable x."""

    def __getattr__(self, name: str) -> Variable:
        return Variable(name)


class Ops:
    """`p.exp(...)` is a pattern of the primitive exp."""

    def __getattr__(self, name: str) -> Callable[..., Apply]:
        if name not in PRIMITIVES:
            close = misspelled(name, [*PRIMITIVES])
            raise graph_error(f"there is no primitive {name!r}{close}", op="rewrite")

        takes = PRIMITIVES[name].arguments

        def pattern(*inputs: Pattern, **params: Param) -> Apply:
            if len(inputs) != len(takes) and not any(t[0] == "*" for t in takes):
                raise graph_error(
                    f"{name} takes a different number of inputs",
                    op="rewrite",
                    got=f"a pattern with {len(inputs)}",
                    expected=f"p.{name}({', '.join(f'v.{t}' for t in takes)})",
                )
            return Apply(name, inputs, params)

        return pattern


p: Ops = Ops()
v: Variables = Variables()


def once(pattern: Pattern) -> Once:
    """Make a pattern fit only where nothing else uses its value."""
    return Once(pattern)


def one_of(ops: Sequence[str], over: Sequence[str]) -> OneOf:
    """Match any node of the primitives `ops` that has an input of one in `over`."""
    return OneOf(tuple(ops), frozenset(over))


def may_fit(pattern: Pattern, op: str, inputs: Sequence[str]) -> bool:
    """Whether a node of primitive `op`, on inputs of such primitives, may match."""
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


def matches(pattern: Pattern, value: Value, uses: CountUses) -> AllBindings:
    """Return the bindings of the variables, for each way in which the pattern fits."""
    return _match(pattern, value, {}, uses)


def _match(
    pattern: Pattern, value: Value, bound: Bindings, uses: CountUses
) -> AllBindings:
    if isinstance(pattern, (int, float)):
        return [bound] if _holds(value, pattern) else ()
    return pattern.match(value, bound, uses)


def _holds(value: Value, number: float) -> bool:
    """Whether a value is a constant of this number, everywhere."""
    array = literal_of(value)
    if array is None or not array.size:
        return False
    return bool(np.all(array == number) if array.ndim else array[()] == number)


def _bind(name: str, value: object, bound: Bindings) -> AllBindings:
    if name not in bound:
        return [bound | {name: value}]
    known = bound[name]
    same = value is known or (not isinstance(value, Value) and value == known)
    return [bound] if same else ()


def _match_all(
    patterns: Sequence[Pattern],
    values: Sequence[Value],
    bound: Bindings,
    uses: CountUses,
) -> AllBindings:
    all_bindings: AllBindings = [bound]
    for pattern, value in zip(patterns, values, strict=True):
        all_bindings = [
            new
            for bindings in all_bindings
            for new in _match(pattern, value, bindings, uses)
        ]
    return all_bindings
