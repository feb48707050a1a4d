"""Spread examples of different sizes over devices, with equally many rows each."""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush


def spread_examples(
    members: Sequence[int], counts: Sequence[int], rows: int
) -> list[int]:
    """Order examples so that devices have about the same number of elements.

    `counts` are the elements of each example, and devices take `rows` examples each, in
    order. The largest examples are placed first, each on the device with the fewest
    elements among those that have a row free.

    >>> spread_examples([0, 1, 2, 3], [9, 8, 1, 2], 2)
    [0, 2, 1, 3]
    """
    devices = -(-len(members) // max(rows, 1))
    placed: list[list[int]] = [[] for _ in range(devices)]
    room = [min(rows, len(members) - k * rows) for k in range(devices)]
    free = [(0, k) for k in range(devices)]
    heapify(free)
    for i in sorted(members, key=lambda i: -counts[i]):
        elements, device = heappop(free)
        placed[device].append(i)
        if len(placed[device]) < room[device]:
            heappush(free, (elements + counts[i], device))
    return [i for members_of_device in placed for i in members_of_device]
