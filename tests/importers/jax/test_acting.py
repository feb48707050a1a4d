"""Python functions with side effects run as often, and in the order, as under JAX."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

import graphc
from tests.importers.jax.comparing import by_turns

SIZES = (3, 6, 1, 4)
RECORD: list[object] = []


def record(*arrays):
    RECORD.append([np.asarray(x).tolist() for x in arrays])


def recorded_sine(x):
    record(x)
    return np.sin(x)


def see(*arrays):
    jax.debug.callback(record, *arrays, ordered=True)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def plain(x):
    see(x, x.sum(), x.shape[0])
    see(x, x.sum(), x.shape[0])
    return x * 2


def of_the_trace(x):
    n = int(x.shape[0])
    jax.debug.callback(lambda v: RECORD.append((n, np.asarray(v).tolist())), x)
    jax.debug.callback(record, x * np.float32(n), ordered=True)
    return x * np.arange(n, dtype="float32")


def results(x):
    y = io_callback(recorded_sine, like(x), x, ordered=True)
    io_callback(record, None, y)
    pairs = jax.ShapeDtypeStruct((2 * x.shape[0],), x.dtype)
    return io_callback(lambda v: np.repeat(v, 2), pairs, y)


def steps(x):
    def step(carry, row):
        see(carry, row)
        return carry + row, carry * row

    def within(carry, row):
        end, _ = lax.scan(step, row, x, reverse=True)
        see(end)
        return carry, end

    return lax.scan(step, 0.0, x), lax.scan(within, None, x)[1]


def as_long_as(x):
    def goes_on(carry):
        see(carry.max())
        return carry.max() < 50

    def step(carry):
        see(carry)
        return carry * 2

    doubled = lax.while_loop(lambda y: y.max() < 50, step, x)
    return lax.while_loop(goes_on, step, x), doubled


def for_each(x):
    def step(i, carry):
        see(i, x[i])
        return carry

    return lax.fori_loop(0, x.shape[0], step, 0), x


def one_branch(x):
    def seen(y):
        see(y)
        return y * 2

    lax.cond(x.sum() > 6, lambda: see(), lambda: None)
    return lax.cond(x.sum() > 9, seen, lambda y: y, x)


def gradients(x):
    def cost(y):
        see(y)
        return (y**2).sum()

    def step(carry, row):
        jax.debug.callback(record, carry, row)
        return jnp.sin(carry) + row, None

    slopes = jax.grad(jax.checkpoint(cost))(x)
    return slopes, jax.grad(lambda y: lax.scan(step, 0.0, y)[0])(x)


@jax.custom_vjp
def ruled(x):
    see(x)
    return x.sum()


ruled.defvjp(lambda x: (ruled(x), x), lambda x, g: (see(g) or x * g,))


def rules(x):
    return jax.grad(ruled)(x)


def many(x):
    def one(v):
        return io_callback(recorded_sine, like(v), v)

    def seen(v):
        jax.debug.callback(record, v)
        return v

    return jax.vmap(one)(x), jax.vmap(seen)(jnp.stack([x, x + 1]))


def shared(x):
    @jax.jit
    def doubled(v):
        see(v)
        return v * 2

    return doubled(doubled(doubled(doubled(x))))


def alone(x):
    see(x, x.shape[0])


CASES = [alone, plain, of_the_trace, results, steps, as_long_as, for_each, one_branch]
CASES += [gradients, rules, many, shared]


def called(function, x):
    """The results and the record, sorted where the order is left open."""
    RECORD.clear()
    results = jax.block_until_ready(function(x))
    jax.effects_barrier()
    is_open = function.__name__ in ("gradients", "many", "of_the_trace")
    return results, sorted(RECORD, key=str) if is_open else list(RECORD)


@pytest.mark.parametrize(("function", "dims"), by_turns(CASES))
def test_they_act_as_in_jax(function, dims):
    ours, theirs = graphc.jit(function, dims=dims), jax.jit(function)
    for n in SIZES:
        x = (np.arange(1, n + 1) * 7 % 5 + 1).astype("float32")
        (found, seen), (wanted, expected) = (called(f, x) for f in (ours, theirs))
        assert seen == expected
        pairs = zip(*map(jax.tree.leaves, (found, wanted)), strict=True)
        for own, other in pairs:
            assert own.dtype == other.dtype and own.shape == other.shape
            np.testing.assert_allclose(own, other, rtol=1e-5)
    stats = ours.stats()
    assert stats.fallbacks == [] and stats.foreign == []
    assert len(stats.compilations) < len(SIZES)


def test_texts_are_printed_of_true_rows_and_sizes(capsys):
    def function(x):
        jax.debug.print(f"{x.shape[0]} rows: {{}}", x)
        jax.debug.print("{} {name}", "sum", name=x.sum(), ordered=True)
        return x

    ours = graphc.jit(function, dims="pad")
    for n in (3, 4, 5):
        jax.block_until_ready(ours(np.ones(n, "float32")))
        jax.effects_barrier()
        rows = " ".join(["1."] * n)
        assert sorted(capsys.readouterr().out.splitlines()) == [
            f"{n} rows: [{rows}]",
            f"sum {float(n)}",
        ]
    assert len(ours.stats().compilations) == 2


def test_on_numpy_too():
    ours = graphc.jit(steps, backend="numpy", shapes="n", dims="pad")
    theirs = jax.jit(steps)
    for n in (3, 4, 5):
        x = np.arange(n, dtype="float32")
        assert called(ours, x)[1] == called(theirs, x)[1]


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_one_that_raises_is_not_called_again(backend):
    logging.disable(logging.ERROR)

    def fails(x):
        RECORD.append(np.shape(x))
        raise ValueError("no")

    def function(x):
        return io_callback(fails, like(x), x)

    ours = graphc.jit(function, backend=backend, dims="pad")
    RECORD.clear()
    sizes = (3, 4, 5, 4, 5)
    for n in sizes:
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="no"):
            jax.block_until_ready(ours(np.ones(n, "float32")))
    logging.disable(logging.NOTSET)
    assert [(n,) for n in sizes] == RECORD


def test_what_cannot_be_promised_is_said():
    def unrolled(x):
        return jax.vmap(lambda v: jax.debug.print("{}", v) or v)(x)

    ours = graphc.jit(unrolled)
    with pytest.warns(graphc.FallbackWarning, match="test_acting.py"):
        for n in (3, 4, 5):
            ours(np.ones(n, "float32"))
    with pytest.raises(graphc.GraphError, match="call it for each example"):
        graphc.ragged(plain)([np.ones(3, "float32"), np.ones(4, "float32")])
