"""Choices per element: by conditions, by numbers, and by interpolation."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Literal

import numpy as np

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.build import as_strong_value, as_value, cast, literal_of
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Array, Printing, op, type_error
from graphc.ir.namespace import F, public
from graphc.ir.types import (
    BOOL,
    INT64,
    JaxArray,
    NDArray,
    TensorType,
    is_integer,
)
from graphc.ops.common.broadcasting import as_inexact, broadcast, promoted
from graphc.ops.common.conditions import BOUNDS, BoundsRule, reporting
from graphc.ops.common.modes import require_mode
from graphc.ops.common.padding import PaddedValue, Padding
from graphc.ops.elementwise.numeric import from_parts


@public()
def select(
    condlist: Sequence[ArrayLike],
    choicelist: Sequence[ArrayLike],
    default: ArrayLike = 0,
) -> Value:
    """Per element, the choice of the first true condition, as `numpy.select`."""
    if len(condlist) != len(choicelist) or not len(condlist):
        got = f"{len(condlist)} conditions, {len(choicelist)} choices"
        raise graph_error("needs a choice per condition", op="select", got=got)
    conditions = [as_value(c) for c in condlist]
    for condition in conditions:
        if condition.dtype != BOOL:
            got = str(condition.type)
            raise graph_error("conditions must be bool arrays", op="select", got=got)
    *values, out = promoted(*choicelist, default)
    for condition, choice in reversed(list(zip(conditions, values, strict=True))):
        out = F.where(condition, choice, out)
    return out


@public()
def piecewise(
    x: ArrayLike,
    condlist: ArrayLike,
    funclist: Sequence[ArrayLike | Callable[..., ArrayLike]],
    *args: object,
    **kw: object,
) -> Value:
    """For each element, the function (or number) of the last true condition.

    If there is one more function than conditions, it is the default; otherwise the
    default is 0. All functions are evaluated on all elements, followed by `args` and
    `kw`, and the result has the dtype of `x`, as in NumPy.
    """
    value = as_strong_value(x)
    condition_list = condlist if isinstance(condlist, (list, tuple)) else [condlist]
    conditions = [cast(as_strong_value(c), BOOL) for c in condition_list]
    extra = len(funclist) - len(conditions)
    if extra not in (0, 1):
        got = f"{len(conditions)} conditions, {len(funclist)} functions"
        problem = "needs a function per condition, and at most one more"
        raise graph_error(problem, op="piecewise", got=got)
    results = [
        cast(as_value(f(value, *args, **kw) if callable(f) else f), value.dtype)
        for f in funclist
    ]
    out = F.broadcast_to(results[-1], value.shape) if extra else F.zeros_like(value)
    for condition, result in zip(conditions, results, strict=False):
        out = F.where(condition, result, out)
    return out


@public()
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Value:
    """Piecewise linear interpolation of the points (xp, fp), where `xp` ascends.

    Outside, the result is `left` or `right`, by default the first and last of `fp`;
    with a `period`, the points repeat. Floating point keeps its precision, as in JAX,
    whereas `numpy.interp` makes all of it float64. Calls raise if `xp` and `fp` differ
    in length.
    """
    at, knots, values = (as_inexact(v) for v in (x, xp, fp))
    if knots.type.rank != 1 or values.type.rank != 1:
        got = f"{knots.type}, {values.type}"
        raise graph_error("needs vectors of points", op="interp", got=got)
    if "c" in (at.dtype.kind, knots.dtype.kind):
        got = f"{at.type}, {knots.type}"
        raise graph_error("x and xp must be real numbers", op="interp", got=got)
    values = F.specify_shape(values, knots.shape)  # one value per knot
    if period is not None:
        at, knots, values = _periodic(at, knots, values, F.absolute(period))
        left = right = None
    last = knots.shape[0] - 1
    i = F.searchsorted(knots, at, side="right") - 1
    i = F.clip(i, 0, F.maximum(last - 1, 0))
    inside = _interpolate(at, knots, values, i, F.minimum(i + 1, last))
    low = values[0] if left is None else left
    high = values[-1] if right is None else right
    inside = F.where(at < knots[0], low, F.where(at > knots[-1], high, inside))
    inside = F.where(F.equal(at, knots[-1]), values[-1], inside)
    return F.where(F.isnan(at), at, inside)


def _interpolate(at: Value, knots: Value, values: Value, i: Value, j: Value) -> Value:
    """The line through points i and j, with NumPy's results for infinite points."""
    if values.dtype.kind == "c":  # a part that is not finite must not spoil the other
        parts = (
            _interpolate(at, knots, part, i, j)
            for part in (F.real(values), F.imag(values))
        )
        return from_parts(*parts)
    x0, x1, y0, y1 = knots[i], knots[j], values[i], values[j]
    slope = (y1 - y0) / (x1 - x0)
    near, far = slope * (at - x0) + y0, slope * (at - x1) + y1
    on = F.where(F.isnan(near), F.where(F.isnan(far) & F.equal(y0, y1), y0, far), near)
    return F.where(F.equal(at, x0), y0, on)


def _periodic(at: Value, knots: Value, values: Value, period: ArrayLike) -> list[Value]:
    """The points of one period, in order, with a neighbour on either side."""
    at, knots = at % period, knots % period
    order = F.argsort(knots)
    knots, values = knots[order], values[order]
    knots = F.concatenate([knots[-1:] - period, knots, knots[:1] + period])
    return [at, knots, F.concatenate([values[-1:], values, values[:1]])]


Mode = Literal["wrap", "clip"]


@op()
def _choose(index: Array, *choices: Array, mode: Mode) -> TensorType:
    """For each element, the choice with the number `index`."""
    if not is_integer(index.dtype) or len({c.dtype for c in choices}) != 1:
        raise type_error("needs integers, and choices of one dtype")
    shape = broadcast(index.type.shape, *(c.type.shape for c in choices))
    return choices[0].type.like(shape)


def _print_choose(p: Printing) -> str:
    (index, *choices), mode = p.inputs, p.code(p.node.params["mode"])
    arrays = f"{index}, [{', '.join(choices)}]"
    if p.on_mesh:
        return p.call(chosen_by_comparing, "jnp", arrays, mode)
    return f"{p.xp}.choose({arrays}, mode={mode})"


def chosen_by_comparing(
    jnp: ModuleType, index: JaxArray, choices: Sequence[JaxArray], mode: str
) -> JaxArray:
    """Printed into programs: as `choose`, which gathers what is spread from a stack."""
    index = index % len(choices) if mode == "wrap" else index
    chosen = choices[-1]
    for k in reversed(range(len(choices) - 1)):
        chosen = jnp.where(index <= k, choices[k], chosen)
    return jnp.broadcast_arrays(chosen, index)[0]


_choose.rounding = "none"
_choose.emit(_print_choose)
_choose.elementwise = _choose.picks = True


@_choose.padding
def _(pad: Padding, index: PaddedValue, *choices: PaddedValue, mode: str) -> Value:
    """Put zeros in the padding, since NumPy wraps large numbers around step by step."""
    chosen = pad.filled(index, sorted(index.axes), 0)
    return _choose(chosen, *(c.value for c in choices), mode=mode)


@_choose.vjp
def _(g: Value, index: Value, *choices: Value, mode: str) -> tuple[Value | None, ...]:
    count = len(choices)
    chosen = index % count if mode == "wrap" else F.clip(index, 0, count - 1)
    zero = F.zeros_like(g)
    return (None, *(F.where(F.equal(chosen, k), g, zero) for k in range(count)))


def _choose_checks(node: Node) -> list[tuple[Value, str]]:
    index, count = node.inputs[0], len(node.inputs) - 1
    if node.params["mode"] != "clip":
        return []
    report = reporting(F.logical_or(index < 0, index >= count), index)
    return [(report, f"choose: a number is not in 0..{count - 1}: {{}}")]


BOUNDS.define(_choose, BoundsRule(_choose_checks))
MOST_CHOICES = 63  # NumPy takes no more


@public(method=True)
def choose(
    index: ArrayLike, choices: Sequence[ArrayLike] | Value, mode: str = "raise"
) -> Value:
    """For each element, the choice with that number, as `numpy.choose`.

    Numbers out of range wrap around with `mode="wrap"`; otherwise they mean the nearest
    choice. "raise", the default, can only raise under `check=True`, or for constants.
    """
    which, values = as_strong_value(index), promoted(*choices) if len(choices) else []
    require_mode(mode, "choose")
    if not 0 < len(values) <= MOST_CHOICES:
        hint = "use gt.take_along_axis on a stack of them" if values else ""
        problem = f"needs 1 to {MOST_CHOICES} choices, not {len(values)}"
        raise graph_error(problem, op="choose", hint=hint)
    if which.dtype == BOOL:
        which = cast(which, INT64)
    known = literal_of(which)
    if mode == "raise" and known is not None and _is_any_outside(known, len(values)):
        raise graph_error(f"a number is not in 0..{len(values) - 1}", op="choose")
    if mode == "clip":
        which = F.clip(which, 0, len(values) - 1)
    return _choose(which, *values, mode="wrap" if mode == "wrap" else "clip")


def _is_any_outside(numbers: NDArray, count: int) -> bool:
    return bool(np.any((numbers < 0) | (numbers >= count)))
