"""Sizes that integers among the arguments give to arrays within, and their capacities.

They are known when a call begins, as those of axes are, and chosen together with them.
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
from graphc.transform.tied import RoundedSize, Tied


@dataclass(frozen=True)
class InnerSize:
    """A size of the original graph, and its capacity: an input of the padded one."""

    size: Dim
    capacity: Value
    policy: Tied

    def rounded(self, capacities: Mapping[Symbol, Symbol]) -> RoundedSize:
        """How its capacity is chosen, given those of axes.

        It is one where the axes have one: sizes of both kinds would multiply.
        """
        size = with_nonzero_divisors(self.size)  # a guard tells if one is 0
        stored = {s: symbol_dim(c) for s, c in capacities.items()}
        most = maximum(size, substitute(size, stored))
        return RoundedSize(most, self.capacity.symbol, self.policy.capacities)


class InnerSizes:
    """Such sizes of a graph whose arguments have the sizes and integers `asked`."""

    def __init__(self, asked: Collection[Symbol]) -> None:
        self._asked = frozenset(asked)
        self._by_size: dict[Dim, InnerSize] = {}

    @property
    def all(self) -> tuple[InnerSize, ...]:
        """The ones that were asked for, in their order."""
        return tuple(self._by_size.values())

    def capacity(
        self, size: Dim, policy: Pad, exact: Callable[[Size], Size]
    ) -> Size | None:
        """The capacity of a size, which is `exact` in the padded graph.

        None where no integer among the arguments determines it, or where the policy
        chooses for each size alone.
        """
        if not isinstance(policy, Tied) or not origins(size):
            return None
        if not all(s in self._asked for s in size.symbols):
            return None
        if size not in self._by_size:
            name = shown_name(size.symbols[0]) if size.is_symbol else "size"
            dtype = as_value(size_value(exact(with_nonzero_divisors(size)))).dtype
            stored = variable(f"{name}_stored", TensorType(dtype, ()))
            least = policy.capacity(0)
            stored._symbol = Symbol(f"{name}{CAPACITY}", stored, least)
            self._by_size[size] = InnerSize(size, stored, policy)
        return symbol_dim(self._by_size[size].capacity.symbol)
