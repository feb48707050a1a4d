"""Functions of other libraries, without graphs here: programs call them by name."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.graph.build import tuple_text
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Opaque, Printing, op
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param, Text
from graphc.ir.sizes.dims import Size
from graphc.ir.types import ConcreteArray, DType, NDArray, TensorType, is_inexact
from graphc.ops.common.batching import Batched
from graphc.ops.common.padding import NotPadded, PaddedValue, Padding, Rebuilt


@dataclass(frozen=True)
class ForeignFunction(ABC):
    """A function of arrays that another library runs, once sizes are numbers.

    `dtypes` and `ranks` are those of its results. Functions that are equal compute the
    same.
    """

    name: str
    dtypes: tuple[DType, ...]
    ranks: tuple[int, ...]

    @property
    def is_elementwise(self) -> bool:
        """Whether each element depends only on those at its place, and on no size."""
        return False

    @abstractmethod
    def run(
        self, sizes: Sequence[int], arrays: Sequence[ConcreteArray]
    ) -> Sequence[ConcreteArray]:
        """Compute the results, given the sizes that the function depends on."""

    @abstractmethod
    def on_host(
        self, sizes: Sequence[int], arrays: Sequence[ConcreteArray]
    ) -> Sequence[NDArray]:
        """Compute the results as NumPy arrays."""

    @abstractmethod
    def pulled(
        self, inputs: Sequence[TensorType], needed: Sequence[bool]
    ) -> "ForeignFunction":
        """The function that pulls cotangents back to the inputs that are `needed`.

        It takes the inputs, then the cotangents of float results, and returns the
        cotangents of these inputs.
        """

    @abstractmethod
    def batched(self, axes: Sequence[bool]) -> "ForeignFunction":
        """The function mapped over the first axis of the inputs that `axes` marks."""


@op()
def _foreign(
    *values: Array,
    function: Opaque,
    shapes: tuple[Size, ...],
    sizes: tuple[Size, ...],
    asking: Text,
) -> tuple[TensorType, ...]:
    """The results of a foreign function, which messages name as `asking`.

    `shapes` are the shapes of the results, one after another; `sizes` are the sizes
    that the function depends on.
    """
    return _types(function.content, shapes)


def _types(function: ForeignFunction, shapes: Sequence[Size]) -> tuple[TensorType, ...]:
    types, at = [], 0
    for dtype, rank in zip(function.dtypes, function.ranks, strict=True):
        types.append(TensorType(dtype, tuple(shapes[at : at + rank])))
        at += rank
    return tuple(types)


def _print_call(p: Printing) -> str:
    content = p.node.params["function"].content
    run = content.on_host if p.xp == "np" else content.run
    sizes = p.code(p.node.params["sizes"])
    return f"{p.foreign(content.name, run)}({sizes}, {tuple_text(p.inputs)})"


FOREIGN = _foreign
_foreign.emit(_print_call)
_foreign.several = True
_foreign.on_host = False
_foreign.selective = True


@_foreign.padding
def _(
    pad: Padding,
    *values: PaddedValue,
    function: Opaque,
    shapes: tuple[Size, ...],
    sizes: tuple[Size, ...],
    asking: Text,
) -> Rebuilt:
    if not function.content.is_elementwise:
        raise NotPadded("it runs at true sizes")
    stored = [pad.stored(n) for n in shapes]
    return foreign(function.content, [v.value for v in values], [stored], sizes)[0]


@_foreign.vjp
def _(
    g: Value | tuple[Value | None, ...],
    *values: Value,
    function: Opaque,
    shapes: tuple[Size, ...],
    sizes: tuple[Size, ...],
    asking: Text,
    needed: list[bool],
) -> tuple[Value | None, ...]:
    """Compute the cotangents with the derivative of the other library."""
    types = _types(function.content, shapes)
    parts = g if isinstance(g, tuple) else (g,)
    pairs = [(c, t) for c, t in zip(parts, types, strict=True) if is_inexact(t.dtype)]
    cotangents = [_zeros_of_type(t) if c is None else c for c, t in pairs]
    follows = [w and is_inexact(v.dtype) for v, w in zip(values, needed, strict=True)]
    results = iter(
        foreign(
            function.content.pulled([v.type for v in values], follows),
            [*values, *cotangents],
            [v.type.shape for v, w in zip(values, follows, strict=True) if w],
            sizes,
        )
    )
    return tuple(next(results) if w else None for w in follows)


def _zeros_of_type(type: TensorType) -> Value:
    zeros: Value = F.zeros(tuple(map(F.size_value, type.shape)), type.dtype)
    return zeros


@_foreign.batch
def _(
    n: Size,
    batched: Batched,
    *values: Value,
    function: Opaque,
    shapes: tuple[Size, ...],
    sizes: tuple[Size, ...],
    asking: Text,
) -> tuple[Value, ...]:
    result_shapes = [t.shape for t in _types(function.content, shapes)]
    many = function.content.batched(tuple(batched))
    return foreign(many, values, [(n, *shape) for shape in result_shapes], sizes)


def foreign(
    function: ForeignFunction,
    values: Sequence[Value],
    shapes: Sequence[Sequence[Size]],
    sizes: Sequence[Size],
) -> tuple[Value, ...]:
    """The results of a foreign function called on `values`; `shapes` are theirs."""
    params: dict[str, Param] = {
        "function": Opaque(function.name, function),
        "shapes": tuple(n for shape in shapes for n in shape),
        "sizes": tuple(sizes),
        "asking": Text(function.name),
    }
    return _foreign.bind(tuple(values), params).outputs
