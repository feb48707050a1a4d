"""The cost of a list of sizes, forecast before anything runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, NoReturn

import numpy as np

from graphc.control.trip_count import STEPS
from graphc.errors import graph_error, shortened
from graphc.ir.graph.build import as_size
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.sizes.dims import Dim, Size, Symbol, evaluate
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.policies import Pad
from graphc.transform.tied_sizes import KnownRooms, chosen_capacities

SizeValues = Mapping[Symbol, int]
SizesGiven = Sequence[int] | Mapping[int, int] | int


@dataclass(frozen=True)
class Forecast:
    """The compilations, padding, reads and memory that some calls will need.

    `segments` are the compilations of each segment. `waste` is the number of elements
    of all arguments at their capacities, for all calls, over that of the arguments as
    they are given. `reads` are integers read from the device per call. `unknown` are
    sizes that depend on data: a segment that is compiled for each of their values
    counts as compiled once per combination of known sizes. `memory` are the bytes that
    each device holds of the arguments and results of each segment, in the largest of
    the calls; arrays that XLA makes on the way come on top. It is None where these
    bytes depend on data. Under "auto", `segments` are those of each program in turn.
    With `tier="auto"` these are the most: a size that does not come often enough stays
    on NumPy.
    """

    compilations: int
    segments: tuple[int, ...]
    waste: float
    reads: int
    unknown: tuple[str, ...]
    memory: tuple[int | None, ...]


@dataclass(frozen=True)
class PlannedSizes:
    """The sizes that the segments of a plan are compiled for.

    `called` is the graph as it is called, `inputs` are the inputs of the graph that
    runs, and `keys` are the sizes that each segment is compiled for. `held` are the
    bytes of each segment's arguments and results on each device.
    """

    called: Graph
    inputs: Sequence[Value]
    padded: PaddedGraph | None
    keys: Sequence[Sequence[Symbol]]
    held: Sequence[Size]

    def calls(self, sizes: Mapping[str, SizesGiven]) -> list[dict[Symbol, int]]:
        """The sizes of each call. See `Plan.forecast`."""
        return _calls_of(self.called.argument_symbols, sizes, "forecast")

    def known(self, call: SizeValues, rooms: KnownRooms) -> dict[Symbol, int]:
        """The sizes of a call, with capacities, true sizes, and trip counts.

        `rooms` are the capacities of earlier calls; those of this call are added.
        """
        sizes = _known_sizes(self.padded, call, rooms)
        _add_steps(sizes, {s for symbols in self.keys for s in symbols})
        return sizes

    def true_elements(self, call: SizeValues) -> int:
        """The number of elements of all arguments."""
        return sum(_element_count(v, call) for v in self.called.inputs)

    def memory(self, calls: Sequence[SizeValues]) -> list[int | None]:
        """The most bytes each segment holds on a device, over calls of known sizes."""
        return [_largest_value(size, calls) for size in self.held]

    def elements(self, known: SizeValues) -> int:
        """The number of elements of all arguments at their capacities."""
        padded_inputs = self.inputs[: len(self.called.inputs)]
        return sum(_element_count(v, known) for v in padded_inputs)


def forecast(
    plan: PlannedSizes, reads: int, sizes: Mapping[str, SizesGiven]
) -> Forecast:
    """Forecast calls of a plan with these sizes, with nothing compiled before."""
    calls = plan.calls(sizes)
    rooms: KnownRooms = {}
    known = [plan.known(call, rooms) for call in calls]
    unknown: dict[str, None] = {}
    counts = []
    for symbols in plan.keys:
        known_symbols = [s for s in symbols if all(s in call for call in known)]
        unknown |= {s.name: None for s in symbols if s not in known_symbols}
        counts.append(len({tuple(call[s] for s in known_symbols) for call in known}))
    true, stored = sum(map(plan.true_elements, calls)), sum(map(plan.elements, known))
    waste = stored / true if true else 1.0
    memory = tuple(plan.memory(known))
    return Forecast(sum(counts), tuple(counts), waste, reads, tuple(unknown), memory)


def _largest_value(size: Size, calls: Sequence[SizeValues]) -> int | None:
    """The largest value of a size over the calls; None where some do not tell it."""
    if not isinstance(size, Dim):
        return size
    if any(s not in call for s in size.symbols for call in calls):
        return None
    return max((evaluate(size, call) for call in calls), default=0)


def sizes_of_calls(
    known: Iterable[Symbol | str], sizes: Mapping[str, SizesGiven], op: str
) -> list[dict[str, int]]:
    """The sizes of each call, by name, for `known` sizes: symbols, or only names."""
    symbols = [Symbol(s) if isinstance(s, str) else s for s in known]
    calls = _calls_of(symbols, sizes, op)
    return [{symbol.name: n for symbol, n in call.items()} for call in calls]


_UNNAMED = 'name sizes with gt.vector("x", shape=("n",)), or graphc.jit(shapes="n")'


def _as_integers(name: str, listed: Any, op: str) -> list[int] | int:
    """The sizes of calls as integers; a distribution repeats each size by its count."""
    try:
        if isinstance(listed, Mapping):
            return [index(n) for n, count in listed.items() for _ in range(count)]
        return [index(n) for n in listed] if np.ndim(listed) else index(listed)
    except TypeError:
        _refuse_sizes(op, listed, f"integers for {name}: [3, 4], {{3: 10, 4: 1}} or 3")


def _dict_entry_text(name: str) -> str:
    return f'"{name}": [...]'


def _refuse_sizes(op: str, got: object, expected: str) -> NoReturn:
    problem, shown = "these are not sizes of calls", shortened(repr(got))
    raise graph_error(problem, op=op, got=shown, expected=expected)


def _calls_of(
    symbols: Iterable[Symbol], listed: Mapping[str, SizesGiven], op: str
) -> list[dict[Symbol, int]]:
    by_name = {s.name: s for s in symbols}
    if not isinstance(listed, Mapping):
        _refuse_sizes(
            op, listed, "a dict, as {" + ", ".join(map(_dict_entry_text, by_name)) + "}"
        )
    sizes = {k: _as_integers(k, n, op) for k, n in listed.items()}
    wrong = sorted({*sizes} ^ {*by_name})
    if wrong:
        unknown = "is not a size of the arguments"
        problem = "is missing" if wrong[0] in by_name else unknown
        raise graph_error(
            f"{wrong[0]} {problem}",
            op=op,
            got=", ".join(sizes) or "no sizes",
            expected=", ".join(by_name) or "no sizes",
            hint="" if by_name else _UNNAMED,
        )
    for name, numbers in sizes.items():
        least = min([numbers] if isinstance(numbers, int) else numbers, default=0)
        if least < 0 and not isinstance(by_name[name].origin, Value):
            _refuse_sizes(op, least, f"{name} of at least 0")
    lengths = {len(n) for n in sizes.values() if not isinstance(n, int)}
    if len(lengths) > 1:
        raise graph_error(
            "the lists of sizes have different lengths",
            op=op,
            got=", ".join(map(str, sorted(lengths))),
        )
    count = lengths.pop() if lengths else 1
    return [
        {by_name[k]: n if isinstance(n, int) else n[i] for k, n in sizes.items()}
        for i in range(count)
    ]


def _known_sizes(
    padded: PaddedGraph | None, call: SizeValues, known_rooms: KnownRooms
) -> dict[Symbol, int]:
    """The sizes of a call, with capacities and true sizes segments are keyed by."""
    known = dict(call)
    if padded is None:
        return known
    known |= chosen_capacities(padded.rounded, call, known_rooms)
    for symbol, value in zip(padded.lengths, padded.true_sizes, strict=True):
        known[value.symbol] = call[symbol]
    for capacity, symbol in padded.stored_as.items():  # those of integer arguments
        chosen = padded.policies.get(symbol)
        if symbol in call and isinstance(chosen, Pad):
            known.setdefault(capacity, chosen.capacity(call[symbol]))
    return known


def _add_steps(call: dict[Symbol, int], symbols: Iterable[Symbol]) -> None:
    """Add the trip counts that follow from the sizes of a call."""
    for symbol in symbols:
        counted = symbol.origin
        if isinstance(counted, Value) and counted.node.primitive is STEPS:
            steps = as_size(counted.node.inputs[0])
            if isinstance(steps, int) or all(s in call for s in steps.symbols):
                call[symbol] = evaluate(steps, call)


def _element_count(value: Value, sizes: SizeValues) -> int:
    return evaluate(value.type.size, sizes)
