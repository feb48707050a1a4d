"""Stances that forbid compiling: calls that need it raise before anything compiles."""

import contextlib
import dataclasses
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import NoCompileError
from graphc.testing.plugin import assert_compiles  # noqa: F401

EVENT = "/jax/core/compile/backend_compile_duration"


class Events(list):
    """XLA's compilations, as JAX itself reports them."""

    def __call__(self, event, seconds, fun_name="", **_):
        if event == EVENT:
            self.append(fun_name)


@pytest.fixture
def events():
    found = Events()
    jax.monitoring.register_event_duration_secs_listener(found)
    yield found
    with contextlib.suppress(AttributeError, ValueError):
        jax.monitoring.unregister_event_duration_listener(found)


def without_seconds(function):
    """The compilations of a `graphc.jit` function, without their durations."""
    compilations = function.stats().compilations
    return [dataclasses.replace(one, seconds=0.0) for one in compilations]


def vector(n):
    return np.arange(n, dtype="float32") - 3


def softmax(**how):
    x = gt.tensor("x", "float32", ("n",))
    return graphc.function([x], gt.nn.softmax(x), **how)


def distinct():
    x = gt.tensor("x", "float32", ("n",))
    return graphc.function([x], gt.sum(gt.unique(x[x > 0])), dims="specialize")


def scaled():
    x, s = gt.tensor("x", "float32", ("n",)), gt.tensor("s", "float32", ())
    return graphc.function([x, s], x * s, dims="pad")


def of_jax(x, scale):
    return {"y": jnp.tanh(x["x"]) * scale}


def of_numpy(x):
    return np.unique(x[x > 0]).sum()


SUBJECTS = {
    "exact": (lambda: softmax(dims="specialize"), (vector(7),)),
    "padded": (lambda: softmax(dims="pad"), (vector(20),)),
    "reads": (distinct, (vector(9),)),
    "array of no axis": (scaled, (vector(9), np.float32(2))),
    "jax": (lambda: graphc.jit(of_jax), ({"x": vector(5)}, 2.0)),
    "weak types": (
        lambda: graphc.jit(lambda x, s: x * s, shapes="n, ()"),
        lambda: (jnp.full(16, 2.0), jnp.exp(0.0)),  # as settings say at the run
    ),
    "no finite number": (lambda: graphc.jit(jnp.add), (vector(5), float("-inf"))),
    "a key": (lambda: graphc.jit(jax.random.normal), lambda: (jax.random.key(3),)),
    "keys that are numbers": (
        lambda: graphc.jit(lambda x: x[1] * 2),
        ({1: vector(5)},),
    ),
    "numpy": (lambda: graphc.jit(of_numpy, frontend="numpy"), (vector(6),)),
}


def remedied(f, args):
    """Apply the suggested remedies until a call compiles nothing, and return them."""
    remedies = []
    while len(remedies) < 3:
        before = list(f.stats().compilations)
        try:
            with graphc.stance("no_compile"):
                f(*args)
            return remedies
        except NoCompileError as error:
            assert f.stats().compilations == before
            assert "because" in str(error) and __file__ in str(error)
            assert error.remedy in str(error)
            eval(error.remedy, {"f": f, "jax": jax})
            remedies.append(error.remedy)
    return remedies


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.filterwarnings("ignore::graphc.AheadWarning")
def test_a_remedy_is_typed_back_and_works(name, events):
    make, args = SUBJECTS[name]
    args = args() if callable(args) else args
    events.clear()  # drop those of the arguments
    f, other = make(), make()
    with graphc.stance("no_compile"), pytest.raises(NoCompileError):
        f(*args)
    assert not events
    assert 1 <= len(remedied(f, args)) <= 2
    count = len(f.stats().compilations)
    jax.tree.map(np.testing.assert_array_equal, f(*args), other(*args))
    assert len(f.stats().compilations) == count


@pytest.mark.filterwarnings("ignore::graphc.AheadWarning")
def test_arrays_that_no_type_describes_have_no_remedy_but_a_call():
    with jax.enable_x64(True):
        args = jnp.full(16, 2.0), jnp.exp(0.0)
    f = graphc.jit(lambda x, s: x * s, shapes="n, ()")
    with graphc.stance("no_compile"), pytest.raises(NoCompileError) as caught:
        f(*args)
    assert caught.value.remedy == "" and "hint: call it once" in str(caught.value)
    expected = f(*args)
    with graphc.stance("no_compile"):
        np.testing.assert_array_equal(f(*args), expected)


def test_the_message_names_the_size_the_line_and_the_remedy():
    f = softmax(dims="pad")
    f(vector(5))
    with graphc.stance("no_compile"), pytest.raises(NoCompileError) as caught:
        f(vector(20))
    text = str(caught.value)
    assert "n_capacity changed from 16 to 32, asked for by nn.softmax at " in text
    assert 'hint: f.compile({"n": 20})' in text
    assert "f(vector(20))" in text.splitlines()[-2]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.sizes, again.remedy) == ({"n": 20}, 'f.compile({"n": 20})')


@pytest.mark.parametrize("dims", ["auto", "specialize"])
def test_nothing_is_half_changed_by_a_refusal(dims):
    refused, other = softmax(dims=dims), softmax(dims=dims)
    for n in (4, 9, 30, 31, 70, 9):
        if n != 9:
            with graphc.stance("no_compile"), contextlib.suppress(NoCompileError):
                refused(vector(n))
        np.testing.assert_array_equal(refused(vector(n)), other(vector(n)))
    counts = [len(f.stats().compilations) for f in (refused, other)]
    assert counts[0] == counts[1]
    assert refused.stats().changes == other.stats().changes


def test_nothing_is_half_changed_in_a_function_of_jax():
    refused, other = graphc.jit(jnp.tanh, dims="pad"), graphc.jit(jnp.tanh, dims="pad")
    for n in (4, 1, 9, 30, 31, 70, 9):
        with graphc.stance("no_compile"), contextlib.suppress(NoCompileError):
            refused(vector(n))
        np.testing.assert_array_equal(refused(vector(n)), other(vector(n)))
    assert without_seconds(refused) == without_seconds(other)


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_sizes_of_a_range_compile_nothing(dims, events):
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], [gt.nn.softmax(x), gt.sum(x * x)], dims=dims)
    g = graphc.jit(lambda x: jnp.cumsum(x), shapes="n -> n", dims=dims)
    assert len(f.compile({"n": range(2, 65)})) == 3
    assert len(g.compile(vector(2), sizes={"n": range(2, 65)})) == 3
    events.clear()
    sizes = np.random.default_rng(0).integers(2, 65, 150)
    with graphc.stance("no_compile"):
        for n in sizes:
            x = vector(n)
            given = jax.device_put(x) if n % 2 else x
            f(given)
            np.testing.assert_allclose(g(given), np.cumsum(x), rtol=1e-5)
    assert events == []


def test_a_list_compiles_for_each_of_its_sizes():
    assert len(softmax().compile({"n": [3, 4, 5]})) == 3


def test_stances_are_for_some_functions_and_the_innermost_counts():
    f, g = softmax(), graphc.jit(jnp.tanh)
    with graphc.stance("no_compile", f):
        g(vector(3))
        with pytest.raises(NoCompileError):
            f(vector(3))
        with graphc.stance("default"):
            f(vector(3))
        f(vector(3))
    with graphc.stance("no_compile", g), pytest.raises(NoCompileError):
        g(vector(1))
    f(vector(8))


def test_new_keys_stay_on_numpy():
    f = softmax(tier="auto")
    with graphc.stance("no_compile"):
        for _ in range(3):
            f(vector(4))
    assert f.stats().numpy_calls == 3


def test_an_argument_elsewhere_is_refused_though_nothing_is_traced():
    f = softmax(dims="specialize")
    f(jnp.ones(4))
    there = jax.device_put(jnp.ones(4), jax.devices()[0])
    with graphc.stance("no_compile"), pytest.raises(NoCompileError, match="placement"):
        f(there)
    f(there)
    with graphc.stance("no_compile"):
        f(there)


def test_a_refusal_has_nothing_to_do_with_an_earlier_failure():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.assert_(gt.min(x) > 0, "negative", gt.cumsum(x)))
    f(np.ones(3, "float32"))  # its program stays in use beside the padded one
    f(np.ones(100, "float32"))
    before = len(f.stats().compilations)
    with pytest.raises(graphc.CallError, match="negative"):
        f(-np.ones(3, "float32"))
    there = jax.device_put(jnp.ones(3), jax.devices()[0])
    with graphc.stance("no_compile"), pytest.raises(NoCompileError, match="placement"):
        f(there)
    f(np.ones(3, "float32"))
    assert len(f.stats().compilations) == before


def test_the_fixture_limits_compilations(assert_compiles):  # noqa: F811
    f = softmax(dims="pad")
    with assert_compiles(f, at_most=2):
        for n in (3, 9, 30):
            f(vector(n))
    refused = pytest.raises(AssertionError, match="no more than 1 compilation")
    with refused as caught, assert_compiles(f, at_most=1):
        f(vector(60))
        f(vector(200))
    assert isinstance(caught.value, NoCompileError)
    assert len(f.stats().compilations) == 3
    with graphc.assert_compiles(at_most=0):
        f(vector(61))
        f.compile({"n": 300})


@pytest.mark.parametrize(
    "wrong, told",
    [
        (lambda: graphc.stance("no").__enter__(), "no such stance: 'no'"),
        (lambda: graphc.stance("no_compile", len).__enter__(), "not a function that"),
        (lambda: graphc.assert_compiles(at_most=-1).__enter__(), "at_most is a number"),
    ],
)
def test_what_says_nothing_is_refused(wrong, told):
    with pytest.raises(graphc.GraphError, match=told):
        wrong()


def test_the_environment_says_the_stance_of_a_process(monkeypatch):
    monkeypatch.setenv("GRAPHC_STANCE", "no_compile")
    code = """
import graphc, graphc.tensor as gt
x = gt.tensor("x", "float32", ("n",))
f = graphc.function([x], gt.exp(x), dims="pad")
try:
    f([1.0, 2.0])
except graphc.NoCompileError:
    f.compile({"n": 2})
print(f([0.0, 0.0]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[1. 1.]\n", done.stderr
