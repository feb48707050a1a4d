"""Graphs that match a pattern, made from the pattern itself."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphc.checking.plans_products  # noqa: F401  (joins the plans)
from graphc.checking.chance import Chance, Misfit
from graphc.checking.plans import PLANS, SamplePlan, Want, any_of, elementwise
from graphc.errors import GraphError
from graphc.ir.graph.build import as_value, cast, constant, variable
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.graph.op import PRIMITIVES, Primitive
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Dim, Size, axis
from graphc.ir.types import DType, NDArray, TensorType, is_inexact
from graphc.rewriting.match.pattern import (
    COMMUTATIVE,
    Apply,
    Named,
    Once,
    OneOf,
    Pattern,
    Variable,
)
from graphc.rewriting.match.traced_patterns import Traced

DeclaredShapes = Mapping[str, Sequence[int | str]]
NUMBERS = (0, 1, -1, 2, -0.0, 0.5)
FUNCTIONS = ["negative", "square", "exp", "tanh"]
WEAK = ("int64", "float64")
BUILDING = (GraphError, AssertionError, IndexError, KeyError)  # when params misfit


@dataclass
class SampleGraph:
    """A value, its variables, and the arrays wanted for the variables."""

    value: Value
    wants: dict[Value, Want]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The variables."""
        return tuple(self.wants)

    @property
    def graph(self) -> Graph:
        """The program of the value."""
        return Graph.of(self.inputs, [self.value])


def make_match(c: Chance, pattern: Pattern | Traced) -> SampleGraph:
    """Make a graph that the pattern may match. Raises Misfit where none was found."""
    if isinstance(pattern, Traced):
        return _result_of_pattern(c, pattern)
    maker = _Maker(c, c.pick(c.modes))
    shape, dtype = c.shape(), c.dtype()
    weak = not shape and dtype.name in WEAK and c.flag(6)
    try:
        value = maker.make(pattern, Want(shape, dtype, weak=weak))
    except BUILDING:
        raise Misfit from None
    return SampleGraph(value, maker.wants)


def build_sample(
    c: Chance, build: Callable[..., object], shapes: DeclaredShapes
) -> SampleGraph:
    """Make a graph by calling the user's function with a variable per parameter."""
    maker = _Maker(c)
    names = list(inspect.signature(build).parameters)
    dtype, common, sizes = c.dtype(), c.shape(), _Sizes(c)
    arguments = []
    for name in names:
        if name in shapes:
            shape = sizes.of(shapes[name])
        else:
            shape = _common_or_thinner(c, common)
        arguments.append(maker.variable(Want(shape, dtype), name))
    try:
        value = as_value(build(*arguments))
    except GraphError:
        raise Misfit from None
    return SampleGraph(value, maker.wants)


def _result_of_pattern(c: Chance, pattern: Traced) -> SampleGraph:
    """The result of a traced pattern for values that the pattern can be called with."""
    example = c.pick(pattern.examples)
    maker, sizes = _Maker(c, c.pick(("inputs", "inputs", "mixed"))), _Sizes(c)
    dtype = None if c.flag() else c.dtype()
    rank = max(t.rank for t in example)
    alike = ("n",) * rank  # otherwise of any sizes, for ops that broadcast
    common = sizes.of(alike) if c.flag() else c.shape(rank, rank)
    arguments = []
    for name, t in zip(pattern.names, example, strict=True):
        declared = pattern.shapes.get(name)
        shape = common[rank - t.rank :] if declared is None else sizes.of(declared)
        free = name not in pattern.dtypes
        leaf_dtype = dtype if dtype is not None and free else t.dtype
        arguments.append(maker.leaf(Want(shape, leaf_dtype)))
    try:
        value = pattern.function(*arguments)
    except Exception:
        raise Misfit from None
    return SampleGraph(value, maker.wants)


def _common_or_thinner(c: Chance, common: tuple[Size, ...]) -> tuple[Size, ...]:
    return common if not c.flag(3) else c.thinned(common)


class _Sizes:
    """Sizes for the names in a pattern, each a number or a name again."""

    def __init__(self, c: Chance) -> None:
        self._c = c
        self._chosen_sizes: dict[str, Size] = {}

    def of(self, shape: Sequence[int | str | None]) -> tuple[Size, ...]:
        return tuple(
            n if isinstance(n, int) else self._c.size() if n is None else self._size(n)
            for n in shape
        )

    def _size(self, name: str) -> Size:
        if name not in self._chosen_sizes:
            sizes: tuple[Size, ...] = (2, axis(name), 3, 1, 0)
            self._chosen_sizes[name] = self._c.pick(sizes)
        return self._chosen_sizes[name]


@dataclass
class _Maker:
    """Makes values from patterns, from the inputs to the root."""

    c: Chance
    mode: str = "inputs"  # the kind of values for the pattern's variables
    wants: dict[Value, Want] = field(default_factory=dict)
    bound: dict[str, Any] = field(default_factory=dict)

    def make(self, pattern: Pattern, want: Want) -> Value:
        """Make a value that the pattern matches, of the wanted type where possible."""
        match pattern:
            case Variable(name):
                if name not in self.bound:
                    self.bound[name] = self.leaf(want)
                return self._known(name)
            case Named(name, inner):
                self.bound[name] = self.make(inner, want)
                return self._known(name)
            case Once(inner):
                return self.make(inner, want)
            case Apply():
                return self.node(pattern, want)
            case OneOf(ops):  # variables as inputs; some ops have all inputs they need
                op = self.c.pick(ops)
                names = PRIMITIVES[op].arguments
                return self.node(Apply(op, tuple(map(Variable, names))), want)
        return self.number(pattern, self.wider(want))

    def _known(self, name: str) -> Value:
        bound_value = self.bound[name]
        if not isinstance(bound_value, Value):
            raise Misfit
        return bound_value

    def node(self, pattern: Apply, want: Want) -> Value:
        """Make a node of the pattern's primitive, on inputs that are made for it."""
        if pattern.op == "constant":
            return self.c.pick(self.constants)(want)
        primitive, count = PRIMITIVES[pattern.op], len(pattern.inputs)
        fixed = {
            name: self.bound[p.name] if isinstance(p, Variable) else p
            for name, p in pattern.params.items()
            if not isinstance(p, Variable) or p.name in self.bound
        }
        if want.weak and not (primitive.elementwise and pattern.op != "where"):
            raise Misfit  # only arithmetic on weak numbers gives weak numbers
        default = _default(primitive)
        planner: Callable[..., SamplePlan] = PLANS.get(pattern.op, default)
        plan = planner(self.c, want, fixed, count)
        if len(plan.inputs) != count:
            raise Misfit
        parts = list(zip(pattern.inputs, plan.inputs, strict=True))
        if pattern.op in COMMUTATIVE and self.c.flag(3):
            parts.reverse()
        values = self._all(parts)
        params = plan.params(values) | fixed
        for name, p in pattern.params.items():
            if isinstance(p, Variable):
                self.bound[p.name] = params[name]
        ordered = {name: params[name] for name in primitive.kinds.names}
        return primitive.bind(tuple(values), ordered).outputs[pattern.output]

    def _all(self, parts: list[tuple[Pattern, Want]]) -> list[Value]:
        """Make the inputs of a node; variables last, since others may bind them."""
        inputs: dict[int, Value] = {}
        late = [isinstance(part, Variable) for part, _ in parts]
        for i in sorted(range(len(parts)), key=late.__getitem__):
            inputs[i] = self.make(*parts[i])
        return [inputs[i] for i in range(len(parts))]

    def leaf(self, want: Want) -> Value:
        """Make a value for a variable of a pattern, most often an input."""
        if want.weak:
            return self.number(self.c.pick(NUMBERS), want)
        if want.role:
            return self.variable(want) if want.role == "index" else self.definite(want)
        if self.mode != "mixed" and not self.c.flag(4):
            if self.mode == "inputs":
                return self.variable(want)
            return self.number(self.c.pick(NUMBERS), want.of())
        computed = (self.stretched, self.filled, self.converted, self.function)
        return self.c.pick((self.variable, *self.constants, *computed))(want)

    @property
    def constants(self) -> tuple[Callable[[Want], Value], ...]:
        """The ways to make a constant."""
        return self.constant, self.scalar, self.literal

    def constant(self, want: Want) -> Value:
        """Make a constant with the same number everywhere."""
        return self.number(self.c.pick(NUMBERS), want)

    def scalar(self, want: Want) -> Value:
        """Make a scalar constant."""
        return self.number(self.c.pick(NUMBERS), want.of())

    def stretched(self, want: Want) -> Value:
        """Make an input and broadcast it."""
        thin = want.of(*self.c.thinned(want.shape))
        return F.broadcast_to(self.variable(thin), want.shape)

    def filled(self, want: Want) -> Value:
        """Make an array with the same element everywhere."""
        return F.full(want.shape, self.leaf(want.of()))

    def converted(self, want: Want) -> Value:
        """Make an input of another dtype and convert it."""
        source = Want(want.shape, self.c.dtype())
        return cast(self.variable(source), want.dtype)

    def function(self, want: Want) -> Value:
        """Apply an elementwise function to a new input."""
        names = FUNCTIONS[: 4 if is_inexact(want.dtype) else 2]
        if want.dtype.kind == "b":
            names = ["logical_not"]
        result: Value = getattr(F, self.c.pick(names))(self.variable(want))
        return result

    def variable(self, want: Want, name: str = "") -> Value:
        """Make a new input."""
        called = name or f"x{len(self.wants)}"
        new_input = variable(called, TensorType(want.dtype, want.shape))
        self.wants[new_input] = want
        return new_input

    def definite(self, want: Want) -> Value:
        """Make a symmetric positive definite matrix that is far from singular."""
        x = self.variable(want)
        k = want.shape[-1]
        return F.add(F.matmul(x, F.conj(x.mT)), F.multiply(F.eye(k, dtype=x.dtype), 4))

    def wider(self, want: Want) -> Want:
        """Mostly the wanted type; else one with a shape that broadcasts with it."""
        if want.weak or not self.c.flag(4):
            return want
        sizes = [2 if n == 1 and self.c.flag() else n for n in want.shape]
        return want.of(*sizes) if sizes != [*want.shape] else want.of(2, *sizes)

    def number(self, number: object, want: Want) -> Value:
        """Make a constant of one number: a scalar, or an array of the whole shape.

        A named size is 1 in that shape.
        """
        array = _array(number, want.dtype)
        if want.weak and want.dtype.name not in WEAK:
            raise Misfit
        if not want.shape or want.weak or not self.c.flag(2):
            return constant(array, want.weak)
        shape = tuple(n if isinstance(n, int) else 1 for n in want.shape)
        return constant(np.full(shape, array))

    def literal(self, want: Want) -> Value:
        """Make a constant of several numbers."""
        shape = [n for n in want.shape if isinstance(n, int)]
        if not _static(want.shape):
            raise Misfit
        numbers = [self.c.pick(NUMBERS[:4]) for _ in range(3)]
        array = np.resize(np.array(numbers), tuple(shape))
        return constant(_array(array, want.dtype))


def _default(primitive: Primitive) -> Callable[..., SamplePlan]:
    return elementwise if primitive.elementwise else any_of


def _static(shape: tuple[Size, ...]) -> bool:
    return not any(isinstance(n, Dim) for n in shape)


def _array(number: Any, dtype: DType) -> NDArray:
    """A number in a dtype. Raises Misfit if the dtype cannot hold the number."""
    with np.errstate(all="ignore"):
        array = np.asarray(number).astype(dtype)
    if not is_inexact(dtype) and not np.array_equal(array, number):
        raise Misfit
    return array
