"""Reading, writing and adding to parts of arrays."""

from collections.abc import Iterator, Sequence
from typing import Any

import graphc.tensor as gt
from graphc.ir.graph.nodes import Value
from graphc.ir.primitives import OP
from graphc.pytensor.registry import rule

IndexEntries = tuple[Any, ...]


def index_of(op: Any, inputs: Sequence[Any]) -> IndexEntries:
    """The index of a node: `idx_list` says where its inputs stand in slices.

    Its entries are numbers of inputs, or types that stand for the next input.
    """
    pattern = getattr(op, "idx_list", None)
    if pattern is None:
        return tuple(inputs)
    left = iter(inputs)
    return tuple(_entry(entry, left) for entry in pattern)


def _entry(entry: Any, left: Iterator[Any]) -> Any:
    if isinstance(entry, slice):
        parts = (entry.start, entry.stop, entry.step)
        return slice(*[None if p is None else next(left) for p in parts])
    return next(left)


@rule("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
def _(op: Any, node: Any, x: Value, *inputs: Any) -> Value:
    index = index_of(op, inputs)
    left = _without_first(x, index)
    return x[index] if left is None else left


def _without_first(x: Value, index: IndexEntries) -> Value | None:
    """The joined arrays but the first, where an index takes exactly that one away.

    So PyTensor drops the start of a scan. XLA aborts where nothing is left then.
    """
    joined = x.node
    if joined.primitive is not OP.concatenate or joined.params["axis"] != 0:
        return None
    match index:
        case (slice(start=Value() as start, stop=None, step=None),):
            first, *others = joined.inputs
            size = first.type.shape[0]
            if isinstance(size, int) and gt.known(start) == size:
                return gt.concatenate(others)
    return None


@rule("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1")
def _(op: Any, node: Any, x: Value, y: Value, *inputs: Any) -> Value:
    dtype = gt.result_type(x, y) if y.dtype.kind == "c" else x.dtype
    place = gt.astype(x, dtype).at[index_of(op, inputs)]
    value = gt.astype(y, dtype)
    return place.set(value) if op.set_instead_of_inc else place.add(value)


@rule("MakeSlice")
def _(op: Any, node: Any, start: Any, stop: Any, step: Any) -> slice:
    return slice(start, stop, step)
