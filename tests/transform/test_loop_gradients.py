"""Gradients of loops with arrays that are written by index: right, and linear.

Values are compared with `jax.grad` of `jax.lax.scan`, by the same bodies.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

BACKENDS = ("numpy", "jax")
SIZE = 6  # of the array that is carried


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        jax.config.update("jax_disable_most_optimizations", True)
        yield
        jax.config.update("jax_disable_most_optimizations", False)


# Bodies, for graphc and for JAX: of a namespace, a parameter, the number of the step,
# what is carried, and a row. They give what is carried, and an output.


def recurrence(np, w, i, b, x):
    """Each element of those before."""
    return b.at[i % SIZE].set(np.sin(b[i % SIZE - 1] * w + b[i % SIZE - 2] * x)), None


def read_after(np, w, i, b, x):
    """Reads between writes, at the same place and at another."""
    i = i % SIZE
    b = b.at[i].set(x * w)
    seen = b[i] * b[i - 1]
    b = b.at[i - 2].add(seen)
    return b.at[i - 1].multiply(w), seen + b[i - 2]


def masked(np, w, i, b, x):
    """Some steps write, some do not."""
    new = b.at[i % SIZE].set(np.sin(b[i % SIZE - 1] * w + x))
    return np.where(x > 0, new, b), None


def masked_twice(np, w, i, b, x):
    """Nested masks, of several writes, the other way round too."""
    new = b.at[i % SIZE].add(x * w).at[0].multiply(w)
    new = np.where(x > 0.5, new, b).at[i % 2].set(b[3] * x)
    return np.where(x < -0.5, b, new), new[1]


def one_branch(np, w, i, b, x):
    """The other branch is another array."""
    return np.where(x > 0, b.at[i % SIZE].set(x * x), b * w), None


def extremes(np, w, i, b, x):
    """Elements at most, and at least."""
    b = b.at[i % SIZE].min(x * w)
    return b.at[(i + 1) % SIZE].max(np.sin(x)), b[0]


def from_the_end(np, w, i, b, x):
    """Negative indices, to write and to read."""
    return b.at[-1 - i % SIZE].set(b[-SIZE + i % 3] * x + w), b[-2]


def repeated(np, w, i, b, x):
    """One index several times; it counts each time."""
    places = i % 3 + np.array([0, 2, 0])
    return b.at[places].add(np.sin(b[places] * x) * w), None


def outside(np, w, i, b, x):
    """What is out of bounds is not written, and read at the nearest element."""
    i = i * 3 - 4
    return b.at[i].set(b[i] * x + w), None


def slices(np, w, i, b, x):
    """Parts at fixed places."""
    b = b.at[1:3].set(b[2:4] * x)
    return b.at[0].add(w * b[-1]).at[::3].multiply(x), b[::2]


def kept_too(np, w, i, b, x):
    """The whole array is an output."""
    new = b.at[i % SIZE].set(b[0] * x + w)
    return new, new


def before_and_after(np, w, i, b, x):
    """Whole arrays, from before and from behind a write."""
    new = b.at[i % SIZE].set(np.sum(b * b) * 0.1 + x)
    return new, np.dot(new, np.cos(b)) * w


def triangular(np, w, i, b, x):
    """All that was written counts."""
    return b.at[i % SIZE].set(np.tanh(np.dot(b, np.arange(SIZE) * w) + x)), None


def fading(np, w, i, b, x):
    """The whole array changes, and is read in one place."""
    b = b * 0.9
    return b.at[i % SIZE].set(np.sin(b[i % SIZE - 1]) * x), b[1] * w


def swapped(np, w, i, b, x):
    """Two arrays that change places."""
    a, b = b
    return [b, a.at[i % SIZE].set(np.sin(b[i % SIZE - 1] * w + x))], a[0]


def pointers(np, w, i, b, x):
    """Where to write is read from an array of integers that is written to."""
    p, b = b
    here = p[i % SIZE]
    b = b.at[here].add(np.sin(x * b[here - 1]) * w)
    return [p.at[i % SIZE].set((here + 2) % SIZE).at[0].set(1), b], b[2]


def table(np, w, i, b, x):
    """A row of a table of the row before."""
    i = i % SIZE
    b = b.at[i].set(np.sin(b[i - 1] * w + x))
    return b.at[i, i % 2].multiply(x).at[:, 1].add(w), b[i - 2, 0]


ARRAY = np.cos(np.arange(SIZE) * 1.3)
START = {
    "swapped": [ARRAY, ARRAY * 0.5],
    "pointers": [np.arange(SIZE)[::-1].copy(), ARRAY],
    "table": np.outer(ARRAY, [1.0, -0.5]),
}
BODIES = {
    body.__name__: body
    for body in (
        recurrence,
        read_after,
        masked,
        masked_twice,
        one_branch,
        extremes,
        from_the_end,
        repeated,
        outside,
        slices,
        kept_too,
        before_and_after,
        triangular,
        fading,
        swapped,
        pointers,
        table,
    )
}
LENGTHS = {"numpy": (0, 1, 2, 9), "jax": (0, 9)}


def start(case):
    return START.get(case, ARRAY)


def leaves(part):
    if isinstance(part, (list, tuple)):
        return [leaf for item in part for leaf in leaves(item)]
    return [] if part is None else [part]


def loop(np, scan, case, w, first, xs, **options):
    """A loop over the rows, and a number that depends on all that comes out."""

    def step(carry, x):
        after, out = BODIES[case](np, w, carry[0], carry[1], x)
        return (carry[0] + 1, after), out

    (_, ends), out = scan(step, (0, first), xs, **options)
    found = [v for v in leaves([ends, out]) if v.dtype.kind == "f"]
    return sum(np.sum(np.sin(v * (k + 1.5))) for k, v in enumerate(found))


def theirs(case, w, first, xs, **options):
    return loop(jnp, jax.lax.scan, case, w, first, xs, **options)


class Ours:
    """The loop by graphc, its inputs, and those that gradients are of."""

    def __init__(self, case, dtype="float64", **options):
        given = [np.asarray(v) for v in leaves(start(case))]
        self.w = gt.scalar("w", dtype)
        self.xs = gt.vector("xs", dtype)
        kinds = [dtype if v.dtype.kind == "f" else str(v.dtype) for v in given]
        pairs = zip(given, kinds, strict=True)
        first = [gt.tensor("first", kind, v.shape) for v, kind in pairs]
        self.inputs = [self.w, self.xs, *first]
        self.wrt = [v for v in self.inputs if v.dtype.kind == "f"]
        whole = first if isinstance(start(case), list) else first[0]
        self.cost = loop(gt, gt.scan, case, self.w, whole, self.xs, **options)



def arguments(case, n, dtype="float64"):
    """A parameter, rows, and what is carried first."""
    rows = np.sin(np.arange(n) * 2.1 + 0.3) * 1.2
    values = [np.asarray(0.7), rows, *map(np.asarray, leaves(start(case)))]
    return [v.astype(dtype) if v.dtype.kind == "f" else v for v in values]


def expected(case, given, **options):
    """The cost and its gradients by JAX."""
    places = [i for i, v in enumerate(given) if v.dtype.kind == "f"]

    def cost(*values):
        whole = list(given)
        for i, v in zip(places, values, strict=True):
            whole[i] = v
        w, xs, *first = map(jnp.asarray, whole)
        parts = first if isinstance(start(case), list) else first[0]
        return theirs(case, w, parts, xs, **options)

    wrt = tuple(range(len(places)))
    value, slopes = jax.value_and_grad(cost, wrt)(*(given[i] for i in places))
    return [value, *slopes]


def close(found, wanted, rtol=1e-9):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("case", BODIES)
def test_gradients_are_those_of_jax(case):
    ours = Ours(case)
    outputs = [ours.cost, *graphc.grad(ours.cost, ours.wrt)]
    functions = {
        backend: graphc.function(ours.inputs, outputs, backend=backend)
        for backend in BACKENDS
    }
    for n in (0, 1, 2, 9):
        given = arguments(case, n)
        wanted = expected(case, given)
        for backend, f in functions.items():
            if n in LENGTHS[backend]:
                close(f(*given), wanted)
