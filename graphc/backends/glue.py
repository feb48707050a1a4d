"""The driver: plain Python that calls the segments and reads sizes in between."""

from graphc.backends.growing import call_growing, call_in_python, put_together
from graphc.backends.layout import indent, tuple_text
from graphc.backends.module import Module
from graphc.backends.program import (
    Outputs,
    argument_check,
    entry,
    needs_64_bits,
    print_check,
    print_return,
    size_checks,
)
from graphc.backends.source import PrintedBody
from graphc.control.fitting_branches import is_numbered, taken_fit
from graphc.control.switch import reports_misfits
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Dim, Symbol
from graphc.ops.effects.capacities import Capacities, capacity_call
from graphc.ops.effects.guesses import guessing
from graphc.transform.planning.guesses import GuessingSegment, driven_steps
from graphc.transform.planning.plan import (
    Check,
    HostNode,
    JoinedPieces,
    Plan,
    PlanStep,
    PythonLoop,
    Read,
    Segment,
)


def guesses_line(segment: GuessingSegment) -> str:
    """The line that keeps what was needed."""
    return f"GUESSES_{segment.index} = {{}}  # capacities that were needed, by shapes"


def emit_driver(
    module: Module, plan: Plan, names: list[str], outputs: Outputs
) -> list[str]:
    """The function `program`, with the inputs as parameters.

    Arguments are checked once per combination of shapes and dtypes.
    """
    body = PrintedBody(module, "np", reads=True)
    for value, name in zip(plan.graph.inputs, names, strict=True):
        body.bind(value, name)
    for step in driven_steps(plan):
        _print_step(body, step)
    print_return(body, plan, outputs)
    lines = size_checks(module, plan, names) + body.lines
    if needs_64_bits(module, plan):
        lines = ["with jax.enable_x64(True):", *indent(lines)]
    if any(is_numbered(segment.nodes) for segment in plan.segments):
        names = [*names, "*misfits"]
    head = [f"def {entry(plan.padded is not None)}({', '.join(names)}):"]
    if plan.padded is None:
        head = ["CHECKED = set()", "", "", *head]
    return head + indent(argument_check(plan, names) + lines)


def _print_step(body: PrintedBody, step: PlanStep) -> None:
    if isinstance(step, GuessingSegment):
        _call_guessing(body, step)
    elif isinstance(step, Segment) and step.rows is not None:
        call_growing(body, step)
    elif isinstance(step, Segment):
        _call(body, step)
    elif isinstance(step, Read):
        body.size(step.value.symbol)
    elif isinstance(step, Check):
        _bring_to_host(body, [step.condition])
        print_check(body, step, on_device=True)
    elif isinstance(step, JoinedPieces):
        put_together(body, step)
    elif isinstance(step, PythonLoop):
        _step_function(body.module, step)
        call_in_python(body, step)
    else:
        _host_node(body, step)


def _step_function(module: Module, loop: PythonLoop) -> None:
    """Print the function of one step of a host-driven loop: a driver of its own."""
    inner = loop.node.params["body"].content
    if inner in module.functions:
        return
    name, plan = module.names.unique("step"), loop.body
    module.functions[inner] = name, []
    body = PrintedBody(module, "np", reads=True)
    names = [module.value_name(v) for v in plan.graph.inputs]
    sizes = [module.size_name(s) for s in loop.sizes]
    for value, name_of_input in zip(plan.graph.inputs, names, strict=True):
        body.bind(value, name_of_input)
    for symbol, size in zip(loop.sizes, sizes, strict=True):
        body.bind_size(symbol, size)
    for step in plan.steps:
        _print_step(body, step)
    results = [body.value(plan.resolve(v)) for v in plan.graph.outputs]
    body.line(f"return {tuple_text(results)}")
    head = f"def {name}({', '.join([*names, *sizes])}):"
    module.functions[inner] = name, [head, *indent(body.lines)]


def _call(body: PrintedBody, segment: Segment) -> None:
    """`a, b = segment_1(x, count_size)`."""
    sizes = [body.size(s) for s in segment.statics]
    more = ["*misfits"] if is_numbered(segment.nodes) else []
    values = [body.value(v) for v in segment.inputs]
    arguments = ", ".join([*values, *sizes, *more])
    names = [body.module.value_name(v) for v in segment.outputs]
    call = f"segment_{segment.index}({arguments})"
    if reports_misfits(segment.nodes):
        call = f"{body.module.helper(taken_fit)}({call})"
    body.line(f"{', '.join(names)} = {call}" if names else call)
    for value, name in zip(segment.outputs, names, strict=True):
        body.bind(value, name)


def _call_guessing(body: PrintedBody, segment: GuessingSegment) -> None:
    """The lines of the driver that run a segment until its capacities are enough.

        def attempt(guess):
            counts, highest = segment_0(x, n, guess)
            bucket = np.asarray(doubled(int(highest), 16), "int64")
            room = integer("room", bucket)
            return (room,), (counts, highest)
        rounding = [lambda size: doubled(size, 16)]
        (room,), (counts, highest) = guessing(GUESSES_0, rounding, [x, n], (), attempt)
    """
    module = body.module
    attempt = module.names.unique("attempt")
    guess_names = [module.names.unique("guess") for _ in segment.guesses]
    arrays = [body.value(v) for v in segment.inputs]
    others = [s for s in segment.statics if s not in segment.guesses]
    sizes = [body.size(s) for s in others]
    inner, reading = (PrintedBody(module, "np", reads=True) for _ in range(2))
    for value, name in zip(segment.inputs, arrays, strict=True):
        inner.bind(value, name)
    for symbol, name in zip(
        [*others, *segment.guesses], [*sizes, *guess_names], strict=True
    ):
        inner.bind_size(symbol, name)
    _call(inner, segment)
    results = [inner.value(v) for v in segment.outputs]
    guesses = set(segment.guesses)
    for value, name in zip(segment.outputs, results, strict=True):
        if guesses.isdisjoint(_sizes(value)):  # others are stored at a guess
            reading.bind(value, name)
    for step in segment.followed_by:
        _print_step(reading, step)
    capacities = [reading.size(s) for s in segment.guesses]
    returned = f"{tuple_text(capacities)}, {tuple_text(results)}"
    body.line(f"def {attempt}({', '.join(guess_names)}):")
    lines = [*inner.lines, *reading.lines, f"return {returned}"]
    body.lines += indent(lines)
    rounding = ", ".join([_rounding(module, c) for c in segment.capacities])
    known = f"GUESSES_{segment.index}, [{rounding}]"
    operands = f"[{', '.join(arrays)}], {tuple_text(sizes)}, {attempt}"
    body.line(f"{returned} = {module.helper(guessing)}({known}, {operands})")
    for value, name in zip(segment.outputs, results, strict=True):
        body.bind(value, name)
    for symbol, name in zip(segment.guesses, capacities, strict=True):
        body.bind_size(symbol, name)


def _rounding(module: Module, capacities: Capacities) -> str:
    """The text of a function that gives the capacity of a size."""
    function, options = capacity_call(capacities)
    call = ", ".join(["size", *map(repr, options)])
    return f"lambda size: {module.helper(function)}({call})"


def _sizes(value: Value) -> set[Symbol]:
    """The symbols of the sizes of a value."""
    return {s for n in value.type.shape if isinstance(n, Dim) for s in n.symbols}


def _host_node(body: PrintedBody, step: HostNode) -> None:
    _bring_to_host(body, list(step.node.inputs))
    body.node(step.node)
    body.on_host |= {v: body.value(v) for v in step.node.outputs}


def _bring_to_host(body: PrintedBody, values: list[Value]) -> None:
    """Bring values to the host as NumPy arrays of their dtypes, for host arithmetic."""
    for value in map(body.module.resolve, values):
        if value not in body.on_host and not value.node.primitive.inline:
            name = body.value(value)
            host = body.module.names.unique(f"{name}_host")
            scalar = "[()]" if value.type.rank == 0 else ""
            body.line(f'{host} = np.asarray({name}, "{value.dtype.name}"){scalar}')
            body.on_host[value] = host
