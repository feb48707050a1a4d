"""Mask rules of basic indexing: true items on padded axes, for reading and writing."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.primitives import OP
from graphc.ir.sizes import dims
from graphc.ir.sizes.dims import Dim, Size
from graphc.ir.types import INT32, TensorType, same_size
from graphc.ops.common.axes import along_axis, with_rank
from graphc.ops.common.padded_reads import as_int32, nonempty, read_at
from graphc.ops.common.padding import PaddedValue, Padding, Rebuilt
from graphc.ops.indexing.basic import BASIC_INDEX, basic
from graphc.ops.indexing.gather import GATHER
from graphc.ops.indexing.parse import FULL_ITEM, BasicItem, clip_down, slice_length
from graphc.ops.indexing.scatter import SCATTER, SLICE_UPDATE

_MERGES = {"add": "add", "multiply": "multiply", "min": "minimum", "max": "maximum"}


class AxisItem(NamedTuple):
    """An item of a basic index whose axis is read from its true end, or backwards."""

    axis: int  # of the array
    at: int  # of the result
    item: BasicItem


def _split_index(
    pad: Padding, x: PaddedValue, writes: bool = False
) -> tuple[list[BasicItem], list[AxisItem]]:
    """Split a basic index into items that are right at capacities, and the others.

    In place of the others, which are returned separately, the whole axis is taken.
    """
    true_items = _true_items(pad)
    stored = [_stored_item(pad, item) for item in true_items]
    special: list[AxisItem] = []
    axis = at = out = 0
    for i, item in enumerate(true_items):
        kind = item[0]
        ragged = axis in x.axes if kind != "n" else False
        n = x.type.shape[axis] if ragged else None
        right = kind == "n" or _is_from_front(item, n, writes)
        if kind == "s" and right and not writes:
            length = pad.stored(pad.out[out])
            fitted = fit_item(stored[i], x.value.type.shape[axis], length)
            right, stored[i] = fitted is not None, fitted or FULL_ITEM
        if not right:
            special.append(AxisItem(axis, at, item))
            stored[i] = FULL_ITEM
        axis += kind != "n"
        out += kind != "i"
        at += kind != "i" or stored[i] is FULL_ITEM
    return stored, special


def _true_items(pad: Padding) -> list[BasicItem]:
    """The items of the node, with true sizes."""
    names = ("kinds", "starts", "stops", "steps")
    return list(zip(*(pad.node.params[name] for name in names), strict=True))


def _stored_item(pad: Padding, item: BasicItem) -> BasicItem:
    kind, *bounds = item
    start, stop, step = [None if b is None else pad.stored(b) for b in bounds]
    return kind, start, stop, step


def _is_from_front(item: BasicItem, n: Size | None, writes: bool) -> bool:
    """Whether an item selects the same elements at a capacity, or those and padding.

    The axis has `n` true elements, or is stored as it is.
    """
    kind, start, stop, step = item
    if kind == "i":
        return isinstance(start, int) and (start >= 0 or n is None)
    plain = all(b is None or isinstance(b, int) for b in (start, stop, step))
    if n is None and plain:
        return True
    forwards = step is None or (isinstance(step, int) and step > 0)
    first = start is None or (isinstance(start, int) and start >= 0)
    if writes:  # the elements after it must be padding
        to_end = stop is None or (n is not None and dims.less_equal(n, stop) is True)
        return forwards and first and n is not None and (to_end or _is_count(stop))
    return forwards and first


def fit_item(item: BasicItem, n: Size, length: Size) -> BasicItem | None:
    """A slice that takes `length` elements of `n`, first those of `item`.

    None if too few elements follow.
    """
    _, start, stop, step = item
    if dims.equal(slice_length(start, stop, 1 if step is None else step, n), length):
        return item
    if step is not None:
        return None
    if start is None and same_size(length, n):
        return FULL_ITEM
    first = 0 if start is None else start
    longer: BasicItem = ("s", start, first + length, None)
    return longer if dims.equal(slice_length(*longer[1:3], 1, n), length) else None


def _is_count(stop: Size | None) -> bool:
    return isinstance(stop, int) and stop >= 0


def _index_params(items: Sequence[BasicItem]) -> dict[str, object]:
    kinds, starts, stops, steps = zip(*items, strict=True) if items else ((),) * 4
    return {"kinds": "".join(kinds), "starts": starts, "stops": stops, "steps": steps}


def _places(pad: Padding, x: PaddedValue, part: AxisItem, length: Size | None) -> Value:
    """The true positions that an item takes: `length` of them, or one."""
    kind, start, _, step = part.item
    n = x.type.shape[part.axis]
    if kind == "i":
        assert start is not None
        place = as_int32(pad, start)
        return F.where(place < 0, place + as_int32(pad, n), place)
    assert length is not None
    return _first_place(pad, part.item, n) + _step(pad, step) * pad.positions(length)


def _step(pad: Padding, step: Size | None) -> int | Value:
    """The step of a slice: a number, or a value of int32."""
    if isinstance(step, Dim):
        return as_int32(pad, step)
    return 1 if step is None else step


def _direction(step: Size | None) -> int:
    """1 for a slice that goes forwards, -1 for backwards, 0 if that is not known."""
    if step is None or dims.less_equal(1, step):
        return 1
    return -1 if dims.less_equal(step, -1) else 0


def _first_place(pad: Padding, item: BasicItem, n: Size) -> Value:
    """The first position of a slice, as Python clips it."""
    _, start, _, step = item
    return _bound(pad, step, n, start, 0, n - 1)


def _end_place(pad: Padding, item: BasicItem, n: Size) -> Value:
    """The position before which a slice ends, as Python clips it."""
    _, _, stop, step = item
    return _bound(pad, step, n, stop, n, -1)


def _bound(
    pad: Padding, step: Size | None, n: Size, bound: Size | None, *without: Size
) -> Value:
    """A bound of a slice; if there is none, that of `without` for the direction."""
    direction, bounds = _direction(step), []
    if direction >= 0:
        bounds.append(
            as_int32(pad, without[0] if bound is None else dims.clip(bound, n))
        )
    if direction <= 0:
        bounds.append(
            as_int32(pad, without[1] if bound is None else clip_down(bound, n))
        )
    if direction:
        return bounds[0]
    chosen: Value = F.where(_step(pad, step) > 0, *bounds)
    return chosen


@BASIC_INDEX.padding
def _(pad: Padding, x: PaddedValue, **params: Param) -> Rebuilt:
    items, special = _split_index(pad, x)
    elements = basic(x.value, tuple(items))
    fill = {}
    axis = at = 0
    for kind, _, stop, _ in _true_items(pad):
        if kind == "s" and axis in x.fill and stop is None:
            fill[at] = x.fill[axis]
        axis += kind != "n"
        at += kind != "i"
    if not special:
        fill |= {a - axis + at: n for a, n in x.fill.items() if a >= axis}
        return pad.result(elements, fill)
    lost = sum(part.item[0] == "i" for part in special)
    for part in reversed(special):
        scalar = part.item[0] == "i"
        lost -= scalar
        length = None if scalar else pad.out[part.at - lost]
        places = _places(pad, x, part, length)
        most = F.maximum(as_int32(pad, x.type.shape[part.axis]) - 1, 0)
        places = F.clip(places, 0, most)
        if not scalar:  # an axis that is not padded may be empty
            elements = nonempty(elements, part.at)
        is_inside = dims.less_equal(1, elements.type.shape[part.at]) is True
        elements = GATHER(elements, places, axes=(part.at,), inside=(is_inside,))
    return elements


@SLICE_UPDATE.padding
def _(pad: Padding, x: PaddedValue, v: PaddedValue, *, how: str, **_: Param) -> Rebuilt:
    items, special = _split_index(pad, x, writes=True)
    region = BASIC_INDEX(pad.node.inputs[0], **_index_params(_true_items(pad))).type
    if not special:
        stored = BASIC_INDEX(x.value, **_index_params(items)).type.shape
        if all(map(dims.equal, stored, map(pad.stored, region.shape))):
            return SLICE_UPDATE(x.value, v.value, how=how, **_index_params(items))
        return _written_by_mask(pad, x, v, region.shape, how)
    longer = _with_padding_added(pad, x, v, region.shape, how)
    if longer is not None:
        return SLICE_UPDATE(x.value, pad.filled(v, v.axes, 0), how=how, **longer)
    window = _window(pad, x, items, special, region.shape)
    if window is not None:
        return _written_to_window(pad, x, v, window, region, how)
    if len(special) > 1 or any(item != FULL_ITEM for item in items):
        return _written_by_mask(pad, x, v, region.shape, how)
    (part,) = special
    length = None if part.item[0] == "i" else region.shape[part.at]
    if length is not None and not isinstance(pad.stored(length), int):
        chosen = _choice_of_update(pad, v)
        one = chosen[1] if chosen else v
        if _is_repeated(one, part.at - len(region.shape)):
            new_array = _written_by_mask(pad, x, one, region.shape, how)
            return F.where(chosen[0], new_array, x.value) if chosen else new_array
        twice, stored = 2 * pad.stored(length), pad.stored(x.type.shape[part.axis])
        if dims.less_equal(stored, twice) is True:  # a scatter is slower on a CPU
            return _written_by_mask(pad, x, v, region.shape, how)
    places = _places(pad, x, part, length)
    if length is not None:
        end = as_value(F.size_value(x.value.type.shape[part.axis]))
        places = F.where(pad.mask(length, 0, 1), places, cast(end, INT32))
    return SCATTER(
        x.value, v.value, places, axes=(part.axis,), how=how, inside=(False,)
    )


def _with_padding_added(
    pad: Padding, x: PaddedValue, v: PaddedValue, region: Sequence[Size], how: str
) -> dict[str, object] | None:
    """The items of a slice that also takes the padding of an update that is added.

    None if the update is not added, or if the slice goes backwards or beyond what is
    stored.
    """
    items = _true_items(pad)
    if how != "add" or v.type.rank != len(region) or {i[0] for i in items} != {"s"}:
        return None
    items += [FULL_ITEM] * (len(region) - len(items))
    longer: list[BasicItem] = []
    pairs = zip(items, region, v.type.shape, x.value.type.shape, strict=True)
    for (_, start, _, step), length, size, stored in pairs:
        first = 0 if start is None else start
        forwards = isinstance(first, int) and first >= 0 and step is None
        if not forwards or not same_size(length, size):
            return None
        stop = first + pad.stored(length)
        if not dims.less_equal(stop, stored):
            return None
        longer.append(("s", start, stop, None))
    return _index_params(longer)


def _is_repeated(v: PaddedValue, axis: int) -> bool:
    """Whether an update is one element along an axis that is counted from the end."""
    return v.type.rank < -axis or same_size(v.type.shape[axis], 1)


def _choice_of_update(pad: Padding, v: PaddedValue) -> tuple[Value, PaddedValue] | None:
    """The condition and the number of a write that otherwise changes nothing.

    None for other writes.
    """
    x, update = pad.node.inputs
    if update.node.primitive is not OP.where or pad.node.params["how"] != "set":
        return None
    params = {k: p for k, p in pad.node.params.items() if k != "how"}
    if update.node.inputs[2] is not BASIC_INDEX(x, **params):
        return None
    node = v.value.node
    if node.primitive is not OP.where or any(x.type.rank for x in node.inputs[:2]):
        return None
    condition, number = node.inputs[:2]
    return condition, PaddedValue(number, number.type)


class _Window(NamedTuple):
    """The items of a part that is stored in place, and the axes with other elements."""

    items: list[BasicItem]
    ragged: list[int]


def _window(
    pad: Padding,
    x: PaddedValue,
    items: Sequence[BasicItem],
    special: Sequence[AxisItem],
    region: Sequence[Size],
) -> _Window | None:
    """The part of an array that stores slices from fixed starts, if it has that part.

    Some slices end before their axis does. Elements after them are not to be written.
    """
    window = list(items)
    for axis, at, (kind, start, _, step) in special:
        first = 0 if start is None else start
        if kind != "s" or step is not None or not _is_count(first):
            return None
        stop, n = first + pad.stored(region[at]), x.value.type.shape[axis]
        if dims.less_equal(stop, n) is not True or any(i[0] == "n" for i in items):
            return None
        is_whole = same_size(stop - first, n)
        window[axis] = FULL_ITEM if is_whole else ("s", start, stop, None)
    return _Window(window, [part.at for part in special])


def _written_to_window(
    pad: Padding,
    x: PaddedValue,
    v: PaddedValue,
    window: _Window,
    region: TensorType,
    how: str,
) -> Value:
    """Write to a part of an array, by a mask."""
    old = basic(x.value, tuple(window.items))
    new = getattr(F, _MERGES[how])(old, v.value) if how in _MERGES else v.value
    mask = pad.inside(PaddedValue(old, region), window.ragged)
    new = F.where(mask, new, old)
    if all(item == FULL_ITEM for item in window.items):
        return new
    return SLICE_UPDATE(x.value, new, how="set", **_index_params(window.items))


def _written_by_mask(
    pad: Padding, x: PaddedValue, v: PaddedValue, region: Sequence[Size], how: str
) -> Value:
    """Write by a mask: each element takes its own from the update, if there is one."""
    update = with_rank(v.value, len(region))
    masks: list[Value] = []
    axis = at = 0
    for item in _true_items(pad):
        if item[0] == "n":
            update, at = F.squeeze(update, (axis,)), at + 1
            continue
        n = x.type.shape[axis]
        if item[0] == "i":
            place = _places(pad, x, AxisItem(axis, at, item), None)
            update, inside = F.expand_dims(update, (axis,)), pad.positions(n) - place
            inside = F.equal(inside, 0)
        else:
            update, inside = _spread_update(pad, update, axis, item, n)
            at += 1
        masks.append(along_axis(inside, axis, x.type.rank))
        axis += 1
    update = F.broadcast_to(update, x.value.type.shape)
    if how in _MERGES:
        update = getattr(F, _MERGES[how])(x.value, update)
    return F.where(reduce(F.logical_and, masks), update, x.value)


def _spread_update(
    pad: Padding, update: Value, axis: int, item: BasicItem, n: Size
) -> tuple[Value, Value]:
    """Spread an update of a slice out to where an axis of `n` takes its elements.

    Also return where the axis takes any.
    """
    by = _step(pad, item[3])
    at, direction = pad.positions(n), _direction(item[3]) or F.sign(by)
    ahead, remaining = at - _first_place(pad, item, n), _end_place(pad, item, n) - at
    inside = F.logical_and(ahead * direction >= 0, remaining * direction > 0)
    if not isinstance(by, int) or abs(by) > 1:  # fmod is the faster half of a division
        inside = F.logical_and(inside, F.equal(F.fmod(ahead, by), 0))
    if not same_size(update.type.shape[axis], 1):
        places = ahead if isinstance(by, int) and by == 1 else F.floor_divide(ahead, by)
        update = read_at(update, axis, places)
    return update, inside
