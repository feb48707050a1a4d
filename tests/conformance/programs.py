"""The programs of the catalogue, each as a user of graphc would write it.

A program takes one symbolic value per input of its case and returns one value, or a
tuple of them.
"""

import math
from collections.abc import Callable
from typing import Any

import graphc
import graphc.tensor as gt

Program = Callable[..., Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Register the program of the case that has the name of the function."""
    if function.__name__ in PROGRAMS:
        raise ValueError(f"{function.__name__} is written twice")
    PROGRAMS[function.__name__] = function
    return function


# reshape


@program
def reshape_k_rest(x, k):
    return x.reshape(k, x.size // k)


@program
def reshape_k_neg1(x, k):
    return x.reshape(k, -1)


@program
def reshape_shape_vector(x, shape):
    return x.reshape(shape)


@program
def reshape_shape_arith(X):
    return X.reshape(X.shape[0] * X.shape[1] // 2, 2)


@program
def reshape_shape_concat(x, Y, z):
    return x.reshape(gt.concatenate([Y.shape[:1], z.shape]))


@program
def reshape_k_plus_1(x, k):
    return x.reshape(k + 1, -1)


@program
def reshape_moveaxis_k_heads(X, h):
    n, d = X.shape
    return X.reshape(n, h, d // h).transpose(1, 0, 2)


# constructors


@program
def arange_n(n):
    return gt.arange(n)


@program
def arange_of_len_plus1(x):
    return gt.arange(x.shape[0] + 1)


@program
def arange_of_len_times2(x):
    return gt.sin(gt.arange(2 * x.shape[0]))


@program
def zeros_n(n):
    return gt.zeros(n)


@program
def alloc_n_m(v, n, m):
    return gt.full((n, m), v)


@program
def eye_n(n):
    return gt.eye(n)


@program
def eye_of_len(x):
    return gt.eye(x.shape[0]) * x


@program
def linspace_n(a, b, n):
    return gt.linspace(a, b, n)


@program
def one_hot_n(labels, n):
    return gt.eye(n)[labels]


@program
def vander_n(x, k):
    return x[:, None] ** gt.arange(k)


@program
def sum_arange_n(n):
    return gt.sum(gt.arange(n) ** 2)


# slices


@program
def slice_to_n(x, n):
    return x[:n]


@program
def slice_i_i_plus_5(x, i):
    return x[i : i + 5]


@program
def slice_minibatch_static_b(X, i):
    return X[i * 4 : (i + 1) * 4]


@program
def slice_last_n(x, n):
    return x[-n:]


@program
def slice_step_k(x, k):
    return x[::k]


@program
def slice_half(x):
    return x[x.shape[0] // 2 :]


@program
def slice_to_n_sum(x, n):
    return x[:n].sum()


@program
def inc_slice_i_j(x, i, j, v):
    return x.at[i:j].add(v[: j - i])


@program
def ragged_segment_sums(x, starts, ends):
    running = gt.concatenate([[0.0], gt.cumsum(x)])
    return running[ends] - running[starts]


@program
def slice_from_argmax(x):
    return x[gt.argmax(x) :]


@program
def index_scalar_dyn(X, i):
    return X[i]


@program
def take_idx_vector(X, idx):
    return X[idx]


# masks


@program
def mask_select(x, mask):
    return x[mask]


@program
def mask_pos_sum(x):
    return x[x > 0].sum()


@program
def mask_pos_sq_sum(x):
    return (x[x > 0] ** 2).sum()


@program
def mask_pos_max(x, mask):
    return x[mask].max()


@program
def mask_rows_sum0(X, mask):
    return X[mask].sum(axis=0)


@program
def nonzero_vec(x):
    return gt.nonzero(x > 0)[0]


@program
def nonzero_count(x):
    return gt.nonzero(x > 0)[0].shape[0]


@program
def mask_set_scalar(x, mask):
    return x.at[mask].set(0)


@program
def mask_inc_scalar(x, mask):
    return x.at[mask].add(1)


@program
def nan_drop_mean(x):
    return x[~gt.isnan(x)].mean()


@program
def mask_both_axes(X, mask):
    return X[mask][:, mask]


# unique, repeat, join


@program
def unique(x):
    return gt.unique(x)


@program
def repeat_n(x, k):
    return gt.repeat(x, k)


@program
def repeat_counts(x, counts):
    return gt.repeat(x, counts)


@program
def bincount(x):
    return gt.bincount(x)


@program
def scatter_add_max(x, idx):
    return gt.zeros(gt.max(idx) + 1, x.dtype).at[idx].add(x)


@program
def tile_n(x, k):
    return gt.tile(x, k)


@program
def top_k_dyn(x, k):
    return -gt.sort(-x)[:k]


@program
def split_sizes_input(x, sizes):
    return tuple(gt.split(x, gt.cumsum(sizes)[:-1]))


@program
def concat_slice_y(x, y, k):
    return gt.concatenate([x[:k], y])


@program
def concat_mask_y(x, mask, y):
    return gt.concatenate([x[mask], y])


@program
def pad_n(x, k):
    return gt.pad(x, (0, k))


@program
def pad_to_max_len(lengths):
    return gt.arange(lengths.max())[None] < lengths[:, None]


@program
def flip_cumsum_searchsorted(x, v):
    return gt.searchsorted(gt.cumsum(gt.abs(x)), v)


@program
def broadcast_to_n(x, k):
    return gt.broadcast_to(x, (k, x.shape[0]))


# random


@program
def rand_n(n):
    return gt.random.normal(gt.random.key(0), n)


@program
def rand_shape_vector(shape):
    return gt.random.normal(gt.random.key(0), shape)


@program
def rand_2n(n):
    return gt.random.normal(gt.random.key(0), 2 * n)


@program
def rand_n_by_len(x, k):
    return gt.random.normal(gt.random.key(0), (k, x.shape[0])) + x


@program
def rand_n_used_as_value(n):
    return gt.random.normal(gt.random.key(0), n).sum() / n


@program
def minibatch_idx(X, b):
    return X[gt.random.randint(gt.random.key(0), b, 0, X.shape[0])]


@program
def rand_n_poisson(lam):
    keys = gt.random.split(gt.random.key(0))
    n = gt.random.poisson(keys[0], lam)
    return gt.random.normal(keys[1], n).sum()


# branches and checks


@program
def ifelse_same_shape(x, c):
    return gt.where(c, x, 2 * x)


@program
def ifelse_dyn_branch(x):
    return gt.where(gt.any(x > 0), x[x > 0].prod(), 0.0)


@program
def check_assert(x):
    return gt.log(gt.assert_(x > 0, "x must be positive", x))


@program
def check_oob_take(x, idx):
    return x[idx]


@program
def check_cholesky_not_pd(X):
    return gt.linalg.cholesky(X)


@program
def check_specify_shape(x):
    return gt.specify_shape(x, 3)


# matrices


@program
def solve_leading_n(A, b, n):
    return gt.linalg.solve(A[:n, :n], b[:n])


@program
def block_diag_dyn(A, B, n):
    return gt.linalg.block_diag(A[:n, :n], B)


@program
def diag_slice_n(x, k):
    return gt.diag(x[:k])


@program
def rfft(x):
    return gt.abs(gt.fft.rfft(x))


@program
def lag_matrix_p(x, p):
    return x[gt.arange(p)[:, None] + gt.arange(x.shape[0] - p)]


# a large static part and one dynamic op


def mlp(h, W):
    """Apply six layers, as in the reference."""
    for _ in range(6):
        h = gt.tanh(h @ W) + 0.1 * h
    return h


@program
def mlp_then_mask(X, W):
    h = mlp(X, W)
    return h[h > 0]


@program
def mlp_slice_mlp(X, W, k):
    return mlp(mlp(X, W)[:k], W)


@program
def mlp_mask_mlp(X, W):
    h = mlp(X, W)
    return mlp(h[h[:, 0] > 0], W)


@program
def two_branches_dyn(x):
    return gt.concatenate([gt.tanh(x)[x > 0], gt.exp(x)[x < -0.5]])


@program
def static_main_dyn_side(X, W):
    return mlp(X, W).sum(), gt.nonzero(X[:, 0] > 0)[0]


@program
def hier_mu_group(y, group):
    mu = gt.bincount(group, weights=y) / gt.bincount(group)
    return y - mu[group]


@program
def stick_breaking_K(k):
    b = 0.5 * gt.ones(k - 1)
    left = gt.concatenate([[1.0], gt.cumprod(1 - b)])
    return gt.concatenate([b, [1.0]]) * left


@program
def vmap_dyn_len(X):
    positive = X > 0
    return gt.where(positive, X, 0).sum(axis=1) / positive.sum(axis=1)


@program
def histogram_bins_n(x, k):
    edges = gt.linspace(-3.0, 3.0, k + 1, dtype="float64")
    bins = gt.searchsorted(edges, x, side="right") - 1
    return gt.zeros(k, "float64").at[bins].add(1)


@program
def logp_censored(y, cens):
    seen, hidden = y[~cens], y[cens]
    density = -0.5 * seen**2 - 0.5 * math.log(2 * math.pi)
    survival = 0.5 * gt.special.erfc(hidden / math.sqrt(2))
    return density.sum() + gt.log(survival).sum()


# gradients


@program
def reshape_grad(x, k):
    w = gt.ones(x.size // k, "float64")
    return graphc.grad(gt.sum((x.reshape(k, -1) @ w) ** 2), x)


@program
def slice_to_n_grad(x, n):
    return graphc.grad(gt.sum(x[:n] ** 2), x)


@program
def mask_log_sum_grad(x):
    return graphc.grad(gt.sum(gt.log(x[x > 0])), x)


@program
def mask_normal_logp(x, mask, mu, sigma):
    z = (x[mask] - mu) / sigma
    logp = gt.sum(-0.5 * z**2 - gt.log(sigma) - 0.5 * math.log(2 * math.pi))
    return (logp, *graphc.grad(logp, [mu, sigma]))


@program
def repeat_counts_grad(x, counts):
    return graphc.grad(gt.sum(gt.repeat(x, counts) ** 2), x)


# loops


@program
def scan_n_last(x, k):
    return gt.fori_loop(0, k, lambda i, s: gt.tanh(s) * 0.9 + 0.1, x)


def decaying_sums(x):
    """Each sum is 0.5 times the previous one plus the element."""

    def body(s, v):
        s = 0.5 * s + v
        return s, s

    return gt.scan(body, gt.zeros((), x.dtype), x)[1]


@program
def scan_over_seq(x):
    return decaying_sums(x)


@program
def scan_while_last(a):
    def goes_on(state):
        i, _, change = state
        return (i < 100) & (change >= 1e-8)

    def newton(state):
        i, x, _ = state
        new = 0.5 * (x + a / x)
        return i + 1, new, gt.abs(new - x)

    return gt.while_loop(goes_on, newton, (0, a, gt.full_like(a, gt.inf)))[1]


@program
def scan_seq_trunc(x, k):
    return decaying_sums(x[:k])


@program
def scan_prefix_inside(x):
    positions = gt.arange(x.shape[0])
    prefix = gt.map(lambda t: gt.where(positions <= t, x, -gt.inf).max(), positions)
    return prefix


@program
def scan_while_grad(a):
    end = gt.while_loop(lambda v: v <= 100, lambda v: 2 * v, a, max_steps=50)
    return graphc.grad(end, a)


@program
def scan_fib_n(init, k):
    def body(last, _):
        new = last[0] + last[1]
        return (last[1], new), new

    return gt.scan(body, (init[0], init[1]), length=k)[1]


@program
def scan_nested_k(x, k):
    start = gt.zeros((), x.dtype)
    return gt.map(lambda v: gt.fori_loop(0, k, lambda i, s: gt.cos(s) + v, start), x)


@program
def scan_variable_lengths(X, lengths):
    def body(s, column):
        t, x = column
        return gt.where(t < lengths, gt.tanh(0.5 * s + x), s), None

    b, t = X.shape
    return gt.scan(body, gt.zeros(b, X.dtype), (gt.arange(t), X.T))[0]


@program
def kalman_missing(y):
    def body(state, v):
        a, P, logp = state
        P = P + 0.1
        seen = ~gt.isnan(v)
        S = P + 0.5
        e = gt.where(seen, v - a, 0)
        term = -0.5 * (gt.log(2 * math.pi * S) + e * e / S)
        gain = gt.where(seen, P / S, 0)
        logp = logp + gt.where(seen, term, 0)
        return (a + gain * e, P * (1 - gain), logp), None

    zero, one = gt.zeros((), y.dtype), gt.ones((), y.dtype)
    return gt.scan(body, (zero, one, zero), y)[0][2]
