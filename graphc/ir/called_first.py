"""Errors that say so where a method is not called first, or a property is called."""

from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    NoReturn,
    ParamSpec,
    TypeVar,
)

Owner = TypeVar("Owner")
MethodArguments = ParamSpec("MethodArguments")
Result = TypeVar("Result")


def called_first(
    method: Callable[Concatenate[Owner, MethodArguments], Result],
) -> Callable[Concatenate[Owner, MethodArguments], Result]:
    """Decorator: attributes of the method raise an error that says to call it."""
    described: Any = _Method(method)
    return described


class _Method:
    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: object, owner: object = None) -> object:
        return self._function if instance is None else _Bound(self._function, instance)


class _Bound:
    """A bound method; it has `__get__`, so that `help` takes it for a routine."""

    def __init__(self, function: Callable[..., object], owner: object) -> None:
        self.__wrapped__ = function.__get__(owner)
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def __call__(self, *args: object, **named: object) -> object:
        return self.__wrapped__(*args, **named)

    def __get__(self, instance: object, owner: object = None) -> "_Bound":
        return self

    def __getattr__(self, name: str) -> NoReturn:
        method = self.__dict__.get("__name__", "")
        hint = "" if name.startswith("_") else f"; write f.{method}().{name}"
        problem = f"{method} is a method and has no attribute {name!r}"
        raise AttributeError(f"{problem}{hint}")


class NotCalled:
    """Base of objects behind a property: a call raises an error on how to read it."""

    _read: ClassVar[str]

    if not TYPE_CHECKING:  # type checkers should refuse calls

        def __call__(self, *_: object, **__: object) -> NoReturn:  # noqa: D102
            name = self._read.rpartition(".")[2]
            problem = f"{name} is a property, not a method"
            raise TypeError(f"{problem}; write {self._read}")
