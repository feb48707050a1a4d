"""How loops print: in NumPy a Python loop, in JAX `lax.scan` or `lax.while_loop`."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from graphc.ir.graph.op import Printing
from graphc.ir.sizes.dims import less_equal
from graphc.ir.types import ConcreteArray, JaxArray, NDArray

RowTypes = Sequence[tuple[tuple[int, ...], str]]  # shape and dtype of each row
JaxRows = tuple[JaxArray, ...]
NumpyBody = Callable[..., tuple[NDArray, ...]]
JaxBody = Callable[..., JaxRows]
LoopState = tuple[JaxArray, JaxArray, JaxRows, list[JaxArray]]


def scan_numpy(
    body: NumpyBody,
    carry: Sequence[NDArray],
    rows: Sequence[NDArray],
    captures: Sequence[NDArray],
    length: int,
    reverse: bool,
    types: RowTypes,
) -> tuple[NDArray, ...]:
    """Printed into NumPy programs: a loop of `length` steps; the carry, then rows."""
    stacked = [np.empty((length, *shape), dtype) for shape, dtype in types]
    for i in range(length)[:: -1 if reverse else 1]:
        results = body(*carry, *[x[i] for x in rows], *captures)
        carry = results[: len(carry)]
        for out, row in zip(stacked, results[len(carry) :]):  # noqa: B905
            out[i] = row
    return (*carry, *stacked)


def loop_numpy(
    body: NumpyBody,
    carry: Sequence[NDArray],
    rows: Sequence[NDArray],
    captures: Sequence[NDArray],
    length: int,
    reverse: bool,
    types: RowTypes,
    count: NDArray | int | None,
    going: NDArray | bool | None,
) -> tuple[NDArray | np.int32, ...]:
    """Printed into NumPy programs: a loop that may do fewer steps than `length`."""
    stacked = [np.zeros((length, *shape), dtype) for shape, dtype in types]
    limit = length if count is None else int(count)
    stops, done = going is not None, 0
    going = not stops or bool(going)
    while going and (limit is None or done < limit):
        i = limit - 1 - done if reverse else done
        results = body(*carry, *[x[i] for x in rows], *captures)
        going = not (stops and results[len(carry)])
        for out, row in zip(stacked, results[len(carry) + stops :]):  # noqa: B905
            out[i] = row
        carry = results[: len(carry)]
        done += 1
    return (*carry, *[np.int32(done)] * stops, *stacked)


def growing_numpy(
    body: NumpyBody,
    carry: Sequence[NDArray],
    captures: Sequence[NDArray],
    types: RowTypes,
) -> tuple[NDArray | np.int32 | list[NDArray], ...]:
    """Printed into NumPy programs: a loop that stops, with room for what it gives."""
    carries, done, room = len(carry), 0, 16
    stacked = [np.zeros((room, *shape), dtype) for shape, dtype in types]
    while carry[0]:
        if done == room:
            room *= 2
            for x in stacked:
                x.resize((room, *x.shape[1:]), refcheck=False)
        results = body(*carry, *captures)
        carry = results[:carries]
        for x, row in zip(stacked, results[carries + 1 :]):  # noqa: B905
            x[done] = row
        done += 1
    for x in stacked:
        x.resize((done, *x.shape[1:]), refcheck=False)
    return (*carry, np.int32(done), *[[x] for x in stacked])


def growing(
    integer: Callable[[str, JaxArray | NDArray, str], int],
    segment: JaxBody,
    rooms: dict[object, Any],
    carry: Sequence[JaxArray],
    captures: Sequence[JaxArray],
    sizes: Sequence[int],
) -> tuple[JaxArray | np.int32 | list[JaxArray], ...]:
    """Printed into JAX programs: a loop that runs until its rows are full, then on.

    It goes on where it was, in the most rows that it is compiled for and has filled
    already; for more it is compiled after 64 times as many. `rooms` says, for each
    shape of what it is given, how many steps there were last and at most, and for how
    many rows it is compiled. Where it took more steps than before, and more than four
    times those rows, it is compiled for all of them at its end, when it does nothing.
    """
    remedy = "give a bound of its steps: max_steps= of gt.while_loop"
    shape = (*sizes, *[getattr(x, "shape", ()) for x in (*carry, *captures)])
    last, most, known = rooms.get(shape) or (0, 0, [rooms.get("first", 16)])
    carries, steps, pieces = len(carry), 0, []
    room, times = max([n for n in known if n < 2 * last], default=min(known)), 0
    while True:
        results = segment(*carry, *captures, *sizes, room)
        carry = results[:carries]
        pieces.append(results[carries + 1 :])
        count = results[carries]  # read as an array, which takes a fifth of the time
        traced = type(count).__name__.endswith("Tracer")
        steps += integer("steps", count if traced else np.asarray(count), remedy)
        if not np.asarray(carry[0]):
            break
        times += 1
        if times == 64 and steps >= most:
            known = [*known, 1 << steps.bit_length() - 1]
        filled = max([n for n in known if n <= steps])
        room, times = (filled, 0) if filled > room else (room, times)
    if steps > most and steps > 4 * max(known):
        known = [*known, 1 << (steps - 1).bit_length()]
        segment(*carry, *captures, *sizes, known[-1])
    rooms[shape] = (steps, max(most, steps), known)
    rooms["first"] = min(max(16, 1 << max(steps - 1, 0).bit_length()), 256)
    return (*carry, np.int32(steps), *map(list, zip(*pieces)))  # noqa: B905


def room_for(steps: int) -> list[int]:
    """The numbers of rows for which a growing loop of this many steps may be compiled.

    >>> room_for(60), room_for(1000), room_for(5000)
    ([16], [16, 1024], [16, 1024, 8192])
    """
    rooms, full = [16], 64 * 16
    while full < steps:
        rooms.append(1 << full.bit_length() - 1)
        full += 64 * rooms[-1]
    return rooms if steps <= 4 * rooms[-1] else [*rooms, 1 << (steps - 1).bit_length()]


def rows_of(pieces: list[ConcreteArray], length: int) -> ConcreteArray:
    """Printed into programs: the pieces of what a loop gave, which are used up."""
    first = pieces[0]
    if len(pieces) == 1 and len(first) == length:
        return pieces.pop()
    rows, start = np.zeros((length, *first.shape[1:]), first.dtype), 0
    while pieces:
        piece = np.asarray(pieces.pop(0))[: length - start]
        rows[start : start + len(piece)] = piece
        start += len(piece)
    return rows


def rows_on_device(
    jax: ModuleType, pieces: Sequence[JaxArray], length: int
) -> JaxArray:
    """Printed into programs: the pieces of what a loop gave, joined where they are."""
    rows = jax.numpy.concatenate(pieces) if len(pieces) > 1 else pieces[0]
    more = length - len(rows)
    if more > 0:
        rows = jax.numpy.pad(rows, [(0, more)] + [(0, 0)] * (rows.ndim - 1))
    return rows[:length]


def scan_jax(
    jax: ModuleType,
    body: JaxBody,
    carry: Sequence[JaxArray],
    rows: Sequence[JaxArray],
    captures: Sequence[JaxArray],
    length: int | None,
    reverse: bool,
    unroll: int | bool = 1,
    types: RowTypes | None = None,
) -> tuple[JaxArray, ...]:
    """Printed into JAX programs: a loop of `length` steps; the carry, then rows.

    There are `types` of the rows it gives where there may be no step, which is not
    traced then: it may need longer axes.
    """
    if length == 0 and types is not None:
        return (*carry, *[jax.numpy.zeros((0, *s), dtype) for s, dtype in types])

    def step(carry: JaxRows, rows: JaxRows) -> tuple[JaxRows, JaxRows]:
        results = body(*carry, *rows, *captures)
        return results[: len(carry)], results[len(carry) :]

    carry, stacked = jax.lax.scan(
        step, tuple(carry), tuple(rows), length, reverse, unroll
    )
    return (*carry, *stacked)


def loop_jax(
    jax: ModuleType,
    body: JaxBody,
    carry: Sequence[JaxArray],
    rows: Sequence[JaxArray],
    captures: Sequence[JaxArray],
    length: int,
    reverse: bool,
    types: RowTypes,
    count: JaxArray | int | None,
    going: JaxArray | bool | None,
) -> tuple[JaxArray, ...]:
    """Printed into JAX programs: a loop that may do fewer steps than `length`."""
    jnp, lax = jax.numpy, jax.lax
    stops, carries = going is not None, len(carry)
    stacked = [jnp.zeros((length, *shape), dtype) for shape, dtype in types]
    limit = length if count is None else count
    done = jnp.zeros((), "int32" if limit is None else jnp.result_type(limit))
    if length == 0:  # there is no row that a step could be traced with
        return (*carry, *[done.astype("int32")] * stops, *stacked)

    def goes_on(state: LoopState) -> JaxArray:
        done, going, *_ = state
        return going if limit is None else jnp.logical_and(going, done < limit)

    def step(state: LoopState) -> LoopState:
        done, going, carry, stacked = state
        i = limit - 1 - done if reverse else done
        row = [lax.dynamic_index_in_dim(x, i, keepdims=False) for x in rows]
        results = body(*carry, *row, *captures)
        pairs = zip(stacked, results[carries + stops :])  # noqa: B905
        stacked = [lax.dynamic_update_index_in_dim(x, y, i, 0) for x, y in pairs]
        going = jnp.logical_not(results[carries]) if stops else going
        return done + 1, going, tuple(results[:carries]), stacked

    first = jnp.asarray(going if stops else True)
    state = (done, first, tuple(carry), stacked)
    done, _, carry, stacked = lax.while_loop(goes_on, step, state)
    return (*carry, *[done.astype("int32")] * stops, *stacked)


def print_growing(p: Printing) -> str:
    """The text of a capacity-doubling loop; in JAX, one run until its rows are full."""
    if p.xp == "jnp":
        return print_scan(p)
    body, carry, _, captures = _body_call(p)
    return p.call(growing_numpy, body, carry, captures, _types(p))


def print_scan(p: Printing) -> str:
    """The text of a scan."""
    params = p.node.params
    plain = not params["counted"] and not params["stops"]
    in_python = params["body"].content.runs_in_python
    in_jax = p.xp == "jnp" and not in_python
    arguments = ["jax"] if in_jax else []
    arguments += [*_body_call(p), p.code(params["length"]), repr(params["reverse"])]
    if not (in_jax and plain):
        arguments.append(_types(p))
    else:
        if not less_equal(1, params["length"]):
            arguments.append(f"types={_types(p)}")
        if params["unroll"] != 1 or params["unroll"] is True:
            arguments.append(f"unroll={params['unroll']!r}")
    if not plain:
        controls = iter(p.inputs[len(p.inputs) - params["counted"] - params["stops"] :])
        flags = params["counted"], params["stops"]
        arguments += [next(controls) if has else "None" for has in flags]
    forms = (scan_numpy, scan_jax) if plain else (loop_numpy, loop_jax)
    text = p.call(forms[in_jax], *arguments)
    return f"map(jnp.asarray, {text})" if p.xp == "jnp" and in_python else text


def _body_call(p: Printing) -> list[str]:
    """The name of a printed body, and its arguments: carries, slices, and captures.

    Sizes that the inputs do not determine come after the captures.
    """
    params = p.node.params
    carries = params["carries"]
    split = carries + params["sequences"]
    end = len(p.inputs) - params["counted"] - params["stops"]
    captures = [*p.inputs[split:end], *map(p.code, params["sizes"])]
    parts = p.inputs[:carries], p.inputs[carries:split], captures
    body = p.inner(params["body"].content)
    return [body, *(f"[{', '.join(part)}]" for part in parts)]


def _types(p: Printing) -> str:
    """The shapes and dtypes of the outputs of each step, as text."""
    params = p.node.params
    stacked = p.node.outputs[params["carries"] + params["stops"] :]
    types = [f"({p.code(v.type.shape[1:])}, {p.code(v.dtype)})" for v in stacked]
    return f"[{', '.join(types)}]"
