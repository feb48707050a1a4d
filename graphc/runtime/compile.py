"""`graphc.function`: from inputs and outputs to a compiled program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

from graphc.control.loop_cse import merge_scans
from graphc.errors import graph_error, shortened
from graphc.ir.config import Casting, check_casting, config
from graphc.ir.forks import fork_error, jax_is_lost
from graphc.ir.garbage import only_young_garbage
from graphc.ir.graph.nodes import Graph
from graphc.ir.sizes.proofs import remembering_bounds
from graphc.ir.tracebacks import hide_own_frames
from graphc.ops.common.conditions import CHECKS, Checking
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.engine.rule import Rule, Rules
from graphc.rewriting.loops.roll.chains import NAME
from graphc.runtime.call.arguments import Backend
from graphc.runtime.donation import donated_inputs
from graphc.runtime.driver.devices import Target, target_of
from graphc.runtime.examine import Unused, examine, take_apart
from graphc.runtime.function import ArrangedFunction, Function
from graphc.runtime.making import Making
from graphc.runtime.named_numbers import warn_of_numbers
from graphc.runtime.pipeline import CompileOptions, Jit, Pipeline, Tier
from graphc.runtime.shards import is_among, mesh_for, with_mesh
from graphc.runtime.stretching import Family, Stretching
from graphc.runtime.variants.decisions import SavedDecisions, decisions_of
from graphc.runtime.variants.program_decisions import inputs_of
from graphc.transform.derivatives.rolled_gradients import with_gradients_of_loops
from graphc.transform.padding.stretching import (
    ResolvedGraph,
    axes_maybe_one,
    resolved_dims,
)
from graphc.transform.planning.bounds_checks import with_bounds_checks
from graphc.transform.planning.budget import check_dims
from graphc.transform.planning.divisor_checks import with_checked_divisors

TIERS = ("auto", "jax", "numpy", None)


@hide_own_frames
def function(
    inputs: Sequence[object] | Mapping[str, object],
    outputs: object = None,
    *,
    backend: Backend = "jax",
    jit: Jit = "auto",
    check: Checking = False,
    rewrites: Rules = DEFAULT,
    dims: object = None,
    tier: Tier | None = None,
    unused: Unused = "warn",
    casting: Casting | None = None,
    device: object = None,
    decisions: object = None,
    mesh: object = None,
    donate: object = (),
    name: str = "",
) -> Function:
    """Compile the graph between `inputs` and `outputs`.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    >>> largest = graphc.function([x, k], gt.sort(x[x > 0], descending=True)[:k])
    >>> print(largest(np.array([3, -1, 4, 1], "float32"), 2))
    [4. 3.]

    - `inputs`: variables, `Input`s, or structures of variables, in a list or a dict;
      `outputs`: a value, or a list, tuple or dict of values.
    - `dims`: a policy for all sizes, or by size: `Specialize()`, `Pad()`, `Bound()`, or
      `Shard(axis)` over `mesh`; "auto" pads from the second size on, where all ops can
      be masked; a `Budget(...)` limits compilations. `decisions`: saved files of these.
    - `jit`: "auto" compiles in segments that few sizes concern; "fewest" splits for no
      size; True insists on one segment; False leaves jit to the caller.
    - `check`: True raises on wrong indices and singular matrices, "index" on indices.
    - `tier`: the backend, or "auto": NumPy until compiling pays. `device`: a platform,
      as "cpu", or a `jax.Device`. `rewrites`: the rules that simplify first.
    - `casting`: "safe" casts arguments that lose nothing, "same_kind" float64 for
      float32 too, "exact" none. `unused`: "warn", "ignore" or "error" for inputs that
      change no output. `donate`: inputs to give away. `name`: for logs, JAX's too.

    Raises GraphError, with the op and the line, where this cannot be done.
    """
    options: dict[str, Any] = dict(rewrites=rewrites, casting=casting, check=check)
    options |= dict(backend=backend, tier=tier, jit=jit, device=device, name=name)
    options["dims"] = dims = with_mesh(dims, mesh, options)
    check_options("function", backend, rewrites, dims)
    _check_others("function", jit, check, unused, name)
    options["decisions"] = decided = decisions_of(decisions, "function")
    backend = _backend(tier, backend, jit)
    rule = config.casting if casting is None else check_casting(casting)
    inputs, arrangement = take_apart(inputs)
    graph, structure, defaults = examine(inputs, outputs, rule, unused)
    options["donate"] = donated = donated_inputs(graph, donate, defaults, options)
    options["mesh"] = mesh_for(graph, dims, mesh, options)
    target = target_of(device, backend, options["mesh"])
    rewrites = _rules(rewrites, backend, jit is False, target)
    warn_of_numbers(graph, unused)
    how = backend, jit, rewrites, dims, tier, rule, check, target, donated, name
    making = Making(function, graph, structure, defaults, options, arrangement)
    return _compile_making(making, CompileOptions(*how), decided)


def _compile_making(
    making: Making, how: CompileOptions, decided: SavedDecisions | None
) -> Function:
    """Compile a graph, as one function or, if axes may be 1, as a family of them.

    The function holds its `making`, by which it is compiled elsewhere.
    """
    if decided is not None:
        decided.require(inputs_of(making.graph), "function")
    with remembering_bounds():
        rolling = NAME in how.rewrites
        graph = merge_scans(with_gradients_of_loops(making.graph, rolling=rolling))
        if axes_maybe_one(graph):
            compiled = _compile_family(graph, making, how, decided)
        else:
            make: Callable[..., Function] = Function
            if making.arrangement is not None:
                make = partial(ArrangedFunction, making.arrangement)
            how = _with_decisions(graph, how, decided)
            compiled = _compile_written(graph, making, how, make)
    compiled.making = making
    return compiled


def _with_decisions(
    graph: Graph, how: CompileOptions, decisions: SavedDecisions | None
) -> CompileOptions:
    """Return the options for a graph, with the saved decisions about its sizes."""
    known = None if decisions is None else decisions.program(inputs_of(graph))
    return how if known is None else replace(how, decided=known.policies)


def _compile_family(
    written: Graph,
    making: Making,
    how: CompileOptions,
    decided: SavedDecisions | None,
) -> Function:
    """Compile a function of a graph with axes that may be 1."""
    if making.arrangement is not None:
        problem = "axes that may be 1 are not supported in structures of inputs"
        hint = "give the variables in one list"
        raise graph_error(problem, op="function", hint=hint)

    def compile(
        known: ResolvedGraph, make: Callable[..., Function] = Function
    ) -> Function:
        options = replace(how, dims=resolved_dims(known, how.dims))
        options = _with_decisions(known.graph, options, decided)
        return _compile_written(known.graph, making, options, make)

    family = Family(written, compile)
    return compile(family.graph, partial(Stretching, family))


def _compile_written(
    written: Graph, making: Making, how: CompileOptions, make: Callable[..., Function]
) -> Function:
    """Compile a function of the graph as it is written, with its checks added."""
    with only_young_garbage():
        written = with_bounds_checks(written, how.check) if how.check else written
        written = with_checked_divisors(written)
        return make(Pipeline(written, making.structure, how), making.defaults)


def _backend(tier: object, backend: Backend, jit: Jit) -> Backend:
    """Return the backend of a tier; "auto" is compiled JAX, with NumPy in addition.

    Raises ForkError for JAX in a process that has lost it.
    """
    _check_option("tier", tier, TIERS)
    _check_tier("function", tier, backend, jit)
    if tier == "numpy":
        return "numpy"
    if backend == "jax" and jax_is_lost():
        raise fork_error("function")
    return backend


def _check_tier(op: str, tier: object, backend: object, jit: object) -> None:
    """Raise GraphError for a tier that contradicts other options."""
    if tier in ("auto", "jax") and backend == "numpy":
        problem = f"tier={tier!r} is not for the backend NumPy"
        raise graph_error(problem, op=op, hint='leave backend="numpy" out')
    if tier == "auto" and jit is False:
        raise graph_error(
            "there are no tiers without jit: the program is compiled by its caller",
            op=op,
            got='tier="auto", jit=False',
            hint='leave `tier` out, or compile with jit="auto"',
        )


def _rules(rewrites: object, backend: Backend, unjitted: bool, target: Target) -> Rules:
    """Choose the rules for a device; a program without jit cannot make their tests."""
    rules = _checked_rules(rewrites, "function").on(target.costs)
    if backend == "numpy":
        return rules.interpreted
    rules = rules.compiled if target.costs.launches else rules.fused
    return rules.unchecked if unjitted else rules


def _checked_rules(rewrites: object, op: str) -> Rules:
    rules = Rules((rewrites,)) if isinstance(rewrites, Rule) else rewrites
    if isinstance(rules, Rules):
        return rules
    name = rewrites if rewrites in ("default", "none") else ""
    raise graph_error(
        "`rewrites` must be a set of rules",
        op=op,
        got=shortened(repr(rewrites)),
        expected="graphc.rewrites.default, .none, or these plus or minus rules",
        hint=f"rewrites=graphc.rewrites.{name}" if name else "",
    )


def check_options(op: str, backend: object, rewrites: object, dims: object) -> None:
    """Raise GraphError for options of `op` that are invalid whatever the graph is."""
    _check_option("backend", backend, ("jax", "numpy"), op)
    _checked_rules(rewrites, op)
    check_dims(dims, op)


def check_named_options(op: str, options: Mapping[str, object]) -> None:
    """Raise GraphError for named options of `function` that are invalid for any graph.

    This serves callers that take options before there is a graph, as a mode of
    PyTensor.
    """
    all_options: dict[str, Any] = {**_DEFAULTS, **options}
    check_options(
        op, all_options["backend"], all_options["rewrites"], all_options["dims"]
    )
    _check_others(op, *map(all_options.__getitem__, ("jit", "check", "unused", "name")))
    _check_option("tier", all_options["tier"], TIERS, op)
    _check_tier(op, all_options["tier"], all_options["backend"], all_options["jit"])
    if all_options["casting"] is not None:
        check_casting(all_options["casting"], op)
    if all_options["device"] is not None:
        target_of(all_options["device"], all_options["backend"])


def _check_others(
    op: str, jit: object, check: object, unused: object, name: object
) -> None:
    _check_option("jit", jit, ("auto", "fewest", True, False), op)
    _check_option("check", check, CHECKS, op)
    _check_option("unused", unused, ("ignore", "warn", "error"), op)
    if not isinstance(name, str):
        problem = f"name cannot be {shortened(repr(name))}"
        raise graph_error(problem, op=op, expected='a text, as "loss"')


def _check_option(
    option: str, value: object, allowed: tuple[object, ...], op: str = "function"
) -> None:
    if not is_among(value, allowed):
        expected = f"one of {', '.join(map(repr, allowed))}"
        problem = f"{option} cannot be {value!r}"
        raise graph_error(problem, op=op, expected=expected)


_DEFAULTS = {
    name: parameter.default
    for name, parameter in signature(function).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
