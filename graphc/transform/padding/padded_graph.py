"""The padded graph, with remarks on its nodes."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from graphc.errors import SourceLocation
from graphc.ir.graph.nodes import Graph, Guard, Node, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Size, Symbol, maximum, symbol_dim
from graphc.transform.padding.inner_sizes import InnerSize
from graphc.transform.padding.storage import is_of_integers
from graphc.transform.policies import Pad, Policy
from graphc.transform.tied_sizes import RoundedSize


@dataclass(frozen=True)
class Remark:
    """A remark on a node: the reason why the node is computed as it is."""

    node: Node
    reason: str
    verb: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.node.reported} at {self.place} {self.verb}: {self.reason}"

    @property
    def place(self) -> SourceLocation:
        """The user's line that asks for the node."""
        return self.node.place


class Cut(Remark):
    """A fallback: a node computed at true sizes, and the reason."""

    verb = "needs true sizes"


class Price(Remark):
    """A node whose mask rule does much more work than its op at true sizes."""

    verb = "is padded at a price"


@dataclass(frozen=True)
class PaddedGraph:
    """A graph over capacities, which replaces `original`.

    Its inputs are the inputs of the original, one integer per symbol of `lengths`, and
    the capacities of `inner`. Its outputs are the outputs of the original, then the
    integers that the sizes of outputs depend on, `counts`. `capacities` are the sizes
    at which padded axes are stored, `ragged` the padded axes of each output. `guards`
    must hold for true sizes; `branch_guards`, in the order of their numbers, only where
    a branch that needs them is taken. `originals` maps symbols of the graph to the
    symbols that they replace, `stored_as` does so for symbols of capacities.
    """

    original: Graph
    graph: Graph
    policies: dict[Symbol, Policy]
    capacities: dict[Symbol, Symbol]
    lengths: tuple[Symbol, ...]
    inner: tuple[InnerSize, ...]
    counts: tuple[Symbol, ...]
    ragged: tuple[frozenset[int], ...]
    cuts: tuple[Cut, ...]
    prices: tuple[Price, ...]
    guards: tuple[tuple[Guard, Node], ...]
    branch_guards: tuple[tuple[Guard, Node], ...]
    originals: dict[Symbol, Symbol]
    stored_as: dict[Symbol, Symbol]

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The fallbacks, then the prices."""
        return self.cuts + self.prices

    @property
    def padded_inputs(self) -> frozenset[int]:
        """Positions of the arguments that are stored at capacities."""
        pairs = zip(self.original.inputs, self.graph.inputs, strict=False)
        return frozenset(i for i, (old, new) in enumerate(pairs) if old is not new)

    @property
    def true_sizes(self) -> tuple[Value, ...]:
        """The inputs that are the integers of `lengths`."""
        return self.graph.inputs[len(self.original.inputs) :][: len(self.lengths)]

    @cached_property
    def rounded(self) -> list[RoundedSize]:
        """The sizes whose capacities are chosen when a call begins; none is a bound."""
        axes = [(s, c, self.policies[s]) for s, c in self.capacities.items()]
        pads = [(s, c, p) for s, c, p in axes if isinstance(p, Pad)]
        assert len(pads) == len(axes)
        rounded = [
            RoundedSize(_with_room(s, c, p), c, p.capacities) for s, c, p in pads
        ]
        return rounded + [one.rounded(self.capacities) for one in self.inner]

    def guards_by(self, integers: bool) -> list[tuple[Guard, Node]]:
        """The guards that integers in arguments decide, or those that shapes do."""
        return [pair for pair in self.guards if is_of_integers(pair[0]) == integers]

    def tidied(self, graph: Graph) -> "PaddedGraph":
        """Use a simplified graph instead, without the integers it does not need."""
        split = len(self.original.inputs)
        needed_nodes = set(ancestors(graph.outputs))
        places = [
            i for i, v in enumerate(graph.inputs) if i < split or v.node in needed_nodes
        ]
        graph = replace(
            graph,
            inputs=tuple(graph.inputs[i] for i in places),
            input_names=tuple(graph.input_names[i] for i in places),
        )
        numbers = (*self.lengths, *self.inner)
        remaining_numbers = [numbers[i - split] for i in places[split:]]
        lengths = tuple([one for one in remaining_numbers if isinstance(one, Symbol)])
        inner = tuple([one for one in remaining_numbers if isinstance(one, InnerSize)])
        return replace(self, graph=graph, lengths=lengths, inner=inner)


def _with_room(axis: Symbol, capacity: Symbol, policy: Pad) -> Size:
    """The size to round up: that of an axis, or more where its capacity is known to be.

    Such a capacity has room for the elements that steps of loops need.
    """
    size, least = symbol_dim(axis), capacity.lower or 0
    has_more = least > max(policy.capacity(0), axis.lower or 0)
    return maximum(size, least) if has_more else size
