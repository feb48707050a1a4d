"""Whether two traces are equal, equation by equation, once their sizes are numbers.

Most traces at symbols are, at some sizes, the very trace that JAX makes there. Then no
graphs need be read to compare them. Whatever is not obviously the same counts as
different here: the graphs of such traces may still be alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.core
import jax.dtypes
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from graphc.importers.jax.read.jaxprs import (
    is_array_type,
    is_gone,
    open_jaxpr,
    words_of,
)
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.sizes import JaxSizes
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.importers.jax.trace.tracing import TracedFunction
from graphc.ir.sizes.dims import Size, equal
from graphc.ir.types import NDArray

if TYPE_CHECKING:
    from jax.core import AbstractValue

# The params of `custom_jvp` and `custom_vjp` that hold derivative rules.
_RULES = {"jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "out_trees"}
T = TypeVar("T")


def have_same_equations(
    a: TracedFunction,
    b: TracedFunction,
    sizes: Mapping[str, Size],
    other_sizes: Mapping[str, Size],
    needs_rules: bool,
) -> bool:
    """Whether `a` at `sizes` consists of the equations of `b` at `other_sizes`.

    Derivative rules of the user's, which cannot be compared, count as different if the
    reading `needs_rules`.
    """
    if a.fed or b.fed:
        return False
    comparison = _TraceComparison(JaxSizes(sizes), JaxSizes(other_sizes), needs_rules)
    try:
        comparison.match_jaxprs(a.jaxpr, b.jaxpr)
    except (_Different, Unsupported):
        return False
    return True


class _Different(Exception):
    """Raised at the first difference."""


@dataclass
class _TraceComparison:
    """A comparison of two jaxprs.

    `partners` maps variables of the first jaxpr to those of the second, `numbers` those
    that the first computes from sizes to these numbers, which the second has as
    literals. Jaxprs in `matched`, by their identities, need not be compared again.
    """

    sizes: JaxSizes
    other_sizes: JaxSizes
    needs_rules: bool
    partners: dict[Var, Var] = field(default_factory=dict)
    numbers: dict[Var, NDArray] = field(default_factory=dict)
    matched: set[tuple[int, int]] = field(default_factory=set)

    def match_jaxprs(self, a: object, b: object) -> None:
        """Raise _Different unless two jaxprs have the same equations and constants."""
        (first, consts), (second, other_consts) = open_jaxpr(a), open_jaxpr(b)
        for const, other in _pairs(consts, other_consts):
            _require(_same_constant(const, other))
        if (id(first), id(second)) in self.matched:
            return
        self._match_variables(first.constvars, second.constvars)
        self._match_variables(first.invars, second.invars)
        self._match_equations(first, second)
        for v, w in _pairs(first.outvars, second.outvars):
            self._match_atoms(v, w)
        self.matched.add((id(first), id(second)))

    def _match_equations(self, a: Jaxpr, b: Jaxpr) -> None:
        others = list(reversed(b.eqns))
        for eqn in a.eqns:
            if not self._is_number(eqn):
                _require(bool(others))
                self._match(eqn, others.pop())
        _require(not others)

    def _is_number(self, eqn: JaxprEqn) -> bool:
        """Whether an equation computes a number from sizes, which is then noted."""
        if eqn.primitive.name == "dim_as_value":
            size: Any = self.sizes.of(eqn.params["dim"])
            _require(isinstance(size, int))
        elif eqn.primitive.name == "convert_element_type":
            (atom,) = eqn.invars
            if isinstance(atom, Literal) or atom not in self.numbers:
                return False
            size = self.numbers[atom]
        else:
            return False
        (result,) = eqn.outvars
        aval: Any = result.aval
        self.numbers[result] = np.asarray(size).astype(aval.dtype)
        return True

    def _match(self, a: JaxprEqn, b: JaxprEqn) -> None:
        _require(a.primitive is b.primitive and a.ctx == b.ctx)
        for v, w in _pairs(a.invars, b.invars):
            self._match_atoms(v, w)
        _require(a.params.keys() == b.params.keys())
        name = a.primitive.name
        _require(PRIMITIVES.has_rule(name) and not PRIMITIVES.called_by(name))
        for key, param in a.params.items():
            if self.needs_rules or key not in _RULES:
                self._match_params(param, b.params[key])
        self._match_variables(a.outvars, b.outvars)

    def _match_variables(self, a: Sequence[Var], b: Sequence[Var]) -> None:
        for v, w in _pairs(a, b):
            self._match_types(v.aval, w.aval)
            self.partners[v] = w

    def _match_atoms(self, a: Var | Literal, b: Var | Literal) -> None:
        if isinstance(b, Literal):
            self._match_types(a.aval, b.aval)
            _require(isinstance(a, Literal) or a in self.numbers)
            number = _number(a) if isinstance(a, Literal) else self.numbers[a]
            _require(number.tobytes() == _number(b).tobytes())
        else:
            _require(not isinstance(a, Literal) and self.partners.get(a) is b)

    def _match_types(self, a: "AbstractValue", b: "AbstractValue") -> None:
        x: Any = a
        y: Any = b
        _require(type(x) is type(y) and is_array_type(x))
        _require((x.dtype, x.weak_type) == (y.dtype, y.weak_type))
        self._match_params(x.shape, y.shape)

    def _match_params(self, a: object, b: object) -> None:
        if _is_symbolic(a) or _is_symbolic(b):
            _require(equal(self.sizes.of(a), self.other_sizes.of(b)) is True)
            return
        if a is b:
            return
        _require(type(a) is type(b))
        if isinstance(open_jaxpr(a)[0], Jaxpr):
            self.match_jaxprs(a, b)
        elif isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            for x, y in _pairs(a, b):
                self._match_params(x, y)
        elif isinstance(a, (float, np.generic)):
            _require(same_array(a, b))  # 0.0 differs from -0.0
        else:
            _require(_says_all(a) and (a == b) is True)


def same_array(a: object, b: object) -> bool:
    """Whether two arrays, which may be keys, have the same type and the same bytes.

    An array that was deleted is the same as no other one.
    """
    if a is b:
        return True
    if is_gone(a) or is_gone(b):
        return False
    x, y = np.asarray(words_of(a)), np.asarray(words_of(b))
    same_type = x.dtype == y.dtype and x.shape == y.shape
    return same_type and x.tobytes() == y.tobytes()


def same_arrays(a: Sequence[object], b: Sequence[object]) -> bool:
    """Whether the arrays at the same places are the same; see `same_array`."""
    return len(a) == len(b) and all(map(same_array, a, b))


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, jax.core.Tracer) or isinstance(b, jax.core.Tracer):
        return a is b
    return same_array(a, b)


def _number(literal: Literal) -> NDArray:
    aval: Any = literal.aval
    _require(aval.dtype != jax.dtypes.float0)
    return np.asarray(literal.val, aval.dtype)


def _is_symbolic(param: object) -> bool:
    size: Any = param
    return jax.export.is_symbolic_dim(size)


def _says_all(param: object) -> bool:
    """Whether `==` of such params compares their contents."""
    return type(param).__eq__ is not object.__eq__ and not callable(param)


def _pairs(a: Sequence[T], b: Sequence[T]) -> Iterable[tuple[T, T]]:
    _require(len(a) == len(b))
    return zip(a, b, strict=True)


def _require(same: bool) -> None:
    if not same:
        raise _Different
