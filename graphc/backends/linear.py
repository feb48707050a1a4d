"""A graph as one straight-line function: the NumPy program, and un-jitted JAX."""

from graphc.analysis.aliasing import copied_outputs
from graphc.backends.entry import emit_entry
from graphc.backends.last_uses import last_uses
from graphc.backends.layout import indent
from graphc.backends.prelude import check_line
from graphc.backends.program import (
    Outputs,
    Source,
    argument_check,
    assemble,
    checks_of,
    draw_decorators,
    flat_outputs,
    function_name,
    needs_64_bits,
    new_module,
    print_check,
)
from graphc.backends.slices import AlikeSlices
from graphc.backends.source import PrintedBody
from graphc.errors import graph_error
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.walk import ancestors, in_program_order, operands
from graphc.ir.types import BFLOAT16
from graphc.transform.planning.driver import driver_of
from graphc.transform.planning.plan import Check, HostNode, Plan

NEEDS_X64 = "the program has 64-bit arrays: call it under jax.enable_x64(True)"


def emit_numpy(plan: Plan, outputs: Outputs) -> Source:
    """The NumPy program of a graph; the plan gives the checks and the padded entry."""
    module, names = new_module(plan)
    body = PrintedBody(module, "np", reads=True)
    body.lines += argument_check(plan, names)
    for value, name in zip(plan.graph.inputs, names, strict=True):
        if value.type.rank == 0:
            body.line(f'{name} = np.asarray({name}, "{value.dtype.name}")[()]')
        body.bind(value, name)
    _print_nodes(body, plan)
    copied = copied_outputs(plan.graph)
    results = [
        f"np.{'array' if i in copied else 'asarray'}({body.value(plan.resolve(v))})"
        for i, v in enumerate(plan.graph.outputs)
    ]
    body.line(f"return {flat_outputs(plan, outputs).text(results)}")
    head = [
        '@np.errstate(all="ignore")  # as in JAX, no warnings for NaN and infinity',
        f"def {function_name(plan.padded is not None)}({', '.join(names)}):",
    ]
    if plan.padded is None:
        head = ["CHECKED = set()", "", "", *head]
    functions = [head + indent(body.lines)]
    if plan.padded is not None:
        functions.append(emit_entry(module, plan, driver_of(plan), outputs, "np"))
    return assemble(module, plan, "NumPy", functions)


def emit_unjitted(plan: Plan, outputs: Outputs) -> Source:
    """The JAX program without `jit`, for users who transform and compile it."""
    module, names = new_module(plan)
    if checks_of(plan):
        raise graph_error(
            "a check needs the host, and an un-jitted program may be traced",
            hint='compile with jit="auto"',
            where=checks_of(plan)[0].place,
        )
    module.is_lowered_later = True
    body = PrintedBody(module, "jnp", reads=True)
    body.line(check_line(names))
    for i, (value, name) in enumerate(zip(plan.graph.inputs, names, strict=True)):
        if value.type.rank:
            body.line(f"{name} = jnp.asarray({name})")
        elif i not in plan.static_inputs:
            body.line(f'{name} = jnp.asarray({name}, "{value.dtype.name}")')
        body.bind(value, name)
        if value.type.rank == 0 and i in plan.static_inputs:
            _bind_static(body, value, name)
    _print_nodes(body, plan)
    results = [body.value(plan.resolve(v)) for v in plan.graph.outputs]
    body.line(f"return {outputs.text(results)}")
    lines, decorators = body.lines, draw_decorators(plan.graph.nodes)
    head = [*decorators, f"def program({', '.join(names)}):"]
    if needs_64_bits(module, plan):
        test = "jax.config.jax_enable_x64, NEEDS_X64, 'the call', kind='other'"
        lines = [f"require({test})", *lines]
        head = [f"NEEDS_X64 = {NEEDS_X64!r}", "", "", *head]
    return assemble(module, plan, "JAX", [head + indent(lines)])


def _bind_static(body: PrintedBody, value: Value, name: str) -> None:
    """Bind a static integer: a plain one as a size, one with its dtype as a number."""
    size = body.size(value.symbol)
    body.line(f"{name} = np.{value.dtype.name}({size})")


def _print_nodes(body: PrintedBody, plan: Plan) -> None:
    checks: dict[Node, list[Check]] = {}
    for check in checks_of(plan):
        checks.setdefault(plan.resolve(check.condition).node, []).append(check)
    assertions = {value.node for value in plan.aliases}
    order = _printing_order(plan)
    keep = {plan.resolve(v) for v in plan.graph.outputs} | plan.aliases.keys()
    dying = last_uses(order, keep, plan.resolve)
    if any(v.dtype == BFLOAT16 for node in order for v in node.outputs):
        body.module.imports["import ml_dtypes  # registers bfloat16"] = None
    on_host = _known_to_host(plan, order) if body.backend == "jax" else set()
    body.look_at(order, keep)
    slices = AlikeSlices(body, order if body.backend == "jax" else ())
    for node in order:
        if node.primitive is not INPUT and node not in assertions:
            _print_node(body, slices, node, node in on_host)
        for check in checks.get(node, ()):
            print_check(body, check)
        if body.backend == "numpy":
            body.delete(dying.get(node, ()))


def _print_node(
    body: PrintedBody, slices: AlikeSlices, node: Node, on_host: bool
) -> None:
    """Print a node; in JAX, trace sizes that need no integer where that is possible."""
    if on_host:
        with body.in_numpy():
            slices.print(node)
        return
    reads = body.reads
    body.reads = body.backend == "numpy" or bool(node.demands)
    try:
        slices.print(node)
    finally:
        body.reads = reads


def _known_to_host(plan: Plan, order: list[Node]) -> set[Node]:
    """The arithmetic on static integers for sizes, done on the host even in a trace."""
    planned = {step.node for step in plan.steps if isinstance(step, HostNode)}
    static = {plan.graph.inputs[i].node for i in plan.static_inputs}
    on_host: set[Node] = set()
    for node in order:
        producers = [v.node for v in node.inputs]
        known = (n in static or n in on_host or n.primitive.inline for n in producers)
        if node in planned and all(known):
            on_host.add(node)
    return on_host


def _printing_order(plan: Plan) -> list[Node]:
    """The nodes in topological order, those that checks need before the others."""
    order: dict[Node, None] = {}

    def waiting(node: Node) -> list[Value]:
        return [v for v in operands(node) if v.node not in order]

    for check in checks_of(plan):
        order |= dict.fromkeys(ancestors([check.condition], waiting))
    results = [plan.resolve(v) for v in plan.graph.outputs]
    needed = (n for n in ancestors(results, waiting) if n.primitive is not INPUT)
    unchecked = set(needed) - order.keys()
    edges = {node: [v.node for v in waiting(node)] for node in unchecked}
    return [*order, *in_program_order(unchecked, edges.__getitem__)]
