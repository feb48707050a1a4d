"""The driver of a plan as steps of a model file; see `graphc_serving.steps`."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import singledispatchmethod
from typing import NoReturn

from graphc.backends.slice_bounds import slice_bounds
from graphc.control.scan import GROWING
from graphc.errors import GraphError, SourceLocation, graph_error, shortened
from graphc.ir.graph.build import INPUT, SIZE_OP, as_size, is_body_input, literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import EMISSION
from graphc.ir.sizes.dims import Dim, Size, Symbol, named_axes
from graphc.ir.sizes.lines import line_of, message_end, next_determining, quotient_of
from graphc.ir.sizes.polynomials import Atom, Call, calls_in, polynomial
from graphc.ir.sizes.unsolvable_axes import UndeterminedAxes
from graphc.ir.types import is_float
from graphc.ops.effects.capacities import BUCKET, Capacities
from graphc.ops.elementwise.declare import CONVERT
from graphc.runtime.save.file_driver import FileDriver
from graphc.runtime.save.host_nodes import function_of, is_of_numpy, rounds_otherwise
from graphc.transform.planning.driver import (
    ChooseCapacities,
    CutResult,
    Driver,
    RequireSizes,
    RunOnCapacities,
    driver_of,
)
from graphc.transform.planning.guesses import GuessingSegment
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    JoinedPieces,
    LoopInPieces,
    PythonLoop,
    Read,
    Segment,
)
from graphc.transform.printed_sizes import printed_symbols
from graphc.transform.tied_sizes import needed_alone
from graphc_serving.loops import Loop
from graphc_serving.steps import Formula, Step

RUN = "run", "grow", "loop"  # steps that run programs
LONGEST = 60  # characters of a name in a message


def file_steps(driver: Driver, checked: Collection[int]) -> FileDriver:
    """Write a driver as steps; the inputs `checked` are known to be in range as sizes.

    The last inputs of the driver's graph may be constants. Raises GraphError where the
    driver does more than steps can say.
    """
    constants = [a for a in map(literal_of, driver.constants) if a is not None]
    names = {s: s.name for s in driver.graph.argument_symbols}
    file = FileDriver(names, driver.originals, constants)
    writer = StepWriter(driver, file)
    if not driver.direct:
        writer.agree()
    file.steps, file.results = writer.steps, writer.run(driver, checked)
    return file


class StepWriter:
    """Writes the steps of a driver, and numbers the values that they make."""

    def __init__(
        self, driver: Driver, file: FileDriver, sizes: Sequence[Symbol] = ()
    ) -> None:
        self._driver, self._file = driver, file
        self._direct = driver.inner.direct
        graphs = driver.inner.graph, driver.graph
        self._cut = slice_bounds(graphs, driver.conditions, driver.resolve)
        self._arrays: dict[Value, int] = {}
        self._sizes: dict[Symbol, int] = {}
        self._axes: dict[Symbol, tuple[int, int]] = {}
        self._calls: dict[Call, int] = {}
        self._untold = UndeterminedAxes()
        self._chosen: list[Formula] = []  # sizes that tell which capacities fit
        self._known: set[Value] = set()  # computed from sizes that calls are asked for
        self._returned: Sequence[int] | None = None  # by a step that does all
        self._count = 0
        self.steps: list[Step] = []
        self._bind([*driver.inputs, *driver.constants], 0)
        self._count = len(self._arrays)
        self._sizes |= {s: self._count + i for i, s in enumerate(sizes)}
        self._count += len(sizes)

    def run(self, driver: Driver, checked: Collection[int] = ()) -> list[int]:
        """Write the steps of a driver, its own or one on capacities; return results."""
        self._checked = checked
        if driver is driver.inner:
            for i in checked:
                self._read(driver.graph.inputs[i].symbol, cut=False)
        for step in driver.steps:
            self.step(step)
        numbers = self._returned
        if numbers is None:
            numbers = [self.value(result.value) for result in driver.results]
        self._returned = None
        return list(map(self._result, driver.results, numbers))

    def _bind(self, values: Iterable[Value], first: int) -> None:
        """Number the arrays of values from `first` on, so that their axes are known."""
        for number, value in enumerate(values, first):
            self._arrays[value] = number
            for symbol, axis in named_axes(value.type.shape, range(value.type.rank)):
                self._axes.setdefault(symbol, (number, axis))

    def agree(self) -> None:
        """Check that each axis has the size that the others give it."""
        graph = self._driver.graph
        axes = [
            (name, value, axis, size)
            for value, name in zip(graph.inputs, graph.input_names, strict=True)
            for axis, size in enumerate(value.type.shape)
            if isinstance(size, Dim)
        ]
        checks: list[tuple[str, int, Dim]] = []
        for name, value, axis, size in axes:
            place = self._arrays[value], axis
            if size.is_symbol and self._axes[size.symbols[0]] == place:
                continue  # this axis says what the size is
            axis_size = self.add("axis", *place)
            self._solve(size, axis_size)
            axis_text = f"axis {axis} of input {shortened(name, LONGEST)}"
            checks.append((axis_text, axis_size, size))
        for check in checks:
            if not self._count_unknown(check[-1]):
                self._check_axis(*check)
        waiting = [check for check in checks if self._count_unknown(check[-1])]
        while waiting:  # the sizes known best come first, and tell the others
            known = {s for *_, size in waiting for s in size.symbols if self._knows(s)}
            position = next_determining([size for *_, size in waiting], known)
            self._check_axis(*waiting.pop(position))

    def _count_unknown(self, size: Dim) -> int:
        return sum(not self._knows(symbol) for symbol in size.symbols)

    def _check_axis(self, name: str, axis: int, size: Dim) -> None:
        """Check an axis; one of n + m has at least n elements, and then tells m."""
        message = f"{name} must have {size}"
        if not self._count_unknown(size):
            length = _as_formula(axis)
            self.check(self.formula(size), "==", length, f"{message} elements")
            return
        known = list(filter(self._knows, size.symbols))
        part = quotient_of(size, known)
        message += message_end(part, "")
        symbol = Symbol(name)
        self._sizes[symbol] = axis
        limits = self._untold.relations(size, symbol, known, part)
        for left, relation, right, words in limits:
            sides = self.formula(left), self.formula(right)
            self.check(sides[0], relation, sides[1], message + words)
        if part is None:
            return
        slope, offset = self.formula(part.slope), self.formula(part.offset)
        product = *_as_formula(axis), *((-c, numbers) for c, numbers in offset)
        if isinstance(part.slope, Dim):
            slope = _as_formula(self.add("apply", "max", (slope, ((1, ()),))))
        quotient = self.add("apply", "//", (product, slope))
        parts = tuple((c, (*numbers, quotient)) for c, numbers in slope)
        self.check((*parts, *offset), "==", _as_formula(axis), message)
        if part.never_negative:
            self.check(((0, ()),), "<=", _as_formula(quotient), message)
        if part.determined_symbol is not None:
            self._sizes[part.determined_symbol] = quotient

    def _solve(self, size: Dim, axis: int) -> None:
        """Solve a size for its one symbol, given the axis that has this size."""
        symbol = size.symbols[0]
        line = line_of(size, symbol)
        if len(size.symbols) > 1 or self._knows(symbol) or line is None:
            return
        slope, offset = line
        shifted = *_as_formula(axis), (-offset, ())
        self._sizes[symbol] = self.add("apply", "//", (shifted, ((slope, ()),)))
        message = f"the size {symbol.name} must not be negative"
        self.check(((0, ()),), "<=", _as_formula(self._sizes[symbol]), message)

    def _knows(self, symbol: Symbol) -> bool:
        known = symbol in self._sizes or symbol in self._axes
        return known or isinstance(symbol.origin, Value)

    @singledispatchmethod
    def step(self, step: object) -> None:
        """Write a step of the driver as steps of the file, and bind their values."""
        raise TypeError(f"no step of a file is known for a {type(step).__name__}")

    @step.register
    def _(self, step: RequireSizes) -> None:
        guard = step.guard
        sides = [self.formula(n) for n in guard.sides]
        message = step.node.message_of(guard)
        self.check(sides[0], guard.relation, sides[1], message)

    @step.register
    def _(self, step: Read) -> None:
        self.size(step.value.symbol)

    @step.register
    def _(self, step: JoinedPieces) -> None:
        rows, length = step.node.inputs[0], step.node.params["length"]
        parts = self.value(rows), self.formula(length)
        self.make("rows", step.node.outputs, *parts)

    @step.register
    def _(self, step: ChooseCapacities) -> None:
        """Choose capacities for the sizes of arguments; there may be none."""
        known = [n for n in step.beside if all(map(self._knows, n.symbols))]
        self._chosen = list(map(self.formula, known))
        for i, symbol in needed_alone(step.sizes, step.symbols):
            self._choose([self.formula(step.sizes[i])], [step.capacities[i]], [symbol])
        sizes = list(map(self.formula, step.sizes))
        self._choose(sizes, step.capacities, step.symbols)

    def _choose(
        self,
        sizes: Sequence[Formula],
        capacities: Sequence[Capacities],
        symbols: Sequence[Symbol],
    ) -> None:
        """Choose capacities for sizes, beside those that were chosen before."""
        if not sizes:
            return
        first = self._count
        policies = len(self._file.policies)
        self.add("capacities", tuple(self._chosen), sizes, policies, count=len(sizes))
        self._file.policies.append(capacities)
        self._sizes |= {s: first + i for i, s in enumerate(symbols)}
        self._chosen += [_as_formula(self._sizes[s]) for s in symbols]

    @step.register
    def _(self, step: RunOnCapacities) -> None:
        """Store arguments at capacities; their true sizes become arguments too."""
        for old, new in zip(step.arguments, step.stored, strict=True):
            if old is not new:
                sizes = list(map(self.formula, new.type.shape))
                self.make("pad", [new], self._arrays[old], sizes)
        for symbol, value in zip(step.lengths, step.numbers, strict=True):
            number = self._sizes[value.symbol] = self.size(symbol)
            self.make("number", [value], _as_formula(number), value.dtype.name)
        numbers = self.run(step.driver, self._checked)
        counts = numbers[len(numbers) - len(step.counts) :]
        for symbol, array in zip(step.counts, counts, strict=True):
            name = self._file.name(symbol)
            self._sizes[symbol] = self.add("read", array, name, False)
        self._returned = numbers

    @step.register
    def _call(self, step: Segment) -> None:
        """Run a segment; a direct call has the inputs and results of the driver."""
        graph = self._driver.inner.graph
        inputs, outputs = step.inputs, step.outputs
        if self._direct:
            inputs, outputs = graph.inputs, graph.outputs
        statics = [_as_formula(self.size(s)) for s in step.statics]
        arrays = list(map(self.value, inputs))
        first, stage = self._count, self._file.stage(step.index)
        self.add("run", stage, arrays, statics, count=len(outputs))
        if self._direct:
            self._returned = range(first, self._count)
        else:
            self._bind(outputs, first)

    @step.register
    def _(self, step: GuessingSegment) -> None:
        """Run a segment that tells its own capacities, which are told ahead of it here.

        No step has made the array yet that they are read from. An array of zeros, whose
        numbers count as unknown, stands for it.
        """
        unknown = self.add("zeros", (), "int32")
        self._arrays.update((v, unknown) for v in step.outputs)
        checks = [s for s in step.followed_by if isinstance(s, Check)]
        for following in step.followed_by:
            if following not in checks:
                self.step(following)
        self._call(step)
        for check in checks:
            self.step(check)

    @step.register
    def _(self, step: LoopInPieces) -> None:
        """Run a loop in pieces, and bind its results."""
        node, resolve = step.loop, self._driver.resolve
        carries = node.params["carries"]
        values = list(map(resolve, node.inputs[:carries]))
        arrays = [self._zeros(v) if v in step.opened else self.value(v) for v in values]
        extra: list[int] = []  # whether it is open, and captures from opening it
        if step.opened:
            extra = [self.add("zeros", (), "bool")]
            extra += map(self._zeros, step.captures_opened(resolve))
        arrays += extra + list(map(self.value, step.arguments(resolve)))
        statics = [_as_formula(self.size(s)) for s in step.statics[:-1]]
        name, stage = self._name_of_steps(node, carries), self._file.stage(step.index)
        carried = carries + len(extra)
        parts = stage, arrays, statics, carried, name
        first = self.add("grow", *parts, count=len(node.outputs) + len(extra))
        self._bind(node.outputs[:carries], first)
        self._bind(node.outputs[carries:], first + carried)

    def _zeros(self, like: Value) -> int:
        """Add an array of zeros of the type of a value, and return its number."""
        return self.add("zeros", self.formulas(like.type.shape), like.dtype.name)

    def _name_of_steps(self, loop: Node, place: int) -> str:
        """Return the name of a loop's number of steps, which depends on data.

        `place` is that of the output which holds it.
        """
        value, driver = loop.outputs[place], self._driver
        reads = [s.value for s in driver.inner.steps if isinstance(s, Read)]
        known = [v for v in reads if driver.resolve(v) is value]
        name = self._file.name((known or [value])[0].symbol, "steps")
        self._file.of_data[name] = None
        return name

    @step.register
    def _(self, step: PythonLoop) -> None:
        """Do a loop step by step; each step is a driver of its own."""
        node, params = step.node, step.node.params
        first, end = params["carries"], params["carries"] + params["sequences"]
        flags = params["counted"], params["stops"]
        last = len(node.inputs) - sum(flags)
        values = map(self.value, node.inputs[last:])
        counted, going = (next(values) if has else None for has in flags)
        body = replace(driver_of(step.body), direct=False)
        captures = *node.inputs[end:last], *body.constants
        parts = node.inputs[:first], node.inputs[first:end], captures
        originals = {**self._file.originals, **body.originals}
        inner = StepWriter(body, replace(self._file, originals=originals), step.sizes)
        results = inner.run(body)
        name = "" if going is None else self._name_of_steps(node, first)
        carries, rows, steady = (tuple(map(self.value, part)) for part in parts)
        length = None if node.primitive is GROWING else params["length"]
        types = [v.type for v in node.outputs[first + params["stops"] :]]
        loop = Loop(
            *(carries, rows, steady, self.formulas(params["sizes"])),
            None if length is None else self.formula(length),
            *(params["reverse"], counted, going, name),
            tuple([(t.dtype.name, self.formulas(t.shape[1:])) for t in types]),
            *(tuple(inner.steps), tuple(results)),
        )
        self.make("loop", node.outputs, loop)

    @step.register
    def _(self, step: HostNode) -> None:
        """Compute a node on the host: by a formula if it is one, else by a program."""
        node, out = step.node, step.node.outputs[0]
        operands = list(map(self._driver.resolve, node.inputs))
        if node.primitive is BUCKET:
            sizes = [self.formula(as_size(operands[0]))]
            self._choose(sizes, [node.params["capacities"]], [out.symbol])
            return
        if node.primitive not in EMISSION["jax"]:
            _refuse(f"{node.primitive.name} on the host", step.place, step.reason)
        if all(map(self._is_known, operands)):
            self._known.update(node.outputs)
        is_number = node.primitive is CONVERT and out.dtype.kind in "iu"
        if is_number and _is_size(operands[0]):
            size = self.formula(operands[0].node.params["size"])
            self.make("number", [out], size, out.dtype.name)
            return
        if is_of_numpy(node):
            self._compute(node)
            return
        if printed_symbols(node) or rounds_otherwise(node):
            _refuse(f"{node.primitive.name} on the host", step.place, step.reason)
        arrays = [self.value(v) for v in node.inputs if literal_of(v) is None]
        self.make("run", node.outputs, self._file.stage(node), arrays, ())

    def _compute(self, node: Node) -> None:
        """Have NumPy compute a node."""
        operands = list(map(self._operand, node.inputs))
        name = function_of(node)
        if name is None:
            self.make("cast", node.outputs, *operands, node.outputs[0].dtype.name)
        else:
            self.make("compute", node.outputs, name, operands)

    def _operand(self, value: Value) -> int:
        """Return the number of an array; a float literal becomes a new one."""
        literal = literal_of(value)
        if literal is None or not is_float(value.dtype):
            return self.value(value)
        return self.add("literal", float(literal).hex(), value.dtype.name)

    def _is_known(self, value: Value) -> bool:
        """Whether a value follows from sizes that calls are asked for."""
        if value.node.primitive is INPUT:
            return value._symbol is not None and not is_body_input(value.node)
        return value in self._known or _is_size(value) or literal_of(value) is not None

    @step.register
    def _(self, check: Check) -> None:
        condition = self._driver.resolve(check.condition)
        if condition not in self._arrays:
            _refuse("a check on the host", check.place, check.reason)
        self.add("require", self._arrays[condition], check.texts, count=0)

    def _result(self, result: CutResult, array: int) -> int:
        """Return the number of a result, cut to its true sizes."""
        if not result.cut:
            return array
        sizes = enumerate(result.value.type.shape)
        shape = [self.formula(n) if i in result.cut else None for i, n in sizes]
        return self.add("cut", array, shape)

    def value(self, value: Value) -> int:
        """Return the number of a value's array."""
        value = self._driver.resolve(value)
        if value not in self._arrays:
            if value.type.rank or value.dtype.kind not in "iu":
                _refuse(value.node.primitive.name, value.node.place, "no step gives it")
            size = value.node.params["size"] if _is_size(value) else as_size(value)
            parts = self.formula(size), value.dtype.name
            self._arrays[value] = self.add("number", *parts)
        return self._arrays[value]

    def formulas(self, sizes: Iterable[Size]) -> tuple[Formula, ...]:
        """Write sizes as formulas."""
        return tuple(map(self.formula, sizes))

    def formula(self, size: Size) -> Formula:
        """Write a size as a formula of numbers; functions in it get their own steps."""
        for call in calls_in(size):
            if call not in self._calls:
                parts = list(map(self._sum, call.args))
                self._calls[call] = self.add("apply", call.op, parts)
        return self._sum(size)

    def _sum(self, size: Size) -> Formula:
        terms = polynomial(size).items()
        return tuple([(c, tuple(map(self._atom, monomial))) for monomial, c in terms])

    def _atom(self, atom: Atom) -> int:
        return self.size(atom) if isinstance(atom, Symbol) else self._calls[atom]

    def size(self, symbol: Symbol) -> int:
        """Return the number of the integer that a symbol stands for."""
        if symbol not in self._sizes:
            if symbol in self._axes:
                self._sizes[symbol] = self.add("axis", *self._axes[symbol])
            else:
                self._sizes[symbol] = self._read(symbol, symbol in self._cut)
        return self._sizes[symbol]

    def _read(self, symbol: Symbol, cut: bool) -> int:
        origin = symbol.origin
        value = self._driver.resolve(origin) if isinstance(origin, Value) else None
        if value is None or value not in self._arrays:
            raise GraphError(f"export: no step gives the size {symbol.name}", "export")
        name = self._file.name(symbol)
        if not self._is_known(value):
            self._file.of_data[name] = None
        return self.add("read", self._arrays[value], name, cut)

    def check(self, *parts: object) -> None:
        """Add a check of two formulas: left, the relation, right and the message."""
        self.add("check", *parts, count=0)

    def make(self, word: str, values: Sequence[Value], *parts: object) -> None:
        """Add a step that makes the arrays of values."""
        self._bind(values, self.add(word, *parts, count=len(values)))

    def add(self, word: str, *parts: object, count: int = 1) -> int:
        """Add a step; return the number of the first of the `count` values it makes."""
        self.steps.append(Step(word, parts))
        if word in RUN:
            self._file.running = len(self.steps)
            self._file.reads = tuple(self._file.of_data)
        first = self._count
        self._count += count
        return first


def _is_size(value: Value) -> bool:
    return value.node.primitive is SIZE_OP


def _as_formula(number: int) -> Formula:
    """Return the formula of the one integer with this number."""
    return ((1, (number,)),)


def _refuse(what: str, place: SourceLocation, reason: str) -> NoReturn:
    raise graph_error(
        f"a step between the programs cannot be stored in a file: {what}",
        op="export",
        got=reason,
        hint="f.save(path) writes a program that runs without graphc",
        where=place,
    )
