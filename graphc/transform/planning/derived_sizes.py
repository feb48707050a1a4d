"""Sizes that follow from axes by arithmetic that formulas of sizes do not cover.

An example is `int(ceil(sqrt(n)))` for an axis n. A segment that is compiled for each n
does that arithmetic when it is traced, once per shape; nothing is left to the driver.
"""

from collections.abc import Iterable, Mapping

from graphc.analysis.binding_time import Time
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Symbol
from graphc.ir.types import is_integer
from graphc.transform.planning.grouping import varying_symbols
from graphc.transform.printed_sizes import Keys, printed_symbols


def derived_sizes(
    demanded: Iterable[Value], times: Mapping[Node, Time], nodes: Iterable[Node]
) -> dict[Symbol, Keys]:
    """Map sizes known from axes that programs are compiled for anyway to these axes.

    `demanded` are the sizes that `nodes`, which are compiled, need on the host.
    """
    integers = [v for v in demanded if is_integer(v.dtype)]
    early = [v for v in integers if times[v.node] is Time.SHAPE]
    if not early:
        return {}
    compiled_for = {s for node in nodes for s in varying_symbols(node)}
    derived: dict[Symbol, Keys] = {}
    for value in early:
        symbols = {s for node in ancestors([value]) for s in printed_symbols(node)}
        axes = frozenset(s for s in symbols if s.origin is None)
        if axes <= compiled_for:
            derived[value.symbol] = axes
    return derived


def in_terms_of_axes(keys: Keys, derived: Mapping[Symbol, Keys]) -> Keys:
    """Replace the derived sizes among those a compilation depends on by their axes."""
    if keys.isdisjoint(derived):
        return keys
    return frozenset().union(*(derived.get(s, {s}) for s in keys))
