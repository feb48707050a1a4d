"""Decisions about sizes, as a text that other processes start from.

A function that adapts ends with a policy for each size that varies. Another process
that starts from these policies, written to a file, compiles nothing of what the first
one compiled on the way to them. The file is a few lines of JSON, which can be read and
merged.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from graphc.errors import GraphError, graph_error, in_number, shortened
from graphc.ir.called_first import NotCalled
from graphc.runtime.cache.whole_files import StrPath, write_whole
from graphc.transform.policies import Bound, Narrow, Pad, Policy
from graphc.transform.tied_sizes import Tied

TITLE, FORMAT = "graphc decisions", 1
LARGEST = 2**26  # bytes of a file that is read
_PADS = {"pad": Pad, "tied": Tied, "narrow": Narrow}


@dataclass(frozen=True)
class DecidedInput:
    """An argument: its dtype, and its sizes by numbers and names."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    weak: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class DecidedSize:
    """A size: its policy, None to take it as it comes, and what was compiled for it."""

    policy: Policy | None = None
    sizes: frozenset[int] = frozenset()
    capacities: frozenset[int] = frozenset()

    def merged(self, other: "DecidedSize") -> "DecidedSize":
        """Merge both: a size varies if it varies in one of them."""
        return DecidedSize(
            self.policy or other.policy,
            self.sizes | other.sizes,
            self.capacities | other.capacities,
        )


@dataclass(frozen=True)
class DecidedProgram:
    """The decisions of one program, which its function and its inputs identify.

    `predicates` are the facts about sizes that the program is for. `seconds` is the
    median time of its `compilations`.
    """

    inputs: tuple[DecidedInput, ...]
    sizes: Mapping[str, DecidedSize] = field(default_factory=dict)
    function: str = ""
    predicates: tuple[str, ...] = ()
    compilations: int = 0
    seconds: float = 0.0

    @property
    def key(self) -> object:
        """A key that is the same for all decisions about one program."""
        return self.function, self.inputs, self.predicates

    @property
    def policies(self) -> dict[str, Policy]:
        """The policies of sizes that have one, by name."""
        return {n: s.policy for n, s in self.sizes.items() if s.policy is not None}

    def merged(self, other: "DecidedProgram") -> "DecidedProgram":
        """Merge the sizes of both; keep the costs of the one that compiled more."""
        none = DecidedSize()
        names = dict.fromkeys((*self.sizes, *other.sizes))
        sizes = {
            n: self.sizes.get(n, none).merged(other.sizes.get(n, none)) for n in names
        }
        most = max(self, other, key=lambda one: one.compilations)
        return replace(
            self, sizes=sizes, compilations=most.compilations, seconds=most.seconds
        )


@dataclass(frozen=True)
class SavedDecisions(NotCalled):
    """The decisions of a function: `save` writes them, `decisions=` takes them.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.vector("x", shape=("n",))
    >>> f = graphc.function([x], gt.sum(x))
    >>> f.decisions
    <graphc.SavedDecisions of 1 program>
    >>> g = graphc.function([x], gt.sum(x), decisions=f.decisions)
    """

    programs: tuple[DecidedProgram, ...] = ()
    _read = "f.decisions"

    def __repr__(self) -> str:
        return f"<graphc.SavedDecisions of {in_number(len(self.programs), 'program')}>"

    @classmethod
    def load(cls, path: StrPath) -> "SavedDecisions":
        """Read a file. Raises GraphError for one that holds no decisions."""
        shown = os.fsdecode(path)
        try:
            with open(path, "rb") as file:
                content = file.read(LARGEST)
            return cls.of_text(content.decode())
        except OSError as error:
            problem = f"the file cannot be read: {error.strerror}"
            raise graph_error(problem, op="decisions", got=shown) from None
        except UnicodeDecodeError:
            raise _file_error("it is not text", shown) from None
        except GraphError as error:
            raise _file_error(str(error).splitlines()[0], shown) from None

    @classmethod
    def of_text(cls, text: str) -> "SavedDecisions":
        """Read decisions from a text that `text` gave. Raises GraphError for others."""
        try:
            return cls(_programs_in(json.loads(text)))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as e:
            if isinstance(e, GraphError):
                raise
            problem = "it is damaged, or not a file of decisions"
            raise graph_error(problem, op="decisions") from None

    @property
    def text(self) -> str:
        """The text of a file of these decisions."""
        programs = ",\n".join(map(_text_of, self.programs))
        return f'{{"format": "{TITLE} {FORMAT}",\n"programs": [\n{programs}\n]}}\n'

    def save(self, path: StrPath) -> None:
        """Write the decisions to a file, as a whole or not at all."""
        write_whole(path, self.text.encode())

    def merged(self, *others: "SavedDecisions") -> "SavedDecisions":
        """Merge the decisions of several processes: a size varies if it does in one.

        Where policies of one size differ, the first one holds.
        """
        for other in others:
            if not isinstance(other, SavedDecisions):
                raise graph_error(
                    "these are not decisions",
                    op="merged",
                    got=shortened(repr(other)),
                    expected="f.decisions, or graphc.SavedDecisions.load(path)",
                )
        by_key: dict[object, DecidedProgram] = {}
        for one in (self, *others):
            for program in one.programs:
                known = by_key.get(program.key)
                by_key[program.key] = (
                    program if known is None else known.merged(program)
                )
        return SavedDecisions(tuple(by_key.values()))

    def program(self, inputs: Sequence[DecidedInput]) -> DecidedProgram | None:
        """Return the decisions for a program with these inputs, if there are any."""
        described = tuple(inputs)
        return next((p for p in self.programs if p.inputs == described), None)

    def require(self, inputs: Sequence[DecidedInput], op: str) -> None:
        """Raise GraphError where all decisions are for other programs."""
        kinds = [_kind(one) for one in inputs]
        if any([_kind(one) for one in p.inputs] == kinds for p in self.programs):
            return
        known = {f"({', '.join(map(str, p.inputs))})" for p in self.programs}
        raise graph_error(
            "these decisions are of another program",
            op=op,
            got=shortened(" or ".join(sorted(known))) or "decisions of no program",
            expected=shortened(f"({', '.join(map(str, inputs))})"),
            hint="f.decisions.save(path) of this program writes its own",
        )

    def require_function(self, name: str) -> None:
        """Raise GraphError where all decisions are about functions of other names."""
        known = {p.function for p in self.programs}
        if known and name not in known:
            raise graph_error(
                "these decisions are of another function",
                op="jit",
                got=", ".join(sorted(known)),
                expected=name,
            )


def decisions_of(option: object, op: str) -> SavedDecisions | None:
    """Return the decisions in an option: decisions, a path, or several of these."""
    if option is None or isinstance(option, SavedDecisions):
        return option
    if isinstance(option, (str, os.PathLike)):
        return SavedDecisions.load(option)
    if isinstance(option, (list, tuple)) and option:
        first, *others = [decisions_of(one, op) or SavedDecisions() for one in option]
        return first.merged(*others)
    raise graph_error(
        "these are not decisions",
        op=op,
        got=shortened(repr(option)),
        expected="the path of a file, what f.decisions gives, or a list of these",
    )


def _kind(one: DecidedInput) -> object:
    return one.name, one.dtype, len(one.shape)


def _file_error(problem: str, path: str) -> GraphError:
    return graph_error(problem.removeprefix("decisions: "), op="decisions", got=path)


def _text_of(program: DecidedProgram) -> str:
    """Write a program as JSON, with a line for each of its inputs and sizes."""
    head = {"function": program.function, "predicates": list(program.predicates)}
    costs = {"compilations": program.compilations, "seconds": program.seconds}
    inputs = ",\n  ".join(json.dumps(asdict(one)) for one in program.inputs)
    sizes = ",\n  ".join(
        f"{json.dumps(name)}: {json.dumps(_size_data(size))}"
        for name, size in sorted(program.sizes.items())
    )
    parts = json.dumps(head)[1:-1], json.dumps(costs)
    return (
        f' {{{parts[0]},\n "inputs": [\n  {inputs}],\n'
        f' "sizes": {{\n  {sizes}}},\n "costs": {parts[1]}}}'
    )


def _size_data(size: DecidedSize) -> dict[str, object]:
    data: dict[str, Any] = {"policy": None}
    if isinstance(size.policy, Pad):
        # A shard is written as the pad that has its capacities.
        pads = ((n, k) for n, k in _PADS.items() if type(size.policy) is k)
        name, kind = next(pads, ("pad", Pad))
        default, data["policy"] = kind(), name
        of_pad = {f.name: getattr(size.policy, f.name) for f in fields(kind)}
        data |= {k: n for k, n in of_pad.items() if n != getattr(default, k)}
    elif isinstance(size.policy, Bound):
        data["policy"] = "bound"
    data["sizes"] = sorted(size.sizes)
    data["capacities"] = sorted(size.capacities)
    return data


def _programs_in(data: Any) -> tuple[DecidedProgram, ...]:
    title, _, number = data["format"].rpartition(" ")
    if title != TITLE or not number.isdecimal():
        raise graph_error("it is not a file of decisions", op="decisions")
    if int(number) > FORMAT:
        problem = f"a newer graphc wrote it, in format {number}; this is {FORMAT}"
        raise graph_error(problem, op="decisions")
    return tuple(map(_program, data["programs"]))


def _program(data: Any) -> DecidedProgram:
    return DecidedProgram(
        tuple(map(_input, data["inputs"])),
        {_string(name): _size(size) for name, size in data["sizes"].items()},
        _string(data["function"]),
        tuple(map(_string, data["predicates"])),
        _integer(data["costs"]["compilations"]),
        float(data["costs"]["seconds"]),
    )


def _input(data: Any) -> DecidedInput:
    shape = tuple(n if isinstance(n, str) else _integer(n) for n in data["shape"])
    weak = data["weak"] is True
    return DecidedInput(_string(data["name"]), _string(data["dtype"]), shape, weak)


def _size(data: Any) -> DecidedSize:
    kind = _PADS.get(data["policy"])
    names = set() if kind is None else {f.name for f in fields(kind)}
    if data.keys() - names - {"policy", "sizes", "capacities"}:
        raise ValueError
    policies: dict[Any, Policy | None] = {None: None, "bound": Bound()}
    if kind is not None:
        policies[data["policy"]] = kind(**{n: data[n] for n in names & data.keys()})
    if data["policy"] not in policies:
        raise ValueError
    counts = [frozenset(map(_integer, data[k])) for k in ("sizes", "capacities")]
    return DecidedSize(policies[data["policy"]], *counts)


def _string(data: object) -> str:
    if not isinstance(data, str):
        raise TypeError
    return data


def _integer(data: object) -> int:
    if type(data) is not int:
        raise TypeError
    return data
