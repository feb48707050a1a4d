"""`cond` and `switch`: one of several graphs, chosen when the program runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphc.control.carries import ask, fresh, in_form, parts, value_of
from graphc.control.checks import BodyCheck, checked, held, taken_out
from graphc.control.pytree import flatten, unflatten
from graphc.control.scan import used_between
from graphc.errors import graph_error
from graphc.ir.build import as_value, cast, variable
from graphc.ir.dims import Size
from graphc.ir.graph import Node, Value
from graphc.ir.inner import Body, BodyCall, close
from graphc.ir.namespace import F, public
from graphc.ir.op import Array, Opaque, Printing, op, type_error
from graphc.ir.replay import region_between, replayed
from graphc.ir.types import BOOL, INT32, TensorType, is_integer
from graphc.ir.walk import ancestors
from graphc.ops.common.batching import Batched, spread, where_each
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.transform.loops.branch_sizes import fit, size_of_branch
from graphc.transform.loops.gradient_common import pulled
from graphc.transform.vectorize import vmap

Branch = Callable[[list[Value]], list[Value]]


@op()
def _switch(
    index: Array, *values: Array, branches: Opaque, sizes: tuple[Size, ...]
) -> tuple[TensorType, ...]:
    """The results of the branch of a number; numbers out of range are clamped."""
    if index.type.rank or index.dtype != INT32:
        raise type_error("the branch is chosen by an integer scalar")
    given = [v.type for v in values]
    return tuple(branches.content[0].types(given, sizes))


def switch_numpy(index: Any, branches: Any, values: Any) -> Any:
    """Printed into NumPy programs."""
    return branches[min(max(int(index), 0), len(branches) - 1)](*values)


def switch_jax(
    jax: Any, index: Any, branches: Any, values: Any, sizes: Any
) -> Any:
    """Printed into JAX programs."""

    def chosen(branch: Any) -> Any:
        return lambda *values: branch(*values, *sizes)

    return jax.lax.switch(index, [chosen(b) for b in branches], *values)


def _print_switch(p: Printing) -> str:
    params = p.node.params
    branches = ", ".join(map(p.inner, params["branches"].content))
    index, *values = p.inputs
    sizes = list(map(p.code, params["sizes"]))
    if p.xp == "np":
        listed = ", ".join([*values, *sizes])
        return f"{p.helper(switch_numpy)}({index}, [{branches}], [{listed}])"
    parts = f"[{', '.join(values)}], [{', '.join(sizes)}]"
    return f"{p.helper(switch_jax)}(jax, {index}, [{branches}], {parts})"


SWITCH = _switch
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
    """Every branch is given the same."""
    types, params = [v.type for v in node.inputs[1:]], node.params
    return [BodyCall(b, types, params["sizes"]) for b in params["branches"].content]


_switch.body_calls = _body_calls


@_switch.padding
def _(pad: Padding, index: PaddedValue, *values: PaddedValue, **params: Any) -> Any:
    def made(call: BodyCall) -> Branch:
        def branch(taken: list[Value]) -> list[Value]:
            pairs = zip(values, taken, strict=True)
            own = [replace(x, value=v) for x, v in pairs]
            return [x.value for x in pad.body(call, own)]

        return branch

    calls = pad.node.primitive.body_calls(pad.node)
    given = [x.value for x in values]
    return tuple(run_switch(index.value, [made(call) for call in calls], given))


@_switch.vjp
def _(
    g: Any, index: Value, *values: Value, wanted: list[bool], **params: Any
) -> tuple[Value | None, ...]:
    bodies: tuple[Body, ...] = params["branches"].content
    cotangents = list(g) if isinstance(g, tuple) else [g]
    given = [c for c in cotangents if c is not None]
    asked = [i for i in range(len(values)) if wanted[i + 1]]

    def back(body: Body) -> Branch:
        def slopes(taken: list[Value]) -> list[Value]:
            own, rest = taken[: len(values)], iter(taken[len(values) :])
            of_outputs = [None if c is None else next(rest) for c in cotangents]
            return pulled(body, params["sizes"], own, of_outputs, asked)

        return slopes

    made = run_switch(index, [back(body) for body in bodies], [*values, *given])
    result: list[Value | None] = [None] * len(values)
    for i, d in zip(asked, made, strict=True):
        result[i] = d
    return (None, *result)


@_switch.batch
def _(n: Size, batched: Batched, index: Value, *values: Value, **params: Any) -> Any:
    """Where examples choose for themselves, all branches are computed."""
    bodies: tuple[Body, ...] = params["branches"].content
    sizes = params["sizes"]
    many = [spread(n, b, v) for b, v in zip(batched[1:], values, strict=True)]

    def mapped(body: Body) -> Branch:
        return lambda taken: list(vmap(lambda *one: body.call(one, sizes))(*taken))

    if not batched[0]:
        return tuple(run_switch(index, [mapped(body) for body in bodies], many))
    found = [mapped(body)(many) for body in bodies]
    results = found[-1]
    for k in range(len(bodies) - 2, -1, -1):
        chosen = index <= k
        results = [
            where_each(chosen, new, old)
            for new, old in zip(found[k], results, strict=True)
        ]
    return tuple(results)


def run_switch(
    index: Value, branches: Sequence[Branch], values: Sequence[Value]
) -> list[Value]:
    """The switch of functions of lists of values."""
    variables = [fresh(v) for v in values]
    taken = [taken_out(branch(variables), variables) for branch in branches]
    checks = [check for _, own in taken for check in own]
    made = [[*outputs, *_of_all(own, checks)] for outputs, own in taken]
    counts = [len(outputs) for outputs in made]
    flat = [v for outputs in made for v in outputs]
    # A value that no branch uses is no input: a cotangent would seem to depend on it.
    used = used_between(flat, variables)
    values = [v for v, own in zip(values, variables, strict=True) if own in used]
    variables = [own for own in variables if own in used]
    together, captures, sizes = close(flat, variables, "switch")
    rest = iter(together.outputs)
    given, size_params = together.inputs, together.size_params
    bodies = tuple(
        Body(given, size_params, tuple([next(rest) for _ in range(n)])) for n in counts
    )
    node = _switch.bind(
        (index, *values, *captures),
        {"branches": Opaque("branches", bodies), "sizes": tuple(sizes)},
    )
    found = node.outputs[: len(taken[0][0])]
    return checked(found, node.outputs[len(found) :], checks)


def _of_all(own: list[BodyCheck], checks: list[BodyCheck]) -> list[Value]:
    """Whether each check held in a branch; checks of other branches are not made."""
    flags = held(checks)
    pairs = zip(checks, flags, strict=True)
    return [c.condition if any(c is o for o in own) else true for c, true in pairs]


def _agreeing(made: list[list[Value]], index: Value, op: str) -> list[list[Value]]:
    """Outputs of branches in one type each, of the size of the branch that is taken.

    Python numbers adapt.
    """
    columns = []
    for k, column in enumerate(zip(*made, strict=True)):
        strong_ones = [v for v in column if not v.type.weak]
        like = strong_ones[0] if strong_ones else value_of(column[0])
        cast_to = [cast(v, like.dtype) if v.type.weak else v for v in column]
        for i, value in enumerate(cast_to):
            if value.dtype != like.dtype or value.type.rank != like.type.rank:
                raise graph_error(
                    f"branches return different types in place {k}",
                    op=op,
                    got=f"{value.type} of branch {i}",
                    expected=f"{like.type}",
                )
        axes = zip(*(v.type.shape for v in cast_to), strict=True)
        shape = tuple([size_of_branch(index, sizes) for sizes in axes])
        columns.append([fit(v, shape) for v in cast_to])
    return [list(row) for row in zip(*columns, strict=True)] if columns else made


def _choose(
    index: Value, branches: Sequence[Callable[..., Any]], operands: Any, op: str
) -> Any:
    values, form = parts(list(operands))
    variables = [fresh(v) for v in values]
    start = variable("start", TensorType(INT32, ())).node.serial
    taken = unflatten(form, variables)
    results = [ask(branch, taken, op, "a branch") for branch in branches]
    like = results[0]
    problem = "branches return different structures"
    alike = [in_form(result, like, problem, op) for result in results]
    made = [flatten(result, leaf=as_value, none=True)[0] for result in alike]
    agreed = _agreeing(made, index, op)
    within = ancestors([v for outputs in agreed for v in outputs])
    within = [node for node in within if node.serial > start]
    sizes = [v for node in within for v in node.demands]
    if used_between(sizes, variables) & set(variables):
        # Sizes are known outside only if the values that they depend on are there.
        given = unflatten(form, values)
        closed = [partial(branch, *given) for branch in branches]
        return _choose(index, closed, (), op)
    staying = set(ancestors(sizes))
    taken = _taken(within, staying, {*variables, *sizes})
    inners = [_of(outputs, [*variables, *taken], staying) for outputs in agreed]
    return unflatten(like, run_switch(index, inners, [*values, *taken]))


def _taken(within: list[Node], staying: set[Node], own: set[Value]) -> list[Value]:
    """The captures of branches, chosen so that values computed from them stay inside.

    Sizes are needed outside, so the nodes that they depend on are `staying` there.
    """
    inside = {n for n in within if n not in staying and n.inputs}
    used = [v for n in within if n in inside for v in n.inputs]
    found = [v for v in used if v.node not in inside and v not in own]
    literal = [v for v in found if v.node.primitive.inline and not v.node.inputs]
    return [v for v in dict.fromkeys(found) if v not in set(literal)]


def _of(outputs: list[Value], variables: list[Value], staying: set[Node]) -> Branch:
    """A traced branch as a function of other values; some nodes stay as they are."""
    region = [n for n in region_between(outputs, variables) if n not in staying]

    def branch(values: list[Value]) -> list[Value]:
        return replayed(outputs, dict(zip(variables, values, strict=True)), region)

    return branch


@public()
def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any) -> Any:
    """`true_fun(*operands)` where `pred` holds, else `false_fun(*operands)`.

    As `jax.lax.cond`: only one of them is computed, unless under `vmap`. Values from
    outside are found by themselves; both return the same structure, dtypes and ranks.
    Where their sizes differ, the result has those of the branch taken: they are known
    when `pred` is, and read from the device where that depends on data.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.scalar("x")
    >>> y = gt.cond(x > 0, lambda: gt.log(x), lambda: x * 0)
    >>> f = graphc.function([x], graphc.grad(y, x), backend="numpy")
    >>> print(f(4.0), f(-1.0))
    0.25 0.0
    >>> v, k = gt.vector("v"), gt.iscalar("k")
    >>> head = gt.cond(k > 0, lambda: v[:k], lambda: v)
    >>> f = graphc.function([v, k], head, backend="numpy")
    >>> f(np.ones(3, "float32"), 2).shape, f(np.ones(3, "float32"), 0).shape
    ((2,), (3,))
    """
    test = as_value(pred)
    if test.type.rank:
        hint = "use gt.where, which chooses element by element"
        problem = "the condition must be a scalar"
        raise graph_error(problem, op="cond", got=str(test.type), hint=hint)
    index = cast(cast(test, BOOL), INT32)
    return _choose(index, [false_fun, true_fun], operands, "cond")


@public()
def switch(index: Any, branches: Sequence[Any], *operands: Any) -> Any:
    """`branches[index](*operands)`, as `jax.lax.switch`; the index is clamped.

    >>> import graphc, graphc.tensor as gt
    >>> i, x = gt.iscalar("i"), gt.scalar("x")
    >>> y = gt.switch(i, [lambda: x, lambda: x * x, lambda: -x])
    >>> print(graphc.function([i, x], y, backend="numpy")(1, 3.0))
    9.0
    """
    value = as_value(index)
    if value.type.rank or not is_integer(value.dtype):
        problem = "the index must be an integer scalar"
        raise graph_error(problem, op="switch", got=str(value.type))
    if not branches:
        raise graph_error("needs at least one branch", op="switch")
    clamped = F.clip(value_of(value), 0, len(branches) - 1)
    return _choose(cast(clamped, INT32), list(branches), operands, "switch")
