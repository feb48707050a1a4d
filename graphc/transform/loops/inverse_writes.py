"""Inverse writes: restore an array before a step from the one after and an undo log.

Only the overwritten elements of each step are kept, not the whole array.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.control.carries import variable_like
from graphc.control.predicated_writes import WRITES, read_where_written, writes_between
from graphc.ir.graph.nodes import Value, origins
from graphc.ir.graph.replay import region_between
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import evaluate_equal

TYPICAL_SIZE = 1000  # a symbolic size, where only an idea of it is needed
MUCH_SMALLER = 8


@dataclass(frozen=True)
class InverseWrites:
    """The inverse of a step's writes to a carry.

    `last` is the variable of the carry after the step; `states` maps the states before
    each write and after it to their replacements; `first` is the carry before the step.
    All of them are in terms of the values of `log`, the undo log of the step.
    """

    last: Value
    first: Value
    states: dict[Value, Value]
    log: list[Value]


def invert_writes(
    start: Value, end: Value, changing: Sequence[Value], inputs: Sequence[Value]
) -> InverseWrites | None:
    """Invert the writes that lead from `start` to `end`; None where that does not pay.

    Indices that depend on `changing` values are in the log too. Values in the log must
    have sizes that do not depend on the `inputs` of the step.
    """
    writes = writes_between(end, start)
    if writes is None:
        return None
    real = [w for w in writes if w.primitive in WRITES]
    olds = {w: read_where_written(w, w.inputs[0]) for w in real}
    most = typical_elements(start) // MUCH_SMALLER
    if sum(map(typical_elements, olds.values())) > most:
        return None
    if any(has_varying_size(v, inputs) for w in real for v in (olds[w], *w.inputs[2:])):
        return None
    last = state = variable_like(start)
    states, log = {end: last}, []
    for write in reversed(writes):
        x = write.inputs[0]
        if write in olds:
            indices = write.inputs[2:]
            log += [olds[write], *(i for i in indices if _depends_on(i, changing))]
            params = dict(write.params, how="set")
            state = write.primitive(state, olds[write], *indices, **params)
        else:
            state = F.reshape(state, x.type.shape)
        states[x] = state
    return InverseWrites(last, state, states, log)


def _depends_on(value: Value, inputs: Sequence[Value]) -> bool:
    return any(value is v for v in inputs) or bool(region_between([value], inputs))


def has_varying_size(value: Value, inputs: Sequence[Value]) -> bool:
    """Whether a size of a value depends on the inputs of a step."""
    sizes = [v for n in value.type.shape for v in origins(n)]
    return any(_depends_on(v, inputs) for v in sizes)


def typical_elements(value: Value) -> int:
    """Estimate the number of elements of a value."""
    return evaluate_equal(value.type.size, TYPICAL_SIZE)
