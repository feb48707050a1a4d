"""A mesh of devices as plain data, which is printed into programs."""

from dataclasses import dataclass
from math import prod

from graphc.errors import SourceLocation, graph_error
from graphc.ir.namespace import misspelled


@dataclass(frozen=True)
class DeviceMesh:
    """Devices of one platform, arranged along axes with names and sizes.

    `devices` are positions among the devices of the platform, in the order of the mesh,
    so that other processes know them too. An empty `platform` is JAX's default. If the
    devices belong to several `processes`, these wait for each other at calls, for at
    most `wait` seconds.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: tuple[int, ...]
    platform: str = ""
    processes: tuple[int, ...] = ()
    wait: float = 0

    def __post_init__(self) -> None:
        assert len(self.names) == len(self.sizes)
        assert prod(self.sizes) == len(self.devices)

    def size(self, axis: str) -> int:
        """The number of devices along an axis."""
        return self.sizes[self.names.index(axis)]

    def __str__(self) -> str:
        axes = zip(self.names, self.sizes, strict=True)
        return ", ".join(f"{name}={size}" for name, size in axes)


def check_axis(
    mesh: DeviceMesh, axis: str, op: str, got: str, where: SourceLocation | None = None
) -> None:
    """Raise GraphError, for an `op`, where a mesh has no such axis."""
    if axis not in mesh.names:
        raise graph_error(
            f"the mesh has no axis {axis!r}" + misspelled(axis, list(mesh.names)),
            op=op,
            got=got,
            expected=f"one of {', '.join(map(repr, mesh.names))}",
            where=where,
        )


NO_MESH = DeviceMesh((), (), (0,))
