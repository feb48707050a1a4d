"""`dims="auto"`: specialized at first, padded where a size turns out to vary."""

from collections.abc import Callable, Mapping, Sequence

from graphc.backends.program import Source
from graphc.errors import GraphError
from graphc.ir.build import INPUT
from graphc.ir.dims import Symbol, evaluate
from graphc.ir.graph import Graph, Value
from graphc.runtime.log import Compilation
from graphc.transform.padding import padded
from graphc.transform.plan import Plan
from graphc.transform.policies import Bound, Pad, Policy, symbols_of

MANY = 3  # so many sizes of one dim are a sign of more to come
PER_CALL = 50e-6  # seconds by which padding and cutting make a call longer
SPARSE = 8  # a bound this many times the sizes seen wastes too much

Compile = Callable[[dict[Symbol, Policy]], tuple[Plan, Source]]
Change = tuple[Plan, Source, str]


class Seen:
    """The sizes that a function was compiled for, by symbol.

    Symbols within bodies are found by the name of one of the given symbols, `known`.
    `lost` are the seconds of compilations for sizes after the first.
    """

    def __init__(self, known: Sequence[Symbol]) -> None:
        self._known = set(known)
        self._named: dict[str, list[Symbol]] = {}
        for symbol in known:
            self._named.setdefault(symbol.name, []).append(symbol)
        self.sizes: dict[Symbol, set[int]] = {}
        self.last: dict[Symbol, int] = {}
        self.lost: dict[Symbol, float] = {}

    def add(
        self, compilations: Sequence[Compilation], names: dict[str, Symbol]
    ) -> None:
        """Record the sizes of compilations; `names` maps their names to symbols."""
        for compilation in compilations:
            for name, size in compilation.sizes.items():
                for symbol in self._meant(names.get(name)):
                    self._note(symbol, size, compilation.seconds)

    def _meant(self, symbol: Symbol | None) -> Sequence[Symbol]:
        """The given symbols that a symbol of a program is, or may be."""
        if symbol is None:
            return []
        return [symbol] if symbol in self._known else self._named.get(symbol.name, [])

    def _note(self, symbol: Symbol, size: int, seconds: float) -> None:
        before = self.sizes.setdefault(symbol, set())
        again = seconds if before and size not in before else 0.0
        self.lost[symbol] = self.lost.get(symbol, 0.0) + again
        before.add(size)
        self.last[symbol] = size


class Adapter:
    """Watches which sizes a function was compiled for, and decides which to pad.

    The cost of a size in compilations is weighed against the cost of padding it
    in all calls so far: a size that is cheap to compile for and changes once in
    thousands of calls stays. An axis or an integer input is padded; a size that depends
    on data is kept at its bound where the sizes seen come near it, so that nothing is
    read, else padded.
    """

    def __init__(
        self, graph: Graph, compile: Compile, names: Mapping[object, str]
    ) -> None:
        self._graph = graph
        self._names = names
        self._compile = compile
        self._seen = Seen(symbols_of(graph))
        self._policies: dict[Symbol, Policy] = {}
        self._refused: set[Symbol] = set()
        self._originals: dict[Symbol, Symbol] = {}

    def notice(
        self, new: Sequence[Compilation], sizes: dict[str, Symbol], calls: int
    ) -> Change | None:
        """The program to go on with, and why; None where nothing changes."""
        names = {name: self._originals.get(s, s) for name, s in sizes.items()}
        seen = self._seen
        seen.add(new, names)
        varying = [
            s
            for s, found in seen.sizes.items()
            if len(found) >= MANY and seen.lost[s] > calls * PER_CALL
        ]
        settled = {*self._policies, *self._refused}
        told = self._taken([s for s in varying if s not in settled])
        if not told:
            return None
        plan, source = self._compile(self._policies)
        if plan.padded is not None:
            self._originals = plan.padded.originals
        reasons = [
            f"{self._names.get(s, s.name)} took {len(seen.sizes[s])} sizes: "
            f"{self._policies[s]}"
            for s in told
        ]
        return plan, source, f"{'; '.join(reasons)}, from now on"

    def _taken(self, symbols: list[Symbol]) -> list[Symbol]:
        """Take up policies for sizes: for all at once, or for those that can be."""
        if not symbols or self._takes(symbols):
            return symbols
        told = [s for s in symbols if len(symbols) > 1 and self._takes([s])]
        self._refused.update(s for s in symbols if s not in told)
        return told

    def _takes(self, symbols: list[Symbol]) -> bool:
        """Take up policies for sizes, unless some op would need the true ones."""
        policies = self._policies | {s: self._choice(s) for s in symbols}
        try:
            fits = not padded(self._graph, policies).cuts
        except GraphError:
            fits = False
        if fits:
            self._policies = policies
        return fits

    def _choice(self, symbol: Symbol) -> Policy:
        origin = symbol.origin
        counted = isinstance(origin, Value) and origin.node.primitive is not INPUT
        if not counted or symbol.upper is None:
            return Pad()
        try:
            most = evaluate(symbol.upper, self._seen.last)
        except GraphError:  # the size of a value outside of all segments
            return Bound()
        return Bound() if most <= SPARSE * max(self._seen.sizes[symbol]) else Pad()
