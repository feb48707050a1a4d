"""A change outside of a function is seen by the next call at a new size."""

import dataclasses
import functools
from collections import deque
from contextvars import ContextVar
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.importers.jax.trace.captures import Snapshot
from tests.importers.jax.comparing import by_turns, same

W = np.ones(3, "float32")
LARGE = np.ones(100, "float32")


class Model:
    def __init__(self):
        self.weights = W
        self.parts = {"bias": [LARGE]}

    def __call__(self, x):
        return x.sum() + self.weights.sum() + self.parts["bias"][0].sum()


def host(x):
    return x.sum() + (W * 2).sum()


def traced(x):
    return (x[:1] * LARGE).sum() + (x[0] * W).sum()


def of_numpy(x):
    return np.sum(x[:1] * LARGE) + np.sum(W)


def weighted(w, x):
    return x.sum() + w.sum()


def closed(w):
    return lambda x: x.sum() + w.sum()


MODEL = Model()
FUNCTIONS = {
    "host": host,
    "traced": traced,
    "helper": lambda x: host(x),
    "object": MODEL,
    "named object": lambda x: MODEL(x),
    "method": MODEL.__call__,
    "partial": functools.partial(weighted, LARGE),
    "closure": closed(W),
    "default": lambda x, w=LARGE: weighted(w, x),
    "inner jit": lambda x: jax.jit(traced)(x),
    "grad": jax.grad(lambda x: (x * W.sum()).sum()),
    "graphc.grad": graphc.grad(lambda x: (x * LARGE.sum()).sum()),
}


def calls(function):
    """The results of calls, with writes to arrays between some of them."""
    W[:], LARGE[:] = 1, 1
    found = []
    for n in (3, 4, 5, "write", 4, 6, "write", 3, 6, 8):
        if n == "write":
            W[:], LARGE[:] = W + 1, LARGE + 2
            continue
        found.append(np.ravel(function(np.ones(n, "float32")))[0])
    return found


@pytest.mark.parametrize(("name", "dims"), by_turns(FUNCTIONS))
def test_as_jax_sees_them(name, dims):
    ours = graphc.jit(FUNCTIONS[name], dims=dims)
    assert calls(ours) == calls(jax.jit(lambda x: FUNCTIONS[name](x)))
    assert ours.stats().fallbacks == []


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_in_functions_of_numpy(backend):
    ours = graphc.jit(of_numpy, frontend="numpy", backend=backend)
    assert calls(ours) == calls(jax.jit(lambda x: jnp.asarray(of_numpy(x))))


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_programs_from_before_a_change_are_told_from_the_new_one(frontend):
    scale = [2.0]
    ours = graphc.jit(lambda x: x.sum() * scale[0], frontend=frontend)
    for size in (2, 3, 4):
        ours(np.ones(size))
    scale[0] = 3.0
    assert ours(np.ones(5)) == 15
    before, old, new = ours.explain().split("compiled for all sizes of x (n,):\n")
    since = "  made before values that the function captures have changed\n"
    compared = "  each new size is traced and compared\n  so far for n = 3; n = 4\n"
    assert old.startswith(since + compared)
    assert "changed" not in before + new


@pytest.mark.usefixtures("without_audit")
def test_nothing_is_traced_again_where_nothing_is_written():
    times = []

    def counted(x):
        times.append(x.shape)
        return x.sum() + W.sum()

    ours = graphc.jit(counted)
    for n in range(3, 20):
        ours(np.ones(n))
    assert len(times) == 4


FACTOR = 1.0


NUMBER = ContextVar("NUMBER", default=1.0)


@dataclasses.dataclass(slots=True)
class Slotted:
    by: float = 1.0


class Items(dict):
    pass


class Scaled:
    by = 1.0

    def __init__(self):
        self.parts = {"by": [1.0], "how": jnp.sin, "array": jnp.ones(2)}

    def __call__(self, x):
        return jnp.sum(x) * self.by

    @property
    def twice(self):
        return FACTOR * 2


def changing(scaled):
    """For each way to read a number: a function, and how to change the number."""

    def closed(x):
        return jnp.sum(x) * number

    def change_number(new):
        nonlocal number
        number = new

    def change(**parts):
        scaled.parts.update(parts)

    def by_keyword(x, *, by=1.0):
        return x[0] * by

    number, slotted, items, recent = 1.0, Slotted(), Items(), deque([1.0], maxlen=1)
    items.by = 1.0
    return {
        "number": (closed, change_number),
        "slot": (lambda x: x[0] * slotted.by, lambda n: setattr(slotted, "by", n)),
        "variable of a context": (lambda x: x[0] * NUMBER.get(), NUMBER.set),
        "field beside items": (
            lambda x: x[0] * items.by,
            lambda n: setattr(items, "by", n),
        ),
        "queue": (lambda x: x[0] * recent[0], recent.append),
        "keyword": (by_keyword, lambda n: by_keyword.__kwdefaults__.update(by=n)),
        "global": (lambda x: jnp.sum(x) * FACTOR, lambda n: globals().update(FACTOR=n)),
        "property": (
            lambda x: scaled.twice * x[0],
            lambda n: globals().update(FACTOR=n),
        ),
        "attribute": (scaled, lambda n: setattr(scaled, "by", n)),
        "class": (lambda x: Scaled()(x), lambda n: setattr(Scaled, "by", n)),
        "item": (lambda x: x[0] * scaled.parts["by"][0], lambda n: change(by=[n])),
        "sign": (
            lambda x: x[0] / scaled.parts["by"][0],
            lambda n: change(by=[0.0 * (2.5 - n)]),
        ),
        "type": (
            lambda x: x[0] // 1 * scaled.parts["by"][0],
            lambda n: change(by=[int(n)]),
        ),
        "function": (
            lambda x: scaled.parts["how"](x)[0],
            lambda n: change(how=jnp.cos if n == 2 else jnp.tan),
        ),
        "array": (
            lambda x: x[0] * scaled.parts["array"].sum(),
            lambda n: change(array=jnp.ones(2) * n),
        ),
    }


@pytest.mark.parametrize("what", changing(None))
def test_as_jax_sees_names(what, monkeypatch):
    monkeypatch.setattr(Scaled, "by", 1.0)
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    function, change = changing(Scaled())[what]
    # The lambda is new, since JAX keeps a trace for each function and dtype.
    ours, exact = graphc.jit(function), jax.jit(lambda x: function(x))
    for n, new in (
        (3, 1.0),
        (4, 1.0),
        (5, 2.0),
        (4, 3.0),
        (7, 3.0),
        (8, 2.0),
    ):
        change(new)
        same(ours(np.arange(1, n)), exact(np.arange(1, n)))
    assert ours.stats().fallbacks == []


def test_static_owners_change():
    class Model:
        training = True

        def call(self, x):
            return jnp.where(self.training, x * 2, x)

    Model.call, model = graphc.jit(Model.call, static_argnums=0), Model()
    for n, training in ((3, True), (4, True), (5, False), (6, True)):
        model.training = training
        assert model.call(np.ones(n, "float32"))[0] == 1 + training


@pytest.mark.usefixtures("without_audit")
@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_nothing_is_compiled_for_what_is_not_read(frontend):
    class Model:
        steps = 0

        def __call__(self, x):
            return (jnp if frontend == "jax" else np).sum(x) * 2

    model = Model()
    ours = graphc.jit(model, frontend=frontend, dims="pad")
    for n in range(3, 16):
        model.steps += 1
        assert ours(np.ones(n, "float32")) == 2 * n
    assert len(ours.stats().compilations) == 2


def test_what_is_compared():
    assert set(map(id, Snapshot.of(MODEL).arrays)) == {id(W), id(LARGE)}
    assert Snapshot.of(jnp.sin).arrays == () == Snapshot.of(closed(3)).arrays
    fixed = np.ones(3)
    fixed.flags.writeable = False
    assert Snapshot.of(closed(fixed)).arrays == ()
    for made in (np.array([np.nan, 0.0]), np.array(3), np.ones((2, 3)).T, np.ones(0)):
        found = Snapshot.of(closed(made))
        assert found.is_current()
        made[...] = 7
        assert found.is_current() == (made.size == 0)


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_read_only_views_change_with_their_base(frontend):
    base = np.ones(4)
    shown = base.view()
    shown.flags.writeable = False
    for view in (shown[1:], np.broadcast_to(base, (2, 4))):
        base[:] = 1
        ours = graphc.jit(closed(view), frontend=frontend)
        assert [ours(np.ones(n)) - n for n in (2, 3, 4)] == [view.size] * 3
        base[:] = 2
        assert ours(np.ones(5)) == 2 * view.size + 5


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("root", [lambda n: 1.0, lambda n: np.sqrt(float(n))])
def test_captured_arrays_may_be_donated_elsewhere(count, root):
    step = jax.jit(lambda w: w + 1, donate_argnums=0)
    weights = [jnp.ones(count)]
    ours = graphc.jit(lambda x: x.sum() * weights[0].sum() * root(x.shape[0]))
    for new, n in enumerate((4, 9, 16, 25, 36, 49), 1):
        np.testing.assert_allclose(ours(np.ones(n)), n * count * new * root(n))
        weights[0] = step(weights[0])


def test_a_module_that_python_does_not_list():
    settings = ModuleType("settings_of_a_user")
    text = "BY = 1\nclass Scaled:\n    def __call__(self, x): return x * BY"
    exec(text, vars(settings))
    scaled = settings.Scaled()
    ours = graphc.jit(lambda x: scaled(x).sum() * settings.BY)
    assert [ours(np.ones(n)) for n in (2, 3, 4)] == [2, 3, 4]
    settings.BY = 2
    assert ours(np.ones(5)) == 20


def test_donation_is_told_once_where_sizes_vary():
    def step(x, y):
        return x + y

    ours = graphc.jit(step, donate_argnums=0)
    given = jnp.ones(3)
    ours(given, jnp.ones(3))
    assert given.is_deleted()
    with pytest.warns(graphc.FallbackWarning, match="does not donate") as warned:
        for n in (4, 5, 6):
            given = jnp.ones(n)
            np.testing.assert_array_equal(ours(given, jnp.ones(n)), 2 * np.ones(n))
            assert not given.is_deleted()
    assert len(warned) == 1 and warned[0].filename == __file__
    assert ours.stats().fallbacks == []


class Scale(NamedTuple):
    by: float


@dataclasses.dataclass(frozen=True)
class Scales:
    first: Scale


@pytest.mark.parametrize(
    "equal", [(0.0, -0.0), ((1,), (1.0,)), (Scales(Scale(1)), Scales(Scale(True)))]
)
def test_equal_static_arguments_that_differ(equal):
    def function(x, how):
        leaves = dataclasses.astuple(how)[0] if isinstance(how, Scales) else how
        return x / jnp.ravel(jnp.asarray(leaves))[0], jnp.asarray(leaves) * x[0]

    ours, exact = (jit(function, static_argnums=1) for jit in (graphc.jit, jax.jit))
    for n, i in ((3, 0), (4, 0), (5, 1), (6, 0), (7, 1)):
        x = np.arange(1, n, dtype="int8")
        same(ours(x, equal[i]), exact(x, equal[i]))


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["how"]
)
@dataclasses.dataclass
class Layer:
    x: np.ndarray
    how: dict[str, list[float]]


def layer(how):
    return lambda x: Layer(x, {"scale": [how]})


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
@pytest.mark.parametrize(
    ("holding", "text"),
    [
        ((layer(0.0), layer(-0.0)), lambda tree: str(tree.how)),
        ((lambda x: {1: x}, lambda x: {True: x}), lambda tree: str([*tree])),
    ],
    ids=["static field", "key"],
)
def test_equal_structures_of_arguments_that_differ(holding, text, frontend):
    ours = graphc.jit(
        lambda tree: jax.tree.leaves(tree)[0] + len(text(tree)), frontend=frontend
    )
    for n, i in ((3, 0), (4, 0), (5, 1), (6, 0), (7, 1)):
        tree = holding[i](np.arange(n))
        assert ours(tree)[0] == len(text(tree))
