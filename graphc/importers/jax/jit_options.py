"""The options that `graphc.jit` shares with `jax.jit`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any
from weakref import ref

import jax

from graphc.errors import graph_error
from graphc.importers.jax.call.decorated_types import Choices
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
    """Options of `jit`, named as in `jax.jit`; `others` concern JAX alone."""

    static_argnums: StaticNumbers | None
    static_argnames: Texts | None
    others: Mapping[str, Any]

    @classmethod
    def read(
        cls, numbers: Positional, names: StaticNames, of_jax: Mapping[str, object]
    ) -> "JitOptions":
        """Read static arguments and the options meant for JAX.

        Raises TypeError for an option that `jax.jit` does not have, and GraphError for
        a `device` that is not JAX's.
        """
        _check(of_jax)
        return cls(numbers_of(numbers), texts_of(names), of_jax)

    def jitted(self, function: Callable[..., object]) -> Any:
        """Return the function as `jax.jit` wraps it."""
        options: dict[str, Any] = dict(self.others)
        for name in ("static_argnums", "static_argnames"):
            if getattr(self, name) is not None:
                options[name] = getattr(self, name)
        return jax.jit(_referable(function), **options)

    @property
    def donates(self) -> bool:
        """Whether arguments are donated, so that results may reuse their memory."""
        names = "donate_argnums", "donate_argnames"
        return any(self.others.get(name) not in (None, ()) for name in names)

    @property
    def reason(self) -> str:
        """Why JAX must compile each size; "" if it need not."""
        names = [n for n in OF_PROGRAMS if self.others.get(n) is not None]
        return f"programs for many sizes take no {', '.join(names)}" if names else ""


def _referable(function: Callable[..., object]) -> Callable[..., object]:
    """Wrap a function that has no weak references, without which JAX would crash."""
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
            "a device must be one of JAX",
            op="jit",
            got=f"device={device!r}",
            hint="jax.device_put(x, jax.devices()[0]) of an argument chooses one too",
        )
