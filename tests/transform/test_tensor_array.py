"""`TensorArray` against lists."""

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


def kept(np, a, x):
    """What a list holds where some rows are appended, some written again."""
    rows = [a * 1.0]
    for v in x:
        if v > 0:
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

    def plain(a, x):
        found = jnp.stack(kept(jnp, a, x))
        return jnp.sum(found * weights(len(found)))

    for x in (ROWS, ROWS[:0], ROWS[:3]):
        wanted = np.array(kept(np, 1.1, x))
        sizes = [len(kept(np, 1.1, x[:i])) for i in range(len(x))]
        with jax.disable_jit():
            slopes = jax.grad(plain, (0, 1))(1.1, x)
        found, seen, *gradients = f(np.float64(1.1), x)
        alike([found, *gradients], [wanted, *slopes])
        assert list(seen) == sizes
