"""Tables of what nodes refer to: types, sizes, symbols and lines, each written once."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from graphc.control.trip_count import STEPS
from graphc.errors import SourceLocation, printable
from graphc.ir.graph.bodies import BodyCall
from graphc.ir.graph.build import INPUT, as_size
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Dim, Size, Symbol, equal
from graphc.ir.sizes.names import shown_name
from graphc.ir.sizes.polynomials import Call, calls_in, polynomial
from graphc.ir.types import TensorType, name_of
from graphc.ops.effects.capacities import BUCKET, Capacities, is_capacity
from graphc.show.records import (
    CapacityRecord,
    LineRecord,
    SizeFactor,
    SizeRecord,
    SizeRef,
    SymbolRecord,
    TypeRecord,
)
from graphc.transform.planning.plan import Plan
from graphc.transform.policies import Pad, Policy

MOST_WEIGHT = 200  # terms up to which a size is written as data
RecordT = TypeVar("RecordT")


class Table(Generic[RecordT]):
    """Records in the order in which they were first asked for."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self._places: dict[Hashable, int] = {}

    def find(self, key: Hashable) -> int | None:
        """Return the place of a record; None where there is none yet."""
        return self._places.get(key)

    def reserve(self, key: Hashable) -> int:
        """Reserve a place for a record that is put there later."""
        place = self._places[key] = len(self.records)
        self.records.append(None)
        return place

    def add(self, key: Hashable, record: RecordT) -> int:
        """Add a new record, and return its place."""
        place = self.reserve(key)
        self.records[place] = record
        return place


class Tables:
    """The tables of one plan, to be filled while the names of its sizes are shown."""

    def __init__(self, plan: Plan) -> None:
        self.lines: Table[LineRecord] = Table[LineRecord]()
        self.types: Table[TypeRecord] = Table[TypeRecord]()
        self.symbols: Table[SymbolRecord] = Table[SymbolRecord]()
        self.sizes: dict[str, SizeRecord] = {}
        self._keys: dict[Size, str] = {}
        self.value: Callable[[Value], int]  # set by the table of values
        padded = plan.padded
        self._policies: Mapping[Symbol, Policy] = padded.policies if padded else {}
        self._inner: dict[Symbol, Size | None] = {}
        self._stored: dict[Symbol, Symbol] = {}
        self._true: dict[Symbol, Symbol] = {}
        self._same = {new: old for new, old in plan.originals.items() if new is not old}
        if padded is not None:
            self._stored |= padded.stored_as
            self._stored |= {new: old for old, new in padded.capacities.items()}
            for new, old in padded.originals.items():
                if new is not old:
                    of_padded = old in padded.capacities
                    (self._true if of_padded else self._same).setdefault(new, old)

    def line(self, place: SourceLocation) -> int:
        """Return the place of a line of the user's code."""
        key = place.filename, place.line
        known = self.lines.find(key)
        if known is not None:
            return known
        file = str(place).rsplit(":", 1)[0]
        return self.lines.add(key, LineRecord(file, place.line, printable(place.code)))

    def type(self, type: TensorType) -> int:
        """Return the place of a type."""
        key = type.dtype, type.shape, type.weak
        known = self.types.find(key)
        if known is not None:
            return known
        shape = tuple([self.size(n) for n in type.shape])
        return self.types.add(key, TypeRecord(name_of(type.dtype), shape, str(type)))

    def size(self, size: Size) -> SizeRef:
        """Return a size that is a number, or the key of a size."""
        if isinstance(size, int):
            return int(size)
        if size not in self._keys:
            if size.weight <= MOST_WEIGHT:
                for call in calls_in(size):  # calls come after those in their arguments
                    for part in call.formulas:
                        self._add(part, self._terms(part))
                self._add(size, self._terms(size))
            else:
                self._add(size, None)
        return self._keys[size]

    def _add(
        self, size: Size, terms: tuple[tuple[int, tuple[SizeFactor, ...]], ...] | None
    ) -> None:
        if size not in self._keys:
            key = self._keys[size] = f"s{len(self._keys)}"
            self.sizes[key] = SizeRecord(str(size), terms)

    def _terms(self, size: Size) -> tuple[tuple[int, tuple[SizeFactor, ...]], ...]:
        return tuple(
            (c, tuple([self._factor(atom) for atom in monomial]))
            for monomial, c in polynomial(size).items()
        )

    def _factor(self, atom: Symbol | Call) -> SizeFactor:
        if isinstance(atom, Symbol):
            return self.symbol(atom)
        return atom.op, tuple([self.size(n) for n in atom.args])

    def symbol(self, symbol: Symbol) -> int:
        """Return the place of a symbol."""
        known = self.symbols.find(symbol)
        if known is None:
            known = self.symbols.reserve(symbol)
            self.symbols.records[known] = self._symbol(symbol)
        return known

    def _symbol(self, symbol: Symbol) -> SymbolRecord:
        name = shown_name(symbol)
        for kind, others in (
            ("capacity", self._stored),
            ("true size", self._true),
            ("same", self._same),
        ):
            old = others.get(symbol)
            if old is not None:
                capacity = self._capacity(symbol, old) if kind == "capacity" else None
                at = self._value(symbol)
                return SymbolRecord(name, kind, at, self.symbol(old), capacity=capacity)
        if symbol in self._inner:
            return SymbolRecord(name, "inner", formula=self._formula(symbol))
        return self._origin(symbol, name)

    def _formula(self, symbol: Symbol) -> SizeRef | None:
        size = self._inner[symbol]
        return None if size is None else self.size(size)

    def enter(self, call: BodyCall) -> None:
        """Take up the sizes of a graph inside a node, before its types are recorded."""
        for symbol, size in call.sizes.items():
            if isinstance(size, Dim) and symbol in size.symbols:
                continue
            known = self._inner.setdefault(symbol, size)
            if known is not None and not equal(known, size):
                self._inner[symbol] = None
                at = self.symbols.find(symbol)
                if at is not None:
                    record = self.symbols.records[at]
                    self.symbols.records[at] = replace(record, formula=None)

    def _capacity(self, symbol: Symbol, old: Symbol) -> CapacityRecord | None:
        """Tell how a capacity is chosen: by the op that computes it, or by a policy."""
        origin, policy = symbol.origin, self._policies.get(old)
        if isinstance(origin, Value) and origin.node.primitive is BUCKET:
            return _record(origin.node.params["capacities"])
        return _record(policy) if isinstance(policy, Pad) else None

    def _origin(self, symbol: Symbol, name: str) -> SymbolRecord:
        policy = str(self._policies[symbol]) if symbol in self._policies else ""
        upper = None if symbol.upper is None else self.size(symbol.upper)
        origin, at = symbol.origin, self._value(symbol)
        if not isinstance(origin, Value):
            return SymbolRecord(name, "axis", upper=upper, policy=policy)
        primitive = origin.node.primitive
        if primitive is STEPS:
            formula = self.size(as_size(origin.node.inputs[0]))
            return SymbolRecord(name, "steps", at, formula=formula, policy=policy)
        is_given = primitive is INPUT and not is_capacity(symbol)
        kind = "argument" if is_given else "count"
        return SymbolRecord(name, kind, at, upper=upper, policy=policy)

    def _value(self, symbol: Symbol) -> int | None:
        """Return the value whose number a symbol is."""
        origin = symbol.origin
        return self.value(origin) if isinstance(origin, Value) else None


def _record(pad: Pad | Capacities) -> CapacityRecord:
    return CapacityRecord(
        pad.growth, pad.minimum, pad.buckets, pad.multiple, pad.open_ended
    )
