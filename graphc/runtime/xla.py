"""Questions to JAX while programs run: compile events, arrays at little cost.

`jax` is an argument throughout: importing graphc does not import JAX.
"""

import inspect
from collections.abc import Callable
from threading import get_ident
from typing import Any, NamedTuple

COMPILED = "/jax/core/compile/backend_compile_duration"
PUT = ["aval", "sharding", "xs", "devices", "committed", "enable_x64"]


class Event(NamedTuple):
    """One XLA compilation: the thread, the name of the jitted function, the seconds."""

    thread: int
    name: str
    seconds: float


EVENTS: list[Event] = []  # of the whole process, in order
_listening: list[Any] = []


def listen(jax: Any) -> None:
    """Record compilations of XLA from now on."""
    if not _listening:
        _listening.append(jax)
        jax.monitoring.register_event_duration_secs_listener(_note)


def _note(event: str, seconds: float, fun_name: str = "", **_: Any) -> None:
    if event == COMPILED:
        EVENTS.append(Event(get_ident(), fun_name, seconds))


def since(start: int) -> list[Event]:
    """The events of this thread from that position on."""
    return [event for event in EVENTS[start:] if event.thread == get_ident()]


def quick(jax: Any, on_device: Callable[..., Any]) -> Callable[..., Any]:
    """`on_device` of a program, at a fifth of its time where an array is like another.

    It ends in the function of JAX that `jax.device_put` ends in, after many checks. No
    public one does without them; where JAX has changed it, `on_device` is as good.
    """
    put = _batched_device_put(jax)
    if put is None:
        return on_device
    type_of, device_of = jax.core.ShapedArray, jax.Device

    def placed(array: Any, like: Any = None) -> Any:
        device = None if like is None else like.device
        if not isinstance(device, device_of):  # unknown, or several
            return on_device(array, like)
        aval = type_of(array.shape, array.dtype)
        return put(aval, like.sharding, [array], [device], like.committed, True)

    return placed


def _batched_device_put(jax: Any) -> Callable[..., Any] | None:
    """JAX's own function, if it still is what it was."""
    try:
        put: Callable[..., Any] = jax._src.interpreters.pxla.batched_device_put
    except AttributeError:
        return None
    return put if list(inspect.signature(put).parameters) == PUT else None
