"""Programs on meshes compared with NumPy, for sizes from 0: run on eight devices.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m THIS NUMBER ...

At length they are compared with one device, on more meshes, and for sizes of more
capacities.
"""

import os
import sys

import numpy as np

import graphc
import graphc.tensor as gt

AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16)  # of two capacities
MESHES = [({"data": 4}, SIZES), ({"data": 2, "model": 2}, SIZES[:8])]
if AT_LENGTH:
    SIZES += (17, 31, 32, 33, 40)
    axes_of_meshes = [{"data": 4}, {"data": 2, "model": 2}, {"data": 1}, {"data": 2}]
    axes_of_meshes += [{"data": 8}, {"model": 4, "data": 2}]
    MESHES = [(axes, SIZES) for axes in axes_of_meshes]


def regression():
    """A masked loss over a batch, and its gradients in replicated parameters."""
    x = gt.tensor("x", "float32", ("batch", 3))
    t = gt.tensor("t", "float32", ("batch", 2))
    w = gt.tensor("w", "float32", (3, 2))
    b = gt.tensor("b", "float32", (2,))
    y = gt.tanh(x @ w + b)
    used = gt.where(t > 0, (y - t) ** 2, 0)
    loss = gt.sum(used) / (1 + gt.count_nonzero(t > 0))
    value, slopes = graphc.value_and_grad(loss, [w, b])
    return [x, t, w, b], [value, *slopes, y]


def statistics():
    """Reductions, and ops that need neighbouring rows."""
    x = gt.tensor("x", "float32", ("batch", 3))
    results = [
        *(gt.sum(x, axis=0), gt.cumsum(x, axis=0), gt.sort(x, axis=0), x[::-1]),
        *(gt.nn.softmax(x, axis=0), gt.argsort(x[:, 0]), gt.concatenate([x, x])),
        *(x.T @ x, x @ x.T, gt.reshape(x, (-1,)), gt.fft.fft(x, axis=1)),
    ]
    return [x], results


def row_by_row():
    """Fourier transforms of rows and columns, and other ops that work row by row."""
    x = gt.tensor("x", "float32", ("batch", 4))
    rows = gt.fft.fft(x, axis=1)
    both = gt.fft.irfft(gt.fft.rfft(rows.real, axis=1), axis=1)
    columns = gt.fft.fft(both, axis=0)
    stacked = gt.fft.fft2(gt.reshape(x, (x.shape[0], 2, 2)))
    loss = gt.sum(gt.abs(rows) ** 2) + gt.sum(gt.abs(columns))
    each = graphc.vmap(lambda row: gt.fft.fft(row))(x)
    matrices = gt.expand_dims(x, 2) * gt.expand_dims(x, 1) + gt.eye(4)
    triangles = gt.linalg.cholesky(matrices)
    padded = gt.pad(x, ((0, 0), (1, 2)))
    return [x], [rows, both, columns, stacked, each, triangles, padded] + [
        graphc.grad(loss, x)
    ]


def recurrence():
    """A scan over rows, one over columns with a batch in its carry, and gradients."""
    x = gt.tensor("x", "float32", ("batch", 3))
    w = gt.tensor("w", "float32", (3,))
    zeros = gt.zeros((3,), "float32")
    rows, _ = gt.scan(lambda c, row: (gt.tanh(c * w + row),) * 2, zeros, x)
    start = gt.zeros((x.shape[0],), "float32")
    columns, _ = gt.scan(lambda c, col: (gt.tanh(c + col),) * 2, start, x.T)
    loss = gt.sum(rows) + gt.sum(columns)
    return [x, w], [loss, graphc.grad(loss, w), columns]


def transforms():
    """Fourier transforms, which need whole axes, also in a loop and before a slice."""
    x = gt.tensor("x", "float32", ("batch", 4))
    w = gt.tensor("w", "float32", (3,))
    real = lambda y: gt.real(gt.fft.fft(y, axis=0))
    carry, sums = gt.scan(lambda c, k: (gt.tanh(real(c * k)), gt.sum(c)), x, w)
    cut = gt.abs(gt.fft.rfft2(x, s=(5, 2)))[: x.shape[0]]
    return [x, w], [carry, sums, cut, graphc.grad(gt.sum(cut), x)]


def branches():
    """A branch that needs equal sizes, some of which are not equal.

    There is also an array of no rows, for which JAX has parts of wrong shapes.
    """
    x = gt.tensor("x", "float32", ("batch",))
    y = gt.tensor("y", "float32", (9,))
    no_rows = gt.tensor("no_rows", "float32", (0, "batch"))
    total = gt.sum(x)
    either = gt.cond(total > 1e6, lambda: gt.sum(x + y), lambda: total)
    return [x, y, no_rows], [either, x * 2, no_rows * 2]


def of_data():
    """Two segments, with a size that depends on data between them."""
    x = gt.tensor("x", "float32", ("batch", 3))
    positive = x[x[:, 0] > 0]
    return [x], [positive, gt.sum(positive, axis=0), x * 2]


def draws():
    """Draws by keys, along a batch and for each row, equal to those of one device."""
    x = gt.tensor("x", "float32", ("batch", 3))
    w = gt.tensor("w", "float32", (3,))
    keys = gt.random.split(gt.random.key(3), 4)
    batch = x.shape[0]
    kept = gt.random.bernoulli(keys[0], 0.7, x.shape)
    y = gt.where(kept, x * w, 0) + gt.random.normal(keys[1], x.shape)
    drawn_apart = gt.random.split(keys[2], batch)
    rows = graphc.vmap(lambda k, row: row * gt.random.uniform(k, (3,)))(drawn_apart, x)
    classes = gt.random.categorical(keys[3], x)
    order = gt.random.permutation(keys[3], x[:, 0])
    loss = gt.mean((y + rows) ** 2)
    return [x, w], [loss, graphc.grad(loss, w), rows, classes, order]


def along_rows():
    """Ops along the batch that devices do on their parts."""
    x = gt.tensor("x", "float32", ("batch", 3))
    y = gt.round(gt.abs(x) * 2)  # has equal elements
    results = [
        *(gt.cumsum(x, axis=0), gt.cumprod(x, axis=0), gt.cummax(y, axis=0)),
        *(gt.cumsum(x, axis=0, reverse=True), gt.cummin(y, axis=0, reverse=True)),
        *(gt.cumlogsumexp(x, axis=0), gt.argsort(y, axis=0), gt.sort(x[:, 0])),
    ]
    either = gt.concatenate([y, y])
    holes = gt.where(x > 0.8, np.nan, x)  # JAX overlooks these between devices
    results += [gt.max(holes, axis=0), gt.min(holes), gt.max(holes, initial=0)]
    return [x], [*results, *gt.top_k(either, 2, axis=0), gt.argmax(either, axis=0)]


def along_rows_gradients():
    """Gradients of ops along the batch."""
    x = gt.tensor("x", "float32", ("batch", 2))
    loss = gt.sum(gt.cumprod(gt.tanh(x), axis=0) ** 2) + gt.sum(gt.sort(x, axis=0)[:1])
    loss = loss + gt.sum(gt.cumsum(x, axis=0) ** 2) + gt.sum(gt.cummax(x, axis=0))
    return [x], [graphc.grad(loss, x)]


def picking():
    """Elements of each row, read and written by the row's number."""
    x = gt.tensor("x", "float32", ("batch", 6))
    y = gt.tensor("y", "float32", ("batch", 2, 6))
    labels = gt.astype(gt.abs(x[:, 0]) * 3, "int32")
    places = gt.argsort(y, axis=2)[:, :, :2]
    rows = gt.arange(x.shape[0])
    loss = -gt.sum(gt.nn.log_softmax(x)[rows, labels])
    taken = gt.take_along_axis(y, places, axis=2)
    second, where = gt.top_k(y, 2, axis=2)
    loss = loss + gt.sum(taken**3) + gt.sum(second**2)
    written = x.at[rows, labels].set(0.0)
    added = y.at[rows[:, None], 1, places[:, 0]].add(x[:, :2])
    slopes = graphc.grad(loss, [x, y])
    return [x, y], [loss, *slopes, written, added, taken, where]


def holes():
    """Extremes with NaN where XLA joins those of devices and would overlook NaN."""
    x = gt.tensor("x", "float32", ("batch", 3))
    some = gt.where(x > 0.8, np.nan, x)
    kinds = gt.astype(gt.abs(x[:, 1]) * 2, "int32")
    in_loop = gt.scan(lambda c, k: (c * k, gt.max(c, axis=0)), some, gt.arange(1.0, 4))
    in_map = gt.map(lambda k: gt.min(some * k), gt.arange(1.0, 4))
    largest, smallest = lambda: gt.max(some, axis=0), lambda: gt.min(some, axis=0)
    either = gt.cond(gt.sum(x) > 0, largest, smallest)
    parts = gt.segment_max(some, kinds, 3), gt.segment_min(some[:, 0], kinds, 3)
    written = gt.zeros((3,), "float32").at[kinds].max(some[:, 0])
    by_hand = gt.max(gt.tanh(gt.with_sharding(some, ("data", None))))
    wide = gt.where(gt.arange(4096) == 7, some[:, :1], 0)[:, None]  # on one device too
    large = [gt.max(wide, axis=0), gt.min(wide, axis=1)]
    large += [gt.nn.max_pool(wide, 2), gt.nn.min_pool(wide, 2)]
    return [x], [in_loop[1], in_map, either, *parts, written, by_hand, *large]


def written_twice():
    """An element written into sums over devices: XLA may lose one of other parts."""
    x = gt.tensor("x", "float32", ("batch", 3))
    places = gt.argsort(x[:, 0]) // 2
    added = x.at[places].add(x)
    last = gt.argmax(gt.concatenate([x[:, 1], gt.zeros((1,), "float32")]))
    results = [added.at[last].set(7.0), added.at[gt.stack([last])].add(x[:1] * 0 + 2)]
    results += [gt.segment_sum(x, places, x.shape[0]).at[last // 2].max(x[0:1].sum(0))]
    return [x], [*results, graphc.grad(sum(gt.sum(r**2) for r in results[::2]), x)]


def neighbours():
    """Neighbouring rows: slices, differences, padding, concatenated arrays."""
    x = gt.tensor("x", "float32", ("batch", 3))
    steps = gt.diff(x, axis=0)
    before = gt.concatenate([gt.zeros((2, 3), "float32"), x])
    curved = before[2:] - 2 * before[1:-1] + before[:-2]
    wider = gt.pad(x, ((1, 2), (0, 0)))
    product = gt.sum(x[1:, 0] * x[:-1, 0])
    written = x.at[1:].add(steps)
    loss = product + sum(gt.sum(gt.sin(y)) for y in (steps, curved, wider, written))
    results = [steps, before, curved, wider, x[1:] * 2, x[:-1], written, product]
    return [x], [*results, graphc.grad(loss, x), gt.sum(wider, axis=0)]


def meeting():
    """Rows combined with rows; elements by index, and a few rows, from any device."""
    x = gt.tensor("x", "float32", ("batch", 3))
    apart = gt.sum((x[:, None] - x[None]) ** 2, axis=2)
    covariance = gt.exp(-apart) + 2 * gt.eye(x.shape[0])
    white = gt.linalg.solve_triangular(gt.linalg.cholesky(covariance), x, lower=True)
    query = gt.reshape(x, (x.shape[0], 1, 3))
    mixed = gt.nn.dot_product_attention(query, query, gt.sin(query), is_causal=True)
    indices = np.array([[0, -1, 7]])
    some = [x[indices, 1], (x > 0)[indices], -gt.abs(x)[indices] * 0, x[:3], x[-2:]]
    loss = gt.sum(white**2) + gt.sum(mixed**2) + gt.sum(some[0] ** 2)
    turned = apart + gt.exp(-apart).T
    slope = graphc.grad(loss, x)
    return [x], [white, mixed, *some, gt.sum(turned, axis=1), x[1::2] * 2, slope]


PROGRAMS = (
    *(regression, statistics, recurrence, transforms, branches, of_data, draws),
    *(row_by_row, along_rows, along_rows_gradients, picking, holes),
    *(written_twice, neighbours, meeting),
)


def arguments(inputs, batch):
    rng = np.random.default_rng(batch)
    types = [v.type for v in inputs]
    shapes = [[n if isinstance(n, int) else batch for n in t.shape] for t in types]
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


# Compilations of programs that aren't compiled once for each capacity of the batch.
COMPILATIONS = {branches: 3, of_data: 9}


def outcome(function, args):
    """The results of a call, or the first line of its error."""
    try:
        return function(*args)
    except graphc.CallError as error:
        return str(error).splitlines()[0]


def compared(program):
    """Compare a program on meshes with the same one without, compilations included."""
    inputs, outputs = program()
    pad = graphc.Pad(minimum=8)
    backend = "jax" if AT_LENGTH else "numpy"
    one = graphc.function(inputs, outputs, dims={"batch": pad}, backend=backend)
    calls = [(batch, arguments(inputs, batch)) for batch in SIZES]
    expected = [outcome(one, args) for _, args in calls]
    count = len(one.stats().compilations) or COMPILATIONS.get(program, 2)
    counts: dict[int, int] = {}  # of compilations, up to each size
    for axes, sizes in MESHES:
        dims = {"batch": graphc.Shard("data", pad)}
        sharded = graphc.function(inputs, outputs, dims=dims, mesh=graphc.mesh(**axes))
        devices = int(np.prod([*axes.values()]))
        for (batch, args), known in zip(calls[: len(sizes)], expected, strict=False):
            compare(outcome(sharded, args), known, devices)
            so_far = len(sharded.stats().compilations)
            assert counts.setdefault(batch, so_far) == so_far, (axes, batch)
    assert counts[SIZES[-1]] == count


def compare(results, known, devices):
    """Compare results on a mesh, or the text of an error, with those known."""
    if isinstance(known, str):
        assert results == known
        return
    for ours, theirs in zip(results, known, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert len(ours.sharding.device_set) == devices
        np.testing.assert_allclose(ours, theirs, rtol=5e-5, atol=5e-5)


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]):
        print(PROGRAMS[number].__name__, flush=True)  # if one fails, it is the last
        compared(PROGRAMS[number])
