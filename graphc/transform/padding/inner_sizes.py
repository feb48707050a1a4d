"""Sizes inside a program that integer arguments determine, and their capacities.

Like the sizes of axes, they are known when a call begins, and their capacities are
chosen together with those of axes.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from graphc.ir.graph.build import as_value, size_value, variable
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.sizes.dims import Dim, Size, Symbol, maximum, substitute, symbol_dim
from graphc.ir.sizes.divisors import with_nonzero_divisors
from graphc.ir.sizes.names import CAPACITY, shown_name
from graphc.ir.types import TensorType
from graphc.transform.policies import Pad
from graphc.transform.tied_sizes import RoundedSize, Tied


@dataclass(frozen=True)
class InnerSize:
    """A size of the original graph, and its capacity: an input of the padded one."""

    size: Dim
    capacity: Value
    policy: Tied

    def rounded(self, capacities: Mapping[Symbol, Symbol]) -> RoundedSize:
        """How the capacity is chosen, given the capacities of axes.

        It is one capacity where the axes have one: else sizes of both kinds would
        multiply.
        """
        size = with_nonzero_divisors(self.size)  # a guard reports a divisor of 0
        stored = {s: symbol_dim(c) for s, c in capacities.items()}
        most = maximum(size, substitute(size, stored))
        return RoundedSize(most, self.capacity.symbol, self.policy.capacities)


class InnerSizes:
    """The inner sizes of a graph with the sizes and integers that are `arguments`."""

    def __init__(self, arguments: Collection[Symbol]) -> None:
        self._arguments = frozenset(arguments)
        self._by_size: dict[Dim, InnerSize] = {}

    @property
    def all(self) -> tuple[InnerSize, ...]:
        """The inner sizes that were asked for, in that order."""
        return tuple(self._by_size.values())

    def capacity(
        self, size: Dim, policy: Pad, exact: Callable[[Size], Size]
    ) -> Size | None:
        """The capacity of a size, which is `exact` in the padded graph.

        None where no integer among the arguments determines the size, or where the
        policy chooses a capacity for each size alone.
        """
        if not isinstance(policy, Tied) or not origins(size):
            return None
        if not all(s in self._arguments for s in size.symbols):
            return None
        if size not in self._by_size:
            name = shown_name(size.symbols[0]) if size.is_symbol else "size"
            dtype = as_value(size_value(exact(with_nonzero_divisors(size)))).dtype
            stored = variable(f"{name}_stored", TensorType(dtype, ()))
            least = policy.capacity(0)
            stored._symbol = Symbol(f"{name}{CAPACITY}", stored, least)
            self._by_size[size] = InnerSize(size, stored, policy)
        return symbol_dim(self._by_size[size].capacity.symbol)
