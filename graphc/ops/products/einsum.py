"""Einstein summation: parse the notation and build one primitive from it."""

import string
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike, DTypeLike
from graphc.ir.graph.build import cast
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import (
    Array,
    Printing,
    op,
    require_equal,
    type_error,
    views_of_inputs,
)
from graphc.ir.namespace import F, public
from graphc.ir.params.kinds import Letters
from graphc.ir.sizes.dims import Size, is_one, may_be_one, stretch
from graphc.ir.types import TensorType, dtype_of
from graphc.ops.common.axes import along_axis, other_axes
from graphc.ops.common.batching import Batched
from graphc.ops.common.broadcasting import promoted
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.products.contract import emit_product

Order = Literal["auto", "greedy", "optimal"]
Optimize = bool | Order | tuple[tuple[int, ...], ...]
Subscripts = Annotated[
    str, Letters("[A-Za-z]*(,[A-Za-z]*)*->[A-Za-z]*", "letters as in ij,jk->ik")
]
Terms = list[list[Hashable]]  # the labels of each operand; Ellipsis stands for itself


@op()
def _einsum(*operands: Array, subscripts: Subscripts, optimize: Optimize) -> TensorType:
    """The sum of products with explicit subscripts: no ellipsis, no spaces."""
    inputs, output = subscripts.split("->")
    sizes: dict[str, Size] = {}
    for x, labels in zip(operands, inputs.split(","), strict=True):
        if x.dtype != operands[0].dtype:
            raise type_error("needs arrays of one dtype")
        for label, n in zip(labels, x.type.shape, strict=True):
            reason = f"sizes of {label!r} in {subscripts}"
            sizes[label] = require_equal(sizes.get(label, n), n, reason)
    return operands[0].type.like(tuple(sizes[label] for label in output))


def _call(p: Printing, inputs: tuple[str, ...]) -> str:
    params = p.node.params
    how = _numpy_order(p) if p.xp == "np" else _jax_order(params["optimize"])
    listed = ", ".join((f'"{params["subscripts"]}"', *inputs))
    return f"{p.xp}.einsum({listed}{how})"


def _views(node: Node) -> Iterable[tuple[Value, Value]]:
    """The operand that the output may view: a lone one, of which nothing is summed."""
    labels, output = node.params["subscripts"].split("->")
    return views_of_inputs(node) if set(labels) == set(output) else ()


emit_product(_einsum, _call)
_einsum.views = _views


@_einsum.padding
def _(
    pad: Padding, *operands: PaddedValue, subscripts: str, optimize: Optimize
) -> Value:
    inputs, output = subscripts.split("->")
    filled = [
        pad.filled(x, [i for i, label in enumerate(term) if label not in output], 0)
        for x, term in zip(operands, inputs.split(","), strict=True)
    ]
    return _einsum(*filled, subscripts=subscripts, optimize=optimize)


@_einsum.vjp
def _(
    g: Value, *operands: Value, subscripts: str, optimize: Optimize
) -> tuple[Value, ...]:
    how = "auto" if isinstance(optimize, tuple) else optimize
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    cotangents = []
    for i, x in enumerate(operands):
        others = [*operands[:i], *operands[i + 1 :]]
        labels = [output, *terms[:i], *terms[i + 1 :]]
        shared_labels = "".join(
            x for x in dict.fromkeys(terms[i]) if x in "".join(labels)
        )
        d = g
        if others or shared_labels != output:
            text = f"{','.join(labels)}->{shared_labels}"
            d = _einsum(g, *others, subscripts=text, optimize=how)
        cotangents.append(_on_diagonals(d, shared_labels, terms[i], x))
    return tuple(cotangents)


def _on_diagonals(d: Value, labels: str, term: str, like: Value) -> Value:
    """Move `d` with axes `labels` to the axes of `like`, whose labels may repeat.

    Where two axes share a label, `d` stands on their diagonal. An axis of `like` whose
    label is not in `labels` was summed on its own, so `d` is constant along it.
    """
    shape = like.type.shape
    first = [i for i, label in enumerate(term) if term.index(label) == i]
    order = sorted(labels, key=term.index)
    d = F.transpose(d, [labels.index(label) for label in order])
    present_axes = [i for i in first if term[i] in labels]
    d = F.broadcast_to(F.expand_dims(d, other_axes(len(term), present_axes)), shape)
    for i, label in enumerate(term):
        if i not in first:
            on = F.equal(
                _positions_along(i, like), _positions_along(term.index(label), like)
            )
            d = F.where(on, d, F.zeros_like(d))
    return d


def _positions_along(axis: int, like: Value) -> Value:
    """The positions along `axis`, in the shape that broadcasts against `like`."""
    places = F.arange(F.size_value(like.type.shape[axis]))
    return along_axis(places, axis, like.type.rank)


@_einsum.batch
def _(
    n: Size, batched: Batched, *operands: Value, subscripts: str, optimize: Optimize
) -> Value:
    free = [x for x in string.ascii_letters if x not in subscripts]
    if not free:
        raise graph_error("no label is left for the batch axis", op="einsum")
    inputs, output = subscripts.split("->")
    pairs = zip(batched, inputs.split(","), strict=True)
    terms = [free[0] + term if b else term for b, term in pairs]
    text = f"{','.join(terms)}->{free[0]}{output}"
    return _einsum(*operands, subscripts=text, optimize=optimize)


def _numpy_order(p: Printing) -> str:
    """Return the text of the argument `optimize` for NumPy.

    "auto" becomes True where matrices are then multiplied by BLAS, not in a plain loop.
    """
    optimize = p.node.params["optimize"]
    if isinstance(optimize, tuple):
        steps = ", ".join(map(str, optimize))
        return f', optimize=["einsum_path", {steps}]'
    if optimize == "auto":
        optimize = len(p.inputs) > 2 or _is_matrix_product(p.node.params["subscripts"])
    return f", optimize={optimize!r}" if optimize else ""


def _is_matrix_product(subscripts: str) -> bool:
    inputs, output = subscripts.split("->")
    if inputs.count(",") != 1:
        return False
    first, second = map(set, inputs.split(","))
    out = set(output)
    return all((first & second - out, first & out - second, second & out - first))


def _jax_order(optimize: Optimize) -> str:
    if isinstance(optimize, tuple):
        return f", optimize={list(optimize)!r}"
    return "" if optimize == "auto" else f", optimize={optimize!r}"


@public()
def einsum(
    *operands: ArrayLike | str | Sequence[object],
    optimize: bool | str | Sequence[object] = "auto",
    dtype: DTypeLike | None = None,
) -> Value:
    """Einstein summation, as `numpy.einsum`: `einsum("ij,jk->ik", x, y)`.

    The output may be implicit, labels may repeat, and an ellipsis is allowed; the form
    `einsum(x, [0, 1], y, [1, 2], [0, 2])` is accepted too. The sizes of one label must
    agree, except that a static 1 is stretched to the size in the other operands.

    `optimize` orders the products of more than two operands: "auto" leaves the order to
    the backend; True, False, "greedy", "optimal" and a path of `einsum_path` are passed
    on to it.
    """
    spec, arrays = _read(operands)
    values = promoted(*arrays)
    if dtype is not None:
        values = [cast(v, dtype_of(dtype)) for v in values]
    values, subscripts = _normalize(spec, values)
    return _einsum(*values, subscripts=subscripts, optimize=_order(optimize))


@public()
def einsum_path(
    *operands: ArrayLike | str | Sequence[object],
    optimize: bool | str | Sequence[object] = "greedy",
) -> tuple[list[object], str]:
    """An order of the products for `einsum`, and a table of its cost.

    Both come from `numpy.einsum_path`, with 64 for each size that is symbolic.
    """
    spec, arrays = _read(operands)
    values, subscripts = _normalize(spec, promoted(*arrays))
    nominal = [
        tuple(n if isinstance(n, int) else 64 for n in v.type.shape) for v in values
    ]
    zeros = [np.broadcast_to(np.zeros((), "float32"), shape) for shape in nominal]
    path, table = np.einsum_path(subscripts, *zeros, optimize=optimize)
    return list(path), table


def _order(optimize: object) -> Optimize:
    """Check `optimize` and convert it to the param."""
    if isinstance(optimize, bool):
        return optimize
    if isinstance(optimize, str):
        for order in get_args(Order):
            if optimize == order:
                return order
        expected = '"auto", "greedy" or "optimal"'
        problem = f"there is no order called {optimize!r}"
        raise graph_error(problem, op="einsum", expected=expected)
    if not isinstance(optimize, (list, tuple)):
        expected = '"auto", True, False, "greedy", "optimal" or a path'
        got = f"optimize={optimize!r}"
        raise graph_error("no such order", op="einsum", got=got, expected=expected)
    steps = list(optimize)
    if steps and isinstance(steps[0], str) and steps[0] != "einsum_path":
        return _order(steps[0])  # ("greedy", memory limit)
    if steps and steps[0] == "einsum_path":
        steps = steps[1:]
    return tuple(tuple(int(i) for i in step) for step in steps)


@dataclass(frozen=True)
class _Spec:
    """The labels of the operands and of the output, None where it is implicit."""

    inputs: Terms
    output: list[Hashable] | None
    text: str


def _read(operands: Sequence[object]) -> tuple[_Spec, list[Any]]:
    """Read the labels and the arrays from either form of the arguments."""
    if not operands:
        raise graph_error("needs subscripts and arrays", op="einsum")
    if isinstance(operands[0], str):
        arrays = list(operands[1:])
        spec = _read_text(operands[0])
    else:
        arrays = list(operands[: len(operands) // 2 * 2 : 2])
        spec = _read_lists(operands)
    if len(spec.inputs) != len(arrays):
        problem = f"{len(spec.inputs)} subscripts for {len(arrays)} arrays"
        raise graph_error(problem, op="einsum", got=spec.text)
    return spec, arrays


def _read_text(text: str) -> _Spec:
    inputs, arrow, output = text.replace(" ", "").partition("->")
    terms = [_labels(term, text) for term in inputs.split(",")]
    return _Spec(terms, _labels(output, text) if arrow else None, repr(text))


def _labels(term: str, text: str) -> list[Hashable]:
    """Read the labels of one term; its three dots become Ellipsis."""
    before, dots, after = term.partition("...")
    for letter in before + after:
        if letter not in string.ascii_letters:
            problem = f"{letter!r} is not a label: use letters, commas, one ... and ->"
            raise graph_error(problem, op="einsum", got=repr(text))
    return [*before, ..., *after] if dots else [*before]


def _read_lists(operands: Sequence[object]) -> _Spec:
    count = len(operands) // 2
    lists = [operands[2 * i + 1] for i in range(count)]
    output = operands[-1] if len(operands) % 2 else None
    text = ", ".join(map(repr, [*lists] if output is None else [*lists, output]))
    terms = [_numbers(item, text) for item in lists]
    return _Spec(terms, None if output is None else _numbers(output, text), text)


def _numbers(labels: object, text: str) -> list[Hashable]:
    """Check a list of labels: integers from 0 to 51, and at most one Ellipsis."""
    if not isinstance(labels, (list, tuple)) or labels.count(...) > 1:
        raise graph_error("each array needs a list of labels", op="einsum", got=text)
    for label in labels:
        number = isinstance(label, (int, np.integer)) and not isinstance(label, bool)
        if label is not ... and not (number and 0 <= label < 52):
            problem = f"{label!r} is not a label: use integers from 0 to 51"
            raise graph_error(problem, op="einsum", got=text)
    return list(labels)


def _normalize(spec: _Spec, values: list[Value]) -> tuple[list[Value], str]:
    """Return operands without stretched axes, and subscripts with a letter per axis."""
    inputs = [
        _axis_labels(t, v, spec) for t, v in zip(spec.inputs, values, strict=True)
    ]
    output = _output(spec, inputs)
    values, inputs = _drop_stretched_axes(values, inputs)
    values = _stretch_axes(values, inputs)
    letters = _letters(label for term in inputs for label in term)
    terms = ["".join(letters[label] for label in term) for term in (*inputs, output)]
    return values, f"{','.join(terms[:-1])}->{terms[-1]}"


@dataclass(frozen=True, order=True)
class _Dot:
    """The label of an axis of an ellipsis, `place` positions before its last axis."""

    place: int


def _axis_labels(term: list[Hashable], value: Value, spec: _Spec) -> list[Hashable]:
    """The labels of all axes of an operand, including those of its ellipsis."""
    ellipsis_rank = value.type.rank - len(term) + (... in term)
    if ellipsis_rank < 0 or (ellipsis_rank and ... not in term):
        problem = f"{len(term) - (... in term)} labels for {value.type.rank} axes"
        got = f"{spec.text} with {value.type}"
        raise graph_error(problem, op="einsum", got=got)
    if ... not in term:
        return term
    at = term.index(...)
    return [*term[:at], *_dots(ellipsis_rank), *term[at + 1 :]]


def _dots(count: int) -> list[Hashable]:
    return [_Dot(place) for place in reversed(range(count))]


def _output(spec: _Spec, inputs: Terms) -> list[Hashable]:
    """The labels of the result; without an arrow, those that occur once, sorted."""
    every = [label for term in inputs for label in term]
    dots = _dots(max((d.place + 1 for d in every if isinstance(d, _Dot)), default=0))
    if spec.output is None:
        once = [x for x in every if every.count(x) == 1 and not isinstance(x, _Dot)]
        return [*dots, *sorted(once)]  # type: ignore[type-var]
    labels = spec.output
    if len(set(labels)) < len(labels):
        raise graph_error("the output names a label twice", op="einsum", got=spec.text)
    if dots and ... not in labels:
        problem = "the output has no ellipsis for the axes of the operands' ellipses"
        raise graph_error(problem, op="einsum", got=spec.text)
    for label in labels:
        if label is not ... and label not in every:
            problem = f"the output names {label!r}, which no operand has"
            raise graph_error(problem, op="einsum", got=spec.text)
    at = labels.index(...) if ... in labels else len(labels)
    return [*labels[:at], *dots, *labels[at + 1 :]]


def _drop_stretched_axes(
    values: list[Value], inputs: Terms
) -> tuple[list[Value], Terms]:
    """Drop the axes of size 1 whose label has another size in another operand."""
    wide = {
        label
        for v, term in zip(values, inputs, strict=True)
        for n, label in zip(v.type.shape, term, strict=True)
        if not is_one(n)
    }
    kept_values, kept_terms = [], []
    for v, term in zip(values, inputs, strict=True):
        pairs = list(zip(v.type.shape, term, strict=True))
        wide_here = {label for n, label in pairs if not is_one(n)}
        axes = tuple(
            i for i, (n, x) in enumerate(pairs) if is_one(n) and x in wide - wide_here
        )
        kept_values.append(F.squeeze(v, axes))
        kept_terms.append([x for i, x in enumerate(term) if i not in axes])
    return kept_values, kept_terms


def _stretch_axes(values: list[Value], inputs: Terms) -> list[Value]:
    """Stretch axes that may be 1 to the size of the other axes with their label."""
    pairs = list(zip(values, inputs, strict=True))
    sizes: dict[Hashable, list[Size]] = {}
    for v, term in pairs:
        for n, label in zip(v.type.shape, term, strict=True):
            sizes.setdefault(label, []).append(n)

    def wide(n: Size, label: Hashable, term: Sequence[Hashable]) -> Size:
        once = term.count(label) == 1
        return stretch(*sizes[label]) if once and may_be_one(n) else n

    return [
        F.broadcast_to(
            v, tuple([wide(*at, term) for at in zip(v.type.shape, term, strict=True)])
        )
        for v, term in pairs
    ]


def _letters(labels: Iterable[Hashable]) -> dict[Hashable, str]:
    """Map each label to a letter: itself if it is one, else the next free one."""
    distinct = list(dict.fromkeys(labels))
    letters: dict[Hashable, str] = {x: x for x in distinct if isinstance(x, str)}
    free = [x for x in string.ascii_letters if x not in letters]
    others = [x for x in distinct if not isinstance(x, str)]
    if len(others) > len(free):
        raise graph_error(f"more than 52 labels: {len(distinct)}", op="einsum")
    return {**letters, **dict(zip(others, free, strict=False))}
