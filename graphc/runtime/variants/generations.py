"""Programs that a function has changed from stay in use where they are compiled.

A call whose sizes an older program was compiled for runs on that one: nothing that is
compiled is compiled again. A size that only data tells is no part of that; where an
older program compiles something for such a one, its arguments' sizes go to the newest
program from then on.
"""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any

from graphc.ir.sizes.dims import Dim
from graphc.runtime.cache.prepared import Prepared
from graphc.runtime.driver.failure import Program
from graphc.runtime.driver.log import Compilation, Log
from graphc.runtime.driver.xla import EVENTS, since
from graphc.runtime.variants.tiering import PartRunner, parts_of, shapes_and_numbers

Key = tuple[Hashable, ...]
MOST_KNOWN = 4096  # shapes of arguments that are told by a short look


class Generation:
    """One program of a function, and the sizes of arguments that it is compiled for."""

    def __init__(
        self, prepared: Prepared, program: Program, run: Callable[..., Any], log: Log
    ) -> None:
        self.prepared = prepared
        self.program = program
        self.run = run
        self.log = log
        self.seen: set[Key] = set()

    @cached_property
    def _parts(self) -> list[tuple[str, PartRunner]]:
        return parts_of(self.prepared)

    @property
    def is_open(self) -> bool:
        """Whether arguments have sizes that are not padded."""
        inputs, facts = self.prepared.inputs, self.prepared.facts
        axes = [n for v in inputs for n in v.type.shape if isinstance(n, Dim)]
        symbols = {s for n in axes for s in n.symbols}
        statics = [v for i, v in enumerate(inputs) if i in facts.statics]
        symbols |= {v._symbol for v in statics if v._symbol is not None}
        padded = self.prepared.plan.padded if facts.padded else None
        return bool(symbols.difference(padded.policies if padded else ()))

    def key(self, args: tuple[object, ...]) -> Key:
        """The sizes of arguments that its segments depend on."""
        return tuple([part(args) for _, part in self._parts])

    def sizes(self, args: tuple[Any, ...]) -> dict[str, int]:
        """The same by name, without what has none."""
        return {name: part(args) for name, part in self._parts if name}

    def note(self, args: tuple[object, ...]) -> None:
        """It is compiled for the sizes of these arguments."""
        self.seen.add(self.key(args))

    def leave(self, args: tuple[object, ...]) -> None:
        """Arguments of these sizes are for the newest program from now on."""
        self.seen.discard(self.key(args))

    def observed(
        self,
        run: Callable[..., object],
        instead: Callable[..., Callable[..., object] | None],
    ) -> Callable[..., object]:
        """`run` of this program; each call is observed.

        Where the sizes are new, `instead` is asked for another function to run.
        """

        told_by, known = shapes_and_numbers(self.prepared), set[Key]()

        def observing(*args: object) -> object:
            try:
                told = told_by(args)
                key = None if told in known else self.key(args)
            except (AttributeError, TypeError):  # as of an argument that is traced
                return run(*args)
            if key is None:
                return run(*args)
            if key not in self.seen:
                other = instead(args)
                if other is not None:
                    return other(*args)
            result = run(*args)
            self.seen.add(key)
            if len(known) >= MOST_KNOWN:
                known.clear()
            known.add(told)
            return result

        return observing


class Generations:
    """The older programs of a function, and what they have compiled lately."""

    def __init__(self) -> None:
        self.older: list[Generation] = []
        self.running: Generation | None = None
        self.start = 0  # of the events that are of the newest program

    def around(self, newest: Callable[..., object]) -> Callable[..., object]:
        """The function that runs a call on the program that is compiled for it."""
        if not self.older:
            return newest

        def run(*args: object) -> object:
            self.running = None
            older = self._compiled_for(args)
            return self._on_older(*older, args) if older else newest(*args)

        return run

    def serve(self, args: tuple[object, ...]) -> bool:
        """Whether an older program runs calls of these sizes."""
        return self._compiled_for(args) is not None

    def _compiled_for(self, args: tuple[object, ...]) -> tuple[Generation, Key] | None:
        """The older program that is compiled for the sizes of these arguments."""
        for one in self.older:
            try:
                key = one.key(args)
            except (AttributeError, TypeError):  # as of an argument that is traced
                return None
            if key in one.seen:
                return one, key
        return None

    def _on_older(self, one: Generation, key: Key, args: tuple[object, ...]) -> object:
        start = len(EVENTS)
        self.running = one
        result = one.run(*args)
        self.running = None
        if one.log.is_pending or len(EVENTS) != start:
            one.log.settle(since(start))
            one.seen.discard(key)
            self.start = len(EVENTS)
        return result

    @property
    def compilations(self) -> list[Compilation]:
        """The compilations of the older programs."""
        return [c for one in self.older for c in one.log.done]
