"""For every rule, code to which it applies, shown in tests/rewriting/before_after.

`x` is float32[n, 3], `y` float32[n, 3], `u` float32[n], `v` float32[m], `w`
float32[3], `s` float32[k, k], `pairs` float32[8, 3], `table` float32[2, 8], `many`
float32[70] and `i` int64[70].
"""

from graphc.rewriting.rules.cleanup import BINARY
from graphc.rewriting.rules.reduction import INCREASING

VARIABLES = {
    "x": ("float32", ("n", 3)),
    "y": ("float32", ("n", 3)),
    "u": ("float32", ("n",)),
    "v": ("float32", ("m",)),
    "w": ("float32", (3,)),
    "s": ("float32", ("k", "k")),
    "pairs": ("float32", (8, 3)),
    "table": ("float32", (2, 8)),
    "many": ("float32", (70,)),
    "i": ("int64", (70,)),
}
FOUR = ("sum", "prod", "max", "min")
DIAGONAL = "gt.zeros((3, 3), w.dtype).at[gt.arange(3), gt.arange(3)].set(w)"
ROW = "gt.broadcast_to(x[0], x.shape)"
INTEGRAL = "gt.astype(i, 'float32')"


def operated(op):
    """An op on a broadcast row and an array that already has the full size."""
    if op.startswith("logical"):
        return f"gt.{op}(gt.broadcast_to(x[0] > 0, x.shape), y > 0)"
    return f"gt.{op}({ROW}, y)"


def function(op):
    """The expression for a function, which may be in a space of its own."""
    return f"gt.special.{op}" if op in ("expit", "ndtr", "erf") else f"gt.{op}"


CLEANUP = {
    "times_one": "x * 1",
    "over_one": "x / 1",
    "minus_zero": "x - 0",
    "plus_zero": "i + 0",
    "to_the_one": "x ** 1",
    "double_negative": "-(-x)",
    "double_not": "gt.logical_not(gt.logical_not(x > 0))",
    "where_both_same": "gt.where(x > 0, x, x)",
    "where_known": "gt.where(True, x, y)",
    "cast_there_and_back": "x.astype('float64').astype('float32')",
    "reshape_twice": "x.reshape(-1).reshape(3, -1)",
    "transpose_twice": "x.T.T",
    "broadcast_twice": "gt.broadcast_to(gt.broadcast_to(w, (2, 3)), (5, 2, 3))",
    "broadcast_full": "gt.broadcast_to(gt.full((2, 3), u[0]), (5, 2, 3))",
    "squeeze_expanded": "gt.squeeze(gt.expand_dims(x, 1), 1)",
    "expand_squeezed": "gt.expand_dims(gt.squeeze(x[:, :1], 1), 1)",
    **{
        f"fold_{op}": f"u * gt.{op}(np.float32(2), np.float32(3))"
        for op in ("add", "subtract", "multiply", "true_divide")
    },
    **{
        f"fold_{op}": f"u * gt.{op}(np.float32(2))"
        for op in ("negative", "sqrt", "square")
    },
    **{f"fold_{op}": f"u * gt.{op}(np.float32(2), 3)" for op in ("maximum", "minimum")},
    "where_of_bools": "gt.where(x > 0, False, True)",
    "neutral_maximum": "gt.maximum(x, -np.inf)",
    "neutral_minimum": "gt.minimum(np.inf, x)",
    **{f"broadcast_in_{op}": operated(op) for op in BINARY},
}
COUNT = "gt.count_nonzero(i)"
MASKS = {
    **{f"{op}_of_selected": f"gt.{op}(gt.log(x[u > 0]), 0)" for op in FOUR},
    **{f"{op}_of_selected": f"gt.{op}(x[u > 0] > 1, 0)" for op in ("any", "all")},
    **{
        f"{op}_from_of_selected": f"gt.{op}(u[u > 2], initial=0)"
        for op in ("max", "min")
    },
    "sum_of_squares_of_selected": "gt.linalg.norm(gt.exp(u[u > 2]))",
    "count_nonzero_of_selected": "gt.count_nonzero(u[u > 2] - 3)",
    "pinned_of_selected": "graphc.grad(gt.sum(gt.abs(x[u > 0] * x[u > 0] - 2)), x)",
    "write_to_selected": "u.at[u > 0].set(gt.log(u[u > 0]))",
    "write_to_slice": f"u.at[:{COUNT}].set(gt.exp(u[:{COUNT}]))",
}
LIFTING = {
    "reshape_of_reshaped": "gt.tanh(x.reshape(-1)).reshape(-1, 3)",
    "squeeze_of_reshaped": "gt.tanh(gt.expand_dims(x, 1)).squeeze(1)",
    "expand_dims_of_reshaped": "gt.expand_dims(gt.tanh(x[:, :1].squeeze(1)), 1)",
    "reshape_of_sums": "gt.sum(x.reshape(2, -1, 3), 2).reshape(-1)",
    **{
        f"{op}_of_all_reshaped": f"gt.{op}(gt.tanh(x.reshape(2, -1, 3)), (0, 1))"
        for op in FOUR
    },
    **{
        f"{op}_of_all_reshaped": f"gt.{op}(x.reshape(2, -1, 3) > 0, (0, 1))"
        for op in ("any", "all")
    },
    **{
        f"{op}_from_of_all_reshaped": f"gt.{op}(x.reshape(2, -1, 3), (0, 1), initial=0)"
        for op in ("max", "min")
    },
    "elementwise_of_copies": "gt.tanh(gt.broadcast_to(w, x.shape))",
    "index_of_copies": "gt.broadcast_to(w, (4, 3))[1, :2]",
    **{f"{op}_of_copies": f"gt.{op}(gt.broadcast_to(w, (4, 3)), 0)" for op in FOUR[2:]},
    **{
        f"{op}_of_copies": f"gt.{op}(gt.broadcast_to(w > 0, (4, 3)), 0)"
        for op in ("any", "all")
    },
}
RUNNING = ("cumsum", "cumprod", "cummax", "cummin")
SELECTION = {
    "index_new_axes": "x[:, None, 0]",
    "convert_of_expanded": "gt.astype(gt.expand_dims(u, 0), 'float64')",
    "index_of_elementwise": "gt.tanh(x + w)[0]",
    "gather_of_elementwise": "gt.tanh(pairs + w)[gt.asarray([0, 5])]",
    "index_of_matmul": "(x @ x.T)[:, 0]",
    "gather_of_matmul": "(pairs @ w[:, None])[gt.asarray([0, 5])]",
    "index_of_joined": "gt.concatenate([w[None], pairs])[8, 1:]",
    "slice_of_counted": "x[gt.arange(2, 11)[::-3] % 3]",
    **{f"index_of_{op}": f"gt.{op}(x, 0)[0, 1:]" for op in ("sort", "argsort")},
    **{f"index_of_{op}": f"gt.{op}(x, 0)[0, 1:]" for op in RUNNING},
    **{f"last_of_{op}": f"gt.{op}(x, 0)[-1]" for op in RUNNING},
    "end_of_sort": "gt.sort(x, 0)[-1]",
    "argmax_of_increasing": "gt.argmax(gt.nn.softmax(x, 1), 1)",
    "squeeze_of_elementwise": "gt.squeeze(gt.tanh(gt.sum(x, 0, keepdims=True)), 0)",
    **{
        f"squeeze_of_{op}": f"gt.squeeze(gt.{op}(x, 0, keepdims=True), 0)"
        for op in FOUR
    },
    **{
        f"squeeze_of_{op}": f"gt.squeeze(gt.{op}(x > 0, 0, keepdims=True), 0)"
        for op in ("any", "all")
    },
    **{
        f"squeeze_of_{op}_from": f"gt.squeeze(gt.{op}(x, 0, keepdims=True, "
        "initial=0), 0)"
        for op in ("max", "min")
    },
    "squeeze_of_expanded": "gt.squeeze(gt.expand_dims(u, (1, 2)), 1)",
}
SAME = "gt.astype(gt.expand_dims(i, 1) == gt.arange(8), 'float32')"
HOT = "gt.nn.one_hot(i, 8, dtype='float32')"
LOOKUP = {
    "sum_of_rows": "gt.sum(table[i], 0)",
    "sum_of_weighted_rows": "gt.sum(many[:, None] * table[i], 0)",
    "sum_within_rows": "gt.sum(table[i], 1)",
    "rows_by": "table[i] @ pairs",
    **{
        f"sum_of_written_{len(shape)}": "(lambda a: gt.sum(graphc.grad(gt.sum("
        f"gt.take_along_axis(a, gt.zeros({shape}, 'int64'), -1)), a), -1))"
        f"(gt.reshape(pairs, {(*shape[:-1], 3)}))"
        for shape in ((8, 1), (2, 4, 1), (2, 2, 2, 1))
    },
    "one_hot_by": f"{SAME} @ pairs",
    "one_hot_by_row": f"{HOT} @ pairs",
    "one_hot_transposed_by": f"{SAME}.T @ many",
    "one_hot_transposed_by_row": f"{HOT}.T @ many",
}
CONTRACTION = {
    "matmul_right_first": "(x @ x.T) @ u",
    "matmul_left_first": "u @ (x @ x.T)",
    "scaled_rows_by": "(u[:, None] * x) @ w",
    "by_scaled_columns": "w @ (pairs.T * pairs[:, 0])",
    "diagonal_by": f"{DIAGONAL} @ x.T",
    "by_diagonal": f"x @ {DIAGONAL}",
    "identity_by": "gt.eye(3, dtype='float32') @ x.T",
    "by_identity": "x @ gt.eye(3, dtype='float32')",
    "kron_by": "gt.kron(table, x) @ gt.ones((24, 2), 'float32')",
    "row_by_column": "gt.expand_dims(x, 1) @ gt.expand_dims(y, 2)",
    "diagonal_of_matmul": "gt.diagonal(x @ y.T)",
    "inverse_by": "gt.linalg.inv(s) @ s[0]",
    "by_inverse": "s[0] @ gt.linalg.inv(s)",
    "sum_of_outer": "gt.sum(x[:, :, None] * s[None, :3], 1)",
    "sum_of_outer_rows": "gt.sum(x[:, :, None] * y[:, None], 0)",
    "sum_of_weighted_product": "(x @ pairs.T) @ pairs "
    "* gt.sum((x @ pairs.T) * (y @ pairs.T), 1)[:, None]",
}
PEAK = "gt.max(u[:, None] + v, axis=(0, 1), keepdims=True{start})"
WRITTEN = (
    "(lambda p: gt.log(gt.sum(gt.exp(u[:, None] + v - p))) + gt.squeeze(p))",
    "(lambda p: gt.log(gt.squeeze(gt.sum(gt.exp(u[:, None] + v - p), "
    "keepdims=True))) + gt.squeeze(p))",
    "(lambda p: gt.log(gt.sum(gt.exp(u[:, None] + v - p), keepdims=True)) + p)",
)


def written_logsumexp(number):
    """log-sum-exp of all sums of pairs, in one of the usual ways to write it."""
    peak = PEAK.format(start=", initial=-np.inf" if number < 3 else "")
    finite = f"(lambda q: gt.where(gt.isfinite(q), q, 0.0))({peak})"
    finite = f"graphc.stop_gradient({finite})"
    return f"{WRITTEN[number % 3]}({finite})"


REDUCTION = {
    "sum_of_multiply": "gt.sum(u[:, None] * v)",
    "sum_of_true_divide": "gt.sum(x / 7, 0)",
    "sum_of_add": "gt.sum(x + w, 0)",
    "sum_of_subtract": "gt.sum(x - w, 0)",
    "sum_of_square": "gt.sum(gt.square(u[:, None] - v))",
    "sum_of_power": "gt.sum((u[:, None] - v) ** 2)",
    "sum_of_negative": "gt.sum(-x, 0)",
    "sum_of_broadcast": "gt.sum(gt.broadcast_to(w, (5, 3)), 0)",
    **{f"{op}_of_expanded": f"gt.{op}(gt.expand_dims(x, 1), (0, 1))" for op in FOUR},
    **{
        f"{op}_of_expanded": f"gt.{op}(gt.expand_dims(x > 0, 1), (0, 1))"
        for op in ("any", "all")
    },
    "sum_of_transposed": "gt.sum(x.T, 1)",
    "sum_of_sum": "gt.sum(gt.sum(x, 1))",
    "sum_of_matmul": "gt.sum(x @ y.T, 0)",
    "sum_of_cumsum": "gt.sum(gt.cumsum(u))",
    **{
        f"{op}_of_{of}": f"gt.{op}(u[:, None] {sign} v)"
        for op in ("max", "min")
        for of, sign in (("add", "+"), ("subtract", "-"))
    },
    **{f"logsumexp_of_sum_{k}": written_logsumexp(k) for k in range(6)},
    **{
        f"{op}_of_{of}": f"gt.{op}({function(of)}(x), 0)"
        for op in ("max", "min")
        for of in INCREASING
    },
}
STABILITY = {
    "log_one_plus": "gt.log(1 + x)",
    "log_one_minus": "gt.log(1 - x)",
    "exp_minus_one": "gt.exp(x) - 1",
    "log_of_sigmoid": "gt.log(gt.special.expit(x))",
    "log_one_plus_exp": "gt.log1p(gt.exp(x))",
    "log_add_exp_of_zero": "gt.logaddexp(x, 0)",
    "one_minus_sigmoid": "1 - gt.special.expit(x)",
    "log_of_sum_of_exp": "gt.log(gt.sum(gt.exp(x), 1))",
    "written_softmax": "gt.exp(x) / gt.sum(gt.exp(x), 1, keepdims=True)",
    "log_of_softmax": "gt.log(gt.nn.softmax(x, 1))",
}
RUNS = "gt.scan(lambda c, r: (c + r, c * r), gt.zeros(3, 'float32'), x)[1]"
BACK = "gt.scan(lambda c, r: (c + r, []), gt.zeros(3, 'float32'), {})[0]"
HOISTING = {
    "last_of_stacked": "gt.scan(lambda c, r: (c + r, c + r), w, pairs)[1][-1]",
    "sequence_in_scan": BACK.format(f"gt.abs(2 * {RUNS})"),
    "recomputed_in_scan": "gt.scan(lambda c, r: (c + r[0] * r[1], []), "
    "gt.zeros(3, 'float32'), (x, gt.map(gt.tanh, x)))[0]",
    "reduction_in_scan": f"gt.sum(({RUNS} - y) ** 2)",
    "scan_in_chunks": "gt.sum((gt.scan(lambda c, r: (c + r, c * r), "
    "gt.zeros(3, 'float32'), x)[1] @ pairs.T) ** 2)",
    "scan_of_chunks": "graphc.grad(gt.sum(gt.scan(lambda c, r: (gt.sin(c * r), []), "
    "w, x, checkpoint=4)[0]), x)",
    "large_in_blocks": "gt.nn.logsumexp(-gt.square(u[:, None] - v), 1)",
}
ROLLING = {
    "repeated_blocks": f"(lambda f: {'f(' * 9}w{')' * 9})"
    "(lambda m: m + 2 * m[np.array([1, 2, 0])])",
}
SHARING = {
    "shared_blocks": "(lambda f: gt.stack([f(u[k]) for k in range(8)]))"
    "(lambda k: gt.tanh(gt.sin(gt.cos(gt.exp(gt.sin(gt.tanh(k * u)))))))",
}
ACCELERATORS = {
    "steps_together": "gt.scan(lambda c, r: (gt.tanh(c + r), c), w, x)[1]",
    "fused_attention": "gt.nn.softmax(0.5 * (pairs @ pairs.T)) @ pairs",
}
FAMILIES = {
    "accelerators": ACCELERATORS,
    "sharing": SHARING,
    "rolling": ROLLING,
    "hoisting": HOISTING,
    "cleanup": CLEANUP,
    "masks": MASKS,
    "lifting": LIFTING,
    "selection": SELECTION,
    "lookup": LOOKUP,
    "contraction": CONTRACTION,
    "reduction": REDUCTION,
    "stability": STABILITY,
}
