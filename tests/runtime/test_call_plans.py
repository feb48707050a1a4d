"""Padded calls by a plan give the driver's results in fewer steps."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from benchmarks.harness import xla_compilations
from graphc.analysis.cost import GPU
from graphc.runtime.call import device_copies
from graphc.runtime.driver import devices
from tests.importers.jax.comparing import same

SIZES = (0, 1, 2, 5, 16, 17, 5, 33, 0, 16)


def plain(*shape, dtype="float32"):
    return (np.arange(np.prod(shape)).reshape(shape) / 4 - 1).astype(dtype)


def one(dtype):
    x = gt.tensor("x", dtype, ("n", 3))
    return [x], lambda n: [plain(n, 3, dtype=dtype)], -x


def reduced(dtype):
    inputs, arguments, x = one(dtype)
    return inputs, arguments, gt.sum(x * x, axis=0)


def cut_twice(dtype):
    x = gt.tensor("x", dtype, ("n", "m"))
    return [x], lambda n: [plain(n, n + 2, dtype=dtype)], {"t": x.T, "pair": (x + 1, 3)}


def beside(dtype):
    """A padded argument, one that is not padded, one that is unused, and a number."""
    x, w = gt.tensor("x", dtype, ("n", 2)), gt.tensor("w", dtype, (2, 2))
    c, unused = gt.tensor("c", dtype, ()), gt.tensor("u", dtype, ("k",))
    arguments = lambda n: [
        plain(n, 2, dtype=dtype),
        plain(2, 2, dtype=dtype),
        2.0,
        plain(n + 1, dtype=dtype),
    ]
    return [x, w, c, unused], arguments, [x @ w * c, gt.max(x, initial=0)]


def related(dtype):
    x, y = gt.tensor("x", dtype, ("n",)), gt.tensor("y", dtype, ("2*n+1",))
    return (
        [x, y],
        lambda n: [plain(n, dtype=dtype), plain(2 * n + 1, dtype=dtype)],
        (
            gt.concatenate([x, y]),
            gt.cumsum(y),
        ),
    )


def derivative(dtype):
    inputs, arguments, x = one(dtype)
    return inputs, arguments, graphc.value_and_grad(gt.sum(gt.tanh(x) ** 2), x)


PROGRAMS = [reduced, one, cut_twice, beside, related, derivative]


def forms(args):
    """The arguments as NumPy arrays, as JAX arrays, and of both kinds by turns."""
    on_device = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    mixed = [pair[i % 2] for i, pair in enumerate(zip(args, on_device, strict=True))]
    return [args, on_device, mixed]


@pytest.fixture
def accelerated(monkeypatch):
    """Programs as for an accelerator, whose copies are compiled at once."""
    monkeypatch.setattr(devices, "costs_of", lambda platform: GPU)
    monkeypatch.setattr(device_copies, "COMPILED", 0.0)


@pytest.mark.usefixtures("accelerated")
def test_copies_on_an_accelerator_are_those_of_the_host():
    """Copies are compiled for each shape, so the dtypes take turns."""
    for program, dtype in zip(
        PROGRAMS, itertools.cycle(["float32", "float64"]), strict=False
    ):
        with xla_compilations() as compiled:
            check_planned_calls(program, dtype)
        assert len(compiled) > len({*SIZES})  # copies, of each size


@pytest.mark.usefixtures("accelerated")
def test_nothing_is_compiled_for_a_copy_where_that_is_refused():
    x = gt.tensor("x", "float32", ("n", 3))
    f = graphc.function([x], -x, dims="pad")
    array = jnp.ones((5, 3))
    f(array), f(array)  # compiled, and then planned
    with graphc.stance("no_compile"), xla_compilations() as refused:
        for _ in range(3):
            np.testing.assert_array_equal(f(array), -np.ones((5, 3)))
    with xla_compilations() as compiled:
        np.testing.assert_array_equal(f(array), -np.ones((5, 3)))
    assert (len(refused), len(compiled)) == (0, 2)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_planned_calls_are_calls_by_the_driver(program, dtype):
    check_planned_calls(program, dtype)


def check_planned_calls(program, dtype):
    inputs, arguments, outputs = program(dtype)
    f = graphc.function(inputs, outputs, dims="pad", unused="ignore")
    exact = graphc.function(inputs, outputs, backend="numpy", unused="ignore")
    with jax.enable_x64(dtype == "float64"):
        for n in SIZES:
            for args in forms(arguments(n)):
                by_driver, by_plan = f(*args), f(*args)
                same(by_plan, by_driver)
                jax.tree.map(
                    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
                    jax.tree.map(np.asarray, by_plan),
                    jax.tree.map(np.asarray, exact(*arguments(n))),
                )
    assert f._routes.plans.calls >= len(SIZES)
    assert f.stats().calls == 6 * len(SIZES)
    assert len(f.stats().compilations) <= 2 * len(PROGRAMS)


def planned(dims="pad", **options):
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], [gt.cumsum(x), gt.sum(x)], dims=dims, **options)
    for _ in range(3):  # it is compiled, then planned
        f(np.ones(5, "float32"))
    assert f._routes.plans.calls == 1
    return f


def test_arguments_may_be_written_to_after_the_call():
    f, x, w = planned(), np.ones(5, "float32"), np.ones(16, "float32")
    f(w)
    results = [f(x), f(w)]
    x[:], w[:] = 7, 7
    assert [float(total) for _, total in results] == [5, 16]


def test_calls_of_other_kinds_leave_the_plans_and_come_back():
    f = planned()
    assert float(f(x=np.ones(5, "float32"))[1]) == 5
    assert float(f([1.0, 2.0])[1]) == 3
    assert float(f(np.ones(5, "float16"))[1]) == 5
    with pytest.raises(graphc.CallError, match="float64"):
        f(np.ones(5))
    with pytest.raises(graphc.CallError, match="2 axes, not 1"):
        f(np.ones((5, 1), "float32"))
    assert float(jax.jit(lambda x: f(x)[1])(np.ones(5, "float32"))) == 5
    before = f._routes.plans.calls
    for _ in range(3):
        f(np.ones(5, "float32"))
    assert f._routes.plans.calls > before
    assert len(f.stats().compilations) == 1


def test_an_argument_that_must_stay_on_a_device_goes_by_the_driver():
    f, device = planned(), jax.devices()[0]
    x = jax.device_put(np.ones(5, "float32"), device)
    for _ in range(3):
        result = f(x)[0]
    assert result.committed
    assert f._routes.plans.calls == 2  # only the first call looked there


def test_alarms_are_heard_in_planned_calls():
    f = planned()
    bad = np.array([1, np.nan, 1, 1, 1], "float32")
    assert np.isnan(f(bad)[1])
    with jax.debug_nans(True), pytest.raises(graphc.CallError, match="invalid value"):
        f(bad)
    with jax.disable_jit():
        assert float(f(np.ones(5, "float32"))[1]) == 5


def test_a_check_that_fails_in_a_planned_call_tells_the_arguments():
    x = gt.tensor("x", "float32", ("n",))
    checked = gt.assert_(gt.all(x > 0), "all must be positive", gt.sum(x))
    f = graphc.function([x], checked, dims="pad")
    for _ in range(3):
        f(np.ones(5, "float32"))
    with pytest.raises(graphc.CallError, match="all must be positive"):
        f(np.zeros(5, "float32"))
    assert float(f(np.ones(5, "float32"))) == 5
    assert f.stats().calls == 4


def test_a_planned_call_that_the_user_ends_is_not_counted():
    f = planned()
    (acquire,) = f._planned._acquire.values()
    scope = acquire().__globals__
    before, jitted = f.stats().calls, scope["jitted"]

    def interrupted(*args):
        scope["jitted"] = jitted
        raise KeyboardInterrupt

    scope["jitted"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        f(np.ones(5, "float32"))
    assert f.stats().calls == before
    assert float(f(np.ones(5, "float32"))[1]) == 5


def test_a_program_that_is_padded_from_its_second_size_on_is_planned():
    x = gt.tensor("x", "float32", ("n",))
    f = graphc.function([x], gt.sum(gt.exp(x)))
    for n in (3, 4, 5, 6, 3, 4, 5, 6):
        same(f(np.zeros(n, "float32")), jnp.float32(n))
    assert len(f.stats().compilations) == 2
    assert f._routes.plans.calls


def test_sizes_that_are_integers_of_arguments_are_asked_at_each_call():
    x, k = gt.tensor("x", "float32", ("n",)), gt.iscalar("k")
    f = graphc.function([x, k], gt.sum(x[:k]), dims="pad")
    for _ in range(2):
        for k_now in (1, 3, 2):
            assert float(f(np.ones(4, "float32"), k_now)) == k_now


def test_an_axis_of_two_sizes_multiplied_is_planned():
    """Whether m * n is m cannot be proved; it must not be taken for the symbol."""
    x = gt.tensor("x", "float32", ("m",))
    y = gt.tensor("y", "float32", ("n",))
    z = gt.tensor("z", "float32", ("m * n",))
    total = gt.sum(gt.reshape(z, (x.shape[0], -1)) * x[:, None] * y)
    f = graphc.function([x, y, z], total, dims="pad")
    for _ in range(3):
        for m, n in ((2, 3), (5, 4), (1, 1)):
            args = [np.ones(k, "float32") for k in (m, n, m * n)]
            assert float(f(*args)) == m * n
    assert f._routes.plans.calls
