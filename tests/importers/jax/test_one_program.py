"""Functions whose primitives all have rules: one program serves their sizes.

Values are those of `jax.jit` with padded sizes. What is compiled exactly is JAX's own
trace, so no size is.
"""

import jax
import jax.numpy as jnp
import pytest
from jax import lax, random
from jax.experimental import sparse
from jax.scipy import linalg, special

from tests.importers.jax.comparing import compare, compare_together

SIZE = 17  # below its capacity


def matrix(x):
    return jnp.eye(x.shape[0]) * 3 + x[:, None] * x


def images(x):
    return x[None, :, None, None] * jnp.cos(jnp.arange(6.0)).reshape(1, 1, 3, 2)


def pooled(x):
    shape, strides = (1, 3, 2, 1), (1, 2, 1, 1)
    return lax.reduce_window(images(x), -jnp.inf, lax.max, shape, strides, "SAME")


def least_pooled(x):
    return lax.reduce_window(x, jnp.inf, lax.min, (2,), (1,), "SAME")


def sum_and_max(a, b):
    return a[0] + b[0], jnp.maximum(a[1], b[1])


def spread_windows(x):
    pairs, starts = (x, x * x), (0.0, -jnp.inf)
    return lax.reduce_window(
        pairs, starts, sum_and_max, (3,), (2,), [(2, 1)], window_dilation=(2,)
    )


def integers(x):
    return (x[:, None] * x * 50).astype(int) - 20


def reflected(x, c, **how):
    packed, factors = jnp.linalg.qr(x, mode="raw")
    return lax.linalg.ormqr(packed.mT, factors, c, **how)


def reflections(x):
    packed, factors = jnp.linalg.qr(x, mode="raw")
    return lax.linalg.householder_product(packed.mT, factors)


KEY = random.key(3)


def keys(x):
    return random.split(KEY, (x.shape[0], 3))


def chained(x):
    """Keys that are read and written one at a time."""

    def step(i, keys):
        return keys.at[i].set(random.fold_in(keys[i - 1], i))

    return random.key_data(lax.fori_loop(0, x.shape[0], step, keys(x)[:, 1]))


def chosen(x):
    places = jnp.argsort(x)
    swapped = keys(x).at[places, 1].set(keys(x)[:, 0])
    return random.key_data(swapped[:, jnp.array([2, 1])][places])


def compared(x):
    return keys(x) == KEY, keys(x)[::-1] != keys(x)


def seeded(x):
    seeds = (x * 9).astype(int) - 3
    return jax.vmap(lambda seed: random.normal(random.key(seed)))(seeds)


def bits(x):
    words = lax.bitcast_convert_type(x, jnp.int32)
    halves = lax.bitcast_convert_type(x, jnp.bfloat16)
    bytes = lax.bitcast_convert_type(-x, jnp.int8)
    return words, halves, bytes, lax.bitcast_convert_type(bytes, jnp.float32)


def zeros_in_front(x):
    n = (x * 50).astype(int) - 10
    return lax.clz(n), lax.clz(n.astype("uint8")), jnp.frexp(x), jnp.ldexp(x, n)


def largest(x):
    two = jnp.concatenate([x, x + 3])
    return lax.approx_max_k(two, 2), lax.approx_min_k(two, 2)


def on_this_device(x):
    (device,) = jax.devices()
    place = jax.sharding.SingleDeviceSharding(device)
    return jax.device_put(x * 2, device), lax.with_sharding_constraint(x, place)


def half_precision(x):
    return random.normal(KEY, x.shape, "bfloat16"), random.uniform(KEY, x.shape, "f2")


def sparse_of(x):
    n = x.shape[0]
    places = jnp.stack([jnp.arange(n), jnp.arange(n) * 3 % 5], 1)
    return sparse.BCOO((x, places), shape=(n, 5))


def sparse_products(x):
    some, ten = sparse_of(x), jnp.arange(10.0).reshape(5, 2)
    return some @ ten, some.T @ x, some.todense(), (some.T @ matrix(x)).sum(1)


def waves_and_sparse_products(x):
    products = sparse_products(x)
    return sum(jnp.sum(jnp.cos(v)) for v in products), products


def more_places_than_elements(x):
    found = sparse.BCOO.fromdense(jnp.diag(x), nse=20)
    return found @ x, found.sum_duplicates(nse=20).todense()


def is_complex(x):
    return matrix(x)[:, :3] * (1 + 2j * x[:, None])


FUNCTIONS = {
    "gradient of max pooling": jax.grad(lambda x: (pooled(x) ** 2).sum()),
    "tangent of max pooling": lambda x: jax.jvp(pooled, (x,), (x**2,)),
    "gradient of min pooling": jax.grad(lambda x: (least_pooled(x) ** 3).sum()),
    "product of windows": lambda x: lax.reduce_window(
        x, 1.0, lax.mul, (3,), (1,), "SAME"
    ),
    "windows of two arrays": spread_windows,
    "a function reduces": lambda x: lax.reduce(
        x[:, None] * x, 0.0, lambda a, b: jnp.hypot(a, b), (0,)
    ),
    "a function reduces two arrays": lambda x: lax.reduce(
        (x[:, None] * x, x[:, None] + x), (0.0, -jnp.inf), sum_and_max, (0, 1)
    ),
    "bits in an odd number": lambda x: lax.reduce_xor(integers(x), (0, 1)),
    "bits in all": lambda x: lax.reduce_and(integers(x).astype("uint8"), (0,)),
    "bits in any": lambda x: jnp.bitwise_or.reduce(integers(x), axis=1),
    "packed reflections": lambda x: jnp.linalg.qr(matrix(x), mode="raw"),
    "reflections of complex matrices": lambda x: reflections(is_complex(x)),
    "reflections from the left": lambda x: reflected(is_complex(x), x[:, None] + 0j),
    "reflections from the right": lambda x: reflected(
        matrix(x), matrix(x), left=False, transpose=True
    ),
    "examples of reflections": lambda x: jax.vmap(
        lambda v: reflected(matrix(x) * v, x[:, None], transpose=True)
    )(x),
    "three diagonals": lambda x: lax.linalg.tridiagonal_solve(
        jnp.roll(x, 1).at[:1].set(0), 2 - x, x[::-1].at[-1:].set(0), matrix(x)
    ),
    "symmetric product": lambda x: lax.linalg.symmetric_product(
        matrix(x), matrix(x), alpha=2.0, beta=0.5, symmetrize_output=True
    ),
    "eigenvalues": lambda x: jnp.sort(jnp.abs(jnp.linalg.eigvals(matrix(x)))),
    "a root of a matrix": lambda x: linalg.sqrtm(matrix(x)).real,
    "keys in a loop": chained,
    "keys at places": chosen,
    "keys compared": compared,
    "keys of seeds": seeded,
    "gamma": lambda x: random.gamma(KEY, jnp.abs(x) + 0.5),
    "gamma of keys": lambda x: jax.vmap(
        lambda key, a: random.loggamma(key, a + jnp.abs(x))
    )(keys(x)[:, 0], x**2),
    "bits": bits,
    "zeros in front": zeros_in_front,
    "approximately the largest": largest,
    "a composite": lambda x: lax.composite(lambda v: v * 2, "my.double")(x),
    "polygamma": lambda x: special.polygamma(1, jnp.abs(x) + 0.5),
    "draws of half precision": half_precision,
    "sparse products, and a gradient": jax.grad(
        waves_and_sparse_products, has_aux=True
    ),
    "more places than elements": more_places_than_elements,
    "schur": lambda x: linalg.schur(matrix(x) + jnp.triu(matrix(x))),
}


GROUPS = 6  # functions are compiled in groups, which saves time


@pytest.mark.parametrize("group", range(GROUPS))
def test_values_are_those_of_jax(group):
    rows = {name: (FUNCTIONS[name], ["n"]) for name in [*FUNCTIONS][group::GROUPS]}
    shapes = ", ".join("n" for _ in rows)
    ours = compare_together(rows, [SIZE], rtol=2e-4, dims="pad", shapes=shapes)
    stats = ours.stats()
    assert stats.foreign == [] and stats.fallbacks == []
    assert "(n,)" in stats.compilations[0].program


@pytest.mark.skipif(jax.device_count() > 1, reason="there are several devices")
def test_the_only_device_may_be_named():
    stats = compare(on_this_device, ["n"], (1, SIZE), dims="pad").stats()
    assert stats.foreign == [] and stats.fallbacks == []


def test_reflections_of_a_matrix_with_nan_are_those_of_jax():
    def function(x):
        return jnp.linalg.qr(matrix(x).at[1, 1].set(jnp.nan), mode="raw")

    assert compare(function, ["n"], (4, 6, 3), dims="pad").stats().foreign == []
