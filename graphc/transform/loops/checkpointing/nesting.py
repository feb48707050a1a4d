"""A scan as a scan over chunks, in which each step is a scan over a chunk's steps.

The gradient of the outer scan keeps the carry before each chunk, and recomputes the
steps of the chunk. So does the gradient of that gradient, and the next: the values that
a chunk needs are computed within a step of an outer scan, and are gone after it.
"""

from collections.abc import Sequence

from graphc.control.checkpoint_policy import recomputes_steps
from graphc.control.scan import run_scan, scan_inputs
from graphc.ir.graph.bodies import Body, StepFunction, StepResult
from graphc.ir.graph.build import size_value
from graphc.ir.graph.nodes import Params, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size


def has_chunks(params: Params) -> bool:
    """Whether a scan keeps the carry before each chunk, and does all of its steps."""
    if not recomputes_steps(params["chunk"]) or params["length"] is None:
        return False
    return not (params["counted"] or params["stops"])


def scan_over_chunks(values: tuple[Value, ...], params: Params) -> list[Value]:
    """Return the outputs of a scan that has chunks, given its inputs."""
    parts, count = scan_inputs(values, params), params["carries"]
    body: Body = params["body"].content

    def step(carry: list[Value], row: list[Value]) -> StepResult:
        outputs = body.call([*carry, *row, *parts.captures], params["sizes"])
        return outputs[:count], outputs[count:]

    length, chunk, reverse = (params[k] for k in ("length", "chunk", "reverse"))
    extent = length, chunk, reverse, params["unroll"]
    ends, stacked = run_in_chunks(step, parts.first, parts.rows, *extent)
    return [*ends, *stacked]


def run_in_chunks(
    step: StepFunction,
    first: Sequence[Value],
    rows: Sequence[Value],
    length: Size,
    chunk: Size,
    reverse: bool = False,
    unroll: object = 1,
) -> StepResult:
    """Scan all whole chunks, and the remaining steps before or after them."""
    chunk_count = length // chunk
    done = chunk_count * chunk
    remaining = length - done

    def steps(carry: list[Value], chunk_rows: list[Value]) -> StepResult:
        return run_scan(step, carry, chunk_rows, chunk, reverse, unroll=unroll)

    pairs = [_split(v, remaining if reverse else done) for v in rows]
    rows_in_chunks = [after if reverse else before for before, after in pairs]
    chunks = [
        F.reshape(v, (chunk_count, chunk, *v.type.shape[1:])) for v in rows_in_chunks
    ]
    ends, stacked = run_scan(steps, first, chunks, chunk_count, reverse, chunk=1)
    stacked = [F.reshape(v, (done, *v.type.shape[2:])) for v in stacked]
    if isinstance(remaining, int) and remaining == 0:
        return ends, stacked
    rows_remaining = [before if reverse else after for before, after in pairs]
    ends, stacked_remaining = run_scan(
        step, ends, rows_remaining, remaining, reverse, unroll=unroll
    )
    both = (stacked_remaining, stacked) if reverse else (stacked, stacked_remaining)
    return ends, [F.concatenate(pair, 0) for pair in zip(*both, strict=True)]


def _split(value: Value, at: Size) -> tuple[Value, Value]:
    """Split a value into the rows before a place and those from there on."""
    place = size_value(at)
    return value[:place], value[place:]
