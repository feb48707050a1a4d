"""The driver of a plan as steps, which are data: see `graphc_serving.steps`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any, NoReturn

from graphc.backends.jax import is_direct
from graphc.backends.sizes import line_of
from graphc.backends.slice_bounds import slice_bounds
from graphc.control.scan import GROWING
from graphc.errors import GraphError, SourceLocation, graph_error, shortened
from graphc.ir.graph.build import (
    INPUT,
    SIZE_OP,
    as_size,
    is_body_input,
    literal_of,
)
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import EMISSION
from graphc.ir.sizes.dims import Dim, Size, Symbol, symbol_dim
from graphc.ir.sizes.polynomials import Atom, Call, calls_in, polynomial
from graphc.ops.common.conditions import tells
from graphc.ops.effects.capacities import BUCKET, Capacities
from graphc.ops.elementwise.declare import CONVERT
from graphc.runtime.driver.listed_steps import (
    Driver,
    constants_of,
    last_run,
    names_in,
)
from graphc.transform.padding.pad import PaddedGraph
from graphc.transform.padding.storage import symbols_in
from graphc.transform.planning.forecast import asked
from graphc.transform.planning.guesses import GuessingSegment, driven_steps
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    JoinedPieces,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
)
from graphc.transform.printed_sizes import printed
from graphc.transform.tied import capacities_of

Summands = list[list[Any]]  # pairs of a factor and a list of numbers
LONGEST = 60  # characters of a name in a message


def recorded(
    plan: Plan, padded: PaddedGraph | None, checked: Collection[int], called: int
) -> Driver:
    """The driver of a plan, of the graph in `padded` where that is given.

    Its first inputs are the `called` that users give, the last ones constants; those at
    the positions `checked` must be in range as sizes. Raises GraphError where the
    driver does more than steps can say.
    """
    recorder = _Recorder(plan, padded, called)
    recorder.enter(checked)
    for step in driven_steps(plan):
        recorder.step(step)
    results = recorder.results()
    reads = dict.fromkeys(names_in(recorder.steps[: last_run(recorder.steps) + 1]))
    data_sizes = [name for name in reads if name in recorder.of_data]
    return Driver(
        recorder.steps, results, recorder.policies, recorder.segments, data_sizes
    )


class _Recorder:
    """One walk over the steps of a plan."""

    def __init__(self, plan: Plan, padded: PaddedGraph | None, called: int) -> None:
        self._plan = plan
        self._padded = padded
        self._called = called
        self._direct = is_direct(plan)
        original = plan.graph if padded is None else padded.original
        self._originals: Mapping[Symbol, Symbol] = plan.originals
        if padded is not None:
            self._originals = {**padded.originals, **plan.originals}
        checks = [s.condition for s in plan.steps if isinstance(s, Check)]
        self._cut = slice_bounds((plan.graph, original), checks, plan.resolve)
        self._arrays: dict[Value, int] = {}
        self._sizes: dict[Symbol, int] = {}
        self._axes: dict[Symbol, tuple[int, int]] = {}
        self._calls: dict[Call, int] = {}
        self._count = 0
        self._chosen: list[Summands] = []  # sizes that tell which capacities fit
        self._flat: list[int] | None = None  # results of a program that does all
        self._original = original
        self.steps: list[list[Any]] = []
        self.policies: list[list[Capacities]] = []
        self.segments: list[int | Node] = []
        self.of_data: set[str] = set()
        self._known: set[Value] = set()  # computed from sizes that calls are asked for
        self._names: dict[Symbol, str] = {s: s.name for s in asked(original)}

    def enter(self, checked: Collection[int]) -> None:
        """Steps from the arguments to the inputs of the graph that runs."""
        graph, original = self._plan.graph, self._original
        arguments = original.inputs[: self._called]
        others = len(graph.inputs) - self._called
        lengths = 0 if self._padded is None else len(self._padded.lengths)
        self._count = self._called + others - lengths
        for i, value in enumerate(arguments):
            self._bind(value, i)
        constants = graph.inputs[self._called + lengths :]
        for i, value in enumerate([*constants, *constants_of(self._plan)]):
            self._bind(value, self._called + i)
        self._count += len(constants_of(self._plan))
        if self._padded is not None or not self._direct:
            self._agree(arguments, original.input_names)
        if self._padded is not None:
            self._store(self._padded, arguments)
        for i in checked:
            self._read(graph.inputs[i].symbol, cut=False)

    def _bind(self, value: Value, number: int) -> None:
        """A value is the array of a number, and so its axes are known."""
        self._arrays[value] = number
        for axis, size in enumerate(value.type.shape):
            if isinstance(size, Dim) and _is_symbol(size):
                self._axes.setdefault(size.symbols[0], (number, axis))

    def _agree(self, arguments: Iterable[Value], names: Sequence[str]) -> None:
        """Check that axes have the sizes that others give them."""
        axes = [
            (name, value, axis, size)
            for value, name in zip(arguments, names, strict=False)
            for axis, size in enumerate(value.type.shape)
            if isinstance(size, Dim)
        ]
        for name, value, axis, size in axes:
            place = self._arrays[value], axis
            if _is_symbol(size) and self._axes[size.symbols[0]] == place:
                continue  # it says what the size is
            axis_size = self._add("axis", *place)
            self._solve(size, axis_size)
            if not all(map(self._knows, size.symbols)):
                continue  # nothing else says what it should be
            shown = shortened(name, LONGEST)
            message = f"axis {axis} of input {shown} must have {size} elements"
            self._add("check", self.formula(size), "==", [[1, [axis_size]]], message)

    def _solve(self, size: Dim, axis: int) -> None:
        """Find the one symbol of a size from the axis that has it."""
        symbol = size.symbols[0]
        line = line_of(size, symbol)
        if len(size.symbols) > 1 or self._knows(symbol) or line is None:
            return
        slope, offset = line
        shifted = [[1, [axis]], [-offset, []]]
        self._sizes[symbol] = self._add("apply", "//", [shifted, [[slope, []]]])
        message = f"the size {symbol.name} must not be negative"
        self._add("check", [[0, []]], "<=", [[1, [self._sizes[symbol]]]], message)

    def _knows(self, symbol: Symbol) -> bool:
        known = symbol in self._sizes or symbol in self._axes
        return known or isinstance(symbol.origin, Value)

    def _store(self, padded: PaddedGraph, arguments: Sequence[Value]) -> None:
        """Store arguments at capacities; their true sizes are arguments too."""
        for guard, node in (*padded.guards, *padded.branch_guards):
            left, right = self.formula(guard.left), self.formula(guard.right)
            shown = f"{guard.left} {guard.relation} {guard.right}"
            message = f"{node.asking}: {guard.reason}: needs {shown}"
            self._add("check", left, guard.relation, right, message)
        self._chosen = self._kept(padded, arguments)
        capacities = capacities_of(padded.policies, padded.capacities)
        true_sizes = [self.formula(symbol_dim(s)) for s in padded.capacities]
        numbers = self._choose(true_sizes, capacities)
        self._sizes.update(zip(padded.capacities.values(), numbers, strict=True))
        inputs = self._plan.graph.inputs
        for old, new in zip(arguments, inputs, strict=False):
            if old is not new:
                sizes = list(map(self.formula, new.type.shape))
                self._bind(new, self._add("pad", self._arrays[old], sizes))
        for symbol, value in zip(
            padded.lengths, inputs[len(arguments) :], strict=False
        ):
            number = self.size(symbol)
            self._sizes[value.symbol] = number
            self._bind(value, self._add("number", [[1, [number]]], value.dtype.name))

    def _kept(self, padded: PaddedGraph, arguments: Sequence[Value]) -> list[Summands]:
        """The sizes of the axes of arguments that are not padded."""
        capacities = set(padded.capacities.values())
        axes = [
            (old_size, new_size)
            for old, new in zip(arguments, self._plan.graph.inputs, strict=False)
            for old_size, new_size in zip(old.type.shape, new.type.shape, strict=True)
        ]
        unpadded = [n for n, new in axes if capacities.isdisjoint(symbols_in(new))]
        sizes = dict.fromkeys(n for n in unpadded if isinstance(n, Dim))
        return [self.formula(n) for n in sizes if all(map(self._knows, n.symbols))]

    def _choose(self, sizes: list[Summands], capacities: list[Capacities]) -> range:
        """Capacities for sizes, beside those that have been chosen: their numbers."""
        if not sizes:
            return range(0)
        parts = list(self._chosen), sizes, len(self.policies)
        first = self._add("capacities", *parts, new_values=len(sizes))
        self.policies.append(capacities)
        numbers = range(first, first + len(sizes))
        self._chosen += [[[1, [n]]] for n in numbers]
        return numbers

    def step(self, step: PlanStep) -> None:
        """The steps for one of a plan."""
        if isinstance(step, Segment):
            self._segment(step)
        elif isinstance(step, Read):
            self.size(step.value.symbol)
        elif isinstance(step, HostNode) and step.node.primitive is BUCKET:
            self._bucket(step)
        elif isinstance(step, Check):
            self._require(step)
        elif isinstance(step, JoinedPieces):
            length = self.formula(step.node.params["length"])
            rows = self.value(step.node.inputs[0])
            self._bind(step.node.outputs[0], self._add("rows", rows, length))
        elif isinstance(step, PythonLoop):
            self._loop(step)
        elif isinstance(step, HostNode) and step.node.primitive in EMISSION["jax"]:
            self._on_host(step)
        else:
            what = f"{step.node.primitive.name} on the host"
            _refuse(what, step.place, step.reason)

    def _segment(self, segment: Segment) -> None:
        if isinstance(segment, GuessingSegment):
            self._guess(segment)
        elif segment.rows is None:
            self._run(segment)
        else:
            self._grow(segment)

    def _grow(self, segment: Segment) -> None:
        """A loop that runs in pieces, and what it gives."""
        (node,) = segment.nodes
        carries = node.params["carries"]
        arrays = list(map(self.value, node.inputs[:-1]))  # the last is the first too
        statics = [[[1, [self.size(s)]]] for s in segment.statics[:-1]]
        name = self._name_of_steps(node.outputs[carries])
        operands = len(self.segments), arrays, statics, carries, name
        first = self._add("grow", *operands, new_values=len(node.outputs))
        self.segments.append(segment.index)
        for i, value in enumerate(node.outputs):
            self._bind(value, first + i)

    def _name_of_steps(self, value: Value) -> str:
        """The name of the number of steps of a loop, which depends on data."""
        reads = [s.value for s in self._plan.steps if isinstance(s, Read)]
        known = [v for v in reads if self._plan.resolve(v) is value]
        name = self._name((known or [value])[0].symbol, "steps")
        self.of_data.add(name)
        return name

    def _loop(self, loop: PythonLoop) -> None:
        """A loop that the driver does step by step: a driver of its own for a step."""
        node, params, body = loop.node, loop.node.params, loop.body
        first, end = params["carries"], params["carries"] + params["sequences"]
        grows = node.primitive is GROWING
        flags = params["counted"], params["stops"]
        flag_values = iter(node.inputs[len(node.inputs) - sum(flags) :])
        count, going = (self.value(next(flag_values)) if has else None for has in flags)
        constants = constants_of(body)
        captures = node.inputs[end : len(node.inputs) - sum(flags)]
        parts = node.inputs[:first], node.inputs[first:end], (*captures, *constants)
        inner = self._within(loop, constants)
        for step in body.steps:
            inner.step(step)
        name = ""
        if going is not None:
            name = self._name_of_steps(node.outputs[first])
        rows = [v.type for v in node.outputs[first + params["stops"] :]]
        length = None if grows else params["length"]
        said = [
            *(list(map(self.value, part)) for part in parts),
            list(map(self.formula, params["sizes"])),
            None if length is None else self.formula(length),
            *(params["reverse"], count, going, name),
            [[t.dtype.name, list(map(self.formula, t.shape[1:]))] for t in rows],
            *(inner.steps, inner.results()),
        ]
        number = self._add("loop", said, new_values=len(node.outputs))
        for i, value in enumerate(node.outputs):
            self._bind(value, number + i)

    def _within(self, loop: PythonLoop, constants: Sequence[Value]) -> "_Recorder":
        """A recorder of the steps of a loop, which share stages and names."""
        inner = _Recorder(loop.body, None, 0)
        inner._direct = False
        inner._originals = {**self._originals, **loop.body.originals}
        inner.policies, inner.segments = self.policies, self.segments
        inner.of_data, inner._names = self.of_data, self._names
        for i, value in enumerate([*loop.body.graph.inputs, *constants]):
            inner._bind(value, i)
        start = len(inner._arrays)
        inner._sizes.update({s: start + i for i, s in enumerate(loop.sizes)})
        inner._count = start + len(loop.sizes)
        return inner

    def _on_host(self, step: HostNode) -> None:
        """Arithmetic on the host: a formula where it is one, else a program."""
        node, out = step.node, step.node.outputs[0]
        operands = list(map(self._plan.resolve, node.inputs))
        if all(map(self._is_known, operands)):
            self._known.update(node.outputs)
        if (
            node.primitive is CONVERT
            and _is_size(operands[0])
            and out.dtype.kind in "iu"
        ):
            size = self.formula(operands[0].node.params["size"])
            self._bind(out, self._add("number", size, out.dtype.name))
            return
        if printed(node):
            _refuse(f"{node.primitive.name} on the host", step.place, step.reason)
        arrays = [self.value(v) for v in node.inputs if literal_of(v) is None]
        stage = len(self.segments)
        first = self._add("run", stage, arrays, [], new_values=len(node.outputs))
        self.segments.append(node)
        for i, value in enumerate(node.outputs):
            self._bind(value, first + i)

    def _is_known(self, value: Value) -> bool:
        """Whether sizes that calls are asked for tell a value."""
        if value.node.primitive is INPUT:
            return value._symbol is not None and not is_body_input(value.node)
        return value in self._known or _is_size(value) or literal_of(value) is not None

    def _guess(self, segment: GuessingSegment) -> None:
        """A segment for capacities that it tells, which are told ahead of it here.

        Which array they are read from is left open: no step has given it yet.
        """
        self._arrays.update((v, 0) for v in segment.outputs)
        checks = [s for s in segment.followed_by if isinstance(s, Check)]
        for step in segment.followed_by:
            if step not in checks:
                self.step(step)
        self._run(segment)
        for check in checks:
            self.step(check)

    def _run(self, segment: Segment) -> None:
        graph = self._plan.graph
        inputs = graph.inputs if self._direct else segment.inputs
        statics = [[[1, [self.size(s)]]] for s in segment.statics]
        arrays = list(map(self.value, inputs))
        outputs = graph.outputs if self._direct else segment.outputs
        stage = len(self.segments)
        first = self._add("run", stage, arrays, statics, new_values=len(outputs))
        self.segments.append(segment.index)
        if self._direct:
            self._flat = list(range(first, first + len(outputs)))
        for i, value in enumerate([] if self._direct else outputs):
            self._bind(value, first + i)

    def _bucket(self, step: HostNode) -> None:
        """A capacity for a size that the device has computed."""
        node = step.node
        true_size = self.formula(as_size(self._plan.resolve(node.inputs[0])))
        (number,) = self._choose([true_size], [node.params["capacities"]])
        self._sizes[node.outputs[0].symbol] = number

    def _require(self, check: Check) -> None:
        condition = self._plan.resolve(check.condition)
        if condition not in self._arrays:
            _refuse("a check on the host", check.place, check.reason)
        texts = [check.message]
        if tells(condition.type):
            (count,) = condition.type.shape
            assert isinstance(count, int)
            texts = check.message.rsplit("{}", count - 1)
        self._add("require", self._arrays[condition], texts, new_values=0)

    def results(self) -> list[int]:
        """The numbers of the results, cut to their true sizes."""
        outputs = self._plan.graph.outputs
        numbers = self._flat
        if numbers is None:
            numbers = list(map(self.value, outputs))
        padded = self._padded
        if padded is None:
            return numbers
        split = len(padded.original.outputs)
        for symbol, array in zip(padded.counts, numbers[split:], strict=True):
            name = self._name(symbol)
            self._sizes[symbol] = self._add("read", array, name, False)
        outputs = padded.original.outputs
        pairs = zip(outputs, padded.ragged, numbers, strict=False)
        return [self._cut_to(value, axes, array) for value, axes, array in pairs]

    def _cut_to(self, value: Value, axes: frozenset[int], array: int) -> int:
        if not axes:
            return array
        sizes = enumerate(value.type.shape)
        shape = [self.formula(n) if i in axes else None for i, n in sizes]
        return self._add("cut", array, shape)

    def value(self, value: Value) -> int:
        """The number of an array."""
        value = self._plan.resolve(value)
        if value not in self._arrays:
            if value.type.rank or value.dtype.kind not in "iu":
                _refuse(value.node.primitive.name, value.node.place, "no step gives it")
            size = value.node.params["size"] if _is_size(value) else as_size(value)
            parts = self.formula(size), value.dtype.name
            self._arrays[value] = self._add("number", *parts)
        return self._arrays[value]

    def formula(self, size: Size) -> Summands:
        """A size as a formula of numbers; functions in it have steps of their own."""
        for call in calls_in(size):
            if call not in self._calls:
                parts = list(map(self._sum, call.args))
                self._calls[call] = self._add("apply", call.op, parts)
        return self._sum(size)

    def _sum(self, size: Size) -> Summands:
        terms = polynomial(size).items()
        return [[c, list(map(self._atom, monomial))] for monomial, c in terms]

    def _atom(self, atom: Atom) -> int:
        return self.size(atom) if isinstance(atom, Symbol) else self._calls[atom]

    def size(self, symbol: Symbol) -> int:
        """The number of the integer that a symbol stands for."""
        if symbol not in self._sizes:
            if symbol in self._axes:
                self._sizes[symbol] = self._add("axis", *self._axes[symbol])
            else:
                self._sizes[symbol] = self._read(symbol, symbol in self._cut)
        return self._sizes[symbol]

    def _read(self, symbol: Symbol, cut: bool) -> int:
        origin = symbol.origin
        value = self._plan.resolve(origin) if isinstance(origin, Value) else None
        if value is None or value not in self._arrays:
            raise GraphError(f"export: no step gives the size {symbol.name}", "export")
        name = self._name(symbol)
        if not self._is_known(value):
            self.of_data.add(name)
        return self._add("read", self._arrays[value], name, cut)

    def _name(self, symbol: Symbol, hint: str = "") -> str:
        """The name of a size, which no other has."""
        symbol = self._originals.get(symbol, symbol)
        if symbol not in self._names:
            taken, name = set(self._names.values()), hint or symbol.name
            others = (f"{name}_{i}" for i in count(1))
            free = (n for n in chain([name], others) if n not in taken)
            self._names[symbol] = next(free)
        return self._names[symbol]

    def _add(self, word: str, *parts: object, new_values: int = 1) -> int:
        """Add a step: the number of the first value that it makes."""
        self.steps.append([word, *parts])
        first = self._count
        self._count += 0 if word == "check" else new_values
        return first


def _is_size(value: Value) -> bool:
    return value.node.primitive is SIZE_OP


def _is_symbol(size: Dim) -> bool:
    return size is symbol_dim(size.symbols[0])


def _refuse(what: str, place: SourceLocation, reason: str) -> NoReturn:
    raise graph_error(
        f"what runs between the programs cannot be told to a file: {what}",
        op="export",
        got=reason,
        hint="f.save(path) writes a program that runs without graphc",
        where=place,
    )
