"""Scans against jax.lax.scan, and loops and branches against Python's own."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from tests.transform.alike import alike

pytestmark = pytest.mark.usefixtures("wide")
BACKENDS = ("numpy", "jax")
W = np.array([[0.5, -0.25], [0.125, 0.75]])


def tensor(name, *shape, dtype="float64"):
    return gt.tensor(name, dtype, shape)


def values(outputs, given, backend, **options):
    """The values of the outputs for a dict from inputs to arrays."""
    f = graphc.function(list(given), outputs, backend=backend, **options)
    return f(*given.values())


def leaves(part):
    """The leaves of a structure; None has none."""
    if isinstance(part, dict):
        return [leaf for key in sorted(part) for leaf in leaves(part[key])]
    if isinstance(part, (list, tuple)):
        return [leaf for item in part for leaf in leaves(item)]
    return [] if part is None else [part]


def cost_of(found, np):
    """A smooth number that depends on every float."""
    terms = []
    for i, leaf in enumerate(leaves(found)):
        if leaf.dtype.kind in "fc":
            real = leaf if leaf.dtype.kind == "f" else np.real(leaf * (1 + 2j))
            terms.append(np.sum(np.sin(real * (1 + 0.3 * i))))
    return functools.reduce(operator.add, terms)


# Bodies for graphc and for JAX: what they carry, their rows, and one step.


def decay(np, w, c, x):
    c = 0.5 * c + np.sin(x) * w
    return c, c * c


def network(np, w, c, x):
    h = np.tanh(W @ c + x * w)
    return h, np.sum(h)


def several(np, w, c, x):
    a, b = c["speed"], c["place"]
    new = {"speed": a - 0.1 * b * w, "place": b + 0.1 * a * x["force"]}
    return new, (x["mass"] * a, {"place": b})


def ends_only(np, w, c, x):
    return (c[0] * np.cos(x) + w, c[1] + c[0]), None


def rows_only(np, w, c, x):
    return c, x * x * w


def counted(np, w, c, x):
    i, total, odd = c
    total = total + np.where(odd, x, w * x * x) / (i + 1)
    return (i + 1, total, ~odd), (total, i, odd)


def written(np, w, c, x):
    i, buffer = c
    new = buffer.at[i % 3].set(np.sin(buffer[(i + 1) % 3] * w + x))
    return (i + 1, new), new[0]


def complex_turn(np, w, c, x):
    c = c * np.exp(1j * x) + w
    return c, np.abs(c)


def unused(np, w, c, x):
    return c, w * c


ZERO = np.float64(0.25)
CASES = {
    "decay": (decay, ZERO, ()),
    "network": (network, np.array([0.5, -1.0]), (2,)),
    "several": (
        several,
        {"place": ZERO, "speed": ZERO * 4},
        {"force": (), "mass": (2,)},
    ),
    "ends_only": (ends_only, (ZERO, ZERO * 2), ()),
    "rows_only": (rows_only, None, (2, 3)),
    "counted": (counted, (np.int64(0), ZERO, np.bool_(True)), ()),
    "written": (written, (np.int64(0), np.array([0.5, 1.0, 2.0])), ()),
    "complex": (complex_turn, np.complex128(0.5 - 1j), ()),
    "unused": (unused, ZERO, ()),
}


def rows(shapes, n, make):
    """Sequences of `n` rows of these shapes, structured as the shapes are."""
    if isinstance(shapes, dict):
        return {k: make(k, (n, *s)) for k, s in shapes.items()}
    return make("x", (n, *shapes))


def array(name, shape):
    count = int(np.prod(shape))
    return (np.cos(np.arange(count) * 1.7 + len(name)) * 1.2).reshape(shape)


class Scan:
    """A scan by graphc, and the same scan by JAX."""

    def __init__(self, case, reverse=False, n="n"):
        self.body, self.init, self.shapes = CASES[case]
        self.reverse = reverse
        self.w = tensor("w")
        self.xs = rows(self.shapes, n, lambda name, shape: tensor(name, *shape))
        self.first = jax.tree.map(
            lambda v: tensor("first", *v.shape, dtype=str(v.dtype)), self.init
        )
        self.inputs = [self.w, *leaves(self.first), *leaves(self.xs)]
        step = functools.partial(self.body, gt, self.w)
        self.found = gt.scan(step, self.first, self.xs, reverse=reverse)
        self.wrt = [v for v in self.inputs if v.dtype.kind in "fc"]

    def arguments(self, n):
        xs = rows(self.shapes, n, array)
        return [np.float64(1.5), *leaves(self.init), *leaves(xs)]

    def theirs(self, *arguments):
        """The results of JAX for the same arguments."""
        w, *rest = arguments
        tree = jax.tree.structure((self.init, self._like()))
        init, xs = jax.tree.unflatten(tree, rest)
        step = functools.partial(self.body, jnp, w)
        return jax.lax.scan(step, init, xs, reverse=self.reverse)

    def _like(self):
        return rows(self.shapes, 1, array)

    def smooth(self, arguments):
        return tuple(i for i, v in enumerate(arguments) if v.dtype.kind in "fc")

    def cost(self, *arguments):
        return cost_of(self.theirs(*arguments), jnp)


@functools.cache
def expected(case, reverse, n):
    """The results of JAX's scan and the gradient of its cost.

    A scan of one step has no direction. The scan is compiled as a whole, since JAX
    would otherwise compile each op.
    """
    if reverse and n < 2:
        return expected(case, False, n)
    scan = Scan(case, reverse)
    arguments = scan.arguments(n)

    def found(*given):
        places = scan.smooth(arguments)
        return leaves(scan.theirs(*given)), jax.grad(scan.cost, places)(*given)

    values, slopes = jax.jit(found)(*arguments)
    return [*values, *slopes]


LENGTHS = {("numpy", False): (0, 1, 2, 7), ("numpy", True): (0, 1, 7)}
FEW = ("several", "written")  # with any carry, and read in steps


def backends(case):
    """Both for a few cases only, as JAX compiles for long."""
    return BACKENDS if case in FEW else ("numpy",)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_scans_and_their_gradients(case, reverse):
    ours = Scan(case, reverse)
    gradient = graphc.grad(cost_of(ours.found, gt), ours.wrt, disconnected="zero")
    outputs = [*leaves(ours.found), *gradient]
    for backend in backends(case) if reverse else BACKENDS:
        f = graphc.function(ours.inputs, outputs, backend=backend)
        for n in LENGTHS.get((backend, reverse), (7,)):
            alike(f(*ours.arguments(n)), expected(case, reverse, n))


@pytest.mark.parametrize("case", CASES)
def test_scans_of_a_length_that_is_a_number(case):
    ours = Scan(case, n=2)
    gradient = graphc.grad(cost_of(ours.found, gt), ours.wrt, disconnected="zero")
    given = dict(zip(ours.inputs, ours.arguments(2), strict=True))
    found = values([*leaves(ours.found), *gradient], given, "numpy")
    alike(found, expected(case, False, 2))


REAL = [c for c in CASES if c not in ("complex", "unused")]


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("case", REAL)
def test_second_derivatives(case):
    ours = Scan(case)
    cost = cost_of(ours.found, gt)
    arguments = ours.arguments(5)
    places = ours.smooth(arguments)
    along = [np.cos(arguments[i] * 3) for i in places]
    directions = [gt.cos(v * 3) for v in ours.wrt]
    slope = graphc.jvp(cost, ours.wrt, directions)
    curvature = graphc.hvp(cost, ours.wrt, directions)

    def of_smooth(*given):
        whole = list(arguments)
        for i, v in zip(places, given, strict=True):
            whole[i] = v
        return ours.cost(*whole)

    at = tuple(arguments[i] for i in places)
    gradient = jax.grad(of_smooth, tuple(range(len(at))))

    def both(at, along):
        return jax.jvp(of_smooth, at, along)[1], *jax.jvp(gradient, at, along)[1]

    given = dict(zip(ours.inputs, arguments, strict=True))
    known = jax.jit(both)(at, tuple(along))
    for backend in backends(case):
        alike(values([slope, *curvature], given, backend), known, 1e-8, 1e-10)


@pytest.mark.parametrize("loop", ["scan", "while", "few"])
def test_forward_mode_through_recomputed_parts_of_a_step(loop):
    x, rows = gt.scalar("x", "float64"), gt.vector("rows", "float64")

    def derivatives(part):
        if loop == "while":
            y = gt.while_loop(lambda c: c < 3, lambda c: c + 1 + part(c) ** 2, x)
        else:
            few = "sqrt" if loop == "few" else None
            step = lambda c, row: (part(c) * row, part(c + row))
            y = gt.scan(step, x, rows, checkpoint=few)[1].sum()
        return graphc.jvp(y, x, x), graphc.hvp(y, x, x)

    part = lambda v: gt.tanh(v) * gt.sin(v)
    both = [*derivatives(graphc.checkpoint(part)), *derivatives(part)]
    point = {x: np.float64(0.7), rows: np.array([0.5, -2.0, 1.5])}
    slopes = values([*both, gt.sum(rows)], point, "numpy")
    alike(slopes[:2], slopes[2:4])


def test_jacobians_of_recomputed_parts():
    x = gt.vector("x", "float64")
    part = lambda v: gt.sin(v) * gt.sum(v)
    both = [graphc.jacobian(y, x) for y in (graphc.checkpoint(part)(x), part(x))]
    again, once = values(both, {x: np.array([0.5, -2.0, 1.5])}, "numpy")
    alike(again, once)


@pytest.mark.usefixtures("compiled_quickly")
@pytest.mark.parametrize("case", CASES)
def test_vmap_of_scans(case):
    """Only the sequences are mapped; all examples share the init."""
    body, init, shapes = CASES[case]
    ours = Scan(case)
    many = [tensor("many", 3, *v.type.shape) for v in leaves(ours.xs)]

    def one(*xs):
        like = jax.tree.unflatten(jax.tree.structure(ours._like()), xs)
        return leaves(gt.scan(functools.partial(body, gt, ours.w), ours.first, like))

    found = graphc.vmap(one)(*many)
    gradient = graphc.grad(cost_of(found, gt), many)
    given = ours.arguments(4)
    count = len(leaves(ours.init)) + 1
    stacked = [np.stack([v, v * 0.5, v - 1]) for v in given[count:]]

    def theirs(*xs):
        return jax.vmap(lambda *one: leaves(ours.theirs(*given[:count], *one)))(*xs)

    @jax.jit
    def with_slopes(*xs):
        cost = lambda *xs: cost_of(theirs(*xs), jnp)
        return *theirs(*xs), *jax.grad(cost, tuple(range(len(many))))(*xs)

    inputs = [*ours.inputs[:count], *many]
    arguments = dict(zip(inputs, [*given[:count], *stacked], strict=True))
    known = with_slopes(*stacked)
    for backend in backends(case):
        alike(values([*found, *gradient], arguments, backend), known)


def test_vmap_leaves_what_is_the_same_for_all_examples():
    x, w = gt.tensor("x", "float64", ("b", "t", 3)), gt.tensor("w", "float64", (3, 3))
    start = gt.zeros(3, dtype="float64")

    def run(one):
        step = lambda c, row: ([c[0] + 1, gt.tanh(c[1] @ w + row)], c[0])
        return gt.scan(step, [0, start], one)

    (count, last), counts = graphc.vmap(run)(x)
    node = last.node
    while node.primitive.name != "scan":
        node = node.inputs[0].node
    assert any(v is w for v in node.inputs)
    assert [v.type.rank for v in node.outputs[:2]] == [0, 2]
    given = np.random.default_rng(0).normal(size=(2, 4, 3))
    weights = np.eye(3) / 2
    f = graphc.function([x, w], [count, last, counts], backend="numpy")
    found = f(given, weights)
    h = np.zeros((2, 3))
    for t in range(4):
        h = np.tanh(h @ weights + given[:, t])
    np.testing.assert_array_equal(found[0], [4, 4])
    np.testing.assert_allclose(found[1], h)
    np.testing.assert_array_equal(found[2], [range(4)] * 2)


@pytest.mark.parametrize("options", [{}, {"dims": "pad"}])
@pytest.mark.parametrize("backend", BACKENDS)
def test_bodies_that_read_and_write_where_nothing_is(backend, options):
    """Without rows, bodies do not run, though JAX traces them; an update is dropped."""
    x, k = tensor("x", "n"), tensor("k", dtype="int64")
    pi = np.float64(np.pi)

    def tripled(i, y):
        return y.at[i].set(3 * y[i])

    def summed(total, i):
        return total + x[i], x[i]

    outputs = [
        gt.cond(x.shape[0] > 0, lambda: x[k - 1] + gt.take(x, k - 1), lambda: pi),
        gt.fori_loop(0, k, tripled, x),
        *gt.scan(summed, np.float64(0), gt.arange(k)),
        gt.while_loop(lambda s: s[0] < k, lambda s: (s[0] + 1, tripled(*s)), (0, x))[1],
        x.at[k].add(1.0),
    ]
    outputs += graphc.grad(sum(map(gt.sum, outputs)), [x])
    f = graphc.function([x, k], outputs, backend=backend, **options)
    none = np.zeros(0)
    alike(f(none, 0), [pi, none, np.float64(0), none, none, none, none])
    tripled_two, later, slope = np.array([[6.0, 15, 7], [2, 5, 8], [9, 11, 3]])
    expected = [np.float64(10), tripled_two, np.float64(7), np.array([2.0, 5])]
    alike(f(np.array([2.0, 5, 7]), 2), [*expected, tripled_two, later, slope])


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("int8", 200),
        ("uint8", 256),
        ("int32", 2**31),
        ("int8", "int64"),
        ("int8", "uint8"),
        ("int8", "uint64"),
        ("int16", "size"),
    ],
)
def test_a_counter_holds_the_upper_bound(lower, upper):
    first, seen = tensor("a", dtype=lower), []
    if upper == "size":
        upper = tensor("x", "n").shape[0]
    elif isinstance(upper, str):
        upper = tensor("b", dtype=upper)

    def body(i, c):
        seen.append(i.dtype)
        return c + i.astype("int64")

    gt.fori_loop(first, upper, body, np.int64(0))
    assert np.iinfo(seen[-1]).max > np.iinfo(lower).max
    gt.fori_loop(first, 100, body, np.int64(0))
    assert seen[-1] == lower


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_narrow_counter_does_not_wrap_around(backend):
    start, x = tensor("start", dtype="int8"), tensor("x", "n")

    def total(lower, upper):
        return gt.fori_loop(lower, upper, lambda i, c: c + i.astype("int64"), 0)

    outputs = [total(np.int8(0), 200), total(start, x.shape[0]), total(start, 200)]
    found = values(outputs, {start: np.int8(3), x: np.zeros(150)}, backend)
    assert [int(v) for v in found] == [19900, sum(range(3, 150)), 19900 - 3]
