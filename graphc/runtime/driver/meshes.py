"""Meshes of devices: the JAX mesh that is given or set, and `graphc.mesh`."""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from graphc.errors import graph_error, shortened
from graphc.ir.config import config
from graphc.ir.integers import integer_or_none
from graphc.transform.sharding.layout import without_last_whole
from graphc.transform.sharding.meshes import DeviceMesh


def mesh(*unnamed: object, **axes: int) -> Any:
    """Arrange the first devices of JAX as a mesh, with a size for each named axis.

    >>> import graphc
    >>> graphc.mesh(data=1).axis_names
    ('data',)

    Raises GraphError for sizes without a name, and where there are too few devices.
    """
    jax = importlib.import_module("jax")
    sizes = [integer_or_none(n) or 0 for n in axes.values()]
    if unnamed or not sizes or min(sizes) < 1:
        raise graph_error(
            "a mesh needs axes, each with a number of devices",
            op="mesh",
            got=", ".join(
                [shortened(repr(n)) for n in unnamed]
                + [f"{name}={shortened(repr(n))}" for name, n in axes.items()]
            ),
            hint="graphc.mesh(data=4, model=2)",
        )
    devices = jax.devices()
    _require_devices(prod(sizes), len(devices), "mesh")
    array = np.reshape(devices[: prod(sizes)], sizes)
    return jax.sharding.Mesh(array, tuple(axes))


def _require_devices(needed: int, present: int, op: str) -> None:
    if needed > present:
        hint = "XLA_FLAGS=--xla_force_host_platform_device_count="
        raise graph_error(
            f"the mesh needs {needed} devices, and JAX has {present}",
            op=op,
            hint=f"{hint}{needed} in the environment makes as many on a CPU",
        )


def device_mesh(declared: Any, op: str = "function") -> DeviceMesh | None:
    """Return the `declared` mesh, or else the one of `jax.set_mesh`, as plain data.

    Raises GraphError for an object that is no mesh, and for a mesh without a device of
    this process.
    """
    jax = importlib.import_module("jax")
    if isinstance(declared, DeviceMesh):
        return declared
    if declared is None:
        declared = jax.sharding.get_mesh()
        if declared.empty:
            return None
    if not isinstance(declared, jax.sharding.Mesh) or declared.empty:
        raise graph_error(
            "`mesh` must say how devices are arranged",
            op=op,
            got=shortened(repr(declared)),
            expected="a jax.sharding.Mesh",
            hint="mesh=graphc.mesh(data=4), or jax.make_mesh((4,), ('data',))",
        )
    devices = [*declared.devices.flat]
    processes = tuple(sorted({d.process_index for d in devices}))
    if jax.process_index() not in processes:
        raise graph_error(
            "the mesh has devices of other processes, and none of this one",
            op=op,
            got=f"{declared}, in process {jax.process_index()}",
            hint="a mesh of jax.devices(), or of jax.local_devices() alone",
        )
    platform = devices[0].platform
    everywhere = jax.devices(platform)
    default = platform == jax.devices()[0].platform
    places = tuple(everywhere.index(device) for device in devices)
    sizes = tuple(declared.devices.shape)
    mesh = DeviceMesh(
        tuple(declared.axis_names), sizes, places, "" if default else platform
    )
    if len(processes) == 1:
        return mesh
    return replace(mesh, processes=processes, wait=config.process_wait)


def require_present(mesh: DeviceMesh) -> None:
    """Raise GraphError where the devices of a mesh are not all in this process."""
    jax = importlib.import_module("jax")
    _require_devices(max(mesh.devices) + 1, len(_present(jax, mesh)), "function")


def _present(jax: ModuleType, mesh: DeviceMesh) -> list[Any]:
    """Return the JAX devices that include those of a mesh."""
    return jax.devices(mesh.platform) if mesh.platform else jax.devices()


def jax_mesh(mesh: DeviceMesh) -> Any:
    """Return the JAX mesh that programs make of `mesh`."""
    jax = importlib.import_module("jax")
    devices = _present(jax, mesh)
    array = np.reshape([devices[i] for i in mesh.devices], mesh.sizes)
    return jax.sharding.Mesh(array, mesh.names)


def jax_sharding(mesh: DeviceMesh, axes: Sequence[str | None]) -> Any:
    """Return the JAX sharding of arrays that lie along these axes of a mesh."""
    sharding = importlib.import_module("jax.sharding")
    spec = sharding.PartitionSpec(*without_last_whole(axes))
    return sharding.NamedSharding(jax_mesh(mesh), spec)
