"""The primitive of loops: one step per row of the sequences, with carried values.

`run_scan` makes its node; `gt.scan` is in `transform.loops.scan_api`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

from graphc.control.carries import carried_views, require_same_types, variable_like
from graphc.control.checks import (
    initial_flags,
    take_out_checks,
    update_flags,
    with_checks,
)
from graphc.control.loop_cse import merge_in_values
from graphc.control.predicated_writes import masked_writes
from graphc.control.print_loops import print_growing, print_scan
from graphc.control.scan_records import PerChunk, Replay
from graphc.ir.graph.bodies import BodyCall, StepFunction, StepResult, close_body
from graphc.ir.graph.build import body_input, cast
from graphc.ir.graph.nodes import Node, Params, Value
from graphc.ir.graph.op import (
    Array,
    Opaque,
    Primitive,
    op,
    require_at_most,
    require_equal,
    type_error,
)
from graphc.ir.graph.replay import region_between
from graphc.ir.graph.walk import operands
from graphc.ir.namespace import F, enroll
from graphc.ir.params.kinds import Param
from graphc.ir.sizes.dims import Size, Symbol, less_equal
from graphc.ir.types import BOOL, INT32, TensorType, is_integer
from graphc.ops.common.padding import PaddedValue, Padding


@op()
def _scan(
    *values: Array,
    body: Opaque,
    carries: int,
    sequences: int,
    sizes: tuple[Size, ...],
    length: Size | None,
    reverse: bool,
    counted: bool,
    stops: bool,
    unroll: int | bool,
    few: bool,
    chunk: Size | None,
    replay: Replay | None,
    per_chunk: PerChunk | None,
    superset_of: Opaque | None,
) -> tuple[TensorType, ...]:
    """The final carries, and the ys: outputs of the steps, stacked along a first axis.

    `values` are the init, the sequences, then the captures of the body. A gradient
    keeps a bounded number of the carries (`few`), the first of each `chunk`, or those
    of all steps. Of the scans that a gradient makes, one may be the `superset_of`
    another, whose carries and ys are the first of its own; `replay` and `per_chunk` say
    how scans recompute steps.

    If the scan is `counted`, an integer of at most `length` follows: only that many of
    the first slices have a step, and the ys of the others are zeros. If it `stops`, a
    bool follows that says whether there is a first step; each step then returns, after
    the carries, whether it is the last one, and the node returns the trip count after
    the carries. Without a `length`, only these two limit the loop, and there are
    neither sequences nor ys.
    """
    rows, end = [], len(values) - counted - stops
    _require_parts(values, end, carries, sequences, counted)
    if length is not None:
        require_at_most(0, length, "the length must not be negative")
        for value in values[carries : carries + sequences]:
            require_equal(value.type.shape[0], length, "sequences must have one length")
            rows.append(value.type.like(value.type.shape[1:]))
    first = [v.type for v in values[:carries]]
    captures = [v.type for v in values[carries + sequences : end]]
    step_types = body.content.types([*first, *rows, *captures], sizes)
    require_same_types(first, step_types)
    ys = step_types[carries + stops :]
    ends = [
        t.dtype == BOOL and not t.rank for t in step_types[carries : carries + stops]
    ]
    if len(step_types) < carries + stops or not all(ends):
        raise type_error("a step returns the carries, then whether it is the last one")
    if length is None and (sequences or ys or not (counted or stops)):
        problem = "a loop without a length counts or stops, and has no sequences or ys"
        raise type_error(problem)
    stacked = [t.like((length, *t.shape)) for t in ys]
    return (*first, *[TensorType(INT32, ())] * stops, *stacked)


def _require_parts(
    values: Sequence[Value], end: int, carries: int, sequences: int, counted: bool
) -> None:
    """Raise GraphError if there are too few inputs, or if the limits are no scalars."""
    if min(carries, sequences) < 0 or carries + sequences > end:
        raise type_error("a scan needs an input for each carry and each sequence")
    limits = [v.type for v in values[end:]]
    kinds = [is_integer] * counted + [BOOL.__eq__] * (len(limits) - counted)
    for type, fits in zip(limits, kinds, strict=True):
        if type.rank or not fits(type.dtype):
            problem = "the count must be an integer scalar, the flag to start a bool"
            raise type_error(problem)


class ScanInputs(NamedTuple):
    """The inputs of a scan, by purpose."""

    first: tuple[Value, ...]
    rows: tuple[Value, ...]
    captures: tuple[Value, ...]
    limit: Value | None
    going: Value | None


def scan_inputs(values: tuple[Any, ...], params: Params) -> ScanInputs:
    """Split the inputs of a scan by purpose."""
    carries, counted, stops = (params[k] for k in ("carries", "counted", "stops"))
    split, end = carries + params["sequences"], len(values) - counted - stops
    limit = values[end] if counted else None
    going = values[-1] if stops else None
    captures = values[split:end]
    return ScanInputs(values[:carries], values[carries:split], captures, limit, going)


def sizes_in(params: Params) -> tuple[Size, ...]:
    """The sizes in the params of a scan: length and chunk first, with 0 for None."""
    first = params["length"], params["chunk"]
    known = [0 if n is None else n for n in first]
    per_chunk: PerChunk | None = params["per_chunk"]
    chunk = () if per_chunk is None else (per_chunk.steps,)
    return (*known, *params["sizes"], *chunk)


def with_sizes(params: Params, sizes: Sequence[Size]) -> dict[str, object]:
    """The params of a scan with these sizes in place of its own."""
    length, chunk, *others = sizes
    count = len(params["sizes"])
    per_chunk: PerChunk | None = params["per_chunk"]
    return {
        **params,
        "length": None if params["length"] is None else length,
        "chunk": None if params["chunk"] is None else chunk,
        "sizes": tuple(others[:count]),
        "per_chunk": per_chunk and per_chunk._replace(steps=others[count]),
    }


_scan.rounding = "stored"
_scan.several = True
_scan.on_host = False  # the driver leaves loops to segments
_scan.selective = True
_scan.emit(print_scan)
SCAN = _scan


def _views(node: Node) -> Iterator[tuple[Value, Value]]:
    """Yield the views of a loop; stacked outputs are arrays of their own."""
    params, carries = node.params, node.params["carries"]
    yield from carried_views(node, params["body"].content, carries)
    stops = params["counted"] or params["stops"]
    if stops or not less_equal(1, params["length"]):
        yield from zip(node.outputs[:carries], node.inputs, strict=False)


_scan.views = _views


def _body_calls(node: Node) -> tuple[BodyCall]:
    """The call of the body, with the carries, a row per sequence, and the captures."""
    params, parts = node.params, scan_inputs(node.inputs, node.params)
    rows = [v.type.like(v.type.shape[1:]) for v in parts.rows]
    first, captures = (
        [v.type for v in values] for values in (parts.first, parts.captures)
    )
    types = [*first, *rows, *captures]
    return (BodyCall(params["body"].content, types, params["sizes"]),)


_scan.body_calls = _body_calls

# A scan with early exit and a number of slices, `length`, that is not known beforehand.
# Its first carry says whether the loop goes on. It is made when all else has been done.
GROWING = Primitive("growing", _scan.infer)
GROWING.rounding = "stored"
GROWING.__doc__ = "A scan that stops, of as many rows as it has steps: see `growing`."
GROWING.several = True
GROWING.on_host = False
GROWING.driven = True
GROWING.emit(print_growing)
GROWING.views = _views
GROWING.body_calls = _body_calls
GROWING.size_remedy = "give a bound of its steps: max_steps= of gt.while_loop"
GROWING.no_gradient("gradients are taken of the scans that it is made from")
GROWING.no_batch("the scans that it is made from are batched instead")
GROWING.no_padding("it is made from scans that are padded already")


@_scan.padding
def _(pad: Padding, *values: PaddedValue, **params: Any) -> tuple[Any, ...] | None:
    """Pad a scan: no step runs beyond the true length; the body is padded too."""
    operands: Any = scan_inputs(values, params)
    first, rows, captures, count, going = operands
    (call,) = pad.node.primitive.body_calls(pad.node)
    limits = [] if count is None else [count.value]
    if params["length"] is not None:
        limits.append(cast(pad.length(pad.node.params["length"]), INT32))
    # After a step, the padding of a carry may hold something else.
    like = [*(replace(x, fill={}) for x in first), *map(_slice_of, rows)]

    def step(carry: list[Value], row: list[Value]) -> StepResult:
        pairs = zip([*carry, *row], like, call.types, strict=False)
        padded = [PaddedValue(v, type, x.axes, x.fill) for v, x, type in pairs]
        results = [x.value for x in pad.body(call, [*padded, *captures])]
        return results[: len(carry)], results[len(carry) :]

    ends, stacked = run_scan(
        step,
        [x.value for x in first],
        [x.value for x in rows],
        params["length"],
        params["reverse"],
        count=reduce(F.minimum, limits) if limits else None,
        going=None if going is None else going.value,
        unroll=params["unroll"],
        replay=params["replay"],
        per_chunk=_padded_chunks(pad, pad.node.params["per_chunk"]),
    )
    steps = [] if going is None else [stacked.pop(0)]
    places = enumerate(stacked, len(ends) + len(steps))
    return (*ends, *steps, *(pad.result(v, {0: 0}, i) for i, v in places))


def _padded_chunks(pad: Padding, per_chunk: PerChunk | None) -> PerChunk | None:
    """The record of chunks, which have as many steps as without padding."""
    return per_chunk and per_chunk._replace(steps=pad.exact(per_chunk.steps))


def _slice_of(x: PaddedValue) -> PaddedValue:
    """The slice of a padded sequence that a step gets."""
    fill = {a - 1: n for a, n in x.fill.items() if a}
    return PaddedValue(x.value, x.type, frozenset(a - 1 for a in x.axes if a), fill)


OPTIONS: Params = {
    "unroll": 1,
    "few": False,
    "chunk": None,
    "replay": None,
    "per_chunk": None,
}


def run_scan(
    step: StepFunction,
    first: Sequence[Value],
    rows: Sequence[Value],
    length: Size | None,
    reverse: bool,
    superset_of: Opaque | None = None,
    pruned: bool = False,
    count: Value | None = None,
    going: Value | None = None,
    grows: bool = False,
    **options: Param,
) -> StepResult:
    """Scan with a step on lists of values; `pruned` leaves unused sequences out.

    Only the first `count` slices have a step; there must be that many. If `going`,
    which says whether there is a first step, is given, the first output of a step tells
    whether to stop after it, and the trip count comes before the ys. If the loop
    `grows`, it has as many slices as steps. `options` are params.
    """
    carries = [variable_like(v) for v in first]
    row = [row_variable(v) for v in rows]
    after, ys = step(carries, row)
    outputs, checks = take_out_checks([*after, *ys], [*carries, *row])
    flags = initial_flags(checks)
    first, carry = [*first, *flags], [*carries, *map(variable_like, flags)]
    outputs = masked_writes(merge_in_values(outputs), [*carries, *row])
    after, ys = outputs[: len(carries)], outputs[len(carries) :]
    after += update_flags(carry[len(carries) :], checks)
    if pruned:
        used = values_used([*after, *ys], row)
        rows = [v for v, one in zip(rows, row, strict=True) if one in used]
        row = [v for v in row if v in used]
    if count is not None and not row and len(ys) == (going is not None):
        length = None
    body, captures, sizes = close_body([*after, *ys], [*carry, *row], "scan")
    limits = [v for v in (count, going) if v is not None]
    node = (GROWING if grows else _scan).bind(
        (*first, *rows, *captures, *limits),
        {
            "body": Opaque("body", body),
            "carries": len(carry),
            "sequences": len(row),
            "sizes": tuple(sizes),
            "length": length,
            "reverse": reverse,
            "counted": count is not None,
            "stops": going is not None,
            **OPTIONS,
            **options,
            "superset_of": superset_of,
        },
    )
    ends, stacked = node.outputs[: len(carries)], node.outputs[len(carry) :]
    if grows:
        _as_size(stacked[0])
    results = with_checks(
        [*ends, *stacked], node.outputs[len(carries) : len(carry)], checks
    )
    return results[: len(carries)], results[len(carries) :]


def row_variable(sequence: Value) -> Value:
    """A new variable for the rows of a sequence."""
    type = sequence.type
    return body_input(sequence.name or "row", type.like(type.shape[1:]))


def _as_size(steps: Value) -> None:
    """Give the trip count a symbol, since it is used as a size; it is not negative."""
    if steps._symbol is None:
        steps._symbol = Symbol("steps", steps, 0)


enroll(run_scan, "_run_scan")


def values_used(outputs: Sequence[Value], inputs: Sequence[Value]) -> set[Value]:
    """The `outputs`, and the values used on the way to them from `inputs`."""
    region = region_between(outputs, inputs)
    return {*outputs, *(v for node in region for v in operands(node))}
