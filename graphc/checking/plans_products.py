"""Plans of indexing, products of matrices and linear algebra."""

from dataclasses import replace
from typing import Any

from graphc.checking.chance import Chance
from graphc.checking.plans import ParamChoices, SamplePlan, Want, floating, index, plans
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT64
from graphc.ops.indexing.parse import FULL_ITEM

PlannedItem = tuple[str, Any, Any, Any]


@plans("basic_index")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    kinds = fixed["kinds"] if "kinds" in fixed else _kinds(c, len(want.shape))
    tail = list(want.shape)
    items, shape = [], []
    for i, kind in enumerate(kinds):
        item: PlannedItem = (kind, None, None, None)
        if kind == "s":
            item = _slice(c)
        elif kind == "i":
            item = ("i", _fixed_item(fixed, i, c.pick((0, -1, 1))), None, None)
        if kind != "n":
            whole = item == FULL_ITEM
            shape.append(tail.pop(0) if tail and whole else c.size())
        items.append(item)
    names = ("kinds", "starts", "stops", "steps")
    parts = list(zip(*items, strict=True)) if items else [()] * 4
    params: ParamChoices = dict(zip(names, parts, strict=True))
    params["kinds"] = "".join(params["kinds"])
    return SamplePlan([want.of(*shape, *tail)], lambda xs: params)


def _kinds(c: Chance, rank: int) -> str:
    return "".join(c.pick(("s", "i", "n")) for _ in range(c.up_to(max(rank, 1))))


def _slice(c: Chance) -> PlannedItem:
    step = c.pick((None, -1, 2))
    if step == -1:
        return "s", None, None, step
    start, stop = c.pick(((None, None), (1, None), (0, 2)))
    return "s", start, stop, step


def _fixed_item(fixed: ParamChoices, i: int, default: Size) -> object:
    return fixed["starts"][i] if "starts" in fixed else default


@plans("gather")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    shape = c.shape(1)
    first_index = index(c.shape(0, 2), shape[0])
    indices = [replace(first_index, limit=shape[0])] * (n - 1)
    axes = tuple(range(n - 1))
    more = tuple(c.size() for _ in range(max(0, n - 2)))
    return SamplePlan(
        [want.of(shape[0], *more, *shape[1:]), *indices],
        lambda xs: {"axes": axes, "inside": (False,) * len(axes)},
    )


@plans("scatter")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    shape, places = c.shape(1), c.shape(1, 1)
    indices = index(places, shape[0])
    how = c.pick(("set", "add"))
    return SamplePlan(
        [want.of(*shape), want.of(*places, *shape[1:]), indices],
        lambda xs: {"axes": (0,), "how": how, "inside": (False,)},
    )


@plans("dynamic_slice")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    shape = c.shape(1)
    axis = c.axis(len(shape))
    start = Want((), INT64, "index", shape[axis])
    return SamplePlan(
        [want.of(*shape), start], lambda xs: {"axis": axis, "length": c.up_to(2)}
    )


@plans("segment")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    shape = want.shape or (c.size(),)
    rows, how = c.size(), c.pick(("add", "max", "min", "multiply"))
    ids = index((rows,), shape[0])
    return SamplePlan(
        [want.of(rows, *shape[1:]), ids, want.of()],
        lambda xs: {"how": how, "count": shape[0]},
    )


def _matrix(c: Chance, shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """A shape with at least two axes: the wanted one if that has as many."""
    return shape if len(shape) >= 2 else (*(c.size(),) * (2 - len(shape)), *shape)


@plans("matmul")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    k = c.size()
    shape = want.shape
    match c.up_to(2) if shape else 3:
        case 3:  # a scalar comes from two vectors
            return SamplePlan([want.of(k), want.of(k)])
        case 1:  # a matrix times a vector
            return SamplePlan([want.of(*shape, k), want.of(k)])
        case 2:  # a vector times a matrix
            return SamplePlan([want.of(k), want.of(*shape[:-1], k, shape[-1])])
    *batch, rows, columns = _matrix(c, shape)
    thin = () if c.flag(3) else batch
    return SamplePlan([want.of(*batch, rows, k), want.of(*thin, k, columns)])


@plans("vecdot")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    operand = want.of(*want.shape, c.size())
    return SamplePlan([operand, operand])


@plans("tensordot")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    a, b, k, m = (c.size() for _ in range(4))
    shapes: Any = (
        ((a, k), (k, b), ((1,), (0,))),
        ((a, k, m), (k, m, b), ((1, 2), (0, 1))),
        ((a,), (b,), ((), ())),
    )
    left, right, axes = c.pick(shapes)
    return SamplePlan([want.of(*left), want.of(*right)], lambda xs: {"axes": axes})


SUBSCRIPTS = {
    1: ("ij->ji", "ii->i", "ij->i", "ij->"),
    2: ("ij,jk->ik", "i,j->ij", "ij,ij->", "bij,bjk->bik", "ij,j->i"),
    3: ("ij,jk,kl->il", "i,ij,j->"),
}


@plans("einsum")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    text = fixed.get("subscripts") or c.pick(SUBSCRIPTS.get(n, ()))
    sizes = {letter: c.size() for letter in dict.fromkeys(text) if letter.isalpha()}
    operands = text.split("->")[0].split(",")
    return SamplePlan(
        [want.of(*(sizes[letter] for letter in names)) for names in operands],
        lambda xs: {"subscripts": text, "optimize": False},
    )


def _square(c: Chance, batch: tuple[Size, ...], want: Want) -> Want:
    """Symmetric positive definite matrices, which fit every use of a square matrix."""
    k = c.size()
    return replace(floating(c, want), shape=(*batch, k, k), role="definite")


@plans("det", "slogdet", "inv", "cholesky", "expm", "square_matrix")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    return SamplePlan([_square(c, c.shape(0, 1), want)])


@plans("eigh", "eigvalsh")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    matrix = _square(c, c.shape(0, 1), want)
    return SamplePlan([matrix], lambda xs: {"lower": True})


@plans("solve")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    matrix = _square(c, c.shape(0, 1), want)
    return SamplePlan([matrix, _right(c, matrix)])


def _right(c: Chance, matrix: Want) -> Want:
    return replace(matrix, shape=(*matrix.shape[:-1], c.size()), role="")


@plans("solve_triangular")
def _(c: Chance, want: Want, fixed: ParamChoices, n: int) -> SamplePlan:
    matrix = _square(c, c.shape(0, 1), want)
    params = {"lower": c.flag(), "trans": c.up_to(1), "unit_diagonal": c.flag(4)}
    return SamplePlan([matrix, _right(c, matrix)], lambda xs: params)
