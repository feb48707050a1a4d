"""The primitive of branches: one of several graphs, chosen when the program runs.

`run_switch` makes its node; `gt.cond` and `gt.switch` are in `transform.loops.cond`.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from types import ModuleType

from graphc.control.carries import variable_like
from graphc.control.checks import BodyCheck, initial_flags, take_out_checks, with_checks
from graphc.control.fitting_branches import (
    NUMBERED,
    branch_that_fits,
    may_misfit,
    numbers_of,
    switch_of_fitting,
)
from graphc.control.scan import values_used
from graphc.ir.graph.bodies import Body, BodyCall, close_body
from graphc.ir.graph.build import variable
from graphc.ir.graph.interning import recording_shared
from graphc.ir.graph.nodes import Node, Value, divisors_of
from graphc.ir.graph.op import Array, Opaque, Printing, op, type_error
from graphc.ir.graph.walk import ancestors, operands
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size
from graphc.ir.types import INT32, JaxArray, NDArray, TensorType
from graphc.ops.common.padding import PaddedValue, Padding, Rebuilt

Branch = Callable[[list[Value]], list[Value]]


@op()
def _switch(
    index: Array, *values: Array, branches: Opaque, sizes: tuple[Size, ...]
) -> tuple[TensorType, ...]:
    """The results of the branch at `index`; an index out of range is clamped."""
    if index.type.rank or index.dtype != INT32:
        raise type_error("the branch must be chosen by an int32 scalar")
    input_types = [v.type for v in values]
    first, *others = [tuple(b.types(input_types, sizes)) for b in branches.content]
    for other in others:
        alike = len(first) == len(other) and all(map(TensorType.same, first, other))
        if not alike:
            raise type_error("the branches return different types")
    return first


def switch_numpy(
    index: NDArray,
    branches: Sequence[Callable[..., NDArray]],
    values: Sequence[NDArray],
) -> NDArray:
    """Printed into NumPy programs."""
    return branches[min(max(int(index), 0), len(branches) - 1)](*values)


def switch_jax(
    jax: ModuleType,
    index: JaxArray,
    branches: Sequence[Callable[..., JaxArray]],
    values: Sequence[JaxArray],
    sizes: Sequence[object],
) -> JaxArray:
    """Printed into JAX programs."""

    def chosen(branch: Callable[..., JaxArray]) -> Callable[..., JaxArray]:
        return lambda *values: branch(*values, *sizes)

    return jax.lax.switch(index, [chosen(b) for b in branches], *values)


def _print_switch(p: Printing) -> str:
    params = p.node.params
    branches = ", ".join(map(p.inner, params["branches"].content))
    index, *values = p.inputs
    sizes, numbers = list(map(p.code, params["sizes"])), numbers_of(p.node)
    if p.xp == "np":
        listed = ", ".join([*values, *sizes])
        if any(numbers):
            call = f"{p.helper(branch_that_fits)}({index}, [{branches}], [{listed}]"
            return f"{call}, {numbers})"
        return p.call(switch_numpy, index, f"[{branches}]", f"[{listed}]")
    parts = f"[{', '.join(values)}], [{', '.join(sizes)}]"
    if may_misfit(p.node):
        call = f"{p.helper(switch_of_fitting)}(jax, {index}, [{branches}]"
        more = f", {numbers}" if any(numbers) else ""
        return f"{call}, {parts}, {p.tells_misfits}{more})"
    return p.call(switch_jax, "jax", index, f"[{branches}]", parts)


SWITCH = _switch
_switch.rounding = "stored"
_switch.several = True
_switch.on_host = False
_switch.selective = True
_switch.emit(_print_switch)


def _views(node: Node) -> Iterator[tuple[Value, Value]]:
    for body in node.params["branches"].content:
        yield from zip(body.inputs, node.inputs[1:], strict=True)
        yield from zip(node.outputs, body.outputs, strict=True)


_switch.views = _views


def _body_calls(node: Node) -> list[BodyCall]:
    """Return the calls of the branches, which all get the same inputs."""
    types, params = [v.type for v in node.inputs[1:]], node.params
    return [BodyCall(b, types, params["sizes"]) for b in params["branches"].content]


_switch.body_calls = _body_calls


@_switch.padding
def _(
    pad: Padding, index: PaddedValue, *values: PaddedValue, **params: Param
) -> Rebuilt:
    numbers: dict[int, tuple[int, ...]] = {}

    def padded_branch(i: int, call: BodyCall) -> Branch:
        def branch(taken: list[Value]) -> list[Value]:
            pairs = zip(values, taken, strict=True)
            branch_inputs = [replace(x, value=v) for x, v in pairs]
            outputs, numbers[i] = pad.branch(call, branch_inputs)
            return outputs

        return branch

    calls = pad.node.primitive.body_calls(pad.node)
    inputs = [x.value for x in values]
    branches = [padded_branch(i, call) for i, call in enumerate(calls)]

    def numbered() -> Value:
        needed = tuple([numbers[i] for i in range(len(branches))])
        return NUMBERED(index.value, numbers=needed) if any(needed) else index.value

    return tuple(run_switch(numbered, branches, inputs))


def reports_misfits(nodes: Iterable[Node]) -> bool:
    """Whether a segment of these nodes may have to report branches that do not fit."""
    return any(node.primitive is SWITCH and may_misfit(node) for node in nodes)


def run_switch(
    index: Value | Callable[[], Value],
    branches: Sequence[Branch],
    values: Sequence[Value],
    local_nodes: Iterable[Node] = (),
) -> list[Value]:
    """Switch between functions of lists of values.

    An `index` that depends on the branches is a function, which is called after them.
    Nodes of sizes and literals alone stay in a branch if they may be errors: those of
    `local_nodes`, and those that the branches build.
    """
    variables = [variable_like(v) for v in values]
    start = variable("start", TensorType(INT32, ())).node.serial
    with recording_shared() as shared:
        results = [branch(variables) for branch in branches]
        roots = {*local_nodes, *nodes_of_branches(chain(*results), start, shared)}
        taken = [take_out_checks(outputs, variables, roots) for outputs in results]
    checks = [check for _, branch_checks in taken for check in branch_checks]
    checked_outputs = [
        [*outputs, *_conditions_of(branch_checks, checks)]
        for outputs, branch_checks in taken
    ]
    counts = [len(outputs) for outputs in checked_outputs]
    flat = [v for outputs in checked_outputs for v in outputs]
    # A value that no branch uses is no input: a cotangent would seem to depend on it.
    used = values_used(flat, variables)
    values = [v for v, x in zip(values, variables, strict=True) if x in used]
    variables = [x for x in variables if x in used]
    together, captures, sizes = close_body(flat, variables, "switch", roots=roots)
    body_outputs = iter(together.outputs)
    body_inputs, size_params = together.inputs, together.size_params
    bodies = tuple(
        Body(body_inputs, size_params, tuple([next(body_outputs) for _ in range(n)]))
        for n in counts
    )
    number = index if isinstance(index, Value) else index()
    node = _switch.bind(
        (number, *values, *captures),
        {"branches": Opaque("branches", bodies), "sizes": tuple(sizes)},
    )
    outputs = node.outputs[: len(taken[0][0])]
    return with_checks(outputs, node.outputs[len(outputs) :], checks)


def nodes_of_branches(
    outputs: Iterable[Value], start: int, shared: Container[Node]
) -> list[Node]:
    """The nodes that branches build from sizes and literals, and that may be errors.

    These are newer than the serial number `start`, or `shared` with nodes from before.
    """

    def is_built(value: Value) -> bool:
        return value.node.serial > start or value.node in shared

    nodes = ancestors(
        filter(is_built, outputs), lambda node: filter(is_built, operands(node))
    )
    return list(filter(_may_fail, nodes))


def _may_fail(node: Node) -> bool:
    """Whether a node is a check, or depends on sizes alone, which may not fit it."""
    if node.inputs:
        return node.primitive.checks
    return bool(divisors_of(node)) or not all(g.memory for g in node.guards)


def _conditions_of(
    branch_checks: list[BodyCheck], checks: list[BodyCheck]
) -> list[Value]:
    """The condition of each of `checks`; a check of another branch holds by default."""
    flags = initial_flags(checks)
    pairs = zip(checks, flags, strict=True)
    return [
        c.condition if any(c is o for o in branch_checks) else true for c, true in pairs
    ]
