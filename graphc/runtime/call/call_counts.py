"""How many calls of each size a program has served, and so each of its compilations.

For calls that are looked up by their shapes, the result of the look-up counts them, as
`Route` does, so that counting takes no line of Python of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from graphc.runtime.call.dispatch import Route, Run
from graphc.runtime.driver.log import Compilation

_Key = frozenset[tuple[str, int]]


def _do_nothing() -> None:
    """The function of a route that only counts."""


class ServedCalls:
    """The calls of one program so far, by the sizes of their arguments."""

    def __init__(self) -> None:
        self._counts = Counter[_Key]()
        self._routes: list[tuple[_Key, Route]] = []
        self._counters: dict[_Key, Route] = {}

    def add(self, sizes: Mapping[str, int], calls: int = 1) -> None:
        """Count `calls` of these sizes; a negative number takes back failed calls."""
        self._counts[frozenset(sizes.items())] += calls

    def route(self, sizes: Mapping[str, int], run: Run) -> Route:
        """Make a route to `run` that counts calls of these sizes."""
        route = Route(run)
        self._routes.append((frozenset(sizes.items()), route))
        return route

    def counter(self, sizes: Mapping[str, int]) -> Route:
        """Return the route that counts calls of these sizes, whatever runs them."""
        key = frozenset(sizes.items())
        if key not in self._counters:
            self._counters[key] = Route(_do_nothing)
        return self._counters[key]

    def close(self) -> None:
        """Let go of the routes to runs, which nobody calls by now; keep the counts."""
        for key, route in self._routes:
            self._counts[key] += route.calls
        self._routes.clear()

    def counts(self) -> Counter[_Key]:
        """Return the number of calls, by sizes."""
        counts = Counter(self._counts)
        for key, route in (*self._routes, *self._counters.items()):
            counts[key] += route.calls
        return counts

    def by_compilation(
        self, done: Sequence[Compilation], names: Mapping[str, str]
    ) -> list[int | None]:
        """Return how many calls each compilation has served; None if sizes do not tell.

        `names` maps the names of sizes in the text to the names of arguments' sizes. A
        size that is read from data is not among them: where two compilations differ in
        nothing else, calls do not tell which of them they had.
        """
        counts = self.counts()
        keys = [
            (one.segment, {(names[k], n) for k, n in one.sizes.items() if k in names})
            for one in done
        ]
        calls: list[int | None] = [0] * len(keys)
        for key, count in counts.items():
            by_segment: dict[int, list[int]] = {}
            known = {name for name, _ in key}
            for i, (segment, sizes) in enumerate(keys):
                if {(name, n) for name, n in sizes if name in known} <= key:
                    by_segment.setdefault(segment, []).append(i)
            for fitting in by_segment.values():
                for i in fitting:
                    earlier = calls[i]
                    calls[i] = None
                    if earlier is not None and len(fitting) == 1:
                        calls[i] = earlier + count
        return calls
