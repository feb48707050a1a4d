"""Read a jaxpr as values of a graph, with one rule per equation."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import jax.core
import jax.dtypes
import numpy as np
from jax.extend import source_info_util
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from graphc.errors import NOWHERE, OWN_FILES, SourceLocation, standing_at, user_place
from graphc.importers.jax.read.foreign import Origin
from graphc.importers.jax.read.jaxprs import (
    is_array_type,
    is_gone,
    is_key,
    open_jaxpr,
    words_of,
)
from graphc.importers.jax.read.recipe import Recipes
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.sizes import JaxSizes
from graphc.importers.jax.read.unsupported import Unsupported, text_of_error
from graphc.ir.graph.accepted_types import DTypeLike
from graphc.ir.graph.build import constant
from graphc.ir.graph.nodes import Value, known_sizes
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, equal
from graphc.ir.types import DTYPES, ConcreteArray, DType, TensorType, dtype_of
from graphc.ops.effects.foreign import foreign

KEY_WORDS = 2  # words in a key of JAX's default generator, uint32 each
source_info_util.register_exclusion(OWN_FILES)  # lines in our files are not the user's
_SUMMARY = re.compile(r"^(.*?):(\d+)(?::\d+)?(?: \((.*)\))?$")
Found = TypeVar("Found")


class _Known(NamedTuple):
    """The result types and the line of an equation, which is kept alive."""

    eqn: JaxprEqn
    types: list[TensorType]
    place: SourceLocation


PulledRules = dict[int, tuple[JaxprEqn, Any]]  # by ids of equations, kept alive


class Reader:
    """Reads jaxprs whose symbolic sizes are those of `sizes`.

    If it `differentiates`, functions keep their own derivative rules. If it
    `keeps_rules`, JAX runs such functions, so that JAX sees the rules. `pulled` holds
    the rules traced so far, since tracing a rule calls the user's code. Equations
    without a rule become foreign functions, as found in the `origin`, and `foreign`
    lists them.
    """

    def __init__(
        self,
        sizes: JaxSizes,
        differentiates: bool = False,
        origin: Origin | None = None,
        keeps_rules: bool = False,
        pulled: PulledRules | None = None,
    ) -> None:
        self.sizes = sizes
        self.pulled: PulledRules = {} if pulled is None else pulled
        self.differentiates = differentiates
        self.origin = origin
        self.keeps_rules = keeps_rules
        self.foreign: list[str] = []
        self.within: tuple[str, ...] = ()  # functions whose equations are being read
        self.place: SourceLocation = user_place()  # the line that calls them
        self.fed: dict[int, Value] = {}  # of constants and literals, by identity
        # The token of the last call with effects.
        self.token: Value = constant(np.asarray(0, "int32"))
        self._recipes = Recipes()
        # Facts about equations that may be read again, by identity.
        self._known: dict[Any, _Known] = {}
        self._literals: dict[int, tuple[Literal, Value]] = {}

    def type_of(self, aval: Any) -> TensorType:
        """The type here of a JAX value; keys become arrays of words."""
        if not is_array_type(aval):
            raise Unsupported(f"a value is not an array: {aval}")
        shape = tuple(self.sizes.of(n) for n in aval.shape)
        if is_key(aval.dtype):
            _require_default_keys(aval.dtype)
            return TensorType(dtype_of("uint32"), (*shape, KEY_WORDS))
        return TensorType(_dtype_of(aval.dtype), shape)

    def known(self, eqn: JaxprEqn) -> "_Known":
        """The types of an equation's results, and its line."""
        key = id(eqn), self.within, self.place
        facts = self._known.get(key)
        if facts is None:
            place = place_of(eqn, self.within) or self.place
            try:
                types = [self.type_of(v.aval) for v in eqn.outvars]
            except Unsupported as error:
                problem = f"{eqn.primitive.name}: {error.reason}"
                raise Unsupported(problem, place) from None
            facts = self._known[key] = _Known(eqn, types, place)
        return facts

    def read(
        self, jaxpr: Jaxpr, consts: Sequence[Value], inputs: Sequence[Value]
    ) -> list[Value]:
        """Read the outputs of a jaxpr for these constants and inputs.

        Raises Unsupported, with the user's line, if an equation has no rule and JAX
        cannot run it inside a program either.
        """
        known: dict[Var, Value] = dict(zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, inputs, strict=True))

        def value(atom: Any) -> Value:
            return self._literal(atom) if isinstance(atom, Literal) else known[atom]

        for eqn in jaxpr.eqns:
            with standing_at(self.known(eqn).place):
                values = [value(atom) for atom in eqn.invars]
            results = self._results(eqn, values)
            known.update(zip(eqn.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def read_closed(self, jaxpr: Any, inputs: Sequence[Value]) -> list[Value]:
        """Read the outputs of a jaxpr, with its constants; it may be called again."""
        inner, consts = open_jaxpr(jaxpr)

        def read(values: Sequence[Value]) -> list[Value]:
            return self.read(inner, [self.constant(c) for c in consts], values)

        if inner.effects:  # each call follows the one before
            return read(inputs)
        stands = all(map(_line_of, inner.eqns))  # have lines of their own
        where = self.within, NOWHERE if stands else self.place
        return self._recipes.results(jaxpr, where, read, inputs)

    def _literal(self, atom: Literal) -> Value:
        if id(atom) in self.fed:
            return self.fed[id(atom)]
        entry = self._literals.get(id(atom))
        if entry is None:
            entry = self._literals[id(atom)] = atom, _literal(atom)
        return entry[1]

    def constant(self, array: ConcreteArray) -> Value:
        """The value of a constant of a jaxpr."""
        return self.fed[id(array)] if id(array) in self.fed else constant_of(array)

    def _results(self, eqn: JaxprEqn, inputs: Sequence[Value]) -> list[Value]:
        place = self.known(eqn).place
        count = len(self.foreign)
        try:
            return self._by_rule(eqn, inputs, place)
        except Unsupported as error:
            del self.foreign[count:]  # for parts inside: JAX runs it as a whole
            why = Unsupported(error.reason, error.place or place)
        except Exception as error:  # raised by a rule that did not foresee the case
            line = (str(error).strip().splitlines() or [text_of_error(error)])[0]
            why = Unsupported(f"{eqn.primitive.name}: {line}", place)
        try:
            return self._run_by_jax(eqn, inputs, place, why)
        except Unsupported:
            raise why from None

    def _by_rule(
        self, eqn: JaxprEqn, inputs: Sequence[Value], place: SourceLocation
    ) -> list[Value]:
        rule = PRIMITIVES.find(eqn.primitive.name)
        _require_known_for_keys(eqn)
        with standing_at(place):
            equation = Equation(eqn, self)
            answer = rule(equation, *inputs)
            results = list(answer) if isinstance(answer, (list, tuple)) else [answer]
            return equation.checked(results)

    def _run_by_jax(
        self,
        eqn: JaxprEqn,
        inputs: Sequence[Value],
        place: SourceLocation,
        why: Unsupported,
    ) -> list[Value]:
        """Let JAX run an equation inside the program; raise `why` without an origin."""
        if self.origin is None:
            raise why
        types = Equation(eqn, self).results
        function = self.origin.make_function(eqn, types)
        if not types:
            return []  # has no effects either, so does nothing
        names = () if function.is_elementwise else self.origin.names
        sizes = [self.sizes.named(name) for name in names]
        with standing_at(place):
            results = foreign(function, inputs, [t.shape for t in types], sizes)
        self.foreign.append(str(why))
        return list(results)


class Equation:
    """An equation of a jaxpr, as rules see it."""

    def __init__(self, eqn: JaxprEqn, reader: Reader) -> None:
        self.eqn = eqn
        self.reader = reader
        self.params: dict[str, Any] = eqn.params

    @property
    def results(self) -> list[TensorType]:
        """The types of the results."""
        return self.reader.known(self.eqn).types

    @property
    def result(self) -> TensorType:
        """The type of the first result, which is often the only one."""
        return self.results[0]

    @property
    def takes_keys(self) -> bool:
        """Whether the first input has keys, whose words form one more axis here."""
        aval: Any = self.eqn.invars[0].aval
        return is_key(aval.dtype)

    def size(self, name: str) -> Size:
        """The size in a param."""
        return self.reader.sizes.of(self._sizes_among_params(name))

    def shape(self, name: str) -> tuple[Size, ...]:
        """The sizes in a param; () if the param is None."""
        sizes = self._sizes_among_params(name) or ()
        return tuple(map(self.reader.sizes.of, sizes))

    def shapes(self, name: str) -> list[tuple[Size, ...]]:
        """The sizes in a param that holds tuples, one for each axis."""
        of = self.reader.sizes.of
        return [tuple(map(of, sizes)) for sizes in self._sizes_among_params(name)]

    def _sizes_among_params(self, name: str) -> Any:
        """A param that holds sizes; the rule must have declared it."""
        if name not in PRIMITIVES.sizes_of(self.eqn.primitive.name):
            problem = f"{name} is not declared as a size"
            raise ValueError(f"{self.eqn.primitive.name}: {problem}")
        return self.params[name]

    def body(self, jaxpr: object, values: Sequence[Value]) -> list[Value]:
        """Read the results of a jaxpr among the params, for these values."""
        reader = self.reader
        outer = reader.within, reader.place
        name = self.params.get("name")
        reader.place = reader.known(self.eqn).place
        reader.within = (*outer[0], name) if isinstance(name, str) else outer[0]
        try:
            return reader.read_closed(jaxpr, values)
        finally:
            reader.within, reader.place = outer

    def token(self) -> list[Value]:
        """The token of earlier effects, in a list; empty if this has no effects."""
        return [self.reader.token] if self.eqn.effects else []

    def set_token(self, token: Sequence[Value]) -> None:
        """Make later effects come after a token, if one is given."""
        for value in token:
            self.reader.token = value

    def body_after(
        self, token: Sequence[Value], jaxpr: object, values: Sequence[Value]
    ) -> list[Value]:
        """Read a jaxpr after a token; return the new token, then the results."""
        self.set_token(token)
        results = self.body(jaxpr, values)
        return [*self.token(), *results]

    def require_own_functions(self) -> None:
        """Raise Unsupported if functions among the params hold sizes of one trace."""
        if self.reader.origin is not None and self.reader.origin.sampled:
            name = self.eqn.primitive.name
            raise Unsupported(f"{name}: its rule is known at single sizes only")

    def require(self, name: str, *allowed: object) -> None:
        """Raise Unsupported unless a param is absent or one of the `allowed`."""
        param = self.params.get(name)
        if param is not None and not any(param == a for a in allowed):
            problem = f"{self.eqn.primitive.name}: {name}={param} is not known here"
            raise Unsupported(problem)

    def checked(self, values: Sequence[Value]) -> list[Value]:
        """Return a rule's results, which must have the types that JAX gives.

        Sizes that cannot be proved equal are asserted, and so checked at each call.
        """
        pairs = zip(values, self.results, strict=True)
        return [self._with_stated_type(value, type) for value, type in pairs]

    def _with_stated_type(self, value: Value, type: TensorType) -> Value:
        actual = value.type
        sizes = zip(actual.shape, type.shape, strict=False)
        answers = [equal(a, b) for a, b in sizes]
        same = (
            actual.dtype == type.dtype and actual.rank == type.rank and not actual.weak
        )
        if not same or False in answers:
            problem = f"the rule gives {actual}, JAX {type}"
            raise Unsupported(f"{self.eqn.primitive.name}: {problem}")
        return value if all(answers) else F.specify_shape(value, type.shape)


def constant_of(array: ConcreteArray) -> Value:
    """Turn an array or a key of JAX into a constant."""
    if is_gone(array):
        raise Unsupported("it captures an array that has been deleted")
    if is_key(getattr(array, "dtype", np.dtype("bool"))):
        _require_default_keys(array.dtype)
        array = words_of(array)
    if isinstance(array, jax.core.Tracer):
        raise Unsupported("it uses a value that is being traced outside of it")
    numbers = np.asarray(array)
    return constant(numbers.astype(_dtype_of(numbers.dtype)))


def _literal(atom: Literal) -> Value:
    aval: Any = atom.aval
    if aval.dtype == jax.dtypes.float0:
        return constant(np.zeros(aval.shape, "bool"))
    return constant(np.asarray(atom.val, dtype_of(aval.dtype)))


@cache
def _dtype_of(dtype: DTypeLike) -> DType:
    """The dtype here of a JAX dtype; float0, of missing cotangents, becomes bool."""
    numpy_dtype = np.dtype("bool") if dtype == jax.dtypes.float0 else np.dtype(dtype)
    if numpy_dtype.name not in DTYPES:
        raise Unsupported(f"there is no dtype {numpy_dtype} here")
    return dtype_of(numpy_dtype)


_OF_KEYS = {
    *("random_bits", "random_clone", "random_fold_in", "random_split", "random_unwrap"),
    *("broadcast_in_dim", "concatenate", "copy", "dynamic_slice", "reshape", "rev"),
    *("dynamic_update_slice", "eq", "gather", "ne", "random_gamma", "scatter"),
    *("select_n", "slice", "split", "squeeze", "stack", "transpose", "unstack"),
    *("checkpoint", "closed_call", "cond", "custom_jvp_call", "custom_vjp_call"),
    *("jit", "optimization_barrier", "remat2", "scan", "while"),
}


def _require_known_for_keys(eqn: JaxprEqn) -> None:
    """Raise Unsupported if a rule does not expect the words of keys as an axis."""
    avals: list[Any] = [atom.aval for atom in eqn.invars]
    if eqn.primitive.name not in _OF_KEYS and any(is_key(a.dtype) for a in avals):
        raise Unsupported(f"{eqn.primitive.name}: there is no op for keys here")


def _require_default_keys(dtype: DTypeLike) -> None:
    if "fry" not in str(dtype):
        raise Unsupported(f"keys of the generator {dtype} are not known here")


def _line_of(eqn: JaxprEqn) -> re.Match[str] | None:
    """The user's file, line and function that JAX records for an equation."""
    return _SUMMARY.match(source_info_util.summarize(eqn.source_info))


def place_of(eqn: JaxprEqn, within: Sequence[str] = ()) -> SourceLocation | None:
    """The user's line that an equation comes from, in the functions `within`.

    Without such names, the function is the one that contains the line. Returns None if
    JAX knows no line, as in its own functions that it traced earlier.
    """
    line = _line_of(eqn)
    if line is None:
        return None
    name = ".".join(within) or (line[3] or "").rpartition(".")[2]
    return SourceLocation(line[1], int(line[2]), within=name)


def rule_calling(function: Callable[..., Found]) -> Callable[..., Found]:
    """Return a rule that calls a function of graphs on the inputs."""

    def rule(_: Equation, *inputs: Value) -> Found:
        return function(*inputs)

    return rule


def known_size(x: Value) -> Size | None:
    """The integer that a scalar holds, if known as a size, else None."""
    size: Any = None if x.type.rank else known_sizes(x)
    return None if size is None else size[()]
