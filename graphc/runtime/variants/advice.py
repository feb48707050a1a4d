"""Warnings about compilations, each with a remedy that was tried on a plan first."""

import warnings
from collections.abc import Callable, Mapping, Sequence

from graphc.errors import GraphError, user_level
from graphc.ir.graph.nodes import Graph
from graphc.ir.sizes.dims import Symbol
from graphc.runtime.driver.log import Compilation
from graphc.runtime.variants.adapt import Change
from graphc.runtime.variants.seen_sizes import SeenSizes
from graphc.transform.planning.budget import Budget, PlanOf, Spending
from graphc.transform.planning.plan import Plan
from graphc.transform.policies import Pad, symbols_of
from graphc.warning_kinds import RecompilationWarning

TOO_MANY = 8  # sizes that are worth a warning where programs are specialized for good


class Advisor:
    """Warns where a specializing function is compiled for ever new sizes."""

    def __init__(
        self, graph: Graph, names: Mapping[object, str], plan_of: PlanOf
    ) -> None:
        self._names = names
        self._plan_of = plan_of
        self._seen = SeenSizes(symbols_of(graph))
        self._warned: set[Symbol] = set()
        self._done: list[Compilation] = []

    def notice(
        self,
        new: Sequence[Compilation],
        sizes: dict[str, Symbol],
        calls: int,
        plan: Plan,
    ) -> Change | None:
        """Warn once per dim; the program stays as it is."""
        done = self._done
        done += new
        self._seen.add(new, sizes)
        for symbol, sizes_seen in self._seen.sizes.items():
            if len(sizes_seen) >= TOO_MANY and symbol not in self._warned:
                self._warned.add(symbol)
                lost = sum(c.seconds for c in done)
                name = self._names.get(symbol, symbol.name)
                warnings.warn(
                    f"{name} took {len(sizes_seen)} sizes, the last "
                    f"{self._seen.last[symbol]}: {len(done)} compilations, {lost:.1f} s"
                    f"\n  hint: {self._remedy(symbol, name)}",
                    RecompilationWarning,
                    stacklevel=user_level(),
                )
        return None

    def _remedy(self, symbol: Symbol, name: str) -> str:
        """Return the remedy, if a plan that uses it shows that it is one."""
        try:
            plan = self._plan_of({symbol: Pad()})
        except GraphError as error:
            return f"no capacities help: {error.args[0].splitlines()[0]}"
        if plan.padded is not None and plan.padded.cuts:
            cut = plan.padded.cuts[0]
            return (
                f"padding does not help: {cut.node.reported} at {cut.place} needs the "
                f"true size, as {cut.reason}"
            )
        return f"dims={{{name!r}: graphc.Pad()}} compiles for capacities only"


class Overseer:
    """Warns once where a budget of compilations is exceeded."""

    def __init__(
        self,
        budget: Budget,
        spent: Spending,
        names: Mapping[object, str],
        spend: Callable[[Budget], Spending],
    ) -> None:
        self._budget, self._spent = budget, spent
        self._names = names
        self._spend = spend
        self._count = 0
        self._warned = False

    def notice(
        self,
        new: Sequence[Compilation],
        sizes: dict[str, Symbol],
        calls: int,
        plan: Plan,
    ) -> Change | None:
        """Warn once; the program stays as it is."""
        self._count += len(new)
        if self._count > self._budget.compilations and not self._warned and new:
            self._warned = True
            warnings.warn(
                f"{self._count} compilations, over the budget of "
                f"{self._budget.compilations}\n  the last: {new[-1].reason}"
                f"\n  hint: {self._remedy(new[-1])}",
                RecompilationWarning,
                stacklevel=user_level(),
            )
        return None

    def _remedy(self, last: Compilation) -> str:
        """Return a budget that covers the sizes seen, which is planned for first."""
        largest = max(last.sizes.values(), default=0)
        if largest <= max(self._spent.largest.values(), default=0):
            return (
                f"graphc.Budget(compilations={2 * self._budget.compilations}): this "
                "came from another dtype or placement of an argument, not of a size"
            )
        wider = Budget(
            self._budget.compilations, self._budget.smallest, max(largest, 16)
        )
        spending = self._spend(wider)
        return (
            f"dims=graphc.Budget(compilations={wider.compilations}, "
            f"largest={wider.largest}) takes at most {spending.compilations}, at "
            f"{spending.waste:.2f} times the work of true sizes"
        )
