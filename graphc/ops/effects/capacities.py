"""Capacities: sizes rounded up, so that programs are compiled for few sizes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.errors import label
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Array, NamedRange, Printing, op, type_error
from graphc.ir.sizes.dims import Symbol
from graphc.ir.sizes.names import CAPACITY
from graphc.ir.types import NDArray, TensorType, is_integer


@dataclass(frozen=True)
class Capacities:
    """The capacities to which a size may be rounded up.

    They are `minimum` times powers of `growth`, rounded up; or the listed `buckets`; or
    multiples of `multiple`. A list that is `open_ended` goes on with its last element
    times powers of `growth`. All capacities are multiples of `step`, as are the numbers
    given here.
    """

    growth: float = 2.0
    minimum: int = 16
    buckets: tuple[int, ...] = ()
    multiple: int = 0
    open_ended: bool = False
    step: int = 1


@dataclass(frozen=True)
class TiedCapacities(Capacities):
    """Capacities that double, for a size whose capacity is chosen together with others.

    If the sizes vary together, this one is `ahead` capacities further on; None says
    that it does not vary with them. Capacities of earlier calls serve later ones too
    while an axis is at most `most`, if that is not 0; the work on an axis grows with
    this `power` of the other axes.
    """

    ahead: int | None = 0
    most: int = 0
    power: int = 0


def geometric(size: int, growth: float, minimum: int) -> int:
    """The first of minimum, minimum*growth, ... (rounded up) with room for `size`."""
    capacity = minimum
    while capacity < size:
        capacity = max(capacity + 1, -int(-capacity * growth // 1))
    return capacity


def doubled(size: int, minimum: int) -> int:
    """The first of minimum, 2 * minimum, 4 * minimum, ... with room for `size`."""
    if size <= minimum:
        return minimum
    return minimum << (int(size - 1) // minimum).bit_length()


def listed(size: int, buckets: tuple[int, ...]) -> int:
    """The first of `buckets` with room for `size`."""
    for bucket in buckets:
        if size <= bucket:
            return bucket
    raise ValueError(f"no bucket has room for {size}: there are {buckets}")


def listed_and_on(size: int, buckets: tuple[int, ...], growth: float) -> int:
    """The same; beyond the last, the first of last*growth, last*growth**2, ..."""
    if size > buckets[-1]:
        return geometric(size, growth, buckets[-1])
    return listed(size, buckets)


def geometric_in_steps(size: int, growth: float, minimum: int, step: int) -> int:
    """Do as `geometric`, in multiples of `step`, of which `minimum` is one."""
    return step * geometric(-(-size // step), growth, minimum // step)


def listed_and_on_in_steps(
    size: int, buckets: tuple[int, ...], growth: float, step: int
) -> int:
    """Do as `listed_and_on`, where all capacities are multiples of `step`."""
    if size > buckets[-1]:
        return geometric_in_steps(size, growth, buckets[-1], step)
    return listed(size, buckets)


def multiple_of(size: int, multiple: int) -> int:
    """The first multiple of `multiple`, at least one, with room for `size`."""
    return max(-(-size // multiple), 1) * multiple


def without_padding(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """Printed into programs: the first elements of `array`, cut to its true `shape`."""
    return array if array.shape == shape else array[tuple(map(slice, shape))]


def together(
    sizes: tuple[int, ...],
    ahead: tuple[int, ...],
    minimum: int,
    most: int = 0,
    power: int = 0,
) -> list[int]:
    """Printed into programs: doubling capacities of `sizes` that vary together.

    Each size is as many doublings above the minimum as the others, less the doublings
    that it is `ahead`. A capacity over twice the one that its size needs is replaced by
    that. All are those needed if the larger ones would take long: `most` and `power`
    are as in `among`, but the work may be a few times as much, since the sizes recur
    together.
    """
    needed = [doubled(n, minimum) for n in sizes]
    pairs = zip(needed, ahead)  # noqa: B905
    place = max([(n // minimum).bit_length() - a for n, a in pairs])
    shared = [minimum << max(place + a - 1, 0) for a in ahead]
    rooms = [n if n <= 2 * a else a for a, n in zip(needed, shared)]  # noqa: B905
    little = 4 * most ** (1 + power)
    is_little = not most or serves(tuple(rooms), tuple(needed), little, power)
    return rooms if is_little else needed


def among(
    known: dict[tuple[int, ...], tuple[int, ...]],
    needed: list[int],
    most: int,
    power: int,
    ahead: tuple[int, ...] = (),
) -> tuple[int, ...]:
    """Printed into programs: capacities of former calls, where they serve this one.

    The work on an axis grows with the longest other axis to this `power`; if both are
    at most `most`, it takes little time, and an axis may be longer than needed up to
    that work. The more capacities exist, the larger the share of work that may be
    wasted. New capacities are as long as that allows, so that they serve other calls.
    Sizes that vary together, with doublings `ahead` of each other, get the capacities
    they need until there are many, which then serve them. Choices are `known` from then
    on: calls of the same sizes have the same capacities.
    """
    rooms = tuple(needed)
    if rooms not in known:
        chosen = [*dict.fromkeys(known.values())]
        known[rooms] = chosen_for(rooms, chosen, most, power, ahead)
    return known[rooms]


def chosen_for(
    needed: tuple[int, ...],
    known: list[tuple[int, ...]],
    most: int,
    power: int,
    ahead: tuple[int, ...],
) -> tuple[int, ...]:
    """The capacities for needs that no call had before: `known` ones, or new."""
    pairs = zip(needed, ahead or (0,) * len(needed))  # noqa: B905
    is_few = len(known) < 7 and len({n >> a for n, a in pairs}) == 1
    if needed in known or is_few:
        return needed
    little, times = most ** (1 + power), 1.75 ** len(known)
    fitting = [r for r in known if serves(r, needed, little, power)]
    enough = [r for r in fitting if work(r, power) <= times * work(needed, power)]
    if enough:
        return min(enough, key=lambda r: work(r, power))
    longest = max(needed)
    least = min(longest, little // longest**power)
    long = tuple([max(n, least) for n in needed])
    return long if work(long, power) <= times * work(needed, power) else needed


def serves(
    rooms: tuple[int, ...], needed: tuple[int, ...], little: int, power: int
) -> bool:
    """Whether `rooms` are large enough and cost little more time than those needed."""
    if any([room < n for room, n in zip(rooms, needed)]):  # noqa: B905
        return False
    second, first = sorted(rooms)[-2:]
    others = [second if room == first else first for room in rooms]
    triples = zip(rooms, needed, others)  # noqa: B905
    return all([r == n or r * other**power <= little for r, n, other in triples])


def work(rooms: tuple[int, ...], power: int) -> int:
    """Roughly how the work grows: with the product of all axes, or the longest."""
    return math.prod(rooms) if power else max(rooms)


def capacity_call(
    capacities: Capacities,
) -> tuple[Callable[..., int], tuple[object, ...]]:
    """The function that rounds up a size, and its arguments after the size."""
    in_steps = (capacities.step,) * (capacities.step != 1)
    if capacities.open_ended and capacities.buckets:
        numbers = (capacities.buckets, capacities.growth, *in_steps)
        return (listed_and_on_in_steps if in_steps else listed_and_on), numbers
    if capacities.buckets:
        return listed, (capacities.buckets,)
    if capacities.multiple:
        return multiple_of, (capacities.multiple,)
    if capacities.growth == 2:
        return doubled, (capacities.minimum,)
    numbers = (capacities.growth, capacities.minimum, *in_steps)
    return (geometric_in_steps if in_steps else geometric), numbers


def rounded_up(
    capacities: Sequence[Capacities],
    sizes: Sequence[int],
    known: dict[tuple[int, ...], tuple[int, ...]] | None = None,
) -> list[int]:
    """The capacity of each size; those of tied sizes are chosen together.

    Those are chosen among the `known` ones, if there are any. Raises ValueError if no
    capacity has room.
    """
    rooms = []
    for one, size in zip(capacities, sizes, strict=True):
        function, options = capacity_call(one)
        rooms.append(function(size, *options))
    tied = tied_places(capacities)
    if tied:
        chosen = [capacities[i] for i in tied]
        aheads, shares = doublings_ahead(chosen), among_options(chosen)
        shared = [rooms[i] for i in tied]
        if aheads:
            numbers = tuple(sizes[i] for i in tied)
            limits = shares or ()
            shared = together(numbers, aheads, chosen[0].minimum, *limits)
        if shares and known is not None:
            most, power = shares
            shared = [*among(known, shared, most, power, aheads)]
        for i, room in zip(tied, shared, strict=True):
            rooms[i] = room
    return rooms


def tied_places(capacities: Sequence[Capacities]) -> list[int]:
    """The places of capacities that are chosen together; none if there is only one."""
    pairs = enumerate(capacities)
    places = [i for i, one in pairs if isinstance(one, TiedCapacities)]
    return places if len(places) > 1 else []


def doublings_ahead(capacities: Sequence[Capacities]) -> tuple[int, ...]:
    """How far sizes that vary together are ahead of one another; () if they do not."""
    tied = [one for one in capacities if isinstance(one, TiedCapacities)]
    aheads = tuple([one.ahead for one in tied if one.ahead is not None])
    return aheads if len(aheads) == len(tied) else ()


def among_options(capacities: Sequence[Capacities]) -> tuple[int, int] | None:
    """`most` and `power` for `among`; None if capacities of calls are not reused."""
    first = next(one for one in capacities if isinstance(one, TiedCapacities))
    return (first.most, first.power) if first.most else None


@op()
def _bucket(size: Array, *, capacities: Capacities) -> TensorType:
    """The capacity for an integer scalar, chosen on the host."""
    if size.type.rank or not is_integer(size.dtype):
        raise type_error("needs an integer scalar")
    return size.type.like()


def _print_bucket(p: Printing) -> str:
    function, numbers = capacity_call(p.node.params["capacities"])
    arguments = ", ".join([f"int({p.inputs[0]})", *map(repr, numbers)])
    dtype = p.code(p.node.outputs[0].dtype)
    return f"np.asarray({p.helper(function)}({arguments}), {dtype})"


BUCKET = _bucket
_bucket.emit(numpy=_print_bucket)
_bucket.refuse("jax", "capacities are chosen on the host")


def is_capacity(symbol: Symbol) -> bool:
    """Whether a symbol is a capacity that the program chooses, not an axis of inputs.

    A capacity that is chosen when a call begins is an input of the padded graph.
    """
    origin = symbol.origin
    if not isinstance(origin, Value):
        return False
    of_input = origin.node.primitive is INPUT and symbol.name.endswith(CAPACITY)
    return of_input or origin.node.primitive is BUCKET


def _range_of_bucket(node: Node) -> NamedRange:
    """Name a capacity after its input; a shared axis size has no symbol of its own."""
    [size] = node.inputs
    symbol = size._symbol
    name = symbol.name if symbol else label(size.node.primitive.range_of(size)[0])
    return f"{name}{CAPACITY}", 1, None


_bucket.range = _range_of_bucket
_bucket.no_gradient("its result is an integer")
_bucket.no_batch("capacities are chosen on the host")
_bucket.no_padding("capacities are computed from true sizes")


def bucketed(size: Value, capacities: Capacities) -> Value:
    """The capacity for an integer scalar."""
    capacity: Value = _bucket(size, capacities=capacities)
    return capacity
