"""Functions that need sizes as numbers still get one program."""

import math
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import graphc
from graphc.importers.jax.sizes.formulas import Formula, fit_formula
from tests.importers.jax.comparing import by_turns, outcomes_by_jax

SIZES = (4, 5, 3, 12)


def vector(n):
    return np.arange(1, n + 1, dtype="float32")


def positions(x):
    """NumPy makes a table that is as long as the argument."""
    table = np.sin(np.arange(x.shape[0])[:, None] / np.power(100.0, np.arange(3)))
    return x[:, None] + table.astype("float32")


def scaled(x):
    return x / math.sqrt(x.shape[0]) * int(x.shape[0]) + len(x) // 2


def masked(x):
    n = x.shape[0]
    return jnp.where(np.tril(np.ones((n, n), bool)), x, 0.0).sum(1)


def halves(x):
    first, second = jnp.split(jnp.concatenate([x, x]), 2)
    return (first * second)[: x.shape[0] // 2], jnp.convolve(x, jnp.ones(3), "same")


def filled_up(x):
    return jnp.pad(x, (0, -x.shape[0] % 4)).reshape(-1, 4).sum(1)


def number_in_a_loop(x):
    """The number is used in a body, which is closed."""
    scale = float(np.log(x.shape[0]))

    def step(carry, v):
        return carry * scale + v, jax.jit(lambda u: u / scale)(carry)

    return lax.scan(step, 0.0, x)


def foreign_too(x):
    wave = lax.bitcast_convert_type(x * int(x.shape[0]), jnp.int16)
    return wave, jnp.fft.rfft(x)


def curves_of_one_length(x):
    """At size five, both inner functions are the same one."""
    return jnp.linspace(0, 1, len(x)) * x, jnp.linspace(0, 1, 5)


def curve(x):
    return jnp.sum(jnp.sin(x) / math.sqrt(x.shape[0]))


FUNCTIONS = (
    *(positions, scaled, masked, halves, filled_up, number_in_a_loop, foreign_too),
    curves_of_one_length,
    *(jax.value_and_grad(curve), graphc.value_and_grad(curve)),
)


OF_EACH_SIZE = FUNCTIONS[::3]  # their traces are put together in one way


@pytest.mark.parametrize(
    ("function", "dims"),
    [(f, "pad") for f in FUNCTIONS] + [(f, "specialize") for f in OF_EACH_SIZE],
)
def test_one_program_has_the_values_of_jax(function, dims):
    ours, sizes = graphc.jit(function, dims=dims), SIZES if dims == "pad" else SIZES[:3]
    expected = outcomes_by_jax(function, {n: (vector(n),) for n in sizes})
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in sizes:
            pairs = map(jax.tree.leaves, (ours(vector(n)), expected[n]))
            for a, b in zip(*pairs, strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert ours.stats().fallbacks == []
    assert any("(n," in c.program for c in ours.stats().compilations)


def test_the_axes_may_be_named_before_the_first_call():
    ours = graphc.jit(lambda x, y: jnp.outer(x, y) * int(x.size), shapes="n, m")
    for n, m in [(3, 4), (4, 4), (2, 7)]:
        np.testing.assert_allclose(
            ours(vector(n), vector(m)), np.outer(vector(n), vector(m)) * n
        )
    assert not any(c.program.startswith("exactly") for c in ours.stats().compilations)


def test_one_size_that_is_another_program_is_noticed():
    def special(x):
        return x * (3.0 if int(x.shape[0]) == 7 else 2.0) + jnp.sin(x)

    def other(x):
        return jnp.cos(x) if int(x.shape[0]) == 7 else jnp.sin(x)

    for function in (special, other):
        ours = graphc.jit(function)
        for n in (4, 5, 6, 8, 9, 7, 10):
            np.testing.assert_allclose(ours(vector(n)), function(vector(n)), rtol=1e-6)
        assert ours.stats().fallbacks == []


BY_NUMBERS = {
    "a root": lambda n: math.sqrt(n) > 3.2,
    "bits": lambda n: n & 3 == 1,
    "a quotient": lambda n: n / 4 > 3.0,
    "an index": lambda n: (0, 1, 1, 0)[n % 4],
}


@pytest.mark.parametrize("name", BY_NUMBERS)
def test_decisions_by_numbers_have_a_program_each(name):
    traces = []

    def function(x):
        traces.append(x.shape)
        return jnp.cumsum(x) if BY_NUMBERS[name](x.shape[0]) else x

    ours, sizes = graphc.jit(function, dims="pad"), (5, 9, 12, 6, 13, 17, 21, 18, 24)
    expected = outcomes_by_jax(function, {n: (vector(n),) for n in sizes})
    for n in sizes:
        np.testing.assert_array_equal(ours(vector(n)), expected[n])
    assert ours.stats().fallbacks == []
    assert len(traces) <= 3 * len(sizes)
    told = ours.explain()
    counts = re.findall(r"\(n,\) that are traced alike, in (\d+) calls?:", told)
    assert len(counts) == 2 and sum(map(int, counts)) == len(sizes) - 1
    at = function.__code__.co_firstlineno + 2, BY_NUMBERS[name].__code__.co_firstlineno
    lines = re.findall(r"traced and compared, since test_template.py:(\d+)\n", told)
    assert len(lines) == 2 and set(map(int, lines)) <= set(at)
    assert len({*re.findall(r"\n  so far for (n = \d+)", told)}) == 2


def test_sizes_that_were_decided_otherwise_spoil_no_formula():
    """At five, the steps are the same as at six, but none of the sizes are."""

    def function(x):
        return jnp.convolve(x, jnp.ones(4), "full" if int(len(x)) == 5 else "same")

    ours, theirs = graphc.jit(function), jax.jit(function)
    for n in (5, 6, 8, 9, 7):
        np.testing.assert_array_equal(ours(vector(n)), theirs(vector(n)))
    assert ours.stats().fallbacks == []


def table(x):
    """A matrix that is as long as the argument."""
    return jnp.outer(x, x[::-1] - 2)


# Functions of an integer that is not a size: an axis, a count, an exponent.
BY_AXES = {
    "broadcast_in_dim": lambda x, i: jnp.expand_dims(x, i),
    "transpose": lambda x, i: jnp.transpose(table(x)[None], (i, 1 - i, 2)),
    "squeeze": lambda x, i: jnp.squeeze(x[None, None], i),
    "rev": lambda x, i: jnp.flip(table(x), i),
    "reduce_sum": lambda x, i: table(x).sum(i),
    "reduce_max": lambda x, i: table(x).max(i),
    "reduce_and": lambda x, i: (table(x) > 0).all(i),
    "argmax": lambda x, i: table(x).argmax(i),
    "cumsum": lambda x, i: jnp.cumsum(table(x), i),
    "sort": lambda x, i: lax.sort(table(x), dimension=i),
    "keys of sort": lambda x, i: lax.sort((x // 3, -x), num_keys=1 + i),
    "concatenate": lambda x, i: jnp.concatenate([table(x), table(-x)], i),
    "split": lambda x, i: jnp.split(jnp.outer(x, x).repeat(2, i), 2, i),
    "dot_general": lambda x, i: jnp.tensordot(table(x), x, ((i,), (0,))),
    "gather": lambda x, i: jnp.take(table(x), jnp.array([1, 0]), i),
    "scatter": lambda x, i: jnp.zeros_like(table(x)).at[(..., 0)[1 - i :]].add(x),
    "iota": lambda x, i: lax.broadcasted_iota("int32", (len(x), len(x)), i),
    "integer_pow": lambda x, i: x ** (2 + i),
    "top_k": lambda x, i: lax.top_k(table(x), 2, axis=i),
    "vmap": lambda x, i: jax.vmap(jnp.cumsum, i, i)(table(x)),
    "in a loop": lambda x, i: lax.scan(lambda c, r: (c + r, table(c).sum(i)), x, x),
}


@pytest.mark.parametrize("name", BY_AXES)
def test_integers_that_are_no_sizes_follow_no_formula(name):
    """Traces that differ in an axis are never put together."""

    def function(x):
        return BY_AXES[name](x, int(x.shape[0]) // 2 % 2)

    calls = {n: (vector(n),) for n in (7, 10, 9, 6, 4)}
    ours = graphc.jit(function)
    results = {n: ours(*args) for n, args in calls.items()}
    for n, expected in outcomes_by_jax(function, calls).items():
        pairs = map(jax.tree.leaves, (results[n], expected))
        for a, b in zip(*pairs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert ours.stats().fallbacks == []


def test_a_function_that_does_something_else_at_each_size_is_traced_few_times():
    traces = []

    def function(x):
        traces.append(x.shape)
        return sum((jnp.sin(x) * k for k in range(int(x.shape[0]) // 3)), x)

    ours = graphc.jit(function, shapes="n")
    sizes = range(5, 13)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        for n in sizes:
            np.testing.assert_allclose(ours(vector(n)), function(vector(n)), rtol=1e-5)
    assert len(traces) <= 4 * len(sizes)


def correlated(x):
    """Correlate a vector with itself, by transforms of a power of two."""
    n = x.shape[0]
    length = 1 << (2 * n - 1).bit_length()
    spectrum = jnp.fft.rfft(x, length)
    return jnp.fft.irfft(spectrum * jnp.conj(spectrum), length)[:n]


def rounded_up(x):
    n = x.shape[0]
    return jnp.cumsum(jnp.pad(x, (0, 2 ** math.ceil(math.log2(n)) * 2 - n)))


def joined_up(x):
    missing = 2 ** math.ceil(math.log2(x.shape[0])) - x.shape[0]
    return jnp.concatenate([x, jnp.zeros(missing)]).reshape(2, -1).sum(0)


def doubling_steps(x):
    for k in range(int(math.log2(x.shape[0]))):
        x = x + jnp.roll(x, 2**k)
    return x


def doubling_steps_of_two(x, y):
    return doubling_steps(x)[:, None] * rounded_up(y)


OCTAVES = (5, 9, 7, 14, 12, 6, 17, 30, 21, 27, 10, 24)
OF_OCTAVES = (correlated, rounded_up, joined_up, doubling_steps)


@pytest.mark.parametrize(("function", "dims"), by_turns(OF_OCTAVES))
def test_numbers_that_are_one_for_an_octave_of_sizes_have_a_program_for_it(
    function, dims
):
    ours = graphc.jit(function, dims=dims)
    expected = outcomes_by_jax(function, {n: (vector(n),) for n in OCTAVES})
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in OCTAVES:
            a, b = ours(vector(n)), expected[n]
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-2)
    # One for the first size, three for the octaves, and two that began exactly.
    assert len(ours.stats().compilations) <= 6


def test_octaves_of_two_sizes_have_programs_together():
    ours = graphc.jit(doubling_steps_of_two, shapes="n, m", dims="pad")
    pairs = [(9, 9), (12, 14), (17, 12), (10, 13), (30, 9), (15, 16), (16, 15)]
    calls = {pair: tuple(map(vector, pair)) for pair in pairs}
    expected = outcomes_by_jax(doubling_steps_of_two, calls)
    for pair, args in calls.items():
        np.testing.assert_allclose(ours(*args), expected[pair], rtol=1e-5)
    assert len(ours.stats().compilations) == 3  # 16 and 17 have different capacities


@given(st.integers(-5, 5), st.integers(-40, 40), st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_bounds_of_a_formula_are_those_of_sizes_for_which_it_is_not_negative(
    times, shift, size
):
    formula = Formula(shift, ((("n",), times),) if times else ())
    lower, upper = formula.bounds("n")
    within = (lower is None or size >= lower) and (upper is None or size <= upper)
    assert within is (formula.at({"n": size}) >= 0) or not times
    assert formula.bounds("m") == (None, None)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_formulas_are_found_by_a_few_samples(data):
    """Formulas found from some sizes hold for others, if nothing is rounded."""
    numbers = st.integers(-3, 5)
    names = data.draw(st.sampled_from([("n",), ("n", "m")]))
    parts = tuple(((name,), data.draw(numbers)) for name in names)
    written = Formula(data.draw(numbers), parts)
    sizes = {name: data.draw(st.integers(2, 40)) for name in names}
    samples = [sizes, *({**sizes, k: 2 * n} for k, n in sizes.items())]
    found = fit_formula([written.at(s) for s in samples], samples)
    other = {name: data.draw(st.integers(2, 40)) for name in names}
    assert found.at(other) == written.at(other)


@pytest.mark.parametrize(
    "value",
    [
        lambda n, m: n // 2,
        lambda n, m: 3 * n * m + 1,
        lambda n, m: n * (n + 1) // 2,
        lambda n, m: n * n,
        lambda n, m: n % 3 + 4,
        lambda n, m: -n % 4,
        lambda n, m: -(-m // 64) * 64,
        lambda n, m: n // 3 * 3,
        lambda n, m: (n + 127) // 128,
        lambda n, m: -(-n // 8) * 24,
        lambda n, m: (3 * m + 1) // 2,
        lambda n, m: (n + m + 1) // 2 + 3,
        lambda n, m: (2 * n + m) // 3,
        lambda n, m: (n - m) // 2,
    ],
)
def test_formulas_of_rounded_sizes_and_of_products(value):
    samples = [{"n": n, "m": m} for n, m in [(4, 5), (8, 5), (4, 10), (7, 3), (9, 9)]]
    found = fit_formula([value(**s) for s in samples], samples)
    for n, m in [(5, 5), (16, 2), (31, 7)]:
        assert found.at({"n": n, "m": m}) == value(n, m)


@pytest.mark.parametrize(
    "value", [lambda n, m: n, lambda n, m: n + 1, lambda n, m: 3 * n - m + 4]
)
def test_sums_are_found_where_no_sample_differs_in_one_size_alone(value):
    samples = [{"n": n, "m": m} for n, m in [(6, 12), (6, 24), (2, 3)]]
    found = fit_formula([value(**s) for s in samples], samples)
    assert found.at({"n": 5, "m": 7}) == value(5, 7)


@pytest.mark.parametrize(
    "value", [lambda n, m: n, lambda n, m: m, lambda n, m: 2 * n + 1]
)
def test_sizes_that_no_sample_tells_apart_are_those_of_axes(value):
    """Formulas with division would fit two samples in many ways."""
    samples = [{"n": n, "m": m} for n, m in [(11, 2), (6, 3)]]
    found = fit_formula([value(**s) for s in samples], samples)
    assert found.at({"n": 31, "m": 17}) == value(31, 17)


@pytest.mark.parametrize(
    "shapes",
    [[(9, 3), (6, 8), (11, 2)], [(5, 6), (7, 1), (3, 1), (7, 2), (12, 2), (4, 4)]],
)
def test_steps_by_two_sizes_are_traced_where_few_are_alike(shapes):
    def function(x):
        k = abs(max(x.size, 2) - math.gcd(x.size, 6))
        while k > 3:
            k //= 2
            x = x + k
        return x.sum(0)

    f = graphc.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", graphc.FallbackWarning)
        for shape in shapes * 2:
            x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
            np.testing.assert_array_equal(f(x), function(x))


def test_a_first_size_that_is_unlike_all_others_is_compiled_alone():
    """The later sizes share one program, without a warning."""

    def function(x):
        return jnp.cumsum(x) if int(x.shape[0]) == 6 else x * int(x.shape[0])

    ours, theirs = graphc.jit(function, dims="pad"), jax.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error", graphc.FallbackWarning)
        for n in (4, 6, 5, 8, 7, 13):
            np.testing.assert_array_equal(ours(vector(n)), theirs(vector(n)))
    compiled = ours.stats().compilations
    assert sum(c.program.startswith("exactly") for c in compiled) == 2


def warned(function, sizes):
    """Call at these sizes; return the function, and each warning's size, file, text."""
    ours, theirs, told = graphc.jit(function), jax.jit(function), []
    for n in sizes:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", graphc.FallbackWarning)
            result = ours(vector(n))
        np.testing.assert_allclose(result, theirs(vector(n)), rtol=1e-5)
        told += [(n, w.filename, w.message.args[0]) for w in caught]
    return ours, told


def test_steps_that_differ_at_every_size_are_told_at_the_second():
    def unrolled(x):
        for i in range(int(x.shape[0])):
            x = x + (x.sum() if i.bit_count() % 2 else x.max())
        return x

    ours, told = warned(unrolled, (5, 6, 7, 8, 9, 10))
    ((n, place, text),) = told
    assert n == 6 and place == __file__
    before, after = text.split("it cannot be traced at sizes n: ")
    assert before == (
        "unrolled is compiled once for each size, as by jax.jit, unless two take the "
        "same steps: "
    )
    assert "test_template.py" in after  # the line that needs the number
    assert after.endswith("; traces at several sizes: its steps depend on the sizes")
    assert len(ours.stats().fallbacks) == 1


def test_a_size_that_is_unlike_others_of_two_kinds_is_no_reason_to_warn():
    def function(x):
        n = int(x.shape[0])
        return jnp.cumsum(x) if n == 6 else x * n + 1 if n < 5 else x * n

    _, told = warned(function, (4, 6, 7, 8, 13))
    assert told == []


def test_steps_that_differ_at_most_sizes_are_told_once():
    def unrolled(x):
        for i in range(max(1, int(x.shape[0]) - 7)):
            x = x + (x.sum() if i.bit_count() % 2 else x.max())
        return x

    _, told = warned(unrolled, (5, 6, 8, 12, 16, 20, 24, 28, 32))
    ((_, place, text),) = told
    assert place == __file__
    assert text == (
        "unrolled takes other steps at 3 sizes than at any other size that was "
        "tried; more such sizes are compiled once each, as by jax.jit"
    )


def test_single_sizes_that_are_asked_for_one_by_one_are_told_once():
    def by_size(x):
        return x * sum(k for k in range(30) if x.shape[0] == k)

    _, told = warned(by_size, range(3, 18))
    ((_, place, text),) = told
    assert place == __file__
    assert text.startswith("by_size asks for single sizes, of which 9 were met; more ")
    assert "It decides by x.shape[0] == " in text and "(test_template.py:" in text
