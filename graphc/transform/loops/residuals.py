"""Residuals: values of a step that its gradient reads again, kept or recomputed.

A gradient has the carry before each step, from which it can compute all that it needs.
Elementwise ops and moves are recomputed: XLA fuses them with whatever reads them, and
their operands are read anyway. Other ops, such as products, have a kernel of their own:
their results are kept where that takes no longer than recomputing them. Exponentials
and the like are kept if they fit in a cache, where reading is faster than computing.
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from math import inf
from typing import NamedTuple

from graphc.analysis.cost import current_costs
from graphc.control.scan import values_used
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.replay import region_between
from graphc.ir.graph.walk import operands
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size
from graphc.rewriting.loops.find.work import (
    EXTREMES,
    HEAVY,
    REDUCTIONS,
    typical_bytes,
    typical_size,
    work_of,
)
from graphc.transform.loops.inverse_writes import has_varying_size

_SCANS = (OP.cummax, OP.cummin)
_MOVES = (OP.slice_update, OP.iota, OP.repeat_counts)
_TRANSCENDENTAL = frozenset({
    *(OP.exp, OP.exp2, OP.expm1, OP.log, OP.log2, OP.log10, OP.log1p, OP.logaddexp),
    *(OP.sin, OP.cos, OP.tan, OP.sinh, OP.cosh, OP.tanh, OP.expit, OP.erf, OP.power),
    *(OP.arcsin, OP.arccos, OP.arctan, OP.arctan2, OP.arcsinh, OP.arccosh, OP.arctanh),
})  # fmt: skip
_SERIES = frozenset({  # elementwise ops that take a hundred operations or more
    *(OP.gammaln, OP.digamma, OP.betainc, OP.gammainc, OP.gammaincc, OP.zeta),
    *(OP.erfinv, OP.ndtri, OP.gammaincinv, OP.gammainccinv, OP.betaincinv),
    *(OP.jax_digamma, OP.jax_gammainc, OP.jax_gammaincc, OP.jax_zeta),
    *(OP.hyp2f1, OP.owens_t, OP.jv, OP.yv, OP.iv, OP.ive, OP.kv, OP.kve),
})  # fmt: skip


def residuals(
    results: Sequence[Value],
    region: Sequence[Node],
    late: Container[Node],
    inputs: Sequence[Value],
    changing: Sequence[Value],
    steps: Size | None,
) -> list[Value]:
    """The values to keep of each of `steps`, so that less is recomputed for `results`.

    `region` holds the nodes of a backward step in topological order; those in `late`
    need cotangents. `inputs` are the inputs of the step. The `changing` ones differ
    between steps, and values that depend on none of them, sizes for example, are
    computed once, outside. Exponentials and the like are kept only as long as all
    values together stay in a cache, and nothing is kept if it takes more memory than
    there is for residuals.
    """
    costs, count = current_costs(), typical_size(1 if steps is None else steps)
    of_steps = set(region_between(results, changing))
    early = [n for n in region if n in of_steps and n not in late]
    uses = Counter(_uses_in(region, results))
    for most, transcendental in ((costs.cached, True), (costs.residuals, False)):
        candidates = _boundary_values(early, uses, inputs, transcendental)
        used = values_used(results, [*candidates, *inputs])
        candidates = [v for v in candidates if v in used]
        if sum(map(typical_bytes, candidates)) * count <= most:
            return candidates
    return []


class _KeptSources(NamedTuple):
    """The bytes of the kept values that another value is computed from.

    `is_replaceable`: the kept values serve nothing else, so that the other may
    replace them.
    """

    bytes: int
    is_replaceable: bool


def _uses_in(region: Iterable[Node], results: Iterable[Value]) -> Iterable[Value]:
    """Each use of a value by a node, or as a result."""
    for node in region:
        yield from dict.fromkeys(operands(node))
    yield from results


def _boundary_values(
    nodes: Iterable[Node],
    uses: Counter[Value],
    inputs: Sequence[Value],
    transcendental: bool,
) -> list[Value]:
    """The results of ops that are not recomputed, or values made of these alone.

    `a @ x + b @ y` is one value to keep, not two: where results serve only to compute a
    value that is no larger, that value is kept in their place.
    """
    needs: dict[Value, _KeptSources] = {}
    boundary: dict[Value, None] = {}
    for node in nodes:
        sources = [v for v in dict.fromkeys(node.inputs) if v in needs]
        total = sum(needs[v].bytes for v in sources)
        alone = all(needs[v].is_replaceable and uses[v] == 1 for v in sources)
        if transcendental and node.primitive in _TRANSCENDENTAL:
            keeps = typical_bytes(node.outputs[0]) >= current_costs().worth_caching
        elif not _is_cheap(node):
            keeps = _is_worth_keeping(node)
        elif sources and alone and len(node.outputs) == 1:
            keeps = typical_bytes(node.outputs[0]) <= total
        else:
            keeps = False
        for value in node.outputs:
            if keeps and not has_varying_size(value, inputs):
                needs[value] = _KeptSources(typical_bytes(value), True)
                boundary[value] = None
            elif sources:
                needs[value] = _KeptSources(total, alone and len(node.outputs) == 1)
    return list(boundary)


def _is_cheap(node: Node) -> bool:
    """Whether XLA computes an op as part of whatever reads its result."""
    primitive = node.primitive
    if primitive.elementwise:
        return primitive not in _SERIES
    if primitive in _MOVES or primitive.passes_on:
        return True
    moves = primitive.rounding == "none" and primitive not in (*EXTREMES, *_SCANS)
    return moves and not primitive.several


def _is_worth_keeping(node: Node) -> bool:
    """Whether writing and reading the results takes no longer than computing them."""
    costs = current_costs()
    moved = 2 * sum(map(typical_bytes, node.outputs)) / costs.bandwidth
    return moved <= costs.step + 2 * _operation_count(node) / costs.products


def _operation_count(node: Node) -> float:
    """Estimate an op's operations; infinite for all but heavy ops and reductions."""
    if node.primitive in HEAVY or node.primitive in REDUCTIONS:
        return work_of(node)
    return inf
