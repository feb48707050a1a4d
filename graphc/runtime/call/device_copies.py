"""Copies into buffers, and of parts of results, where arrays lie on an accelerator.

XLA compiles such a copy for each size. The host compiles nothing, but an array goes
through its memory, which takes a large one longer than a compilation. A copy is made by
the host until the copies of its call plan have taken about as long as to compile it:
both together take at most twice the time of the better one.
"""

import time
from collections.abc import Callable
from typing import Any

from graphc.runtime.driver.stance import refusing

COMPILED = 0.1  # seconds until a copy is compiled, about, for an NVIDIA H100


class DeviceCopy:
    """One copy of a call plan, `by_host` at first and compiled later.

    `on_device` is the same as a function that JAX traces; `owner` is what compiles it,
    for stances: where nothing may be compiled, the host goes on.
    """

    def __init__(
        self,
        jax: Any,
        by_host: Callable[[Any], object],
        on_device: Callable[[Any], object],
        owner: object,
    ) -> None:
        self._jax, self._owner = jax, owner
        self._by_host, self._on_device = by_host, on_device
        self._compiled: Callable[[Any], object] | None = None
        self._spent = 0.0

    def __call__(self, array: object) -> object:
        """The copy of `array`, which has the shape that it is planned for."""
        compiled = self._compiled
        if compiled is None:
            if self._spent < COMPILED or refusing(self._owner) is not None:
                return self._timed(array)
            self._compiled = compiled = self._jax.jit(self._on_device)
        with self._jax.enable_x64(True):  # keeps 64-bit arrays as they are
            return compiled(array)

    def _timed(self, array: object) -> object:
        start = time.perf_counter()
        copied = self._by_host(array)
        self._spent += time.perf_counter() - start
        return copied
