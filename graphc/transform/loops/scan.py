"""`scan`: a step, done for each element of sequences, that carries values along."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import graph_error
from graphc.ir.build import as_size, cast, variable
from graphc.ir.dims import Size, equal
from graphc.ir.graph import Value
from graphc.ir.inner import Inner, enclosed
from graphc.ir.namespace import F, enroll, public
from graphc.ir.op import (
    Array,
    Opaque,
    Printing,
    op,
    require_at_most,
    require_equal,
)
from graphc.ir.replay import region_between
from graphc.ir.types import INT32, TensorType
from graphc.ir.walk import operands
from graphc.ops.batching import Batched, spread
from graphc.ops.masking import Padding, Ragged
from graphc.transform.loops.carries import as_before, fresh, parts, require_kept
from graphc.transform.loops.checks import and_held, checked, held, taken_out
from graphc.transform.loops.masked import masked_writes
from graphc.transform.loops.merge import together
from graphc.transform.structure import unflatten
from graphc.transform.vectorize import vmap

Pair = tuple[list[Value], list[Value]]
Step = Callable[[list[Value], list[Value]], Pair]


@op()
def _scan(
    *values: Array,
    body: Opaque,
    carries: int,
    sequences: int,
    sizes: tuple[Size, ...],
    length: Size,
    reverse: bool,
    wider: Opaque | None,
) -> tuple[TensorType, ...]:
    """The last carries, and what each step gives, stacked along a first axis.

    `values` are the first carries, the sequences, then what the body takes from
    outside. `wider` is the node of a scan that gives the first of these outputs.
    """
    require_at_most(0, length, "the length must not be negative")
    rows = []
    for value in values[carries : carries + sequences]:
        require_equal(value.type.shape[0], length, "sequences must have one length")
        rows.append(value.type.like(value.type.shape[1:]))
    first = [v.type for v in values[:carries]]
    rest = [v.type for v in values[carries + sequences :]]
    made = body.content.types([*first, *rows, *rest], sizes)
    require_kept(first, made)
    stacked = [t.like((length, *t.shape)) for t in made[carries:]]
    return (*first, *stacked)


def scan_numpy(
    body: Any,
    carry: Any,
    rows: Any,
    rest: Any,
    length: Any,
    reverse: Any,
    types: Any,
) -> Any:
    """Printed into NumPy programs."""
    stacked = [np.empty((length, *shape), dtype) for shape, dtype in types]
    for i in range(length)[:: -1 if reverse else 1]:
        found = body(*carry, *[x[i] for x in rows], *rest)
        carry = found[: len(carry)]
        for out, row in zip(stacked, found[len(carry) :]):  # noqa: B905
            out[i] = row
    return (*carry, *stacked)


def scan_jax(
    jax: Any, body: Any, carry: Any, rows: Any, rest: Any, length: Any, reverse: Any
) -> Any:
    """Printed into JAX programs."""

    def step(carry: Any, rows: Any) -> Any:
        found = body(*carry, *rows, *rest)
        return found[: len(carry)], found[len(carry) :]

    carry, stacked = jax.lax.scan(
        step, tuple(carry), tuple(rows), length=length, reverse=reverse
    )
    return (*carry, *stacked)


def _print_scan(p: Printing) -> str:
    params = p.node.params
    split = params["carries"] + params["sequences"]
    body = p.inner(params["body"].content)
    rest = [*p.inputs[split:], *map(p.code, params["sizes"])]
    groups = p.inputs[: params["carries"]], p.inputs[params["carries"] : split], rest
    parts = ", ".join(f"[{', '.join(group)}]" for group in groups)
    length, reverse = p.code(params["length"]), params["reverse"]
    if p.xp == "jnp":
        return f"{p.helper(scan_jax)}(jax, {body}, {parts}, {length}, {reverse})"
    types = [
        f"({p.code(v.type.shape[1:])}, {p.code(v.dtype)})"
        for v in p.node.outputs[params["carries"] :]
    ]
    listed = f"[{', '.join(types)}]"
    return f"{p.helper(scan_numpy)}({body}, {parts}, {length}, {reverse}, {listed})"


_scan.several = True
_scan.on_host = False  # a loop is no matter of glue
_scan.selective = True
_scan.emit(_print_scan)
SCAN = _scan


@_scan.batch
def _(n: Size, batched: Batched, *values: Value, **params: Any) -> tuple[Value, ...]:
    inner: Inner = params["body"].content
    carries, sequences = params["carries"], params["sequences"]
    split = carries + sequences
    many = [spread(n, b, v) for b, v in zip(batched, values, strict=True)]
    rows = [F.swapaxes(v, 0, 1) for v in many[carries:split]]
    rest = many[split:]

    def step(carry: list[Value], row: list[Value]) -> Pair:
        made = vmap(lambda *one: inner.applied(one))(*carry, *row, *rest)
        return list(made[:carries]), list(made[carries:])

    ends, stacked = run_scan(
        step, many[:carries], rows, params["length"], params["reverse"]
    )
    return (*ends, *(F.swapaxes(v, 0, 1) for v in stacked))


@_scan.padding
def _(pad: Padding, *values: Ragged, **params: Any) -> tuple[Value, ...] | None:
    """Steps beyond the true length change nothing; other axes must have true sizes."""
    inner: Inner = params["body"].content
    carries, sequences = params["carries"], params["sequences"]
    split = carries + sequences
    for i, x in enumerate(values):
        if x.axes - ({0} if carries <= i < split else set()):
            return None
    given = pad.node.params["sizes"]
    if any(pad.stored(n) is not pad.exact(n) for n in given):
        return None
    true = cast(pad.length(pad.node.params["length"]), INT32)
    plain = [x.value for x in values]
    rest = plain[split:]

    def step(carry: list[Value], row: list[Value]) -> Pair:
        place, *own = row
        made = inner.applied([*carry, *own, *rest])
        pairs = zip(made[:carries], carry, strict=True)
        held = [F.where(place < true, new, old) for new, old in pairs]
        return held, made[carries:]

    places = pad.positions(pad.node.params["length"])
    ends, stacked = run_scan(
        step,
        plain[:carries],
        [places, *plain[carries:split]],
        params["length"],
        params["reverse"],
    )
    return (*ends, *stacked)


def run_scan(
    step: Step,
    first: Sequence[Value],
    rows: Sequence[Value],
    length: Size,
    reverse: bool,
    wider: Opaque | None = None,
    pruned: bool = False,
) -> Pair:
    """The scan of a step on lists of values; `pruned`: without sequences not used."""
    own = [fresh(v) for v in first]
    row = [variable(v.name or "row", v.type.like(v.type.shape[1:])) for v in rows]
    after, given = step(own, row)
    outputs, checks = taken_out([*after, *given], [*own, *row])
    flags = held(len(checks))
    first, carry = [*first, *flags], [*own, *map(fresh, flags)]
    outputs = masked_writes(together(outputs), [*own, *row])
    after, given = outputs[: len(own)], outputs[len(own) :]
    after += and_held(carry[len(own) :], checks)
    if pruned:
        used = used_between([*after, *given], row)
        rows = [v for v, one in zip(rows, row, strict=True) if one in used]
        row = [v for v in row if v in used]
    inner, captured, sizes = enclosed([*after, *given], [*carry, *row], "scan")
    node = _scan.bind(
        (*first, *rows, *captured),
        {
            "body": Opaque("body", inner),
            "carries": len(carry),
            "sequences": len(row),
            "sizes": tuple(sizes),
            "length": length,
            "reverse": reverse,
            "wider": wider,
        },
    )
    ends, stacked = node.outputs[: len(own)], node.outputs[len(carry) :]
    found = checked([*ends, *stacked], node.outputs[len(own) : len(carry)], checks)
    return found[: len(own)], found[len(own) :]


enroll(run_scan, "_run_scan")


def used_between(outputs: Sequence[Value], inputs: Sequence[Value]) -> set[Value]:
    """What is used on the way from `inputs` to `outputs`, both included."""
    region = region_between(outputs, inputs)
    return {*outputs, *(v for node in region for v in operands(node))}


@public()
def scan(
    body: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = body(carry, x)` for each element of `xs`, as `jax.lax.scan`.

    `init`, `xs` and what the body gives are values, or lists, tuples and dicts of
    them. Returns the last carry and the `y`s stacked along a first axis. Without `xs`,
    `length` says how many steps there are. What the body uses from outside is found by
    itself, and what does not change from step to step is computed once.

    Raises GraphError where a step changes the type of the carry, where sequences have
    different lengths, and where a size within depends on the step.

    >>> import numpy as np, graphc, graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> total, sums = gt.scan(lambda c, v: (c + v, c + v), 0.0, x)
    >>> f = graphc.function([x], [total, sums], backend="numpy")
    >>> f(np.array([1, 2, 4], "float32"))
    [array(7., dtype=float32), array([1., 3., 7.], dtype=float32)]
    """
    first, like = parts(init)
    rows, form = parts(xs)
    count = _length(rows, length)
    given: list[Any] = []

    def step(carry: list[Value], row: list[Value]) -> Pair:
        result = body(unflatten(like, carry), unflatten(form, row))
        if not isinstance(result, tuple) or len(result) != 2:
            problem = "the body must return a pair: the next carry, and an output"
            raise graph_error(problem, op="scan", got=type(result).__name__)
        outputs, shape = parts(result[1])
        given.append(shape)
        return as_before(like, carry, result[0], "scan"), outputs

    ends, stacked = run_scan(step, first, rows, count, bool(reverse))
    return unflatten(like, ends), unflatten(given[0], stacked)


def _length(rows: Sequence[Value], length: Any) -> Size:
    for value in rows:
        if not value.type.rank:
            got = str(value.type)
            raise graph_error("a sequence needs an axis", op="scan", got=got)
    if length is not None:
        count = as_size(length, "the length")
        if isinstance(count, int) and count < 0:
            raise graph_error("the length is negative", op="scan", got=str(count))
        return count
    if not rows:
        raise graph_error("needs sequences, or a length", op="scan")
    lengths = [v.type.shape[0] for v in rows]
    for n in lengths[1:]:
        if equal(n, lengths[0]) is False:
            got = ", ".join(str(v.type) for v in rows)
            raise graph_error("sequences have different lengths", op="scan", got=got)
    return lengths[0]
