"""Sizes that a policy for all sizes leaves unpadded, as an op needs their true values.

Around such an op arrays are cut, and padded again. Where little else depends on the
size, compiling these pieces for its true values costs more than compiling the program
as a whole would.
"""

from collections.abc import Collection

from graphc.ir.sizes.dims import Symbol
from graphc.ir.sizes.names import shown_name
from graphc.transform.planning.grouping import CostModel, compile_weight
from graphc.transform.planning.plan import Plan


def sizes_kept_true(plan: Plan) -> frozenset[Symbol]:
    """The padded sizes for whose true values segments are compiled all the same."""
    if plan.padded is None or not plan.padded.cuts:
        return frozenset()
    keys = {plan.padded.originals.get(s) for one in plan.segments for s in one.keys}
    return frozenset(s for s in plan.padded.policies if s in keys)


def price_of_sizes(plan: Plan, sizes: Collection[Symbol], model: CostModel) -> float:
    """The price of another value of these sizes, in compiled nodes."""
    originals = {} if plan.padded is None else plan.padded.originals
    total = 0.0
    for one in plan.segments:
        if any(originals.get(s, s) in sizes for s in one.keys):
            total += model.base + sum(map(compile_weight, one.nodes))
    return total


def line_of_report(plan: Plan, sizes: Collection[Symbol]) -> str:
    """The line in reports about sizes left unpadded, from the plan that padded them."""
    assert plan.padded is not None
    names = ", ".join(sorted(map(shown_name, sizes)))
    return f"{names}: not padded, as {plan.padded.cuts[0]}"
