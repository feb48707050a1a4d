"""Merge the sorted parts of devices: which parts exchange elements, and when."""

from collections.abc import Iterator


def rounds(count: int) -> Iterator[list[tuple[int, int]]]:
    """Pairs of so many parts, of which the first takes the lower elements (Batcher).

    Printed into programs. A part is in one pair of a round at most.
    """
    block = 1
    while block < count:
        step = block
        while step:
            firsts = [
                low
                for start in range(step % block, count - step, 2 * step)
                for low in range(start, min(start + step, count - step))
                if low // (2 * block) == (low + step) // (2 * block)
            ]
            yield [(low, low + step) for low in firsts]
            step //= 2
        block *= 2
