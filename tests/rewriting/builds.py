"""Values in which rules fire that need more than their pattern says."""

import graphc.tensor as gt

ROW = {"x": ("n",), "z": ("n",)}


def selected(reduce):
    """A reduction of the positive elements, or of some rows."""
    return {"build": lambda x: reduce(gt.exp(x[x > 0])), "shapes": {"x": ("n", 2)}}


def written(x, z, k):
    """The first elements, as many as a value says."""
    return x.at[:k].set(gt.exp(z[:k]))


def places(s):
    """Positions in a table of two rows."""
    return gt.astype(gt.floor(gt.absolute(s)), "int64") % 2


def hot(s, dtype):
    """A one-hot matrix as `one_hot` gives it."""
    return gt.nn.one_hot(places(s), 8, dtype=dtype)


def same(s, dtype):
    """A one-hot matrix as it is often written."""
    return gt.astype(gt.expand_dims(places(s), 1) == gt.arange(8), dtype)


TABLE = {"table": (2, 8), "s": (9,)}


def lookup(build, **more):
    """A table of two rows, and many places in it."""
    return {"build": build, "shapes": TABLE | more, "dtypes": ("float64", "float32")}


def pairs(of):
    """A function of all sums or differences of two vectors."""
    return {"build": lambda x, y: of(x[:, None], y), "shapes": {"x": (3,), "y": (2,)}}


BUILDS = {
    "max_of_add": pairs(lambda x, y: gt.max(x + y)),
    "max_of_subtract": pairs(lambda x, y: gt.max(x - y)),
    "min_of_add": pairs(lambda x, y: gt.min(x + y)),
    "min_of_subtract": pairs(lambda x, y: gt.min(x - y)),
    "matmul_right_first": {},
    "matmul_left_first": {},
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
    "sum_of_rows": lookup(lambda table, s: gt.sum(table[places(s)], 0)),
    "sum_of_weighted_rows": lookup(
        lambda table, s, w: gt.sum(w[:, None] * table[places(s)], 0), w=(9,)
    ),
    "sum_within_rows": lookup(lambda table, s: gt.sum(table[places(s)], 1)),
    "rows_by": lookup(lambda table, s, w: table[places(s)] @ w, w=("k", 3)),
    "one_hot_by": lookup(lambda x, s: same(s, x.dtype) @ x, x=(8, "k")),
    "one_hot_by_row": lookup(lambda x, s: hot(s, x.dtype) @ x, x=(8,)),
    "one_hot_transposed_by": lookup(lambda x, s: same(s, x.dtype).T @ x, x=(9, 2)),
    "one_hot_transposed_by_row": lookup(lambda x, s: hot(s, x.dtype).T @ x, x=(9,)),
    "sum_of_selected": selected(gt.sum),
    "prod_of_selected": selected(gt.prod),
    "max_of_selected": selected(gt.max),
    "min_of_selected": selected(gt.min),
    "any_of_selected": selected(lambda x: gt.any(x > 2)),
    "all_of_selected": selected(lambda x: gt.all(x > 2)),
    "max_from_of_selected": selected(lambda x: gt.max(x, initial=0)),
    "min_from_of_selected": selected(lambda x: gt.min(x, initial=0)),
    "write_to_selected": {
        "build": lambda x, z: x.at[x > 0].set(gt.exp(z[x > 0])),
        "shapes": ROW,
    },
    "write_to_slice": {
        "build": lambda x, z, s: written(x, z, gt.count_nonzero(s > 0)),
        "shapes": ROW | {"s": ("k",)},
    },
}
