"""A step for each block of the positions along some axes, of as many as sizes allow.

Rewrites make such loops of what is large; how many positions a block has is settled
where sizes are known, and where all are few there is no loop.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.build import variable
from graphc.ir.dims import Size, Symbol, symbol_dim
from graphc.ir.graph import Value
from graphc.ir.inner import OF_BODIES, enclosed
from graphc.ir.namespace import enroll
from graphc.ir.op import Array, Opaque, Printing, op, require_equal
from graphc.ir.types import TensorType

Pair = tuple[list[Value], list[Value]]
Step = Callable[[list[Value], list[Value], Size], Pair]


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
) -> tuple[TensorType, ...]:
    """The last carries, and what is made of each block, one behind the other.

    `values` are the first carries, what is cut along `axes`, and what the body takes
    from outside. What the body gives is joined along the axes `joined`.
    """
    for value, axis in zip(values[carries:], axes):  # noqa: B905
        require_equal(value.type.shape[axis], length, "blocks must be of one length")
    return tuple(body.content.types([v.type for v in values], sizes))


def rows_in_block(length: int, each: int, most: int, least: int) -> int:
    """Printed into programs: about as many in each block, at least one."""
    blocks = -(-length // max(most // max(each, 1), least))
    return max(-(-length // max(blocks, 1)), 1)


def blocks_numpy(
    body: Any,
    carry: Any,
    rows: Any,
    rest: Any,
    axes: Any,
    joined: Any,
    length: Any,
    size: Any,
    reverse: Any,
) -> Any:
    """Printed into NumPy programs."""
    parts = []
    for start in range(0, max(length, 1), size)[:: -1 if reverse else 1]:
        at = slice(start, start + size)
        cut = [x[(slice(None),) * a + (at,)] for x, a in zip(rows, axes)]  # noqa: B905
        found = body(*carry, *cut, *rest)
        carry = found[: len(carry)]
        parts.append(found[len(carry) :])
    if len(parts) == 1:
        return (*carry, *parts[0])
    made = zip(*parts[:: -1 if reverse else 1])  # noqa: B905
    whole = [np.concatenate(x, a) for x, a in zip(made, joined)]  # noqa: B905
    return (*carry, *whole)


def blocks_jax(
    jax: Any,
    body: Any,
    carry: Any,
    rows: Any,
    rest: Any,
    axes: Any,
    joined: Any,
    length: Any,
    size: Any,
    reverse: Any,
) -> Any:
    """Printed into JAX programs."""
    jnp, lax = jax.numpy, jax.lax
    if length <= size:
        return body(*carry, *rows, *rest)
    whole, left = divmod(length, size)

    def done(carry: Any, start: Any, count: Any) -> Any:
        pairs = zip(rows, axes)  # noqa: B905
        cut = [lax.dynamic_slice_in_dim(x, start, count, a) for x, a in pairs]
        found = body(*carry, *cut, *rest)
        return tuple(found[: len(carry)]), found[len(carry) :]

    def one_behind_the_other(x: Any, axis: Any) -> Any:
        shape = x.shape[1 : axis + 1], x.shape[axis + 2 :]
        return jnp.moveaxis(x, 0, axis).reshape(*shape[0], whole * size, *shape[1])

    def step(carry: Any, start: Any) -> Any:
        return done(carry, start, size)

    starts = size * jnp.arange(whole) + (left if reverse else 0)
    carry, stacked = lax.scan(step, tuple(carry), starts, None, reverse)
    found = list(map(one_behind_the_other, stacked, joined))
    if left:
        carry, more = done(carry, 0 if reverse else whole * size, left)
        pairs = zip(more, found) if reverse else zip(found, more)  # noqa: B905
        found = [jnp.concatenate(x, a) for x, a in zip(pairs, joined)]  # noqa: B905
    return (*carry, *found)


def _print_blocks(p: Printing) -> str:
    """The line of such a loop."""
    params = p.node.params
    split = params["carries"], params["carries"] + len(params["axes"])
    rest = [*p.inputs[split[1] :], *map(p.code, params["sizes"])]
    parts = p.inputs[: split[0]], p.inputs[slice(*split)], rest
    length = p.code(params["length"])
    limits = f"{length}, {p.code(params['each'])}, {params['most']}, {params['least']}"
    arguments = [
        *(["jax"] if p.xp == "jnp" else []),
        p.inner(params["body"].content),
        *(f"[{', '.join(part)}]" for part in parts),
        repr(params["axes"]),
        repr(params["joined"]),
        length,
        f"{p.helper(rows_in_block)}({limits})",
        repr(params["reverse"]),
    ]
    function = p.helper(blocks_jax if p.xp == "jnp" else blocks_numpy)
    return f"{function}({', '.join(arguments)})"


_blocks.several = True
_blocks.on_host = False
_blocks.emit(_print_blocks)
_MADE_LATE = "rewrites make it of what has been differentiated, mapped and padded"
_blocks.no_gradient(_MADE_LATE)
_blocks.no_batch(_MADE_LATE)
_blocks.no_padding(_MADE_LATE)


def run_blocks(
    step: Step,
    first: Sequence[Value],
    rows: Sequence[tuple[Value, int]],
    joined: Sequence[int],
    *,
    length: Size,
    each: Size,
    most: int,
    least: int,
    reverse: bool = False,
) -> Pair:
    """The last carries of a step, and what it gives, joined along axes.

    A step is given the carries, blocks of `rows` along their axes, and how many of the
    `length` positions they have: of as many as have values of `most` bytes, where one
    has values of `each`, but of at least so many. `reverse`: the last ones come first.
    """
    symbol = Symbol("rows")
    count = symbol_dim(symbol)
    own = [variable(v.name or "carry", v.type) for v in first]
    blocks = []
    for value, axis in rows:
        shape = value.type.shape
        block = value.type.like((*shape[:axis], count, *shape[axis + 1 :]))
        blocks.append(variable(value.name or "block", block))
    OF_BODIES.update(v.node for v in (*own, *blocks))
    after, given = step(own, blocks, count)
    inputs = [*own, *blocks]
    inner, captured, sizes = enclosed([*after, *given], inputs, "blocks", symbol)
    node = _blocks.bind(
        (*first, *(v for v, _ in rows), *captured),
        {
            "body": Opaque("body", inner),
            "carries": len(own),
            "axes": tuple(a for _, a in rows),
            "joined": tuple(joined),
            "sizes": tuple(sizes),
            "length": length,
            "each": each,
            "most": most,
            "least": least,
            "reverse": reverse,
        },
    )
    return list(node.outputs[: len(own)]), list(node.outputs[len(own) :])


enroll(run_blocks, "_run_blocks")
