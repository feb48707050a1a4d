"""Ops with graphs inside: branches, batches, checks and subgraphs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import graphc.tensor as gt
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import equal
from graphc.pytensor.arrays import gradient_of_padding
from graphc.pytensor.convert import convert_graph, convert_node
from graphc.pytensor.of_jax import of_jax
from graphc.pytensor.registry import rule
from graphc.transform.derivatives.vectorize import vmap

if TYPE_CHECKING:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op


@rule("OpFromGraph")
def _(op: "Op", node: "Apply", *inputs: Value) -> list[Value]:
    """Convert the inner graph, unless it is a gradient that ours takes better."""
    gradient = gradient_of_padding(node, inputs)
    if gradient is not None:
        return [gradient]
    return convert_graph(op.fgraph.outputs, op.fgraph.inputs, inputs)


Results = Callable[[], list[Value]]


@rule("IfElse")
def _(
    op: "Op", node: "Apply", condition: Value, taken: Results, other: Results
) -> list[Value]:
    """Convert to branches that are functions, which compute what only they need."""
    return list(gt.cond(gt.astype(condition, "bool"), taken, other))


@rule("LazyIfElse")
def _(op: "Op", node: "Apply", condition: Value, *values: Value) -> list[Value]:
    def branch(inner: "Op") -> Callable[[], object]:
        graph = inner.fgraph
        return lambda: convert_graph(graph.outputs, graph.inputs, values)

    test = gt.astype(condition, "bool")
    return list(gt.cond(test, branch(op.true_branch), branch(op.false_branch)))


@rule("JAXOp")
def _(op: "Op", node: "Apply", *inputs: Value) -> list[Value]:
    return of_jax(op.jax_func, inputs)


@rule("CheckAndRaise")
def _(op: "Op", node: "Apply", value: Value, *conditions: Value) -> Value:
    for condition in conditions:
        test = gt.astype(condition, "bool")
        value = gt.assert_(test, op.msg, value, op.exc_type)
    return value


@rule("Blockwise")
def _(op: "Op", node: "Apply", *inputs: Value) -> list[Value]:
    """Convert the core Op, and map it over the batch axes whose elements differ."""
    ranks = [len(core) for core in op.inputs_sig]
    batch = node.outputs[0].type.ndim - len(op.outputs_sig[0])
    core = core_node(op, node, ranks)

    def mapped(axis: int, values: Sequence[Value]) -> list[Value]:
        """Map over the batch axes from `axis` on, now the first axes of `values`."""
        if axis == batch:
            return convert_node(core, list(values))
        alike = [_has_equal_elements(v) for v in values]
        remaining = [v[0] if one else v for v, one in zip(values, alike, strict=True)]
        if all(alike):
            sizes = [
                v.shape[0] for v in values if equal(v.type.shape[0], 1) is not True
            ]
            results = mapped(axis + 1, remaining)
            return [
                gt.broadcast_to(v, (*(sizes or [1])[:1], *v.shape)) for v in results
            ]
        axes = tuple(None if one else 0 for one in alike)
        many = vmap(lambda *one: tuple(mapped(axis + 1, one)), in_axes=axes)(*remaining)
        return list(many)

    return mapped(0, inputs)


def _has_equal_elements(batch: Value) -> bool:
    """Whether all elements of a batch are copies of one."""
    if equal(batch.type.shape[0], 1) is True:
        return True
    if not batch.node.primitive.stretches:
        return False
    source = batch.node.inputs[0].type
    return source.rank < batch.type.rank or equal(source.shape[0], 1) is True


def core_node(op: "Op", node: "Apply", ranks: Sequence[int]) -> "Apply":
    """Make the node of the core Op for one element of each batch."""
    inputs = []
    for v, rank in zip(node.inputs, ranks, strict=True):
        shape = v.type.shape[v.type.ndim - rank :]
        inputs.append(v.type.clone(shape=shape)())
    return op.core_op.make_node(*inputs)
