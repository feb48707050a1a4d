"""One jaxpr for all sizes, combined from traces at several sizes.

Python code may need a size as a number: `np.arange(n)`, `math.sqrt(n)`, `int(n)`. Then
the function is traced at several sizes. If the traces differ only in integers and in
other numbers, the integers that are sizes become formulas. Numbers and arrays become
inputs, and each call passes the ones from its own trace, which must fit the template.
Functions that are called on the host, and texts that are printed there, become inputs
too.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, SupportsInt

import jax
import jax.core
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from graphc.importers.jax.read.callbacks import FunctionsByTrace, whole_identity
from graphc.importers.jax.read.jaxprs import (
    is_array_type,
    is_gone,
    open_jaxpr,
    words_of,
)
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.sizes.formulas import Formula, fit_formula
from graphc.importers.jax.sizes.pattern import text_of_sizes
from graphc.ir.types import ConcreteArray, NDArray

if TYPE_CHECKING:
    from jax.core import AbstractValue
    from jax.extend.core import ClosedJaxpr

PLAIN = type(None), bool, str, float, complex, np.dtype, Enum  # an Enum may be an int


class JaxprParts:
    """A jaxpr taken apart: parts that must be equal, integers, numbers and arrays.

    The jaxpr is rebuilt on the way. `size` replaces each integer, given its value, and
    `number` each number, given its position and value. A jaxpr that is called twice
    here may be two different ones in another trace, so each call is taken apart.
    """

    def __init__(
        self,
        jaxpr: "Jaxpr | ClosedJaxpr",
        size: Callable[[int], object],
        number: Callable[[int, Any], object],
    ) -> None:
        self.form: list[Hashable] = []
        self.sizes: list[int] = []
        self.lengths: list[int] = []  # positions of the sizes that belong to axes
        self.numbers: list[Any] = []
        self.avals: list[Any] = []  # of the numbers
        self._size, self._number = size, number
        self._numbers = count()
        self._variables: dict[Var, tuple[int, Var]] = {}
        self._made: list[Any] = []  # results of `size`, and ids of those of `number`
        self._done: dict[Hashable, Any] = {}
        self.jaxpr: object = self._jaxpr(jaxpr)

    def _jaxpr(self, jaxpr: Any) -> object:
        inner: Any
        inner, consts = open_jaxpr(jaxpr)
        start = len(self._made)
        self.form.append(("jaxpr", len(inner.constvars), len(inner.invars)))
        constvars = [self._variable(v) for v in inner.constvars]
        variables_and_consts = zip(constvars, consts, strict=bool(consts))
        consts = [self._placed(const, v.aval) for v, const in variables_and_consts]
        new = inner.replace(
            constvars=constvars,
            invars=[self._variable(v) for v in inner.invars],
            eqns=[self._equation(eqn) for eqn in inner.eqns],
            outvars=[self._atom(atom) for atom in inner.outvars],
        )
        if hasattr(jaxpr, "consts"):
            new = jaxpr.replace(jaxpr=new, consts=consts)
        return self._done.setdefault((id(inner), *self._made[start:]), new)

    def _variable(self, v: Var) -> Var:
        new = Var(self._aval(v.aval))
        self._variables[v] = next(self._numbers), new
        return new

    def _aval(self, aval: Any) -> Any:
        weak = getattr(aval, "weak_type", False)
        if not is_array_type(aval):
            raise Unsupported(f"a value is not an array: {aval}")
        self.form.append((str(aval.dtype), weak, len(aval.shape)))
        start = len(self.sizes)
        self.lengths += range(start, start + len(aval.shape))
        return aval.update(shape=tuple(map(self._integer, aval.shape)))

    def _integer(self, size: SupportsInt) -> object:
        self.sizes.append(int(size))
        self._made.append(self._size(int(size)))
        return self._made[-1]

    def _atom(self, atom: Var | Literal) -> Var | Literal:
        if not isinstance(atom, Literal):
            number, new = self._variables[atom]
            self.form.append(number)
            return new
        aval: Any = atom.aval
        if aval.shape:
            raise Unsupported("a literal is an array")
        self.form.append((str(aval.dtype), aval.weak_type))
        return self._placed(atom, aval)

    def _placed(self, number: object, aval: "AbstractValue") -> Any:
        new = self._number(len(self.numbers), number)
        self.numbers.append(number)
        self.avals.append(aval)
        self._made.append(id(new))
        return new

    def _equation(self, eqn: JaxprEqn) -> JaxprEqn:
        name = eqn.primitive.name
        self.form.append(name)
        invars = [self._atom(atom) for atom in eqn.invars]
        params = eqn.params
        if PRIMITIVES.has_rule(name):  # else JAX runs it, with another trace's params
            sizes, called = PRIMITIVES.sizes_of(name), PRIMITIVES.called_by(name)
            params = {
                k: self._placed(v, FunctionsByTrace.aval)
                if k == called
                else self._param(v, holds_sizes=k in sizes)
                for k, v in sorted(params.items())
            }
        outvars = [self._variable(v) for v in eqn.outvars]
        return eqn.replace(invars=invars, params=params, outvars=outvars)

    def _param(self, param: object, holds_sizes: bool) -> Any:
        if isinstance(param, PLAIN):
            self.form.append(repr(param))
            return param
        if isinstance(param, (int, np.integer)) and holds_sizes:
            return self._integer(param)
        if isinstance(open_jaxpr(param)[0], Jaxpr):
            return self._jaxpr(param)
        if isinstance(param, jax.core.ShapedArray) and holds_sizes:
            return self._aval(param)
        if isinstance(param, (tuple, list)):
            self.form.append((type(param).__name__, len(param)))
            items = [self._param(item, holds_sizes) for item in param]
            named = hasattr(param, "_fields")
            return type(param)(*items) if named else type(param)(items)
        self.form.append(_param_as_text(param))
        return param


def _param_as_text(param: object) -> str:
    """Show a param that holds no sizes so that the text is the same in all traces."""
    if callable(param):
        return f"function {getattr(param, '__qualname__', type(param).__name__)}"
    return str(param)


def _parts_of_jaxpr(jaxpr: "Jaxpr | ClosedJaxpr") -> JaxprParts:
    """Take a jaxpr apart without changing it."""
    return JaxprParts(jaxpr, lambda size: size, lambda _, number: number)


class _StandInNumbers:
    """Stand-ins for numbers that vary: a separate object for each.

    `changing` maps the positions of these numbers to the first position with the same
    number.
    """

    def __init__(self, changing: Mapping[int, int]) -> None:
        self._changing = changing
        self.objects: dict[int, Any] = {}

    def __call__(self, i: int, number: ConcreteArray) -> object:
        """Return the stand-in at a position, or the number itself if it is constant."""
        first = self._changing.get(i)
        if first is None:
            return number
        if first not in self.objects:
            self.objects[first] = _stand_in_for(number)
        return self.objects[first]


def _stand_in_for(number: ConcreteArray) -> object:
    literal: Any = Literal
    if _is_host_content(number):
        return FunctionsByTrace()
    if isinstance(number, Literal):
        return literal(number.val, number.aval)
    return number.copy()


def steps_of(jaxpr: "Jaxpr | ClosedJaxpr") -> list[Hashable]:
    """The steps of a jaxpr: everything except its sizes and numbers."""
    return _parts_of_jaxpr(jaxpr).form


@dataclass(frozen=True)
class Template:
    """The traces of a function at all sizes, as inferred from a few of them.

    `jaxpr` has JAX's symbols for sizes. `changing` maps the positions of numbers that
    vary to the first position with the same number. These numbers are constants or
    literals of `jaxpr`, listed with their types in `fed`. `near` is set if the traces
    were made at sizes close to each other.
    """

    jaxpr: Any
    parts: JaxprParts  # of the first trace
    formulas: tuple[Formula, ...]
    changing: Mapping[int, int]
    fed: Sequence[tuple[Any, Any]]
    near: bool = False

    def bounds(self, name: str) -> tuple[int | None, int | None]:
        """The least and the largest size of this name that make no axis negative."""
        axes = {self.formulas[i] for i in self.parts.lengths}
        lowest, highest = zip(*(axis.bounds(name) for axis in axes), strict=True)
        return (
            max((n for n in lowest if n is not None), default=None),
            min((n for n in highest if n is not None), default=None),
        )

    def is_possible(self, sizes: Mapping[str, int]) -> bool:
        """Whether no axis is negative at these sizes."""
        return all(self.formulas[i].at(sizes) >= 0 for i in self.parts.lengths)

    @property
    def divides(self) -> int:
        """The number of sizes whose formulas divide."""
        return sum(formula.divisor > 1 for formula in self.formulas)

    def describes(self, jaxpr: "Jaxpr", sizes: Mapping[str, int]) -> bool:
        """Whether the template describes the trace at some sizes."""
        try:
            self.numbers(jaxpr, sizes)
        except Unsupported:
            return False
        return True

    def numbers(self, jaxpr: "Jaxpr", sizes: Mapping[str, int]) -> list[NDArray]:
        """The arrays from a trace at some sizes that the template takes as inputs.

        Raises Unsupported if the template does not describe the trace.
        """
        parts = _parts_of_jaxpr(jaxpr)
        expected_sizes = [formula.at(sizes) for formula in self.formulas]
        if parts.form != self.parts.form or parts.sizes != expected_sizes:
            shown = text_of_sizes(sizes)
            raise Unsupported(f"JAX traces something else for {shown}")
        for i, number in enumerate(parts.numbers):
            at = self.changing.get(i)
            like = self.parts.numbers[i] if at is None else parts.numbers[at]
            if _differ(number, like):
                raise Unsupported("a number that was the same before differs now")
        pairs = zip(dict.fromkeys(self.changing.values()), self.fed, strict=True)
        return [_input_for(parts.numbers[i], place) for i, (place, _) in pairs]


def _input_for(number: ConcreteArray, place: object) -> NDArray:
    """Turn a number of a trace into the input that stands for it."""
    if isinstance(place, FunctionsByTrace):
        return np.asarray(place.number_of(number), place.aval.dtype)
    return _array(number)


def _array(number: ConcreteArray) -> NDArray:
    if isinstance(number, Literal):
        aval: Any = number.aval
        return np.asarray(number.val, aval.dtype)
    return words_of(number) if isinstance(number, jax.Array) else np.asarray(number)


def _differ(a: ConcreteArray, b: ConcreteArray) -> bool:
    if a is b:
        return False
    if _is_host_content(a):
        identity = whole_identity(a)
        return identity is None or identity != whole_identity(b)
    if is_gone(a) or is_gone(b):
        return True
    a, b = _array(a), _array(b)
    return a.shape != b.shape or a.tobytes() != b.tobytes()  # 0.0 differs from -0.0


def _is_host_content(number: object) -> bool:
    """Whether this is a function called on the host, or a text printed there."""
    return callable(number) or isinstance(number, str)


def _do_vary(numbers: Sequence[ConcreteArray]) -> bool:
    return any(_differ(numbers[0], other) for other in numbers[1:])


def template(
    traces: "Sequence[ClosedJaxpr]",
    samples: Sequence[Mapping[str, int]],
    symbols: Mapping[str, object],
) -> Template:
    """Make a template of jaxprs at several sizes; `symbols` are JAX's, by name.

    The jaxprs may differ only in sizes and numbers. Raises Unsupported if sizes follow
    no formula.
    """
    parts = [_parts_of_jaxpr(trace) for trace in traces]
    first = parts[0]
    columns = list(zip(*(p.sizes for p in parts), strict=True))
    known = {column: fit_formula(column, samples) for column in dict.fromkeys(columns)}
    formulas = tuple(known[column] for column in columns)
    numbers = list(zip(*(p.numbers for p in parts), strict=True))
    known_first: dict[Hashable, int] = {}
    changing = {
        i: known_first.setdefault(tuple(map(id, same)), i)
        for i, same in enumerate(numbers)
        if _do_vary(same)
    }
    remaining_formulas, places = iter(formulas), _StandInNumbers(changing)
    generic = JaxprParts(
        traces[0], lambda _: next(remaining_formulas).at(symbols), places
    )
    fed = [(new, generic.avals[i]) for i, new in places.objects.items()]
    return Template(generic.jaxpr, first, formulas, changing, fed)
