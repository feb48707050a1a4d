"""`stats()` shows just the XLA compilations that JAX itself reports."""

import inspect
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.runtime.driver import xla
from tests.transform.alike import alike

pytestmark = pytest.mark.usefixtures("compiled_quickly")
COMPILED = "/jax/core/compile/backend_compile_duration"
A = gt.tensor("a", "float64", ())
X = gt.tensor("x", "float64", ("n",))
H = gt.tensor("h", "float32", ("n", 3))
K = gt.tensor("k", "int64", ())
SIZES = 1105, 1106, 2060  # sizes for which no other test compiles

_told = []


def _listen(event, seconds, fun_name="", **_):
    if event == COMPILED:
        _told.append((threading.get_ident(), fun_name))


jax.monitoring.register_event_duration_secs_listener(_listen)


def counted(f, calls):
    """Make calls, check what each one compiled, and return the last results."""
    function = getattr(f, "function", f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.RecompilationWarning)
        for arguments in calls:
            before, start = len(function.stats().compilations), len(_told)
            found = f(*arguments)
            names = [name for thread, name in _told[start:]]
            new = function.stats().compilations[before:]
            assert [c.segment for c in new] == [
                int(name.removeprefix("jit(segment_").rstrip(")")) for name in names
            ]
    return found


def arrays(n):
    return np.arange(n) + 0.5, np.ones((n, 3), "float32"), n // 2


def everything(k):
    """Outputs of all kinds: sizes, parts, counts, arguments, constants."""
    doubled = X * 2
    return [
        *(doubled, doubled, H + 1, gt.concatenate([X, X]), X[X > 2], gt.arange(k)),
        *(X, H, K, X.shape[0], gt.sum(X), gt.asarray(np.arange(3)), X[k:]),
        *gt.scan(lambda c, v: (c + v, c * v), A, X),
    ]


@pytest.mark.parametrize("dims", ["specialize", "pad", "bound", "auto"])
def test_outputs_of_all_kinds(dims):
    f = graphc.function([X, H, K, A], everything(K), dims=dims)
    found = counted(f, [(*arrays(n), 0.5) for n in (*SIZES, *SIZES[::-1])])
    assert len(f.stats().compilations) > 1
    numpy = graphc.function([X, H, K, A], everything(K), backend="numpy")
    alike(found, numpy(*arrays(SIZES[0]), 0.5))


def test_loops_that_the_host_drives():
    few = lambda c, v: (c + gt.sum(X[v >= X]), c)
    _, kept = gt.while_loop(lambda i: i < K, lambda i: (i + 1, 2 * i), 0, collect=True)
    f = graphc.function([X, A, K], [*gt.scan(few, A, X), kept, kept + 1], dims="pad")
    calls = [(np.arange(n) * 0.1, 1.5, k) for n, k in ((13, 2), (13, 121))]
    counted(f, calls)


def test_tiers_and_ragged():
    f = graphc.function([X], [X * 2, gt.sum(X)], tier="auto", dims="pad")
    calls = [(np.arange(n) * 1.0,) for n in SIZES]
    counted(f, calls)
    f._programs.tiers.costs.pays = lambda key: True
    counted(f, calls)
    assert len(f.stats().compilations) == 2
    lists = [[np.arange(n) * 1.0 for n in range(1, k)] for k in (3, 4, 5, 9)]
    counted(graphc.ragged([X], [X / gt.sum(X), gt.sum(X)]), [(x,) for x in lists])


def test_another_placement_of_an_argument():
    """For an array committed to a device, JAX compiles anew, without a trace."""
    f = graphc.function([X], X * 2, dims="specialize")
    with jax.enable_x64(True):
        committed = jax.device_put(np.ones(4), jax.devices()[0])
        calls = [(np.ones(4),), (jnp.ones(4),), (committed,), (committed,)]
    counted(f, calls)
    first, second = f.stats().compilations
    assert (first.reason, second.reason) == (
        "first call",
        "another placement of an argument",
    )


def test_compilations_of_others_are_not_counted():
    """Compilations in other threads, or between calls, are left out."""
    f = graphc.function([X], X * 2, dims="specialize")
    f(np.ones(3))
    assert xla.EVENTS.since(0) and not xla.EVENTS.since(xla.EVENTS.count)
    segment_0 = jax.jit(lambda x: x + 1)
    threads = [threading.Thread(target=segment_0, args=(n,)) for n in (1, 2.0)]
    start = xla.EVENTS.count
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert xla.EVENTS.count > start and not xla.EVENTS.since(start)
    f(np.ones(3))
    assert len(f.stats().compilations) == 1


def test_events_are_kept_up_to_a_bound():
    """The last events are kept; positions count all events so far."""
    events = xla.Events(most=3)
    for i in range(5):
        events.note(f"segment_{i}", 0.1)
    names = [event.name for event in events.since(0)]
    assert events.count == 5 and names == ["segment_2", "segment_3", "segment_4"]
    assert [event.name for event in events.since(4)] == ["segment_4"]
    assert not events.since(5)


# Where and how arrays are placed.


def test_the_quick_way_is_there():
    """If this fails, JAX has changed: the slower `device_put` is used."""
    f = graphc.function([X], X * 2, dims="pad")
    f(np.ones(3))
    program = inspect.unwrap(f._programs.run).__globals__
    assert program["on_device"].__qualname__ == "faster_on_device.<locals>.placed"


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "uint64", "complex128"])
def test_quick_and_public_are_one(dtype):
    """Both agree on dtype, strides, weak type and device, and on being committed."""
    names = {"jax": jax, "np": np}
    exec("\n".join(graphc.backends.placing.ON_DEVICE), names)
    public, (device, *_) = names["on_device"], jax.devices()
    quick = xla.faster_on_device(jax, public)
    with jax.enable_x64(True):
        likes = [jnp.ones(3), jax.device_put(np.ones(3), device), None]
    wide = np.arange(24).reshape(4, 6).astype(dtype)
    for array in (wide, wide[:, :5], wide[::2, ::-1], wide[:0], wide[2, 3]):
        for like in likes:
            a, b = quick(array, like), public(array, like)
            assert (a.committed, a.sharding, a.weak_type) == (
                *(b.committed, b.sharding, b.weak_type),
            )
            assert a.dtype == b.dtype == array.dtype
            np.testing.assert_array_equal(a, array)


def test_arrays_that_are_like_no_other_are_where_jax_places_them_now():
    """The first array tells that place, until another default device is chosen."""
    asked = []

    def public(array, like=None):
        asked.append(array)
        return jax.device_put(array, like)

    quick, array = xla.faster_on_device(jax, public), np.arange(3.0, dtype="float32")
    usual = jax.config.jax_default_device
    for device in (usual, jax.devices()[0], usual):
        with jax.default_device(device):
            placed = [quick(array), quick(array)]
        assert all(a.sharding == jax.device_put(array).sharding for a in placed)
        assert not any(a.committed for a in placed)
    assert len(asked) == 3


def test_arrays_are_placed_while_jax_traces():
    quick = xla.faster_on_device(jax, jax.device_put)
    array = np.arange(3.0, dtype="float32")
    for _ in range(2):  # traced arrays tell no place; placed ones go in
        doubled = jax.jit(lambda x: quick(array) + x)(array)
        np.testing.assert_array_equal(doubled, 2 * array)
        assert not isinstance(quick(array), jax.core.Tracer)


def test_a_changed_jax_is_asked_in_public():
    other = type(jax)("jax")
    public = lambda array, like=None: array
    assert xla.faster_on_device(other, public) is public


def test_saved_programs_place_arrays_in_public(tmp_path):
    f = graphc.function([X], X * 2, dims="pad")
    f.save(tmp_path / "program.py")
    text = (tmp_path / "program.py").read_text()
    assert "jax.device_put(array, device)" in text and "_src" not in text
    names = {"__name__": "saved"}
    exec(text, names)
    start = len(_told)
    for n in (3, 4, 5):
        alike([names["program"](np.arange(n) * 1.0)], [np.arange(n) * 2.0])
    assert len(_told) == start + 1


def test_results_are_small_and_do_not_change():
    """A result takes at most twice its bytes; donating one changes no other."""
    f = graphc.function([X], [X * 2, X * 2, X * 3], dims=graphc.Pad(buckets=(1024,)))
    with jax.enable_x64(True):
        for n in (1000, 100, 0):
            one, two, three = f(np.ones(n))
            jax.jit(lambda x: x + 1, donate_argnums=0)(one)
            assert one.is_deleted() or not n
            np.testing.assert_array_equal(two, np.full(n, 2.0))
            np.testing.assert_array_equal(three, np.full(n, 3.0))


def test_results_stay_where_they_were_computed():
    """A result is committed if the arguments it was computed from are."""
    w = gt.tensor("w", "float64", (1,))
    f = graphc.function([X, w], X * w, dims="pad")
    with jax.enable_x64(True):
        there = jax.device_put(np.ones(1), jax.devices()[0])
    assert f(np.ones(3), there).committed
    assert not f(np.ones(3), np.ones(1)).committed
