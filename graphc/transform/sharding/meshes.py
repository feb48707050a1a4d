"""A mesh of devices as plain data, which is printed into programs."""

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class DeviceMesh:
    """Devices of one platform, in rows: axes have names and sizes.

    `devices` are positions among the devices of the platform, in the order of the mesh,
    so that other processes know them too. No platform is that of JAX's default.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: tuple[int, ...]
    platform: str = ""

    def __post_init__(self) -> None:
        assert len(self.names) == len(self.sizes)
        assert prod(self.sizes) == len(self.devices)

    def size(self, axis: str) -> int:
        """How many devices there are along an axis."""
        return self.sizes[self.names.index(axis)]

    def __str__(self) -> str:
        axes = zip(self.names, self.sizes, strict=True)
        return ", ".join(f"{name}={size}" for name, size in axes)


NO_MESH = DeviceMesh((), (), (0,))
