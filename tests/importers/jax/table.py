"""Functions of JAX with arguments of a size n, for comparisons with `jax.jit`.

A row consists of a name, the function, and its arguments, such as "n" or "n 3". A
suffix gives the elements: ":i" integers between 0 and 2, ":b" bools, ":p" positive
numbers, ":u" numbers in (0, 1), ":c" complex numbers; "k" is a key.
"""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax, nn, random

ROWS = {}


def row(name, function, *arguments):
    assert name not in ROWS, name
    ROWS[name] = function, arguments


def each(space, arguments, names):
    module = {"jnp": jnp, "nn": nn, "lax": lax, "special": jsp.special}[space]
    for name in names.split():
        row(f"{space}.{name}", getattr(module, name), *arguments)


each(
    "jnp",
    ["n 3"],
    """abs sin cos tan arctan sinh cosh tanh arcsinh exp expm1 exp2 square
    sign floor ceil trunc rint negative positive sum prod max min mean std var median
    ptp all any cumsum cumprod argmax argmin nanmax nanmin nansum nanmean nanprod
    nanargmax nanstd nanvar nancumsum average
    count_nonzero transpose ravel flip fliplr flipud sort argsort diff zeros_like
    ones_like isnan isinf isfinite isneginf isposinf reciprocal cbrt deg2rad rad2deg
    radians degrees signbit sinc nan_to_num i0 atleast_2d atleast_3d real imag
    conjugate angle tril triu logical_not ediff1d fabs vstack hstack unwrap
    empty_like round copy size""",
)
each("jnp", ["n 3:p"], "sqrt log log1p log2 log10")
each("jnp", ["n 3:u"], "arcsin arccos arctanh")
each(
    "jnp",
    ["n 3", "n 3"],
    """add subtract multiply divide maximum minimum arctan2 hypot
    power fmod remainder floor_divide copysign nextafter logaddexp logaddexp2 fmax fmin
    equal greater less greater_equal less_equal not_equal logical_and logical_or
    logical_xor heaviside isclose vdot kron divmod array_equal allclose polyadd
    float_power true_divide""",
)
each("jnp", ["n", "n"], "dot inner outer convolve correlate cross")
each(
    "jnp",
    ["n:i", "n:i"],
    """bitwise_and bitwise_or bitwise_xor left_shift right_shift
    gcd lcm""",
)
each("jnp", ["n 3:i"], "bitwise_not invert bitwise_count unique_counts bincount")
each(
    "nn",
    ["n 3"],
    """relu relu6 sigmoid softplus sparse_plus soft_sign silu log_sigmoid
    leaky_relu hard_sigmoid hard_silu hard_tanh elu celu selu gelu squareplus mish
    softmax log_softmax logsumexp standardize identity sparse_sigmoid swish""",
)
each(
    "lax",
    ["n 3"],
    """cumlogsumexp cummax cummin is_finite neg sin erf erfc
    stop_gradient""",
)
each("lax", ["n 3:p"], "rsqrt sqrt lgamma digamma log")
each("lax", ["n 3:u"], "erf_inv logistic")
each("special", ["n 3:p"], "gammaln digamma entr i0e i1e i0 i1 factorial")
each("special", ["n 3"], "erf erfc expit ndtr log_ndtr logsumexp log_softmax softmax")
each("special", ["n 3:u"], "logit ndtri erfinv")
each(
    "special",
    ["n 3:p", "n 3:p"],
    "xlogy xlog1py betaln gammainc gammaincc kl_div rel_entr beta",
)

# Shapes, joins and pieces
row("reshape", lambda x: x.reshape(-1), "n 4")
row("reshape by columns", lambda x: x.reshape((2, -1), order="F"), "n 4")
row("reshape halves", lambda x: x.reshape(x.shape[0], 2, 2), "n 4")
row("concatenate", lambda x, y: jnp.concatenate([x, y], 1), "n 3", "n 2")
row("concatenate rows", lambda x, y: jnp.concatenate([x, y]), "n 3", "2 3")
row("stack", lambda x, y: jnp.stack([x, y], -1), "n 3", "n 3")
row("split", lambda x: jnp.split(x, 2, axis=1), "n 4")
row("expand_dims", lambda x: jnp.expand_dims(x, (0, 2)), "n 3")
row("squeeze", lambda x: jnp.squeeze(x, 1), "n 1")
row("swapaxes", lambda x: jnp.swapaxes(x, 0, 2), "n 3 2")
row("moveaxis", lambda x: jnp.moveaxis(x, 0, -1), "n 3 2")
row("broadcast_to", lambda x: jnp.broadcast_to(x, (2, *x.shape)), "n 3")
row("tile", lambda x: jnp.tile(x, (1, 2)), "n 3")
row("repeat", lambda x: jnp.repeat(x, 2, axis=1), "n 3")
row("roll", lambda x: jnp.roll(x, 1, 0), "n 3")
row("pad", lambda x: jnp.pad(x, ((1, 2), (0, 1))), "n 3")
row("pad edge", lambda x: jnp.pad(x, ((0, 0), (2, 1)), mode="edge"), "n 3")
row("slice", lambda x: x[1:], "n 3")
row("slices", lambda x: x[1:] - x[:-1], "n 3")
row("strided", lambda x: x[::2], "n 3")
row("reversed", lambda x: x[::-1], "n 3")
row("last", lambda x: x[-1], "n 3")
row("column", lambda x: x[:, 1], "n 3")
row("newaxis", lambda x: x[:, None] - x[None], "n")
row("diag", jnp.diag, "n")
row("diagonal", jnp.diagonal, "n n")
row("trace", jnp.trace, "n n")
row("eye", lambda x: x * jnp.eye(x.shape[0]), "n n")
row("arange", lambda x: x * jnp.arange(x.shape[0]), "n")
row("linspace", lambda x: x * jnp.linspace(0, 1, x.shape[0]), "n")
row("meshgrid", lambda x, y: jnp.meshgrid(x, y), "n", "3")
row("where", lambda c, x: jnp.where(c, x, 0.0), "n:b", "n")
row("clip", lambda x: jnp.clip(x, -0.5, 0.5), "n 3")
row("select", lambda x: jnp.select([x > 0.5, x < -0.5], [x, -x], 0.0), "n")
row("piecewise", lambda x: jnp.piecewise(x, [x > 0], [jnp.sin, jnp.cos]), "n")
row("full", lambda x: jnp.full(x.shape, 3.0) + x, "n 3")
row("weak", lambda x: 2 * x + 1, "n:i")
row(
    "convert", lambda x: (x.astype("int32"), x.astype("bool"), x.astype("float16")), "n"
)
row("bfloat16", lambda x: jnp.sum(x.astype("bfloat16") * 2), "n 3")
row(
    "int divide",
    lambda x, y: (lax.div(x - 1, y + 1), lax.rem(x - 1, y + 1)),
    "n:i",
    "n:i",
)
row("integer_pow", lambda x: (x**2, x**3, x**7, x**-2), "n:p")
row("lax.round", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), "n")
row("complex", lambda x: (x * x.conj(), jnp.abs(x), x.real, jnp.exp(x)), "n:c")
row("mean of axis", lambda x: x.mean(0), "n 3")
row("sum of axis", lambda x: x.sum(1, keepdims=True), "n 3")
row("max where", lambda x: jnp.max(x, initial=0.0, where=x < 1), "n 3")
row("quantile", lambda x: jnp.quantile(x, 0.3, axis=1), "n 3")
row("cov", lambda x: jnp.cov(x.T), "n 3")
row("searchsorted", lambda x: jnp.searchsorted(jnp.arange(3.0), x), "n")
row("interp", lambda x: jnp.interp(x, jnp.arange(3.0), jnp.arange(3.0)), "n")
row("histogram", lambda x: jnp.histogram(x, jnp.linspace(0, 1, 4))[0], "n:u")
row("polyval", lambda x: jnp.polyval(jnp.arange(3.0), x), "n")
row("digitize", lambda x: jnp.digitize(x, jnp.arange(3.0)), "n")
row("trapezoid", jnp.trapezoid, "n")
row("vander", lambda x: jnp.vander(x, 3), "n")

# Indexing
row("far outside", lambda x: x[jnp.array([9, -7, 0])] * x[-2] + x[0, 5], "n 3")
row("x[i]", lambda x, i: x[i], "n 3", "4:i")
row("rows[i]", lambda x, i: x[i], "3 2", "n:i")
row("x[:, i]", lambda x, i: x[:, i], "n 3", "4:i")
row("x[i, j]", lambda x, i, j: x[i, j], "3 3", "n:i", "n:i")
row("x[0, i]", lambda x, i: x[0, :, i], "3 n 3", "4:i")
row("take", lambda x, i: jnp.take(x, i, axis=1), "n 3", "4:i")
row("take fill", lambda x, i: jnp.take(x, 2 * i, axis=0), "3 2", "n:i")
row("take clip", lambda x, i: jnp.take(x, 2 * i, axis=0, mode="clip"), "3 2", "n:i")
row("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), "n 3", "n 2:i")
row("at set", lambda x, i: x.at[i].set(2.0), "3 2", "n:i")
row("at add", lambda x, i: x.at[i].add(1.0), "3 2", "n:i")
row("at add rows", lambda x, i, v: x.at[i].add(v), "3 2", "n:i", "n 2")
row("at max", lambda x, i: x.at[i].max(0.3), "3", "n:i")
row("at min", lambda x, i: x.at[:, i].min(0.3), "n 3", "2:i")
row("at multiply", lambda x, i: x.at[i].multiply(2.0), "3", "n:i")
row("at slice", lambda x: x.at[:, 1:].set(0.0), "n 3")
row("at drop", lambda x, i: x.at[3 * i].set(1.0), "4", "n:i")
row("at pairs", lambda x, i, j: x.at[i, j].add(1.0), "3 3", "n:i", "n:i")
row("one_hot", lambda i: nn.one_hot(i, 3), "n:i")
row("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 3), "n 2", "n:i")
row("segment_max", lambda x, i: jax.ops.segment_max(x, i, 3), "n", "n:i")
row(
    "dynamic_slice",
    lambda x, i: lax.dynamic_slice(x, (0, i[0]), (x.shape[0], 2)),
    "n 3",
    "1:i",
)
row("dynamic_index", lambda x, i: lax.dynamic_index_in_dim(x, i[0], 1), "n 3", "1:i")
row(
    "dynamic_update",
    lambda x, v, i: lax.dynamic_update_slice(x, v, (0, i[0])),
    "n 3",
    "n 1",
    "1:i",
)
row(
    "dynamic_updates",
    lambda x, v, i: lax.dynamic_update_slice(x, v, (i[0], i[0])),
    "4 4",
    "2 2",
    "n:i",
)
row("nth row", lambda x, i: x[i[0]], "n 3", "1:i")
row("vmap gather", lambda x, i: jax.vmap(lambda r, k: r[k])(x, i), "n 3", "n:i")
row(
    "vmap slice",
    lambda x, i: jax.vmap(lambda r, k: lax.dynamic_slice(r, (k,), (2,)))(x, i),
    "n 3",
    "n:i",
)

# Products and linear algebra
row("matmul", jnp.matmul, "n 3", "3 2")
row("gram", lambda x: x @ x.T, "n 3")
row("batched", jnp.matmul, "n 3 2", "n 2 3")
row("einsum", lambda x, y: jnp.einsum("nij,njk->nk", x, y), "n 3 2", "n 2 3")
row("tensordot", lambda x, y: jnp.tensordot(x, y, 2), "n 3 2", "3 2 4")
row("vecdot", jnp.linalg.vecdot, "n 3", "n 3")
row("norm", jnp.linalg.norm, "n 3")
row("norm of rows", lambda x: jnp.linalg.norm(x, axis=1), "n 3")
row("cholesky", lambda x: jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(3)), "3 n")
row(
    "cholesky n",
    lambda x: jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(x.shape[0])),
    "n 3",
)
row("solve", lambda x, y: jnp.linalg.solve(x @ x.T + 9 * jnp.eye(3), y), "3 n", "3")
row(
    "solve n",
    lambda x, y: jnp.linalg.solve(x @ x.T + 9 * jnp.eye(x.shape[0]), y),
    "n 3",
    "n",
)
row(
    "cho_solve",
    lambda x, y: jsp.linalg.cho_solve(
        (jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(3)), True), y
    ),
    "3 n",
    "3",
)
row(
    "solve_triangular",
    lambda x, y: jsp.linalg.solve_triangular(
        jnp.tril(x) + 9 * jnp.eye(3), y, lower=True
    ),
    "3 3",
    "3 n",
)
row("inv", lambda x: jnp.linalg.inv(x @ x.T + 9 * jnp.eye(3)), "3 n")
row("det", lambda x: jnp.linalg.det(x @ x.T + 9 * jnp.eye(4)), "4 n")
row("slogdet", lambda x: jnp.linalg.slogdet(x @ x.T + 9 * jnp.eye(4))[1], "4 n")
row("eigvalsh", lambda x: jnp.linalg.eigvalsh(x @ x.T), "3 n")
row("svdvals", lambda x: jnp.linalg.svd(x, compute_uv=False), "3 n")
row("qr", lambda x: jnp.abs(jnp.linalg.qr(x)[1]), "n 3")
row("lstsq", lambda x, y: jnp.linalg.lstsq(x, y)[0], "n 3", "n")
row("expm", lambda x: jsp.linalg.expm(x @ x.T / 9), "3 n")
row("fft", lambda x: jnp.abs(jnp.fft.fft(x)), "n 4")
row("rfft", lambda x: jnp.fft.irfft(jnp.fft.rfft(x, axis=1) * 2, axis=1), "n 4")
row("conv", lambda x, k: lax.conv(x, k, (1, 1), "SAME"), "n 2 5 5", "3 2 3 3")
row(
    "conv dilated",
    lambda x, k: lax.conv_general_dilated(x, k, (2,), [(1, 1)], rhs_dilation=(2,)),
    "n 2 7",
    "3 2 2",
)
row(
    "conv of groups of examples",
    lambda x, k: lax.conv_general_dilated(x, k, (2,), "SAME", batch_group_count=2),
    "4 3 n",
    "6 3 2",
)
row(
    "conv of channels apart",
    lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME", feature_group_count=4),
    "n 4 5",
    "8 1 3",
)
row(
    "conv last",
    lambda x, k: lax.conv_general_dilated(
        x, k, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC")
    ),
    "n 5 2",
    "3 2 4",
)
row(
    "max_pool",
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID"),
    "n 4",
)
row("top_k", lambda x: lax.top_k(x, 2), "n 3")
row("sort pairs", lambda x, y: lax.sort((x, y), num_keys=1), "n", "n")
row("lexsort", lambda x, y: jnp.lexsort((x, y)), "n:i", "n:i")


# Loops, branches and calls
def rnn(x, w, **options):
    def step(h, row):
        h = jnp.tanh(h @ w + row)
        return h, h

    return lax.scan(step, jnp.zeros(3), x, **options)


row("scan", rnn, "n 3", "3 3")
row("scan unrolled", lambda x, w: rnn(x, w, unroll=True), "n 3", "3 3")
row("scan loss", lambda x, w: jnp.mean((rnn(x, w)[1] - x) ** 2), "n 3", "3 3")
row(
    "scan reverse",
    lambda x: lax.scan(lambda c, v: (c + v, c * v), 0.0, x, reverse=True),
    "n",
)
row(
    "scan of steps",
    lambda x: lax.scan(lambda c, _: (c * 0.5, c), x, None, length=4),
    "n",
)
row("fori", lambda x: lax.fori_loop(0, 5, lambda i, c: c + i * x, x), "n")
row("fori n", lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0), "n")
row(
    "while",
    lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: 2 * c + 1, jnp.abs(x)),
    "n",
)
row("cond", lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), "n")
row(
    "switch", lambda x, i: lax.switch(i[0], [jnp.sin, jnp.cos, jnp.tanh], x), "n", "1:i"
)
row("map", lambda x: lax.map(lambda r: jnp.sum(r**2), x), "n 3")
row("associative", lambda x: lax.associative_scan(jnp.add, x, axis=1), "n 4")
row("jit in jit", lambda x: jax.jit(jnp.sin)(x) + jax.jit(lambda y: y * 2)(x), "n")
row("checkpoint", lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x), "n")
row("vmap", lambda x, w: jax.vmap(lambda r: jnp.tanh(w @ r))(x), "n 3", "3 3")
row(
    "vmap scan",
    lambda x: jax.vmap(lambda r: lax.scan(lambda c, v: (c + v, c * v), 0.0, r))(x),
    "n 4",
)
row(
    "vmap while",
    lambda x: jax.vmap(
        lambda r: lax.while_loop(lambda c: c < 9, lambda c: c * 2 + 1, r)
    )(x),
    "n:p",
)
row("custom_jvp", lambda x: nn.relu(x) + jnp.logaddexp(x, 1.0), "n")
row("python size", lambda x: x.sum() if x.shape[0] > 2 else x.prod(), "n")
row("python equal", lambda x: x.sum() if x.shape[0] == 3 else x.prod(), "n")
row("python loop", lambda x: sum(x[i] for i in range(x.shape[0])), "n")
row("triangle", lambda x: sum(x[:i].sum() for i in range(x.shape[0])), "n")
row("uneven", lambda x: sum(x[i] ** i.bit_count() for i in range(x.shape[0])), "n")
row("attention", lambda x, w: nn.softmax(x @ w @ x.T / 2) @ x, "n 3", "3 3")
row("mlp", lambda x, w, v: jnp.mean((jnp.tanh(x @ w) @ v) ** 2), "n 3", "3 4", "4 2")
row(
    "layer norm",
    lambda x: (
        (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    ),
    "n 3",
)
row(
    "gp",
    lambda x: jnp.sum(
        jnp.log(
            jnp.diag(
                jnp.linalg.cholesky(
                    jnp.exp(-((x[:, None] - x) ** 2)) + jnp.eye(x.shape[0])
                )
            )
        )
    ),
    "n",
)
row(
    "kernel sum", lambda x: jnp.sum(jnp.exp(-jnp.sum((x[:, None] - x) ** 2, -1))), "n 3"
)

def wide_products(x):
    half, small = x.astype("float16"), (x * 9).astype("int8")
    of_pairs = (((0,), (0,)), ((), ())), None
    whole = lax.dot_general(small, small, *of_pairs, jnp.int32)
    rows = jnp.matmul(half, half.T, preferred_element_type="float32")
    each = jnp.einsum("ij,ij->i", half, half, preferred_element_type="float32")
    slope = jax.grad(lambda v: jnp.vdot(v, half, preferred_element_type="float32"))
    ranks = jax.grad(lambda v: jnp.sort(v) @ jnp.arange(v.shape[0]))(x[:, 0])
    return whole, rows, each, slope(half), ranks


row("wide products", lambda x: wide_products(x), "n 3")

# Random numbers
def keys_of_rows(key, x):
    keys = jax.vmap(lambda i: random.fold_in(key, i))(jnp.arange(x.shape[0]))
    more = jax.vmap(random.fold_in)(keys, jnp.arange(x.shape[0]))
    return x + jax.vmap(random.normal)(more)


def keys_of_pairs(key, x):
    keys = jax.vmap(random.split)(random.split(key, x.shape[0]))
    keys = jax.vmap(jax.vmap(lambda one: random.fold_in(one, 7)))(keys)
    drawn = jax.vmap(jax.vmap(lambda one: random.randint(one, (2,), 0, 9)))(keys)
    return x[:, None, None] * drawn


row("random.uniform", lambda k, x: random.uniform(k, x.shape) * x, "k", "n 3")
row("random.normal", lambda k, x: random.normal(k, x.shape) + x, "k", "n 3")
row("random.bernoulli", lambda k, x: random.bernoulli(k, 0.3, x.shape), "k", "n")
row("random.randint", lambda k, x: random.randint(k, x.shape, 0, 10), "k", "n")
row("random.split", lambda k, x: random.normal(random.split(k)[1], x.shape), "k", "n")
row(
    "random.fold_in",
    lambda k, x: random.normal(random.fold_in(k, 3), x.shape),
    "k",
    "n",
)
row("random.gumbel", lambda k, x: random.gumbel(k, x.shape), "k", "n")
row("random.exponential", lambda k, x: random.exponential(k, x.shape), "k", "n")
row("random.categorical", lambda k, x: random.categorical(k, x), "k", "n 3")
row("random.permutation", lambda k, x: random.permutation(k, x), "k", "n")
row("random.gamma", lambda k, x: random.gamma(k, 2.0, x.shape), "k", "n")
row("random.laplace", lambda k, x: random.laplace(k, x.shape), "k", "n")
row(
    "dropout",
    lambda k, x: jnp.where(random.bernoulli(k, 0.5, x.shape), x * 2, 0.0),
    "k",
    "n 3",
)
row("keys of rows", lambda k, x: keys_of_rows(k, x), "k", "n")
row("keys of pairs", lambda k, x: keys_of_pairs(k, x), "k", "n")
def keys_moved(x):
    keys = random.split(random.key(3), (2, x.shape[0]))
    first, second = keys
    rows = jnp.concatenate([jnp.where(x > 1, first, second), second[::-1]])
    one = jnp.where(x.sum() > 0, first[x.argmin()], keys[1, 0])
    drawn = jax.vmap(random.normal)(jnp.stack([one, rows[1]]))
    return jax.vmap(jax.vmap(random.normal))(keys.T), jax.vmap(random.bits)(rows), drawn


row("keys moved", lambda x: keys_moved(x), "n")
row("typed key", lambda x: random.normal(random.key(3), x.shape) + x, "n")
