"""Sizes whose elements are spread over devices, while rules look at a graph.

A loop over tiles of such an array would have every device do all of the steps, one
after the other, on gathered rows, since XLA gives each device the whole carry.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar

from graphc.ir.sizes.dims import Size, Symbol, symbols_in

_spread: ContextVar[frozenset[Symbol]] = ContextVar("_spread", default=frozenset())


def is_spread(size: Size) -> bool:
    """Whether an axis of this size is spread over devices."""
    return not _spread.get().isdisjoint(symbols_in(size))


@contextmanager
def as_spread(symbols: Iterable[Symbol]) -> Generator[None]:
    """Within the context, treat sizes of these symbols as spread."""
    token = _spread.set(frozenset(symbols))
    try:
        yield
    finally:
        _spread.reset(token)
