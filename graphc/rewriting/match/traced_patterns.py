"""Patterns that are ordinary functions: `lambda a: gt.log(gt.sum(gt.exp(a)))`.

Such a pattern fits a value if the function, called with some values, gives it: the same
ops with the same params. Params and constants may depend on the arguments, as axes do
on their rank, so there are two steps. Where the rule is declared, the function is
traced on placeholders of all ranks and of several dtypes, and the forms of its result
are kept, without params. Where a form fits, the function is traced again on the values
that were found, and must give the value that is to be replaced.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from graphc.errors import graph_error
from graphc.ir.graph.build import literal_of, variable
from graphc.ir.graph.nodes import Node, Params, Value
from graphc.ir.graph.replay import region_between
from graphc.ir.graph.structure import param_form
from graphc.ir.graph.walk import operands
from graphc.ir.sizes.dims import Dim, Size, axis, equal
from graphc.ir.types import DType, NDArray, TensorType, dtype_of, same_shape
from graphc.rewriting.match.pattern import (
    COMMUTATIVE,
    Apply,
    Bindings,
    CountUses,
    Named,
    Pattern,
    Variable,
    matches,
    may_fit,
)

InputShapes = Mapping[str, Sequence[int | str | None]]
DTypes = Mapping[str, str | Sequence[str]]
Types = tuple[TensorType, ...]  # one for each placeholder
T = TypeVar("T")
MOST_RANK = 4
MOST_NODES = 200
STATIC = 4  # a size, where it is a number
UNIFORM = ("float32", "float64", "int64", "bool", "float16", "complex64")


@dataclass(frozen=True, eq=False)
class Traced:
    """A function as a pattern, with the declared shapes and dtypes of its arguments."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    shapes: InputShapes
    dtypes: DTypes
    once: bool  # whether nothing else may use inner values
    forms: tuple[Apply, ...]
    examples: tuple[Types, ...]  # of placeholders for which it can be traced

    @property
    def ops(self) -> tuple[str, ...]:
        """The primitives at the roots of the forms."""
        return tuple(dict.fromkeys(form.op for form in self.forms))

    def may_fit(self, op: str, inputs: Sequence[str]) -> bool:
        """Whether a node of primitive `op`, on such inputs, may match."""
        return any(may_fit(form, op, inputs) for form in self.forms)

    def matches(self, value: Value, uses: CountUses) -> Iterator[Bindings]:
        """Yield the placeholders' values, for each way the function gives `value`."""
        tried: set[tuple[int, ...]] = set()
        for form in self.forms:
            for bindings in matches(form, value, uses):
                arguments = tuple(bindings[name] for name in self.names)
                key = tuple(map(id, arguments))
                if key not in tried and self._bindings_for(value, arguments, uses):
                    yield dict(zip(self.names, arguments, strict=True))
                tried.add(key)

    def _bindings_for(
        self, value: Value, arguments: tuple[Value, ...], uses: CountUses
    ) -> bool:
        if not self._are_as_stated(arguments):
            return False
        try:
            result = self.function(*arguments)
        except Exception:  # not traceable on these: no result of the function
            return False
        same = _Comparison(arguments)
        if not same_type(result, value) or not same.are_alike(result, value):
            return False
        return not self.once or same.is_alone(value, uses)

    def _are_as_stated(self, arguments: tuple[Value, ...]) -> bool:
        """Whether values have the declared shapes and dtypes."""
        sizes: dict[str, Size] = {}
        for name, x in zip(self.names, arguments, strict=True):
            if name in self.dtypes and x.dtype not in _dtypes(self.dtypes[name]):
                return False
            shape = self.shapes.get(name)
            if shape is not None and not _has_shape(shape, x.type.shape, sizes):
                return False
        return True


def _dtypes(stated: str | Sequence[str]) -> list[DType]:
    return list(map(dtype_of, [stated] if isinstance(stated, str) else stated))


def _has_shape(
    stated: Sequence[int | str | None], shape: tuple[Size, ...], sizes: dict[str, Size]
) -> bool:
    """Whether a shape surely is as declared; `sizes` has the sizes of names so far."""
    if len(stated) != len(shape):
        return False
    for entry, n in zip(stated, shape, strict=True):
        known = sizes.setdefault(entry, n) if isinstance(entry, str) else entry
        if known is not None and equal(known, n) is not True:
            return False
    return True


def same_type(result: object, value: Value) -> bool:
    """Whether the result of a function has the type of a value."""
    if not isinstance(result, Value):
        return False
    same = result.dtype == value.dtype and result.type.weak == value.type.weak
    return same and same_shape(result.type.shape, value.type.shape)


class _Comparison:
    """Compare the result of a function with the graph as it is."""

    def __init__(self, arguments: tuple[Value, ...]) -> None:
        self._arguments = set(arguments)
        self._known: dict[tuple[int, int], bool] = {}
        self._inside: dict[Node, None] = {}

    def are_alike(self, result: Value, value: Value) -> bool:
        """Whether both have the same ops, up to the order in sums and products."""
        if result in self._arguments:
            return result is value
        key = id(result), id(value)
        if key not in self._known:
            self._known[key] = self._compare(result, value)
        return self._known[key]

    def _compare(self, result: Value, value: Value) -> bool:
        constant = literal_of(result)
        if constant is not None:
            return _is_constant(constant, value)
        a, b = result.node, value.node
        if a.primitive is not b.primitive or result.index != value.index:
            return False
        if not _same_params(a.params, b.params) or len(a.inputs) != len(b.inputs):
            return False
        self._inside[b] = None
        orders = [b.inputs]
        if a.primitive.name in COMMUTATIVE:
            orders.append(b.inputs[::-1])
        return any(all(map(self.are_alike, a.inputs, order)) for order in orders)

    def is_alone(self, root: Value, uses: CountUses) -> bool:
        """Whether only matched nodes use the inner values."""
        within = Counter(x for node in self._inside for x in operands(node))
        return all(
            uses(x) <= within[x] or literal_of(x) is not None
            for node in self._inside
            if node is not root.node
            for x in node.outputs
        )


def _is_constant(array: NDArray, value: Value) -> bool:
    """Whether a value is a constant that holds the same number everywhere."""
    literal = literal_of(value)
    if literal is None or literal.dtype != array.dtype:
        return False
    if array.ndim and array.shape != literal.shape:
        return False
    numbers = array.tobytes()
    if array.ndim or not literal.size:
        return bool(array.ndim) and numbers == literal.tobytes()
    return numbers * literal.size == literal.tobytes()


def _same_params(a: Params, b: Params) -> bool:
    """Whether params are the same; sizes must be provably so."""
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_same_params(a[k], b[k]) for k in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same_params, a, b))
    if isinstance(a, Dim) or isinstance(b, Dim):
        sizes = isinstance(a, int | Dim) and isinstance(b, int | Dim)
        return sizes and equal(a, b) is True
    return bool(a is b or param_form(a) == param_form(b))


def traced(
    function: Callable[..., object],
    names: tuple[str, ...],
    shapes: InputShapes,
    dtypes: DTypes,
    once: bool,
) -> Traced:
    """Trace a function into a pattern. Raises GraphError where it cannot be traced."""
    for name in (*shapes, *dtypes):
        if name not in names:
            problem = f"there is no placeholder {name!r}"
            raise _pattern_error(problem, got=", ".join(names))
    forms: dict[Apply, None] = {}
    examples: list[Types] = []
    failure: Exception | None = None
    for types in _trial_types(names, shapes, dtypes):
        placeholders = tuple(map(variable, names, types))
        try:
            forms[_generalise(function(*placeholders), placeholders, names)] = None
        except Exception as error:
            failure = failure or error
        else:
            examples.append(types)
    if not forms:
        text = f"{type(failure).__name__}: {failure}".splitlines()[0]
        hint = "state what it needs: shapes={'a': ('n', 3)}, dtypes={'a': 'bool'}"
        problem = "the pattern cannot be traced on placeholders of any type"
        raise _pattern_error(problem, got=text, hint=hint) from failure
    return Traced(function, names, shapes, dtypes, once, tuple(forms), tuple(examples))


def _pattern_error(problem: str, got: str = "", hint: str = "") -> Exception:
    return graph_error(problem, op="rewrite", got=got, hint=hint)


def _trial_types(
    names: tuple[str, ...], shapes: InputShapes, dtypes: DTypes
) -> Iterator[Types]:
    """Yield types to trace a function on: as declared, or else one after another."""
    n = len(names)
    kinds = _mixtures(n, UNIFORM, (("float32", "int64"), ("float32", "bool")))
    ranks = _mixtures(n, range(MOST_RANK + 1), ((2, 1), (2, 0), (1, 0)))
    for size in (axis("n"), STATIC):
        sizes: dict[int | str | None, Size] = {}
        stated = {k: _with_sizes(shape, size, sizes) for k, shape in shapes.items()}
        tried = dict.fromkeys(
            tuple(stated.get(k, (size,) * r) for k, r in zip(names, rank, strict=True))
            for rank in ranks
        )
        every = dict.fromkeys(
            tuple(_stated_dtypes(dtypes, names, kind)) for kind in kinds
        )
        for shape in tried:
            for dtype in every:
                yield tuple(map(TensorType, dtype, shape))


def _mixtures(
    n: int, uniform: Iterable[T], pairs: Iterable[tuple[T, T]]
) -> list[tuple[T, ...]]:
    """Return tuples of `n` items: the same item everywhere, or everywhere but once."""
    mixtures = [(one,) * n for one in uniform]
    for most, other in pairs:
        for i in range(n):
            mixtures.append((most,) * i + (other,) + (most,) * (n - i - 1))
            mixtures.append((other,) * i + (most,) + (other,) * (n - i - 1))
    return mixtures


def _with_sizes(
    shape: Sequence[int | str | None], size: Size, sizes: dict[int | str | None, Size]
) -> tuple[Size, ...]:
    """Return a declared shape, with numbers or symbols for its names."""
    known = [
        n if isinstance(n, int) else sizes.setdefault(n, _placeholder_size(n, size))
        for n in shape
    ]
    return tuple(known)


def _placeholder_size(name: str | None, size: Size) -> Size:
    return axis(name or "n") if isinstance(size, Dim) else size


def _stated_dtypes(
    stated: DTypes, names: Iterable[str], kinds: Iterable[str]
) -> Iterator[DType]:
    for name, kind in zip(names, kinds, strict=True):
        yield _dtypes(stated[name])[0] if name in stated else dtype_of(kind)


def _generalise(
    result: object, placeholders: tuple[Value, ...], names: tuple[str, ...]
) -> Apply:
    """Turn the result of a function into a pattern without params and constants."""
    if not isinstance(result, Value):
        got = type(result).__name__
        raise _pattern_error("the pattern must return one value", got=got)
    region = set(region_between([result], placeholders))
    if result.node not in region:
        raise _pattern_error("the pattern must compute something of its placeholders")
    if len(region) > MOST_NODES:
        raise _pattern_error("the pattern is too large", got=f"{len(region)} nodes")
    used = {x for node in region for x in node.inputs}
    for name, x in zip(names, placeholders, strict=True):
        if x not in used:
            raise _pattern_error(f"the value of the placeholder {name} is not used")
    known: dict[Value, Variable] = dict(
        zip(placeholders, map(Variable, names), strict=True)
    )

    def pattern(x: Value) -> Pattern:
        if x in known:
            return known[x]
        known[x] = Variable(f" {len(known)}")  # no placeholder has such a name
        if x.node not in region:
            return known[x]
        name = known[x].name
        inputs = tuple(map(pattern, x.node.inputs))
        return Named(name, Apply(x.node.primitive.name, inputs, output=x.index))

    named = pattern(result)
    assert isinstance(named, Named) and isinstance(named.pattern, Apply)
    return named.pattern
