"""Storage: the capacities of axes, and their true sizes in a padded graph."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from graphc.analysis.binding_time import is_known_on_host
from graphc.errors import GraphError, SourceLocation, graph_error, standing_at
from graphc.ir.graph.bodies import axis_symbols, bodies_in
from graphc.ir.graph.build import as_size, as_value, size_value, variable
from graphc.ir.graph.nodes import Guard, Node, Params, Value
from graphc.ir.graph.op import infer_types
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute, symbol_dim, symbols_in
from graphc.ir.sizes.divisors import with_nonzero_divisors
from graphc.ir.sizes.growth import grows
from graphc.ir.sizes.names import CAPACITY, shown_name
from graphc.ir.sizes.ranges import UNKNOWN, SizeRange, largest
from graphc.ir.types import INT32, TensorType, same_size
from graphc.ops.effects.capacities import BUCKET, bucketed
from graphc.transform.padding.guards import guards_of
from graphc.transform.padding.inner_sizes import InnerSizes
from graphc.transform.policies import Narrow, Pad, Policy
from graphc.transform.sharding.shards import refuse_one_number, shared_shard

MOST_COMPARED = 12  # the most sizes, and terms of a size, that are compared with others
MOST_BOUND = 64  # a size that need not grow is stored at its bound, up to this bound


class Storage:
    """The true size and the capacity of each symbol of the original graph.

    `lengths` are the inputs that give the true sizes of padded axes, `capacities` the
    symbols of the capacities of these axes, and `inner` the other sizes whose
    capacities are inputs. `storage_symbols` are all symbols of the padded graph that
    replace a size or a capacity, `stepwise` the symbols of sizes that differ from step
    to step.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        asked: Collection[Symbol],
        policies: dict[Symbol, Policy],
        place: SourceLocation,
    ) -> None:
        self.policies = policies
        self.inner = InnerSizes(asked)
        self.capacities: dict[Symbol, Symbol] = {}
        self.lengths: dict[Symbol, Value] = {}
        self.storage_symbols: set[Symbol] = set()
        self.stepwise: set[Symbol] = set()
        self._true_sizes: dict[Symbol, Size] = {}
        self._capacity: dict[Symbol, Size] = {}
        self._stored_sizes: dict[Dim, tuple[Size, bool]] = {}
        self._representatives: dict[Dim, Dim] = {}
        self._compared_sizes: dict[tuple[Symbol, ...], list[tuple[Dim, Size]]] = {}
        self._entered: dict[Symbol, tuple[Size, Size, bool]] = {}  # for sizes of bodies
        self._inner_ranges: dict[Symbol, SizeRange] = {}  # for sizes computed in bodies
        self._limits: dict[Symbol, SizeRange] = {}  # for symbols of the padded graph
        self._groups: dict[Dim, list[Dim]] = {}  # sizes that a guard needs equal
        self._of_steps: set[Symbol] = set()  # the sizes of bodies with such guards
        self._least: dict[Symbol, int] = {}  # elements that steps of loops need
        self._join_equal_sizes(nodes)
        same = self._equal_sizes(nodes)
        for symbol, policy in list(policies.items()):
            first = same.get(symbol, symbol)
            if symbol.origin is None and first not in self._capacity:
                self._pad_axis(first, policy, place)
        for symbol, first in same.items():
            if first in self._capacity:
                self._capacity[symbol] = self._capacity[first]
                self._true_sizes[symbol] = self._true_sizes[first]

    def _equal_sizes(self, nodes: Iterable[Node]) -> dict[Symbol, Symbol]:
        """Let axes that a guard needs equal share a capacity; a fixed axis has none.

        The result maps each symbol to the one whose capacity it shares. An axis is
        fixed where a guard needs it equal to a number.
        """
        groups: dict[Symbol, list[Symbol]] = {}
        fixed: dict[Symbol, Node] = {}
        for guard, node in guards_of(nodes):
            axes = axis_symbol(guard.left), axis_symbol(guard.right)
            together = dict.fromkeys(s for s in axes if s is not None)
            if guard.relation != "==":
                self._note_least(guard)
                continue
            if isinstance(guard.left, int) or isinstance(guard.right, int):
                fixed |= dict.fromkeys(together, node)
            elif len(together) == 2:
                either = {s for one in together for s in groups.get(one, [one])}
                joined = sorted(either, key=attrgetter("serial"))
                groups.update(dict.fromkeys(joined, joined))
        for symbol, joined in groups.items():
            self._least[symbol] = max(self._least.get(s, 0) for s in joined)
            policies = [self.policies[s] for s in joined if s in self.policies]
            if policies:
                self.policies.setdefault(symbol, policies[0])
            shard = shared_shard(policies, joined)
            if shard is not None:
                self.policies[symbol] = shard
            asking = next((fixed[s] for s in joined if s in fixed), None)
            if asking is not None:
                fixed |= dict.fromkeys(joined, asking)
        for symbol, node in fixed.items():
            refuse_one_number(symbol, self.policies.pop(symbol, None), node)
        return {symbol: joined[0] for symbol, joined in groups.items()}

    def _note_least(self, guard: Guard) -> None:
        """Note how many elements of an axis the steps of a loop need, if any run.

        The capacity has room for as many also where no step runs, as in `row[20]` for
        a matrix without rows: so the body fits, and the axis may be shorter.
        """
        symbol, least = axis_symbol(guard.right), guard.left
        if (
            symbol is not None
            and isinstance(least, int)
            and isinstance(guard.steps, Dim)
        ):
            self._least[symbol] = max(self._least.get(symbol, 0), least)

    def _join_equal_sizes(self, nodes: Iterable[Node]) -> None:
        """Group the sizes that guards need equal, where at least one is not an axis.

        Loops whose sizes differ from step to step check their guards in the steps;
        these guards count too.
        """
        nodes = list(nodes)
        guards = [guard for guard, _ in guards_of(nodes)]
        stepwise = [body for body in bodies_in(nodes) if body.computed_sizes]
        for body in stepwise:
            self._of_steps |= {*axis_symbols(body.inputs), *body.size_params}
        guards += [guard for b in stepwise for node in b.nodes for guard in node.guards]
        for guard in guards:
            a, b = guard.left, guard.right
            if guard.relation != "==" or isinstance(a, int) or isinstance(b, int):
                continue
            if axis_symbol(a) is not None and axis_symbol(b) is not None:
                continue
            either = self._groups.get(a, [a]) + self._groups.get(b, [b])
            joined = sorted(dict.fromkeys(either), key=lambda n: (n.weight, str(n)))
            self._groups.update((n, joined) for n in joined)

    def _pad_axis(self, symbol: Symbol, policy: Policy, place: SourceLocation) -> None:
        self.policies[symbol] = policy
        room = least_capacity(policy, self._least.get(symbol, 0))
        least = max(room, symbol.lower or 0)
        capacity = Symbol(f"{shown_name(symbol)}{CAPACITY}", lower=least)
        with standing_at(place):
            length = variable(symbol.name, TensorType(INT32, ()))
        length._symbol = Symbol(symbol.name, length, 0, symbol_dim(capacity))
        self.capacities[symbol] = capacity
        self.lengths[symbol] = length
        self._record_storage(symbol, symbol_dim(length.symbol), symbol_dim(capacity))

    def enter(self, sizes: Mapping[Symbol, Size]) -> None:
        """Enter a body: its sizes stand for the sizes that a node gives it."""
        entries = {s: (self.exact(n), *self.storage_of(n)) for s, n in sizes.items()}
        old, both = self._entered, self._entered.keys() & entries.keys()
        if not all(_are_same_entries(old[s], entries[s]) for s in both):
            self._clear_caches()
        self._entered |= entries
        for symbol, (exact, capacity, padded) in entries.items():
            self._true_sizes[symbol] = exact
            self._capacity.pop(symbol, None)
            self._inner_ranges.pop(symbol, None)
            if padded:
                self._capacity[symbol] = capacity
            elif self.has_ragged(sizes[symbol]):
                self._inner_ranges[symbol] = UNKNOWN

    def _record_storage(self, symbol: Symbol, exact: Size, capacity: Size) -> None:
        self._true_sizes[symbol], self._capacity[symbol] = exact, capacity
        self.storage_symbols.update(symbols_in(exact), symbols_in(capacity))
        if isinstance(exact, Dim) and exact.is_symbol:
            self._limits[exact.symbols[0]] = SizeRange(symbol.lower, capacity)

    def record_step(self, value: Value, new: Value, within: SizeRange) -> None:
        """Record that `value` serves as a size within a body, and lies in a range.

        Its capacity is known outside of the body. Where it has none, a policy may
        choose one in each step.
        """
        symbol = value.symbol
        low = None if within.low is None else dims.bounds(within.low)[0]
        lows = [n for n in (low, symbol.lower) if n is not None]
        low = max(lows, default=None)
        if new._symbol is None:
            new._symbol = Symbol(symbol.name, new, low, within.high)
        exact = as_size(new)
        self.stepwise.update(s for s in symbols_in(exact) if s is new._symbol)
        self._clear_caches()
        high = None if within.high is None else largest(within.high, self._limit_of)
        self._inner_ranges[symbol] = SizeRange(low, high)
        if high is None:
            self.record_value(value, new)
        else:
            self._record_storage(symbol, exact, high)

    def _limit_of(self, symbol: Symbol) -> SizeRange:
        size = symbol_dim(symbol)
        return self._limits.get(symbol, SizeRange(size, size))

    def record_value(self, value: Value, new: Value) -> None:
        """Record that `value`, which serves as a size, is `new` in the padded graph."""
        symbol = value.symbol
        self._true_sizes[symbol] = as_size(new)
        policy = self.policies.get(symbol)
        if policy is not None:
            capacity = self._value_capacity(value, new, policy)
            self._record_storage(symbol, self._true_sizes[symbol], capacity)

    def _value_capacity(self, value: Value, new: Value, policy: Policy) -> Size:
        symbol = value.symbol
        upper = None if symbol.upper is None else self.stored(symbol.upper)
        if isinstance(policy, Pad):
            bucket = self._shared_capacity(symbol_dim(symbol), policy)
            if bucket is None:
                bucket = as_size(bucketed(new, policy.capacities))
            return bucket if upper is None else dims.minimum(bucket, upper)
        if upper is None:
            raise graph_error(
                f"no bound is known for the size {shown_name(symbol)}",
                op="function",
                got=f"dims {shown_name(symbol)}: Bound()",
                hint="give Pad(), or let it be specialized",
                where=value.node.place,
            )
        return upper

    def exact(self, size: Size) -> Size:
        """A true size in terms of sizes known in the padded graph."""
        return substitute(size, self._true_sizes)

    @property
    def originals(self) -> dict[Symbol, Symbol]:
        """The original symbol of each symbol of the padded graph."""
        return {
            new.symbols[0]: old
            for old, new in self._true_sizes.items()
            if old not in self._entered and isinstance(new, Dim) and new.is_symbol
        }

    @property
    def stored_as(self) -> dict[Symbol, Symbol]:
        """The original symbol of each symbol that is a capacity."""
        originals: dict[Symbol, Symbol] = {}
        for old, new in self._capacity.items():
            if old in self._entered:
                continue
            for symbol in symbols_in(new):
                if symbol.name.endswith(CAPACITY):
                    originals.setdefault(symbol, old)
        return originals

    def is_known(self, size: Size) -> bool:
        """Whether a stored size is known on the host before it is used.

        It then depends only on arguments, or on capacities that the host chooses.
        """
        values = [s for s in symbols_in(size) if s not in self.capacities.values()]
        return all(_is_argument(s) or _is_capacity(s) for s in values)

    def number(self, symbol: Symbol) -> Size:
        """The true size of a symbol."""
        return self._true_sizes[symbol]

    def stored(self, size: Size) -> Size:
        """The stored size of an axis whose true size is `size`."""
        return self.storage_of(size)[0]

    def storage_of(self, size: Size) -> tuple[Size, bool]:
        """The stored size, and whether it includes padding."""
        if not isinstance(size, Dim):
            return size, False
        if size not in self._stored_sizes:
            self._stored_sizes[size] = self._stored_of(self._representative(size))
        return self._stored_sizes[size]

    def has_room(self, size: Size) -> bool:
        """Whether the stored size of an axis of this size is known.

        A size that a guard needs equal to a size without padding is stored at that
        size.
        """
        if not self.has_ragged(size) or self.storage_of(size)[1]:
            return True
        return isinstance(size, Dim) and not self.has_ragged(self._representative(size))

    def _clear_caches(self) -> None:
        """Drop cached results, since the sizes of bodies have changed."""
        self._stored_sizes.clear()
        self._compared_sizes.clear()

    def _representative(self, size: Dim) -> Dim:
        """The size whose capacity serves all sizes that guards need equal to this one.

        It is chosen among the sizes known so far. Axes of inputs keep their own
        capacity.
        """
        if axis_symbol(size) is not None:
            return size
        group = self._groups.pop(size, None)
        if group is not None:
            settled = [n for n in group if all(map(self._is_settled, n.symbols))]
            chosen = min(settled, key=self._preference, default=size)
            for n in group:
                self._groups.pop(n, None)
                self._representatives[n] = chosen
        representative = self._representatives.get(size, size)
        return representative if representative is not size else self._first_equal(size)

    def _first_equal(self, size: Dim) -> Dim:
        """The first of the short sizes that are provably equal to this one.

        For a size that differs from step to step the true size is compared, since more
        is known of it: `x[:t]` has t elements where t counts up to the size of `x`.
        """
        if size.weight > MOST_COMPARED:
            return size
        compared: Size = size
        if any(s in self._inner_ranges or s in self._entered for s in size.symbols):
            compared = self.exact(size)
        compared_sizes = self._compared_sizes.setdefault(symbols_in(compared), [])
        pairs = (
            n for n, other in compared_sizes if dims.equal(other, compared) is True
        )
        equal = next(pairs, None)
        if equal is None and len(compared_sizes) < MOST_COMPARED:
            compared_sizes.append((size, compared))
        return size if equal is None else equal

    def _is_settled(self, symbol: Symbol) -> bool:
        """Whether a size is known here: those of bodies are once these are entered."""
        is_of_inputs = symbol.origin is None and symbol not in self._of_steps
        return is_of_inputs or symbol in self._true_sizes

    def _preference(self, size: Dim) -> tuple[bool, bool, int]:
        """Prefer axes, which have capacities anyway; others are more to compile."""
        stored, _ = self._stored_of(size)
        further_symbols = set(symbols_in(stored)) - set(self.capacities.values())
        return axis_symbol(size) is None, bool(further_symbols), size.weight

    def layout(self, type: TensorType) -> tuple[tuple[Size, ...], frozenset[int]]:
        """The shape at which values of a type are stored, and its padded axes."""
        stored = [self.storage_of(n) for n in type.shape]
        axes = frozenset(i for i, (_, padded) in enumerate(stored) if padded)
        return tuple(size for size, _ in stored), axes

    def _stored_of(self, size: Dim) -> tuple[Size, bool]:
        ragged = [s for s in size.symbols if self.is_ragged(s)]
        if not ragged:
            return self.exact(size), False
        stored = substitute(size, self._true_sizes | self._capacity)
        within = [self._inner_ranges[s] for s in ragged if s in self._inner_ranges]
        grown = grows(size, ragged) and all(s in self._capacity for s in ragged)
        if grown and not within:
            return stored, True
        most = dims.bounds(size)[1]
        if most is not None and most <= MOST_BOUND:  # for example n % 2
            return most, True
        high = stored if grown and UNKNOWN not in within else None
        high = largest(size, self._range_of_symbol) if high is None else high
        if high is not None:
            part = None if within else self._part_capacity(size, high, ragged)
            if part is not None:
                return part, True
            # When a body runs, its sizes are at least their bounds, whatever the sizes
            # outside.
            least = max(dims.bounds(size)[0] or 0, 0)
            return (dims.maximum(least, high) if within else high), True
        if grown:
            return stored, True
        pads = [self.policies.get(s) for s in ragged]
        pad = next((p for p in pads if isinstance(p, Pad)), None)
        exact = self.exact(size)
        if pad is None or not self.stepwise.isdisjoint(symbols_in(exact)):
            return exact, False
        chosen = self._shared_capacity(size, pad)
        return (self._rounded_capacity(exact, pad) if chosen is None else chosen), True

    def _part_capacity(
        self, size: Dim, high: Size, ragged: Sequence[Symbol]
    ) -> Size | None:
        """The capacity of a part, up to `high`, that an integer cuts out of an array.

        None if its policy is that of the array, or if the host does not know the size.
        """
        policies = map(self.policies.get, ragged)
        narrow = next((p for p in policies if isinstance(p, Narrow)), None)
        exact = self.exact(size)
        if narrow is None or not self.is_known(exact):
            return None
        safe = with_nonzero_divisors(exact)  # a guard reports a divisor of 0
        bucket = as_size(bucketed(as_value(size_value(safe)), narrow.capacities))
        self.storage_symbols.update(symbols_in(bucket))
        return dims.minimum(bucket, high)

    def _shared_capacity(self, size: Dim, policy: Pad) -> Size | None:
        """The capacity of a size if chosen together with that of others, else None."""
        capacity = self.inner.capacity(size, policy, self.exact)
        self.storage_symbols.update(() if capacity is None else symbols_in(capacity))
        return capacity

    def _rounded_capacity(self, size: Size, pad: Pad) -> Size:
        """The capacity of a size that need not grow with the sizes it depends on."""
        capacities = pad.of_computed.capacities
        # One capacity where the axes have one: else sizes of both kinds would multiply.
        pairs = self.lengths.items()
        stored = {v.symbol: symbol_dim(self.capacities[s]) for s, v in pairs}
        size = with_nonzero_divisors(size)  # a guard reports a divisor of 0
        size = dims.maximum(size, substitute(size, stored))
        bucket = as_size(bucketed(as_value(size_value(size)), capacities))
        self.storage_symbols.update(symbols_in(bucket))
        return bucket

    def _range_of_symbol(self, symbol: Symbol) -> SizeRange:
        """The range of sizes of a symbol in the padded graph."""
        if symbol in self._inner_ranges:
            return self._inner_ranges[symbol]
        if self.is_ragged(symbol):
            return SizeRange(symbol.lower, self._capacity[symbol])
        exact = self.exact(symbol_dim(symbol))
        return SizeRange(exact, exact)

    def is_ragged(self, symbol: Symbol) -> bool:
        """Whether axes of this size are padded."""
        return symbol in self._capacity or symbol in self._inner_ranges

    def has_ragged(self, size: object) -> bool:
        """Whether a size depends on one that is padded."""
        return any(map(self.is_ragged, symbols_in(size)))


def _are_same_entries(
    before: tuple[Size, Size, bool], now: tuple[Size, Size, bool]
) -> bool:
    """Whether a size of a body stands for the same sizes as before."""
    return before[2] == now[2] and all(map(same_size, before[:2], now[:2]))


def is_of_integers(guard: Guard) -> bool:
    """Whether a guard depends on integers of the program, and not on axes alone."""
    symbols = [*symbols_in(guard.left), *symbols_in(guard.right)]
    return any(symbol.origin is not None for symbol in symbols)


def problem_at_capacities(node: Node, inputs: Sequence[Value], params: Params) -> str:
    """Say why an op does not fit inputs at capacities; "" where it does.

    Equal sizes may have different capacities.
    """
    try:
        infer_types(node.primitive, tuple(inputs), params)
    except GraphError as error:
        return str(error.args[0]).splitlines()[0]
    return ""


def _is_argument(symbol: Symbol) -> bool:
    """Whether a number is known before anything runs on the device."""
    origin = symbol.origin
    if not isinstance(origin, Value):
        return True
    return is_known_on_host(origin)


def _is_capacity(symbol: Symbol) -> bool:
    origin = symbol.origin
    return isinstance(origin, Value) and origin.node.primitive is BUCKET


def axis_symbol(size: Size) -> Symbol | None:
    """The symbol of a size that is an axis by itself; else None."""
    if isinstance(size, Dim) and size.is_symbol and size.symbols[0].origin is None:
        return size.symbols[0]
    return None


def least_capacity(policy: Policy, size: int = 0) -> int:
    """The least capacity with room for `size`, or the least at all if none has."""
    try:
        return policy.capacity(size) if isinstance(policy, Pad) else 1
    except ValueError:
        return least_capacity(policy)
