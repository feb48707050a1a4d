"""Arguments that nothing reads: their sizes do not count as sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc

SIZES = (3, 4, 5, 9, 6)


def ones(*shape):
    return np.ones(shape, "float32")


def vectors(k):
    return np.arange(4, dtype="float32"), ones(k)


def tree(k):
    return ({"a": np.arange(4, dtype="float32"), "b": [ones(k), ones(k + 1, 2)]},)


UNREAD = {
    "array": (lambda x, y: x * 2, vectors),
    "dtype": (lambda x, y: x.astype(y.dtype) * 3, vectors),
    "ndim": (lambda x, y: x * (y.ndim + 1), vectors),
    "leaves": (lambda d: d["a"] * 4, tree),
    "another axis": (lambda x, y: x * y.shape[1], lambda k: (ones(4), ones(k, 3))),
    "two results": (lambda x, y: {"s": jnp.sum(x), "t": x + 5}, vectors),
}


def count(events, function, of_call, **options):
    """Count the programs that XLA compiles at all sizes, and compare with JAX."""
    ours = graphc.jit(function, **options)
    calls = [of_call(k) for k in SIZES]
    wanted = [jax.jit(function)(*args) for args in calls]
    start = len(events)
    for _ in range(2):
        found = [ours(*args) for args in calls]
    for own, other in zip(found, wanted, strict=True):
        jax.tree.map(np.testing.assert_array_equal, own, other)
        assert jax.tree.map(type, own) == jax.tree.map(type, other)
    assert ours.stats().calls == 2 * len(SIZES)
    assert ours.stats().fallbacks == []
    assert len(ours.stats().compilations) == len(events) - start == 1
    return ours


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize("name", UNREAD)
def test_one_program_serves_all_sizes_that_nothing_reads(name, dims, events):
    count(events, *UNREAD[name], dims=dims)


def test_sizes_that_are_said_and_not_read_have_one_program(events):
    count(events, *UNREAD["array"], shapes="4, n -> 4")


def test_explain_says_that_nothing_reads_the_size(events):
    ours = count(events, *UNREAD["array"])
    assert ours.explain() == (
        "jit of <lambda>\n"
        "compiled exactly for x (4,), y (3,): as JAX traces it\n"
        "  also run for sizes x (4,), y (n,): nothing reads the sizes that differ"
    )


@pytest.mark.usefixtures("without_audit")
def test_the_function_is_traced_no_more_often_than_for_a_program_of_all_sizes():
    traces = []

    def f(x, y):
        traces.append(y.shape)
        return x * 2

    ours = graphc.jit(f)
    for k in (*SIZES, 20, 21, 22):
        ours(*vectors(k))
    assert len(traces) == 4  # the first, one at a symbol, two for comparison


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x * y.shape[0],
        lambda x, y: x * (2 if y.shape[0] > 4 else 3),
        lambda x, y: x * len(str(y.shape[0] * 1000)),
        lambda x, y: jnp.zeros_like(y),
        lambda x, y: x + y.sum(),
    ],
)
def test_sizes_that_are_read_in_any_way_are_sizes(f):
    ours = graphc.jit(f)
    for k in (*SIZES, 12):
        np.testing.assert_array_equal(ours(*vectors(k)), f(*vectors(k)))


def test_a_size_may_be_unread_while_another_varies():
    ours = graphc.jit(lambda x, y: x * 2)
    for n, k in ((3, 3), (3, 4), (5, 4), (6, 9), (3, 19), (5, 50)):
        np.testing.assert_array_equal(ours(ones(n), ones(k)), 2 * ones(n))
    programs = [one.program for one in ours.stats().compilations]
    assert any(p.startswith("exactly ") and p.count("(3,)") == 2 for p in programs)
    assert not any("(3,)" in p and "(n,)" in p for p in programs)


def test_arrays_that_were_written_in_between_are_read_again():
    weight = ones(4)
    ours = graphc.jit(lambda x, y: x * weight)
    ours(ones(4), ones(3))
    weight[:] = 7
    for k in (5, 6):
        np.testing.assert_array_equal(ours(ones(4), ones(k)), 7 * ones(4))


def test_arrays_of_jax_their_places_and_keys_may_be_unread():
    device = jax.devices()[0]
    kinds = [jnp.asarray, lambda a: jax.device_put(a, device)]
    kinds.append(lambda a: jax.random.split(jax.random.key(0), len(a)))
    kinds.append(lambda a: a.astype("bfloat16"))
    for kind in kinds:
        ours = graphc.jit(lambda x, y: x * 2)
        for k in SIZES:
            x = jnp.ones(4)
            np.testing.assert_array_equal(ours(x, kind(ones(k))), 2 * ones(4))


def test_the_answers_are_forgotten_with_the_cache(events):
    ours = count(events, *UNREAD["array"])
    ours.clear_cache()
    assert ours.stats().compilations == []
    np.testing.assert_array_equal(ours(*vectors(8)), 2 * vectors(8)[0])
    jax.clear_caches()
    np.testing.assert_array_equal(ours(*vectors(9)), 2 * vectors(9)[0])
