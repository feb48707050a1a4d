"""Steps of generated functions that choose params of primitives by a question.

Most of these params are axes, counts and exponents, which are not sizes; some are.
"""

STEPS_OF_PARAMS = """
    y = jnp.cumsum(jnp.outer(y, jnp.arange(3.0)), int(ask(y)))[:, 1]
    y = jnp.sort(jnp.outer(y, jnp.array([1.0, -2.0])), axis=int(ask(y))).sum(1)
    y = jnp.flip(jnp.outer(y, jnp.arange(3.0)), int(ask(y))).sum(1)
    y = jnp.maximum(y[:, None], y[None, :]).max(int(ask(y)), initial=-3)
    y = jnp.tensordot(jnp.outer(y, y), y, ((int(ask(y)),), (0,))) / 64
    y = jnp.einsum("ij,j->i" if ask(y) else "ij,i->j", jnp.outer(y, y + 1), y) / 64
    y = jnp.expand_dims(y, int(ask(y))).sum(int(ask(y)))
    y = jnp.moveaxis(y[None, :, None], 1, 2 * int(ask(y))).reshape(-1)
    y = lax.cummax(jnp.outer(y, jnp.ones(2)), axis=int(ask(y))).sum(1)
    y = lax.cummax(y, reverse=bool(ask(y)))
    y = jax.vmap(lambda r: r * decide(y), int(ask(y)), int(ask(y)))(y[:, None])[:, 0]
    y = lax.associative_scan(jnp.add, jnp.outer(y, jnp.ones(2)), axis=int(ask(y)))[:, 0]
    y = jnp.linalg.norm(jnp.outer(y, jnp.arange(2.0)), axis=1, ord=1 + int(ask(y)))
    y = (y / 8) ** int(decide(y))
    y = jnp.tile(y, int(decide(y)) + 1)[: y.shape[0]]
    y = jnp.repeat(y, int(decide(y)) + 1)[:: int(decide(y)) + 1]
    y = jnp.pad(y, (int(decide(y)), 1))[1:]
    y = jnp.concatenate(jnp.split(y, [int(decide(y))])[::-1])
    y = jnp.split(y, [y.shape[0] // 2])[int(ask(y))]
    y = jnp.diff(y, n=int(ask(y)))
    y = y + jnp.eye(y.shape[0], k=int(decide(y))).sum(0)
    y = y.astype("int32" if ask(y) else "float32") * 1.0
    y = lax.scan(lambda c, _: (c / 2, 0), y, length=2, unroll=1 + int(ask(y)))[0]
    y = lax.top_k(y, min(int(decide(y)) + 1, y.shape[0]))[int(ask(y))] * 1.0
    y = lax.dynamic_slice_in_dim(jnp.pad(y, (0, 4)), int(ask(y)), y.shape[0])
    y = lax.reduce(y, 0.0, lax.add if ask(y) else lax.max, (0,)) + y
    y = jax.ops.segment_sum(y, jnp.arange(y.shape[0]) % 3, num_segments=3 + int(ask(y)))
    y = jax.grad(lambda v: (jnp.cumsum(jnp.outer(v, v), int(ask(v))) ** 2).sum())(y / 8)
    y = y + jax.random.uniform(jax.random.key(int(decide(y))), y.shape)
""".split("\n")[1:-1]
