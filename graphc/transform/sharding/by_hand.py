"""Shardings chosen by hand, with `gt.with_sharding`: where they lay arrays."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from graphc.errors import graph_error
from graphc.ir.graph.bodies import has_bodies, sized_inner_nodes, with_inner_nodes
from graphc.ir.graph.build import INPUT
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.params.kinds import Text
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Dim, Size, Symbol, substitute
from graphc.ir.sizes.polynomials import polynomial
from graphc.ops.effects.shardings import FREE, WHOLE
from graphc.transform.sharding.meshes import DeviceMesh, check_axis

MeshAxes = tuple[str | None, ...]  # axes of a mesh, for each axis of an array


@dataclass(frozen=True)
class Choice:
    """A node that says where an array lies; `sizes` are its body's, as seen outside."""

    node: Node
    sizes: Mapping[Symbol, Size]

    @property
    def names(self) -> Iterator[tuple[Size, Text]]:
        """Yield the size of each axis, and the axis of the mesh that it lies along."""
        axes: Iterable[Text] = self.node.params["axes"]
        shape = self.node.outputs[0].type.shape
        for size, axis in zip(shape, axes, strict=True):
            yield substitute(size, self.sizes), axis


def is_chosen(nodes: Iterable[Node]) -> bool:
    """Whether a sharding is chosen by hand somewhere in nodes, bodies included."""
    return any(node.primitive is OP.with_sharding for node in with_inner_nodes(nodes))


def choices(nodes: Iterable[Node]) -> list[Choice]:
    """The shardings that are chosen by hand in nodes, bodies included."""
    pairs = sized_inner_nodes(nodes)
    return [Choice(n, sizes) for n, sizes in pairs if n.primitive is OP.with_sharding]


def chosen_axes(nodes: Iterable[Node]) -> dict[Value, MeshAxes]:
    """The places of choices' results, and of arguments for which all choices agree."""
    axes: dict[Value, MeshAxes] = {}
    of_arguments: dict[Value, set[MeshAxes]] = {}
    for node in nodes:
        if node.primitive is not OP.with_sharding or FREE in node.params["axes"]:
            continue
        names = tuple([a.content or None for a in node.params["axes"]])
        axes[node.outputs[0]] = names
        if node.inputs[0].node.primitive is INPUT:
            of_arguments.setdefault(node.inputs[0], set()).add(names)
    single = {v: layouts for v, layouts in of_arguments.items() if len(layouts) == 1}
    return axes | {v: next(iter(layouts)) for v, layouts in single.items()}


def arrays_behind_choices(nodes: Iterable[Node]) -> set[Value]:
    """The arrays that are computed from results of choices: JAX decides where they lie.

    So a parameter that is updated by its gradient stays where that lies.
    """
    dependents: set[Value] = set()
    for node in nodes:
        chooses = node.primitive is OP.with_sharding
        chooses = chooses or (has_bodies(node) and is_chosen([node]))
        if chooses or not dependents.isdisjoint(node.inputs):
            dependents.update(v for v in node.outputs if v.type.rank)
    return dependents


def check_choices(
    nodes: Iterable[Node], mesh: DeviceMesh, devices: Mapping[Symbol, int]
) -> None:
    """Raise GraphError for axes that the mesh lacks, and sizes that it cannot share.

    `devices` are numbers that capacities are multiples of, by the symbols of
    capacities.
    """
    for choice in choices(nodes):
        for size, axis in choice.names:
            if axis not in (WHOLE, FREE):
                _check_axis(choice.node, size, axis.content, mesh, devices)


def _check_axis(
    node: Node, size: Size, axis: str, mesh: DeviceMesh, devices: Mapping[Symbol, int]
) -> None:
    got = f"{node.inputs[0].type}, along {axis!r}"
    check_axis(mesh, axis, node.op_called, got, node.place)
    count = mesh.size(axis)
    if is_multiple(size, count, devices):
        return
    varies = isinstance(size, Dim)
    problem = "are not known to share" if varies else "cannot share"
    hint = (
        f'dims={{...: graphc.Shard({axis!r})}} stores that size at multiples'
        if varies
        else "pad that axis to a multiple with gt.pad, or lay another axis there"
    )
    raise graph_error(
        f"{count} devices {problem} {size} elements evenly",
        op=node.op_called,
        got=got,
        hint=hint,
        where=node.place,
    )


def is_multiple(size: Size, number: int, devices: Mapping[Symbol, int]) -> bool:
    """Whether a size is surely a multiple of a number."""
    if not isinstance(size, Dim):
        return size % number == 0
    return all(
        factor * prod(_multiples(monomial, devices)) % number == 0
        for monomial, factor in polynomial(size).items()
    )


def _multiples(monomial: Iterable[object], devices: Mapping[Symbol, int]) -> list[int]:
    return [devices[s] for s in monomial if isinstance(s, Symbol) and s in devices]
