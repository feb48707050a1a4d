"""Capacities that a program guesses from those that earlier calls needed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Rooms = tuple[int, ...]
ToCapacity = Callable[[int], int]


def guessing(
    guesses: dict[object, Any],
    rounding: Sequence[ToCapacity],
    arrays: Sequence[object],
    sizes: Rooms,
    attempt: Callable[..., tuple[Rooms, object]],
    first_most: int = 0,
) -> tuple[Rooms, object]:
    """Printed into programs: run on guessed capacities until they are enough.

    `attempt` runs on capacities, and returns those that are needed, and results;
    `rounding` gives the capacity of a size. `guesses` holds, for each shape of the
    arrays, the capacities that were run before and those that the last calls needed.
    Capacities that were run before serve again if there is room, unless one is more
    than four times what each of the last 32 calls needed. After capacities that were
    too small, the next are four times as large. The first for a shape are at most those
    for `first_most`.
    """
    key = shapes_of(arrays, sizes)
    largest = max([n for axes in key for n in axes], default=1)
    seen = guesses.get("seen", {})  # replaced, not written to: other threads read it
    known, lately = guesses.get(key) or ([], [first_guess(seen, largest, rounding)])
    if first_most and key not in guesses:
        pairs = zip(lately[0], rounding)  # noqa: B905
        # Only larger guesses are rounded up: listed capacities may all be smaller.
        lately = [tuple([up(first_most) if n > first_most else n for n, up in pairs])]
    enough = tuple(map(max, zip(*lately[-8:])))  # noqa: B905
    while True:
        rooms = run_before(known, enough, lately) or enough
        known = known if rooms in known else [*known, rooms]
        needs, results = attempt(*rooms)
        if all(n <= room for n, room in zip(needs, rooms)):  # noqa: B905
            break
        enough = four_times(rooms, needs, rounding) if key in guesses else needs
    lately = [*(lately if key in guesses else ()), needs][-32:]
    guesses[key] = known, lately
    most = tuple(map(max, zip(*lately[-8:])))  # noqa: B905
    if seen.get(largest) != most:
        guesses["seen"] = {**seen, largest: most}
    return rooms, results


def run_before(
    known: Sequence[Rooms], enough: Rooms, lately: Sequence[Rooms]
) -> Rooms | None:
    """Printed into programs: the least known capacities that are enough.

    None if one is more than four times what each of the last 32 calls needed.
    """
    fitting = [
        rooms
        for rooms in known
        if all(n <= room for n, room in zip(enough, rooms))  # noqa: B905
    ]
    least = min(fitting, default=None)
    if least is None or len(lately) < 32:
        return least
    if all(room <= 4 * n for n, room in zip(enough, least)):  # noqa: B905
        return least
    most = map(max, zip(enough, *lately))  # noqa: B905
    return least if all(room <= 4 * n for n, room in zip(most, least)) else None  # noqa: B905


def four_times(rooms: Rooms, needs: Rooms, rounding: Sequence[ToCapacity]) -> Rooms:
    """Printed into programs: capacities for these needs, four times those before.

    Needs that grow step by step then take only a few compilations.
    """
    triples = zip(rooms, needs, rounding)  # noqa: B905
    try:
        return tuple([n if n <= r else max(n, up(4 * r)) for r, n, up in triples])
    except ValueError:  # no listed capacity has room for so many
        return needs


def shapes_of(arrays: Sequence[object], sizes: Rooms) -> tuple[Rooms, ...]:
    """Printed into programs: the shapes by which guesses are recognised."""
    return (sizes, *[tuple(getattr(x, "shape", ())) for x in arrays])


def guess_ahead(
    guesses: dict[object, Any], arrays: Sequence[object], sizes: Rooms, rooms: Rooms
) -> None:
    """Make the first calls on arrays of these shapes run on the capacities `rooms`.

    If this is called several times, the largest of each capacity is used.
    """
    key = shapes_of(arrays, sizes)
    known, lately = guesses.get(key) or ([], [])
    guesses[key] = [*known, rooms], [*lately[-7:], rooms]


def first_guess(
    seen: Mapping[int, Rooms], largest: int, rounding: Sequence[ToCapacity]
) -> Rooms:
    """Printed into programs: the capacities for a shape that is new.

    `seen` has, by the largest size of a shape, the most that such shapes needed. If
    needs grow with the sizes, those of about this size are taken, each scaled up to it;
    those of all sizes are taken if needs are about the same share of the size. The
    first shape that needed more than the least is taken to tell such a share.
    """
    least = tuple([capacity(0) for capacity in rounding])
    if not seen:
        return least
    near = max([n for n in seen if n <= largest], default=min(seen))
    smallest = least if len(seen) == 1 else seen[min(seen)]
    if not any(a < b for a, b in zip(smallest, seen[max(seen)])):  # noqa: B905
        return tuple(map(max, zip(*seen.values())))  # noqa: B905
    shares = zip(*[[need / n for need in needs] for n, needs in seen.items()])  # noqa: B905
    alike = all(max(share) <= 2 * min(share) for share in shares)
    about = [n for n in seen if alike or largest / 4 <= n <= 4 * largest] or [near]
    scaled = [[-(-need * largest // n) for need in seen[n]] for n in about]
    try:
        pairs = zip(rounding, map(max, zip(*scaled)))  # noqa: B905
        return tuple([capacity(n) for capacity, n in pairs])
    except ValueError:  # no listed capacity has room for so many
        return seen[near]
