"""Nodes that devices compute on their own parts, printed as `jax.shard_map` functions.

def on_part(x):
    cumsum = after_parts_before(jax, [jnp.cumsum(x, axis=0)], ..., 'data')[0]
    return (cumsum,)
(cumsum,) = jax.shard_map(on_part, mesh=MESH, in_specs=..., out_specs=...)(x)
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager

from graphc.backends.layout import indent
from graphc.backends.sharding.neighbours import rows_joined, rows_written
from graphc.backends.sharding.spread_ops import (
    after_parts_before,
    extreme_of_parts,
    joined_by,
    joined_recurrences,
    order_over_parts,
    picked_of_parts,
    sorted_over_parts,
    top_of_parts,
)
from graphc.backends.sharding.text import constraint_text, specs_text
from graphc.backends.source import PrintedBody
from graphc.control.scan import SCAN
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import EMISSION, Printing
from graphc.ir.primitives import OP
from graphc.ir.rules import RuleTable
from graphc.ops.common.narrow_integers import widened_text
from graphc.ops.common.spread import extreme, finds_nan_by_sum
from graphc.ops.indexing.parse import is_adjacent
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.combining import EXTREMES, Combined, combination
from graphc.transform.sharding.layout import MeshLayout, whole_axes
from graphc.transform.sharding.messages import Follower
from graphc.transform.sharding.neighbours import shift_of, written_slice
from graphc.transform.sharding.sent import Messages
from graphc.transform.sharding.whole import Gathered, needed_whole

COMBINING: RuleTable[Callable[[Printing, Combined], str]] = RuleTable(
    "text of what devices do on their parts, and how they combine"
)
NEIGHBOURS: RuleTable[Callable[[Printing], str]] = RuleTable(
    "text of rows between others, of which devices send few"
)
_MERGES = {
    "set": "lambda x, rows: rows",
    "add": "jnp.add",
    "multiply": "jnp.multiply",
    "min": "jnp.minimum",
    "max": "jnp.maximum",
}
_JOINS = {
    OP.cumsum: "jnp.add",
    OP.cumprod: "jnp.multiply",
    OP.cummax: "jnp.maximum",
    OP.cummin: "jnp.minimum",
    OP.cumlogsumexp: "jnp.logaddexp",
}


def print_on_mesh(body: PrintedBody, follower: Follower, node: Node) -> None:
    """Print a node and follow it, so that results of moved arrays stay where they lie.

    The follower knows where the inputs of the node lie.
    """
    moves, masks = follower.find_moves(node), follower.masks_of_whole(node)
    operands = {v: axes for v, axes in moves.items() if not follower.is_made(v)}
    operands |= {v: whole_axes(v) for v in masks}
    if not _print_on_parts(body, follower, node, operands):
        body.node(node)
    follower.follow(node, Messages())
    if (moves or masks) and node.primitive is not SCAN:
        arrays = [v for v in node.outputs if v.type.rank and not follower.is_made(v)]
        _print_constraints(body, {v: follower.place(v) for v in arrays})
    laid = follower.whole_masks | follower.pinned
    _print_constraints(body, {v: follower.place(v) for v in node.outputs if v in laid})


def _print_on_parts(
    body: PrintedBody,
    follower: Follower,
    node: Node,
    operands: Mapping[Value, MeshAxes],
) -> bool:
    """Print a node that devices compute on their parts or that arrays are moved for.

    Return False, with nothing printed, if the node is neither.
    """
    layout = follower.layout
    combines = combination(layout, node)
    if combines is not None:
        text = COMBINING.rules[node.primitive]
        body_start = len(body.lines)
        body.node(node, lambda p: text(p, combines))
        _print_as_part(body, body_start, combines.inputs, combines.outputs, sends=True)
        return True
    if node.primitive in EXTREMES and layout.of(node.inputs[0]) is not None:
        _print_extreme(body, follower, node)
        return True
    if _is_spread_along_shift(layout, node):
        body.node(node, NEIGHBOURS.rules[node.primitive])
        return True
    needs = needed_whole(layout, node)
    if needs is not None:
        _print_gathered(body, follower, needs)
    elif operands:
        with _laid_out(body, follower, operands):
            body.node(node)
        if node.primitive is SCAN:
            places = {v: layout.of(v) for v in node.outputs}
            spread = {v: axes for v, axes in places.items() if axes and any(axes)}
            _print_constraints(body, spread)
    return needs is not None or bool(operands)


def _print_extreme(body: PrintedBody, follower: Follower, node: Node) -> None:
    """Print an extreme along axes that each device has whole.

    Each device tests the sum of its own part, since a sum over all parts would be sent.
    """
    sums: list[bool] = []

    def text(p: Printing) -> str:
        sums.append(finds_nan_by_sum(p))
        return _part_text(p)

    start, places = len(body.lines), {v: follower.place(v) for v in node.inputs}
    body.node(node, text)
    along, (result,) = places[node.inputs[0]], node.outputs
    params = node.params
    reduced = params["axes"] if "axes" in params else (params["axis"],)
    is_even = all(follower.layout.even_axes(v, a) == a for v, a in places.items())
    if any(sums) and is_even and any(along) and not any(along[a] for a in reduced):
        kept_axes: Iterable[int] = range(len(along))
        if result.type.rank < len(along):
            kept_axes = [a for a in kept_axes if a not in reduced]
        outputs = {result: tuple([along[a] for a in kept_axes])}
        _print_as_part(body, start, places, outputs)


def _is_spread_along_shift(layout: MeshLayout, node: Node) -> bool:
    """Whether a node puts rows between others along an axis that is spread."""
    if node.primitive not in NEIGHBOURS:
        return False
    ranks = range(node.outputs[0].type.rank)
    for axis, shift in ((a, shift_of(layout, node, a)) for a in ranks):
        if shift is not None:
            operands = zip(node.inputs, shift.axes, strict=True)
            values = [v for v, along in operands if along is not None]
            return any(layout.nearly_even_place(v)[axis] for v in values)
    return False


@NEIGHBOURS.of(OP.concatenate)
def _joined_text(p: Printing) -> str:
    arrays = ", ".join(p.inputs)
    return p.call(rows_joined, "jnp", f"[{arrays}]", p.node.params["axis"])


@NEIGHBOURS.of(OP.slice_update)
def _written_text(p: Printing) -> str:
    written = written_slice(p.node)
    assert written is not None
    axis, start, length = written
    merge, stop = _MERGES[p.node.params["how"]], p.code(start + length)
    options = f"{', '.join(p.inputs)}, {start}, {stop}, {axis}, {merge}"
    return p.call(rows_written, "jnp", options)


def _print_gathered(body: PrintedBody, follower: Follower, needs: Gathered) -> None:
    """Print a node with constraints on its inputs, some of which it needs whole.

    The results are constrained too, unless each device computes the node by itself.
    """
    with _laid_out(body, follower, needs.inputs):
        start = len(body.lines)
        body.node(needs.node)
        if needs.is_apart:
            _print_as_part(body, start, needs.inputs, needs.outputs)
    if not needs.is_apart:
        _print_constraints(body, needs.outputs)


def _print_constraints(body: PrintedBody, places: Mapping[Value, MeshAxes]) -> None:
    for value, axes in places.items():
        name = body.value(value)
        body.line(f"{name} = {constraint_text(name, axes)}")


@contextmanager
def _laid_out(
    body: PrintedBody, follower: Follower, places: Mapping[Value, MeshAxes]
) -> Generator[None]:
    """Within the context, lay values out as `places` says; afterwards, as before.

    Computed values are pinned to where they lay, for the sake of their other users:
    otherwise XLA gathers all that these values need, or computes on each device all
    that is made from them.
    """
    names = {value: body.value(value) for value in places}
    for value, name in names.items():
        before, after = follower.place(value), places[value]
        copy = body.copies.get((value, after))
        if copy is None:
            copy = body.module.names.unique(f"{name}_whole")
            body.copies[value, after] = copy
            pinned = name
            decided = follower.layout.of(value) is not None
            is_free = value in follower.pinned or follower.is_made(value)
            if decided and before != after and not is_free:
                pinned = constraint_text(name, before)
            body.line(f"{copy} = {constraint_text(pinned, after)}")
        body.bind(value, copy)
    yield
    for value, name in names.items():
        body.bind(value, name)


def _print_as_part(
    body: PrintedBody,
    start: int,
    inputs: Mapping[Value, MeshAxes],
    outputs: Mapping[Value, MeshAxes],
    sends: bool = False,
) -> None:
    """Turn the lines from `start` into a function of one device's part, and call it.

    With `sends`, JAX cannot tell which results are the same on all devices.
    """
    lines, body.lines[start:] = body.lines[start:], []
    names = [body.value(v) for v in inputs]
    results = ", ".join(map(body.value, outputs))
    part = body.module.names.unique("on_part")
    body.line(f"def {part}({', '.join(names)}):")
    body.lines += indent([*lines, f"return ({results},)"])
    specs = specs_text(inputs.values()), specs_text(outputs.values())
    options = f"mesh=MESH, in_specs={specs[0]}, out_specs={specs[1]}"
    options += ", check_vma=False" if sends else ""
    body.line(f"({results},) = jax.shard_map({part}, {options})({', '.join(names)})")


@COMBINING.of(*_JOINS)
def _running_text(p: Printing, combines: Combined) -> str:
    join = p.call(joined_by, _JOINS[p.node.primitive])
    return f"{_text_after_parts(p, combines, _part_text(p), join)}[0]"


@COMBINING.of(*EXTREMES)
def _extremes_text(p: Printing, combines: Combined) -> str:
    function = "jnp.min" if p.node.primitive in (OP.min, OP.min_from) else "jnp.max"
    parts = f"jax.lax.all_gather({_part_text(p)}, {combines.names})"
    if finds_nan_by_sum(p):  # the extremes to be joined may be large as well
        return p.call(extreme, "jax", function, parts, "axis=0")
    parts, end = widened_text(p, parts)
    return f"{function}({parts}, axis=0){end}"


@COMBINING.of(OP.recurrence)
def _recurrence_text(p: Printing, combines: Combined) -> str:
    factor, axis = p.inputs[0], p.node.params["axis"]
    products = f"jnp.cumprod({factor}, axis={axis})"
    if p.node.params["reverse"]:
        turned = f"jnp.flip({factor}, {axis})"
        products = f"jnp.flip(jnp.cumprod({turned}, axis={axis}), {axis})"
    parts = f"{products}, {_part_text(p)}"
    return f"{_text_after_parts(p, combines, parts, p.helper(joined_recurrences))}[1]"


def _part_text(p: Printing) -> str:
    """The expression of the node as computed on one part alone."""
    return EMISSION["jax"].rules[p.node.primitive](p._replace(on_mesh=""))


def _text_after_parts(p: Printing, combines: Combined, parts: str, join: str) -> str:
    axis, reverse = p.node.params["axis"], p.node.params["reverse"]
    options = f"{axis}, {reverse}, {combines.names[0]!r}"
    return p.call(after_parts_before, "jax", f"[{parts}]", join, options)


@COMBINING.of(OP.top_k)
def _top_k_text(p: Printing, combines: Combined) -> str:
    k, axis = p.code(p.node.params["k"]), p.node.params["axis"]
    options = f"{k}, {axis}, {combines.names[0]!r}"
    return p.call(top_of_parts, "jax", p.inputs[0], options)


@COMBINING.of(OP.argmax, OP.argmin)
def _extreme_text(p: Printing, combines: Combined) -> str:
    keepdims = p.node.params["keepdims"]
    options = f"{p.node.params['axis']}, {keepdims}, {combines.names[0]!r}"
    function = f"jnp.{p.node.primitive.name}"
    return p.call(extreme_of_parts, "jax", function, p.inputs[0], options)


@COMBINING.of(OP.sort)
def _sorted_text(p: Printing, combines: Combined) -> str:
    options = f"{p.node.params['axis']}, {combines.names[0]!r}"
    return f"{p.helper(sorted_over_parts)}(jax, [{p.inputs[0]}], {options})[0]"


@COMBINING.of(OP.argsort)
def _order_text(p: Printing, combines: Combined) -> str:
    options = f"{p.node.params['axis']}, {combines.names[0]!r}"
    return p.call(order_over_parts, "jax", p.inputs[0], options)


@COMBINING.of(OP.gather)
def _picked_text(p: Printing, combines: Combined) -> str:
    x = p.node.inputs[0]
    axes, place = p.node.params["axes"], combines.inputs[x]
    (at,) = [i for i, a in enumerate(axes) if place[a] == combines.names[0]]
    picked = (*p.inputs[: at + 1], "i", *p.inputs[at + 2 :])
    text = _part_text(p._replace(inputs=picked))
    first = axes[0] if is_adjacent(axes) else 0
    behind = x.type.rank - len(axes) - first
    options = f"{p.inputs[0]}.shape[{axes[at]}], {behind}, {combines.names[0]!r}"
    options = f"lambda i: {text}, {p.inputs[at + 1]}, {options}"
    return p.call(picked_of_parts, "jax", options)


@COMBINING.of(OP.basic_index)
def _cut_text(p: Printing, combines: Combined) -> str:
    (x,), (result,), name = p.node.inputs, p.node.outputs, combines.names[0]
    axis = combines.inputs[x].index(name)
    start, step = (p.node.params[key][axis] for key in ("starts", "steps"))
    places = f"jnp.arange({p.code(result.type.shape[axis])})"
    places += "" if step is None else f" * {p.code(step)}"
    places += "" if start is None else f" + {p.code(start)}"
    pick = f"lambda i: jnp.take({p.inputs[0]}, i, axis={axis})"
    options = f"{p.inputs[0]}.shape[{axis}], {x.type.rank - axis - 1}, {name!r}"
    return p.call(picked_of_parts, "jax", pick, places, options)
