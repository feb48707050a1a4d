"""JAX dispatches calls in C++: none of our Python runs, and nothing is missed."""

import gc
import itertools
import sys
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc_serving import private_jax

pytestmark = pytest.mark.usefixtures("compiled_quickly")
X = gt.tensor("x", "float32", ("n",))
Y = gt.tensor("y", "float32", ("n",))
W = gt.tensor("w", "float64", ("n",))


def lines_run(call):
    """The names of the Python functions that a call runs."""
    found = []
    note = lambda frame, event, _: event == "call" and found.append(frame.f_code)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [code.co_name for code in found if code is not call.__code__]


def exact(inputs, outputs):
    return graphc.function(inputs, outputs, dims="specialize")


def wide(array):
    with jax.enable_x64(True):
        return jnp.asarray(array, "float64")


@pytest.mark.parametrize("flag", [False, True])
def test_a_warm_call_runs_no_python(flag):
    """If this fails, JAX may have changed: calls are still right, but slower."""
    a, b, c = jnp.ones(3), wide(np.ones(3)), np.ones(3, "float32")
    tree = {"a": a, "b": [a, a]}
    f, g, h = exact([X], X * 2), exact([W], W * 2), exact([X, Y], (X + Y, X))
    j = graphc.jit(lambda t, n: t["a"] * t["b"][1] + n)
    with jax.enable_x64(flag):
        calls = [lambda: f(a), lambda: g(b), lambda: h(a, a)]
        calls += [lambda: j(tree, a), lambda: j(tree, 2), lambda: j(tree, c)]
        for call in calls:
            call(), call()
            assert lines_run(call) == []
    assert [p.stats().calls for p in (f, g, h, j)] == [3, 3, 3, 9]
    assert [len(p.stats().compilations) for p in (f, g, h)] == [1, 1, 1]


@pytest.mark.parametrize(
    "inputs, outputs, at_most",
    [([X], gt.sum(X), 12), ([X], X * 2, 18), ([W], gt.sum(W), 13)],
)
def test_a_padded_call_runs_little_python(inputs, outputs, at_most):
    """Each function costs a microsecond if JAX has run since its last call."""
    f = graphc.function(inputs, outputs, dims="pad")
    host = np.ones(3, inputs[0].dtype)
    with jax.enable_x64(True):
        device = jnp.asarray(host)
    for given in (host, device):
        call = lambda given=given: f(given)
        call(), call()
        ours = [name for name in lines_run(call) if name != "__hash__"]
        assert len(ours) <= at_most, ours


def test_a_padded_call_keeps_nothing_of_the_caller():
    """The program copies NumPy arrays where it pads, even at exactly a capacity."""
    y = gt.tensor("y", "float32", (3,))
    f = graphc.function([X, y], [X * 2, y + X[:3]], dims="pad")
    for n in (3, 16):
        given, small = np.ones(n, "float32"), np.ones(3, "float32")
        found = f(given, small)
        given[:], small[:] = 5, 5
        assert [np.asarray(a).tolist() for a in found] == [[2.0] * n, [2.0] * 3]


def test_what_is_warm_hides_nothing():
    """After warm calls, each kind of argument is accepted or refused as before."""
    double = np.arange(3) + 0.1
    kinds = [
        *(jnp.ones(3), np.ones(3, "float32"), [1.0, 2.0, 3.0], jnp.ones(4), double),
        *(jnp.ones((3, 3)), np.ones(3, "int8"), jnp.ones(3, "int8"), wide(double), "x"),
    ]
    for program, value in ((X, X * 2), (W, W * 2)):
        cold = [outcome(exact([program], value), k) for k in kinds]
        warm = exact([program], value)
        taken = [i for i, (kind, _) in enumerate(cold) if isinstance(kind, np.dtype)]
        for first, second in itertools.product(taken, range(len(kinds))):
            for i in (first, first, second):
                assert outcome(warm, kinds[i]) == cold[i], (kinds[first], kinds[i])


def outcome(f, argument):
    """The dtype and elements of the result, or the class and text of the error."""
    try:
        found = f(argument)
    except Exception as error:
        return type(error), str(error)
    return found.dtype, found.tolist()


def test_calls_are_counted_once_and_failures_are_not():
    f = exact([X, Y], X + Y)
    a, b = jnp.ones(3), np.ones(3, "float32")
    good = [(a, a), (a, b), (b, b), (a, a), (b, b), (b, b), (a, a), (a, a)]
    for done, args in enumerate(good, 1):
        f(*args)
        with pytest.raises(graphc.CallError):
            f(a, jnp.ones(4))
        with pytest.raises(graphc.CallError, match="missing inputs: y"):
            f(args[0])
        assert f.stats().calls == done
    f(a, y=b), f(y=b, x=a)
    assert f.stats().calls == len(good) + 2
    threads = [
        threading.Thread(target=lambda: [f(a, a) for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert f.stats().calls == len(good) + 202
    assert len(f.stats().compilations) == 1


def test_calls_are_counted_while_another_thread_adds_a_route():
    f = exact([X], X * 2)
    f(np.ones(3, "float32"))

    class Adding:
        @property
        def calls(self):
            f._counted.add(Adding())
            return 0

    f._counted.add(Adding())
    assert f.stats().calls == 1


def test_an_array_of_numpy_may_be_written_to_after_the_call():
    f = exact([X], gt.cumsum(X))
    x = np.ones(3000, "float32")
    for _ in range(4):
        result = f(x)
        x[:] = 7
        assert result[-1] == 3000
        x[:] = 1


@pytest.mark.parametrize("offset", [0, 4, 16])
@pytest.mark.parametrize("size", [4, 10_000])
def test_an_array_of_numpy_is_copied_before_a_slow_program_reads_it(size, offset):
    """JAX would read aligned arrays in place, as it does arrays that are lent to it."""
    room = np.zeros(4 * size + 128, "uint8")
    start = offset - room.ctypes.data % 64 + 64 * (offset < room.ctypes.data % 64)
    x = room[start : start + 4 * size].view("float32")
    n, w = gt.vector("n", "float32"), gt.matrix("w", "float32")
    slow, k = w, gt.scalar("k", "float32")
    for _ in range(3):
        slow = slow @ w * 0.001
    f = exact([n, w, k], n + k * slow[0, 0])
    weights = jnp.ones((400, 400))
    ways = [(weights, 0.0), (np.ones((400, 400), "float32"), np.zeros((), "float32"))]
    for rest in [way for way in ways for _ in range(3)]:
        x[:] = 1
        found = f(x, *rest)
        x[:] = 7
        assert np.asarray(found).tolist() == [1.0] * size


def test_numbers_are_told_apart_where_calls_are_warm():
    """If JAX alone dispatched them, wide NumPy numbers would be narrowed."""
    k = gt.scalar("k", "float32")
    a, b = jnp.ones(3), np.ones(3, "float32")
    numbers = [0.1, np.float64(0.1), np.float32(0.1), jnp.float32(0.1), 1, True, 1j]
    numbers += [np.array(0.1), np.array(0.1, "float32"), np.int64(2**60), 2**70, "x"]
    for array in (a, b):
        cold = [outcome2(exact([X, k], X * k), array, n) for n in numbers]
        warm = exact([X, k], X * k)
        for first, second in itertools.product(range(len(numbers)), repeat=2):
            for i in (first, first, second):
                assert outcome2(warm, array, numbers[i]) == cold[i], (first, i)
                assert outcome2(warm.lend, array, numbers[i]) == cold[i], (first, i)


def outcome2(f, *args):
    """The outcome of a call with several arguments."""
    return outcome(lambda a: f(*a), args)


@pytest.mark.parametrize("ours", [True, False])
def test_a_function_that_is_gone_leaves_nothing(ours):
    f = exact([X], X * 2) if ours else graphc.jit(double)
    for x in (jnp.ones(3), np.ones(3, "float32"), jnp.ones(3)):
        f(x)
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def double(x):
    return x * 2


def test_a_warm_call_on_numpy_runs_little_python():
    f, g = exact([X], X * 2), exact([W], gt.cumsum(W))
    h, k = exact([X, Y], X + Y), gt.scalar("k", "float32")
    p, large = exact([X, k], X * k), np.ones(30000, "float32")
    a, b, c, d = np.ones(3, "float32"), np.ones(3000), jnp.ones(3), np.ones(9)
    calls = [
        *((lambda: f.lend(a), ["called"]), (lambda: g.lend(b), ["called", "run"])),
        *((lambda: f(a), ["called"]), (lambda: h(a, a), ["called"])),
        *((lambda: p(a, 0.5), ["called", "copy"]), (lambda: p(c, 0.5), [])),
        *((lambda: h(c, a), ["called", "copy"]), (lambda: h(c, c), [])),
        *((lambda: g(d), ["called", "run"]), (lambda: f(large), ["called", "copy"])),
        (lambda: f(a), ["called", "copy"]),  # since sizes vary
    ]
    for i, (call, run) in enumerate(calls):
        call(), call(), call()
        assert lines_run(call) == run, i


def test_a_warm_call_on_lent_arrays_takes_no_others():
    f, g = exact([X], X * 2), exact([W], gt.cumsum(W))
    a, b = np.ones(3, "float32"), np.ones(3000)
    f.lend(a), f.lend(a), g.lend(b)
    assert float(g.lend(b)[-1]) == 3000
    for given in (b, np.ones(3), "x", [1.0], np.ones(3, "int8")):
        assert outcome(f.lend, given) == outcome(exact([X], X * 2), given)
    assert [f.stats().calls, g.stats().calls] == [4, 2]
    assert exact([X, Y], X + Y).lend(a, y=jnp.ones(3)).tolist() == [2, 2, 2]


def test_errors_of_warm_calls_on_numpy_are_counted_once():
    f, a = exact([X], gt.log(X)), np.ones(3, "float32")
    f(a), f(a)
    with jax.debug_nans(True):
        cold = outcome(exact([X], gt.log(X)), -a)
        assert outcome(f, -a) == cold and f.stats().calls == 2
    with jax.disable_jit():
        assert f(a).tolist() == [0, 0, 0] and f.stats().calls == 3


def test_errors_of_warm_calls_are_those_of_cold_ones():
    f, a = exact([X], gt.log(X)), jnp.ones(3)
    with jax.debug_nans(True):
        cold = outcome(f, -a)
        f(a), f(a)
        assert outcome(f, -a) == cold
    f(-a)
    with jax.debug_nans(True):
        assert outcome(f, -a) == cold
    gone = jnp.ones(3)
    gone.delete()
    assert outcome(f, gone) == outcome(exact([X], gt.log(X)), gone)


def test_transformations_and_settings_of_jax():
    f, a = exact([X], X * 2), jnp.ones(3)
    f(a)
    np.testing.assert_array_equal(jax.vmap(f)(jnp.ones((2, 3))), np.full((2, 3), 2.0))
    np.testing.assert_array_equal(jax.jit(lambda y: f(a) + f(y))(a), np.full(3, 4.0))
    np.testing.assert_array_equal(jax.grad(lambda y: f(y).sum())(a), np.full(3, 2.0))
    with jax.disable_jit():
        np.testing.assert_array_equal(f(a), np.full(3, 2.0))
    assert f.stats().calls == 6


def test_a_changed_jax_is_asked_in_public(monkeypatch):
    """Nothing is dispatched by our code then, and the results stay the same."""
    assert private_jax.cache_miss(abs) is None
    assert private_jax.dispatched(jax, abs, abs, abs) is None
    assert private_jax.dispatched(None, jax.jit(abs), abs, abs) is None
    monkeypatch.setattr(private_jax, "dispatched", lambda *_: None)
    f, g, a = exact([X], X * 2), graphc.jit(lambda x: x * 2), jnp.ones(3)
    for program in (f, g):
        for x in (a, a, np.ones(3, "float32"), a):
            np.testing.assert_array_equal(program(x), np.full(3, 2.0))
        assert program.stats().calls == 4 and len(program.stats().compilations) == 1


# Programs compiled ahead of the first call.


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_executables_ahead_of_calls(dtype):
    v = gt.tensor("v", dtype, ("n",))
    f = exact([v], v * 2)
    a = wide(np.ones(3)).astype(dtype) if dtype == "float32" else wide(np.ones(3))
    run = f.compiled((3,))
    assert f.compiled(a)(a).tolist() == run(a).tolist() == [2, 2, 2]
    assert f(a).tolist() == f(np.ones(3, dtype)).tolist() == [2, 2, 2]
    assert f.stats().calls == 2 and len(f.stats().compilations) == 1
    new = f.compile({"n": [3, 4, 5, 4]}, threads=2)
    assert [c.sizes for c in new] == [{"n": 4}, {"n": 5}]
    assert f(np.ones(5, dtype)).tolist() == [2] * 5
    assert f.stats().compilations[1:] == new


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_capacities_ahead_of_calls(dtype):
    v = gt.tensor("v", dtype, ("n",))
    f = graphc.function([v], gt.mean(v), dims="pad")
    assert len(f.compile({"n": [3, 9, 20, 16, 33]})) == 3
    for n in (2, 17, 64):
        assert float(f(np.full(n, 2.0, dtype))) == 2
    assert len(f.stats().compilations) == 3


@pytest.mark.parametrize("how", ["pad", "specialize"])
def test_programs_are_lowered_ahead_and_not_counted(how):
    v = gt.tensor("v", "float64", ("n",))
    f = graphc.function([v], gt.mean(v), dims=how)
    lowered = f.lower({"n": [3, 9, 20]})
    assert len(lowered) == (2 if how == "pad" else 3)
    texts = [found.as_text() for found in lowered]
    assert all("stablehlo.reduce" in text and "f64" in text for text in texts)
    assert lowered[0].compile().cost_analysis()["flops"] > 0
    assert f.stats().compilations == []
    assert float(f(np.ones(3))) == 1
    assert [c.reason for c in f.stats().compilations] == ["first call"]


def test_a_program_of_axes_that_may_be_one_ahead():
    v, w = gt.tensor("v", "float32", ("k",)), gt.tensor("w", "float32", ("n?",))
    f = graphc.function([v, w], v + w, dims="specialize")
    a, one = jnp.ones(3), jnp.ones(1)
    assert f.compiled((3,), (1,))(a, one).tolist() == [2, 2, 2]
    assert f.compiled((3,), (3,))(a, a).tolist() == [2, 2, 2]
    assert len(f.stats().compilations) == 2 and f.stats().calls == 0


def test_there_is_nothing_to_compile_ahead():
    padded = graphc.function([X], X * 2, dims="pad")
    several, host = exact([X], X[X > 0]), graphc.function([X], X, backend="numpy")
    f, k = exact([X, Y], X + Y), gt.iscalar("k")
    computed = exact([k], gt.ones(k * k))
    cases = {
        "compiled: the program is padded: nothing is compiled for true sizes\n"
        '  hint: compile(sizes) takes it as it is; or pass dims="specialize"\n'
        "  at ": lambda: padded.compiled((3,)),
        "compiled: the program is more than one jitted function\n"
        "  got: 2 segments on jax\n"
        '  hint: explain() says what splits it; jit="fewest" keeps more in one\n'
        "  at ": lambda: several.compiled((3,)),
        "compiled: the program is more than one jitted function\n"
        "  got: 1 segment, and steps of Python": lambda: computed.compiled(()),
        "compiled: a NumPy program runs line by line: none of it is compiled\n"
        '  hint: leave backend="numpy" out\n': lambda: host.compiled((3,)),
        "lower: a NumPy program runs line by line": lambda: host.lower({"n": 3}),
        "lower: n is missing\n  got: no sizes\n": lambda: f.lower({}),
        "compiled: an argument must be given as its shape\n"
        "  got: [3]\n"
        "  expected: a tuple of integers, or an array\n": lambda: f.compiled([3], (3,)),
        "compile: n is missing\n  got: no sizes\n": lambda: f.compile({}),
        "axis 0 of input y has 4 elements, not n = 3\n": lambda: f.compiled((3,), (4,)),
        "call: missing inputs: y\n": lambda: f.compiled((3,)),
    }
    for text, ask in cases.items():
        with pytest.raises((graphc.GraphError, graphc.CallError)) as caught:
            ask()
        assert str(caught.value).startswith(text), str(caught.value)
    assert f.stats().calls == 0 and not f.stats().compilations
