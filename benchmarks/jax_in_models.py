"""Models over rows whose number varies, plainly in JAX, and padded and masked by hand.

The padded models take arrays with zeros after the rows, and the number of rows.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.scipy.stats import bernoulli, norm

WIDTH = 16
_RNG = np.random.default_rng(0)
W = _RNG.normal(size=(WIDTH, 3 * WIDTH)).astype("float32") / 8
U = _RNG.normal(size=(WIDTH, 3 * WIDTH)).astype("float32") / 8
KERNEL = _RNG.normal(size=(2, 5, WIDTH, WIDTH)).astype("float32") / 8
AT = {"slope": W[:15, 0], "shift": np.float32(0.1), "spread": np.float32(-0.3)}


def _rows(x, n):
    """Return a mask of the true rows, as a column."""
    return (jnp.arange(x.shape[0]) < n)[:, None]


def attention(x):
    """Compute one head over rows, and the sum of its outputs."""
    q, k, v = jnp.split(x @ W, 3, axis=1)
    return jnp.sum(jax.nn.softmax(q @ k.T / 4) @ v, 0)


def attention_padded(x, n):
    """Mask the scores of padding, and then its rows in the sum."""
    q, k, v = jnp.split(x @ W, 3, axis=1)
    scores = jnp.where(_rows(x, n).T, q @ k.T / 4, -jnp.inf)
    return jnp.sum(jax.nn.softmax(scores) @ v, 0, where=_rows(x, n))


def likelihood(x):
    """Compute the likelihood of rows under a normal distribution fitted to them."""
    mean = x.mean(0)
    scale = jnp.sqrt(((x - mean) ** 2).mean(0) + 1e-3)
    return -jnp.mean(((x - mean) / scale) ** 2 / 2 - jnp.log(scale))


def likelihood_padded(x, n):
    """Take the means over the true rows only."""
    there = _rows(x, n)
    mean = x.mean(0, where=there)
    scale = jnp.sqrt(((x - mean) ** 2).mean(0, where=there) + 1e-3)
    return -jnp.mean(((x - mean) / scale) ** 2 / 2 - jnp.log(scale), where=there)


def _gru_step(h, r):
    reset, update, new = jnp.split(r, 3)
    own_reset, own_update, own_new = jnp.split(h @ U, 3)
    gate = jax.nn.sigmoid(update + own_update)
    new = jnp.tanh(new + jax.nn.sigmoid(reset + own_reset) * own_new)
    return (1 - gate) * new + gate * h


def gru(x):
    """Run a gated recurrent net over rows; return the mean square of its states."""

    def step(h, r):
        h = _gru_step(h, r)
        return h, h

    _, states = lax.scan(step, jnp.zeros(WIDTH), x @ W)
    return jnp.mean(states**2)


def gru_padded(x, n):
    """Let steps go on after the rows; their states do not count."""

    def step(h, r):
        h = _gru_step(h, r)
        return h, h

    _, states = lax.scan(step, jnp.zeros(WIDTH), x @ W)
    return jnp.mean(states**2, where=_rows(x, n))


def _kernel(x):
    squares = jnp.sum((x[:, None, :-1] - x[:, :-1]) ** 2, -1)
    return jnp.exp(-squares / WIDTH)


def process(x):
    """Compute a Gaussian process's log density: the last column over the others."""
    n = x.shape[0]
    low = jnp.linalg.cholesky(_kernel(x) + 0.1 * jnp.eye(n))
    alpha = solve_triangular(low, x[:, -1], lower=True)
    return -jnp.sum(alpha**2) / 2 - jnp.sum(jnp.log(jnp.diag(low))) - n * 0.919


def process_padded(x, n):
    """Give padding an independent variance of one, and the value 0."""
    there = _rows(x, n)
    inner = jnp.where(there & there.T, _kernel(x), 0)
    noise = jnp.where(there[:, 0], 0.1, 1)
    low = jnp.linalg.cholesky(inner + jnp.diag(noise))
    alpha = solve_triangular(low, x[:, -1], lower=True)
    return -jnp.sum(alpha**2) / 2 - jnp.sum(jnp.log(jnp.diag(low))) - n * 0.919


def _convolved(x, kernel):
    names = ("NWC", "WIO", "NWC")
    return lax.conv_general_dilated(x[None], kernel, (1,), "SAME", None, None, names)[0]


def convolution(x):
    """Convolve along rows in two layers, and take the mean."""
    x = jax.nn.relu(_convolved(x, KERNEL[0]))
    return jnp.mean(jax.nn.relu(_convolved(x, KERNEL[1])), 0)


def convolution_padded(x, n):
    """Let each layer start from zeros after the rows."""
    there = _rows(x, n)
    x = jnp.where(there, jax.nn.relu(_convolved(x, KERNEL[0])), 0)
    return jnp.mean(jax.nn.relu(_convolved(x, KERNEL[1])), 0, where=there)


def _prior(p):
    width = jnp.exp(p["spread"])
    slopes = jnp.sum(norm.logpdf(p["slope"], 0, width))
    return slopes + norm.logpdf(p["shift"], 0, 10) + norm.logpdf(p["spread"])


def _of_rows(p, x):
    chance = jax.nn.sigmoid(x[:, :-1] @ p["slope"] + p["shift"])
    return bernoulli.logpmf(x[:, -1] > 0, chance)


def density(x):
    """Compute a regression's log density, with a prior on its spread, and its gradient.

    In NumPyro, the model is
    `spread ~ Normal(); slope ~ Normal(0, exp(spread)); shift ~ Normal(0, 10);
    y ~ Bernoulli(sigmoid(x @ slope + shift))`.
    """

    def cost(p):
        return _prior(p) + jnp.sum(_of_rows(p, x))

    return jax.value_and_grad(cost)(AT)


def density_padded(x, n):
    """Count only the true rows."""

    def cost(p):
        return _prior(p) + jnp.sum(_of_rows(p, x), where=_rows(x, n)[:, 0])

    return jax.value_and_grad(cost)(AT)


MODELS = {
    "attention": (attention, attention_padded),
    "likelihood": (likelihood, likelihood_padded),
    "GRU": (gru, gru_padded),
    "Gaussian process": (process, process_padded),
    "convolution": (convolution, convolution_padded),
    "density": (density, density_padded),
}
