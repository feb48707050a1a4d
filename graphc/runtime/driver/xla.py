"""Questions to JAX while programs run: compile events, and arrays at little cost.

`jax` is an argument throughout: importing graphc does not import JAX.
"""

import importlib
from collections import deque
from collections.abc import Callable
from functools import cache
from threading import Lock, get_ident
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from graphc.runtime.driver.stance import count_lowered
from graphc_serving import private_jax

COMPILED = "/jax/core/compile/backend_compile_duration"
LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
MOST_EVENTS = 4096  # events that are remembered: more than a call has
LONG = "<graphc long "  # how file names of long programs begin
MOST_LOCATED = 500  # longest program, in lines, whose lines JAX notes


class Event(NamedTuple):
    """One XLA compilation: the thread, the name of the jitted function, the seconds."""

    thread: int
    name: str
    seconds: float


class Events:
    """The XLA compilations of the process: their number, and the last of them.

    `count` grows by one with each. Its value at some time is a position among the
    events.
    """

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self.count: int = 0
        self._last: deque[Event] = deque(maxlen=most)
        self._lock = Lock()

    def note(self, name: str, seconds: float) -> None:
        """Record that this thread has compiled a jitted function of this name."""
        with self._lock:
            self._last.append(Event(get_ident(), name, seconds))
            self.count += 1

    def since(self, start: int) -> list[Event]:
        """Return this thread's events from position `start` on, as far as kept."""
        with self._lock:
            new = self.count - start
            last = [*self._last][-new:] if new else []
        return [event for event in last if event.thread == get_ident()]


EVENTS = Events()
_listening: list[Any] = []


def listen(jax: ModuleType) -> None:
    """Record all XLA compilations from now on."""
    if not _listening:
        _listening.append(jax)
        jax.monitoring.register_event_duration_secs_listener(_note)


def file_name(kind: str, text: str) -> str:
    """Return the name of the file that a program of this kind is compiled under.

    JAX notes the line of the program for each op. Python finds the line of an
    instruction by walking through its function from the start, so that lowering takes
    quadratic time: 9 us more per op at 1,000 lines, 100 us at 10,000, on top of 17 us.
    So JAX skips long programs, as it does its own files, and notes the line of the
    call.
    """
    long = text.count("\n") > MOST_LOCATED
    return f"{LONG}{kind} program>" if long else f"<graphc {kind} program>"


@cache
def skip_long_programs() -> None:
    """Have JAX note no lines of long programs from now on."""
    lines = importlib.import_module("jax.extend.source_info_util")
    lines.register_exclusion(LONG)


def _note(event: str, seconds: float, fun_name: str = "", **_: object) -> None:
    if event == COMPILED:
        EVENTS.note(fun_name, seconds)
    elif event == LOWERED:
        count_lowered(fun_name)


def faster_on_device(
    jax: ModuleType, on_device: Callable[..., object]
) -> Callable[..., object]:
    """Return an `on_device` that takes a tenth of its time from the second array on.

    An array is placed as another one is, or where JAX places arrays by default. The
    function used is the one that `jax.device_put` ends in, after many checks; no public
    one does without them. Where JAX has changed it, the result is `on_device` itself.
    """
    put = private_jax.device_put(jax)
    if put is None:
        return on_device
    last: tuple[Any, list[Any]] = None, []  # kept, since a sharding takes long to hash
    usual: tuple[object, Any] | None = None  # JAX's default, and where that led

    def placed(array: Any, like: Any = None) -> object:
        nonlocal last, usual
        if like is None:
            default, chosen = usual, jax.config.jax_default_device
            if type(array) is not np.ndarray:
                return on_device(array)
            if default is None or default[0] is not chosen:
                result: Any = on_device(array)
                if not isinstance(result, jax.core.Tracer):
                    usual = chosen, result.sharding
                return result
            sharding, committed = default[1], False
        else:
            sharding, committed = like.sharding, like.committed
        known, devices = last
        if known is not sharding:
            devices = list(sharding.device_set)
            last = sharding, devices
        if len(devices) > 1:
            return on_device(array, like)
        return put(array, sharding, devices, committed)

    return placed


def with_64_bits(
    jax: ModuleType, program: Callable[..., object], jitted: Callable[..., object]
) -> Callable[..., object]:
    """Return a `program` that runs `jitted` with 64 bits in a sixth of the time.

    It calls what the context `jax.enable_x64(True)` calls. Where JAX has changed that,
    the result is `program` itself.
    """
    switch = private_jax.switch_of_x64(jax)
    if switch is None:
        return program
    swap, restore = switch

    def run(*args: object) -> object:
        before = swap(True)
        try:
            return jitted(*args)
        finally:
            restore(before)

    return run
