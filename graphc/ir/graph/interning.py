"""Hash-consing: a node that is built again is the one that is there."""

from collections.abc import Generator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from graphc.errors import user_place
from graphc.ir.forks import RenewedLock
from graphc.ir.graph.nodes import Guard, Node, Params, Value
from graphc.ir.types import TensorType

if TYPE_CHECKING:
    from graphc.ir.graph.op import Primitive


def _home() -> str:
    """The user's file: nodes without inputs keep the lines of one program."""
    return user_place().filename


class _InternedNode(ref[Node]):
    """A node in the table, for as long as it lives.

    As in a `WeakValueDictionary`, whose entries take five times as long to make.
    """

    __slots__ = ("key",)
    key: tuple[Any, ...]


_INTERNED: dict[tuple[Any, ...], _InternedNode] = {}
# Nodes die at any time, in the thread that makes one as well.
_CHANGING = RenewedLock()


def _gone(entry: ref[Node]) -> None:
    """A node is dead: its key may be that of another by now."""
    key = cast(_InternedNode, entry).key
    with _CHANGING:
        if _INTERNED.get(key) is entry:
            del _INTERNED[key]


def intern_node(
    primitive: "Primitive",
    inputs: tuple[Value, ...],
    params: Params,
    types: tuple[TensorType, ...],
    guards: tuple[Guard, ...],
) -> Node:
    """The one node of this primitive, these inputs and these params.

    Keys hold ids: those of a live node's inputs cannot be reused, and the entry of
    a dead node is gone.
    """
    made_of = map(id, inputs) if inputs else (primitive.inline or _home(),)
    # Params have an order. Where all are there, their values tell which is which.
    complete = len(params) == len(primitive.kinds.names)
    key = (primitive.name, *made_of, *(params.values() if complete else params.items()))
    entry = _INTERNED.get(key)
    node = None if entry is None else entry()
    if node is None:
        return _interned(key, Node(primitive, inputs, params, types, guards))
    if _RECORDING.records:
        for record in _RECORDING.records:
            record.add(node)
    return node


class _Recording(local):
    """The records, of this thread, of nodes that are asked for once more."""

    records: tuple[set[Node], ...] = ()


_RECORDING = _Recording()


@contextmanager
def recording_shared() -> Generator[set[Node]]:
    """Within: nodes that were there before, and are built again, are in this set."""
    outer, record = _RECORDING.records, set[Node]()
    _RECORDING.records = (*outer, record)
    try:
        yield record
    finally:
        _RECORDING.records = outer


def _interned(key: tuple[object, ...], node: Node) -> Node:
    """A new node, or that of another thread which made it at the same time."""
    reference = _InternedNode(node, _gone)
    reference.key = key
    with _CHANGING:
        entry = _INTERNED.get(key)
        other = None if entry is None else entry()
        if other is not None:
            return other
        _INTERNED[key] = reference
    return node
