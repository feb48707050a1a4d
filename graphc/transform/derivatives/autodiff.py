"""Reverse-mode differentiation: one sweep over the nodes, from outputs to inputs.

The gradient is a graph like any other. Each primitive has its rule (see
`Primitive.vjp`); this module holds the parts that all rules share: the active nodes,
sums of cotangents, undone broadcasts, and masks for derivatives of branches not taken.
(Griewank and Walther, Evaluating Derivatives, 2nd ed., ch. 3.)

Complex numbers follow JAX: the gradient of a real cost in z = x + iy is
d/dx - i d/dy, the transpose of the derivative without a conjugate.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.errors import GraphError, graph_error, standing_at
from graphc.ir.graph.build import literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import GRADIENTS
from graphc.ir.graph.walk import ancestors, inputs_of
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import NDArray, is_inexact
from graphc.ops.common.broadcasting import any_to, summed_to
from graphc.transform.derivatives.recomputed_values import inputs_of_rule, stored_once

_MOST_NAMED = 12  # ops of a path that a message names


@dataclass(frozen=True, slots=True)
class _Cotangent:
    """The derivative of the result in each element of a value.

    Where `mask` is given and false, the derivative counts as 0, however large the next
    derivatives are: an inf or NaN there belongs to a branch not taken.
    """

    value: Value
    mask: Value | None = None


def pull(
    outputs: Sequence[Value], cotangents: Sequence[Value | None], wrt: Sequence[Value]
) -> list[Value | None]:
    """Return the cotangents of `wrt`, given those of `outputs`; None without a path.

    Values of `wrt` may stand inside the graph, also upstream of each other: each gets
    the total derivative. Raises GraphError where the path leads through an op without a
    gradient, and names both.
    """
    nodes, active = _find_active(outputs, wrt)
    sweep = _Sweep(active)
    for output, g in zip(outputs, cotangents, strict=True):
        if g is not None and output in active:
            sweep.add(output, _Cotangent(g))
    for node in reversed(nodes):
        sweep.visit(node, outputs)
    return [sweep.total(v) for v in wrt]


def zeros_for_missing(
    cotangents: Iterable[Value | None], values: Iterable[Value]
) -> list[Value]:
    """The cotangents of values, with zeros in place of missing ones."""
    pairs = zip(cotangents, values, strict=True)
    return [F.zeros_like(v) if g is None else g for g, v in pairs]


def _find_active(
    outputs: Sequence[Value], wrt: Sequence[Value]
) -> tuple[list[Node], set[Value]]:
    """Return the nodes and values through which `outputs` depend smoothly on `wrt`."""
    active = {v for v in wrt if is_inexact(v.dtype)}
    nodes = []
    for node in ancestors(outputs, inputs_of):
        if any(v in active for v in node.inputs):
            smooth = [v for v in node.outputs if is_inexact(v.dtype)]
            active.update(smooth)
            if smooth:
                nodes.append(node)
    return nodes, active


class _Sweep:
    """The cotangents found so far."""

    def __init__(self, active: set[Value]) -> None:
        self._active = active
        self._cotangents: dict[Value, _Cotangent] = {}

    def total(self, value: Value) -> Value | None:
        """Return the cotangent of a value whose uses are all visited; None for zero."""
        cotangent = self._cotangents.get(value)
        return None if cotangent is None else cotangent.value

    def add(self, value: Value, cotangent: _Cotangent) -> None:
        """Add the cotangent of one more use of a value."""
        so_far = self._cotangents.get(value)
        if so_far is not None:
            mask = None
            if so_far.mask is not None and cotangent.mask is not None:
                mask = F.logical_or(so_far.mask, cotangent.mask)
            cotangent = _Cotangent(_sum(so_far.value, cotangent.value), mask)
        self._cotangents[value] = cotangent

    def visit(self, node: Node, outputs: Sequence[Value]) -> None:
        """Propagate the cotangents of a node's outputs to its inputs."""
        cotangents = [self._cotangents.get(v) for v in node.outputs]
        if all(g is None for g in cotangents):
            return
        with standing_at(node.place.plain):
            rule = GRADIENTS.find(node.primitive)
            reason = self._refusal(node)
            if reason or rule is None:
                raise _missing_rule(node, outputs, reason)
            g = tuple([None if c is None else c.value for c in cotangents])
            params = dict(node.params)
            if node.primitive.selective:
                params["needed"] = [v in self._active for v in node.inputs]
            contributions = rule(
                g[0] if len(g) == 1 else g, *inputs_of_rule(node), **params
            )
            for i, (value, d) in enumerate(
                zip(node.inputs, contributions, strict=True)
            ):
                if d is not None and value in self._active:
                    self.add(value, _fitted_cotangent(node, i, d, cotangents[0]))

    def _refusal(self, node: Node) -> str:
        """Return the reason why no gradient passes through a node; "" if one does."""
        primitive = node.primitive
        for name, reason in primitive.no_gradient_for.items():
            if node.inputs[primitive.arguments.index(name)] in self._active:
                return f"in {name}: {reason}"
        return "" if primitive in GRADIENTS else GRADIENTS.reason(primitive)


def _fitted_cotangent(
    node: Node, index: int, d: Value, output_cotangent: _Cotangent | None
) -> _Cotangent:
    """Fit a rule's cotangent to the input's type, masked where it does not count."""
    value = node.inputs[index]
    mask = _mask(node, index, output_cotangent)
    if mask is not None and _may_spoil(node, d):
        d = F.where(mask, d, F.zeros_like(d))
    if node.primitive.elementwise and d.type.shape is not value.type.shape:
        d = summed_to(d, value.type.shape)
        mask = None if mask is None else any_to(mask, value.type.shape)
    if d.dtype != value.dtype:
        d = _real_part(d, value)
    if not d.type.may_equal(value.type):
        raise AssertionError(f"{node.primitive.name}: {d.type} for {value.type}")
    return _Cotangent(d, mask)


def _real_part(d: Value, value: Value) -> Value:
    """Return the real part of a cotangent that became complex, if the value is real."""
    if d.dtype.kind == "c" and value.dtype.kind != "c":
        return F.astype(F.real(d), value.dtype)
    return d


def _mask(node: Node, index: int, output_cotangent: _Cotangent | None) -> Value | None:
    """Return where the cotangent of an input counts; None for everywhere."""
    primitive = node.primitive
    above = None if output_cotangent is None else output_cotangent.mask
    if primitive.elementwise:
        if not primitive.chooses:
            return above
        chosen = _where_chosen(node, index)
        if chosen is None or above is None:
            return above if chosen is None else chosen
        return F.logical_and(above, chosen)
    if above is None or not primitive.linear or len(node.outputs) != 1:
        return None
    # Such an op moves elements or adds them up: applied to masks it does the same.
    ones = F.astype(above, node.outputs[0].dtype)
    moved = GRADIENTS.rules[primitive](ones, *node.inputs, **node.params)[index]
    return None if moved is None else F.not_equal(moved, 0)


def _where_chosen(node: Node, index: int) -> Value | None:
    """Return where `where` takes this branch, in the shape of its output."""
    condition = F.broadcast_to(stored_once(node.inputs[0]), node.outputs[0].type.shape)
    return condition if index == 1 else F.logical_not(condition)


def _may_spoil(node: Node, d: Value) -> bool:
    """Whether a cotangent is a product with factors that may be inf or NaN."""
    if node.primitive.linear or not node.primitive.elementwise:
        return False
    op = d.node.primitive
    if op not in (OP.multiply, OP.true_divide):
        return True
    first, second = (literal_of(v) for v in d.node.inputs)
    if op is OP.true_divide:
        return not _is_plain(second) or not np.all(second)
    return not (_is_plain(first) or _is_plain(second))


def _is_plain(literal: NDArray | None) -> bool:
    return literal is not None and bool(np.isfinite(literal).all())


def _sum(a: Value, b: Value) -> Value:
    """Add two values; a scatter-add onto zeros is done onto the other value instead."""
    for x, y in ((a, b), (b, a)):
        writes = _scatters_onto_zeros(y)
        if writes:
            for node in writes:
                x = node.primitive(x, *node.inputs[1:], **node.params)
            return x
    return F.add(a, b)


def _scatters_onto_zeros(value: Value) -> list[Node]:
    """Return the scatter-adds onto zeros that make a value; none for other forms."""
    scatters = []
    node = value.node
    while node.primitive in (OP.scatter, OP.slice_update):
        if node.params["how"] != "add":
            return []
        scatters.append(node)
        node = node.inputs[0].node
    fill = literal_of(node.inputs[0]) if node.primitive is OP.full else None
    return scatters[::-1] if fill is not None and not fill.any() else []


def _missing_rule(node: Node, outputs: Sequence[Value], reason: str) -> GraphError:
    return graph_error(
        f"there is no gradient through {node.primitive.name}: {reason}",
        op="grad",
        got=f"a path {path_text(path_between(outputs, node))}",
        hint="use graphc.stop_gradient where it should count as a constant, or give "
        "your own rule with graphc.custom_vjp",
        where=node.place,
    )


def path_between(outputs: Iterable[Value], target: Node) -> list[Node]:
    """Return the nodes of a shortest path from an output to `target`, both included."""
    via: dict[Node, Node | None] = {v.node: None for v in outputs}
    queue = list(via)
    for node in queue:
        if node is target:
            break
        for value in node.inputs:
            if value.node not in via:
                via[value.node] = node
                queue.append(value.node)
    path: list[Node] = []
    at: Node | None = target
    while at is not None:
        path.append(at)
        at = via.get(at)
    return path[::-1]


def path_text(path: Sequence[Node]) -> str:
    """Write a path as ops with their lines, without the middle of a long one."""
    texts = [f"{n.primitive.name} ({n.place})" for n in path]
    if len(texts) > _MOST_NAMED:
        half = _MOST_NAMED // 2
        left_out = f"... {len(texts) - 2 * half} more ..."
        texts = [*texts[:half], left_out, *texts[-half:]]
    return " <- ".join(texts)
