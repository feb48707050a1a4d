"""Running, extreme, sorted and picked elements of arrays spread over several devices.

The functions run within `jax.shard_map`, along the axis `name` of the mesh.
"""

from collections.abc import Callable, Sequence
from types import ModuleType

from graphc.ir.types import ConcreteArray, JaxArray
from graphc.transform.sharding.merging import rounds

LocalParts = list[JaxArray]
Join = Callable[[LocalParts, LocalParts], LocalParts]


def after_parts_before(
    jax: ModuleType,
    parts: Sequence[JaxArray],
    join: Join,
    axis: int,
    reverse: bool,
    name: str,
) -> LocalParts:
    """Printed into programs: running results of a part, after those before it.

    `join` takes what comes first, then what comes after it, each of all `parts`.
    """
    if not parts[0].shape[axis]:
        return list(parts)
    end, last = (0, jax.lax.axis_size(name) - 1) if reverse else (-1, 0)
    totals = [jax.lax.index_in_dim(x, end, axis) for x in parts]
    totals = [jax.lax.all_gather(total, name) for total in totals]
    totals = jax.lax.associative_scan(join, totals, reverse=reverse)
    here = jax.lax.axis_index(name)
    there = here + 1 if reverse else here - 1
    before = [
        jax.lax.dynamic_index_in_dim(x, there.clip(0), keepdims=False) for x in totals
    ]
    joined = join(before, list(parts))
    where = jax.numpy.where
    return [where(here == last, x, y) for x, y in zip(parts, joined)]  # noqa: B905


def joined_by(function: Callable[..., JaxArray]) -> Join:
    """Printed into programs: a function of elements, of lists with one array."""
    return lambda early, late: [function(early[0], late[0])]


def joined_recurrences(early: LocalParts, late: LocalParts) -> LocalParts:
    """Printed into programs: factors and states of one stretch after another."""
    return [early[0] * late[0], early[1] * late[0] + late[1]]


def top_of_parts(
    jax: ModuleType, x: JaxArray, k: int, axis: int, name: str
) -> tuple[JaxArray, JaxArray]:
    """Printed into programs: the largest elements, of the largest of each part."""
    size = x.shape[axis]
    values, places = jax.lax.top_k(x, min(k, size), axis=axis)
    places = places + (jax.lax.axis_index(name) * size).astype("int32")
    values, places = [
        jax.lax.all_gather(part, name, axis=axis, tiled=True)
        for part in (values, places)
    ]
    values, order = jax.lax.top_k(values, k, axis=axis)
    return values, jax.numpy.take_along_axis(places, order, axis)


def extreme_of_parts(
    jax: ModuleType,
    function: Callable[..., JaxArray],
    x: JaxArray,
    axis: int,
    keepdims: bool,
    name: str,
) -> JaxArray:
    """Printed into programs: where the extreme is, of the extremes of all parts."""
    taken = jax.numpy.take_along_axis
    places = function(x, axis=axis, keepdims=True).astype("int64")
    values = taken(x, places, axis)
    places = places + jax.lax.axis_index(name).astype("int64") * x.shape[axis]
    values, places = [
        jax.lax.all_gather(part, name, axis=axis, tiled=True)
        for part in (values, places)
    ]
    extreme = taken(places, function(values, axis=axis, keepdims=True), axis)
    return extreme if keepdims else extreme.squeeze(axis)


def sorted_over_parts(
    jax: ModuleType, keys: LocalParts, axis: int, name: str
) -> LocalParts:
    """Printed into programs: parts of arrays sorted by all keys, the first one first.

    Two parts at a time exchange elements, of which one keeps the lower.
    """
    jnp, size = jax.numpy, keys[0].shape[axis]
    keys = list(jax.lax.sort(keys, dimension=axis, num_keys=len(keys)))
    here = jax.lax.axis_index(name)
    for pairs in rounds(jax.lax.axis_size(name)):
        back = [(high, low) for low, high in pairs]
        theirs = [jax.lax.ppermute(x, name, [*pairs, *back]) for x in keys]
        both = [jnp.concatenate(pair, axis) for pair in zip(keys, theirs)]  # noqa: B905
        both = jax.lax.sort(both, dimension=axis, num_keys=len(both))
        is_low = jnp.isin(here, jnp.asarray([low for low, _ in pairs]))
        is_high = jnp.isin(here, jnp.asarray([high for _, high in pairs]))
        halves = [jnp.split(x, [size], axis) for x in both]
        keys = [
            jnp.where(is_low, low, jnp.where(is_high, high, x))
            for (low, high), x in zip(halves, keys)  # noqa: B905
        ]
    return keys


def order_over_parts(jax: ModuleType, x: JaxArray, axis: int, name: str) -> JaxArray:
    """Printed into programs: the positions that sort the array of these parts."""
    size = x.shape[axis]
    places = jax.lax.broadcasted_iota("int64", x.shape, axis)
    places = places + jax.lax.axis_index(name).astype("int64") * size
    return sorted_over_parts(jax, [x, places], axis, name)[1]


def picked_of_parts(
    jax: ModuleType,
    pick: Callable[[JaxArray], JaxArray],
    index: ConcreteArray,
    size: int,
    behind: int,
    name: str,
) -> JaxArray:
    """Printed into programs: elements of any part, given by the device that has it.

    Parts have so many elements; the result has `behind` axes after those of the index.
    Bits are added up, so that zeros keep their sign.
    """
    jnp, count = jax.numpy, jax.lax.axis_size(name) * size
    places = jnp.asarray(index)
    if jnp.issubdtype(places.dtype, jnp.signedinteger):
        places = places if places.itemsize > 2 else places.astype("int32")
        places = jnp.where(places < 0, places + count, places)
    places = places.clip(0, count - 1).astype("int32")
    places = places - jax.lax.axis_index(name) * size
    inside = jnp.expand_dims((places >= 0) & (places < size), range(-behind, 0))
    picked = pick(places.clip(0, size - 1))
    dtype, width = picked.dtype, picked.itemsize
    as_bits = width == 1 or (jnp.issubdtype(dtype, jnp.floating) and width > 2)
    bits = picked.view(f"uint{8 * width}") if as_bits else picked
    return jax.lax.psum(jnp.where(inside, bits, 0), name).view(dtype)
