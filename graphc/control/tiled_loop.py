"""Tiled loops: a step for each tile of the positions along some axes.

Rewrites make such loops of large values. The number of positions in a tile is settled
when sizes are known; if all sizes are small, there is one tile and no loop.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from types import ModuleType
from typing import Any

import numpy as np

from graphc.control.carries import carried_views
from graphc.control.print_loops import JaxRows, NumpyBody
from graphc.ir.graph.bodies import Body, BodyCall, StepResult, close_body
from graphc.ir.graph.build import body_input
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.graph.op import Array, Opaque, Printing, op, require_equal
from graphc.ir.namespace import enroll
from graphc.ir.sizes.dims import Size, Symbol, maximum, minimum, symbol_dim
from graphc.ir.types import ConcreteArray, JaxArray, NDArray, TensorType
from graphc.ops.common.axes import with_size

TileFunction = Callable[[list[Value], list[Value], Size], StepResult]
RowsAgain = Callable[[list[Value], Size], list[Value]]
BlockBody = Callable[..., tuple[ConcreteArray, ...]]  # of either library


@op()
def _blocks(
    *values: Array,
    body: Opaque,
    carries: int,
    axes: tuple[int, ...],
    joined: tuple[int, ...],
    sizes: tuple[Size, ...],
    length: Size,
    each: Size,
    most: int,
    least: int,
    reverse: bool,
    keeps: int,
    stores: int,
    few: int,
    own: int,
    marks: int,
    again: Opaque,
    columns: Opaque,
) -> tuple[TensorType, ...]:
    """The final carries, and the outputs of all tiles, joined.

    `values` are the init; the arrays that are cut along `axes`; the body's `own` rows,
    which are stored if there are at most `few` tiles, and otherwise recomputed
    (`again`); the per-chunk values, `marks` of them, with an element for each tile; and
    the captures. The results are the final carries; the first `keeps` carries as they
    were before each tile; and the outputs of the body, joined along the axes `joined`.
    The last `stores` outputs are stored only if there are at most `few` tiles.
    `columns` is the body in tiles of another axis, if there is one: for tiles of
    `least` rows that exceed `most` bytes.
    """
    types, split = [v.type for v in values], carries + len(axes)
    inner: Body = body.content
    for value, axis in zip(values[carries:], axes):  # noqa: B905
        require_equal(value.type.shape[axis], length, "blocks must be of one length")
    count = blocks_of(length, each, most, least)
    stored = rows_stored(length, count, few)
    for i in range(split, split + own + marks):
        size, *shape = types[i].shape
        expected_size = stored if i < split + own else count
        require_equal(size, expected_size, "there must be one for each block, or row")
        types[i] = types[i].like((length, *shape) if i < split + own else tuple(shape))
    carry_types = [t.like((count, *t.shape)) for t in types[:keeps]]
    output_types = inner.types(
        types[: len(inner.inputs)], sizes[: len(inner.size_params)]
    )
    split = len(output_types) - stores
    last = [t.like((stored, *t.shape[1:])) for t in output_types[split:]]
    return (*output_types[:carries], *carry_types, *output_types[carries:split], *last)


def blocks_of(length: Size, each: Size, most: int, least: int) -> Size:
    """The number of tiles, each with as many rows as `rows_in_block` says."""
    room: Size = most // max(each, 1) if isinstance(each, int) else most // each
    rows = maximum(room, least)
    return maximum((length + (rows - 1)) // rows, 1)


def rows_stored(length: Size, count: Size, few: int) -> Size:
    """All of the rows if there are at most `few` tiles, otherwise none."""
    return length * minimum(maximum(few + 1 - count, 0), 1)


def rows_in_block(length: int, each: int, most: int, least: int) -> int:
    """Printed into programs: about as many in each block, at least one."""
    blocks = -(-length // max(most // max(each, 1), least))
    return max(-(-length // max(blocks, 1)), 1)


def blocks_numpy(
    body: NumpyBody,
    carry: Any,
    rows: Sequence[NDArray],
    marks: Sequence[NDArray],
    captures: Sequence[NDArray],
    axes: Sequence[int],
    joined: Sequence[int],
    length: int,
    size: int,
    reverse: bool,
    keeps: int,
) -> tuple[NDArray, ...]:
    """Printed into NumPy programs."""
    if length <= size:
        results = body(*carry, *rows, *[x[0] for x in marks], *captures)
        before = [x[None] for x in carry[:keeps]]
        return (*results[: len(carry)], *before, *results[len(carry) :])
    parts, carries = [], []
    for start in range(0, length, size)[:: -1 if reverse else 1]:
        at, number = slice(start, start + size), start // size
        cut = [x[(slice(None),) * a + (at,)] for x, a in zip(rows, axes)]  # noqa: B905
        results = body(*carry, *cut, *[x[number] for x in marks], *captures)
        carries.append(carry[:keeps])
        carry = results[: len(carry)]
        parts.append(results[len(carry) :])
    order = slice(None, None, -1 if reverse else 1)
    before = [np.stack(x) for x in zip(*carries[order])]  # noqa: B905
    outputs = zip(*parts[order])  # noqa: B905
    whole = [np.concatenate(x, a) for x, a in zip(outputs, joined)]  # noqa: B905
    return (*carry, *before, *whole)


def blocks_jax(
    jax: ModuleType,
    body: Any,
    carry: Any,
    rows: Sequence[JaxArray],
    marks: Any,
    captures: Sequence[JaxArray],
    axes: Sequence[int],
    joined: Sequence[int],
    length: int,
    size: int,
    reverse: bool,
    keeps: int,
) -> tuple[JaxArray, ...]:
    """Printed into JAX programs."""
    jnp, lax = jax.numpy, jax.lax
    if length <= size:
        before = [x[None] for x in carry[:keeps]]
        results = body(*carry, *rows, *[x[0] for x in marks], *captures)
        return (*results[: len(carry)], *before, *results[len(carry) :])
    whole, left = divmod(length, size)

    def done(carry: Sequence[JaxArray], number: JaxArray | int, count: int) -> Any:
        pairs, start = zip(rows, axes), number * size  # noqa: B905
        cut = [lax.dynamic_slice_in_dim(x, start, count, a) for x, a in pairs]
        of_tile = [lax.dynamic_index_in_dim(x, number, keepdims=False) for x in marks]
        results = body(*carry, *cut, *of_tile, *captures)
        return tuple(results[: len(carry)]), (*results[len(carry) :], *carry[:keeps])

    def one_behind_the_other(x: JaxArray, axis: int) -> JaxArray:
        shape = x.shape[1 : axis + 1], x.shape[axis + 2 :]
        return jnp.moveaxis(x, 0, axis).reshape(*shape[0], whole * size, *shape[1])

    def step(carry: JaxRows, number: JaxArray) -> tuple[JaxRows, JaxRows]:
        return done(carry, number, size)

    carry, last = tuple(carry), []
    if left and reverse:
        carry, last = done(carry, whole, left)
    carry, stacked = lax.scan(step, carry, jnp.arange(whole), None, reverse)
    if left and not reverse:
        carry, last = done(carry, whole, left)
    split = len(joined)
    outputs = list(map(one_behind_the_other, stacked[:split], joined))
    before = list(stacked[split:])
    if left:
        parts = zip(outputs, last, joined)  # noqa: B905
        outputs = [jnp.concatenate((x, y), a) for x, y, a in parts]
        pairs = zip(before, last[split:])  # noqa: B905
        before = [jnp.concatenate((x, y[None])) for x, y in pairs]
    return (*carry, *before, *outputs)


def without_last(body: BlockBody, count: int) -> BlockBody:
    """Printed into programs: where so much of what a body gives is not stored."""
    return lambda *values: body(*values)[:-count]


def with_own(
    body: BlockBody,
    again: BlockBody,
    start: int,
    end: int,
    marks: int,
    captures: Sequence[ConcreteArray],
) -> BlockBody:
    """Printed into programs: a body whose own rows are made again."""

    def with_rows(*values: ConcreteArray) -> tuple[ConcreteArray, ...]:
        known = values[end : end + marks], values[start:end]
        own_rows = again(*known[0], *known[1], *captures)
        return body(*values[:end], *own_rows, *values[end:])

    return with_rows


_EXTENT = "each", "most", "least"


class _CallPrinter:
    """Prints the call of a tiled loop."""

    def __init__(self, p: Printing) -> None:
        self._p, self._params = p, p.node.params
        body: Body = self._params["body"].content
        sizes = list(map(p.code, self._params["sizes"]))
        split, more = len(body.inputs), len(body.size_params)
        counts = [self._params["carries"], len(self._params["axes"])]
        counts += [self._params["own"], self._params["marks"]]
        ends = [0, *accumulate(counts), split]
        self._parts = [list(p.inputs[slice(*at)]) for at in pairwise(ends)]
        self._parts[-1] += sizes[:more]
        self._other_inputs = [*p.inputs[split:], *sizes[more:]]
        self._body = self._choose_body(body)
        length, *limits = (p.code(self._params[k]) for k in ("length", *_EXTENT))
        self._size = p.call(rows_in_block, length, *limits)
        self._length = length

    def _choose_body(self, body: Body) -> str:
        """The body, or the body in tiles of columns where its tiles are too large."""
        p, text = self._p, self._p.inner(body)
        for inside in self._params["columns"].content:
            each, most, least = (p.code(self._params[k]) for k in _EXTENT)
            text = f"{p.inner(inside)} if {least} * {each} > {most} else {text}"
        return text

    def text(self) -> str:
        """The call; if rows may be stored, a choice between storing and recomputing."""
        if not self._params["stores"] and not self._params["own"]:
            return self._call(self._body, [], self._params["joined"])
        few = f"{self._length} <= {self._params['few']} * {self._size}"
        stored_rows = self._parts[2]
        stored = self._call(self._body, stored_rows, self._params["joined"])
        return f"{stored} if {few} else {self._recomputing_call()}"

    def _recomputing_call(self) -> str:
        stores, joined = self._params["stores"], self._params["joined"]
        body, p = self._body, self._p
        if stores:
            body = p.call(without_last, body, stores)
            outputs = self._call(body, [], joined[: len(joined) - stores])
            types = [v.type for v in p.node.outputs[-stores:]]
            none = [self._no_rows(t) for t in types]
            return f"(*{outputs}, {', '.join(none)})"
        again = p.inner(self._params["again"].content[0])  # of marks and rows
        start = len(self._parts[0])
        numbers = f"{start}, {start + len(self._parts[1])}, {len(self._parts[3])}"
        captures = f"[{', '.join(self._other_inputs)}]"
        body = p.call(with_own, body, again, numbers, captures)
        return self._call(body, [], joined)

    def _no_rows(self, type: TensorType) -> str:
        shape = ", ".join(["0", *map(self._p.code, type.shape[1:])])
        return f"{self._p.xp}.zeros(({shape},), {str(type.dtype)!r})"

    def _call(self, body: str, stored_rows: list[str], joined: tuple[int, ...]) -> str:
        p, params = self._p, self._params
        carry, rows, _, marks, captures = self._parts
        lists = carry, [*rows, *stored_rows], marks, captures
        arguments = [
            *(["jax"] if p.xp == "jnp" else []),
            body,
            *(f"[{', '.join(part)}]" for part in lists),
            repr((*params["axes"], *[0] * len(stored_rows))),
            repr(joined),
            self._length,
            self._size,
            repr(params["reverse"]),
            repr(params["keeps"]),
        ]
        function = p.helper(blocks_jax if p.xp == "jnp" else blocks_numpy)
        return f"{function}({', '.join(arguments)})"


def _print_blocks(p: Printing) -> str:
    return _CallPrinter(p).text()


BLOCKS = _blocks
_blocks.several = True
_blocks.on_host = False
_blocks.emit(_print_blocks)


def _views(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yield the views; joined tiles make new arrays unless there is only one tile."""
    params, body = node.params, node.params["body"].content
    carries, split = params["carries"], len(body.inputs)
    joined_outputs = node.outputs[carries + params["keeps"] :]
    for one in (body, *params["columns"].content):
        yield from carried_views(node, one, carries)
        yield from zip(joined_outputs, one.outputs[carries:], strict=True)
    for again in params["again"].content:
        start = carries + len(params["axes"])
        marks_start = start + params["own"]
        marks = slice(marks_start, marks_start + params["marks"])
        marks_and_rows = *node.inputs[marks], *node.inputs[carries:start]
        yield from zip(
            again.inputs, (*marks_and_rows, *node.inputs[split:]), strict=True
        )
        yield from zip(body.inputs[start:marks_start], again.outputs, strict=True)


_blocks.views = _views


def _body_calls(node: Node) -> Iterator[BodyCall]:
    """Yield the calls of the bodies, with tiles of the size that the body states."""
    params, values = node.params, [v.type for v in node.inputs]
    body: Body = params["body"].content
    start = params["carries"] + len(params["axes"])
    marks_start = start + params["own"]
    marks = slice(marks_start, marks_start + params["marks"])
    count, more = len(body.inputs), len(body.size_params)
    axes = (*params["axes"], *[0] * params["own"])
    for i, axis in enumerate(axes, params["carries"]):
        n = body.inputs[i].type.shape[axis]
        values[i] = values[i].like(with_size(values[i].shape, axis, n))
    values[marks] = [t.like(t.shape[1:]) for t in values[marks]]
    for one in (body, *params["columns"].content):
        yield BodyCall(one, values[:count], params["sizes"][:more])
    for again in params["again"].content:
        rows = values[params["carries"] : start]
        types = [*values[marks], *rows, *values[count:]]
        yield BodyCall(again, types, params["sizes"][more:])


_blocks.body_calls = _body_calls
_MADE_LATE = "rewrites make it only after gradients, batching and padding"
_blocks.no_gradient(_MADE_LATE)
_blocks.no_batch(_MADE_LATE)
_blocks.no_padding(_MADE_LATE)


def run_blocks(
    step: TileFunction,
    first: Sequence[Value],
    rows: Sequence[tuple[Value, int]],
    joined: Sequence[int],
    *,
    length: Size,
    each: Size,
    most: int,
    least: int,
    reverse: bool = False,
    keeps: int = 0,
    stores: int = 0,
    few: int = 0,
    own: Sequence[Value] = (),
    marks: Sequence[Value] = (),
    again: RowsAgain | None = None,
) -> StepResult:
    """Run a step for each tile; return its final carries, and its outputs, joined.

    A step gets the carries, tiles of `rows` along their axes, tiles of its `own` rows,
    one element of each of the per-chunk values `marks`, and the number of the `length`
    positions that the tile has: as many as make values of `most` bytes, if one position
    has `each`, but at least `least`. With `reverse`, the last tile comes first. Before
    the outputs come the first `keeps` carries as they were before each tile. The last
    `stores` outputs are stored if there are at most `few` tiles; then the own rows are
    read from them, and otherwise they are recomputed (`again`) from the other rows.
    """
    symbol = _rows_of_tile(most, least)
    carry = [body_input(v.name or "carry", v.type) for v in first]
    blocks = _block_variables([*rows, *((v, 0) for v in own)], marks, symbol)
    after, outputs = step(carry, blocks, symbol_dim(symbol))
    inputs = [*carry, *blocks]
    body, captures, sizes = close_body([*after, *outputs], inputs, "blocks", symbol)
    bodies, more, added = _recomputing_body(
        again, rows, marks, _rows_of_tile(most, least)
    )
    node = _blocks.bind(
        (*first, *(v for v, _ in rows), *own, *marks, *captures, *more),
        {
            "body": Opaque("body", body),
            "carries": len(carry),
            "axes": tuple(a for _, a in rows),
            "joined": tuple(joined),
            "sizes": (*sizes, *added),
            "length": length,
            "each": each,
            "most": most,
            "least": least,
            "reverse": reverse,
            "keeps": keeps,
            "stores": stores,
            "few": few,
            "own": len(own),
            "marks": len(marks),
            "again": Opaque("again", bodies),
            "columns": Opaque("columns", ()),
        },
    )
    return list(node.outputs[: len(carry)]), list(node.outputs[len(carry) :])


def _rows_of_tile(most: int, least: int) -> Symbol:
    """The size of a tile in a body, within the bounds of `rows_in_block`."""
    return Symbol("rows", lower=0, upper=max(most, least))


def _recomputing_body(
    again: RowsAgain | None,
    rows: Sequence[tuple[Value, int]],
    marks: Sequence[Value],
    symbol: Symbol,
) -> tuple[tuple[Body, ...], list[Value], list[Size]]:
    """The body that recomputes own rows from marks and rows; captures and sizes."""
    if again is None:
        return (), [], []
    blocks = _block_variables(rows, marks, symbol)
    recomputed_rows = again(blocks, symbol_dim(symbol))
    inputs = [*blocks[len(rows) :], *blocks[: len(rows)]]
    body, captures, sizes = close_body(recomputed_rows, inputs, "blocks", symbol)
    return (body,), captures, sizes


def _block_variables(
    rows: Sequence[tuple[Value, int]], marks: Sequence[Value], symbol: Symbol
) -> list[Value]:
    """Variables for a tile of each of `rows`, and for an element of each of `marks`."""
    count, variables = symbol_dim(symbol), []
    for value, axis in rows:
        block = value.type.like(with_size(value.type.shape, axis, count))
        variables.append(body_input(value.name or "block", block))
    variables += [body_input("mark", v.type.like(v.type.shape[1:])) for v in marks]
    return variables


enroll(run_blocks, "_run_blocks")
