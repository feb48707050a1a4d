"""Gradients through chains of blocks, which become loops before differentiation.

A gradient taken block by block has several times as many nodes as the blocks, in which
the compiler would look for loops again (`rewriting.loops.roll.chains`); the gradient of
one loop is one loop. Where a program is compiled without that rule, or asks for values
within the blocks too, the gradient is derived from the blocks as they are written after
all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphc.errors import GraphError
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.replay import substituted
from graphc.ir.graph.walk import ancestors
from graphc.rewriting.loops.roll.chains import RolledChains, roll_chains
from graphc.transform.derivatives.autodiff import pull

Gradients = list[Value | None]


@dataclass(frozen=True, eq=False)
class _Derivation:
    """A gradient through loops: the values it is derived from, and the loops.

    A derivation holds nothing of the gradient, so that it lives no longer than that.
    """

    outputs: tuple[Value, ...]
    cotangents: tuple[Value | None, ...]
    wrt: tuple[Value, ...]
    chains: RolledChains

    def is_of(self, other: "_Derivation") -> bool:
        """Whether both are gradients of one function, perhaps in different values."""
        values = (*self.outputs, *self.cotangents)
        others = (*other.outputs, *other.cotangents)
        return len(values) == len(others) and all(
            a is b for a, b in zip(values, others, strict=True)
        )


@dataclass(frozen=True, eq=False)
class _DerivedGradient:
    """One of the gradients that a derivation gives, and its place among them."""

    derivation: _Derivation
    place: int


_DerivedValues = dict[Value, _DerivedGradient]


def pull_through_loops(
    outputs: Sequence[Value], cotangents: Sequence[Value | None], wrt: Sequence[Value]
) -> Gradients:
    """Return the cotangents of `wrt` as `pull` does, through loops if that is worth it.

    Gradients of gradients are taken of the blocks as they are written.
    """
    seeds = [v for v in cotangents if v is not None]
    nodes = ancestors([*outputs, *seeds])
    if not _derived_values(nodes):
        gradients = _gradients_of_loops(outputs, cotangents, wrt)
        return pull(outputs, cotangents, wrt) if gradients is None else gradients
    written = iter(with_gradients_of_blocks([*outputs, *seeds]))
    plain = [next(written) for _ in outputs]
    return pull(plain, [None if v is None else next(written) for v in cotangents], wrt)


def with_gradients_of_blocks(values: Sequence[Value]) -> list[Value]:
    """Return the values, with gradients derived from the blocks as they are written."""
    derived_values = _derived_values(ancestors(values))
    if not derived_values:
        return list(values)
    derived = {
        d: pull(d.outputs, d.cotangents, d.wrt) for d in _derivations(derived_values)
    }
    new = {v: derived[one.derivation][one.place] for v, one in derived_values.items()}
    return substituted(values, {v: g for v, g in new.items() if g is not None}, {})


def with_gradients_of_loops(graph: Graph, rolling: bool) -> Graph:
    """Take gradients through loops, if the compiler makes these (`rolling`).

    All else that the graph needs of these chains then comes from the same loops. Where
    that does not suffice, or the graph has gradients of several functions of the
    blocks, they stay blocks.
    """
    derived_values = _derived_values(graph.nodes)
    if not derived_values:
        return graph
    outputs = _values_from_loops(graph.outputs, derived_values) if rolling else None
    return graph.with_outputs(
        with_gradients_of_blocks(graph.outputs) if outputs is None else outputs
    )


def _values_from_loops(
    values: Sequence[Value], derived_values: _DerivedValues
) -> list[Value] | None:
    first, *others = _derivations(derived_values)
    new: dict[Value, Value] = {}
    if others:
        if not all(first.is_of(other) for other in others):
            return None
        wrt = list(dict.fromkeys(v for d in (first, *others) for v in d.wrt))
        gradients = _gradients_of_loops(first.outputs, first.cotangents, wrt)
        if gradients is None:
            return None
        both = dict(zip(wrt, gradients, strict=True))
        for value, one in derived_values.items():
            g = both[one.derivation.wrt[one.place]]
            assert g is not None
            new[value] = g
        derived_values = _derived_values(
            ancestors([g for g in gradients if g is not None])
        )
        first = _derivations(derived_values)[0]
    substitutes = substituted(values, {**first.chains.replacements, **new}, {})
    keeps_blocks = not first.chains.inside.isdisjoint(ancestors(substitutes))
    return None if keeps_blocks else substitutes


def _gradients_of_loops(
    outputs: Sequence[Value], cotangents: Sequence[Value | None], wrt: Sequence[Value]
) -> Gradients | None:
    """Return the cotangents of `wrt` through loops; None if no chain is worth one."""
    chains = roll_chains(Graph.of((), (*outputs, *wrt)), for_gradients=True)
    if chains is None:
        return None
    rolled, others = chains.graph.outputs[: len(outputs)], chains.graph.outputs
    if any(a is not b for a, b in zip(others[len(outputs) :], wrt, strict=True)):
        return None  # `wrt` has a value within the blocks
    try:
        gradients = pull(rolled, cotangents, wrt)
    except GraphError:
        return None  # its message would speak of the loop
    derivation = _Derivation(tuple(outputs), tuple(cotangents), tuple(wrt), chains)
    seeds = (v for v in cotangents if v is not None)
    roots = (*outputs, *wrt, *seeds, *chains.replacements.values())
    before = max(v.node.serial for v in roots)
    for i, value in enumerate(gradients):
        if value is not None and value.node.serial > before:
            value.derivation = _DerivedGradient(derivation, i)
    return gradients


def _derived_values(nodes: Iterable[Node]) -> _DerivedValues:
    """Return the gradients through loops among the values of nodes."""
    values = [v for node in nodes for v in node.outputs]
    return {
        v: v.derivation for v in values if isinstance(v.derivation, _DerivedGradient)
    }


def _derivations(derived_values: _DerivedValues) -> list[_Derivation]:
    return list(dict.fromkeys(one.derivation for one in derived_values.values()))
