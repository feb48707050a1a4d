"""Arrays on a mesh over several processes, each of which makes its own devices' parts.

Arrays on hosts are the same in all processes. An array that is spread over them reaches
the place where the program needs it by a message of JAX, at stored sizes, so that
nothing is compiled for a true size.
"""

from types import ModuleType
from typing import Any

import numpy as np

from graphc.backends.sharding.arrays import (
    shared_evenly,
    sizes_of_part,
    still_there,
)
from graphc.ir.types import ConcreteArray, JaxArray, NDArray


def whole_across(jax: ModuleType, array: JaxArray, sharding: object) -> JaxArray:
    """Printed into programs: an array as each device has it, or a number."""
    if not hasattr(array, "shape"):
        return array
    if getattr(array, "sharding", None) == sharding:
        return still_there(jax, array)
    if isinstance(array, jax.core.Tracer):
        return array
    return placed_across(jax, array, array.shape, sharding)


def with_padding_across(
    jax: ModuleType, array: ConcreteArray, shape: tuple[int, ...], sharding: object
) -> ConcreteArray:
    """Printed into programs: the array with zeros behind, each device with its part."""
    if isinstance(array, jax.core.Tracer):
        widths = [(0, n - m) for n, m in zip(shape, array.shape)]  # noqa: B905
        return jax.numpy.pad(array, widths)
    if getattr(array, "sharding", None) == sharding and array.shape == shape:
        return still_there(jax, array)
    return placed_across(jax, array, shape, sharding)


def placed_across(
    jax: ModuleType, array: ConcreteArray, shape: tuple[int, ...], sharding: object
) -> JaxArray:
    """Printed into programs: an array from anywhere, stored at this shape."""
    with jax.enable_x64(True):  # keeps 64-bit arrays as they are
        # To pyright, a class of a module that is a parameter tells nothing of an array.
        if isinstance(array, jax.Array) and not array.is_fully_addressable:  # pyright: ignore[reportAttributeAccessIssue]
            if array.shape == shape:
                return jax.device_put(array, sharding)
            array = on_each_host(jax, array, shape)
        return from_host(jax, np.asarray(array), shape, sharding)


def on_each_host(jax: ModuleType, array: Any, shape: tuple[int, ...]) -> Any:
    """Printed into programs: an array of several processes, on the host of each.

    Parts of devices are sent with as much padding as they have in an array of this
    `shape`, and put together without it.
    """
    if array.is_fully_replicated:
        return np.asarray(array)
    if not array.size:
        return np.zeros(array.shape, array.dtype)
    before = array.sharding
    part = before.shard_shape(array.shape)
    counts = [n // m for n, m in zip(array.shape, part)]  # noqa: B905
    room = [-(-n // c) for n, c in zip(shape, counts)]  # noqa: B905
    room = [max(n, m) for n, m in zip(room, part)]  # noqa: B905
    stored = tuple([n * c for n, c in zip(room, counts)])  # noqa: B905
    blocks = []
    for shard in array.addressable_shards:
        block = np.zeros(room, array.dtype)
        block[tuple(map(slice, part))] = shard.data
        blocks.append(jax.device_put(block, shard.device))
    make = jax.make_array_from_single_device_arrays
    spread = make(stored, before, blocks)
    whole = jax.sharding.NamedSharding(before.mesh, jax.sharding.PartitionSpec())
    joined = np.asarray(jax.device_put(spread, whole))
    for axis, (n, m) in enumerate(zip(room, part)):  # noqa: B905
        joined = np.compress(np.arange(joined.shape[axis]) % n < m, joined, axis)
    return joined


def without_padding_across(
    jax: ModuleType, array: JaxArray, shape: tuple[int, ...], whole: object
) -> JaxArray:
    """Printed into programs: the part that counts.

    Where it is not all, each process gets the array, and cuts it on its host. It is
    spread as the array is where devices can share it evenly; else each has it `whole`.
    """
    part = tuple(map(slice, shape))
    if isinstance(array, jax.core.Tracer):
        return array[part]
    sizes = sizes_of_part(array.shape, shape)
    if array.size and sizes == array.shape:
        return array
    cut = np.zeros(sizes, array.dtype)
    with jax.enable_x64(True):
        if cut.size:
            cut[...] = np.asarray(jax.device_put(array, whole))[part]
        return from_host(jax, cut, sizes, shared_evenly(sizes, array.sharding, whole))


def from_host(
    jax: ModuleType, array: NDArray, shape: tuple[int, ...], sharding: object
) -> JaxArray:
    """Printed into programs: the parts that the devices here have of an array.

    Behind it are zeros, up to this shape.
    """

    def part(index: tuple[slice, ...]) -> NDArray:
        lines = [range(*s.indices(n)) for s, n in zip(index, shape)]  # noqa: B905
        block = np.zeros([len(line) for line in lines], array.dtype)
        there = array[tuple([slice(line.start, line.stop) for line in lines])]
        block[tuple(map(slice, there.shape))] = there
        return block

    return jax.make_array_from_callback(shape, sharding, part)
