"""Host-driven loops of a JAX program, which run in jitted pieces or step by step.

    def segment_1(going, state, w, rows):
        return loop_jax(jax, body, [going, state], [], [w], rows, ...)

    segment_1 = jax.jit(segment_1, static_argnums=(3,))
    ROWS_1 = {}  # how many there are, by the shape of what a loop is given
    ...
    going_1, end, steps, kept = growing(integer, segment_1, ROWS_1, [True, x], [w], [])

A few operations before a loop become part of its program. They run in the first piece,
which is called with zeros in place of the carries that they compute.

    def segment_1(going, state, opened, w, x, rows):
        def opening(): ...
        going, state = jax.lax.cond(opened, lambda: (going, state), opening)
"""

from functools import partial

from graphc.backends.layout import indent
from graphc.backends.module import Module
from graphc.backends.placing import placed_text, placer
from graphc.backends.program import draw_decorators, print_step, print_steps
from graphc.backends.source import PrintedBody, print_body
from graphc.control.print_loops import growing
from graphc.ir.graph.build import INPUT, tuple_text
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import EMISSION, Printing
from graphc.transform.planning.driver import driver_of
from graphc.transform.planning.plan import (
    JoinedPieces,
    LoopInPieces,
    PythonLoop,
    Segment,
)


def growing_segment(module: Module, segment: LoopInPieces) -> list[str]:
    """The lines of the jitted piece, with a parameter per input and then the sizes."""
    node, carries = segment.loop, segment.loop.params["carries"]
    hints = ["going", *(v.name for v in node.params["body"].content.inputs[1:])]
    input_names = list(map(module.names.unique, hints))
    inputs = list(map(module.resolve, node.inputs[:-1]))
    captured = dict(zip(inputs[carries:], input_names[carries:], strict=True))
    names, body = input_names, PrintedBody(module, "jnp", reads=False)
    first, opened = segment.captures_opened(module.resolve), ""
    if segment.opened:
        arguments = segment.arguments(module.resolve)
        captured |= {v: module.value_name(v) for v in arguments if v not in captured}
        input_names[carries:] = [captured[v] for v in inputs[carries:]]
        opened = module.names.unique("opened")
        names = [*input_names[:carries], opened]
        names += [captured[v] for v in (*first, *arguments)]
    body.bind_all(inputs, input_names)
    body.bind_all(captured, captured.values())
    sizes = [module.size_name(s) for s in segment.statics]
    body.bind_sizes(segment.statics, sizes)
    print_announcement(body, segment)
    if segment.opened:
        pairs = list(zip(inputs, input_names, strict=True))
        _print_opening(body, segment, pairs, opened)
    parameters = (*input_names, input_names[0])  # the first says whether the loop goes
    text = _loop_text(body, node, parameters)
    body.line(module.comment(node.place)[1])
    if segment.opened:
        carried_on = ", ".join(["True", *(captured[v] for v in first)])
        body.line(f"results = {text}")
        body.line(f"return (*results[:{carries}], {carried_on}, *results[{carries}:])")
    else:
        body.line(f"return {text}")
    name = f"segment_{segment.index}"
    statics = ", ".join(str(len(names) + i) for i in range(len(sizes)))
    return [
        *draw_decorators(segment.nodes),
        f"def {name}({', '.join(names + sizes)}):",
        *indent(body.lines),
        "",
        "",
        f"{name} = jax.jit({name}, static_argnums=({statics},))",
        f"ROWS_{segment.index} = {{}}  # how many there are, by shapes",
    ]


def _loop_text(body: PrintedBody, node: Node, operands: tuple[str, ...]) -> str:
    """The expression of a loop with these operands, by the rule of the backend."""
    module = body.module
    print_inner = partial(print_body, module, body.xp, node)
    how = module.helper, print_inner, module.foreigns.add
    p = Printing(node, body.xp, operands, body.code, *how)
    return EMISSION[body.backend].rules[node.primitive](p)


def _print_opening(
    body: PrintedBody,
    segment: LoopInPieces,
    input_names: list[tuple[Value, str]],
    flag: str,
) -> None:
    """Print the operations before the loop as a function inside the first piece."""
    opening = PrintedBody(body.module, "jnp", reads=False)
    for value in segment.inputs:
        opening.bind(value, body.value(value))
    for symbol in segment.statics:
        opening.bind_size(symbol, body.size(symbol))
    for node in segment.nodes[:-1]:
        opening.node(node)
    names_and_values = {name: v for v, name in input_names if v in segment.opened}
    opening.line(f"return {tuple_text(map(opening.value, names_and_values.values()))}")
    names = tuple_text(names_and_values)
    targets = ", ".join(names_and_values) + "," * (len(names_and_values) == 1)
    body.lines += ["", "def opening():", *indent(opening.lines), ""]
    body.line(f"{targets} = jax.lax.cond({flag}, lambda: {names}, opening)")


@print_step.register
def _(step: LoopInPieces, body: PrintedBody) -> None:
    """Print the line of the driver that runs the loop to its end."""
    node, resolve = step.loop, body.module.resolve
    sizes = ", ".join(map(body.size, step.statics[:-1]))
    carries = node.params["carries"]
    state = [*node.inputs[:carries]]
    names = [body.module.value_name(v) for v in node.outputs]
    targets = [*names]
    if step.opened:
        captured = step.captures_opened(resolve)
        arguments = [_carry_text(body, step, v) for v in (*state, *captured)]
        arguments.insert(carries, "np.False_")
        targets[carries:carries] = ["_"] * (1 + len(captured))
    else:
        arguments = [_argument_text(body, v) for v in state]
    first = ", ".join(arguments)
    captures = ", ".join([_argument_text(body, v) for v in step.arguments(resolve)])
    function, k = body.module.helper(growing), step.index
    arguments_text = f"[{first}], [{captures}], [{sizes}]"
    call = f"{function}(integer, segment_{k}, ROWS_{k}, {arguments_text})"
    body.line(f"{', '.join(targets)} = {call}")
    body.bind_all(node.outputs, names)


def _carry_text(body: PrintedBody, step: LoopInPieces, value: Value) -> str:
    """A carry as the first piece gets it: zeros where that piece computes it."""
    value = body.module.resolve(value)
    if value not in step.opened:
        return _argument_text(body, value)
    return f"np.zeros({body.code(value.type.shape)}, {body.code(value.dtype)})"


@print_step.register
def _(step: PythonLoop, body: PrintedBody) -> None:
    """Print the line that runs a loop step by step, as NumPy programs do."""
    node, module = step.node, body.module
    _print_step_function(module, step)
    arguments = [_argument_text(body, v) for v in node.inputs]
    rows = node.params["carries"], node.params["carries"] + node.params["sequences"]
    arguments[slice(*rows)] = [f"np.asarray({x})" for x in arguments[slice(*rows)]]
    body.line(module.comment(node.place)[1])
    text = _loop_text(body, node, tuple(arguments))
    if not node.primitive.driven:  # a driven loop returns pieces, not arrays
        text = f"map({placer(module)}, {text})"
    names = [module.value_name(v) for v in node.outputs]
    target = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
    body.line(f"{target} = {text}  # {module.type_text(node.outputs[0])}")
    body.bind_all(node.outputs, names)


def _print_step_function(module: Module, loop: PythonLoop) -> None:
    """Print the function of one step of a host-driven loop: a driver of its own."""
    inner, driver = loop.node.params["body"].content, driver_of(loop.body)
    if inner in module.functions:
        return
    name = module.names.unique("step")
    module.functions[inner] = name, []
    names = list(map(module.value_name, driver.graph.inputs))
    sizes = list(map(module.size_name, loop.sizes))
    body = PrintedBody(module, "np", reads=True)
    body.bind_sizes(loop.sizes, sizes)
    print_steps(body, driver, names)
    results = [body.value(driver.resolve(r.value)) for r in driver.results]
    body.line(f"return {tuple_text(results)}")
    head = f"def {name}({', '.join([*names, *sizes])}):"
    module.functions[inner] = name, [head, *indent(body.lines)]


def _argument_text(body: PrintedBody, value: Value) -> str:
    """The text of a value as the loop will return it: a number gets its dtype."""
    text = body.value(body.module.resolve(value))
    if value.node.primitive is INPUT and not value.type.rank:
        return placed_text(body.module, text, value.dtype.name)
    return text


@print_step.register
def _(step: JoinedPieces, body: PrintedBody) -> None:
    """Print the output of the loop as an array of JAX, from the driver's pieces."""
    node = step.node
    body.node(node)
    (value,) = node.outputs
    name = body.value(value)
    if not node.params["joined"]:
        body.line(f"{name} = {placed_text(body.module, name, value.dtype.name)}")


def print_announcement(body: PrintedBody, segment: Segment) -> None:
    """Print the call that tells which sizes this compilation is for."""
    known = [s for s in segment.keys if body.knows(s)]
    sizes = "".join(f", {body.module.size_name(s)}={body.size(s)}" for s in known)
    body.line(f"compiling({segment.index}{sizes})")
