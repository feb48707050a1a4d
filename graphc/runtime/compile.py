"""`graphc.function`: from inputs and outputs to a compiled program."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from graphc.backends.jax import emit_jax
from graphc.backends.linear import emit_numpy, emit_unjitted
from graphc.backends.prelude import ProgramError, expect
from graphc.backends.program import Outputs, Source
from graphc.backends.source import solved
from graphc.errors import GraphError, UnusedInputWarning, graph_error, shortened
from graphc.ir.build import INPUT, Casting, as_value, check_casting, config, strong
from graphc.ir.dims import Dim, Symbol, symbol_dim
from graphc.ir.dims_names import SHOWN, naming, shown_name
from graphc.ir.graph import Graph, Node, Value
from graphc.ir.inner import OF_BODIES, has_inner
from graphc.ir.replay import region_between
from graphc.ir.walk import ancestors, operands
from graphc.rewriting.cleanup import CLEANUP
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.engine import Application, finished, rewritten
from graphc.rewriting.rule import Rule, Rules
from graphc.runtime.adapt import Adapter, Advisor
from graphc.runtime.arguments import Backend
from graphc.runtime.function import Function
from graphc.runtime.tiering import require_both
from graphc.transform.grouping import CostModel, printed
from graphc.transform.loops.delayed import in_place
from graphc.transform.loops.growing import grown
from graphc.transform.loops.merge import merged
from graphc.transform.loops.watched import watched
from graphc.transform.padding import padded
from graphc.transform.partition import partition
from graphc.transform.plan import Check, Plan, needs_device
from graphc.transform.policies import Policy, names_of, policies_of
from graphc.transform.structure import Compound, function_given, require_shallow

Jit = Literal["auto", True, False]
Tier = Literal["auto", "jax", "numpy"]
Unused = Literal["ignore", "warn", "error"]
UNDIVIDED = 1e12  # the cost of a segment of its own, where there shall be one


@dataclass(frozen=True)
class Input:
    """An input with a default: `graphc.Input(k, default=3)`."""

    value: Value
    default: Any


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
    "auto" specializes, until an axis has taken three sizes: from then on it is padded,
    where every op can be masked; `stats()` tells.
    `tier` is the backend, or "auto": NumPy for what is new, compiled once that pays;
    results are NumPy arrays. `unused` says what to do about inputs on which no output
    depends: "warn" with an `UnusedInputWarning`, "ignore" or "error".

    `casting` says which arguments of other dtypes are cast: "safe" those that lose
    nothing by NumPy's rules, "same_kind" float64 for float32 too, "exact" none. Lists
    are taken unless it is "exact". The default is `graphc.config.casting`, "safe".

    Raises GraphError, with the op and the line, where this cannot be done.
    """
    _check_options(backend, jit, check, unused)
    backend = _backend(tier, backend, jit)
    rewrites = _rules(rewrites, backend == "jax" and jit is False)
    rule = config.casting if casting is None else check_casting(casting)
    graph, structure, defaults = examine(inputs, outputs, rule, unused)
    graph = watched(merged(graph)) if check else merged(graph)
    simplified = rewritten(graph, rewrites.early())
    written, graph = graph, simplified.graph
    model = CostModel(base=UNDIVIDED) if jit is True else CostModel()
    emit = _EMIT[backend, backend == "jax" and jit is not False]
    late: list[Application] = []
    names = names_of(written)

    def compile(policies: dict[Symbol, Policy]) -> tuple[Plan, Source]:
        with naming(names):
            plan, late[:] = _planned(graph, policies, model, emit, rewrites)
            plan = replace(plan, casting=rule)
            if jit is True and backend == "jax":
                _require_one_segment(plan)
            return plan, emit(plan, structure)

    policies, auto = _policies(graph, dims, emit, written)
    plan, source = compile(policies)
    log = *simplified.log, *late
    tested = policies or _tests_of_rules(plan, log) or _has_driven_loops(plan)
    unjitted = _without_tests(written, rewrites, rule) if tested else None
    adapter = Adapter(graph, compile, names) if auto else Advisor(graph, names)
    numpy = _on_numpy(graph, structure, rewrites, rule) if tier == "auto" else None
    return Function(
        plan, source, backend, structure, defaults, log, unjitted, adapter, numpy, names
    )


def _without_tests(graph: Graph, rewrites: Rules, casting: Casting) -> Plan:
    """The plan at true sizes, without tests that rules put in."""
    plan = partition(rewritten(graph, rewrites.unchecked()).graph)
    return replace(plan, casting=casting)


def _on_numpy(
    graph: Graph, structure: Outputs, rewrites: Rules, casting: Casting
) -> tuple[Plan, Source]:
    """The program for what is new, at true sizes, where one can stand in for JAX."""
    require_both(graph)
    plan = partition(grown(finished(graph, rewrites).graph)[0])
    plan = replace(plan, casting=casting)
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
    """The plan of a graph, padded where policies say so, and what late rules did."""
    pad = padded(graph, policies) if policies else None
    if pad is not None:
        graph = rewritten(pad.graph, CLEANUP).graph
    late = finished(graph, rewrites)
    graph = late.graph
    # Without jit, the program has no driver.
    graph, made = (graph, {}) if emit is emit_unjitted else grown(graph)
    graph, more = (graph, {}) if emit is emit_numpy else in_place(graph)
    if pad is not None:
        pad = pad.tidied(graph)
        graph = pad.graph
    originals = _originals(made, more)
    own: dict[object, str] = {s: shown_name(o) for s, o in originals.items()}
    with naming({**SHOWN.names, **own}):
        plan = partition(graph, model, padded=pad)
    return replace(plan, originals=originals), late.log


def _originals(*changes: dict[Value, Value]) -> dict[Symbol, Symbol]:
    """The sizes that those of a graph that was changed stand for."""
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


def examine(
    inputs: Any, outputs: Any, casting: Casting, unused: Unused
) -> tuple[Graph, Outputs, dict[int, Any]]:
    """The graph between variables and values, their structure, and defaults."""
    for given in (inputs, outputs):
        if callable(given) and not isinstance(given, Compound):
            raise function_given("function", given, "graphc.function([x], {})")
    values, input_names, defaults = _inputs(inputs, casting)
    structure, names, results = _outputs(outputs)
    graph = Graph(values, results, input_names, names)
    idle = _check_graph(graph)
    if idle and unused == "error":
        raise _unused(idle)
    for value, name in idle if unused == "warn" else ():
        text = f"input {name!r} ({value.node.place}) does not affect the outputs"
        warnings.warn(text, UnusedInputWarning, stacklevel=3)
    return graph, structure, defaults


_EMIT = {
    ("numpy", False): emit_numpy,
    ("jax", True): emit_jax,
    ("jax", False): emit_unjitted,
}


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


def _inputs(
    inputs: Sequence[Any] | Mapping[str, Any], casting: Casting
) -> tuple[tuple[Value, ...], tuple[str, ...], dict[int, Any]]:
    """The input variables, what calls name them, and defaults by position."""
    if isinstance(inputs, (Value, Input, str, Set)) or not isinstance(inputs, Iterable):
        got = shortened(repr(inputs))
        expected = "a list of variables, or a dict of them by name"
        problem = "inputs must stand in a list or a dict"
        raise graph_error(problem, op="function", got=got, expected=expected)
    named = isinstance(inputs, Mapping)
    given = list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    values = tuple(x.value if isinstance(x, Input) else x for x in given)
    for i, value in enumerate(values):
        _check_input(value, values[:i])
    names = tuple(v.name for v in values)
    if named:
        names = _keys("input", inputs)
    defaults = {i: x.default for i, x in enumerate(given) if isinstance(x, Input)}
    for i, default in defaults.items():
        _check_default(default, values[i], names[i], casting)
    return values, names, {i: _own(default) for i, default in defaults.items()}


def _own(default: Any) -> Any:
    """A default that nobody else changes; JAX's arrays never change."""
    return default if hasattr(default, "aval") else deepcopy(default)


def _check_input(value: Any, before: tuple[Value, ...]) -> None:
    if not isinstance(value, Value) or value.node.primitive is not INPUT:
        raise graph_error(
            "inputs must be variables",
            op="function",
            got=shortened(repr(value)),
            hint="make one with gt.tensor(name, dtype, shape)",
        )
    if any(value is other for other in before):
        name = value.name
        raise graph_error(
            f"input {name!r} is given twice",
            op="function",
            got=f"{value.type}, declared at {value.node.place}",
            hint="give each variable once",
        )


def _check_default(default: Any, value: Value, name: str, casting: Casting) -> None:
    """A default must fit its input as an argument must."""
    shape = tuple(n if isinstance(n, int) else str(n) for n in value.type.shape)
    if isinstance(default, Value):
        hint = "a default is a number or an array"
        problem = f"the default of {name!r} is symbolic"
        raise graph_error(problem, op="function", got=repr(default), hint=hint)
    try:
        place = str(value.node.place)
        expect(name, default, value.dtype.name, shape, place, casting)
    except ProgramError as error:
        raise graph_error(f"the default of {error}", op="function") from None


def _keys(what: str, names: Iterable[Any]) -> tuple[str, ...]:
    """The keys of a dict of inputs or outputs: text, which is kept."""
    found = tuple(names)
    for name in found:
        if not isinstance(name, str):
            problem = f"the keys of the {what}s must be text"
            raise graph_error(problem, op="function", got=shortened(repr(name)))
    return tuple(map("".join, found))  # text, nothing that only looks like it


def _outputs(outputs: Any) -> tuple[Outputs, tuple[str, ...], tuple[Value, ...]]:
    """The structure of the outputs, their names where given, and the values."""
    found: list[tuple[str, Value]] = []

    def walk(part: Any, path: str) -> Outputs:
        if isinstance(part, Mapping):
            keys = _keys("output", part)
            paths = [f"{path}.{key}" if path else key for key in keys]
            parts = tuple(map(walk, part.values(), paths))
            return Outputs("dict", keys, parts)
        if isinstance(part, (list, tuple)):
            kind = "list" if isinstance(part, list) else "tuple"
            return Outputs(kind, (), tuple([walk(item, path) for item in part]))
        found.append((path, strong(as_value(_output(part)))))
        return Outputs("single")

    require_shallow(outputs)
    structure = walk(outputs, "")
    names, values = zip(*found, strict=True) if found else ((), ())
    return structure, names, values


_CONSTANTS = (Dim, int, float, complex, np.ndarray, np.generic)


def _output(value: Any) -> Any:
    if isinstance(value, Compound):
        return value.result()
    if isinstance(value, (Value, *_CONSTANTS)):
        return value
    raise graph_error(
        "an output must be a symbolic value",
        op="function",
        got=shortened(repr(value)),
        expected="a value, or a list, tuple or dict of values",
    )


def _check_graph(graph: Graph) -> list[tuple[Value, str]]:
    """Every variable and every size that the outputs need must be given.

    Returns the inputs, with their names, that the outputs do not need.
    """
    nodes = ancestors(graph.outputs)
    given = {v.node for v in graph.inputs}
    used: set[Node] = {n for n in nodes if n.primitive is INPUT}
    for node in nodes:
        if node.primitive is INPUT and node not in given:
            raise _missing(node, nodes, graph)
    known = {s for v in graph.inputs for s in _determined(v)}
    sized = set()
    for node in nodes:
        for symbol in printed(node):
            if symbol.origin is None:
                _check_size(symbol, known, graph, node)
                sized.add(symbol)
    return [
        (value, name)
        for value, name in zip(graph.inputs, graph.input_names, strict=True)
        if value.node not in used and not sized.intersection(_axes(value))
    ]


def _unused(inputs: list[tuple[Value, str]]) -> GraphError:
    """The error of inputs that do nothing."""
    names = ", ".join(repr(name) for _, name in inputs)
    one = len(inputs) == 1
    what = f"input {names} does" if one else f"inputs {names} do"
    return graph_error(
        f"{what} not affect the outputs",
        op="function",
        got="; ".join(f"{v.type}, declared at {v.node.place}" for v, _ in inputs),
        hint=f'leave {"it" if one else "them"} out, or compile with unused="ignore"',
    )


def _missing(variable: Node, nodes: Iterable[Node], graph: Graph) -> GraphError:
    """The error of a variable that is used and not given."""
    name, value = variable.outputs[0].name, variable.outputs[0]
    users = [n for n in nodes if any(v is value for v in operands(n))]
    if variable in OF_BODIES:  # name a loop that takes what was made of it
        behind = region_between(graph.outputs, [value])
        users = [n for n in behind if has_inner(n)] or users
    user = next(iter(users), variable)
    by = f"{user.primitive.name} at {user.place}"
    needed = "is an output itself" if user is variable else f"is needed by {by}"
    if variable in OF_BODIES:
        return graph_error(
            "a value of the body of a loop or branch is used outside of it",
            op="function",
            got=f"{name!r} of type {value.type}, of the body at {variable.place}, "
            f"{needed}",
            hint="let the body give it back: as part of the carry, or as an output",
        )
    if name in graph.input_names:
        first = graph.inputs[graph.input_names.index(name)]
        return graph_error(
            f"two variables are called {name!r}, and an output depends on the one that "
            "is not an input",
            op="function",
            got=f"{name!r} of type {value.type}, declared at {variable.place}, "
            f"{needed}",
            expected=f"the input {name!r} of type {first.type}, declared at "
            f"{first.node.place}",
            hint=f"make {name!r} once and use it in both places, or rename one of them",
        )
    return graph_error(
        f"an output depends on {name!r}, which is not an input",
        op="function",
        got=f"inputs {', '.join(graph.input_names) or 'none'}; {name!r} of type "
        f"{value.type}, declared at {variable.place}, {needed}",
        hint=f"add {name!r} to the inputs",
    )


def _axes(value: Value) -> list[Symbol]:
    return [s for n in value.type.shape if isinstance(n, Dim) for s in n.symbols]


def _determined(value: Value) -> list[Symbol]:
    """The symbols that follow from the shape of this one argument."""
    alone = [n for n in value.type.shape if isinstance(n, Dim) and len(n.symbols) == 1]
    return [
        n.symbols[0]
        for n in alone
        if n is symbol_dim(n.symbols[0]) or solved(n, n.symbols[0], "size")
    ]


def _check_size(symbol: Symbol, known: set[Symbol], graph: Graph, node: Node) -> None:
    if symbol in known:
        return
    name = symbol.name
    formulas = [
        f"axis {axis} of {given} is {size}"
        for value, given in zip(graph.inputs, graph.input_names, strict=True)
        for axis, size in enumerate(value.type.shape)
        if isinstance(size, Dim) and symbol in size.symbols
    ]
    if formulas:
        problem = f"the size {name} cannot be worked out from the inputs"
    else:
        problem = f"the size {name} is not that of any axis of the inputs"
    types = [str(v.type) for v in graph.inputs]
    # The line of a literal may be that of another program, which shares it.
    at = "" if node.primitive.inline else f", for {node.primitive.name} at {node.place}"
    raise graph_error(
        problem,
        op="function",
        got="; ".join(formulas) or f"inputs {', '.join(types) or 'none'}",
        expected=f"{name}{at}",
        hint=f"add a variable with an axis {name} to the inputs",
    )


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
