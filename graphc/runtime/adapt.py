"""`dims="auto"`: specialized at first, padded where a size turns out to vary."""

import warnings
from collections.abc import Callable, Sequence

from graphc.backends.program import Source
from graphc.errors import GraphError, RecompilationWarning
from graphc.ir.build import INPUT
from graphc.ir.dims import Symbol, evaluate
from graphc.ir.graph import Graph, Value
from graphc.runtime.log import Compilation
from graphc.transform.padding import padded
from graphc.transform.plan import Plan
from graphc.transform.policies import Bound, Pad, Policy, symbols_of

MANY = 3  # so many sizes of one dim are taken for a sign of more to come
PER_CALL = 50e-6  # seconds by which padding and cutting make a call longer
TOO_MANY = 8  # so many are worth a warning where they are specialized for good
SPARSE = 8  # a bound this many times the sizes seen wastes too much

Compile = Callable[[dict[Symbol, Policy]], tuple[Plan, Source]]
Change = tuple[Plan, Source, str]


class Seen:
    """The sizes that a function was compiled for, by symbol.

    `lost` are the seconds of compilations for sizes behind the first.
    """

    def __init__(self) -> None:
        self.sizes: dict[Symbol, set[int]] = {}
        self.last: dict[Symbol, int] = {}
        self.lost: dict[Symbol, float] = {}

    def add(
        self, compilations: Sequence[Compilation], names: dict[str, Symbol]
    ) -> None:
        """Take note of the sizes of compilations; `names` are those in their text."""
        for compilation in compilations:
            for name, size in compilation.sizes.items():
                symbol = names.get(name)
                if symbol is None:
                    continue
                before = self.sizes.setdefault(symbol, set())
                again = compilation.seconds if before and size not in before else 0.0
                self.lost[symbol] = self.lost.get(symbol, 0.0) + again
                before.add(size)
                self.last[symbol] = size


class Adapter:
    """Watches which sizes a function was compiled for, and what is to be padded.

    What a size has cost in compilations is weighed against what padding would have
    cost in all calls so far: a size that is cheap to compile for and changes once in
    thousands of calls stays. An axis or an integer input is padded; a size that depends
    on data is kept at its bound where the sizes seen come near it, so that nothing is
    read, else padded.
    """

    def __init__(self, graph: Graph, compile: Compile) -> None:
        self._graph = graph
        self._symbols = set(symbols_of(graph))
        self._compile = compile
        self._seen = Seen()
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
            if s in self._symbols
            and len(found) >= MANY
            and seen.lost[s] > calls * PER_CALL
        ]
        settled = {*self._policies, *self._refused}
        told = [s for s in varying if s not in settled and self._takes(s)]
        if not told:
            return None
        plan, source = self._compile(self._policies)
        if plan.padded is not None:
            self._originals = plan.padded.originals
        reasons = [
            f"{s.name} took {len(seen.sizes[s])} sizes: {self._policies[s]}"
            for s in told
        ]
        return plan, source, f"{'; '.join(reasons)}, from now on"

    def _takes(self, symbol: Symbol) -> bool:
        """Take up a policy for a size, unless some op would need the true one."""
        policies = self._policies | {symbol: self._choice(symbol)}
        try:
            fits = not padded(self._graph, policies).cuts
        except GraphError:
            fits = False
        if fits:
            self._policies = policies
        else:
            self._refused.add(symbol)
        return fits

    def _choice(self, symbol: Symbol) -> Policy:
        origin = symbol.origin
        counted = isinstance(origin, Value) and origin.node.primitive is not INPUT
        if not counted or symbol.upper is None:
            return Pad()
        try:
            most = evaluate(symbol.upper, self._seen.last)
        except GraphError:  # the size of something that is not compiled for
            return Bound()
        return Bound() if most <= SPARSE * max(self._seen.sizes[symbol]) else Pad()


class Advisor:
    """Warns where a function that shall specialize is compiled for ever new sizes."""

    def __init__(self, graph: Graph) -> None:
        self._symbols = set(symbols_of(graph))
        self._seen = Seen()
        self._warned: set[Symbol] = set()
        self._done: list[Compilation] = []

    def notice(
        self, new: Sequence[Compilation], sizes: dict[str, Symbol], calls: int
    ) -> Change | None:
        """Warn once per dim; the program stays as it is."""
        done = self._done
        done += new
        self._seen.add(new, sizes)
        for symbol, found in self._seen.sizes.items():
            known = symbol in self._symbols and symbol not in self._warned
            if len(found) >= TOO_MANY and known:
                self._warned.add(symbol)
                lost = sum(c.seconds for c in done)
                warnings.warn(
                    f"{symbol.name} took {len(found)} sizes, the last "
                    f"{self._seen.last[symbol]}: {len(done)} compilations, {lost:.1f} s"
                    f"\n  hint: dims={{{symbol.name!r}: graphc.Pad()}} compiles for "
                    "capacities only",
                    RecompilationWarning,
                    stacklevel=4,
                )
        return None
