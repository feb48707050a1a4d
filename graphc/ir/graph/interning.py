"""Hash-consing: building a node again gives the existing one."""

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


def _main_file() -> str:
    """The user's file, so that nodes without inputs keep the lines of one program."""
    return user_place().filename


class _InternedNode(ref[Node]):
    """An entry of the table: a weak reference to a node.

    The table works as a `WeakValueDictionary` does, whose entries take five times as
    long to make.
    """

    __slots__ = ("key",)
    key: tuple[Any, ...]


_INTERNED: dict[tuple[Any, ...], _InternedNode] = {}
# Nodes may die at any time, also in a thread that is just making one.
_CHANGING = RenewedLock()


def _remove_dead(entry: ref[Node]) -> None:
    """Remove the entry of a dead node, unless its key has a new entry by now."""
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
    """Return the one node with this primitive, these inputs and these params.

    Keys hold ids, which is safe: the ids of a live node's inputs cannot be reused, and
    the entry of a dead node is gone.
    """
    made_of = map(id, inputs) if inputs else (primitive.inline or _main_file(),)
    # Params are in a fixed order, so values alone identify them where none is missing.
    complete = len(params) == len(primitive.kinds.names)
    key = (primitive.name, *made_of, *(params.values() if complete else params.items()))
    entry = _INTERNED.get(key)
    node = None if entry is None else entry()
    if node is None:
        return _enter_node(key, Node(primitive, inputs, params, types, guards))
    if _RECORDING.records:
        for record in _RECORDING.records:
            record.add(node)
    return node


class _Recording(local):
    """Sets, in this thread, that record nodes which are built again."""

    records: tuple[set[Node], ...] = ()


_RECORDING = _Recording()


@contextmanager
def recording_shared() -> Generator[set[Node]]:
    """Yield a set that records existing nodes which are built again within."""
    outer, record = _RECORDING.records, set[Node]()
    _RECORDING.records = (*outer, record)
    try:
        yield record
    finally:
        _RECORDING.records = outer


def _enter_node(key: tuple[object, ...], node: Node) -> Node:
    """Enter a new node, or return the one that another thread entered meanwhile."""
    reference = _InternedNode(node, _remove_dead)
    reference.key = key
    with _CHANGING:
        entry = _INTERNED.get(key)
        other = None if entry is None else entry()
        if other is not None:
            return other
        _INTERNED[key] = reference
    return node
