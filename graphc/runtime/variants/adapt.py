"""`dims="auto"`: specialized at first, padded where a size turns out to vary."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from graphc.analysis.cost import DeviceCosts
from graphc.backends.program import Source
from graphc.errors import GraphError
from graphc.ir.graph.build import INPUT, SIZE_OP
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Dim, Symbol, evaluate, symbol_dim, symbols_in
from graphc.ir.sizes.growth import grows
from graphc.ir.sizes.ranges import UNKNOWN, SizeRange, largest
from graphc.ops.effects.capacities import BUCKET
from graphc.runtime.driver.log import Compilation
from graphc.runtime.variants.seen_sizes import MANY, SeenSizes
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.padding.sharing import share_capacities
from graphc.transform.planning.plan import Plan, Read, Segment
from graphc.transform.policies import Bound, Narrow, Pad, Policy
from graphc.transform.tied_sizes import Tied

MANY_IN_SEGMENTS = 4  # sizes, if segments without them are compiled anew

PadBy = Callable[[dict[Symbol, Policy]], PaddedGraph]
Compile = Callable[[PaddedGraph], tuple[Plan, Source]]
Change = tuple[Plan, Source, str]
_Choice = tuple[list[Symbol], Plan, Source]


@dataclass(frozen=True)
class LeftToCalls:
    """A graph, the sizes of it that may vary, and the policies of the others."""

    graph: Graph
    symbols: Sequence[Symbol]
    policies: Mapping[Symbol, Policy]


class Adapter:
    """Watches which sizes a function is compiled for, and decides which to pad.

    Sizes that arguments tell are foreseen, before anything is compiled for them. The
    cost of a size in compilations is weighed against the cost of padding it in all
    calls so far: a size that is cheap to compile for and changes once in thousands of
    calls stays as it is. An axis or an integer input is padded. A size that depends on
    data is kept at its bound where the sizes seen come near it, so that nothing is
    read; otherwise it is padded too.
    """

    def __init__(
        self,
        start: LeftToCalls,
        pad: PadBy,
        compile: Compile,
        names: Mapping[object, str],
        costs: DeviceCosts,
    ) -> None:
        self._graph = start.graph
        self._costs = costs
        self._names = names
        self._pad, self._compile = pad, compile
        symbols = start.symbols
        self._integers = [s for s in symbols if isinstance(s.origin, Value)]
        self._seen = SeenSizes(symbols)
        self._policies: dict[Symbol, Policy] = dict(start.policies)
        self._refused: set[tuple[Symbol, int]] = set()  # each for a number of segments
        self._originals: dict[Symbol, Symbol] = {}
        self._plan: Plan | None = None
        self._seconds: dict[int, float] = {}  # of the last compilation of each segment

    @property
    def policies(self) -> Mapping[Symbol, Policy]:
        """The policies that sizes have now."""
        return self._policies

    def record_sizes(self, sizes: Mapping[str, int]) -> None:
        """Record sizes, by name, of calls that another program ran."""
        self._seen.note_together(self._seen.by_symbol(sizes), 0.0)

    def notice(
        self,
        new: Sequence[Compilation],
        sizes: dict[str, Symbol],
        calls: int,
        plan: Plan,
    ) -> Change | None:
        """Return the program to go on with, and why; None where nothing changes.

        `plan` is the plan of the program so far.
        """
        self._use_names_of(plan)
        names = {name: self._originals.get(s, s) for name, s in sizes.items()}
        self._seen.add(new, names)
        self._seconds |= {c.segment: c.seconds for c in new}
        return self._next_program(calls, plan)

    def vary(
        self, sizes: Sequence[Mapping[str, int]], calls: int, plan: Plan
    ) -> Change | None:
        """Return the program to compile for these sizes, which are said to vary."""
        for one in sizes:
            self._seen.note_together(self._seen.by_symbol(one), float(calls + 1))
        return self._next_program(calls, plan)

    def foresee(
        self, sizes: Mapping[str, int], calls: int, plan: Plan
    ) -> Change | None:
        """Return the program to run in place of compiling for these sizes, and why.

        Compiling is taken to cost what it last did, or what it takes for such a graph
        if another program had the last sizes. None where nothing changes.
        """
        expected = self._seen.copy()
        guess = 0.0 if expected.price else self._guessed_seconds
        by_symbol = expected.by_symbol(sizes)
        for symbol, size in by_symbol.items():
            known = expected.sizes.get(symbol, {size})
            if size not in known and symbol not in self._policies:
                expected.note(symbol, size, expected.price.get(symbol, guess))
        expected.note_call(by_symbol)
        if expected.sizes == self._seen.sizes:
            return None
        before, self._seen = self._seen, expected
        change = self._next_program(calls, plan)
        if change is None:
            self._seen = before
        return change

    @property
    def _guessed_seconds(self) -> float:
        """The seconds to compile for a size, guessed while nothing is compiled yet."""
        return self._costs.compiled * (self._costs.segment + len(self._graph.nodes))

    def _next_program(self, calls: int, plan: Plan) -> Change | None:
        """Return the program to go on with by the sizes seen; None if it stays."""
        self._use_names_of(plan)
        choice = self._take_up_policies(self._varying(1, calls), 1)
        segments = plan.parts
        if choice is None and segments > 1:
            everywhere = set[Symbol].intersection(*map(self._keys, plan.segments))
            varying = self._varying(segments, calls, everywhere)
            choice = self._take_up_policies(varying, segments)
        if choice is None:
            return None
        symbols, plan, source = choice
        reasons = list(map(self._policy_text, symbols))
        segments = len(plan.segments)
        price = "1 compilation" if segments == 1 else f"{segments} compilations"
        why = f"{'; '.join(reasons)}, from now on, at {price} per capacity"
        return plan, source, why

    def _use_names_of(self, plan: Plan) -> None:
        """Take the names of sizes to be those of this plan from now on."""
        if plan is not self._plan:
            self._plan, self._seconds = plan, {}
        if plan.padded is not None:
            self._originals = plan.padded.originals

    def _keys(self, segment: Segment) -> set[Symbol]:
        """Return the sizes that a segment is compiled for."""
        return {self._originals.get(s, s) for s in segment.keys}

    def _varying(
        self, segments: int, calls: int, everywhere: Container[Symbol] = ()
    ) -> list[Symbol]:
        """Return the sizes that have cost enough to be padded, in so many segments.

        `everywhere` are the sizes on which all of several segments depend.
        """
        many = {
            s: MANY
            for s in self._seen.sizes
            if segments == 1 or s in everywhere or _is_count(s)
        }
        varying = [
            s
            for s, sizes in self._seen.sizes.items()
            if len(sizes) >= many.get(s, MANY_IN_SEGMENTS)
            and self._seen.lost[s] > calls * self._costs.padding
            and s not in self._policies
            and (s, segments) not in self._refused
        ]
        if any(s not in self._integers for s in varying):
            return varying
        return [s for s in varying if self._is_worth_all(s)]

    def _is_worth_all(self, symbol: Symbol) -> bool:
        """Whether a size has cost as much as compiling all that does not depend on it.

        A new program is compiled as a whole. Most of it depends on the sizes of axes,
        while an integer may be that of a small segment behind a large one.
        """
        if self._plan is None:
            return True
        others = [s for s in self._plan.segments if symbol not in self._keys(s)]
        seconds = sum(self._seconds.get(s.index, 0.0) for s in others)
        return self._seen.lost[symbol] >= seconds

    def _policy_text(self, symbol: Symbol) -> str:
        """Say in words which policy a size has, and why."""
        count = len(self._seen.sizes.get(symbol, ()))
        why = f"took {count} sizes" if count > 1 else "beside it"
        return f"{self._names.get(symbol, symbol.name)} {why}: {self._policies[symbol]}"

    def _take_up_policies(self, symbols: list[Symbol], most: int) -> _Choice | None:
        """Take up policies for sizes: for all at once, or for one that can be padded.

        The program may have at most `most` segments. Where these sizes cannot be padded
        alone, the integers of the program are padded with them: an array of `k * n`
        elements has a capacity where both `k` and `n` have one. Integers that are
        computed from these sizes vary with them, and are padded at once.
        """
        tries = [symbols, *([s] for s in symbols)] if len(symbols) > 1 else [symbols]
        beside = [s for s in self._integers if s not in {*self._policies, *symbols}]
        following = [s for s in beside if _is_computed_from(s, symbols)]
        if len(beside) > len(following):
            tries.insert(1, [*symbols, *beside])
        if following:
            tries.insert(0, [*symbols, *following])
        if most > 1:  # a size that is read varies with those of its data
            taken = {*self._policies, *symbols}
            known = dict.fromkeys([*self._seen.sizes, *self._read_sizes()])
            read = [s for s in known if _is_count(s) and s not in taken]
            tries[:0] = [[*symbols, *read]] if read else []
        for some in tries if symbols else ():
            program = self._try_policies(self._choose_policies(some, symbols), most)
            if program is not None:
                return some, *program
        self._refused.update((s, most) for s in symbols)
        return None

    def _read_sizes(self) -> list[Symbol]:
        """Return the sizes that the program reads, seen or not."""
        steps = () if self._plan is None else self._plan.steps
        values = [step.value for step in steps if isinstance(step, Read)]
        symbols = [v.symbol for v in values if v.node.primitive is not BUCKET]
        return [self._originals.get(s, s) for s in symbols]

    def _try_policies(
        self, chosen: dict[Symbol, Policy], most: int
    ) -> tuple[Plan, Source] | None:
        """Take up policies for sizes, unless they make the program worse.

        They do where an op would need true sizes, or where there are more segments:
        these would be compiled for each capacity, and called each time.
        """
        policies = self._policies | chosen
        try:
            trial = self._pad(policies)
            if trial.cuts or (trial.prices and self._is_long(chosen)):
                return None
            program = self._compile(trial)
        except GraphError:
            return None
        if program[0].parts > most:
            return None
        self._policies = policies
        self._refused.clear()  # refused policies may do beside these
        return program

    def _is_long(self, symbols: Iterable[Symbol]) -> bool:
        """Whether work on a size of these takes longer than compiling for another."""
        longest = max(n for s in symbols for n in self._seen.sizes.get(s, ()))
        return longest > self._costs.cheap

    def _choose_policies(
        self, symbols: Iterable[Symbol], varying: Sequence[Symbol]
    ) -> dict[Symbol, Policy]:
        """Choose the policies for `symbols`, some of which are `varying`."""
        varies = {s: s in varying or _is_count(s) for s in symbols}
        chosen = {s: self._choose_policy(s, varies[s]) for s in varies}
        axes = [s for s in chosen if s in varying and s.origin is None]
        if len(axes) >= MANY and not self._is_long(axes):
            chosen |= self._seen.tied_policies(axes)
        if not any(s.origin is None for s in (*self._policies, *chosen)):
            return chosen | {s: self._narrowed(s, chosen[s]) for s in chosen}
        before = {s: p for s, p in self._policies.items() if type(p) in (Pad, Tied)}
        chosen = share_capacities(before | chosen, self._graph, self._costs)
        # Pairs of capacities, of an array and of a part of it, would ask for many
        # programs.
        taken = {s: p for s, p in self._policies.items() if isinstance(p, Narrow)}
        return {s: p.of_whole for s, p in taken.items()} | chosen

    def _narrowed(self, symbol: Symbol, policy: Policy) -> Policy:
        """Change the policy of an integer that cuts small parts out of arrays.

        A program for each of a few capacities is then worth the work that it saves in
        calls.
        """
        seen = self._seen.sizes.get(symbol)
        if symbol not in self._integers or _is_count(symbol) or not seen:
            return policy
        longest = max(self._cut_lengths(symbol), default=0)
        is_small = longest > self._costs.sparse * max(seen)
        if not is_small or longest <= self._costs.cheap:
            return policy
        return Narrow(minimum=self._seen.first_capacity(symbol))

    def _cut_lengths(self, symbol: Symbol) -> Iterator[int]:
        """Yield the largest that sizes cut by `symbol` can be, as last seen."""
        shapes = {v.type.shape for n in self._graph.nodes for v in n.outputs}
        for size in {size for shape in shapes for size in shape}:
            if not isinstance(size, Dim) or symbol not in size.symbols:
                continue
            if grows(size, [symbol]):
                continue
            most = largest(size, partial(_free_range, symbol))
            known = self._seen.last
            if most is not None and all(s in known for s in symbols_in(most)):
                yield evaluate(most, known)

    def _choose_policy(self, symbol: Symbol, varies: bool) -> Policy:
        """Choose the policy of a size; one that has not varied gets a near capacity."""
        seen = self._seen.sizes.get(symbol)
        capacities = Pad(minimum=self._seen.first_capacity(symbol) if varies else 1)
        if not _is_count(symbol):
            return capacities
        upper = symbol.upper
        if upper is None or not seen:
            return capacities if upper is None else Bound()
        known = [c for c in self._seen.calls if {symbol, *symbols_in(upper)} <= {*c}]
        pairs = [(evaluate(upper, c), c[symbol]) for c in known]
        try:
            pairs.append((evaluate(upper, self._seen.last), max(seen)))
        except GraphError:  # the bound has the size of a value outside of segments
            return Bound()
        near = any(most <= self._costs.sparse * size for most, size in pairs)
        return Bound() if near else capacities


def _free_range(free: Symbol, symbol: Symbol) -> SizeRange:
    """Return the range of a size: its own number, or anything for `free`."""
    size = symbol_dim(symbol)
    return UNKNOWN if symbol is free else SizeRange(size, size)


def _is_computed_from(symbol: Symbol, sizes: Container[Symbol]) -> bool:
    """Whether an integer is computed from these sizes, and from no argument."""
    if not isinstance(symbol.origin, Value):
        return False
    nodes = ancestors([symbol.origin])
    if any(node.primitive is INPUT for node in nodes):
        return False
    read = [n.params["size"] for n in nodes if n.primitive is SIZE_OP]
    return any(s in sizes for size in read for s in symbols_in(size))


def _is_count(symbol: Symbol) -> bool:
    """Whether a size is neither that of an axis nor an integer input."""
    origin = symbol.origin
    return isinstance(origin, Value) and origin.node.primitive is not INPUT
