"""Arrays in NumPy functions are written in place, and views share their memory."""

import re

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.importers.numpy.test_function import same, some

TABLE = np.arange(12.0).reshape(3, 4)


def moving(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for t in range(1, 3):
        y[t] = 0.9 * y[t - 1] + 0.1 * x[t]
    return y


def ranks(x):
    order = x.argsort()
    rank = np.empty_like(order)
    rank[order] = np.arange(x.size)
    return rank


def views(x):
    y = x * 2
    head, back, grid = y[1:], y[::-1], y[:, None]
    head += 1
    back[0] = 7
    grid[1] *= 3
    y[0] = -1
    return y, head, back, grid


def views_of_views(x):
    y = np.outer(x, x)
    row = y.T[1:][0]
    row[-1] = 5
    y.T[...] = y.T + 1
    np.swapaxes(y, 0, 1)[0, 1] = 8
    np.flip(y, 0)[0] -= 2
    first, second = np.split(y, [1])
    second[0] = 9
    return y, row, first


def one_name_two_arrays(x):
    a = b = x * 2
    c = x * 2
    a += 1
    d = a
    d = d + 1
    e = np.asarray(a)
    e[1] = 0
    return a, b, c, d


def reshaped(x):
    y = np.zeros((x.shape[0], 2))
    y.reshape(-1)[::2] = x
    y.ravel()[1] = 4
    z = (x * 3).reshape(1, -1)
    z[0, 0] = 1
    return y, z


def masks(x):
    y = x.copy()
    y[y < 0] = 0
    y[1:][x[1:] > 0.5] = 2
    y[np.nonzero(x > 0.9)] += 10
    y[...] = np.where(y > 3, 3, y)
    y[np.isnan(y)] = 0
    return y


def constants(x):
    out = np.zeros(4)
    out[1] = 5
    part = out[2:]
    part[0] = x.sum()
    grid = np.array([[1, 2], [3, 4]])
    grid[0, 0] = x[0] * 10
    grid.T[1] = 7
    return out, part, grid, np.eye(3)[np.argsort(x)[:1]], np.arange(4)[x.argmin() * 0]


def updates(x):
    counts, where = np.zeros(3), (x > 0).astype(int)
    np.add.at(counts, where, x)
    np.maximum.at(counts, [0, 0], 0.25)
    np.subtract.at(counts, where[:1], 1)
    total = np.ones(2, int)
    np.add.at(total, [1, 1], 2)
    table = np.zeros((2, 3))
    np.add.at(table, (where, where), x)
    np.multiply.at(table, (where, [0]), 2.0)
    np.maximum.at(table, (slice(None), [x.argmin() * 0, 2]), [x[0], 0.5])
    return counts, total, table


def outs(x):
    y, z = np.empty_like(x), np.ones((2, x.shape[0]))
    found = np.multiply(x, 2, out=y)
    np.cumsum(x, out=z[1])
    np.exp(z[0], out=z[0])
    np.copyto(z[0], x, where=x > 0)
    np.sum(z, axis=0, out=y)
    return found, y, z


def methods(x):
    y, z = x.copy(), np.zeros((2, 2))
    y.sort()
    y.flat[0] = -9
    y.put([1], 8)
    part = x.copy()
    part.partition(1)
    z.fill(x[0])
    np.fill_diagonal(z, 1)
    np.put(z, [1], x[1])
    return y, z, part[1], y.sum(), [v * 2 for v in z[0]]


def dtypes(x):
    n, flags = np.arange(3), np.zeros(3, bool)
    n[1] = x[0] + 2.9
    flags[0] = x[0]
    half = np.ones(2, "float16")
    half *= x[0]
    count = 0
    count += x.size
    total = x.sum()
    total += 1
    return n, flags, half, total, x.sum() / count


def numbers(x):
    k = x.shape[0] // 2 + 1
    y = np.full(k, k)
    y[-1] = x.size
    numbers = divmod(k, 2), round(x[0], 1)
    return y, x * k, np.sin(k) * x, k * np.ones(1, "float32"), numbers


def joined(x):
    z = np.exp(1j * x)
    parts, own = z.real.copy(), x.copy()
    parts[0] = 0
    np.real(own)[0] = 3
    table = np.c_[x, x > 0, 1 : x.size + 1]
    return np.r_[x, 0, x[:2], 0:1:3j], table, np.r_[1, 2], parts, z.imag, own


def mixed(x):
    y = np.ones_like(x)
    y[1] = 3
    return gt.sum(y) + x[0] * y, y.at[0].add(2), gt.stack([y, x])


def along_axes(x):
    """Apply functions that return vectors, lists, arrays or numbers, or that write."""

    def centred(v):
        new = v.copy()
        new -= v.mean()
        return new

    table = np.outer(x, np.arange(3.0)).reshape(-1, 3, 1) + np.ones(2)
    apply = np.apply_along_axis
    yield apply(centred, 0, table)
    yield apply(lambda v: [v.min(), v.max()], 1, table)
    yield apply(np.outer, 1, table, np.arange(2.0))
    yield apply(np.percentile, -1, table, q=30)
    yield apply(np.argmax, 0, table)
    yield apply(np.cumsum, 0, x)


FUNCTIONS = [moving, ranks, views, methods, views_of_views, one_name_two_arrays]
FUNCTIONS += [reshaped, masks, constants, updates, outs, dtypes, numbers, joined]
FUNCTIONS += [lambda x: list(along_axes(x))]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_writes_are_those_of_numpy(function):
    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    for n in (3, 4, 6):
        x = some(n)
        same(ours(x), function(x.copy()))
        assert (x == some(n)).all()
    assert ours.stats().fallbacks == []


def test_jax_runs_what_writes():
    ours = graphc.jit(views_of_views, frontend="numpy")
    for n in (3, 5):
        same(ours(some(n)), views_of_views(some(n)))


def test_gradients_go_through_writes():
    def loss(x):
        y = np.zeros(x.shape[0] + 1)
        y[1:] = x
        y[:-1] += x**2
        return np.sum(y * y)

    def slope(x):
        y = np.append(0, x) + np.append(x**2, 0)
        return 2 * y[1:] + 4 * x * y[:-1]

    ours = graphc.jit(graphc.grad(loss), frontend="numpy", backend="numpy")
    for n in (3, 4, 5):
        x = some(n).astype("float64")
        same(ours(x), slope(x))


def test_values_of_graphc_take_them():
    ours = graphc.jit(mixed, frontend="numpy", backend="numpy")
    x, y = some(3), np.array([1, 3, 1], "float32")
    same(ours(x), (y.sum() + x[0] * y, y + np.float32([2, 0, 0]), np.stack([y, x])))


def argument(x):
    x[0] = 1
    return x


def view_of_argument(x):
    x.T[0] += 1
    return x


def flat_argument(x):
    y = x.reshape(-1)
    y[0] = 1
    return y


def copied_or_not(x):
    y = np.outer(x, x).T
    z = y.reshape(-1)
    y[0] = 1
    return z


def read_only(x):
    y = np.broadcast_to(x, (2, 3))
    y[0] = 1
    return y


def known_and_read_only(x):
    y = np.broadcast_to(2.0, 3)
    y[0] = 1
    return y + x


def number_and_read_only(x):
    y = np.broadcast_to(x.sum(), 3)
    y[0] = 1
    return y


def eigenvalues(x):
    return np.linalg.eigvals(np.outer(x, x))


def out_of_another_shape(x):
    return np.sum(x, out=np.zeros((1, 3)))


def into_integers(x):
    y = np.arange(3)
    y += 0.5 * x
    return y


def into_the_world(x):
    np.add(x, 1, out=TABLE[0, :3])


def rows_of_a_table(x):
    return TABLE[x.argsort()]


def part_of_complex(x):
    z = np.exp(1j * x)
    z.real[0] = 1
    return z


UNCLEAR = "index: whether arrays share memory depends on the layout"
REFUSED = {
    argument: "index: an argument would be written, and with it an array of the caller",
    view_of_argument: "index: an argument would be written",
    flat_argument: "index: an argument would be written",
    copied_or_not: UNCLEAR,
    part_of_complex: "index: parts of complex numbers cannot be written here",
    **dict.fromkeys(
        [read_only, known_and_read_only, number_and_read_only],
        "index: NumPy gives a view here that cannot be written",
    ),
    eigenvalues: "numpy.linalg.eigvals: NumPy gives real eigenvalues if all are "
    "real, which depends on data\n  hint: write np.linalg.eigvals(a.astype(complex))",
    out_of_another_shape: "out: the result has another shape than the array that it "
    "is written to\n  got: () for (1, 3)",
    into_integers: "cannot be cast in place\n  got: float64 into int64",
    into_the_world: "out: cannot write a symbolic value into an array from outside",
    rows_of_a_table: "index: a symbolic value has no number before the function is "
    "called\n  got: int64[3]\n  hint: for an array of NumPy, write np.asarray(a)[i], "
    "or np.take(a, i, axis=0)",
}


@pytest.mark.parametrize("function", REFUSED)
def test_what_cannot_be_written_is_told(function):
    ours = graphc.jit(function, frontend="numpy", backend="numpy")
    with pytest.raises(graphc.GraphError, match=re.escape(REFUSED[function])) as told:
        ours(np.ones(3))
    assert f"at {__file__}:" in str(told.value)
    assert np.array_equal(TABLE, np.arange(12.0).reshape(3, 4))
