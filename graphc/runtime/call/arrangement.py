"""Inputs given as lists, tuples and dicts, as parameters often are.

The program has one input for each variable. A call passes arrays in the same structure,
which is taken apart first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import CallError, ErrorKind
from graphc.runtime.driver.failure import refused_call

Placing = Any  # the place of a variable among all, or a list, tuple or dict of forms


@dataclass(frozen=True)
class Arrangement:
    """The structure of each input, and its name in calls ("" where it has none)."""

    forms: tuple[Placing, ...]
    names: tuple[str, ...]
    count: int  # the number of variables
    by_name: bool  # whether the inputs stand in a dict

    def flat(self, args: Sequence[object], named: Mapping[str, object]) -> list[object]:
        """Return the arrays of a call in the order of the variables.

        Raises CallError where the arguments do not have this structure.
        """
        arguments = self._bound(args, named)
        arrays: list[object] = [None] * self.count
        for i, form in enumerate(self.forms):
            if i not in arguments:
                raise self._misfit(f"call: missing input: {self._title(i)}", "missing")
            self._take_apart(form, arguments[i], self._title(i), arrays)
        return arrays

    def around(self, leaves: Sequence[object]) -> list[object] | dict[str, object]:
        """Build the structure of all inputs with `leaves` in place of the variables."""
        parts = [_fill_form(form, leaves) for form in self.forms]
        return dict(zip(self.names, parts, strict=True)) if self.by_name else parts

    def _title(self, i: int) -> str:
        return self.names[i] or f"number {i}"

    def _bound(
        self, args: Sequence[object], named: Mapping[str, object]
    ) -> dict[int, object]:
        if len(args) > len(self.forms):
            problem = f"call: {len(args)} arguments for {len(self.forms)} inputs"
            raise self._misfit(problem, "unexpected")
        arguments = dict(enumerate(args))
        for name, argument in named.items():
            if not name or name not in self.names:
                problem = f"call: there is no input called {name!r}"
                raise self._misfit(problem, "unexpected")
            i = self.names.index(name)
            if i in arguments:
                raise self._misfit(f"call: input {name!r} is given twice", "unexpected")
            arguments[i] = argument
        return arguments

    def _take_apart(
        self, form: Placing, argument: object, path: str, arrays: list[object]
    ) -> None:
        if isinstance(form, int):
            arrays[form] = argument
            return
        if isinstance(form, dict):
            if not isinstance(argument, Mapping) or form.keys() != argument.keys():
                keys = ", ".join(map(repr, form))
                raise self._other(path, argument, f"a dict with the keys {keys}")
            pairs = [(f"{path}[{k!r}]", part, argument[k]) for k, part in form.items()]
        else:
            if not isinstance(argument, (list, tuple)) or len(form) != len(argument):
                expected = f"a list or tuple of {len(form)}"
                raise self._other(path, argument, expected)
            pairs = [
                (f"{path}[{i}]", part, argument[i]) for i, part in enumerate(form)
            ]
        for inner, part, item in pairs:
            self._take_apart(part, item, inner, arrays)

    def _other(self, path: str, argument: object, expected: str) -> CallError:
        got = type(argument).__name__
        if isinstance(argument, Mapping):
            got = f"a dict with the keys {', '.join(map(repr, argument))}"
        elif isinstance(argument, (list, tuple)):
            got = f"a {got} of {len(argument)}"
        problem = f"input {path} has another structure"
        return self._misfit(problem, "argument", got, expected)

    def _misfit(
        self, problem: str, kind: ErrorKind, got: str = "", expected: str = ""
    ) -> CallError:
        known = ", ".join(map(self._title, range(len(self.forms))))
        needed = expected or f"inputs {known}"
        return refused_call(problem, kind, got=got, expected=needed)


def _fill_form(form: Placing, leaves: Sequence[object]) -> object:
    if isinstance(form, int):
        return leaves[form]
    if isinstance(form, dict):
        return {key: _fill_form(part, leaves) for key, part in form.items()}
    return type(form)(_fill_form(part, leaves) for part in form)
