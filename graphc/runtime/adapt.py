"""`dims="auto"`: specialized at first, padded where a size turns out to vary."""

from collections.abc import Callable, Iterable

from graphc.backends.program import Source
from graphc.errors import GraphError
from graphc.ir.dims import Symbol
from graphc.ir.graph import Graph
from graphc.runtime.log import Compilation
from graphc.transform.padding import padded
from graphc.transform.plan import Plan
from graphc.transform.policies import Pad, Policy, symbols_of

MANY = 3  # so many sizes of one axis are taken for a sign of more to come

Compile = Callable[[dict[Symbol, Policy]], tuple[Plan, Source]]


class Adapter:
    """Watches which sizes a function was compiled for, and what is to be padded."""

    def __init__(self, graph: Graph, compile: Compile) -> None:
        self._graph = graph
        self._axes = {s for s in symbols_of(graph) if s.origin is None}
        self._compile = compile
        self._seen: dict[Symbol, set[int]] = {}
        self._policies: dict[Symbol, Policy] = {}
        self._refused: set[Symbol] = set()

    def notice(
        self, compilations: Iterable[Compilation], sizes: dict[str, Symbol]
    ) -> "tuple[Plan, Source, str] | None":
        """The program to go on with, and why; None where nothing changes."""
        for compilation in compilations:
            for name, size in compilation.sizes.items():
                symbol = sizes.get(name)
                if symbol is not None and symbol.origin is None:
                    self._seen.setdefault(symbol, set()).add(size)
        varying = [
            s
            for s, found in self._seen.items()
            if len(found) >= MANY and s not in {*self._policies, *self._refused}
        ]
        told = [s for s in varying if s in self._axes and self._pads(s)]
        if not told:
            return None
        plan, source = self._compile(self._policies)
        names = ", ".join(s.name for s in told)
        return plan, source, f"{names} took {MANY} sizes: padded from now on"

    def _pads(self, symbol: Symbol) -> bool:
        """Take up a policy for a size, unless some op would need the true one."""
        policies = self._policies | {symbol: Pad()}
        try:
            fits = not padded(self._graph, policies).cuts
        except GraphError:
            fits = False
        if fits:
            self._policies = policies
        else:
            self._refused.add(symbol)
        return fits
