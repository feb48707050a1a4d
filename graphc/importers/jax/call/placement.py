"""Find arguments that graphs cannot describe, by their kind or placement on devices."""

from typing import Any

import jax
from jax.sharding import SingleDeviceSharding

from graphc.importers.jax.trace.tracing import is_array
from graphc.transform.sharding.meshes import DeviceMesh


def why_left_to_jax(leaf: object, mesh: DeviceMesh | None = None) -> str:
    """Why a call with this argument is left to JAX; "" if graphc can take it.

    A program on a mesh accepts arrays wherever they lie.
    """
    if mesh is None and is_spread(leaf):
        return "its arguments are sharded"
    return "" if is_array(leaf) else f"an argument is not an array: {jax.typeof(leaf)}"


def is_spread(leaf: object) -> bool:
    """Whether an array is committed to anything but one device's default memory.

    JAX places the results by such an array, even if its mesh has only one device.
    """
    if not isinstance(leaf, jax.Array) or not leaf.committed:
        return False
    sharding = leaf.sharding
    if not isinstance(sharding, SingleDeviceSharding):
        return True
    device: Any = next(iter(sharding.device_set))
    return sharding.memory_kind not in (None, device.default_memory().kind)


def is_typed_by_mesh(leaf: object) -> bool:
    """Whether the type of an argument tells its layout on a mesh of devices."""
    mesh = getattr(getattr(jax.typeof(leaf), "sharding", None), "mesh", None)
    return mesh is not None and not mesh.empty
