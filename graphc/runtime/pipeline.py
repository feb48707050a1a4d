"""From a graph as it is written to its first program, stage by stage.

No stage runs before something asks for it: where the program is found in the cache,
there is no rewriting, planning or printing until a size changes or a user looks at the
plan.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from graphc.analysis.cost import DeviceCosts
from graphc.analysis.spread import as_spread
from graphc.backends.jax import emit_jax
from graphc.backends.linear import emit_numpy, emit_unjitted
from graphc.backends.program import Outputs, Source
from graphc.control.trip_count import STEPS
from graphc.errors import graph_error, standing_at, user_place
from graphc.ir.config import Casting, config
from graphc.ir.graph.bodies import runs_in_python
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.sizes.dims import Symbol
from graphc.ir.sizes.names import SHOWN, naming_sizes
from graphc.ir.sizes.proofs import remembering_bounds
from graphc.ops.common.conditions import Checking
from graphc.rewriting.engine.fixpoint import (
    Application,
    Rewritten,
    apply_last_rules,
    apply_late_rules,
    rewritten,
)
from graphc.rewriting.engine.rule import Rules
from graphc.rewriting.rules.cleanup import CLEANUP
from graphc.rewriting.rules.masks import integers_as_traced
from graphc.runtime.cache import program_cache
from graphc.runtime.cache.graph_key import key_of
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.call.arguments import Backend
from graphc.runtime.driver.devices import Target
from graphc.runtime.variants.adapt import Adapter, Compile, LeftToCalls
from graphc.runtime.variants.advice import Advisor, Overseer
from graphc.runtime.variants.rehearsal import forecast_calls
from graphc.runtime.variants.tiering import require_both
from graphc.runtime.variants.watching import Watcher, Watching
from graphc.transform.loops.doubling import with_doubling_loops
from graphc.transform.loops.pipelined_writes import with_writes_in_place
from graphc.transform.padding.pad import padded
from graphc.transform.padding.padded_graph import PaddedGraph
from graphc.transform.padding.sharing import share_capacities, share_inner_sizes
from graphc.transform.planning.budget import (
    Budget,
    Spending,
    check_dims,
    spend_budget,
)
from graphc.transform.planning.forecast import Forecast, SizesGiven
from graphc.transform.planning.foreseen_messages import refuse_gathers
from graphc.transform.planning.grouping import UNDIVIDED, CostModel
from graphc.transform.planning.guesses import with_guesses
from graphc.transform.planning.partition import partition
from graphc.transform.planning.plan import Check, Plan, names_in, needs_device
from graphc.transform.planning.true_sizes import (
    line_of_report,
    price_of_sizes,
    sizes_kept_true,
)
from graphc.transform.policies import (
    Pad,
    Policy,
    auto_sizes,
    is_auto,
    names_after,
    names_of,
    policies_of,
)
from graphc.transform.sharding.by_hand import check_choices
from graphc.transform.sharding.layout import check_shards, spread_capacities

Jit = Literal["auto", "fewest", True, False]
Tier = Literal["auto", "jax", "numpy"]
Policies = dict[Symbol, Policy]

config.check_dims_by(check_dims)
Emitter = Callable[..., Source]  # it prints a plan
_PlanAndLog = tuple[Plan, tuple[Application, ...]]  # the rules applied to it
_EMIT: dict[tuple[str, bool], Emitter] = {
    ("numpy", False): emit_numpy,
    ("jax", True): emit_jax,
    ("jax", False): emit_unjitted,
}


@dataclass(frozen=True)
class CompileOptions:
    """The options by which `function` compiles; see there."""

    backend: Backend
    jit: Jit
    rewrites: Rules
    dims: Any
    tier: Tier | None
    casting: Casting
    check: Checking
    target: Target
    donated: frozenset[int] = frozenset()  # positions of inputs
    name: str = ""  # the function's name in logs
    decided: Mapping[str, Policy] = field(default_factory=dict)  # by the names of sizes

    @property
    def costs(self) -> DeviceCosts:
        """The costs by which rewrites are chosen."""
        return self.target.costs


@dataclass(frozen=True)
class _Start:
    """The policies to start with, the watcher of sizes, and what a budget allows."""

    policies: Policies
    watcher: Watcher
    summary: str = ""


class _FirstProgram(NamedTuple):
    """A plan, its program, and the log of the rules."""

    plan: Plan
    source: Source
    log: tuple[Application, ...]


class Pipeline:
    """The stages of one graph, each of which is done once."""

    def __init__(self, written: Graph, outputs: Outputs, how: CompileOptions) -> None:
        self.written = written
        self.outputs = outputs
        self.how = how
        self.names: dict[object, str] = names_of(written)
        self.dims: object = config.dims if how.dims is None else how.dims
        jits = how.backend == "jax" and how.jit is not False
        self.emit: Emitter = _EMIT[how.backend, jits]
        auto = self.dims.values() if isinstance(self.dims, Mapping) else [self.dims]
        adapts = any(map(is_auto, auto))
        # Whether it adapts to the sizes that it sees.
        self.adapts: bool = adapts and self.emit is emit_jax
        fewest = how.jit in ("fewest", True)
        model = UNDIVIDED if fewest else CostModel()
        self._model = replace(model, base=how.costs.segment, adapts=self.adapts)
        self._place = user_place()  # the user's line, whenever stages run
        self._simplified: Rewritten | None = None
        self._start: _Start | None = None
        self._first: _FirstProgram | None = None

    @property
    def simplified(self) -> Rewritten:
        """The graph after the rules that need no capacities."""
        if self._simplified is None:
            with remembering_bounds(), standing_at(self._place):
                early = self.how.rewrites.early
                self._simplified = rewritten(self.written, early)
            self.names = names_after(self.written, self._simplified.graph)
        return self._simplified

    @property
    def start(self) -> _Start:
        """The policies and the watcher to start with, before any size is seen."""
        if self._start is None:
            with standing_at(self._place):
                self._start = self._choose_start()
        return self._start

    def _choose_start(self) -> _Start:
        graph, names = self.simplified.graph, self.names
        if isinstance(self.dims, Budget) and self.emit is not emit_unjitted:
            spent = self._spend_budget(self.dims)
            overseer = Overseer(self.dims, spent, names, self._spend_budget)
            return _Start(spent.policies, overseer, spent.summary(self.dims))
        policies = self._policies()
        if self.adapts:
            policies = {**self._decided_policies(), **policies}
            adapter = self._adapter(policies, self._plan_and_print)
            return _Start(policies, adapter)
        policies |= self._decided_capacities(policies)
        if self.dims == "pad":
            policies = share_capacities(policies, graph, self.how.costs)
        return _Start(policies, Advisor(graph, names, self.planned))

    def _spend_budget(self, budget: Budget) -> Spending:
        """Choose the policies that keep to a budget."""
        graph = self.simplified.graph
        with naming_sizes(self.names):
            return spend_budget(graph, self.written, budget, self.planned)

    def _adapter(self, policies: Policies, compile: Compile) -> Adapter:
        sizes = self._sizes_left_to_calls()
        start = LeftToCalls(self.simplified.graph, sizes, policies)
        return Adapter(start, self._padded, compile, self.names, self.how.costs)

    def _sizes_left_to_calls(self) -> Sequence[Symbol]:
        dims = self.dims if isinstance(self.dims, (Mapping, str)) else "auto"
        return auto_sizes(self.simplified.graph, dims, self.written)

    def _decided_policies(self) -> Policies:
        """Return the policies that other processes came to for sizes left to calls.

        Raises GraphError for sizes that the program does not have.
        """
        decided = self.how.decided
        if not decided:  # the usual case: no size need be looked up
            return {}
        policies = policies_of(self.simplified.graph, decided, self.written)
        sizes = self._sizes_left_to_calls()
        return {s: policies[s] for s in sizes if s in policies}

    def _decided_capacities(self, policies: Policies) -> Policies:
        """Return the capacities that other programs came to, for padded sizes.

        There are none unless all sizes are padded.
        """
        if self.dims != "pad" or not self.how.decided or not policies:
            return {}
        decided = policies_of(self.simplified.graph, self.how.decided, self.written)
        return {
            s: decided[s]
            for s, policy in policies.items()
            if isinstance(policy, Pad) and isinstance(decided.get(s), Pad)
        }

    def _policies(self) -> Policies:
        """Return the policies that are given; none for a program without jit.

        Its caller compiles such a program, for sizes as they are.
        """
        dims = self.dims
        if is_auto(dims):
            return {}
        if isinstance(dims, Budget):
            dims = "pad"
        policies = policies_of(self.simplified.graph, dims, self.written)
        if policies and self.emit is emit_unjitted:
            if self.how.dims is None:
                return {}
            raise graph_error(
                "sizes cannot be padded without jit",
                op="function",
                got="jit=False",
                hint='leave `dims` out, or compile with jit="auto"',
            )
        return policies

    def watching(self) -> Watching:
        """Return the watcher of calls' sizes, which is made when a size changes."""
        return Watching(lambda: self.start.watcher)

    def _padded(self, policies: Policies) -> PaddedGraph:
        """Return the graph at capacities, under these policies."""
        graph = self.simplified.graph
        with naming_sizes(self.names), remembering_bounds():
            check_shards(graph, policies)
            return share_inner_sizes(padded(graph, policies), self.how.costs)

    def _plan_and_print(self, pad: PaddedGraph) -> tuple[Plan, Source]:
        """Return the plan of a padded graph, and its program."""
        return self._print_plan(self._plan_padded(pad)[0])

    def _print_plan(self, plan: Plan) -> tuple[Plan, Source]:
        with naming_sizes(self.names), remembering_bounds():
            if self.how.jit is True and self.how.backend == "jax":
                _require_one_segment(plan)
            return plan, self.emit(plan, self.outputs)

    def planned(self, policies: Policies) -> Plan:
        """Return the plan under these policies."""
        return self._plan_by_policies(policies)[0]

    def _plan_by_policies(self, policies: Policies) -> _PlanAndLog:
        is_padded = policies or self.how.target.mesh is not None
        return self._plan_padded(self._padded(policies) if is_padded else None)

    def _plan_padded(self, pad: PaddedGraph | None) -> _PlanAndLog:
        graph = self.simplified.graph
        with naming_sizes(self.names), remembering_bounds():
            plan, log = _plan_graph(graph, pad, self._model, self.emit, self.how)
            if self.emit is emit_jax and self.how.jit == "auto":
                # A budget counts the capacities of a loop's rows on its own.
                plan = with_guesses(plan, loops=not isinstance(self.dims, Budget))
        how = self.how
        return replace(plan, casting=how.casting, donated=how.donated), log

    @property
    def first(self) -> _FirstProgram:
        """The program to start with."""
        if self._first is None:
            with standing_at(self._place):
                self._first = self._make_first()
        return self._first

    def _make_first(self) -> _FirstProgram:
        start = self.start
        plan, late, report_line = self._best_plan(start.policies)
        plan, source = self._print_plan(plan)
        rehearse = partial(self._forecast, plan) if self.adapts else None
        plan = replace(plan, budget=start.summary or report_line, rehearse=rehearse)
        return _FirstProgram(plan, source, (*self.simplified.log, *late))

    def _best_plan(
        self, policies: Policies
    ) -> tuple[Plan, tuple[Application, ...], str]:
        """Return the plan under policies, the log of late rules, and a line of report.

        A single policy for all sizes leaves out those that cost more padded than not;
        the line, empty if there are none, says which.
        """
        plan, late = self._plan_by_policies(policies)
        is_decided = self.adapts and self.how.decided
        several = is_decided or isinstance(self.dims, (Mapping, Budget))
        one = self.emit is emit_jax and not several
        kept_sizes = sizes_kept_true(plan) if one else frozenset()
        if kept_sizes:
            fewer = {s: p for s, p in policies.items() if s not in kept_sizes}
            other, log = self._plan_by_policies(fewer)
            prices = [price_of_sizes(p, kept_sizes, self._model) for p in (other, plan)]
            if prices[0] < prices[1]:
                return other, log, line_of_report(plan, kept_sizes)
        return plan, late, ""

    @property
    def log(self) -> tuple[Application, ...]:
        """The rules that were applied, and where."""
        return self.first.log

    def prepared(self) -> PreparedProgram:
        """Return the program to start with, from the cache if it is there."""
        key = self._key()
        directory = config.cache_dir if key else None
        facts = None if directory is None else program_cache.read(directory, key)
        if facts is not None:
            return PreparedProgram(facts, self.written.inputs, self._plan_and_source)
        prepared = PreparedProgram.of(*self._plan_and_source())
        if directory is not None and not prepared.foreigns:  # which have no text
            program_cache.write(directory, key, prepared.facts)
        return prepared

    def _plan_and_source(self) -> tuple[Plan, Source]:
        return self.first.plan, self.first.source

    def _key(self) -> str:
        how = self.how
        if config.cache_dir is None or how.tier == "auto":  # two tiers need the plan
            return ""
        jax = sys.modules.get("jax") if how.backend == "jax" else None
        others = how.backend, how.jit, how.check, how.casting, how.target.mesh
        program = self.written, self.dims, how.rewrites, how.costs, jax
        given_away = sorted(how.donated)
        key = key_of(*program, *others, self.outputs, how.dims is None, given_away)
        decided = repr(sorted(how.decided.items()))
        return f"{key}-{sha256(decided.encode()).hexdigest()}" if how.decided else key

    def _forecast(self, plan: Plan, sizes: Mapping[str, SizesGiven]) -> Forecast:
        """Forecast the calls of a function that adapts, by plans alone."""

        def compile(pad: PaddedGraph) -> tuple[Plan, Source]:
            return self._plan_padded(pad)[0], Source("", {}, {})

        policies = self.start.policies
        adapter = self._adapter(policies, compile)
        return forecast_calls(adapter, plan, self.how.tier != "auto", sizes)

    def unjitted(self) -> Plan:
        """Return the plan at true sizes, without tests that rules put in.

        As few integers as possible must be static in it.
        """
        first = self.first.plan
        checked = _tests_of_rules(first, self.log) or _has_driven_loops(first)
        plain = not self.start.policies and not checked and first.mesh is None
        if plain and not first.static_inputs:
            return first
        rules = self.how.rewrites.unchecked
        with integers_as_traced():
            plan = partition(rewritten(self.written, rules).graph)
        if plain and len(plan.static_inputs) >= len(first.static_inputs):
            return first
        return replace(plan, casting=self.how.casting)

    def on_numpy(self) -> tuple[Plan, Source] | None:
        """Return the NumPy program for new sizes, at true ones; None with one tier."""
        if self.how.tier != "auto":
            return None
        graph = self.simplified.graph
        require_both(graph)
        graph = with_doubling_loops(apply_late_rules(graph, self.how.rewrites).graph)[0]
        plan = partition(apply_last_rules(graph, self.how.rewrites).graph)
        plan = replace(plan, casting=self.how.casting)
        return plan, emit_numpy(plan, self.outputs)


def _plan_graph(
    graph: Graph,
    pad: PaddedGraph | None,
    model: CostModel,
    emit: Emitter,
    how: CompileOptions,
) -> _PlanAndLog:
    """Plan a graph, or the padded one if given; also return the log of late rules."""
    mesh = how.target.mesh
    if pad is not None:
        graph = rewritten(pad.graph, CLEANUP).graph
    elif emit is not emit_numpy:
        graph = _with_compiled_loops(graph)
    with as_spread(spread_capacities(pad.capacities, pad.policies) if pad else ()):
        late = apply_late_rules(graph, how.rewrites)
    graph = late.graph
    # Without jit, the program has no driver.
    joined = how.costs.launches and emit is emit_jax
    graph, grown_symbols = (
        (graph, {}) if emit is emit_unjitted else with_doubling_loops(graph, joined)
    )
    graph, more = (graph, {}) if emit is emit_numpy else with_writes_in_place(graph)
    last = apply_last_rules(graph, how.rewrites)
    graph = last.graph
    if pad is not None:
        pad = pad.tidied(graph)
        graph = pad.graph
    originals = _originals(grown_symbols, more)
    with naming_sizes(names_in(graph, originals, pad, SHOWN.names)):
        plan = partition(graph, model, padded=pad)
    plan = replace(plan, originals=originals, mesh=mesh)
    if plan.layout is not None:
        check_choices(plan.graph.nodes, plan.layout.mesh, plan.layout.devices)
        refuse_gathers(plan)
    return plan, (*late.log, *last.log)


def _with_compiled_loops(graph: Graph) -> Graph:
    """Keep loop values whose sizes differ from step to step at their bounds.

    Otherwise Python would run these loops, and each of the sizes would be compiled for.
    """
    if not graph.may_have_bodies or not any(map(runs_in_python, graph.nodes)):
        return graph
    return rewritten(padded(graph, {}).graph, CLEANUP).graph


def _originals(*changes: dict[Value, Value]) -> dict[Symbol, Symbol]:
    """Map the symbols of a changed graph to the original ones.

    Where a symbol replaces both a loop's output and the size that its steps are used
    as, the latter is the original.
    """
    originals: dict[Symbol, Symbol] = {}
    for change in changes:
        before = dict(originals)
        for old, new in change.items():
            if old._symbol is None or new._symbol is None:
                continue
            if new._symbol not in originals or old.node.primitive is STEPS:
                originals[new._symbol] = before.get(old._symbol, old._symbol)
    return originals


def _tests_of_rules(plan: Plan, log: tuple[Application, ...]) -> bool:
    """Whether rules may have put in tests, which an un-jitted program cannot make."""
    tests = any(isinstance(step, Check) for step in plan.glue)
    return tests and any(a.rule.checks for a in log)


def _has_driven_loops(plan: Plan) -> bool:
    return any(segment.rows is not None for segment in plan.segments)


def _require_one_segment(plan: Plan) -> None:
    """Raise GraphError, for jit=True, with the first reason to split the plan."""
    for step in plan.glue:
        if needs_device(step):
            raise graph_error(
                f"jit=True is impossible: {step.reason}",
                op="function",
                hint=f'{step.remedy}, or use jit="auto"',
                where=step.place,
                entry="one-program",
            )
