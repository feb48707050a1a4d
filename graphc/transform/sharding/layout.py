"""Layouts: along which axes of a mesh the axes of arrays lie."""

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import prod

from graphc.errors import graph_error
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.sizes.dims import Dim, Size, Symbol, ceil_div, evaluate_equal, symbols_in
from graphc.ir.sizes.names import shown_name
from graphc.ir.sizes.polynomials import polynomial
from graphc.transform.policies import Policy
from graphc.transform.sharding.by_hand import (
    MeshAxes,
    arrays_behind_choices,
    chosen_axes,
    is_multiple,
)
from graphc.transform.sharding.meshes import DeviceMesh
from graphc.transform.sharding.shards import Sharded

_LARGE_SIZE = 2**12  # the number that all sizes have where bytes are compared


@dataclass(frozen=True)
class MeshLayout:
    """The axes of a mesh along which sizes are spread, by the symbols of capacities.

    Values in `chosen` lie as the user says; JAX decides where `undecided` values lie.
    """

    mesh: DeviceMesh
    axes: Mapping[Symbol, str]
    chosen: Mapping[Value, MeshAxes] = field(default_factory=dict)
    undecided: Set[Value] = frozenset()

    def of(self, value: Value) -> MeshAxes | None:
        """The mesh axes that a stored value lies along; None where JAX decides that.

        Sizes that are spread take precedence over a choice by hand only for arguments.
        """
        if value.node.primitive is INPUT:
            by_sizes = self._of_sizes(value)
            chosen = self.chosen.get(value)
            return by_sizes if chosen is None or any(by_sizes or ()) else chosen
        if value in self.chosen or value in self.undecided:
            return self.chosen.get(value)
        return self._of_sizes(value)

    def _of_sizes(self, value: Value) -> MeshAxes | None:
        """The place that a value's sizes give its axes; None where JAX decides that.

        An axis lies along the mesh axis of a factor of its size: `capacity * length`
        rows are spread as `capacity` rows are. Sizes of bodies are left out.
        """
        axes: list[str | None] = []
        decided = True
        for size in value.type.shape:
            axis = self._axis_of_size(size, taken=axes)
            axes.append(axis)
            if axis is None and isinstance(size, Dim):
                decided = decided and self.axes.keys().isdisjoint(size.symbols)
        return tuple(axes) if decided or any(axes) else None

    def place_with_room(self, value: Value) -> MeshAxes | None:
        """The place of a result that is stored with equal room for rows on each device.

        It has a size such as `capacity - 1`, or half of `capacity`; None where it has
        not.
        """
        is_decided = value in self.chosen or value in self.undecided
        if value.node.primitive is INPUT or is_decided or self._of_sizes(value):
            return None
        places = list(map(self._axis_of_capacity, value.type.shape))
        names = [name for name in places if name is not None]
        return tuple(places) if len(names) == len(set(names)) > 0 else None

    def nearly_even_place(self, value: Value) -> MeshAxes:
        """The place of a value whose rows devices share evenly or nearly so."""
        return self.of(value) or self.place_with_room(value) or whole_axes(value)

    def _axis_of_capacity(self, size: Size) -> str | None:
        """The mesh axis of the one capacity that a size depends on."""
        axes = [self.axes[s] for s in symbols_in(size) if s in self.axes]
        return axes[0] if len(axes) == 1 else None

    def local_shape(self, value: Value, axes: Sequence[str | None]) -> Sequence[Size]:
        """The stored sizes of one device's part of a value that lies along `axes`."""
        sizes = zip(value.type.shape, axes, strict=True)
        return [n if axis is None else self._part_of_size(n, axis) for n, axis in sizes]

    def local_bytes(self, value: Value, axes: Sequence[str | None]) -> Size:
        """The bytes of one device's part of a value that lies along `axes`."""
        return prod(self.local_shape(value, axes)) * value.dtype.itemsize

    def moved_bytes(self, value: Value, before: MeshAxes, axes: MeshAxes) -> Size:
        """The bytes on one device of a value that is moved from `before` to `axes`.

        Gathered parts are equally large, so the last one is filled up.
        """
        shape = list(self.local_shape(value, axes))
        for i, (name, after) in enumerate(zip(before, axes, strict=True)):
            size = value.type.shape[i]
            if name is None or after is not None or self._is_even(size, name):
                continue
            if self._axis_of_capacity(size) is not None:  # else it is of a body
                shape[i] = self._part_of_size(size, name) * self.mesh.size(name)
        return prod(shape) * value.dtype.itemsize

    def gathered_bytes(self, value: Value, before: MeshAxes, axes: MeshAxes) -> Size:
        """The bytes of the messages that gather a value, along its last axis first."""
        total: Size = 0
        now = list(before)
        for i in reversed(range(len(now))):
            if now[i] != axes[i]:
                now[i] = axes[i]
                total += self.moved_bytes(value, before, tuple(now))
        return total

    def even_axes(self, value: Value, axes: MeshAxes) -> MeshAxes:
        """The axes along which all devices surely have parts of one size."""
        pairs = zip(axes, value.type.shape, strict=True)
        return tuple([a if a and self._is_even(n, a) else None for a, n in pairs])

    def _is_even(self, size: Size, axis: str) -> bool:
        return is_multiple(size, self.mesh.size(axis), self.devices)

    def _part_of_size(self, size: Size, axis: str) -> Size:
        count = self.mesh.size(axis)
        even = self._is_even(size, axis)
        return size // count if even else ceil_div(size, count)

    def is_spread(self, value: Value) -> bool:
        """Whether a size may spread the elements along one of the axes."""
        symbols = (s for n in value.type.shape for s in symbols_in(n))
        return not self.axes.keys().isdisjoint(symbols)

    @property
    def devices(self) -> dict[Symbol, int]:
        """The numbers of devices that capacities are multiples of."""
        return {symbol: self.mesh.size(axis) for symbol, axis in self.axes.items()}

    def _axis_of_size(self, size: Size, taken: Sequence[str | None]) -> str | None:
        """The mesh axis that the elements of a size are spread along, if any."""
        if not isinstance(size, Dim):
            return None
        for symbol, axis in self.axes.items():
            terms = (monomial for monomial, _ in polynomial(size).items())
            if axis not in taken and all(symbol in monomial for monomial in terms):
                return axis
        return None


def whole_axes(value: Value) -> MeshAxes:
    """The place of a value that each device has whole."""
    return (None,) * value.type.rank


def with_whole_axes(place: MeshAxes, axes: Container[int]) -> MeshAxes:
    """A place, but with these axes of the array whole on each device."""
    return tuple([None if a in axes else name for a, name in enumerate(place)])


def comparable_size(size: Size) -> int:
    """A number to compare bytes by: all symbolic sizes count as equal and large."""
    return evaluate_equal(size, _LARGE_SIZE)


def without_last_whole(axes: Sequence[str | None]) -> Sequence[str | None]:
    """Drop the trailing axes of an array that lie along no axis of the mesh."""
    count = max((i + 1 for i, name in enumerate(axes) if name is not None), default=0)
    return axes[:count]


def layout_of(
    mesh: DeviceMesh,
    policies: Mapping[Symbol, Policy],
    capacities: Mapping[Symbol, Symbol],
    nodes: Iterable[Node],
) -> MeshLayout:
    """The layout of nodes on a mesh, under policies."""
    axes, nodes = spread_capacities(capacities, policies), list(nodes)
    return MeshLayout(mesh, axes, chosen_axes(nodes), arrays_behind_choices(nodes))


def spread_capacities(
    capacities: Mapping[Symbol, Symbol], policies: Mapping[Symbol, Policy]
) -> dict[Symbol, str]:
    """The axes of the mesh that sizes are spread along, by their capacities.

    `policies` are those of the padded graph, which sizes that must be equal share.
    """
    pairs = [(capacity, policies[symbol]) for symbol, capacity in capacities.items()]
    return {c: p.axis for c, p in pairs if isinstance(p, Sharded)}


def check_shards(graph: Graph, policies: Mapping[Symbol, Policy]) -> None:
    """Raise GraphError for shards that no array can have.

    These are shards of sizes that depend on data or numbers, and of two sizes of one
    argument or result along the same axis of the mesh.
    """
    shards = {s: p for s, p in policies.items() if isinstance(p, Sharded)}
    for symbol in shards:
        origin = symbol.origin
        if origin is not None:
            raise graph_error(
                f"only axes of arguments can be sharded, and {shown_name(symbol)} is "
                "computed",
                op="function",
                hint="use Pad()",
                where=origin.node.place if isinstance(origin, Value) else None,
            )
    for value in (*graph.inputs, *graph.outputs) if shards else ():
        _check_once(value, _sharded_axes(value, shards))


def _sharded_axes(
    value: Value, shards: Mapping[Symbol, Sharded]
) -> Iterable[tuple[Symbol, str]]:
    for size in value.type.shape:
        for symbol in symbols_in(size):
            if symbol in shards:
                yield symbol, shards[symbol].axis


def _check_once(value: Value, pairs: Iterable[tuple[Symbol, str]]) -> None:
    first: dict[str, Symbol] = {}
    for symbol, axis in pairs:
        other = first.setdefault(axis, symbol)
        if other is not symbol:
            names = f"{shown_name(other)} and {shown_name(symbol)}"
            raise graph_error(
                f"{names} are sizes of one array, and both are sharded over {axis!r}",
                op="function",
                got=f"{value.name or value.node.reported}: {value.type}",
                hint="shard one of them, or each over an axis of its own: "
                f'graphc.mesh({axis}=..., model=...), graphc.Shard("model")',
                where=value.node.place,
            )
