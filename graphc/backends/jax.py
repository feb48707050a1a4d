"""The JAX program of a plan: jitted segments, and the driver that joins them."""

from dataclasses import replace
from types import ModuleType
from typing import cast

from graphc.backends.entry import emit_entry
from graphc.backends.glue import emit_driver, guesses_line
from graphc.backends.growing import growing_segment, print_announcement
from graphc.backends.layout import indent
from graphc.backends.module import Module
from graphc.backends.on_parts import print_on_mesh
from graphc.backends.prelude import check_line
from graphc.backends.program import (
    Outputs,
    Source,
    assemble,
    checked_sizes,
    draw_decorators,
    flat_outputs,
    function_name,
    needs_64_bits,
    new_module,
    print_return,
    size_checks,
)
from graphc.backends.sharding.text import (
    digest,
    in_shardings,
    mesh_lines,
    out_shardings,
)
from graphc.backends.slices import AlikeSlices
from graphc.backends.source import PrintedBody
from graphc.control.fitting_branches import is_numbered, taken_fit, telling
from graphc.control.switch import reports_misfits
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.types import JaxArray
from graphc.transform.planning.driver import driver_of
from graphc.transform.planning.guesses import GuessingSegment
from graphc.transform.planning.joined_checks import JoinedChecks, joined_checks
from graphc.transform.planning.plan import LoopInPieces, Plan, Segment
from graphc.transform.printed_sizes import printed_in_order
from graphc.transform.sharding.layout import MeshLayout
from graphc.transform.sharding.messages import Follower


def emit_jax(plan: Plan, outputs: Outputs, *, joining: bool = True) -> Source:
    """Return the program of a plan as the text of a module.

    If the plan is a single segment, `program` is that jitted function itself. Without
    `joining`, segments return each condition as the plan has it.
    """
    module, names = new_module(plan)
    module.joined_checks = joined_checks(plan) if joining else {}
    driver, inner = driver_of(plan), flat_outputs(plan, outputs)
    direct = driver.inner.direct
    layout = plan.layout
    functions = []
    if layout is not None:
        functions.append(mesh_lines(layout.mesh))
        module.imports["import functools"] = None
    for segment in plan.segments:
        if isinstance(segment, LoopInPieces):
            functions.append(growing_segment(module, segment))
        else:
            returned = inner if direct else None
            functions.append(_segment_lines(module, plan, segment, returned))
        if isinstance(segment, GuessingSegment):
            functions.append([guesses_line(segment)])
    if direct:
        functions.append(_direct_program(module, plan, names))
    else:
        functions.append(emit_driver(module, plan, driver.inner, names, inner))
    wide = needs_64_bits(module, plan, plan.graph.inputs if direct else ())
    checked = checked_sizes(module, plan)
    if plan.padded is not None:
        functions.append(emit_entry(module, plan, driver, outputs, "jnp"))
    if plan.mesh is not None and plan.mesh.processes:
        functions.insert(0, [f"PROGRAM = {digest(functions)!r}"])
    functions.append(COMPILING)
    if telling in module.helpers:  # comes first: defining a segment calls it
        functions.insert(0, module.helpers.pop(telling)[1].splitlines())
    source = assemble(module, plan, "JAX", functions)
    alone = direct and not checked
    return replace(source, alone=alone, wide=wide, checked=checked)


COMPILING = [
    "def compiling(segment, **sizes):",
    '    """Called when a segment is compiled for new sizes; does nothing."""',
]


def _direct_program(module: Module, plan: Plan, names: list[str]) -> list[str]:
    """The lines of a `program` that is one jitted function.

    JAX has to be told to allow 64-bit arrays.
    """
    nodes = plan.segments[0].nodes
    misfits, arguments = reports_misfits(nodes), ", ".join(names)
    if is_numbered(nodes):
        arguments += ", *misfits"
    call = f"segment_0({arguments})"
    if misfits:
        call = f"{module.helper(taken_fit)}({call})"
    name = function_name(plan.padded is not None)
    head = f"def {name}({arguments}):"
    if not needs_64_bits(module, plan, plan.graph.inputs):
        return [head, f"    return {call}"] if misfits else [f"{name} = segment_0"]
    lines = [
        *size_checks(module, plan, names),
        "if jax.config.jax_enable_x64:",
        f"    return {call}",
        "with jax.enable_x64(True):",
        f"    return {call}",
    ]
    return [head, *indent(lines)]


def _segment_lines(
    module: Module, plan: Plan, segment: Segment, outputs: Outputs | None
) -> list[str]:
    """The lines of one jitted function; `outputs` is given for a whole program."""
    inputs = plan.graph.inputs if outputs is not None else segment.inputs
    names = [module.value_name(v) for v in inputs]
    sizes = [module.size_name(s) for s in segment.statics]
    used = set(segment.inputs)
    misfits = reports_misfits(segment.nodes)
    body = PrintedBody(module, "jnp", reads=False, tells_misfits=misfits)
    if outputs is not None and plan.padded is None:
        body.line(check_line(names))
    for value, name in zip(inputs, names, strict=True):
        scalar = value.type.rank == 0 and value.node.primitive is INPUT
        if scalar and value in used:
            body.line(f'{name} = jnp.asarray({name}, "{value.dtype.name}")')
        body.bind(value, name)
    body.bind_sizes(segment.statics, sizes)
    print_announcement(body, segment)
    _print_size_arithmetic(body, segment)
    _print_nodes(body, plan, segment)
    layout = plan.layout
    if layout is not None:
        _print_room(body, layout, plan, segment)
    if outputs is not None:
        print_return(body, plan, outputs)
    else:
        body.line(f"return {', '.join(_returned_texts(body, segment))}")
    name, count = f"segment_{segment.index}", len(names + sizes)
    numbered = is_numbered(segment.nodes)
    statics = ", ".join(map(str, range(len(names), count + numbered)))
    options = [f"static_argnums=({statics},)"] if statics else []
    donated_values = _inputs_to_overwrite(plan, segment)
    donated = "".join([f"{i}, " for i, v in enumerate(inputs) if v in donated_values])
    options += [f"donate_argnums=({donated.rstrip()})"] if donated else []
    if layout is not None:
        results = segment.outputs if outputs is None else plan.graph.outputs
        options.append(in_shardings(map(layout.of, inputs)))
        if not misfits:  # a function with misfits may return flags too, so JAX decides
            places = map(plan.place, map(plan.resolve, results))
            options.append(out_shardings(places, direct=outputs is not None))
    name_and_count = f"{name}, {count}" if numbered else name
    function = f"{module.helper(telling)}({name_and_count})" if misfits else name
    return [
        *draw_decorators(segment.nodes),
        f"def {name}({', '.join(names + sizes)}):",
        *indent(body.lines),
        "",
        "",
        *_jit_lines(name, function, options),
    ]


def _inputs_to_overwrite(plan: Plan, segment: Segment) -> set[Value]:
    """The donated inputs that nothing reads after a segment, and that are not results.

    A segment that may run again on the same inputs takes none.
    """
    if isinstance(segment, GuessingSegment) or segment.rows is not None:
        return set()
    donated = {plan.graph.inputs[i] for i in plan.donated}
    places = [i for i, step in enumerate(plan.steps) if step is segment]
    if not donated or not places:
        return set()
    return donated - plan.needed_by(plan.steps[places[0] + 1 :])


def joined_conditions(jnp: ModuleType, *conditions: JaxArray) -> JaxArray:
    """Printed into JAX programs: whether any condition fails, then all conditions.

    A condition is a bool that must hold, or a vector whose first number is 0 if it
    holds.
    """
    vectors = [c if c.ndim else ~c[None] for c in conditions]
    fails = jnp.stack([c[0] != 0 for c in vectors]).any()
    joined: JaxArray = jnp.concatenate([fails[None], *vectors])
    return joined


def _returned_texts(body: PrintedBody, segment: Segment) -> list[str]:
    """The outputs of a segment, then its conditions as one array."""
    module = body.module
    joined = module.joined_checks.get(segment.index, JoinedChecks())
    returned = [body.value(v) for v in segment.outputs if v not in joined.reported]
    if joined.checks:
        values = [body.value(module.resolve(c.condition)) for c in joined.checks]
        helper = module.helper(joined_conditions)
        returned.append(f"{helper}({', '.join(['jnp', *values])})")
    return returned


def _print_nodes(body: PrintedBody, plan: Plan, segment: Segment) -> None:
    body.look_at(segment.nodes, set(map(plan.resolve, segment.outputs)))
    if plan.layout is None:
        slices = AlikeSlices(body, segment.nodes)
        for node in segment.nodes:
            slices.print(node)
        return
    follower = Follower(plan.layout)
    follower.begin(map(plan.resolve, segment.inputs), segment.nodes)
    for node in segment.nodes:
        print_on_mesh(body, follower, node)


def _print_room(
    body: PrintedBody, layout: MeshLayout, plan: Plan, segment: Segment
) -> None:
    """Pad results so that all devices have as many rows; padding is cut off later."""
    for value in dict.fromkeys(map(plan.resolve, segment.outputs)):
        place = plan.place(value)
        if place is None or layout.of(value) is not None:
            continue
        name = body.value(value)
        counts = [1 if axis is None else layout.mesh.size(axis) for axis in place]
        room = [f"-{name}.shape[{i}] % {n}" for i, n in enumerate(counts)]
        pairs = zip(room, counts, strict=True)
        widths = ", ".join(["(0, 0)" if n == 1 else f"(0, {r})" for r, n in pairs])
        body.line(f"{name} = jnp.pad({name}, [{widths}])")


def _jit_lines(name: str, function: str, options: list[str]) -> list[str]:
    """The lines that jit a function: a single line if there are few options."""
    if len(options) < 2:
        return [f"{name} = jax.jit({', '.join([function, *options])})"]
    lines = [f"{part}," for part in [function, *options]]
    return [f"{name} = jax.jit(", *indent(lines), ")"]


def _print_size_arithmetic(body: PrintedBody, segment: Segment) -> None:
    """Print the arithmetic on known sizes, which NumPy does when JAX traces."""
    if not segment.derived:
        return
    host = PrintedBody(body.module, "np", reads=True)
    origins = [cast(Value, s.origin) for s in segment.derived]
    nodes = ancestors([body.module.resolve(v) for v in origins])
    for symbol in dict.fromkeys(s for n in nodes for s in printed_in_order(n)):
        if body.knows(symbol):
            host.bind_size(symbol, body.size(symbol))
    for node in nodes:
        if not node.primitive.passes_on:
            host.node(node)
    for symbol in segment.derived:
        body.bind_size(symbol, host.size(symbol))
    body.lines += host.lines
