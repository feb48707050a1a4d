"""`graphc.ragged` turns functions of one example into functions of many at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc


def some(n):
    return np.cos(np.arange(n)).astype("float32")


def rows(*lengths):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, 3)).astype("float32") for n in lengths]


def close(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def centred(batch):
    x = batch["x"]
    return {"rest": x - jnp.sum(x) / max(x.shape[0], 1), "size": x.shape[0]}


def test_each_example_has_its_own_results():
    ours = graphc.ragged(centred)
    for lengths in [(3, 5, 2), (4, 1, 6, 0), (2, 2), (7,)]:
        batch = [{"x": some(n)} for n in lengths]
        one = [centred(b) for b in batch]
        wanted = {k: [r[k] for r in one] for k in ("rest", "size")}
        close(ours(batch), wanted)


def loss(w, x, y):
    h, _ = jax.lax.scan(lambda h, r: (jnp.tanh(h * w["a"] + r), None), jnp.zeros(3), x)
    return jnp.sum(h * w["b"]) ** 2 + jnp.sum(y**2)


@pytest.mark.parametrize("how", [jax.value_and_grad, graphc.value_and_grad])
def test_losses_and_gradients_are_summed(how):
    ours = graphc.ragged(how(loss), shared=[0], total=True)
    w = {"a": some(3), "b": np.float32(0.5)}
    for lengths in [(3, 5, 2), (4, 6, 3)]:
        xs, ys = rows(*lengths), [some(n + 1) for n in lengths]
        one = [jax.value_and_grad(loss)(w, x, y) for x, y in zip(xs, ys, strict=True)]
        close(ours(w, xs, ys), jax.tree.map(lambda *g: sum(g), *one))
    stats = ours.stats()
    assert stats.calls == 2 and len(stats.compilations) == 1 and not stats.fallbacks


def test_examples_that_jax_traces_otherwise_are_computed_by_themselves():
    def special(x):
        return jnp.sum(x) if x.shape[0] != 2 else jnp.max(x)

    for total in (False, True):
        ours = graphc.ragged(special, total=total)
        for lengths in [(2, 3, 4), (5, 2)]:
            wanted = [special(some(n)) for n in lengths]
            close(ours([some(n) for n in lengths]), sum(wanted) if total else wanted)


def test_arrays_from_outside_are_shared():
    table = jnp.asarray(some(300))
    ours = graphc.ragged(lambda i: table[i] * 2)
    close(ours([np.arange(3), np.arange(5)]), [some(300)[:n] * 2 for n in (3, 5)])


CALLS = {
    "argument 0 must be a list of examples\n  got: int": lambda f: f(3, []),
    "different numbers of examples\n  got: 1, 2": lambda f: f([some(2)], [some(2)] * 2),
    "there are no examples, so their types are not known": lambda f: f([], []),
    "examples differ in more than sizes\n"
    "  got: example 0: float32[2], float32[1]; example 1: int64[2], float32[1]": (
        lambda f: f([some(2), np.arange(2)], [some(1)] * 2)
    ),
}


@pytest.mark.parametrize("text", CALLS)
def test_calls_that_do_not_fit_are_told(text):
    with pytest.raises(graphc.CallError) as error, jax.enable_x64(True):
        CALLS[text](graphc.ragged(lambda x, y: jnp.sum(x) * y))
    assert text in str(error.value)


def test_functions_that_need_a_size_as_a_number_are_refused():
    def unrolled(x):
        return sum(x[i] for i in range(x.shape[0]))

    with pytest.raises(graphc.GraphError, match="cannot be traced at sizes n"):
        graphc.ragged(unrolled)([some(2), some(3)])
    with pytest.raises(jax.errors.TracerArrayConversionError):
        graphc.ragged(lambda i: some(9)[i])([np.arange(2), np.arange(3)])
    with pytest.raises(graphc.GraphError, match="leave outputs and casting out"):
        graphc.ragged(unrolled, [], shared=[0])
