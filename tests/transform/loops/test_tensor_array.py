"""`TensorArray` compared with lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.alike import alike

pytestmark = pytest.mark.usefixtures("wide", "compiled_quickly")
BACKENDS = ("numpy", "jax")
A = gt.tensor("a", "float64", ())
X = gt.tensor("x", "float64", ("n",))
K = gt.tensor("k", "int64", ())
ROWS = np.cos(np.arange(6) * 1.7) * 1.5


def kept(np, a, x, signs):
    """The rows of a list to which some are appended and in which some are rewritten."""
    rows = [a * 1.0]
    for v, sign in zip(x, signs, strict=True):
        if sign > 0:
            rows.append(rows[-1] * a + v)
        else:
            rows[0] = rows[0] + np.sin(v) * rows[-1]
    return rows


def kept_by_graphc(a, x):
    def step(rows, v):
        append = lambda: rows.append(rows[-1] * a + v)
        write = lambda: rows.write(0, rows[0] + gt.sin(v) * rows.read(-1))
        return gt.cond(v > 0, append, write), rows.count

    start = gt.TensorArray(10, dtype="float64").append(a)
    return gt.scan(step, start, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_and_gradients_are_those_of_lists(backend):
    rows, counts = kept_by_graphc(A, X)
    weights = lambda n: np.cos(np.arange(n))
    cost = gt.sum(rows.stack() * gt.cos(gt.arange(rows.stack().shape[0]) * 1.0))
    outputs = [rows, counts, *graphc.grad(cost, [A, X])]
    f = graphc.function([A, X], outputs, backend=backend)

    for x in (ROWS, ROWS[:0]):

        def plain(a, v, x=x):
            found = jnp.stack(kept(jnp, a, v, x))
            return jnp.sum(found * weights(len(found)))

        wanted = np.array(kept(np, 1.1, x, x))
        sizes = [len(kept(np, 1.1, x[:i], x[:i])) for i in range(len(x))]
        slopes = jax.jit(jax.grad(plain, (0, 1)))(1.1, x)
        found, seen, *gradients = f(np.float64(1.1), x)
        alike([found, *gradients], [wanted, *slopes])
        assert list(seen) == sizes



@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_are_read_and_written_by_number(backend):
    """Each call does what a list would do, or raises if the list has no such row."""
    start = gt.TensorArray(4, like=X[:2]).append(X[:2]).append(X[2:4])
    written = start.write(K, X[4:6])
    outputs = [start[K], written, written.count, start.write(3, X[:2]).stack()]
    read, write = (
        graphc.function([X, K], out, backend=backend) for out in (outputs[0], outputs)
    )
    a, b, c = ROWS[:2], ROWS[2:4], ROWS[4:]
    for k in (0, 1, -1, -2):
        rows = [a, b]
        rows[k] = c
        alike(write(ROWS, k)[:3], [[a, b][k], np.stack(rows), np.int32(2)])
    alike(write(ROWS, 0)[3:], [np.stack([a, b, 0 * a, a])])
    for k in (2, 5, -3, 2**32):
        with pytest.raises(graphc.GraphError, match="a row is read that is not there"):
            read(ROWS, k)
    beyond = graphc.function([X, K], written, backend=backend)
    alike([beyond(ROWS, 3)], [np.stack([a, b, 0 * a, c])])
    for k in (4, -3, 2**32):
        with pytest.raises(graphc.GraphError, match="no room for a row"):
            beyond(ROWS, k)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_at_once(backend):
    """Each example's loop has a number of steps and an array of its own."""
    ks = gt.tensor("ks", "int64", ("m",))

    def one(k):
        body = lambda c: (c[0] + 1, {"rows": c[1]["rows"].append(c[0] * A)})
        start = (0, {"rows": gt.TensorArray(4, (), "float64")})
        rows = gt.while_loop(lambda c: c[0] < k, body, start)[1]["rows"]
        slope = graphc.grad(gt.sum(rows.buffer * gt.arange(4.0)), A)
        return rows, rows.read(-1), slope

    rows, last, slopes = graphc.vmap(one)(ks)
    outputs = [rows.buffer, rows.count, last, slopes]
    f = graphc.function([A, ks], outputs, backend=backend)
    counts = np.array([2, 4, 1])
    table = np.where(np.arange(4) < counts[:, None], np.arange(4) * 1.5, 0)
    squares = np.array([sum(i * i for i in range(k)) * 1.0 for k in counts])
    wanted = [table, counts.astype("int32"), (counts - 1) * 1.5, squares]
    alike(f(1.5, counts), wanted)
    for wrong, problem in ((5, "no room"), (0, "a row is read that is not there")):
        with pytest.raises(graphc.GraphError, match=problem):
            f(1.5, np.array([2, wrong]))
    with pytest.raises(graphc.GraphError, match=r"many arrays, made by graphc\.vmap"):
        rows.append(1.0)


def test_a_capacity_that_is_padded():
    rows = gt.TensorArray(X.shape[0], dtype="float64")
    rows = gt.scan(lambda c, x: (c.append(gt.sin(x * A)), None), rows, X)[0]
    outputs = [rows, gt.sum(rows.buffer), graphc.grad(gt.sum(rows.stack()), X)]
    f = graphc.function([X, A], outputs, dims="pad")
    for n in (4, 3):
        sines, slopes = np.sin(ROWS[:n] * 1.5), np.cos(ROWS[:n] * 1.5) * 1.5
        alike(f(ROWS[:n], 1.5), [sines, np.sum(sines), slopes])


def test_writes_are_in_place_and_memory_is_linear(programs):
    def step(rows, x):
        return rows.append(gt.sin(rows[-1] * x)), None

    used = []
    for n in (1000, 2000):
        programs.clear()
        x = gt.tensor("x", "float32", (n,))
        start = gt.TensorArray(n + 1).append(1.0)
        loss = gt.sum(gt.scan(step, start, x)[0].buffer ** 2)
        f = graphc.function([x], [loss, graphc.grad(loss, x)])
        f(np.ones(n, "float32"))
        used.append(sum(p.memory_analysis().temp_size_in_bytes for p in programs))
    assert 0 < used[1] < 2.1 * used[0]


def test_outputs_and_arguments():
    """A `TensorArray` may be in lists and dicts; an empty one has no row."""
    rows = gt.TensorArray(3, (2,), "float64")
    f = graphc.function([X], {"none": rows, "one": [rows.append(X)]}, backend="numpy")
    found = f(ROWS[:2])
    alike([found["none"], *found["one"]], [np.zeros((0, 2)), ROWS[None, :2]])
    again = graphc.checkpoint(lambda r: r.append(X).stack() ** 2)(rows)
    slope = graphc.function([X], graphc.grad(gt.sum(again), X), backend="numpy")
    alike([slope(ROWS[:2])], [2 * ROWS[:2]])


def test_gradients_in_an_array():
    """Gradients are an array with the same number of rows."""
    rows = gt.TensorArray(3, dtype="float64").append(A).append(A * 2)
    found = graphc.grad(gt.sum(rows.stack() ** 2), {"rows": rows})["rows"]
    f = graphc.function([A], [found, found.buffer], backend="numpy")
    alike(f(1.5), [np.array([3.0, 6.0]), np.array([3.0, 6.0, 0.0])])


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: gt.TensorArray(-1), "the capacity is negative"),
        (lambda: gt.TensorArray(2).append(X), "have the type of the other rows"),
        (lambda: gt.TensorArray(2).append(K), r"(?s)not have the type.*int64.*float32"),
        (lambda: gt.TensorArray(2)[0:1], "an integer scalar"),
        (lambda: gt.TensorArray(2).write(A, 1.0), "an integer scalar"),
        (
            lambda: gt.fori_loop(
                0, 3, lambda i, c: {"r": gt.TensorArray(3)}, {"r": gt.TensorArray(2)}
            ),
            r"(?s)type of the carry at \['r'\]\.buffer.*float32\[3\].*float32\[2\]",
        ),
        (
            lambda: gt.fori_loop(0, 3, lambda i, c: c.stack(), gt.TensorArray(2)),
            r"(?s)structure of the carry.*a TensorArray",
        ),
    ],
)
def test_bad_input(make, problem):
    with pytest.raises(graphc.GraphError, match=problem):
        make()
