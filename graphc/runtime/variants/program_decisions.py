"""The decisions that a compiled function has come to, as its programs show them."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median_high

from graphc.ir.graph.nodes import Graph
from graphc.ir.sizes.dims import Dim, Symbol
from graphc.ir.sizes.names import shown_name
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.driver.log import Compilation
from graphc.runtime.variants.decisions import (
    DecidedInput,
    DecidedProgram,
    DecidedSize,
    SavedDecisions,
)
from graphc.transform.policies import Policy, names_of


def inputs_of(graph: Graph) -> tuple[DecidedInput, ...]:
    """Describe the inputs of a graph, by which its decisions are recognised."""
    return tuple(
        DecidedInput(
            name,
            str(value.dtype),
            tuple(str(n) if isinstance(n, Dim) else n for n in value.type.shape),
            value.type.weak,
        )
        for name, value in zip(graph.input_names, graph.inputs, strict=True)
    )


def starting_decisions(
    graph: Graph, policies: Mapping[str, Policy]
) -> SavedDecisions | None:
    """Return decisions that start a graph with these policies; None without any."""
    if not policies:
        return None
    sizes = {name: DecidedSize(policy) for name, policy in policies.items()}
    return SavedDecisions((DecidedProgram(inputs_of(graph), sizes),))


def collect_decisions(
    graph: Graph,
    policies: Mapping[Symbol, Policy],
    programs: Iterable[tuple[PreparedProgram, Sequence[Compilation]]],
) -> DecidedProgram:
    """Collect the decisions about a graph's sizes, and what its programs compiled."""
    names = names_of(graph)
    sizes = {_name(s, names): DecidedSize(policy) for s, policy in policies.items()}
    seconds: list[float] = []
    for prepared, compilations in programs:
        for one in compilations:
            seconds.append(one.seconds)
            for name, size in _sizes(prepared, one, names):
                sizes[name] = sizes.get(name, DecidedSize()).merged(size)
    median = float(f"{median_high(seconds):.3g}") if seconds else 0.0
    return DecidedProgram(
        inputs_of(graph), sizes, compilations=len(seconds), seconds=median
    )


def _sizes(
    prepared: PreparedProgram, one: Compilation, names: Mapping[object, str]
) -> Iterable[tuple[str, DecidedSize]]:
    """Yield the sizes and capacities of a compilation, by their names in the graph."""
    plan = prepared.plan
    pad = plan.padded
    stored: dict[Symbol, Symbol] = {}
    true: dict[Symbol, Symbol] = {}
    if pad is not None:
        stored = pad.stored_as | {c: s for s, c in pad.capacities.items()}
        true = pad.originals
    for text, n in one.sizes.items():
        symbol = prepared.sizes.get(text)
        if symbol is None:
            continue
        symbol = plan.originals.get(symbol, symbol)
        if symbol in stored:
            yield _name(stored[symbol], names), DecidedSize(capacities=frozenset([n]))
        else:
            symbol = true.get(symbol, symbol)
            yield _name(symbol, names), DecidedSize(sizes=frozenset([n]))


def _name(symbol: Symbol, names: Mapping[object, str]) -> str:
    return names.get(symbol) or shown_name(symbol)
