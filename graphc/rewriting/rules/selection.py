"""Selections pushed towards inputs: elements that are not selected are not computed.

A selection whose position or size is computed by the program stays where it is: ops in
front of it would be compiled anew for each of its values.
"""

from typing import Any

from graphc.ir.graph.build import cast
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import PRIMITIVES
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import is_one, less_equal
from graphc.ir.types import INT32, INT64, is_float, is_integer
from graphc.ops.effects.barriers import PINNED
from graphc.ops.indexing.basic import basic
from graphc.ops.indexing.parse import FULL_ITEM, slice_ends
from graphc.rewriting.engine.rule import Rule, Rules, rewrite
from graphc.rewriting.loops.find.access import items_of, picked_position, same_item
from graphc.rewriting.match.pattern import once, p, v
from graphc.rewriting.match.sizes import Axes, asks_late, at_most, is_wide, with_guards

FIRST, LAST = ("i", 0, None, None), ("i", -1, None, None)
REDUCING = (
    *(OP.sum, OP.prod, OP.max, OP.min, OP.any, OP.all, OP.max_from, OP.min_from),
)
MOST_DEPTH = 6  # of the search for axes that can be dropped
SelectionItem = tuple[Any, ...]
Items = list[SelectionItem]


def items_of_axes(y: Value, rank: int) -> Items | None:
    """Return one item for each axis; None if axes are inserted, or a call decides."""
    items = items_of(y.node)
    if y.node.demands or any(item[0] == "n" for item in items):
        return None
    return items + [FULL_ITEM] * (rank - len(items))


@rewrite(v.y(p.basic_index(v.x)), exact=True)
def index_new_axes(x: Value, y: Value) -> Value | None:
    """Axes that an index inserts are inserted after it."""
    items = items_of(y.node)
    if all(item[0] != "n" for item in items):
        return None
    indexed = basic(x, tuple(item for item in items if item[0] != "n"))
    places = [item[0] for item in items if item[0] != "i"]
    return F.expand_dims(indexed, tuple(i for i, k in enumerate(places) if k == "n"))


@rewrite(v.y(p.convert(p.expand_dims(v.x, axes=v.new))), exact=True)
def convert_of_expanded(x: Value, new: Axes, y: Value) -> Value:
    """Axes of size 1 are inserted after a cast, where rules find them."""
    return F.expand_dims(cast(x, y.dtype), new)


def index_operand(x: Value, whole: Value, items: Items) -> Value:
    """Index an operand that is broadcast to `whole` as `items` index `whole`."""
    rank, own_items = x.type.rank, items[len(items) - x.type.rank :]
    result = []
    for n, m, item in zip(
        x.type.shape, whole.type.shape[len(items) - rank :], own_items, strict=True
    ):
        stretched = is_one(n) and not is_one(m)
        result.append((FIRST if item[0] == "i" else FULL_ITEM) if stretched else item)
    return basic(x, tuple(result))


@rewrite(v.y(p.basic_index(once(v.x))), exact=True)
def index_of_elementwise(x: Value, y: Value) -> Value | None:
    """Elementwise functions are computed only where they are indexed."""
    node, items = x.node, items_of_axes(y, x.type.rank)
    if not _is_elementwise(x) or asks_late(node) or items is None:
        return None
    shares = [index_operand(z, x, items) for z in node.inputs]
    return node.primitive(*shares, **node.params)


def _is_elementwise(x: Value) -> bool:
    primitive = x.node.primitive
    single = len(x.node.outputs) == 1 and bool(x.type.rank)
    return primitive.elementwise and single and primitive is not PINNED


def _is_one_axis(x: Value, indices: tuple[Value, ...], axes: Axes) -> bool:
    """Whether indices take positions along one axis, and no more than it has."""
    if len(axes) != 1 or indices[0].type.rank > 1:
        return False
    if not indices[0].type.rank:
        return True
    return at_most(indices[0].type.size, x.type.shape[axes[0]])


_TAKEN = {"axes": v.axes, "inside": v.inside}


@rewrite(v.y(p.gather(once(v.x), v.i, **_TAKEN)), exact=True)
def gather_of_elementwise(x: Value, i: Value, y: Value, axes: Axes) -> Value | None:
    """Elementwise functions are computed only where they are gathered."""
    if not _is_elementwise(x) or asks_late(x.node) or not _is_one_axis(x, (i,), axes):
        return None
    at = axes[0] - x.type.rank
    shares = []
    for z in x.node.inputs:
        axis = at + z.type.rank
        if axis < 0:
            shares.append(z)
        elif is_one(z.type.shape[axis]) and not is_one(x.type.shape[at]):
            shares.append(
                z if i.type.rank else basic(z, (FULL_ITEM,) * axis + (FIRST,))
            )
        else:
            shares.append(OP.gather(z, i, axes=(axis,), inside=y.node.params["inside"]))
    return x.node.primitive(*shares, **x.node.params)


def _factor_with_axis(a: Value, b: Value, axis: int) -> tuple[int, int] | None:
    """Return which factor of a matrix product has an axis of the result, and where."""
    if b.type.rank > 2:
        return None
    if b.type.rank == 1 or axis < a.type.rank - 1:
        return 0, axis
    return 1, 1


@rewrite(v.y(p.basic_index(once(p.matmul(v.a, v.b)))), exact=False)
def index_of_matmul(a: Value, b: Value, y: Value) -> Value | None:
    """Rows and columns are taken from the factors."""
    items = items_of_axes(y, y.node.inputs[0].type.rank)
    if items is None or b.type.rank > 2:
        return None
    of: tuple[Items, Items] = ([FULL_ITEM] * a.type.rank, [FULL_ITEM] * b.type.rank)
    for axis, item in enumerate(items):
        place = _factor_with_axis(a, b, axis)
        assert place is not None
        of[place[0]][place[1]] = item
    return F.matmul(basic(a, tuple(of[0])), basic(b, tuple(of[1])))


@rewrite(v.y(p.gather(once(p.matmul(v.a, v.b)), v.i, **_TAKEN)), exact=False)
def gather_of_matmul(
    a: Value, b: Value, i: Value, y: Value, axes: Axes, inside: object
) -> Value | None:
    """Rows and columns are taken from the factors, if they are no more than before."""
    if not _is_one_axis(y.node.inputs[0], (i,), axes):
        return None
    place = _factor_with_axis(a, b, axes[0])
    if place is None:
        return None
    factors = [a, b]
    factors[place[0]] = OP.gather(factors[place[0]], i, axes=place[1:], inside=inside)
    return F.matmul(*factors)


def _only_item(items: Items, axis: int) -> SelectionItem | None:
    """Return the item of an axis, if all other axes are taken in full."""
    others = items[:axis] + items[axis + 1 :]
    return items[axis] if all(item == FULL_ITEM for item in others) else None


@rewrite(v.y(p.basic_index(v.x)), exact=True)
def index_of_joined(x: Value, y: Value) -> Value | None:
    """A position along the joined axis is taken from the part in which it lies."""
    if x.node.primitive is not OP.concatenate or asks_late(x.node):
        return None
    axis = x.node.params["axis"]
    items, at = items_of_axes(y, x.type.rank), picked_position(y.node, axis)
    if items is None or at is None:
        return None
    for part in x.node.inputs:
        size = part.type.shape[axis]
        if less_equal(at + 1, size) is True:
            items[axis] = ("i", at, None, None)
            return basic(part, tuple(items))
        if less_equal(size, at) is not True:
            return None
        at = at - size
    return None


@rewrite(v.y(p.basic_index(v.x(p.iota()))), exact=True)
def slice_of_counted(x: Value, y: Value) -> Value | None:
    """A slice of numbers that count counts from another start, by another step."""
    items, params = items_of_axes(y, 1), x.node.params
    if items is None or x.dtype not in (INT32, INT64):  # others round, or wrap around
        return None
    kind, start, stop, step = items[0]
    step = 1 if step is None else step
    if kind != "s" or y.node.guards or not isinstance(step, int):
        return None
    first, _ = slice_ends(start, stop, step, params["length"])
    return OP.iota(
        start=params["start"] + first * params["step"],
        step=params["step"] * step,
        length=y.type.shape[0],
        dtype=params["dtype"],
    )


def _index_of_running(op: str) -> Rule:
    @rewrite(
        v.y(p.basic_index(once(getattr(p, op)(v.x)))), exact=True, name=f"index_of_{op}"
    )
    def rule(x: Value, y: Value) -> Value | None:
        """An op along one axis is computed only where the other axes are selected."""
        inner, items = y.node.inputs[0], items_of_axes(y, x.type.rank)
        axis = inner.node.params["axis"]
        if items is None or _only_item(items, axis) is not None:
            return None
        others = [FULL_ITEM if a == axis else item for a, item in enumerate(items)]
        result_axis = axis - sum(item[0] == "i" for item in others[:axis])
        params = {**inner.node.params, "axis": result_axis}
        running = inner.node.primitive(basic(x, tuple(others)), **params)
        return basic(running, (FULL_ITEM,) * result_axis + (items[axis],))

    return rule


def _last_of_running(op: str, reduction: str) -> Rule:
    @rewrite(
        v.y(p.basic_index(once(getattr(p, op)(v.x, axis=v.axis, reverse=v.reverse)))),
        exact=False,
        name=f"last_of_{op}",
    )
    def rule(x: Value, y: Value, axis: int, reverse: bool) -> Value | None:
        """The last of the running results is the result of the reduction."""
        items = items_of_axes(y, x.type.rank)
        item = None if items is None else _only_item(items, axis)
        if item is None or not same_item(item, ("i", reverse - 1, None, None)):
            return None
        last = PRIMITIVES[reduction](x, axes=(axis,), keepdims=False)
        return with_guards(last, y.node)

    return rule


def _sorted_ends(x: Value, axis: int, largest: bool) -> Value:
    """Return the first or last element in sorted order, where NaN comes last."""
    reduction = OP.max if largest else OP.min
    if largest or is_integer(x.dtype):
        extreme: Value = reduction(x, axes=(axis,), keepdims=False)
        return extreme
    missing = F.isnan(x)
    extreme = reduction(F.where(missing, float("inf"), x), axes=(axis,), keepdims=False)
    return F.where(F.all(missing, axis=axis), float("nan"), extreme)


def _has_order(x: Value) -> bool:
    return is_integer(x.dtype) or (is_float(x.dtype) and is_wide(x.dtype))


@rewrite(v.y(p.basic_index(once(p.sort(v.x, axis=v.axis)))), exact=False)
def end_of_sort(x: Value, y: Value, axis: int) -> Value | None:
    """The last in order is the largest, the first the smallest.

    Among zeros of both signs, it may be another zero.
    """
    items = items_of_axes(y, x.type.rank)
    item = None if items is None else _only_item(items, axis)
    if not _has_order(x) or item is None:
        return None
    first = same_item(item, FIRST)
    return _sorted_ends(x, axis, not first) if first or same_item(item, LAST) else None


@rewrite(
    p.argmax(once(v.y), axis=v.axis, keepdims=v.keepdims), exact=False, finite=True
)
def argmax_of_increasing(y: Value, axis: int, keepdims: bool) -> Value | None:
    """The argmax of an increasing function is that of its operand, as in softmax.

    Elements whose results are rounded to one number are told apart; a NaN or an
    infinity that spoils all results spoils only its own place.
    """
    x = _operand_of_increasing(y, axis)
    return None if x is y else F.argmax(x, axis=axis, keepdims=keepdims)


_GROWING = (
    *(OP.exp, OP.exp2, OP.expm1, OP.tanh, OP.arctan, OP.sinh, OP.expit, OP.cbrt),
)


def _operand_of_increasing(y: Value, axis: int) -> Value:
    """Return the operand that is largest along an axis where `y` is largest."""
    underlying, deep = y, 0
    while is_float(y.dtype):
        op, inputs = y.node.primitive, y.node.inputs
        if op in _GROWING:
            y = inputs[0]
            underlying, deep = y, deep + 1
        elif op is OP.subtract and _is_constant(inputs[1], y, axis):
            y = inputs[0]
            underlying = y if deep else underlying
        elif op is OP.true_divide and _is_total(inputs[1], y, axis):
            y = inputs[0]
        else:
            break
    same = underlying.type.rank == y.type.rank and underlying.dtype == y.dtype
    return underlying if same else y


def _is_constant(z: Value, y: Value, axis: int) -> bool:
    """Whether an operand does not vary along an axis, and stretches no other."""
    at = axis - y.type.rank + z.type.rank
    return at < 0 or is_one(z.type.shape[at])


def _is_total(z: Value, y: Value, axis: int) -> bool:
    """Whether an operand is a sum of positive elements, one along an axis."""
    op, inputs = z.node.primitive, z.node.inputs
    positive = op is OP.sum and inputs[0].node.primitive in (OP.exp, OP.expit)
    return positive and _is_constant(z, y, axis)


def _operand_axes(axes: Axes, rank: int, x: Value) -> Axes:
    """Renumber axes of a result for an operand that is broadcast to it."""
    return tuple(a - rank + x.type.rank for a in axes if a >= rank - x.type.rank)


def _absorbs(x: Value, axes: Axes, depth: int = 0) -> bool:
    """Whether the ops that lead to `x` can do without these axes of one element."""
    op, params = x.node.primitive, x.node.params
    if not axes:
        return True
    if op in REDUCING:
        return bool(params["keepdims"]) and set(axes) <= set(params["axes"])
    if op is OP.expand_dims:
        return set(axes) <= set(params["axes"])
    if not _is_elementwise(x) or depth == MOST_DEPTH:
        return False
    return all(
        _absorbs(z, _operand_axes(axes, x.type.rank, z), depth + 1)
        for z in x.node.inputs
    )


@rewrite(p.squeeze(once(v.x), axes=v.axes), exact=True)
def squeeze_of_elementwise(x: Value, axes: Axes) -> Value | None:
    """Axes of size 1 are dropped from the operands of a function."""
    if not _is_elementwise(x) or not _absorbs(x, axes):
        return None
    shares = []
    for z in x.node.inputs:
        own_axes = _operand_axes(axes, x.type.rank, z)
        shares.append(F.squeeze(z, own_axes) if own_axes else z)
    return x.node.primitive(*shares, **x.node.params)


def _squeeze_of_reduction(op: str, *more: object) -> Rule:
    unsqueezed = getattr(p, op)(v.x, *more, axes=v.axes, keepdims=True)

    @rewrite(
        p.squeeze(v.r(once(unsqueezed)), axes=v.axes),
        exact=True,
        name=f"squeeze_of_{op}",
    )
    def rule(r: Value, axes: Axes) -> Value | None:
        """A reduction does not keep axes that are squeezed at once."""
        return r.node.primitive(*r.node.inputs, axes=axes, keepdims=False)

    return rule


@rewrite(p.squeeze(p.expand_dims(v.x, axes=v.new), axes=v.axes), exact=True)
def squeeze_of_expanded(x: Value, new: Axes, axes: Axes) -> Value | None:
    """Axes that are inserted and squeezed again are not inserted."""
    if not set(axes) < set(new):
        return None
    remaining = [a for a in range(x.type.rank + len(new)) if a not in axes]
    return F.expand_dims(x, tuple(i for i, a in enumerate(remaining) if a in new))


RUNNING = ("sort", "argsort", "cumsum", "cumprod", "cummax", "cummin")
SELECTION = Rules(
    (
        index_new_axes,
        convert_of_expanded,
        index_of_elementwise,
        gather_of_elementwise,
        index_of_matmul,
        gather_of_matmul,
        index_of_joined,
        slice_of_counted,
        *map(_index_of_running, RUNNING),
        _last_of_running("cumsum", "sum"),
        _last_of_running("cumprod", "prod"),
        _last_of_running("cummax", "max"),
        _last_of_running("cummin", "min"),
        end_of_sort,
        argmax_of_increasing,
        squeeze_of_elementwise,
        *map(_squeeze_of_reduction, ("sum", "prod", "max", "min", "any", "all")),
        *(_squeeze_of_reduction(op, v.start) for op in ("max_from", "min_from")),
        squeeze_of_expanded,
    )
)
