"""Records of a gradient about its scans, for the rules that rewrite them.

Each is a param of the scan, and leaves what it computes as it is.
"""

from typing import NamedTuple

from graphc.ir.sizes.dims import Size


class Replay(NamedTuple):
    """A backward scan recomputes the steps of another scan, the last one first.

    Its inits from `start` on are final carries of the other scan. Its carries from
    `before` on are carries of the other scan after the recomputed step, and hold those
    before it afterwards; `carries` says which ones.
    """

    start: int
    before: int
    carries: tuple[int, ...]


class PerChunk(NamedTuple):
    """Some carries change at the first step of a chunk only.

    A chunk has `steps` steps. `number` is the carry with the number of the step: it
    counts up from 0; in a replay down, and the last one is first. `carries` change once
    per chunk.
    """

    steps: Size
    number: int
    carries: tuple[int, ...]
