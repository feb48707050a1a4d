"""One record per compilation: which segment, how long, and which size asked for it."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from numbers import Integral
from weakref import WeakMethod

from graphc.errors import in_number
from graphc.runtime.cache.jax_cache import Executables
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.driver.progress import ProgressLine, logger, show_progress
from graphc.runtime.driver.stance import SEGMENT, note_compilation
from graphc.runtime.driver.xla import Event
from graphc.transform.planning.plan import first_node_with_size


def in_numbers(calls: int, compilations: int) -> str:
    """Say in words how many calls and compilations there were."""
    return f"{in_number(calls, 'call')}, {in_number(compilations, 'compilation')}"


@dataclass(frozen=True)
class Compilation:
    """One compilation of `segment`, an index into `plan.segments`, for `sizes` by name.

    `seconds` runs from the start of tracing to the start of the next compilation of the
    same call, or to the end of the call: tracing, lowering, XLA, and the first
    execution.
    """

    segment: int
    seconds: float
    reason: str
    sizes: dict[str, int]


@dataclass
class Stats:
    """The calls and compilations of a function so far.

    `numpy_calls` are those that ran on NumPy, where there are two tiers.
    """

    calls: int = 0
    compilations: list[Compilation] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    numpy_calls: int = 0

    def __repr__(self) -> str:
        seconds = sum(c.seconds for c in self.compilations)
        counts = in_numbers(self.calls, len(self.compilations))
        return f"<graphc.Stats: {counts} in {seconds:.1f} s>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [in_numbers(self.calls, len(self.compilations))]
        if self.numpy_calls:
            lines[0] += f", {self.numpy_calls} calls ran on NumPy"
        for c in self.compilations:
            lines.append(f"  segment {c.segment}: {c.seconds:.3f} s, {c.reason}")
        lines += [f"  {change}" for change in self.changes]
        return "\n".join(lines)


@dataclass
class _Pending:
    segment: int
    sizes: dict[str, int]
    started: float
    ended: float | None = None  # when the next was started


class Announcements:
    """Compilations that an emitted program has begun, until a log takes each over.

    An object of this class knows nothing of the function whose call it is, since
    functions may share a program.
    """

    def __init__(self) -> None:
        self.pending: list[_Pending] = []
        self._done: set[str] = set()
        self.traces: Callable[[], bool] = lambda: True  # not under jax.disable_jit
        self.executables: Executables = Executables()
        # Gives the words for a segment and its sizes, from a function that is still
        # alive.
        self.teller: Callable[[], Callable[..., str] | None] = lambda: None
        self._line: ProgressLine | None = None

    def compiling(self, segment: int, **sizes: int) -> None:
        """Note that a segment is being traced for these sizes, unless it is by symbols.

        Nothing is compiled where another function is traced for sizes that are symbols.
        """
        if not (self.traces() and all(isinstance(n, Integral) for n in sizes.values())):
            return
        note_compilation(self, segment, sizes)
        now = time.perf_counter()
        if self.pending:
            self.pending[-1].ended = now
        self.executables.enter()
        self.end_progress()
        self.pending.append(_Pending(segment, sizes, now))
        shown = self.teller() or _short_description
        self._line = show_progress(lambda: f"compiling {shown(segment, sizes)}")

    def complete(self, segment: int, sizes: Mapping[str, int]) -> None:
        """Note that a segment is compiled for these sizes."""
        self._done.add(_short_description(segment, sizes))

    def completed(self) -> list[str]:
        """Return the segments that are compiled, each with its sizes, in order."""
        pending = {_short_description(one.segment, one.sizes) for one in self.pending}
        return sorted(self._done | pending)

    def end_progress(self) -> None:
        """End the progress line of the compilation at hand, however that has ended."""
        if self._line is not None:
            self._line.end()
        self._line = None


def _short_description(
    segment: int, sizes: Mapping[str, int], function: str = ""
) -> str:
    shown = ", ".join(f"{name} = {n}" for name, n in sizes.items())
    of_function = f" of {function}" * bool(function)
    return f"segment {segment}{of_function}" + (f" for {shown}" if shown else "")


class Log:
    """The compilations of a function, as its program announces them."""

    def __init__(
        self,
        prepared: PreparedProgram,
        names: Mapping[object, str],
        announced: Announcements,
        since: str,
        function: str,
    ) -> None:
        self._prepared, self._function = prepared, function
        self._since = since  # why the function goes on with this program
        self._names = names
        self._seen: dict[int, list[dict[str, int]]] = {}
        self._interrupted: dict[int, dict[str, int]] = {}  # sizes by segment
        self.announced = announced
        announced.teller = WeakMethod(self._description)  # the program outlives it
        self.done: list[Compilation] = []
        self._reported = 0

    @property
    def is_pending(self) -> bool:
        """Whether a compilation has begun that is not settled yet."""
        return bool(self.announced.pending)

    def settle(self, events: Iterable[Event] = ()) -> list[Compilation]:
        """End the call and its last compilation, and return the new compilations.

        `events` are the compilations of the call as JAX reports them: a segment that
        was traced before is compiled again for an argument that is placed elsewhere.
        """
        self._finish()
        self.announced.executables.leave()
        traced = Counter(c.segment for c in self.done[self._reported :])
        for event in events:
            match = SEGMENT.fullmatch(event.name)
            if match is None:
                continue
            segment = int(match[1])
            if not traced[segment]:
                self.done.append(self._untraced(segment, event.seconds))
            else:
                traced[segment] -= 1
        new = self.done[self._reported :]
        self._reported = len(self.done)
        return new

    def _untraced(self, segment: int, seconds: float) -> Compilation:
        """Record a compilation of a segment that JAX has traced in an earlier call."""
        sizes = self._interrupted.pop(segment, None)
        if sizes is None:
            reason = "another placement of an argument"
            return Compilation(segment, seconds, reason, {})
        return self._compilation(segment, seconds, sizes)

    def fail(self, running: Iterable[str]) -> None:
        """Note that the call failed in these functions.

        A segment among them does not count as compiled.
        """
        pending = self.announced.pending
        self.announced.executables.leave()
        if pending and f"segment_{pending[-1].segment}" in running:
            pending.pop()
        self._finish()

    def interrupt(self) -> None:
        """Note that the user has ended the call.

        A compilation at hand does not count, nor does its time.
        """
        pending = self.announced.pending
        self.announced.executables.leave()
        if pending and pending[-1].ended is None:
            last = pending.pop()
            self._interrupted[last.segment] = last.sizes
        self._finish()

    def _description(self, segment: int, sizes: Mapping[str, int]) -> str:
        """Describe a segment by its sizes and the first of the user's lines in it.

        A program that was found in a cache without its plan is not planned just for
        that.
        """
        if not self._prepared.planned:
            return _short_description(segment, sizes, self._function)
        place = self._prepared.plan.segments[segment].nodes[0].place
        named = {self._size_name(name): n for name, n in sizes.items()}
        return f"{_short_description(segment, named, self._function)} at {place}"

    def _finish(self) -> None:
        self.announced.end_progress()
        now, items = time.perf_counter(), self.announced.pending[:]
        del self.announced.pending[: len(items)]
        for item in items:
            self._interrupted.pop(item.segment, None)
            seconds = (item.ended or now) - item.started
            self.done.append(self._compilation(item.segment, seconds, item.sizes))
            if logger.isEnabledFor(logging.INFO):
                words = self._description(item.segment, item.sizes)
                logger.info("compiled %s in %.2f s", words, seconds)

    def _compilation(
        self, segment: int, seconds: float, sizes: dict[str, int]
    ) -> Compilation:
        """Record a compilation; a later one is explained by how its sizes differ."""
        reason = self._reason(segment, sizes)
        self._seen.setdefault(segment, []).append(sizes)
        self.announced.complete(segment, sizes)
        return Compilation(segment, seconds, reason, sizes)

    def reason_for(self, segment: int | None, sizes: dict[str, int]) -> str:
        """Return the reason for a compilation that is needed but not made."""
        if segment is None:
            return "an argument has another placement"
        if self._seen.get(segment):
            return self._reason(segment, sizes)
        new = ", ".join(f"{self._size_name(name)} = {n}" for name, n in sizes.items())
        asking = next((self._asking_line(segment, name) for name in sizes), "")
        start = f"segment {segment} is not compiled yet"
        return f"{start}: {new}{asking}" if new else start

    def _reason(self, segment: int, sizes: dict[str, int]) -> str:
        before = self._seen.get(segment)
        if not before:
            return f"first call since {self._since}" if self._since else "first call"
        last = before[-1]
        changed: dict[str, list[str]] = {}
        for name, n in sizes.items():
            if name in last and last[name] != n:
                text = f"{self._size_name(name)} changed from {last[name]} to {n}"
                changed.setdefault(self._asking_line(segment, name), []).append(text)
        if changed:
            return "; ".join(
                ", ".join(texts) + asking for asking, texts in changed.items()
            )
        return "another shape, placement or weak type of an argument"

    def _size_name(self, name: str) -> str:
        symbol = self._prepared.sizes.get(name)
        if symbol is None:
            return name
        return self._prepared.plan.names(self._names).get(symbol, symbol.name)

    def _asking_line(self, segment: int, name: str) -> str:
        """Say which line of the segment is the first to involve this size."""
        symbol = self._prepared.sizes.get(name)
        if symbol is None:
            return ""
        node = first_node_with_size(self._prepared.plan.segments[segment], symbol)
        return f", asked for by {node.reported} at {node.place}"
