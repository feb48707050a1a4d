"""Gradients of loops that write arrays by index: they are right and take linear time.

Values are compared with `jax.grad` of `jax.lax.scan` with the same bodies.
"""

import functools
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt

pytestmark = pytest.mark.usefixtures("wide")
AT_LENGTH = "GRAPHC_EXAMPLES" in os.environ
BACKENDS = ("numpy", "jax")
SIZE = 6  # of the carried array


# Bodies for graphc and for JAX: functions of a namespace, a parameter, the number of
# the step, the carry and a row, which return the new carry and an output.


def recurrence(np, w, i, b, x):
    """Each element is computed from those before it."""
    return b.at[i % SIZE].set(np.sin(b[i % SIZE - 1] * w + b[i % SIZE - 2] * x)), None


def read_after(np, w, i, b, x):
    """Reads between writes, in the place just written and in another."""
    i = i % SIZE
    b = b.at[i].set(x * w)
    seen = b[i] * b[i - 1]
    b = b.at[i - 2].add(seen)
    return b.at[i - 1].multiply(w), seen + b[i - 2]


def masked(np, w, i, b, x):
    """Some steps write, others do not."""
    new = b.at[i % SIZE].set(np.sin(b[i % SIZE - 1] * w + x))
    return np.where(x > 0, new, b), None


def masked_twice(np, w, i, b, x):
    """Nested masks around several writes, one of them with its branches swapped."""
    new = b.at[i % SIZE].add(x * w).at[0].multiply(w)
    new = np.where(x > 0.5, new, b).at[i % 2].set(b[3] * x)
    return np.where(x < -0.5, b, new), new[1]


def one_branch(np, w, i, b, x):
    """The branch that does not write gives another array."""
    return np.where(x > 0, b.at[i % SIZE].set(x * x), b * w), None


def extremes(np, w, i, b, x):
    """Writes that take minima and maxima."""
    b = b.at[i % SIZE].min(x * w)
    return b.at[(i + 1) % SIZE].max(np.sin(x)), b[0]


def from_the_end(np, w, i, b, x):
    """Negative indices in writes and reads."""
    return b.at[-1 - i % SIZE].set(b[-SIZE + i % 3] * x + w), b[-2]


def repeated(np, w, i, b, x):
    """One index occurs several times and counts each time."""
    places = i % 3 + np.array([0, 2, 0])
    return b.at[places].add(np.sin(b[places] * x) * w), None


def outside(np, w, i, b, x):
    """Writes out of bounds are dropped; reads take the nearest element."""
    i = i * 3 - 4
    return b.at[i].set(b[i] * x + w), None


def slices(np, w, i, b, x):
    """Reads and writes of parts at fixed places."""
    b = b.at[1:3].set(b[2:4] * x)
    return b.at[0].add(w * b[-1]).at[::3].multiply(x), b[::2]


def kept_too(np, w, i, b, x):
    """The whole array is an output, too."""
    new = b.at[i % SIZE].set(b[0] * x + w)
    return new, new


def before_and_after(np, w, i, b, x):
    """Whole arrays are read, from before and after a write."""
    new = b.at[i % SIZE].set(np.sum(b * b) * 0.1 + x)
    return new, np.dot(new, np.cos(b)) * w


def triangular(np, w, i, b, x):
    """A step reads everything that was written before."""
    return b.at[i % SIZE].set(np.tanh(np.dot(b, np.arange(SIZE) * w) + x)), None


def fading(np, w, i, b, x):
    """The whole array changes, and one place of it is read."""
    b = b * 0.9
    return b.at[i % SIZE].set(np.sin(b[i % SIZE - 1]) * x), b[1] * w


def swapped(np, w, i, b, x):
    """Two arrays that change places."""
    a, b = b
    return [b, a.at[i % SIZE].set(np.sin(b[i % SIZE - 1] * w + x))], a[0]


def pointers(np, w, i, b, x):
    """The place to write is read from an integer array that is also written."""
    p, b = b
    here = p[i % SIZE]
    b = b.at[here].add(np.sin(x * b[here - 1]) * w)
    return [p.at[i % SIZE].set((here + 2) % SIZE).at[0].set(1), b], b[2]


def table(np, w, i, b, x):
    """A row of a table is computed from the row before."""
    i = i % SIZE
    b = b.at[i].set(np.sin(b[i - 1] * w + x))
    return b.at[i, i % 2].multiply(x).at[:, 1].add(w), b[i - 2, 0]


def windows(np, w, i, b, x):
    """Slices of constant length whose start is data."""
    i = i % 3
    if np is gt:
        b = b.at[i + 1 : i + 3].set(b[i : i + 2] * x)
        return b.at[2 * i : 2 * i + 2].add(w), np.sum(b[i + 2 : i + 4] ** 2)
    part, put = jax.lax.dynamic_slice_in_dim, jax.lax.dynamic_update_slice_in_dim
    b = put(b, part(b, i, 2) * x, i + 1, 0)
    found = np.sum(part(b, i + 2, 2) ** 2)
    return put(b, part(b, 2 * i, 2) + w, 2 * i, 0), found


def parts_of_rows(np, w, i, b, x):
    """A slice of a row, and a list of places."""
    i = i % SIZE
    b = b.at[i, 1:].set(np.sin(b[i - 1, :2] * w + x))
    return b.at[i, np.array([2, 0])].add(x * w), b[i, 1]


ARRAY = np.cos(np.arange(SIZE) * 1.3)
START = {
    "swapped": [ARRAY, ARRAY * 0.5],
    "pointers": [np.arange(SIZE)[::-1].copy(), ARRAY],
    "table": np.outer(ARRAY, [1.0, -0.5]),
    "parts_of_rows": np.outer(ARRAY, [1.0, -0.5, 0.3]),
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
        windows,
        parts_of_rows,
    )
}
OFTEN = ("recurrence", "masked_twice", "read_after", "table")


def start(case):
    return START.get(case, ARRAY)


def leaves(part):
    if isinstance(part, (list, tuple)):
        return [leaf for item in part for leaf in leaves(item)]
    return [] if part is None else [part]


def loop(np, scan, case, w, first, xs, **options):
    """A number that depends on all results of a loop over the rows."""

    def step(carry, x):
        after, out = BODIES[case](np, w, carry[0], carry[1], x)
        return (carry[0] + 1, after), out

    (_, ends), out = scan(step, (0, first), xs, **options)
    found = [v for v in leaves([ends, out]) if v.dtype.kind == "f"]
    return sum(np.sum(np.sin(v * (k + 1.5))) for k, v in enumerate(found))


def theirs(case, w, first, xs, **options):
    return loop(jnp, jax.lax.scan, case, w, first, xs, **options)


class Ours:
    """The loop in graphc, its inputs, and the inputs to differentiate in."""

    def __init__(self, case, dtype="float64", **options):
        given = [np.asarray(v) for v in leaves(start(case))]
        self.w = gt.scalar("w", dtype)
        self.xs = gt.vector("xs", dtype)
        kinds = [dtype if v.dtype.kind == "f" else str(v.dtype) for v in given]
        pairs = zip(given, kinds, strict=True)
        # A symbolic size may be large: if it is known to be small, all is kept.
        first = [gt.tensor("first", kind, ("m", *v.shape[1:])) for v, kind in pairs]
        self.inputs = [self.w, self.xs, *first]
        self.wrt = [v for v in self.inputs if v.dtype.kind == "f"]
        whole = first if isinstance(start(case), list) else first[0]
        self.cost = loop(gt, gt.scan, case, self.w, whole, self.xs, **options)


def arguments(case, n, dtype="float64"):
    """A parameter, rows, and the init."""
    rows = np.sin(np.arange(n) * 2.1 + 0.3) * 1.2
    values = [np.asarray(0.7), rows, *map(np.asarray, leaves(start(case)))]
    return [v.astype(dtype) if v.dtype.kind == "f" else v for v in values]


@functools.cache
def gradients(case, places, reverse):
    """JAX's function of all arguments: the cost, and its gradients in some of them."""

    def cost(w, xs, *first):
        parts = list(first) if isinstance(start(case), list) else first[0]
        return theirs(case, w, xs=xs, first=parts, reverse=reverse)

    return jax.jit(jax.value_and_grad(cost, places))


def expected(case, given, reverse=False):
    """The cost and its gradients, computed by JAX."""
    places = tuple(i for i, v in enumerate(given) if v.dtype.kind == "f")
    with jax.disable_jit(0 < len(given[1]) < 5):  # a few steps run faster op by op
        value, slopes = gradients(case, places, reverse)(*map(jnp.asarray, given))
    return [value, *slopes]


def close(found, wanted, rtol=1e-9):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("case", BODIES)
def test_gradients_are_those_of_jax(case):
    ours = Ours(case)
    outputs = [ours.cost, *graphc.grad(ours.cost, ours.wrt)]
    functions = {
        backend: graphc.function(ours.inputs, outputs, backend=backend)
        for backend in BACKENDS
    }
    for n in (0, 1, 2, 9) if case in OFTEN else (9,):
        given = arguments(case, n)
        wanted = expected(case, given)
        for backend, f in functions.items():
            if AT_LENGTH or backend == "numpy" or n == 9:  # each size is compiled
                close(f(*given), wanted)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("case", OFTEN)
def test_backwards(case):
    ours = Ours(case, reverse=True)
    given = arguments(case, 7)
    outputs = [ours.cost, *graphc.grad(ours.cost, ours.wrt)]
    f = graphc.function(ours.inputs, outputs, backend="numpy")
    close(f(*given), expected(case, given, reverse=True))


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("backend", BACKENDS)
def test_short_floats(backend):
    ours = Ours("recurrence", "float32")
    given = arguments("recurrence", 7, "float32")
    outputs = [ours.cost, *graphc.grad(ours.cost, ours.wrt)]
    f = graphc.function(ours.inputs, outputs, backend=backend)
    close(f(*given), expected("recurrence", given), 1e-4)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(
    ("case", "backend"),
    [(case, "numpy") for case in (*OFTEN, "triangular", "repeated", "windows")]
    + [("recurrence", "jax"), ("triangular", "jax")],  # it compiles for long
)
def test_second_derivatives(case, backend):
    ours = Ours(case)
    given = arguments(case, 9)  # JAX has compiled for these sizes above
    along = [gt.cos(v * 3) for v in ours.wrt]
    f = graphc.function(
        ours.inputs, graphc.hvp(ours.cost, ours.wrt, along), backend=backend
    )
    step = 1e-5

    def slope(sign):
        moved = [v + sign * step * np.cos(v * 3) for v in given]
        return expected(case, moved)[1:]

    pairs = zip(slope(1), slope(-1), strict=True)
    close(f(*given), [(a - b) / (2 * step) for a, b in pairs], 1e-7)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("case", ["recurrence", "masked", "read_after", "windows"])
def test_many_at_once(case):
    many = gt.matrix("many", "float64")
    w, first = gt.scalar("w", "float64"), gt.vector("first", "float64")
    loss = gt.sum(
        graphc.vmap(lambda xs: loop(gt, gt.scan, case, w, first * xs[0], xs))(many)
    )
    outputs = [loss, *graphc.grad(loss, [w, many, first])]
    xs = np.sin(np.arange(15.0)).reshape(3, 5) + 0.1

    def cost(w, many, first):
        return jnp.sum(jax.vmap(lambda xs: theirs(case, w, first * xs[0], xs))(many))

    value, slopes = jax.jit(jax.value_and_grad(cost, (0, 1, 2)))(0.7, xs, ARRAY)
    for backend in BACKENDS:
        f = graphc.function([w, first, many], outputs, backend=backend)
        found = [np.asarray(v, np.float64) for v in f(np.float64(0.7), ARRAY, xs)]
        close(found, [value, *slopes])


def alignment(np, scan, w, xs, ys):
    """Two nested loops over a table; each element depends on three earlier ones."""
    first = np.zeros((xs.shape[0] + 1, 4), xs.dtype)

    def row(carry, x):
        i, table = carry

        def cell(inner, y):
            j, table = inner
            best = np.logaddexp(table[i, j + 1] - w, table[i + 1, j])
            best = np.logaddexp(best, table[i, j] + x * y)
            return (j + 1, table.at[i + 1, j + 1].set(best)), None

        (_, table), _ = scan(cell, (0, table), ys)
        return (i + 1, table), None

    (_, table), _ = scan(row, (0, first), xs)
    return np.sum(np.sin(table))


@pytest.mark.usefixtures("compiled_quickly")
def test_nested_loops_that_fill_a_table():
    w = gt.scalar("w", "float64")
    xs, ys = gt.vector("xs", "float64"), gt.vector("ys", "float64")
    wrt = [w, xs, ys]
    cost = alignment(gt, gt.scan, w, xs, gt.specify_shape(ys, (3,)))
    outputs = [cost, *graphc.grad(cost, wrt)]
    given = [np.float64(0.7), np.cos(np.arange(5.0)), np.sin(np.arange(3.0))]
    by_jax = jax.value_and_grad(lambda *v: alignment(jnp, jax.lax.scan, *v), (0, 1, 2))
    value, slopes = jax.jit(by_jax)(*given)
    for backend in BACKENDS:
        f = graphc.function(wrt, outputs, backend=backend)
        close(f(*given), [value, *slopes])


# XLA's executables: memory is linear, and no step copies a whole array.


def filling(step):
    """The sum of an array that `step` fills, and of the outputs of `step`."""

    def cost(w, xs):
        def body(c, x):
            b, out = step(gt, w, c[0], c[1], x)
            return (c[0] + 1, b), out

        (_, b), out = gt.scan(body, (0, gt.zeros(xs.shape, "float32")), xs)
        return gt.sum(b) if out is None else gt.sum(b) + gt.sum(out)

    return cost


def up_to_a_bound(w, xs):
    """A loop of unknown length that fills an array."""

    def step(c):
        i, b = c
        return i + 1, b.at[i].set(gt.sin(b[i - 1] * w + xs[i]))

    start = (0, gt.zeros(xs.shape, "float32"))
    _, b = gt.while_loop(lambda c: gt.sum(c[0]) < 9, step, start, max_steps=xs.shape[0])
    return gt.sum(b)


def looked_up(w, xs):
    """A loop that reads a captured array by index."""

    def step(i, c):
        return gt.sin(c * w + xs[i] * xs[-1 - i])

    return gt.fori_loop(0, xs.shape[0], step, gt.zeros((), "float32"))


def step_by_two(np, w, i, b, x):
    b = b.at[i].set(np.sin(b[i - 1] * w + b[i - 2] * x))
    return b, None


def step_with_reads(np, w, i, b, x):
    b = b.at[i].set(np.sin(x * w))
    return b.at[i].add(b[i] * b[i - 1]), b[i - 2]


def step_sometimes(np, w, i, b, x):
    return np.where(x > 0, b.at[i].set(np.sin(b[i - 1] * w + x)), b), None


def step_in_a_slice(np, w, i, b, x):
    i = gt.minimum(i, b.shape[0] - 4)
    return b.at[i : i + 2].set(gt.sin(b[i + 2 : i + 4] * w + x)), None


def step_over_all(np, w, i, b, x):
    return b.at[i].set(np.tanh(np.dot(b, b) * w + x)), None


def aligned(w, xs):
    """The nested loops of `alignment`."""
    ys = gt.cos(gt.arange(3, dtype="float32"))
    return alignment(gt, gt.scan, w, xs, ys)


FILLED = {
    "two before": filling(step_by_two),
    "reads between": filling(step_with_reads),
    "masked": filling(step_sometimes),
    "slices": filling(step_in_a_slice),
    "bounded": up_to_a_bound,
    "looked up": looked_up,
    "nested": aligned,
}


def run(cost, n, order=1):
    """Run a cost and its gradient for `n` rows."""
    w, xs = gt.scalar("w", "float32"), gt.vector("xs", "float32")
    loss = cost(w, xs)
    wrt = [w, xs]
    along = [gt.ones_like(v) for v in wrt]
    slopes = graphc.grad(loss, wrt) if order == 1 else graphc.hvp(loss, wrt, along)
    f = graphc.function(wrt, [loss, *slopes], dims="specialize")
    f(np.float32(0.7), np.ones(n, "float32"))


def copies_in_loops(program, n):
    """The lines where a step copies an array of `n` or more elements."""
    found, outside = [], False
    for line in program.as_text().splitlines():
        if not line.startswith(" "):
            outside = line.startswith("ENTRY")
        copied = re.search(r"= f32\[([\d,]+)\]\S* copy\(", line)
        if copied and not outside:
            size = np.prod([int(m) for m in copied.group(1).split(",")])
            found += [line] if size >= n else []
    return found


def is_linear(programs, cost, order=1, in_place=True):
    """Check that memory is that of few arrays of rows, and that no step copies one."""
    n = 600
    run(cost, n, order)
    used = sum(p.memory_analysis().temp_size_in_bytes for p in programs)
    if in_place:
        assert not any(copies_in_loops(program, n) for program in programs)
    flags = n * n  # bytes for n elements per step
    assert 0 < used < flags / 4


@pytest.mark.parametrize("case", FILLED)
def test_memory_is_linear_and_writes_are_in_place(case, programs):
    is_linear(programs, FILLED[case])


def test_memory_is_linear_where_all_that_was_written_counts(programs):
    is_linear(programs, filling(step_over_all), in_place=False)


def test_second_derivatives_are_linear_too(programs):
    is_linear(programs, FILLED["two before"], order=2)


CHECKPOINTS = [1, 2, 3, 10, "sqrt", "all"]


def checkpointed(checkpoint, reverse=False, **options):
    """A loop with stacked outputs, a weight and sequences, and its gradients."""
    w, xs = gt.scalar("w", "float64"), gt.matrix("xs", "float64")
    first = gt.zeros(xs.shape[1:], "float64")

    def step(h, x):
        h = gt.tanh(0.9 * h + w * x)
        return h, gt.sum(h * h)

    h, out = gt.scan(step, first, xs, reverse=reverse, checkpoint=checkpoint, **options)
    cost = gt.sum(gt.sin(h)) + gt.sum(out * gt.cos(gt.arange(xs.shape[0])))
    return [w, xs], [cost, out, *graphc.grad(cost, [w, xs])]


# NumPy runs all of them in both directions; JAX runs each once, in one direction.
DIRECTIONS = [(c, reverse, "numpy") for c in CHECKPOINTS for reverse in (False, True)]
DIRECTIONS += [
    (c, reverse, "jax")
    for i, c in enumerate(CHECKPOINTS)
    for reverse in (False, True)
    if AT_LENGTH or reverse == bool(i % 2)
]


def few_rows(n):
    return np.float64(0.7), np.cos(np.arange(n * 2.0)).reshape(n, 2)


@functools.cache
def without_checkpoints(reverse):
    """A loop that keeps everything that its gradient reads."""
    made = checkpointed(None, reverse)
    return graphc.function(*made, backend="numpy", dims="specialize")


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize(("checkpoint", "reverse", "backend"), DIRECTIONS)
def test_checkpoints_change_no_value(checkpoint, reverse, backend):
    made = checkpointed(checkpoint, reverse)
    found = graphc.function(*made, backend=backend, dims="specialize")
    for n in (0, 1, 2, 9) if backend == "numpy" else (7,):
        given = few_rows(n)
        close(found(*given), without_checkpoints(reverse)(*given))


@pytest.mark.parametrize(
    "options",
    [{}, {"until": lambda h, y: y > 1e9}, {"unroll": 4}],
    ids=["all", "until", "unrolled"],
)
def test_the_root_of_a_padded_length_is_padded_beside_it(options):
    padded = graphc.function(*checkpointed("sqrt", **options), dims="pad")
    for n in (3, 9, 0, 14):
        close(padded(*few_rows(n)), without_checkpoints(False)(*few_rows(n)))
    assert len(padded.stats().compilations) == 1


def test_checkpoints_of_a_length_that_is_a_number():
    for n in (0, 1, 12, 13):
        outputs = []
        for checkpoint in (None, "sqrt", 5):
            w = gt.scalar("w", "float64")

            def step(i, c, w=w):
                return gt.sin(c * w + i)

            c = gt.fori_loop(0, n, step, gt.ones(2, "float64"), checkpoint=checkpoint)
            cost = gt.sum(c)
            wrt = graphc.grad(cost, w, disconnected="zero")
            outputs.append(graphc.function([w], [cost, wrt], backend="numpy")(0.7))
        for found in outputs[1:]:
            close(found, outputs[0], 1e-6)


def test_checkpoints_save_memory(programs):
    used = {}
    for checkpoint in (None, 32, "sqrt"):
        programs.clear()
        w = gt.matrix("w", "float32")

        def step(i, h, w=w):
            return gt.tanh(h @ w)

        h = gt.fori_loop(0, 1024, step, gt.ones(w.shape[:1]), checkpoint=checkpoint)
        f = graphc.function([w], graphc.grad(gt.sum(h), w), dims="specialize")
        f(np.eye(16, dtype="float32"))
        used[checkpoint] = sum(p.memory_analysis().temp_size_in_bytes for p in programs)
    assert used[None] > 1024 * 16 * 4
    assert used["sqrt"] < 0.2 * used[None]
    assert used[32] < 0.2 * used[None]


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("checkpoint", [2, "sqrt"])
def test_checkpoints_of_arrays_written_by_index(checkpoint):
    plain = Ours("recurrence")
    ours = Ours("recurrence", checkpoint=checkpoint)
    given = arguments("recurrence", 7)
    found = [
        graphc.function(
            one.inputs, [one.cost, *graphc.grad(one.cost, one.wrt)], backend="numpy"
        )(*given)
        for one in (ours, plain)
    ]
    close(*found)
