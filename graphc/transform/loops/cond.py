"""`gt.cond` and `gt.switch`: one of several functions, chosen when the program runs."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from graphc.control.carries import (
    adapt_number,
    call_user,
    flatten_numbers,
    ordered_like,
    variable_like,
)
from graphc.control.pytree import flatten, unflatten
from graphc.control.scan import values_used
from graphc.control.switch import Branch, nodes_of_branches, run_switch
from graphc.errors import graph_error, shortened
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, as_value, cast, variable
from graphc.ir.graph.interning import recording_shared
from graphc.ir.graph.nodes import Node, Value, is_literal
from graphc.ir.graph.replay import region_between, replayed
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import F, public
from graphc.ir.types import BOOL, INT32, DType, TensorType, is_integer, name_of
from graphc.ops.common.broadcasting import common_dtype
from graphc.ops.effects.host_calls import CALLS
from graphc.transform.loops.branch_sizes import fit_branch_result, size_of_branch


def _common_outputs(
    results: list[list[Value]], index: Value, op: str
) -> list[list[Value]]:
    """Bring the branches' outputs to common types, with the sizes of the branch taken.

    Python numbers take the dtype of the arrays in their place.
    """
    columns = []
    for k, column in enumerate(zip(*results, strict=True)):
        strong_ones = [v for v in column if not v.type.weak]
        like = (
            strong_ones[0] if strong_ones else cast(column[0], common_dtype([*column]))
        )
        cast_to = [adapt_number(v, like.dtype) for v in column]
        for i, value in enumerate(cast_to):
            if value.dtype != like.dtype or value.type.rank != like.type.rank:
                raise graph_error(
                    f"branches return different types in position {k}",
                    op=op,
                    got=f"{value.type} from branch {i}",
                    expected=f"{like.type}",
                    hint=f'convert it: gt.asarray(y, "{name_of(like.dtype)}")'
                    * (value.type.rank == like.type.rank),
                )
        axes = zip(*(v.type.shape for v in cast_to), strict=True)
        shape = tuple([size_of_branch(index, sizes) for sizes in axes])
        columns.append([fit_branch_result(v, shape) for v in cast_to])
    return [list(row) for row in zip(*columns, strict=True)] if columns else results


def _weak_as_given(results: Sequence[Value], outputs: list[list[Value]]) -> list[Value]:
    """Make a result weak where all branches gave a Python number for it."""
    columns = zip(results, zip(*outputs, strict=True), strict=True)
    return [
        cast(v, max((w.dtype for w in column), key=_rank_of_kind), True)
        if all(w.type.weak for w in column)
        else v
        for v, column in columns
    ]


def _rank_of_kind(dtype: DType) -> int:
    return "uifc".index(dtype.kind)


def _run_chosen(
    index: Value,
    branches: Sequence[Callable[..., object]],
    operands: Sequence[object],
    op: str,
) -> object:
    operand_parts, form = flatten_numbers(list(operands))
    values = [v for v in operand_parts if not v.type.weak]
    variables = [variable_like(v) for v in values]
    start = variable("start", TensorType(INT32, ())).node.serial
    fresh_variables = iter(variables)
    arguments = unflatten(
        form, [v if v.type.weak else next(fresh_variables) for v in operand_parts]
    )
    with recording_shared() as shared:
        results = [call_user(branch, arguments, op, "a branch") for branch in branches]
        like = results[0]
        problem = "branches return different structures"
        alike = [ordered_like(result, like, problem, op) for result in results]
        result_parts = [flatten(r, leaf=as_value, none=True)[0] for r in alike]
        agreed = _common_outputs(result_parts, index, op)
    within = ancestors([v for outputs in agreed for v in outputs])
    # Nodes that a branch asked for are its own, even where equal nodes existed before.
    within = [node for node in within if node.serial > start or node in shared]
    sizes = [v for node in within for v in node.demands]
    if values_used(sizes, variables) & set(variables):
        # Sizes can be known outside only if they depend on outer values, not on
        # variables.
        closed = [
            partial(branch, *unflatten(form, operand_parts)) for branch in branches
        ]
        return _run_chosen(index, closed, (), op)
    staying = set(ancestors(sizes))
    built = nodes_of_branches(chain(*agreed), start, shared)
    local_nodes = [node for node in built if node not in staying]
    captures = _captures_of_branches(within, staying, {*variables, *sizes}, local_nodes)
    inners = [
        _as_function(outputs, [*variables, *captures], staying) for outputs in agreed
    ]
    chosen = run_switch(index, inners, [*values, *captures], local_nodes)
    return unflatten(like, _weak_as_given(chosen, result_parts))


def _captures_of_branches(
    within: list[Node],
    staying: set[Node],
    variables: set[Value],
    local_nodes: Iterable[Node],
) -> list[Value]:
    """The captures of branches, chosen so that values computed from them stay inside.

    Sizes are needed outside, so the nodes that they depend on stay there: `staying`. A
    call of a user's function may raise an error, so it stays inside even where it
    depends on literals alone.
    """
    inside = {n for n in within if n not in staying and n.inputs}
    inside.update(local_nodes)
    operands = [v for n in within if n in inside for v in n.inputs]
    outer_values = [v for v in operands if v.node not in inside and v not in variables]
    literal = set(filter(is_literal, outer_values))
    literal -= _literals_of_calls(
        within, inside, literal, {*outer_values, *variables} - literal
    )
    return [v for v in dict.fromkeys(outer_values) if v not in literal]


def _literals_of_calls(
    within: list[Node], inside: set[Node], literal: set[Value], variables: set[Value]
) -> set[Value]:
    """The literals that reach user functions whose inputs depend on literals alone."""
    constants: dict[Node, set[Value]] = {}  # nodes inside that depend on literals alone
    fed: set[Value] = set()
    for node in within:
        if node not in inside or not variables.isdisjoint(node.inputs):
            continue
        if all(v in literal or v.node in constants for v in node.inputs):
            parts = (constants.get(v.node, {v}) for v in node.inputs)
            constants[node] = set().union(*parts)
            if node.primitive in CALLS:
                fed |= constants[node]
    return fed


def _as_function(
    outputs: list[Value], variables: list[Value], staying: set[Node]
) -> Branch:
    """Turn a traced branch into a function of `variables`; keep `staying` as it is."""
    region = [n for n in region_between(outputs, variables) if n not in staying]

    def branch(values: list[Value]) -> list[Value]:
        return replayed(outputs, dict(zip(variables, values, strict=True)), region)

    return branch


@public()
def cond(pred: object, true_fun: Any, false_fun: Any, *operands: object) -> Any:
    """Return `true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`.

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

    Like `jax.lax.cond`, it computes only one of them, except under `vmap`. Values from
    outside are found automatically; both functions return the same structure, dtypes
    and ranks. Where their sizes differ, the result has the sizes of the branch taken:
    they are known when `pred` is, and read from the device where `pred` depends on
    data.
    """
    test = as_value(pred)
    if test.type.rank:
        hint = "use gt.where, which chooses element by element"
        problem = "the condition must be a scalar"
        raise graph_error(problem, op="cond", got=str(test.type), hint=hint)
    index = cast(cast(test, BOOL), INT32)
    return _run_chosen(index, [false_fun, true_fun], operands, "cond")


@public()
def switch(
    index: ArrayLike, branches: Sequence[Callable[..., object]], *operands: object
) -> Any:
    """Return `branches[index](*operands)`, the index clamped, like `jax.lax.switch`.

    >>> import graphc, graphc.tensor as gt
    >>> i, x = gt.iscalar("i"), gt.scalar("x")
    >>> y = gt.switch(i, [lambda: x, lambda: x * x, lambda: -x])
    >>> print(graphc.function([i, x], y, backend="numpy")(1, 3.0))
    9.0
    """
    value = as_value(index)
    if value.type.rank or not is_integer(value.dtype):
        problem = "the index must be an integer scalar"
        hint = "" if value.type.rank else 'convert it: index.astype("int64")'
        raise graph_error(problem, op="switch", got=str(value.type), hint=hint)
    if not isinstance(branches, (list, tuple)):
        raise graph_error(
            "branches must be a list of functions",
            op="switch",
            got=shortened(repr(branches)),
            hint="gt.switch(index, [lambda: a, lambda: b])",
        )
    if not branches:
        raise graph_error("needs at least one branch", op="switch")
    strong = as_strong_value(value)
    # Of a narrow index, the dtype may not hold the number of the last branch.
    wide = cast(strong, INT32) if strong.dtype.itemsize < 4 else strong
    clamped = F.clip(wide, 0, len(branches) - 1)
    return _run_chosen(cast(clamped, INT32), list(branches), operands, "switch")
