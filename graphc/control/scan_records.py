"""Records of a gradient about its scans, for the rules that rewrite these scans.

Each record is a param of a scan, and does not change what the scan computes.
"""

from typing import NamedTuple

from graphc.ir.sizes.dims import Size


class Replay(NamedTuple):
    """A backward scan recomputes the steps of another scan, from the last one on.

    Its inits from `start` on are final carries of the other scan. Its carries from
    `before` on are carries of the other scan after the recomputed step, and afterwards
    hold those from before that step; `carries` says which ones.
    """

    start: int
    before: int
    carries: tuple[int, ...]


class PerChunk(NamedTuple):
    """Some carries change only at the first step of a chunk.

    A chunk has `steps` steps. `number` is the carry that holds the number of the step,
    which counts up from 0; in a replay it counts down, since the last step comes first.
    `carries` change once per chunk.
    """

    steps: Size
    number: int
    carries: tuple[int, ...]
