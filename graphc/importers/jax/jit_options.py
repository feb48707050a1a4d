"""The options of `graphc.jit` that are those of `jax.jit`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any
from weakref import ref

import jax

from graphc.errors import graph_error
from graphc.importers.jax.call.typed import Choices
from graphc.importers.jax.trace.arguments import (
    Positional,
    StaticNames,
    StaticNumbers,
    Texts,
    numbers_of,
    texts_of,
)
from graphc.ir.namespace import misspelled

OF_PROGRAMS = ("in_shardings", "out_shardings", "device", "compiler_options")
OF_JAX = (*OF_PROGRAMS, "donate_argnums", "donate_argnames", "keep_unused", "inline")


@dataclass(frozen=True)
class JitOptions:
    """The options of `jit` in the words of `jax.jit`; `others` are for JAX alone."""

    static_argnums: StaticNumbers | None
    static_argnames: Texts | None
    others: Mapping[str, Any]

    @classmethod
    def read(
        cls, numbers: Positional, names: StaticNames, of_jax: Mapping[str, object]
    ) -> "JitOptions":
        """The options as they are written: static arguments, and those for JAX.

        Raises TypeError for what is no option of `jax.jit`, GraphError for no device.
        """
        _check(of_jax)
        return cls(numbers_of(numbers), texts_of(names), of_jax)

    def jitted(self, function: Callable[..., object]) -> Any:
        """The function as JAX jits it."""
        options: dict[str, Any] = dict(self.others)
        for name in ("static_argnums", "static_argnames"):
            if getattr(self, name) is not None:
                options[name] = getattr(self, name)
        return jax.jit(_referable(function), **options)

    @property
    def donates(self) -> bool:
        """Whether arguments are given away, so that results may take their memory."""
        names = "donate_argnums", "donate_argnames"
        return any(self.others.get(name) not in (None, ()) for name in names)

    @property
    def reason(self) -> str:
        """Why JAX is to compile each size; "" where it need not."""
        names = [n for n in OF_PROGRAMS if self.others.get(n) is not None]
        return f"programs for many sizes have no {', '.join(names)}" if names else ""


def _referable(function: Callable[..., object]) -> Callable[..., object]:
    """A function that JAX can refer to weakly: it crashes once it has failed to."""
    try:
        ref(function)
    except TypeError:
        return wraps(function)(lambda *args, **named: function(*args, **named))
    return function


def _check(of_jax: Mapping[str, object]) -> None:
    for name in of_jax.keys() - set(OF_JAX):
        close = misspelled(name, [*Choices.__annotations__, *OF_JAX])
        raise TypeError(f"jit() got an unexpected keyword argument {name!r}{close}")
    device = of_jax.get("device")
    if device is not None and not isinstance(device, jax.Device):
        raise graph_error(
            "a device is one of JAX",
            op="jit",
            got=f"device={device!r}",
            hint="jax.device_put(x, jax.devices()[0]) of an argument says it, too",
        )
