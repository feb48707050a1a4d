"""`graphc.function`: from inputs and outputs to a compiled program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from graphc.backends.jax import emit_jax
from graphc.backends.linear import emit_numpy, emit_unjitted
from graphc.backends.program import Outputs, Source
from graphc.control.loop_cse import merged
from graphc.errors import graph_error, shortened
from graphc.ir.build import Casting, check_casting, config
from graphc.ir.dims import Symbol
from graphc.ir.dims_names import SHOWN, naming
from graphc.ir.graph import Graph, Value
from graphc.ir.inner import runs_in_python
from graphc.ir.proofs import remembering
from graphc.ir.walk import ancestors
from graphc.rewriting.cleanup import CLEANUP
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.engine import Application, finished, rewritten, settled
from graphc.rewriting.rule import Rule, Rules
from graphc.runtime.adapt import Adapter
from graphc.runtime.advice import Advisor, Overseer
from graphc.runtime.arguments import Backend
from graphc.runtime.devices import Target, target_of
from graphc.runtime.examine import Unused, examine
from graphc.runtime.function import Function, Watcher
from graphc.runtime.rehearsal import rehearsed
from graphc.runtime.stretching import Family, Stretching
from graphc.runtime.tiering import require_both
from graphc.transform.budget import Budget, PlanOf, Spending, spending
from graphc.transform.forecast import Forecast, SizesGiven
from graphc.transform.grouping import CostModel
from graphc.transform.loops.bounds_checks import watched
from graphc.transform.loops.doubling import grown
from graphc.transform.loops.pipelined_writes import in_place
from graphc.transform.padding import padded
from graphc.transform.partition import partition
from graphc.transform.plan import Check, Plan, Rehearsal, needs_device, own_names
from graphc.transform.policies import Policy, names_of, policies_of
from graphc.transform.stretching import Resolved, axes_maybe_one, dims_of

Jit = Literal["auto", True, False]
Tier = Literal["auto", "jax", "numpy"]
UNDIVIDED = 1e12  # the cost of a segment of its own, where there shall be one


def function(
    inputs: Sequence[Any] | Mapping[str, Any],
    outputs: Any = None,
    *,
    backend: Backend = "jax",
    jit: Jit = "auto",
    check: bool = False,
    rewrites: Rules = DEFAULT,
    dims: Any = None,
    tier: Tier | None = None,
    unused: Unused = "warn",
    casting: Casting | None = None,
    device: Any = None,
) -> Function:
    """Compile the graph between `inputs` and `outputs`.

    `inputs`: a list of variables or `Input`s, or a dict that names them anew.
    `outputs`: a value, a list, a tuple or a dict of values; calls return the same
    structure. `jit="auto"` compiles what can be compiled, in as few segments as the
    sizes allow; True insists on one segment; False leaves jit to the caller.
    `check=True` raises on indices out of bounds; `rewrites` simplify the graph first.

    `dims` says what to do about sizes that vary: a policy for all sizes that can take
    it, or a dict from sizes (their names, or symbolic integers) to policies. A policy
    is `graphc.Specialize()`, one compilation per size; `graphc.Pad(...)`, arrays at
    capacities, masked by rule; `graphc.Bound()`, for a size that depends on data, its
    upper bound; or "specialize", "pad" or "bound". Results are those of true sizes.
    `graphc.Budget(...)` chooses capacities for all sizes, so that compilations stay
    within a number.
    "auto" specializes, until an axis has taken two sizes: from then on others are
    padded, where every op can be masked and no segment is added; `stats()` tells.
    `tier` is the backend, or "auto": NumPy for what is new, compiled once that pays;
    results are NumPy arrays. `unused` says what to do about inputs on which no output
    depends: "warn" with an `UnusedInputWarning`, "ignore" or "error".

    `casting` says which arguments of other dtypes are cast: "safe" those that lose
    nothing by NumPy's rules, "same_kind" float64 for float32 too, "exact" none. Lists
    are taken unless it is "exact". The default is `graphc.config.casting`, "safe".

    `device` says where a JAX program runs: a platform as "cpu" or "gpu", or a
    `jax.Device`; None is where JAX would run it. Arguments go there unless they are
    committed to another device. Rewrites are chosen by the costs of the device.

    Raises GraphError, with the op and the line, where this cannot be done.
    """
    _check_options(backend, jit, check, unused)
    backend = _backend(tier, backend, jit)
    rewrites = _rules(rewrites, backend == "jax" and jit is False)
    rewrites = rewrites.interpreted() if backend == "numpy" else rewrites
    target = target_of(device, backend)
    rule = config.casting if casting is None else check_casting(casting)
    graph, structure, defaults = examine(inputs, outputs, rule, unused)
    rewrites = rewrites.on(target.costs)
    options = _Options(backend, jit, rewrites, dims, tier, rule, check, target)
    graph = merged(graph)
    with remembering():
        if axes_maybe_one(graph):
            return _stretching(graph, structure, defaults, options)
        return _compiled(graph, structure, defaults, options)


@dataclass(frozen=True)
class _Options:
    """How `function` compiles; see there."""

    backend: Backend
    jit: Jit
    rewrites: Rules
    dims: Any
    tier: Tier | None
    casting: Casting
    check: bool
    target: Target


def _stretching(
    written: Graph, structure: Outputs, defaults: dict[int, Any], how: _Options
) -> Function:
    """A compiled function of a graph with axes that may be 1."""

    def compile(known: Resolved, make: Callable[..., Function] = Function) -> Function:
        options = replace(how, dims=dims_of(known, how.dims))
        return _compiled(known.graph, structure, defaults, options, make)

    family = Family(written, compile)
    return compile(family.graph, partial(Stretching, family))


def _compiled(
    written: Graph,
    structure: Outputs,
    defaults: dict[int, Any],
    how: _Options,
    make: Callable[..., Function] = Function,
) -> Function:
    """A compiled function of the graph as it is written."""
    written = watched(written) if how.check else written
    simplified = rewritten(written, how.rewrites.early())
    graph = simplified.graph
    model = CostModel(base=UNDIVIDED) if how.jit is True else CostModel()
    emit = _EMIT[how.backend, how.backend == "jax" and how.jit is not False]
    late: list[Application] = []
    names = names_of(written)

    def compile(policies: dict[Symbol, Policy]) -> tuple[Plan, Source]:
        with naming(names), remembering():
            plan, late[:] = _planned(graph, policies, model, emit, how.rewrites)
            plan = replace(plan, casting=how.casting)
            if how.jit is True and how.backend == "jax":
                _require_one_segment(plan)
            return plan, emit(plan, structure)

    def planned(policies: dict[Symbol, Policy]) -> Plan:
        with naming(names), remembering():
            return _planned(graph, policies, model, emit, how.rewrites)[0]

    policies, auto = _policies(graph, how.dims, emit, written)
    watcher: Watcher = (
        Adapter(graph, compile, names) if auto else Advisor(graph, names, planned)
    )
    told = ""
    budget = config.dims if how.dims is None else how.dims
    if isinstance(budget, Budget) and emit is not emit_unjitted:
        spend = partial(_spent, graph, names, planned)
        spent = spend(budget)
        policies, watcher = spent.policies, Overseer(budget, spent, names, spend)
        told = spent.told(budget)
    plan, source = compile(policies)
    rehearse = _rehearsal(graph, names, planned, plan, how) if auto else None
    plan = replace(plan, budget=told, rehearse=rehearse)
    log = *simplified.log, *late
    tested = policies or _tests_of_rules(plan, log) or _has_driven_loops(plan)
    return make(
        plan,
        source,
        how.backend,
        structure,
        defaults,
        log,
        partial(_without_tests, written, how) if tested else None,
        watcher,
        _on_numpy(graph, structure, how) if how.tier == "auto" else None,
        names,
        how.target,
    )


def _rehearsal(
    graph: Graph,
    names: Mapping[object, str],
    planned: PlanOf,
    plan: Plan,
    how: _Options,
) -> Rehearsal:
    """The forecast of a function that adapts, by plans alone."""

    def compile(policies: dict[Symbol, Policy]) -> tuple[Plan, Source]:
        return planned(policies), Source("", {}, {})

    def rehearse(sizes: Mapping[str, SizesGiven]) -> Forecast:
        adapter = Adapter(graph, compile, names)
        return rehearsed(adapter, plan, how.tier != "auto", sizes)

    return rehearse


_EMIT = {
    ("numpy", False): emit_numpy,
    ("jax", True): emit_jax,
    ("jax", False): emit_unjitted,
}


def _spent(
    graph: Graph, names: Mapping[object, str], plan_of: PlanOf, budget: Budget
) -> Spending:
    """The policies that keep to a budget."""
    with naming(names):
        return spending(graph, budget, plan_of)


def _without_tests(graph: Graph, how: _Options) -> Plan:
    """The plan at true sizes, without tests that rules put in."""
    plan = partition(rewritten(graph, how.rewrites.unchecked()).graph)
    return replace(plan, casting=how.casting)


def _on_numpy(
    graph: Graph, structure: Outputs, how: _Options
) -> tuple[Plan, Source]:
    """The NumPy program for new sizes, at true sizes, if it may replace that of JAX."""
    require_both(graph)
    graph = grown(finished(graph, how.rewrites).graph)[0]
    plan = partition(settled(graph, how.rewrites).graph)
    plan = replace(plan, casting=how.casting)
    return plan, emit_numpy(plan, structure)


def _backend(tier: object, backend: Backend, jit: Jit) -> Backend:
    """The backend that a tier means; "auto" is an addition to compiled JAX."""
    _check_option("tier", tier, ("auto", "jax", "numpy", None))
    if tier == "numpy":
        return "numpy"
    if tier is not None and backend == "numpy":
        problem = f"tier={tier!r} is not for the backend NumPy"
        hint = 'leave backend="numpy" out'
        raise graph_error(problem, op="function", hint=hint)
    if tier == "auto" and jit is False:
        raise graph_error(
            "there are no tiers without jit: the program is compiled by its caller",
            op="function",
            got='tier="auto", jit=False',
            hint='leave `tier` out, or compile with jit="auto"',
        )
    return backend


def _policies(
    graph: Graph, dims: Any, emit: Callable[..., Source], before: Graph
) -> tuple[dict[Symbol, Policy], bool]:
    """The policies to start with, and whether they change with the sizes seen.

    A program without jit is compiled by its caller, for sizes as they are.
    """
    chosen = config.dims if dims is None else dims
    if isinstance(chosen, str) and chosen == "auto":
        return {}, emit is emit_jax
    if isinstance(chosen, Budget):  # chosen when it is planned
        chosen = "pad" if emit is emit_unjitted else {}
    policies = policies_of(graph, chosen, before)
    if policies and emit is emit_unjitted:
        if dims is None:
            return {}, False
        raise graph_error(
            "sizes cannot be padded without jit",
            op="function",
            got="jit=False",
            hint='leave `dims` out, or compile with jit="auto"',
        )
    return policies, False


def _planned(
    graph: Graph,
    policies: dict[Symbol, Policy],
    model: CostModel,
    emit: Callable[..., Source],
    rewrites: Rules,
) -> tuple[Plan, tuple[Application, ...]]:
    """The plan of a graph, padded where policies say so, and the log of late rules."""
    pad = padded(graph, policies) if policies else None
    if pad is not None:
        graph = rewritten(pad.graph, CLEANUP).graph
    elif emit is not emit_numpy:
        graph = _with_compiled_loops(graph)
    late = finished(graph, rewrites)
    graph = late.graph
    # Without jit, the program has no driver.
    graph, made = (graph, {}) if emit is emit_unjitted else grown(graph)
    graph, more = (graph, {}) if emit is emit_numpy else in_place(graph)
    last = settled(graph, rewrites)
    graph = last.graph
    if pad is not None:
        pad = pad.tidied(graph)
        graph = pad.graph
    originals = _originals(made, more)
    with naming({**SHOWN.names, **own_names(originals, pad, SHOWN.names)}):
        plan = partition(graph, model, padded=pad)
    return replace(plan, originals=originals), (*late.log, *last.log)


def _with_compiled_loops(graph: Graph) -> Graph:
    """The graph with loops whose sizes differ from step to step at their bounds.

    They would be run by Python, and each of their sizes compiled for.
    """
    if not any(map(runs_in_python, ancestors(graph.outputs))):
        return graph
    return rewritten(padded(graph, {}).graph, CLEANUP).graph


def _originals(*changes: dict[Value, Value]) -> dict[Symbol, Symbol]:
    """The original sizes of the sizes of a graph that was changed."""
    found: dict[Symbol, Symbol] = {}
    for change in changes:
        before = dict(found)
        for old, new in change.items():
            if old._symbol is not None and new._symbol is not None:
                found.setdefault(new._symbol, before.get(old._symbol, old._symbol))
    return found


def _tests_of_rules(plan: Plan, log: tuple[Application, ...]) -> bool:
    """Whether rules may have put in tests, which an un-jitted program cannot make."""
    tests = any(isinstance(step, Check) for step in plan.glue)
    return tests and any(a.rule.checks for a in log)


def _has_driven_loops(plan: Plan) -> bool:
    return any(segment.rows is not None for segment in plan.segments)


def _rules(rewrites: object, unjitted: bool) -> Rules:
    """The rules as a set; a program without jit cannot make their tests."""
    found = Rules((rewrites,)) if isinstance(rewrites, Rule) else rewrites
    if isinstance(found, Rules):
        return found.unchecked() if unjitted else found
    raise graph_error(
        "`rewrites` must be a set of rules",
        op="function",
        got=shortened(repr(rewrites)),
        expected="graphc.rewrites.default, .none, or such a set plus or minus rules",
    )


def _check_options(backend: object, jit: object, check: object, unused: object) -> None:
    _check_option("backend", backend, ("jax", "numpy"))
    _check_option("jit", jit, ("auto", True, False))
    _check_option("check", check, (True, False))
    _check_option("unused", unused, ("ignore", "warn", "error"))


def _check_option(option: str, value: object, allowed: tuple[object, ...]) -> None:
    if not any(type(value) is type(a) and value == a for a in allowed):
        expected = f"one of {', '.join(map(repr, allowed))}"
        problem = f"{option} cannot be {value!r}"
        raise graph_error(problem, op="function", expected=expected)


def _require_one_segment(plan: Plan) -> None:
    """jit=True: the plan must be one segment, or the first reason why it is not."""
    for step in plan.glue:
        if needs_device(step):
            raise graph_error(
                f"jit=True is impossible: {step.reason}",
                op="function",
                hint=f'{step.remedy}, or use jit="auto"',
                where=step.place,
            )
