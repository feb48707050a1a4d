"""The driver: plain Python that calls the segments and reads sizes in between."""

from graphc.backends.layout import indent
from graphc.backends.module import Module
from graphc.backends.program import (
    Outputs,
    argument_check,
    function_name,
    needs_64_bits,
    print_check,
    print_return,
    print_step,
    print_steps,
    raise_statement,
    size_checks,
)
from graphc.backends.source import PrintedBody
from graphc.control.fitting_branches import is_numbered, taken_fit
from graphc.control.switch import reports_misfits
from graphc.ir.graph.build import tuple_text
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import symbols_in
from graphc.ops.effects.capacities import capacity_call
from graphc.ops.effects.guesses import guessing
from graphc.transform.planning.driver import Driver
from graphc.transform.planning.guesses import GuessingSegment
from graphc.transform.planning.joined_checks import JoinedChecks
from graphc.transform.planning.plan import Check, HostNode, Plan, Read, Segment


def guesses_line(segment: GuessingSegment) -> str:
    """The line that creates the record of the capacities that were needed."""
    return f"GUESSES_{segment.index} = {{}}  # capacities that were needed, by shapes"


def emit_driver(
    module: Module, plan: Plan, driver: Driver, names: list[str], outputs: Outputs
) -> list[str]:
    """The function `program`, with the inputs as parameters.

    Arguments are checked once per combination of shapes and dtypes.
    """
    body = PrintedBody(module, "np", reads=True)
    print_steps(body, driver, names)
    print_return(body, plan, outputs)
    lines = size_checks(module, plan, names, body) + body.lines
    if needs_64_bits(module, plan):
        lines = ["with jax.enable_x64(True):", *indent(lines)]
    if any(is_numbered(segment.nodes) for segment in plan.segments):
        names = [*names, "*misfits"]
    head = [f"def {function_name(plan.padded is not None)}({', '.join(names)}):"]
    if plan.padded is None:
        head = ["CHECKED = set()", "", "", *head]
    return head + indent(argument_check(plan, names) + lines)


@print_step.register
def _(step: Read, body: PrintedBody) -> None:
    body.size(step.value.symbol)


@print_step.register
def _(step: Check, body: PrintedBody) -> None:
    if id(step) not in body.module.printed_checks:
        _bring_to_host(body, [step.condition])
        print_check(body, step)


@print_step.register
def _(step: HostNode, body: PrintedBody) -> None:
    _bring_to_host(body, list(step.node.inputs))
    body.node(step.node)
    body.on_host |= {v: body.value(v) for v in step.node.outputs}


@print_step.register
def _print_call(step: Segment, body: PrintedBody) -> None:
    """Print the call of a segment, such as `a, b = segment_1(x, count_size)`."""
    sizes = list(map(body.size, step.statics))
    more = ["*misfits"] if is_numbered(step.nodes) else []
    arguments = ", ".join([*map(body.value, step.inputs), *sizes, *more])
    module = body.module
    joined = module.joined_checks.get(step.index, JoinedChecks())
    outputs = [v for v in step.outputs if v not in joined.reported]
    names = list(map(module.value_name, outputs))
    checks = [module.names.unique("checks")] if joined.checks else []
    call = f"segment_{step.index}({arguments})"
    if reports_misfits(step.nodes):
        call = f"{module.helper(taken_fit)}({call})"
    results = ", ".join([*names, *checks])
    body.line(f"{results} = {call}" if results else call)
    body.bind_all(outputs, names)
    for name in checks:
        _print_joined(body, joined, name)


def _print_joined(body: PrintedBody, joined: JoinedChecks, name: str) -> None:
    """Print the checks of a segment, which are tested one by one only if any fails.

        checks = np.asarray(checks)
        if checks[0]:
            if checks[1]:
                raise ProgramError("x is negative", "model.py:3", "check")
    """
    body.module.printed_checks.update(map(id, joined.checks))
    body.line(f"{name} = np.asarray({name})")
    body.line(f"if {name}[0]:")
    for check, place in joined.places():
        body.line(f"    if {name}[{place}]:")
        body.line(f"        {raise_statement(check, name, place)}")


@print_step.register
def _(step: GuessingSegment, body: PrintedBody) -> None:
    """Print the lines that run a segment until its capacities are large enough.

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
    guess_names = [module.names.unique("guess") for _ in step.guesses]
    arrays = list(map(body.value, step.inputs))
    others = [s for s in step.statics if s not in step.guesses]
    sizes = list(map(body.size, others))
    inner, reading = (PrintedBody(module, "np", reads=True) for _ in range(2))
    inner.bind_all(step.inputs, arrays)
    inner.bind_sizes([*others, *step.guesses], [*sizes, *guess_names])
    _print_call(step, inner)
    results = list(map(inner.value, step.outputs))
    guesses = set(step.guesses)
    for value, name in zip(step.outputs, results, strict=True):
        if all(guesses.isdisjoint(symbols_in(n)) for n in value.type.shape):
            reading.bind(value, name)
    for following in step.followed_by:
        print_step(following, reading)
    capacities = list(map(reading.size, step.guesses))
    returned = f"{tuple_text(capacities)}, {tuple_text(results)}"
    body.line(f"def {attempt}({', '.join(guess_names)}):")
    lines = [*inner.lines, *reading.lines, f"return {returned}"]
    body.lines += indent(lines)
    calls = [module.helper_call("size", *capacity_call(c)) for c in step.capacities]
    rounding = ", ".join([f"lambda size: {call}" for call in calls])
    known = f"GUESSES_{step.index}, [{rounding}]"
    operands = f"[{', '.join(arrays)}], {tuple_text(sizes)}, {attempt}"
    operands += f", {step.first_most}" * (step.first_most > 0)
    body.line(f"{returned} = {module.helper(guessing)}({known}, {operands})")
    body.bind_all(step.outputs, results)
    body.bind_sizes(step.guesses, capacities)


def _bring_to_host(body: PrintedBody, values: list[Value]) -> None:
    """Bring values to the host as NumPy arrays of their dtypes, for host arithmetic."""
    for value in map(body.module.resolve, values):
        if value not in body.on_host and not value.node.primitive.inline:
            name = body.value(value)
            host = body.module.names.unique(f"{name}_host")
            scalar = "[()]" if value.type.rank == 0 else ""
            body.line(f'{host} = np.asarray({name}, "{value.dtype.name}"){scalar}')
            body.on_host[value] = host
