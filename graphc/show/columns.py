"""Tables of a page as columns of small numbers, which compress better than rows.

Places are given as differences: from the place before, or from a node's first output.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from graphc.show.edges import DrawnEdge
from graphc.show.records import LineRecord, NodeRecord, ValueRecord

Json = Any


def steps_of(places: Iterable[int]) -> list[int]:
    """Return each place less the one before."""
    return [b - a for a, b in pairwise([0, *places])]


def lines_columns(lines: Sequence[LineRecord], with_text: Container[int]) -> Json:
    """Make columns of the user's lines, with the text of those in `with_text` alone."""
    files = list(dict.fromkeys(one.file for one in lines))
    numbers = {file: i for i, file in enumerate(files)}
    return {
        "files": files,
        "file": [numbers[one.file] for one in lines],
        "line": steps_of(one.line for one in lines),
        "code": [one.code if i in with_text else "" for i, one in enumerate(lines)],
    }


def values_columns(places: Sequence[int], values: Sequence[ValueRecord]) -> Json:
    """Make columns of the values at these places, without the nodes that make them."""
    chosen = [values[v] for v in places]
    literals = {v: values[v].literal for v in places if values[v].literal}
    return {
        "places": steps_of(places),
        "names": [one.name for one in chosen],
        "types": [one.type for one in chosen],
        "literals": literals,
    }


def nodes_columns(
    places: Sequence[int], nodes: Sequence[NodeRecord], bodies: Mapping[int, Json]
) -> Json:
    """Make columns of the nodes at these places, and of the `bodies` that some have."""
    chosen = [nodes[n] for n in places]
    ops = list(dict.fromkeys(one.op for one in chosen))
    numbers = {op: i for i, op in enumerate(ops)}
    starts = [one.outputs[0] for one in chosen]
    pairs = list(zip(chosen, starts, strict=True))
    return {
        "places": steps_of(places),
        "ops": ops,
        "op": [numbers[one.op] for one in chosen],
        "line": steps_of(one.line for one in chosen),
        "starts": steps_of(starts),
        "inputs": [[v - start for v in one.inputs] for one, start in pairs],
        "more": {
            n: list(one.outputs)
            for n, one in zip(places, chosen, strict=True)
            if one.outputs[1:]
        },
        "params": {n: nodes[n].params for n in places if nodes[n].params},
        "bodies": dict(bodies),
    }


def edges_columns(edges: Sequence[DrawnEdge]) -> Json:
    """Make columns of edges in the order of their starts; [] if there are none."""
    if not edges:
        return []
    order = sorted(edges, key=lambda edge: (edge.start, edge.end))
    firsts = steps_of(edge.values[0] for edge in order)
    return [
        steps_of(edge.start for edge in order),
        [edge.end - edge.start for edge in order],
        [edge.lane for edge in order],
        firsts,
        {i: edge.values[1:] for i, edge in enumerate(order) if edge.values[1:]},
    ]
