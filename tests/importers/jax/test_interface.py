"""`graphc.jit` accepts what `jax.jit` does, and has a jitted function's attributes."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

import graphc

SIZES = (3, 4, 5)


def vector(n):
    return jnp.arange(1, n + 1, dtype="float32")


def added(x, y=1.0):
    return {"sum": x + y, "of": x.sum()}


def same(found, wanted):
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(*map(jax.tree.leaves, (found, wanted)), strict=True):
        assert (a.dtype, a.sharding, a.committed) == (b.dtype, b.sharding, b.committed)
        np.testing.assert_allclose(a, b, rtol=1e-6)


def one_device():
    return SingleDeviceSharding(jax.devices()[0])


OPTIONS = {
    "donate_argnames": ("x",),
    "donate_argnums": (0,),
    "inline": True,
    "keep_unused": True,
}


@pytest.mark.parametrize("option", OPTIONS)
def test_options_that_do_not_change_results(option):
    told = {option: OPTIONS[option]}
    ours, theirs = graphc.jit(added, **told), jax.jit(added, **told)
    for n in SIZES:
        same(ours(x=vector(n)), theirs(x=vector(n)))
    assert ours.stats().fallbacks == []


@pytest.mark.parametrize("option", ["in_shardings", "out_shardings"])
def test_where_programs_are_placed_jax_compiles_each_size(option):
    told = {option: one_device()}
    ours, theirs = graphc.jit(added, **told), jax.jit(added, **told)
    with pytest.warns(graphc.FallbackWarning, match=option) as warned:
        for n in SIZES:
            same(ours(vector(n)), theirs(vector(n)))
    assert len(warned) == 1
    assert ours.stats().fallbacks == [f"programs for many sizes take no {option}"]


def test_options_that_nobody_has():
    with pytest.raises(TypeError, match="unexpected keyword argument 'donate'"):
        graphc.jit(added, donate=0)
    with pytest.raises(graphc.GraphError, match="only functions of JAX"):
        graphc.jit(added, frontend="numpy", donate_argnames="x")


def test_what_is_on_a_mesh_stays_there():
    mesh = jax.make_mesh((1,), ("d",))
    rows = NamedSharding(mesh, PartitionSpec("d"))
    ours, theirs = graphc.jit(added), jax.jit(added)
    with pytest.warns(graphc.FallbackWarning, match="are sharded"):
        for n in SIZES:
            x = jax.device_put(vector(n), rows)
            same(ours(x), theirs(x))
            same(ours(vector(n)), theirs(vector(n)))
    assert ours.stats().fallbacks == ["its arguments are sharded"]
    assert "jax.jit compiles: its arguments are sharded" in ours.explain()
    assert any("(n," in c.program for c in ours.stats().compilations)


def test_stages_of_compilation():
    ours = graphc.jit(added, static_argnames=())
    for n in SIZES:
        x = vector(n)
        assert ours.eval_shape(x)["sum"].shape == (n,)
        assert ours.trace(x).out_info["sum"].shape == (n,)
        same(ours.lower(x).compile()(x), ours(x))


def test_a_cache_that_is_cleared_leaves_nothing():
    counted = []

    @graphc.jit
    def function(x):
        counted.append(x.shape)
        return x + 1

    for _ in range(2):
        counted.clear()
        for n in (3, 3):
            function(vector(n))
        assert counted == [(3,)]
        function(vector(4))
        assert len(function.stats().compilations) == 2
        function.clear_cache()
        assert function.stats().compilations == []


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["size"]
)
class Sized:
    def __init__(self, x, size):
        self.x, self.size = x, size


def test_structures_of_results_may_hold_the_size():
    ours = graphc.jit(lambda x: {f"of {x.shape[0]}": Sized(2 * x, x.shape[0])})
    for n in (*SIZES, 4):
        ((name, found),) = ours(vector(n)).items()
        assert (name, type(found.size), found.size) == (f"of {n}", int, n)
        np.testing.assert_array_equal(found.x, 2 * vector(n))
    assert ours.stats().fallbacks == []


def test_sizes_at_which_the_function_fails_do_not_matter_to_others():
    def picky(x):
        return x @ jnp.ones(4) if x.shape[0] in (4, 6) else jnp.sum(x)

    ours, theirs = graphc.jit(picky), jax.jit(picky)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        for n in (6, 3, 5, 6, 4, 7):
            if n != 6:
                assert ours(vector(n)) == theirs(vector(n))
                continue
            with pytest.raises(TypeError, match="dot_general"):
                ours(vector(n))


def test_what_has_no_tangent_is_that_of_jax():
    slopes = jax.grad(lambda p: jnp.sum(p["i"] * p["x"]), allow_int=True)
    ours, theirs = graphc.jit(slopes), jax.jit(slopes)
    for n in SIZES:
        given = {"i": np.arange(n), "x": vector(n)}
        found, wanted = ours(given), theirs(given)
        np.testing.assert_array_equal(found["x"], wanted["x"])
        assert found["i"].dtype == wanted["i"].dtype == jax.dtypes.float0
        assert found["i"].shape == (n,) and type(found["i"]) is type(wanted["i"])


def decides(batch, *more, scale):
    return batch["x"] if more[0] > 0 else batch["x"] * scale


def test_errors_of_jax_name_the_function_and_its_argument():
    ours = graphc.jit(decides)
    with pytest.raises(jax.errors.TracerBoolConversionError) as error:
        ours({"x": vector(3)}, jnp.float32(1), scale=2.0)
    line = decides.__code__.co_firstlineno
    assert f"the function decides at {__file__}:{line} for jit" in str(error.value)
    assert "the value of the argument more_1." in str(error.value)


def test_inputs_of_programs_are_named_after_arguments():
    def layer(params, x, *rest, shift, **others):
        return params["w x"] * x + params["b"][0] + rest[1] + shift + others["more"]

    given = {"w x": vector(3), "b": [jnp.float32(1)]}, vector(3), 1.0, 2.0
    ours = graphc.jit(layer, shapes="(), n, n, (), (), (), ()")
    ours(*given, shift=1.0, more=2.0)
    names = "params_b_0, params_w_x, x, rest_2, rest_3, more, shift"
    assert f"def segment_0({names}):" in ours.source


def test_compilations_are_records_with_the_names_of_axes():
    @graphc.jit
    def product(x, w):
        return jnp.tanh(x @ w)

    for n in (3, 4, 5, 20):
        product(np.ones((n, 2), "float32"), np.ones(2, "float32"))
    alone, *padded = product.stats().compilations
    assert alone.program == "exactly x (3, 2), w (2,)"
    assert alone.sizes == {"x.shape[0]": 3, "x.shape[1]": 2, "w.shape[0]": 2}
    assert {one.program for one in padded} == {"x (n, 2), w (2,)"}
    assert [one.sizes for one in padded] == [{"x.shape[0]": 16}, {"x.shape[0]": 32}]
    assert padded[1].reason.startswith("n_capacity changed from 16 to 32, asked for by")
    everything = product.stats()
    assert all(0 < one.seconds < 60 for one in everything.compilations)
    assert str(alone) in str(everything) and "3 compilations in" in repr(everything)
    assert "compiled for all sizes of x (n, 2), w (2,):" in product.explain()


def test_compilations_have_the_names_that_shapes_says():
    @graphc.jit(shapes="rows 2")
    def total(x):
        return jnp.sum(x)

    for n in (3, 4):
        total(np.ones((n, 2), "float32"))
    first, padded = total.stats().compilations
    assert first.sizes == {"rows": 3} and padded.sizes == {"rows_capacity": 16}


def test_time_that_fails_is_not_counted():
    broken = [True]

    @graphc.jit
    def total(x):
        if broken[0]:
            raise KeyError("no")
        return jnp.sum(x)

    for _ in range(2):
        with pytest.raises(KeyError):
            total(np.ones(3, "float32"))
    broken[0] = False
    total(np.ones(3, "float32"))
    (one,) = total.stats().compilations
    assert one.seconds > 0 and one.program == "exactly x (3,)"


class Doubling:
    def __call__(self, x):
        return x * 2


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_calls_that_fail_are_not_counted(frontend):
    dot = graphc.jit(lambda x, w: x @ w, frontend=frontend)
    with pytest.raises((TypeError, graphc.GraphError)):
        dot(np.ones((3, 4)), np.ones(3))
    dot(np.ones((3, 4)), np.ones(4))
    assert dot.stats().calls == 1


def test_a_compilation_that_is_interrupted_is_told_when_it_is_done():
    """JAX traces once for both calls, and the second call is charged all the time."""
    f = graphc.jit(lambda x: x + 1)
    done = f._miss

    def interrupted(*args):
        f._exact.trace(*args)
        raise KeyboardInterrupt

    f._miss = interrupted
    with pytest.raises(KeyboardInterrupt):
        f(vector(3))
    assert (f.stats().calls, f.stats().compilations) == (0, [])
    f._miss = done
    f(vector(3))
    [one] = f.stats().compilations
    assert f.stats().calls == 1 and one.seconds > 0


@pytest.mark.parametrize(
    "function", [functools.partial(jnp.add, 1), Doubling(), jnp.add, jnp.add.reduce]
)
def test_functions_without_a_name_have_that_of_jax(function):
    ours, theirs = graphc.jit(function), jax.jit(function)
    assert ours.__name__ == theirs.__name__
    assert ours.__qualname__ == theirs.__qualname__


class Slotted:
    __slots__ = ()

    def __call__(self, x):
        return x * 2


def test_objects_without_weak_references_are_jitted_again_and_again():
    function = Slotted()
    for _ in range(3):
        ours = graphc.jit(function)
        for n in SIZES:
            np.testing.assert_array_equal(ours(vector(n)), vector(n) * 2)
        negated = graphc.jit(np.negative)
        with pytest.raises(jax.errors.TracerArrayConversionError):
            negated(vector(3))
