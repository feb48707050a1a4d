"""Values to which rules apply whose conditions go beyond their patterns."""

import math

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir.namespace import F
from graphc.rewriting.rules.cleanup import CLEANUP
from graphc.rewriting.rules.selection import SELECTION
from tests.rewriting.builds_lifting import LIFTED

SIMPLER = CLEANUP + SELECTION
ROW = {"x": ("n",), "z": ("n",)}


def selected(reduce):
    """A reduction of the elements that are positive."""
    return {"build": lambda x: reduce(gt.exp(x[x > 0])), "shapes": {"x": ("n", 2)}}


def written(x, z, k):
    """An array whose first `k` elements, `k` being a value, are overwritten."""
    return x.at[:k].set(gt.exp(z[:k]))


def places(s):
    """Positions in a table of two rows."""
    return gt.astype(gt.floor(gt.absolute(s)), "int64") % 2


def hot(s, dtype):
    """A one-hot matrix made by `one_hot`."""
    return gt.nn.one_hot(places(s), 8, dtype=dtype)


def same(s, dtype):
    """A one-hot matrix as users often write it by hand."""
    return gt.astype(gt.expand_dims(places(s), 1) == gt.arange(8), dtype)


TABLE = {"table": (2, 8), "s": (70,)}


def lookup(build, **more):
    """A table of two rows and many positions in it."""
    return {"build": build, "shapes": TABLE | more, "dtypes": ("float64", "float32")}


def gradient_of_picked(x):
    """A gradient that is zero except for some elements of each row."""
    places = gt.broadcast_to(gt.asarray([2, 0, 2]), (*x.shape[:-1], 3))
    return graphc.grad(gt.sum(gt.take_along_axis(x, places, -1) ** 2), x)


def pairs(of):
    """A function of all sums or differences of two vectors."""
    return {"build": lambda x, y: of(x[:, None], y), "shapes": {"x": (3,), "y": (2,)}}


def along(of, **shapes):
    """A selection of results along the first axis, or along a vector."""
    return {"build": of, "shapes": shapes or {"x": ("n", "k")}}


def last_of(running):
    """The last of some running results, or the first of those that run backwards."""
    return along(lambda x: running(x)[-1], x=(3, "k"))


def definite(x):
    """A positive definite matrix that is far from singular."""
    small = gt.tanh(x)
    return small @ small.T + 2 * gt.eye(x.shape[0], dtype=x.dtype)


def diagonal(d):
    """A matrix with these numbers on its diagonal."""
    n = d.shape[0]
    i = gt.arange(n)
    return gt.zeros((n, n), d.dtype).at[i, i].set(d)


PEAKS = {
    "least": lambda s, **more: gt.max(s, initial=-math.inf, **more),
    "some": lambda s, **more: gt.max(s, **more),
}


def written_logsumexp(number):
    """log-sum-exp of all sums of pairs, in one of the usual ways to write it."""
    largest, form = PEAKS["least" if number < 3 else "some"], number % 3

    def build(x, y):
        s = x[:, None] + y
        peak = largest(s, keepdims=True)
        peak = gt.stop_gradient(gt.where(gt.isfinite(peak), peak, 0.0))
        terms = gt.exp(s - peak)
        if form == 0:
            return gt.log(gt.sum(terms)) + gt.squeeze(peak, (0, 1))
        total = gt.sum(terms, keepdims=True)
        if form == 1:
            return gt.log(gt.squeeze(total, (0, 1))) + gt.squeeze(peak, (0, 1))
        return gt.log(total) + peak

    return (
        along(build, x=(3,), y=(2,))
        if number >= 3
        else along(build, x=("n",), y=("k",))
    )


def products(build, **shapes):
    """Products of matrices of these shapes."""
    return {"build": build, "shapes": shapes, "first": SIMPLER}


def stacked(x):
    """The rows that a scan over the rows of `x` stacks."""
    start = gt.zeros(x.shape[1:], x.dtype)
    return gt.scan(lambda c, r: (gt.tanh(c + r), c * r), start, x)[1]


def total(xs):
    """A scan that adds up functions of its sequences."""
    start = gt.zeros(xs[0].shape[1:], xs[0].dtype)
    return gt.scan(lambda c, r: (c + gt.sin(r[0]) * r[1], []), start, xs)[0]


def last_row(x):
    """The last stacked row of a scan that stacks its carries."""
    step = lambda c, r: (gt.tanh(c + r),) * 2  # noqa: E731
    return gt.scan(step, gt.zeros(x.shape[1:], x.dtype), x)[1][-1]


def kept_by_chunks(x, y):
    """The gradient of a scan that keeps every third carry."""
    start, step = gt.zeros(x.shape[1:], x.dtype), lambda c, r: gt.tanh(c * r[0] + r[1])
    ends, _ = gt.scan(lambda c, r: (step(c, r), []), start, (x, y), checkpoint=3)
    return graphc.grad(gt.sum(ends), x)


def looped(build):
    """A loop over the rows of one array, with another array beside it."""
    shapes = {"x": ("n", "k"), "y": ("n", "k")}
    return {"build": build, "shapes": shapes, "dtypes": ("float64", "float32")}


def rounds(x):
    """Nine rounds of a gather and a sum."""
    for _ in range(9):
        x = x - 2 * x[:, np.array([1, 2, 0])]
    return x


def heads(x):
    """Several parts that do the same with different numbers."""
    given = [gt.tanh(x * k) for k in (gt.max(x), gt.min(x), gt.sum(x), gt.prod(x))]
    return gt.stack([one_head(x, k) for k in (*given, *map(gt.exp, given))])


def one_head(x, k):
    """A part with more nodes than a call of a function costs."""
    for _ in range(6):
        x = gt.tanh(x + k) * gt.sin(x)
    return x


BUILDS = {
    **LIFTED,
    "sequence_in_scan": looped(lambda x, y: total((x, gt.exp(stacked(x) - y)))),
    "recomputed_in_scan": looped(lambda x, y: total((y, gt.map(gt.tanh, x)))),
    "last_of_stacked": {"build": last_row, "shapes": {"x": (3, "k")}},
    "index_of_joined": {
        "build": lambda x, y: gt.concatenate([x, y])[1],
        "shapes": {"x": (2, "k"), "y": ("n", "k")},
    },
    "reduction_in_scan": looped(lambda x, y: gt.sum((stacked(x) - y) ** 2)),
    "scan_in_chunks": {
        "build": lambda x, w: gt.sum((stacked(x) @ w) ** 2),
        "shapes": {"x": ("n", 3), "w": (3, 2)},
        "dtypes": ("float64", "float32"),
    },
    "scan_of_chunks": looped(kept_by_chunks),
    "large_in_blocks": {
        "build": lambda x, y: gt.sum(gt.tanh(x[:, None] - y), 1),
        "shapes": {"x": ("n",), "y": ("k",)},
        "dtypes": ("float64", "float32"),
    },
    "steps_together": {
        "build": lambda x: stacked(x),
        "shapes": {"x": ("n", 3)},
        "dtypes": ("float64", "float32"),
    },
    "fused_attention": {
        "build": lambda q, k, v: gt.nn.softmax(q @ k.T) @ v,
        "shapes": {"q": (4, 3), "k": (5, 3), "v": (5, 3)},
        "dtypes": ("float32",),
    },
    "shared_blocks": {
        "build": heads,
        "shapes": {"x": ("n", 3)},
        "dtypes": ("float64", "float32"),
    },
    "repeated_blocks": {
        "build": rounds,
        "shapes": {"x": ("n", 3)},
        "dtypes": ("float64", "float32", "int32"),
    },
    "max_of_add": pairs(lambda x, y: gt.max(x + y)),
    "max_of_subtract": pairs(lambda x, y: gt.max(x - y)),
    "min_of_add": pairs(lambda x, y: gt.min(x + y)),
    "min_of_subtract": pairs(lambda x, y: gt.min(x - y)),
    "matmul_right_first": products(
        lambda a, b, c: (a @ b) @ c, a=(3, "n"), b=("n", 3), c=(3,)
    ),
    "matmul_left_first": products(
        lambda a, b, c: a @ (b @ c), a=(3,), b=(3, "n"), c=("n", 3)
    ),
    "scaled_rows_by": products(
        lambda c, x, w: (c[:, None] * x) @ w, c=("n",), x=("n", 3), w=(3,)
    ),
    "by_scaled_columns": products(
        lambda w, x, r: w @ (x * r), w=(3,), x=(3, "n"), r=("n",)
    ),
    "diagonal_by": products(lambda d, x: diagonal(d) @ x, d=("n",), x=("n", "k")),
    "by_diagonal": products(lambda d, x: x @ diagonal(d), d=("n",), x=("k", "n")),
    "identity_by": products(
        lambda x: gt.eye(x.shape[0], dtype=x.dtype) @ x, x=("n", "k")
    ),
    "by_identity": products(
        lambda x: x @ gt.eye(x.shape[-1], dtype=x.dtype), x=("n", "k")
    ),
    "kron_by": products(
        lambda a, b, w: gt.kron(a, b) @ w, a=(2, "n"), b=("m", 1), w=("n", "k")
    ),
    "row_by_column": products(
        lambda x, y: x[:, None, :] @ y[:, :, None], x=("n", "k"), y=("n", "k")
    ),
    "diagonal_of_matmul": products(
        lambda a, b: gt.diagonal(a @ b), a=("n", "k"), b=("k", "n")
    ),
    "inverse_by": products(
        lambda a, b: gt.linalg.inv(definite(a)) @ b, a=("n", "n"), b=("n", 2)
    ),
    "by_inverse": products(
        lambda a, b: b @ gt.linalg.inv(definite(a)), a=("n", "n"), b=(2, "n")
    ),
    "sum_of_outer": products(
        lambda x, y: gt.sum(x[:, :, None] * y[None], 1), x=("n", 3), y=(3, "k")
    ),
    "sum_of_outer_rows": products(
        lambda x, y: gt.sum(x[:, :, None] * y[:, None], 0), x=(3, "n"), y=(3, "k")
    ),
    "sum_of_weighted_product": products(
        lambda w, a, b: (w @ b) * gt.sum(w / 2 * (a @ b.T), 1)[:, None],
        w=("n", "k"),
        a=("n", 2),
        b=("k", 2),
    ),
    **{f"logsumexp_of_sum_{i}": written_logsumexp(i) for i in range(6)},
    "last_of_cumsum": last_of(lambda x: gt.cumsum(x, 0)),
    "last_of_cumprod": last_of(lambda x: gt.cumprod(x, 0)),
    "last_of_cummax": last_of(lambda x: gt.cummax(x, 0)),
    "last_of_cummin": last_of(lambda x: gt.cummin(x, 0)),
    "end_of_sort": along(lambda x: gt.sort(x, 0)[0], x=(3, "k")),
    "sum_of_square": {
        "build": lambda x, y: gt.sum(gt.square(x[:, None] - y)),
        "shapes": {"x": ("n",), "y": ("k",)},
    },
    "sum_of_power": {
        "build": lambda x, y: gt.sum((x[:, None] - y) ** 2),
        "shapes": {"x": ("n",), "y": ("k",)},
    },
    "squeeze_of_elementwise": {
        "build": lambda x: gt.squeeze(gt.exp(gt.sum(x, 0, keepdims=True)), 0),
        "shapes": {"x": ("n", "k")},
    },
    "squeeze_of_expanded": along(lambda x: gt.squeeze(gt.expand_dims(x, (0, 2)), 2)),
    "argmax_of_increasing": along(
        lambda x: gt.argmax(gt.nn.softmax(x, 1), 1), x=(2, 3)
    ),
    "sum_of_rows": lookup(lambda table, s: gt.sum(table[places(s)], 0)),
    "sum_of_weighted_rows": lookup(
        lambda table, s, w: gt.sum(w[:, None] * table[places(s)], 0), w=(70,)
    ),
    "sum_within_rows": lookup(lambda table, s: gt.sum(table[places(s)], 1)),
    **{
        f"sum_of_written_{len(shape)}": along(
            lambda x: gt.sum(gradient_of_picked(x), -1), x=shape
        )
        for shape in (("n", 4), ("n", 2, 4), (2, "n", 3, 4))
    },
    "rows_by": lookup(lambda table, s, w: table[places(s)] @ w, w=(8, 3)),
    "one_hot_by": lookup(lambda x, s: same(s, x.dtype) @ x, x=(8, "k")),
    "one_hot_by_row": lookup(lambda x, s: hot(s, x.dtype) @ x, x=(8,)),
    "one_hot_transposed_by": lookup(lambda x, s: same(s, x.dtype).T @ x, x=(70, 2)),
    "one_hot_transposed_by_row": lookup(lambda x, s: hot(s, x.dtype).T @ x, x=(70,)),
    "sum_of_selected": selected(gt.sum),
    "prod_of_selected": selected(gt.prod),
    "sum_of_squares_of_selected": selected(gt.linalg.norm),
    "count_nonzero_of_selected": selected(gt.count_nonzero),
    "max_of_selected": selected(gt.max),
    "min_of_selected": selected(gt.min),
    "any_of_selected": selected(lambda x: gt.any(x > 2)),
    "all_of_selected": selected(lambda x: gt.all(x > 2)),
    "max_from_of_selected": selected(lambda x: gt.max(x, initial=0)),
    "min_from_of_selected": selected(lambda x: gt.min(x, initial=0)),
    "pinned_of_selected": selected(lambda x: gt.sum(F._pinned(gt.square(x)))),
    "write_to_selected": {
        "build": lambda x, z: x.at[x > 0].set(gt.exp(z[x > 0])),
        "shapes": ROW,
    },
    "write_to_slice": {
        "build": lambda x, z, s: written(x, z, gt.count_nonzero(s > 0)),
        "shapes": ROW | {"s": ("k",)},
    },
}
