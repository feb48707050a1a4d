"""The data of a picture: the schema of `f.plan.to_json()`, version 1.

Values, lines, types and symbols stand in lists, and are referred to by their places
there; sizes stand in a dict, by keys of their own. docs/show.md explains each field.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace

SCHEMA, VERSION = "graphc.plan", 1

SizeRef = int | str  # a number, or a key of `sizes`
SizeFactor = int | tuple[str, tuple[SizeRef, ...]]  # a symbol, or a function of sizes


@dataclass(frozen=True, slots=True)
class SizeRecord:
    """A size as a sum of products; `terms` is None where there are too many to list.

    A term is a coefficient and its factors. A factor is a symbol, or a function and its
    arguments; functions are `//`, `*`, `min`, `max`, `clip` (an index, a size) and
    `stretch`.
    """

    text: str
    terms: tuple[tuple[int, tuple[SizeFactor, ...]], ...] | None


@dataclass(frozen=True, slots=True)
class CapacityRecord:
    """How a size is padded, in the fields of `graphc.Pad`."""

    growth: float
    minimum: int
    buckets: tuple[int, ...]
    multiple: int
    open_ended: bool


@dataclass(frozen=True, slots=True)
class SymbolRecord:
    """An integer that sizes are made of.

    `kind` is "axis" (known from a shape), "argument" (an integer that is passed),
    "count" (known once the data are), "capacity" or "true size" (both `of` another
    symbol, whose number decides it), "same" (it stands for another symbol, `of`),
    "steps" (it follows by `formula`) or "inner" (it belongs to the graph inside a node,
    and follows by `formula` unless nodes with different sizes share that graph).
    `value` is the value whose number the symbol is, if there is one.
    """

    name: str
    kind: str
    value: int | None = None
    of: int | None = None
    formula: SizeRef | None = None
    upper: SizeRef | None = None
    policy: str = ""
    capacity: CapacityRecord | None = None


@dataclass(frozen=True, slots=True)
class LineRecord:
    """A line of the user's code."""

    file: str
    line: int
    code: str


@dataclass(frozen=True, slots=True)
class TypeRecord:
    """A dtype and a shape."""

    dtype: str
    shape: tuple[SizeRef, ...]
    text: str


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """A value, which `node` makes unless it is an argument or a literal."""

    name: str
    type: int
    node: int | None = None
    literal: str = ""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """An op applied to values; `bodies` are the nodes of the graphs inside it."""

    op: str
    line: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: str = ""
    bodies: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step of a plan: a part that is compiled, or glue between such parts.

    `kind` is "segment", "read" (the integer that `keys` names is read from the device),
    "host" (runs on the host), "check", "join" (pieces become one array), "loop" (run by
    Python; `steps` are those of its body) or "program" (the whole plan, where nothing
    is compiled).
    """

    kind: str
    reason: str
    line: int | None
    nodes: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    segment: int | None = None
    keys: tuple[int, ...] = ()
    statics: tuple[int, ...] = ()
    remedy: str = ""
    text: str = ""
    steps: "tuple[StepRecord, ...]" = ()

    @property
    def title(self) -> str:
        """The kind of step, with the number of a segment."""
        return self.kind if self.segment is None else f"{self.kind} {self.segment}"


@dataclass(frozen=True, slots=True)
class SizeCheckRecord:
    """A relation of sizes that each call is checked for."""

    left: SizeRef
    relation: str
    right: SizeRef
    text: str
    reason: str
    op: str
    line: int


@dataclass(frozen=True, slots=True)
class CompilationRecord:
    """A compilation for `sizes`, by name; `keys` are pairs of a symbol and its number.

    `calls` is the number of calls that have run it, None where nobody has counted.
    """

    segment: int
    seconds: float
    reason: str
    sizes: dict[str, int]
    keys: tuple[tuple[int, int], ...]
    calls: int | None


@dataclass(frozen=True, slots=True)
class RewriteRecord:
    """A rule that was applied `count` times in a row with the same texts."""

    rule: str
    about: str
    exact: bool
    line: int
    before: str
    after: str
    count: int


@dataclass(frozen=True, slots=True)
class PredicateRecord:
    """A fact about sizes that a program is for, on which Python code has branched."""

    text: str
    left: SizeRef
    relation: str
    right: SizeRef
    answer: bool


@dataclass(frozen=True, slots=True)
class ProgramRecord:
    """One program of a function: its plan, what it was made of, and what it has done.

    `serves` says which calls the program is for.
    """

    name: str
    backend: str
    compiled: bool
    serves: str
    calls: int | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    static_inputs: tuple[int, ...]
    symbols: tuple[SymbolRecord, ...]
    sizes: dict[str, SizeRecord]
    lines: tuple[LineRecord, ...]
    types: tuple[TypeRecord, ...]
    values: tuple[ValueRecord, ...]
    nodes: tuple[NodeRecord, ...]
    steps: tuple[StepRecord, ...]
    size_checks: tuple[SizeCheckRecord, ...]
    compilations: tuple[CompilationRecord, ...]
    rewrites: tuple[RewriteRecord, ...]
    predicates: tuple[PredicateRecord, ...]
    notes: tuple[str, ...]
    source: str

    def typed_name(self, value: int) -> str:
        """Return the name and the type of a value, and whether it is static."""
        record = self.values[value]
        static = " static" * (value in [self.inputs[i] for i in self.static_inputs])
        return f"{record.name}: {self.types[record.type].text}{static}"

    def names_of(self, symbols: Iterable[int]) -> str:
        """Return the names of symbols, in one text."""
        return ", ".join([self.symbols[s].name for s in symbols])

    def to_plain(self) -> dict[str, object]:
        """Return the record as dicts and lists, without its long parts."""
        bare = replace(self, steps=(), nodes=(), values=(), lines=(), source="")
        return asdict(bare)


@dataclass(frozen=True, slots=True)
class PictureRecord:
    """The data of a picture."""

    title: str
    graphc: str
    calls: int
    programs: tuple[ProgramRecord, ...]
    notes: tuple[str, ...] = ()
    schema: str = field(default=SCHEMA, init=False)
    version: int = field(default=VERSION, init=False)

    def to_dict(self) -> dict[str, object]:
        """Return the record as the dicts and lists that JSON has."""
        return asdict(self)
