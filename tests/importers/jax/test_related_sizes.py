"""Sizes that follow from one another share a symbol, as seen in calls or declared."""

import warnings

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
from graphc.importers.jax.sizes.pattern import SizePattern, common_pattern
from tests.importers.jax.comparing import outcomes_by_jax


def arrays(shapes):
    return [
        (np.arange(np.prod(shape, dtype=int)) % 7 + 1.0)
        .reshape(shape)
        .astype("float32")
        for shape in shapes
    ]


def compiled(function, calls, **options):
    """Compare with JAX at each call, without warnings; return the compilations."""
    ours = graphc.jit(function, **options)
    expected = outcomes_by_jax(function, {shapes: arrays(shapes) for shapes in calls})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shapes in calls:
            own, other = ours(*arrays(shapes)), expected[shapes]
            assert own.dtype == other.dtype and own.shape == other.shape
            np.testing.assert_allclose(own, other, rtol=1e-5)
    assert ours.stats().fallbacks == []
    return [one.program for one in ours.stats().compilations]


def differences(x, y):
    return jnp.diff(x) * y


def pairs(x, y):
    return jnp.sum(x.reshape(-1, 2) * y[:, None], axis=1)


def parts(x, y, z):
    return x + jnp.concatenate([y, z])


def table(x, y, z):
    return x.reshape(y.shape[0], z.shape[0]) * z + y[:, None]


N, M = range(4, 10), (3, 5, 2, 9, 3, 4)
RELATED = {
    "n+1, n": (differences, [((n + 1,), (n,)) for n in N]),
    "2*n, n": (pairs, [((2 * n,), (n,)) for n in N]),
    "n, m, n-m": (parts, [((n + 5,), (n,), (5,)) for n in N]),
    "n*m, n, m": (
        table,
        [((n * m,), (n,), (m,)) for n, m in zip(N, (3, 5, 2, 9, 3, 4), strict=True)],
    ),
    "n, n//2": (lambda x, y: y * jnp.sum(x), [((n,), (n // 2,)) for n in N]),
}


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize("shapes", RELATED)
def test_formulas_are_words_of_shapes(shapes, dims):
    function, calls = RELATED[shapes]
    assert len(compiled(function, calls, shapes=shapes, dims=dims)) <= 2


@pytest.mark.parametrize("dims", [None, "pad"])
@pytest.mark.parametrize(
    ("shapes", "told"), [("n+1, n", "x (n + 1,)"), ("2*n, n", "x (2 * n,)")]
)
def test_sizes_related_in_the_first_calls_are_one_symbol(shapes, told, dims):
    found = compiled(*RELATED[shapes], dims=dims)
    assert found[1] == f"{told}, y (n,)" and len(found) <= 3


def test_a_relation_that_breaks_is_another_pattern():
    calls = [((n,), (m,)) for n, m in [(3, 6), (4, 8), (5, 9), (6, 6), (7, 14), (1, 2)]]
    calls += [((0,), (0,)), ((2,), (1,)), ((1,), (0,))]

    def decided(x, y):
        return jnp.sum(x) * (3 if y.shape[0] == 2 * x.shape[0] else 1) + jnp.sum(y)

    found = compiled(decided, calls)
    assert found[0].startswith("exactly")
    assert {*found[1:]} >= {"x (n,), y (2 * n,)", "x (n,), y (m,)"}


def test_small_sizes_are_apart_where_a_formula_is_small():
    found = compiled(
        lambda x, y: jnp.sum(x) * jnp.sum(y),
        [((n,), (n - 1,)) for n in (5, 6, 2, 1, 3, 4)],
    )
    assert {"exactly x (2,), y (1,)", "exactly x (1,), y (0,)"} <= {*found}


WORDS = {
    "none": {},
    "padded": {"dims": "pad"},
    "shapes": {"shapes": "m n -> m n"},
    "policies": {"shapes": "m n", "dims": {"m": "pad", "n": "pad"}},
}


@pytest.mark.parametrize("start", [[(3, 5), (4, 9)], [(1, 6), (1, 8)], [(0, 3)]])
@pytest.mark.parametrize("words", WORDS)
def test_sizes_beside_an_axis_of_one_element_share_programs(start, words):
    """Such as batches of one sequence: JAX traces axes of one element specially."""
    sizes = [*start, *[(1, n) for n in (4, 7, 9, 11, 15)], *[(n, 1) for n in (9, 7, 5)]]
    found = compiled(
        lambda x: jnp.sum(x) + x, [(shape,) for shape in sizes], **WORDS[words]
    )
    of_rows = [text for text in found if text.startswith(("x (1,", "exactly x (1,"))]
    assert "x (1, n)" in of_rows
    assert len(of_rows) <= 2
    assert sum("1)" in text for text in found) <= 2


def test_a_size_that_follows_from_a_small_one_does_not_vary_beside_it():
    def function(x, y):
        return jax.lax.scan(lambda c, row: (c + row[0], c), 0.0, (x, y[1:]))[1]

    sizes = (5, 9, 1, 7, 1, 0)
    found = compiled(function, [((n,), (n + 1,)) for n in sizes])
    assert {"exactly x (1,), y (2,)", "x (n,), y (n + 1,)"} <= {*found}


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ([((3,), (4,)), ((5,), (6,))], "n, n+1"),
        ([((4,), (3,)), ((6,), (5,))], "n+1, n"),
        ([((8,), (2,), (5,)), ((12,), (3,), (5,))], "4*n, n, 5"),
        ([((3,), (6,)), ((4,), (8,)), ((5,), (9,))], "n, m"),
        ([((3,), (9,)), ((0,), (0,))], "n, m"),
        ([((2, 3),), ((4, 7),)], "n m"),
    ],
)
def test_patterns_of_calls(seen, text):
    pattern = common_pattern(seen)
    assert str(pattern) == text
    assert all(pattern.sizes_if_fit(shapes) is not None for shapes in seen)


def test_the_sizes_of_names_follow_from_formulas():
    pattern = SizePattern((("n + m",), ("2 * n + 1",)))
    assert pattern.names == ["n", "m"]
    assert pattern.sizes(((9,), (7,))) == {"n": 3, "m": 6}
    assert pattern.sizes_if_fit(((9,), (8,))) is None
    assert pattern.fixed("n", 3).shapes == (("3 + m",), (7,))


@pytest.mark.parametrize("formula", ["2*n", "floordiv(n, 2)", "n + 1"])
def test_names_of_a_type_may_stand_in_a_formula_alone(formula):
    size = jax.export.symbolic_shape(formula)
    graph = graphc.from_jax(lambda x: 2 * x, jax.ShapeDtypeStruct(size, "float32"))
    (n,) = graph.inputs[0].type.shape
    assert [s.name for s in n.symbols] == ["n"]
    assert graph.outputs[0].type.shape == (n,)


WRONG = {
    "n+, n": ("'n+' is not a name, a number or a formula like n+1", "n+"),
    "n, n**2": ("'n**2' is not a name, a number or a formula like n+1", "n**2"),
    "n, n//0": ("'n//0' is not a name, a number or a formula like n+1", "n//0"),
    "n//2, 3": ("n is not known: give an axis this name alone", "n//2"),
    "n+1, n": ("n was 3 before, and the axis of n+1 has the size 5", "n+1"),
    "2*n, 3": ("the axis of 2*n has the size 5", "2*n"),
}


@pytest.mark.parametrize("shapes", WRONG)
def test_words_that_do_not_fit_are_underlined(shapes):
    problem, word = WRONG[shapes]
    ours = graphc.jit(lambda x, y: jnp.sum(x) + jnp.sum(y), shapes=shapes)
    with pytest.raises(graphc.GraphError) as error:
        ours(*arrays([(5,), (3,)]))
    first, got, mark, *_ = str(error.value).splitlines()
    assert first == f"jit: `shapes` does not fit: {problem}"
    at = mark.index("^")
    assert got[at : at + mark.count("^")] == word


def test_formulas_describe_results():
    ours = graphc.jit(jnp.diff, shapes="n+1 -> n")
    np.testing.assert_array_equal(ours(np.arange(4.0)), np.ones(3))
    wrong = graphc.jit(jnp.diff, shapes="n -> n+1")
    with pytest.raises(graphc.GraphError, match="the axis of n\\+1 has the size 3"):
        wrong(np.arange(4.0))


def test_numpy_functions_have_related_sizes():
    @graphc.jit(frontend="numpy", backend="numpy", shapes="n+1, n")
    def moved(x, y):
        return x[1:] * y

    for n in (3, 4, 6):
        np.testing.assert_array_equal(moved(np.ones(n + 1), np.ones(n)), np.ones(n))
    assert moved.explain().count("compiled for all sizes of x (n + 1,), y (n,):") == 1


def test_small_sizes_share_programs_beside_policies_of_sizes_in_order():
    """Each size beside an axis of one element used to be compiled by itself."""
    f = graphc.jit(lambda x, y: (x[:, None] * y).sum(), dims={"n": "pad", "m": "pad"})
    for i in range(2, 30):
        x, y = np.ones(1 if i % 2 else i, "float32"), np.ones(60 - i, "float32")
        assert f(x, y) == x.size * y.size
    assert len(f.stats().compilations) <= 9
    texts = {c.program for c in f.stats().compilations}
    assert any("(1,)" in text and "(m,)" in text for text in texts)
