"""Messages between devices, as XLA has put them into a compiled program."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from graphc.errors import in_number

KINDS = (
    *("all-reduce", "all-gather", "all-to-all", "reduce-scatter"),
    *("collective-permute", "collective-broadcast", "ragged-all-to-all"),
)
_MESSAGE = re.compile(rf" = (.*?) ({'|'.join(KINDS)})(?:-done)?\(")
_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")


@dataclass(frozen=True)
class Collective:
    """The messages of one kind in a segment: how many, and the bytes on each device.

    The bytes are those of the results. A message in a loop counts once. `predicted` are
    the bytes that follow from rules, None where an op has no such rule.
    """

    segment: int
    kind: str
    count: int
    bytes: int
    predicted: int | None = None

    def __str__(self) -> str:
        times = in_number(self.count, self.kind)
        prediction = "" if self.predicted is None else f", {self.predicted} predicted"
        return f"segment {self.segment}: {times}, {self.bytes} bytes{prediction}"


def collectives_in(segment: int, text: str) -> Iterator[Collective]:
    """Yield the collectives of a segment, found in the text of its HLO.

    Where a collective runs beside other work, its end counts: the type of that is the
    type of the results.

    >>> line = "%a = (f32[], f32[4,3]{1,0}) all-reduce(%b, %c), channel_id=1"
    >>> print(*collectives_in(0, line))
    segment 0: 1 all-reduce, 52 bytes
    """
    sizes: dict[str, list[int]] = {}
    for match in _MESSAGE.finditer(text):
        sizes.setdefault(match[2], []).append(_bytes(match[1]))
    for kind, bytes_of_each in sorted(sizes.items()):
        yield Collective(segment, kind, len(bytes_of_each), sum(bytes_of_each))


def beside_predictions(
    read: Iterable[Collective], segment: int, predicted: Mapping[str, int]
) -> list[Collective]:
    """Return the collectives of a segment, including those that were only predicted."""
    by_kind = {one.kind: one for one in read}
    kinds = sorted(by_kind.keys() | {k for k, size in predicted.items() if size})
    return [
        replace(
            by_kind.get(kind, Collective(segment, kind, 0, 0)),
            predicted=predicted.get(kind, 0),
        )
        for kind in kinds
    ]


def _bytes(type_text: str) -> int:
    """Return the bytes of an array of HLO, or of all arrays in a tuple."""
    return sum(
        prod(map(int, filter(None, shape.split(",")))) * max(int(bits or 8) // 8, 1)
        for _, bits, shape in _ARRAY.findall(type_text)
    )
