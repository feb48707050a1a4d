"""`tier="auto"`: new sizes run on NumPy, and are compiled for when that pays.

When a size first comes, nobody knows whether it will come once or a thousand times,
just as for skis, which can be rented or bought. Renting until the rents make up the
price costs at most about twice what a prophet would pay. Rents are the seconds that
calls of one key took on NumPy, less what they would have taken compiled; the price is a
compilation. A key is what the JAX program is compiled for: the sizes of axes
(capacities where they are padded), the numbers of static inputs, and the kinds of the
other scalars. Sizes that depend on data are in no key: where the JAX program is
compiled for each, a key that was switched to JAX goes on compiling for them.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.backends.program import Outputs, Source
from graphc.errors import graph_error
from graphc.ir.graph.bodies import has_bodies, with_inner_nodes
from graphc.ir.graph.nodes import Graph
from graphc.ir.graph.op import EMISSION
from graphc.ir.graph.walk import ancestors
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.call.arguments import ArgumentValues, Signature
from graphc.runtime.call.key_parts import parts_of
from graphc.runtime.driver.failure import Program
from graphc.runtime.driver.log import Announcements
from graphc.runtime.driver.stance import forbidding_limit
from graphc.transform.planning.plan import Plan

PRIOR = 0.3  # assumed seconds of a compilation while none was seen
LEAST = 0.5  # share of NumPy's time that counts as lost, however slow JAX was
TRIAL = 5  # calls of a compiled key before it is decided which tier is faster
SLOWER = 1.25  # factor to NumPy's time that sends a key back; less may be chance

SizesKey = tuple[Any, ...]


@dataclass
class Visits:
    """The calls of one key: how many, and how long they took."""

    calls: int = 0  # on NumPy
    seconds: float = 0.0  # on NumPy, in total
    numpy: float = float("inf")  # the fastest call
    jax: float = float("inf")  # the fastest call that compiled nothing
    trials: int = 0  # on JAX, with nothing compiled
    compiled: bool = False
    settled: bool = False


class Costs:
    """The choice of a tier for each call of a key, by the seconds seen so far."""

    def __init__(self) -> None:
        self.visits: dict[SizesKey, Visits] = {}
        self._prices: list[float] = []
        self.price: float = PRIOR  # of a compilation: the median of those seen
        self._ratios: list[float] = []
        self._lost = 1.0  # the share of NumPy's time that JAX would have saved

    def pays(self, key: SizesKey) -> bool:
        """Whether the next call of the key should run compiled."""
        visits = self.visits.get(key)
        if visits is None:
            return False
        due = not visits.settled and visits.seconds * self._lost > self.price
        return visits.compiled or due

    def is_compiled(self, key: SizesKey) -> bool:
        """Whether calls of the key run compiled."""
        visits = self.visits.get(key)
        return visits is not None and visits.compiled

    def on_numpy(self, key: SizesKey, seconds: float) -> None:
        """Record a call that ran on NumPy."""
        visits = self.visits.setdefault(key, Visits())
        visits.calls += 1
        visits.seconds += seconds
        visits.numpy = min(visits.numpy, seconds)

    def on_jax(self, key: SizesKey, seconds: float, compiled: bool) -> None:
        """Record a call that ran on JAX, and whether something was compiled for it.

        After `TRIAL` calls, a key goes back to NumPy if even the fastest was slower
        than there.
        """
        visits = self.visits[key]
        visits.compiled = True
        if compiled:
            self._prices.append(seconds)
            self.price = statistics.median(self._prices)
            return
        visits.jax = min(visits.jax, seconds)
        visits.trials += 1
        if visits.trials == TRIAL:
            visits.settled = True
            visits.compiled = visits.jax <= SLOWER * visits.numpy
            self._ratios.append(visits.jax / max(visits.numpy, 1e-9))
            self._lost = max(1 - statistics.median(self._ratios), LEAST)

    def forget(self) -> None:
        """Forget the keys, whose meaning changes, but not what compiling costs."""
        self.visits.clear()


class Tiers:
    """Two programs of one graph, and the choice between them for each call.

    The results are new NumPy arrays, whichever program ran. A call that JAX traces runs
    on the JAX program, and its results are what JAX makes of them.
    """

    def __init__(
        self,
        plan: Plan,
        source: Source,
        outputs: Outputs,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        name = "<graphc numpy program>"
        self.program: Program = Program(source.text, name, source.foreigns)
        module = self.program.load()
        graph = plan.called
        self._numpy: Callable[..., Any] = module.program
        self._signature = Signature(
            graph.inputs,
            graph.input_names,
            {},
            "numpy",
            module.check_inputs,
            plan.casting,
        )
        self._outputs = outputs
        self._tell = tell
        self.clock = clock
        self.costs: Costs = Costs()
        self.calls: int = 0  # on NumPy

    def around(
        self,
        prepared: PreparedProgram,
        jax: Callable[..., object],
        announced: Announcements,
    ) -> Callable[..., object]:
        """Return a function that chooses between NumPy and the prepared program, `jax`.

        `announced` are the compilations of `jax`. Where nothing may be compiled, a key
        that is not compiled stays on NumPy.
        """
        pending = announced.pending
        parts = parts_of(prepared)
        self.costs.forget()

        def run(*args: object) -> object:
            if any(map(_is_traced, args)):
                return jax(*args)
            key = tuple([part(args) for _, part in parts])
            pays = self.costs.pays(key)
            if not pays or (
                not self.costs.is_compiled(key) and forbidding_limit(announced)
            ):
                return self._on_numpy(key, args)
            start = self.clock()
            result = owned_arrays(jax(*args), self._outputs)
            seconds = self.clock() - start
            self._note([name for name, _ in parts], key, seconds, bool(pending))
            return result

        return run

    def _on_numpy(self, key: SizesKey, args: ArgumentValues) -> object:
        if not self._signature.plain.issuperset(map(type, args)):
            args = self._signature.admit(args)
        start = self.clock()
        result = owned_arrays(self._numpy(*args), self._outputs, np.asarray)
        self.costs.on_numpy(key, self.clock() - start)
        self.calls += 1
        return result

    def _note(
        self, names: list[str], key: SizesKey, seconds: float, compiled: bool
    ) -> None:
        """Record a call on JAX, and report where a key changes its tier."""
        visits = self.costs.visits[key]
        before = visits.compiled
        self.costs.on_jax(key, seconds, compiled)
        if visits.compiled == before:
            return
        sizes = [f"{n} = {k}" for n, k in zip(names, key, strict=True) if n]
        what = ", ".join(sizes) or "all arguments"
        if visits.compiled:
            lost = f"{visits.calls} calls took {visits.seconds:.2g} s on NumPy"
            self._tell(f"{what}: {lost}, compiled from now on")
        else:
            times = f"{visits.numpy:.2g} s instead of {visits.jax:.2g} s"
            self._tell(f"{what}: back on NumPy, which takes {times}")

    def explain(self) -> str:
        """Describe the tiers in words, as the end of a report."""
        keys = self.costs.visits.values()
        compiled = sum(v.compiled for v in keys)
        return (
            '\n\ntier "auto": a size runs on NumPy until that has cost as much as a '
            f"compilation, {self.costs.price:.2g} s\n"
            f"  {compiled} of {len(keys)} keys are compiled, "
            f"{self.calls} calls ran on NumPy"
        )


def owned_arrays(
    result: Any, outputs: Outputs, array: Callable[..., object] = np.array
) -> object:
    """Return the outputs as NumPy arrays of one layout; JAX sorts the keys of dicts.

    They are copied, unless `array` is `np.asarray`, which is for arrays that nobody
    else has.
    """
    if outputs.kind == "single":
        return array(result, order="C")
    items = [result[k] for k in outputs.keys] if outputs.kind == "dict" else result
    pairs = zip(items, outputs.parts, strict=True)
    parts = [owned_arrays(r, o, array) for r, o in pairs]
    if outputs.kind == "dict":
        return dict(zip(outputs.keys, parts, strict=True))
    return parts if outputs.kind == "list" else tuple(parts)


def _is_traced(argument: object) -> bool:
    return type(argument).__name__.endswith("Tracer")


def require_both(graph: Graph) -> None:
    """Raise GraphError where results would depend on the tier, or one is missing."""
    for node in with_inner_nodes(ancestors(graph.outputs)):
        primitive = node.primitive
        refused = EMISSION["numpy"].reason(primitive)
        if refused:
            reason = f"NumPy cannot run it: {refused}"
        elif not primitive.on_host and not has_bodies(node):
            reason = "its numbers on NumPy may differ from those on JAX"
        else:
            continue
        raise graph_error(
            f'tier="auto" is impossible: {reason}',
            op=primitive.name,
            hint='use tier="jax"',
            where=node.place,
        )
