"""The messages between devices that rules foresee in a segment, with their bytes.

Places of arrays are followed from the inputs on. Where an op works on parts along an
axis by themselves, its result lies as its operands do; what is summed over axes that
are spread is a sum on each device, then an all-reduce of the results; and what devices
shall have whole is gathered. Of other ops on spread arrays XLA decides: they may gather
all that they take.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from graphc.control.call import CALL
from graphc.control.scan import SCAN, parts_of
from graphc.ir.graph.bodies import Body, has_inner
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute
from graphc.ops.effects.shardings import FREE
from graphc.transform.sharding.by_hand import MeshAxes
from graphc.transform.sharding.joined import joined_axes, parted_axes
from graphc.transform.sharding.layout import MeshLayout
from graphc.transform.sharding.whole import gathered

_NOT_PLAIN = "stops", "chunk", "per_chunk"  # of scans


@dataclass(frozen=True)
class Unforeseen:
    """A node whose messages no rule predicts, and the bytes that it may gather."""

    node: Node
    bytes: Size


@dataclass
class Messages:
    """The bytes of messages of a segment, by their kinds, and what is unforeseen.

    The bytes are those of the results on each device, in terms of stored sizes.
    """

    bytes: dict[str, Size] = field(default_factory=dict)
    unforeseen: list[Unforeseen] = field(default_factory=list)

    def add(self, kind: str, size: Size) -> None:
        """Count one more message."""
        self.bytes[kind] = self.bytes.get(kind, 0) + size

    def take(self, inner: "Messages", sizes: Mapping[Symbol, Size]) -> None:
        """Count those of a body too, whose sizes are these outside of it."""
        for kind, size in inner.bytes.items():
            self.add(kind, _outside(size, sizes))
        self.unforeseen += [
            Unforeseen(one.node, _outside(one.bytes, sizes)) for one in inner.unforeseen
        ]


def _outside(size: Size, sizes: Mapping[Symbol, Size]) -> Size:
    return substitute(size, sizes) if isinstance(size, Dim) else size


class _Unforeseen(Exception):
    """Raised where no rule says where a result lies."""


class Follower:
    """Follows where arrays lie, through one segment after the other."""

    def __init__(self, layout: MeshLayout) -> None:
        self._layout = layout
        self._places: dict[Value, MeshAxes] = {}

    def messages(
        self, nodes: Iterable[Node], inputs: Iterable[Value], outputs: Iterable[Value]
    ) -> Messages:
        """The messages of a segment with these nodes, which gives these outputs."""
        messages = Messages()
        self._enter(inputs)
        for node in nodes:
            self._follow(node, messages)
        for value in outputs:
            axes = self._layout.of(value)
            if axes is not None and not self._move(value, self._spread(axes), messages):
                messages.unforeseen.append(Unforeseen(value.node, _bytes(value)))
        return messages

    def undecided(
        self, node: Node, inputs: Sequence[Value], outputs: Iterable[Value]
    ) -> Messages:
        """The messages of a segment whose nodes are not followed, but for this one."""
        self._enter(inputs)
        spread = [v for v in inputs if any(self.place(v))]
        self._places.update((v, self._decided(v)) for v in outputs)
        unforeseen = [Unforeseen(node, sum(map(_bytes, spread)))] if spread else []
        return Messages(unforeseen=unforeseen)

    def _enter(self, inputs: Iterable[Value]) -> None:
        for value in inputs:
            if self._layout.of(value) is not None or value not in self._places:
                self._places[value] = self._decided(value)

    def _decided(self, value: Value) -> MeshAxes:
        """Where the layout says that a value lies; whole where it leaves that open."""
        axes = self._layout.of(value)
        return _whole(value) if axes is None else self._spread(axes)

    def _spread(self, axes: MeshAxes) -> MeshAxes:
        """The axes without those along which there is one device."""
        mesh = self._layout.mesh
        alone = [a is None or mesh.size(a) == 1 for a in axes]
        return tuple([None if one else a for a, one in zip(axes, alone, strict=True)])

    def place(self, value: Value) -> MeshAxes:
        """Where a value lies; what is not computed on the way lies anywhere."""
        return self._places.get(value) or _whole(value)

    def _follow(self, node: Node, messages: Messages) -> None:
        before = {v: self.place(v) for v in node.inputs}
        spread = [v for v in before if any(before[v])]
        try:
            self._through(node, messages)
        except _Unforeseen:
            messages.unforeseen.append(Unforeseen(node, sum(map(_bytes, spread))))
            self._places.update((v, self._decided(v)) for v in node.outputs)

    def _through(self, node: Node, messages: Messages) -> None:
        """Set where the results lie. Raises _Unforeseen where no rule says that."""
        if node.primitive is OP.with_sharding:
            self._lay_by_hand(node, messages)
        elif gathered(self._layout, node) is not None:
            self._apart(node)
        elif not any(axis for v in node.inputs for axis in self.place(v)):
            # What devices make of nothing, as masks, they make where it is used.
            made = not any(map(self._layout.is_spread, node.inputs))
            place = self._decided if made else _whole
            self._places.update((v, place(v)) for v in node.outputs)
        elif node.primitive is CALL:
            self._call(node, messages)
        elif node.primitive is SCAN:
            self._scan(node, messages)
        elif has_inner(node) or len(node.outputs) > 1:
            raise _Unforeseen
        else:
            self._by_axes(node, messages)

    def _apart(self, node: Node) -> None:
        """Set where the results lie of a node that devices do on their parts."""
        needs = gathered(self._layout, node)
        if needs is None or needs.sent or not needs.is_apart:
            raise _Unforeseen
        self._places.update((v, self._spread(a)) for v, a in needs.outputs.items())

    def _call(self, node: Node, messages: Messages) -> None:
        (call,) = node.primitive.body_calls(node)
        places, inner = self._inside(call.body, [*map(self.place, node.inputs)])
        self._places.update(zip(node.outputs, places, strict=True))
        messages.take(inner, call.sizes)

    def _scan(self, node: Node, messages: Messages) -> None:
        """Through one step, of which all lie alike: XLA has the messages once.

        Each step takes the carry from where it leaves it.
        """
        params, (call,) = node.params, node.primitive.body_calls(node)
        parts = parts_of(node.inputs, params)
        rows = [self.place(v) for v in parts.rows]
        carries = [self.place(v) for v in parts.first]
        plain = not any(params[name] for name in _NOT_PLAIN)
        if not plain or any(axes[0] for axes in rows):
            raise _Unforeseen
        steady = [*(axes[1:] for axes in rows), *map(self.place, parts.rest)]
        places, inner = self._inside(call.body, [*carries, *steady])
        if places[: len(carries)] != carries:
            carries = places[: len(carries)]
            places, inner = self._inside(call.body, [*carries, *steady])
        if places[: len(carries)] != carries:
            raise _Unforeseen
        stacked = [(None, *axes) for axes in places[len(carries) :]]
        pairs = zip(node.outputs, [*carries, *stacked], strict=True)
        self._places.update(pairs)
        messages.take(inner, call.sizes)

    def _inside(
        self, body: Body, places: Sequence[MeshAxes]
    ) -> tuple[list[MeshAxes], Messages]:
        """Where the outputs of a body lie, and its messages."""
        if len(places) != len(body.inputs):
            raise _Unforeseen
        follower, messages = Follower(self._layout), Messages()
        follower._places.update(zip(body.inputs, places, strict=True))
        for node in body.nodes:
            follower._follow(node, messages)
        return [follower.place(v) for v in body.outputs], messages

    def _lay_by_hand(self, node: Node, messages: Messages) -> None:
        (x,), (result,) = node.inputs, node.outputs
        pairs = zip(node.params["axes"], self.place(x), strict=True)
        axes = tuple([old if a == FREE else a.content or None for a, old in pairs])
        self._places[result] = self.place(x)
        if not self._move(result, self._spread(axes), messages):
            raise _Unforeseen

    def _move(self, value: Value, axes: MeshAxes, messages: Messages) -> bool:
        """Count what it takes to lay a value so; whether a rule says that.

        A part of what is there takes no message, and what is spread is gathered. Both
        at once XLA does in ways of its own.
        """
        before = self.place(value)
        moved = [(a, b) for a, b in zip(before, axes, strict=True) if a != b]
        gathers = any(a is not None for a, _ in moved)
        if gathers and any(b is not None for _, b in moved):
            return False
        if gathers:
            messages.add("all-gather", self._local_bytes(value, axes))
        self._places[value] = axes
        return True

    def _by_axes(self, node: Node, messages: Messages) -> None:
        """Set where the one result lies, axis by axis."""
        (result,) = node.outputs
        taken: list[set[int]] = [set() for _ in node.inputs]
        axes: list[str | None] = []
        for axis in range(result.type.rank):
            of_operands = parted_axes(node, axis) or []
            axes.append(self._shared(node, of_operands))
            for places, operand_axis in zip(taken, of_operands, strict=False):
                places.update([] if operand_axis is None else [operand_axis])
        joined = self._joined(node, taken)
        if len({*filter(None, axes)} | joined) < len([*filter(None, axes), *joined]):
            raise _Unforeseen  # one axis of the mesh for two of the result
        self._places[result] = tuple(axes)
        if joined:
            messages.add("all-reduce", self._local_bytes(result, axes))

    def _shared(self, node: Node, of_operands: Sequence[int | None]) -> str | None:
        """The axis of the mesh along which the operands of an axis lie."""
        pairs = zip(node.inputs, of_operands, strict=False)
        names = {self.place(v)[a] for v, a in pairs if a is not None} - {None}
        if len(names) > 1:
            raise _Unforeseen
        return next(iter(names), None)

    def _joined(self, node: Node, taken: Sequence[set[int]]) -> set[str]:
        """The axes of the mesh over which results of parts are joined."""
        summed = [set(axes) for axes in joined_axes(node)]
        summed += [set()] * (len(node.inputs) - len(summed))
        joined: set[str] = set()
        for value, kept, reduced in zip(node.inputs, taken, summed, strict=True):
            for axis, name in enumerate(self.place(value)):
                if name is not None and axis not in kept:
                    if axis not in reduced:
                        raise _Unforeseen
                    joined.add(name)
        return joined

    def _local_bytes(self, value: Value, axes: Sequence[str | None]) -> Size:
        """The bytes of the part of a value that one device has."""
        mesh = self._layout.mesh
        sizes = zip(value.type.shape, axes, strict=True)
        parts = [n if a is None else n // mesh.size(a) for n, a in sizes]
        return prod(parts) * value.dtype.itemsize


def _whole(value: Value) -> MeshAxes:
    return (None,) * value.type.rank


def _bytes(value: Value) -> Size:
    return value.type.size * value.dtype.itemsize
