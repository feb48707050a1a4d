"""Copies and pickles of decorated functions, in which nothing is compiled yet."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self

_BY_VALUE = "cloudpickle", "dill"  # they pickle the contents of `__main__`


def global_name(decorated: object) -> str:
    """The name under which its module has a decorated function; "" if under none.

    Pickle stores functions by this name. `__main__` is another module in the process
    that reads the pickle, so picklers that store functions by value get "" for it.
    """
    module = getattr(decorated, "__module__", None) or ""
    name: str = getattr(decorated, "__qualname__", "")
    member: Any = sys.modules.get(module)
    for part in name.split("."):
        member = getattr(member, part, None)
    if member is not decorated:
        return ""
    pickler: str = sys._getframe(2).f_globals.get("__name__", "")
    by_value = module == "__main__" and pickler.startswith(_BY_VALUE)
    return "" if by_value else name


class DecoratedFunction(ABC):
    """A function that is called in place of another.

    A copy is made of the same parts, and shares nothing that was compiled.
    """

    @abstractmethod
    def _parts(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """The function, and the further arguments that make one like this."""

    def __copy__(self) -> Self:
        function, more = self._parts()
        return type(self)(function, *more)  # type: ignore[call-arg]

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        function, more = self._parts()
        copied = type(self)(deepcopy(function, memo), *more)  # type: ignore[call-arg]
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> str | tuple[object, ...]:
        name = global_name(self)
        if name:
            return name
        function, more = self._parts()
        return type(self), (function, *more)
