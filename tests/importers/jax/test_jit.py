"""`graphc.jit` in the place of `jax.jit`: arguments, results, errors, gradients."""

import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from tests.importers.jax.comparing import compare, same


def vector(n):
    return np.arange(1, n + 1, dtype="float32")


def structured(batch, /, scale=2.0, *, power, label="unused"):
    x, (y, nothing) = batch["x"], batch["rest"]
    assert nothing is None and isinstance(power, int)
    return {"sum": jnp.sum(x**power) * scale, "both": [x + y, None], "weak": scale * 3}


@pytest.mark.parametrize("scale", [2.0, np.float32(2), True])
def test_structures_static_arguments_and_weak_types(scale):
    told = {"static_argnames": ("power", "label")}
    ours, theirs = graphc.jit(structured, **told), jax.jit(structured, **told)
    for n in (3, 4, 1):
        batch = {"x": vector(n), "rest": (vector(n) * 2, None)}
        for power in (2, 3):
            wanted = theirs(batch, scale, power=power)
            same(ours(batch, scale, power=power), wanted)
    assert ours.stats().fallbacks == []


def test_results_have_the_widths_that_the_caller_chose():
    ours = graphc.jit(lambda x: x * 2 + jnp.arange(x.shape[0]))
    for wide in (False, True):
        with jax.enable_x64(wide):
            for n in (3, 4):
                found = ours(np.arange(n, dtype="float64"))
                assert found.dtype == ("float64" if wide else "float32")


def test_it_is_a_decorator_with_and_without_options_and_of_methods():
    @graphc.jit
    def double(x):
        """Twice."""
        return 2 * x

    @graphc.jit(static_argnums=1)
    def power(x, n):
        return x**n

    class Model:
        weight = 3.0

        @graphc.jit(static_argnums=0)
        def scaled(self, x):
            return self.weight * x

    assert double.__doc__ == "Twice." and double.__name__ == "double"
    model = Model()
    for n in (2, 3, 4):
        assert double(vector(n)).sum() == 2 * vector(n).sum()
        assert power(vector(n), 2).sum() == (vector(n) ** 2).sum()
        assert model.scaled(vector(n)).sum() == 3 * vector(n).sum()


def test_keys_are_given_and_returned():
    def step(key, x):
        key, own = jax.random.split(key)
        return key, x + jax.random.normal(own, x.shape)

    ours = graphc.jit(step)
    for n in (3, 4, 5):
        (key, x), (other, y) = (f(jax.random.key(1), vector(n)) for f in (ours, step))
        assert key.dtype == other.dtype
        assert (jax.random.key_data(key) == jax.random.key_data(other)).all()
        np.testing.assert_allclose(x, y, rtol=1e-6)
    assert ours.stats().fallbacks == []


def test_few_compilations_serve_many_sizes():
    ours = graphc.jit(lambda x: jnp.mean(jax.nn.softmax(x) * x))
    for n in range(2, 60):
        ours(vector(n))
    assert len(ours.stats().compilations) <= 7
    assert ours.stats().calls == 58


def test_axes_that_were_equal_may_differ_later():
    ours = graphc.jit(lambda x, y: jnp.sum(x) * jnp.sum(y))
    for n, m in [(3, 3), (4, 4), (5, 5), (4, 6), (7, 2)]:
        same(ours(vector(n), vector(m)), jnp.sum(vector(n)) * jnp.sum(vector(m)))
    assert "sizes of x (n,), y (m,)" in ours.explain(full=True)
    assert ours.stats().fallbacks == []


def test_transformations_of_jax_see_the_function_itself():
    def cost(x):
        return jnp.sum(jax.nn.relu(x) ** 2)

    ours = graphc.jit(cost)
    for n in (3, 4):
        ours(vector(n))
    x = vector(5) - 2
    for way in (jax.grad, jax.jit, lambda f: jax.vmap(f), jax.checkpoint, jax.hessian):
        given = np.stack([x, x]) if way not in (jax.grad, jax.jit, jax.hessian) else x
        np.testing.assert_allclose(way(ours)(given), way(cost)(given))
    assert str(jax.make_jaxpr(ours)(x)).count("custom_jvp_call") == 1
    assert jax.eval_shape(ours, x).shape == ()
    assert jax.jit(lambda: ours(x))() == cost(x)  # no argument is traced


def test_what_a_function_closes_over_may_be_traced():
    def outer(w):
        return jnp.sum(graphc.jit(lambda x: x * w)(vector(3)))

    assert jax.grad(outer)(2.0) == vector(3).sum()


def test_large_arrays_from_outside_are_no_text():
    table = jnp.asarray(np.random.default_rng(0).normal(size=(300, 2)), "float32")
    ours = graphc.jit(lambda i: jnp.sum(table[i]))
    for n in (3, 4, 5):
        at = np.arange(n)
        np.testing.assert_allclose(ours(at), jnp.sum(table[:n]), rtol=1e-5)
    assert len(ours.source) < 20_000 and ours.stats().fallbacks == []


def test_python_that_decides_by_a_size_is_noticed():
    def special(x):
        return jnp.sum(x) if x.shape[0] != 7 else jnp.max(x)

    ours = graphc.jit(special)
    for n in (4, 7, 5, 7):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert ours(vector(n)) == special(vector(n))


def test_sizes_compared_with_numbers_have_a_program_for_each_answer():
    ours = graphc.jit(lambda x: jnp.sum(x) if x.shape[0] > 3 else jnp.max(x))
    for n in (20, 30, 40, 3, 50):
        assert ours(vector(n)) == (vector(n).sum() if n > 3 else n)
    assert ours.stats().fallbacks == []
    assert sum(c.program.startswith("exactly") for c in ours.stats().compilations) == 1


def test_there_is_one_warning_where_each_size_is_compiled():
    def unrolled(x):
        return sum(x[i] * 2 if i.bit_count() % 2 else x[i] for i in range(x.shape[0]))

    ours = graphc.jit(unrolled)
    with pytest.warns(graphc.FallbackWarning) as told:
        assert [ours(vector(n)) for n in (2, 3, 4)] == [
            unrolled(vector(n)) for n in (2, 3, 4)
        ]
    assert len(told) == 1
    start = "unrolled is compiled once for each size, as by jax.jit, unless two take"
    assert str(told[0].message).startswith(start)
    (reason,) = ours.stats().fallbacks
    assert reason in ours.explain(full=True)


def test_an_unknown_primitive_is_compiled_by_jax():
    def told(x):
        jax.debug.inspect_array_sharding(x, callback=str)
        return x * 2

    ours = graphc.jit(told)
    with pytest.warns(graphc.FallbackWarning, match="is not known here"):
        for n in (2, 3):
            same(ours(vector(n)), jax.jit(told)(vector(n)))


def test_errors_are_those_of_jax():
    def broken(x, y):
        return x @ y

    ours, theirs = graphc.jit(broken), jax.jit(broken)
    ours(vector(3), vector(3))
    ours(vector(4), vector(4))
    for args in [(vector(3), vector(4)), (vector(2), "text"), (vector(2),)]:
        with pytest.raises(Exception) as wanted:  # of any class
            theirs(*args)
        with pytest.raises(type(wanted.value)) as found, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours(*args)
        first = [str(e.value)[:60] for e in (found, wanted)]
        assert first[0] == first[1]


def test_axes_can_be_named():
    def distances(x, w):
        return (x - w) ** 2 @ jnp.ones(w.shape)

    stats = compare(distances, ["n 3", "3"], (4, 1, 6), shapes="n d, d -> n").stats()
    alone = [c for c in stats.compilations if c.program == "x (1, d), w (d,)"]
    assert len(alone) == 1
    each = graphc.jit(distances, shapes=("n _", "..."))
    x = np.ones((4, 3), "float32")
    same(each(x, vector(3)), distances(x, vector(3)))


WRONG = {
    "n": ("it describes 1 arrays, not 2", ""),
    "n d, d, m": ("it describes 3 arrays, not 2", " m"),
    "n d, d d -> n": ("'d d' names 2 axes, the array has 1: (3,)", "d d"),
    "n 4, d": ("the axis has the size 3", "4"),
    "n n!, d": ("'n!' is not a name, a number or a formula like n+1", "n!"),
    "d e, d": ("d was 4 before, and the axis has the size 3", "d"),
    "n d, d -> n n": ("'n n' names 2 axes, the array has 1: (4,)", "n n"),
    "n, d -> n": ("'n' names 1 axis, the array has 2: (4, 3)", "n"),
    "n d, d ->": ("'' names 0 axes, the array has 1: (4,)", "'"),  # no word is there
    "max(n,3), d -> n": (
        "an axis is a name, a number or a formula like n+1: no brackets",
        "max(n",
    ),
    "n d, d -> n, d": ("it describes 2 arrays, not 1", " d"),
    "n d, d -> 5": ("the axis has the size 4", "5"),
    "n m, m -> m": ("m was 3 before, and the axis has the size 4", "m"),
}


@pytest.mark.parametrize("shapes", WRONG)
def test_words_that_do_not_fit_are_told_and_underlined(shapes):
    ours = graphc.jit(lambda x, w: x @ w, shapes=shapes)
    with pytest.raises(graphc.GraphError) as error:
        ours(np.ones((4, 3), "float32"), vector(3))
    problem, word = WRONG[shapes]
    first, got, *more = str(error.value).splitlines()
    assert first == f"jit: `shapes` does not fit: {problem}"
    assert got == f"  got: shapes={shapes!r}"
    if word:
        line = more[0]
        assert got[line.index("^") : line.rindex("^") + 1] == word
    if problem.endswith(f"before, and the axis has the size {problem[-1]}"):
        assert more[0].index("^") == got.rindex(word)  # the last of several


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_results_are_compared_with_the_words_at_the_first_sizes(frontend):
    twice = graphc.jit(
        lambda x: {"a": x * 2, "b": x.sum()}, shapes="n -> n, ()", frontend=frontend
    )
    pairs = graphc.jit(
        lambda x: x[:, None] * x[:3], shapes="n -> n n", frontend=frontend
    )
    for n in (3, 4):
        np.testing.assert_allclose(twice(vector(n))["b"], vector(n).sum())
    assert pairs(vector(3)).shape == (3, 3)  # sizes that happen to fit the words
    for _ in range(2):
        with pytest.raises(graphc.GraphError, match="n was 4 before"):
            pairs(vector(4))


def test_results_that_do_not_fit_are_told_before_anything_is_compiled():
    ours = graphc.jit(lambda x: (x * len(x), x.sum()), shapes="n -> n, _")
    for n in (3, 1, 4, 2, 40, 3):
        with pytest.raises(graphc.GraphError, match="'_' names 1 axis"):
            ours(vector(n))
    assert ours.stats().compilations == []


def test_words_in_a_structure_are_underlined():
    ours = graphc.jit(lambda b: b["x"] @ b["w"], shapes=({"w": "n", "x": "n n"},))
    with pytest.raises(graphc.GraphError) as error:
        ours({"x": np.ones((4, 3), "float32"), "w": vector(3)})
    got, line = str(error.value).splitlines()[1:3]
    assert "n was 3 before, and the axis has the size 4" in str(error.value)
    assert line.index("^") == got.index("n n")


def test_an_axis_that_the_function_has_fixed_is_told():
    weights = jnp.ones((3, 2))

    def layer(x):
        return jnp.tanh(x @ weights)

    ours = graphc.jit(layer, shapes="n d")
    with pytest.warns(graphc.FallbackWarning) as told:
        for n in (4, 5, 6):
            x = np.ones((n, 3), "float32")
            same(ours(x), layer(x))
    assert [w.message.args[0] for w in told] == [
        "layer takes only 3 for the axis d, which does not vary: write 3 or _ in "
        "`shapes`"
    ]
    assert told[0].filename == __file__ and ours.stats().fallbacks == []
    assert "x (n, 3)" in ours.explain()


def test_a_size_that_varies_alone_makes_one_segment():
    def step(w, x):
        return {k: v - jnp.sum(jnp.tanh(x * v)) for k, v in w.items()}

    w = {str(i): jnp.float32(i) for i in range(8)}
    ours = graphc.jit(step)
    for n in (8, 11, 6, 15, 9, 13, 20, 7):
        same(ours(w, vector(n)), step(w, vector(n)))
    stats = ours.stats()
    assert len(stats.compilations) <= 4 and "took 2 sizes" in stats.changes[0]
    assert stats.compilations[0].program == (
        "exactly w_0 (), w_1 (), w_2 (), w_3 (), ..., x (8,)"
    )
    assert stats.compilations[1].program == "..., x (n,)"


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_a_second_size_is_padded_at_once(dims):
    """Only the program of the first size serves a single size."""
    ours = graphc.jit(jnp.tanh, dims=dims)
    for n in (300, 70, 65, 127, 300, 200):
        same(ours(vector(n)), jnp.tanh(vector(n)))
    exact, *padded = ours.stats().compilations
    assert exact.program == "exactly x (300,)" and len(padded) == 2  # at 128 and 256
    assert ours(vector(5)).shape == (5,)  # at 64, the least size seen when it was made
    assert "from 256 to 64" in ours.stats().compilations[-1].reason


@pytest.mark.parametrize("dims", ["auto", "pad"])
def test_axes_that_vary_together_are_compiled_once_for_each_capacity(dims):
    ours = graphc.jit(lambda x, y: jnp.exp(x[:, None] - y), dims=dims)
    for n in (20, 30, 60, 40, 100, 70, 128, 25):
        args = vector(n) / n, vector(n + n // 2) / n
        same(ours(*args), jnp.exp(args[0][:, None] - args[1]))
    assert len(ours.stats().compilations) == 1 + 3


def test_importing_graphc_does_not_import_jax():
    code = "import sys, graphc; print('jax' in sys.modules, graphc.jit.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.split() == ["False", "jit"], run.stderr


def test_a_size_of_its_own_between_others_takes_one_search():
    """Calls alternate between the first size, which JAX dispatches, and others."""
    f = graphc.jit(lambda x: jnp.sum(x * 2), dims="pad")
    calls = [5, 7, 9] * 5 + [5, 5, 5, 7, 7, 5]
    for n in calls:
        same(f(vector(n)), 2 * jnp.sum(vector(n)))
    assert f.stats().calls == len(calls)
    known = len(f.stats().compilations)
    jax.clear_caches()
    for n in (7, 5, 9, 5, 5):
        same(f(vector(n)), 2 * jnp.sum(vector(n)))
    assert f.stats().calls == len(calls) + 5
    again = len(f.stats().compilations) - known
    assert again <= 2  # since JAX forgot its programs
