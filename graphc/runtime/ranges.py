"""Ranges of sizes that are combined in all ways, to compile for them ahead of calls."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.nodes import origins
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.planning.forecast import SizesGiven, sizes_of_calls
from graphc.transform.policies import Pad, Policy

MOST = 5_000  # calls that are compiled for at once
FEW = 4  # sizes of each range by which a program is chosen, about
Ways = Mapping[str, Sequence[int]]  # sizes by name, to be combined with all others


def ranges_in(sizes: Mapping[str, SizesGiven]) -> dict[str, range]:
    """Return the sizes that are given as ranges, by name; none for unnamed sizes."""
    listed = sizes.items() if isinstance(sizes, Mapping) else ()
    return {name: n for name, n in listed if isinstance(n, range)}


def go_in_all_ways(ranges: Mapping[str, range]) -> bool:
    """Whether ranges are combined in all ways, rather than taken in step."""
    return len(set(map(len, ranges.values()))) > 1


def vary_freely(sizes: Mapping[str, SizesGiven], ranges: Mapping[str, range]) -> bool:
    """Whether nothing but ranges varies, and no two of them go in step."""
    others = [n for name, n in sizes.items() if name not in ranges]
    if any(isinstance(n, Mapping) or np.ndim(n) for n in others):
        return False
    return len(ranges) == 1 or go_in_all_ways(ranges)


def ways_of(
    names: Sequence[str], sizes: Mapping[str, SizesGiven], op: str
) -> dict[str, Sequence[int]]:
    """Return the sizes of each of these names, some of which are given as ranges.

    Raises GraphError for a number that is no size.
    """
    ranges = {name: sorted(n) for name, n in ranges_in(sizes).items()}
    ends = {name: [*n[:1], *n[-1:]] for name, n in ranges.items()}
    calls = sizes_of_calls(names, {**sizes, **ends}, op)
    return {k: ranges.get(k) or [call[k] for call in calls][:1] for k in names}


def in_all_ways(several: Iterable[Ways]) -> dict[str, list[int]]:
    """Combine the sizes of each name in all ways, and return each call once."""
    calls: dict[tuple[int, ...], None] = {}
    names: list[str] = []
    for ways in several:
        names = [*ways]
        calls |= dict.fromkeys(product(*ways.values()))
    return {name: [call[i] for call in calls] for i, name in enumerate(names)}


def few_of(several: Iterable[Ways]) -> dict[str, list[int]]:
    """Return a few of the calls, by which a program is chosen."""
    return in_all_ways(
        {name: n[:: max(len(n) // FEW, 1)] for name, n in ways.items()}
        for ways in several
    )


def of_capacities(
    padded: PaddedGraph | None, several: Iterable[Ways]
) -> dict[str, list[int]]:
    """Return the calls, with one size for each capacity of a size that is padded.

    Integers that inner sizes are made of have capacities too, also small ones.
    """
    policies = {} if padded is None else padded.policies
    by_name: dict[str, Policy] = {s.name: one for s, one in policies.items()}
    inner = () if padded is None else padded.inner
    factors = {v.symbol.name for one in inner for v in origins(one.size)}
    by_name |= dict.fromkeys(factors, Pad(minimum=1))
    few = [{k: _largest(n, by_name.get(k)) for k, n in one.items()} for one in several]
    for ways in few:
        _require_few(prod(map(len, ways.values())), ways, by_name)
    calls = in_all_ways(few)
    _require_few(len(next(iter(calls.values()), ())), calls, by_name)
    return calls


def _require_few(count: int, ways: Ways, policies: Mapping[str, Policy]) -> None:
    """Raise GraphError where too many calls are to be compiled for."""
    if count <= MOST:
        return
    exact = [k for k in ways if not isinstance(policies.get(k), Pad)]
    which = f"not padded: {', '.join(exact)}; " if exact else ""
    raise graph_error(
        f"{which}so programs would be compiled for {count} calls",
        op="compile",
        got=", ".join(f"{k}: {len(set(n))} sizes" for k, n in ways.items()),
        hint='give shorter ranges, or list the calls, as {"n": [16, 20]}',
    )


def _largest(numbers: Sequence[int], policy: Policy | None) -> Sequence[int]:
    """Return the last of the numbers for each capacity."""
    if not isinstance(policy, Pad):
        return numbers
    return [*{policy.capacity(n): n for n in numbers}.values()]
