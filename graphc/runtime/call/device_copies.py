"""Copies into buffers, and cuts of results, for arrays on an accelerator.

XLA compiles such a copy for each size. The host compiles nothing, but it moves the
array through its own memory, which for a large array takes longer than a compilation.
So the host makes a copy of a call plan until that has taken about as long as compiling
it would: both together take at most twice the time of the better way.
"""

import time
from collections.abc import Callable
from typing import Any

from graphc.runtime.driver.stance import forbidding_limit

COMPILED = 0.1  # seconds to compile a copy, about, for an NVIDIA H100


class DeviceCopy:
    """One copy of a call plan, made `by_host` at first and by compiled code later.

    `on_device` is the same copy as a function that JAX traces. `owner` is what compiles
    it, as stances see it: where nothing may be compiled, the host goes on making the
    copy.
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
        """Return a copy of `array`, whose shape is the one that this is planned for."""
        compiled = self._compiled
        if compiled is None:
            if self._spent < COMPILED or forbidding_limit(self._owner) is not None:
                return self._copy_by_host(array)
            self._compiled = compiled = self._jax.jit(self._on_device)
        with self._jax.enable_x64(True):  # keeps 64-bit arrays as they are
            return compiled(array)

    def _copy_by_host(self, array: object) -> object:
        start = time.perf_counter()
        copied = self._by_host(array)
        self._spent += time.perf_counter() - start
        return copied
