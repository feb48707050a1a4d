"""Arrays on a mesh, in programs: padded and spread, cut back, passed to segments."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from graphc.ir.types import ConcreteArray, JaxArray


def whole_on_mesh(
    jax: ModuleType, array: ConcreteArray, sharding: object
) -> ConcreteArray:
    """Printed into programs: `array` whole on every device; a number stays one."""
    if not hasattr(array, "shape"):
        return array
    if getattr(array, "sharding", None) == sharding:
        return still_there(jax, array)
    with jax.enable_x64(True):  # keeps 64-bit arrays as they are
        return jax.device_put(array, sharding)


def with_padding_on_mesh(
    jax: ModuleType, array: ConcreteArray, shape: tuple[int, ...], sharding: object
) -> JaxArray:
    """Printed into programs: `array` with zeros at its ends, a part on each device.

    A JAX array that has its capacity already moves from device to device at most. A
    traced array may have more axes than it shows, so the segment spreads it.
    """
    if isinstance(array, jax.core.Tracer):
        widths = [(0, n - m) for n, m in zip(shape, array.shape)]  # noqa: B905
        return jax.numpy.pad(array, widths)
    if array.shape != shape or type(array) is np.ndarray:  # which others may write
        stored = np.zeros(shape, array.dtype)
        stored[tuple(map(slice, array.shape))] = array
        array = stored
    with jax.enable_x64(True):  # keeps 64-bit arrays as they are
        return jax.device_put(still_there(jax, array), sharding)


def still_there(jax: ModuleType, array: object) -> Any:
    """Printed into programs: `array`, or JAX's error if its memory was donated.

    JAX ends the process where a function takes a deleted array of several devices.
    """
    is_traced = isinstance(array, jax.core.Tracer)
    # To pyright, a class of a module that is a parameter tells nothing of an array.
    if isinstance(array, jax.Array) and not is_traced and array.is_deleted():  # pyright: ignore[reportAttributeAccessIssue]
        array.block_until_ready()  # pyright: ignore[reportAttributeAccessIssue]
    return array


def without_padding_on_mesh(
    jax: ModuleType, array: JaxArray, shape: tuple[int, ...], whole: object
) -> JaxArray:
    """Printed into programs: `array`, cut to its true `shape` on the host.

    The result is spread like the array if devices can share it evenly, else it is
    `whole` on each. Nothing is compiled for its size. An array without elements is made
    anew, since JAX gives its parts wrong shapes.
    """
    part = tuple(map(slice, shape))
    if isinstance(array, jax.core.Tracer):
        return array[part]
    sizes = sizes_of_part(array.shape, shape)
    if array.size and sizes == array.shape:
        return array
    cut = np.zeros(sizes, array.dtype)
    if cut.size:
        cut[...] = np.asarray(array)[part]
    with jax.enable_x64(True):
        return jax.device_put(cut, shared_evenly(sizes, array.sharding, whole))


def sizes_of_part(
    stored: tuple[int, ...], shape: tuple[int | None, ...]
) -> tuple[int, ...]:
    """Printed into programs: `shape`, with the stored size in place of each None."""
    pairs = zip(stored, shape)  # noqa: B905
    return tuple([n if true is None else true for n, true in pairs])


def shared_evenly(sizes: tuple[int, ...], sharding: Any, whole: object) -> Any:
    """Printed into programs: `sharding` if it divides these sizes, else `whole`."""
    try:
        sharding.shard_shape(sizes)
    except ValueError:
        return whole
    return sharding


def run_on_mesh(
    jax: ModuleType, mesh: object, run: Callable[..., object], *args: object
) -> object:
    """Printed into programs: call `run` with this mesh in place of any that is set."""
    if any(isinstance(x, jax.core.Tracer) for x in args):
        return run(*args)
    with jax.set_mesh(mesh):
        return run(*args)
