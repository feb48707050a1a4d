"""Options that have no meaning are errors at the line that decorates, everywhere."""

import jax.numpy as jnp
import numpy as np
import pytest

import graphc


def twice(x):
    return 2 * x


JIT = {
    "dims='padd'": "not a policy for sizes; did you mean 'pad'?\n  got: dims='padd'",
    "dims=3": "hint: capacities are dims={'n': graphc.Pad(buckets=[3])}",
    "dims=[16, 32]": "dims={'n': graphc.Pad(buckets=[16, 32])}",
    "dims={'k': 16}": "dims={'k': graphc.Pad(buckets=[16])}",
    "dims={'n': 'padd'}": "did you mean 'pad'?\n  got: dims={'n': 'padd'}",
    "dims={'n': None}": "not a policy for sizes\n  got: dims={'n': None}",
    "dims=graphc.Pad": "hint: graphc.Pad() makes one",
    "dims=graphc.Budget": "hint: graphc.Budget() makes one",
    "dims={'n': graphc.Budget()}": "a Budget is for all sizes together",
    "dims={0: 'pad'}": "got: 0\n  expected: the name of a size, as text",
    "rewrites='none'": "hint: rewrites=graphc.rewrites.none",
    "rewrites=None": "`rewrites` must be a set of rules\n  got: None",
    "backend='torch'": "backend cannot be 'torch'\n  expected: one of 'jax', 'numpy'",
    "frontend='torch'": "frontend cannot be 'torch'",
    "shapes=3": "`shapes` must be text, or a structure of texts",
    "shapes=['n', 3]": "got: shapes=['n', 3]",
}


def options(text):
    return eval(f"dict({text})", {"graphc": graphc})


@pytest.mark.parametrize("text", JIT)
def test_of_jit(text):
    told = options(text)
    frontends = ({}, {"frontend": "numpy"}) if "frontend" not in told else ({},)
    for frontend in frontends:
        with pytest.raises(graphc.GraphError) as caught:
            graphc.jit(twice, **told, **frontend)
        found = str(caught.value)
        assert found.startswith("jit: ") and JIT[text] in found
        assert f"at {__file__}" in found


def test_defaults_of_jax_say_nothing():
    names = ("device", "backend", "in_shardings", "out_shardings", "compiler_options")
    ours = graphc.jit(twice, **dict.fromkeys(names), keep_unused=False, inline=False)
    assert [float(ours(np.ones(n)).sum()) for n in (2, 3, 4)] == [4, 6, 8]
    assert len(ours.stats().compilations) == 2 and not ours.stats().fallbacks


OTHERS = {
    "ragged": {
        "backend='torch'": "backend cannot be 'torch'",
        "rewrites='none'": "hint: rewrites=graphc.rewrites.none",
        "pad=3": "got: pad=3\n  hint: pad=graphc.Pad(...)",
        "pad=graphc.Pad": "hint: pad=graphc.Pad(...)",
        "batch=0": "batch must be an integer of at least 1\n  got: 0",
        "batch='all'": "batch must be an integer of at least 1\n  got: 'all'",
        "total=1": "total cannot be 1\n  expected: True or False",
        "group='n'": "group cannot be 'n'",
    },
    "optimize": {"rewrites='none'": "hint: rewrites=graphc.rewrites.none"},
}


@pytest.mark.parametrize("door", OTHERS)
def test_of_other_doors(door):
    for text, message in OTHERS[door].items():
        with pytest.raises(graphc.GraphError) as caught:
            getattr(graphc, door)(twice, **options(text))
        found = str(caught.value)
        assert found.startswith(f"{door}: ") and message in found


def test_names_that_shapes_has_not():
    with pytest.raises(graphc.GraphError, match="names a size that the fun") as caught:
        graphc.jit(twice, shapes="n d", dims={"m": "pad"})
    assert "got: 'm'\n  expected: one of n, d\n" in str(caught.value)
    with pytest.raises(graphc.GraphError, match="Bound.. is for sizes that depend on"):
        graphc.jit(twice, shapes="n d", dims={"n": "bound"})


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
def test_names_that_graphc_makes(frontend):
    """Sizes get names once an axis varies: only then are unknown names reported."""
    ours = graphc.jit(twice, dims={"q": "pad"}, frontend=frontend)
    ours(np.ones(3))
    for n in (4, 5):
        with pytest.raises(graphc.GraphError, match="names a size that the") as caught:
            ours(np.ones(n))
        assert "expected: one of n, which is x.shape[0]\n" in str(caught.value)
        assert 'hint: shapes="n _" names axes' in str(caught.value)
    ours(np.ones(3))
    assert ours.stats().fallbacks == []


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
@pytest.mark.parametrize("first", [0, 1])
def test_names_that_follow_when_more_axes_vary(first, frontend):
    """A policy for the second size waits until there is one; there is no third."""
    xp = np if frontend == "numpy" else jnp
    ours = graphc.jit(
        lambda x, y: xp.sum(x) * y, dims={"n": "pad", "m": "pad"}, frontend=frontend
    )
    sizes = [3, 4]
    for axis in (first, first, 1 - first, 0, 1):
        n, m = sizes
        np.testing.assert_array_equal(ours(np.ones(n), np.ones(m)), np.full(m, n))
        sizes[axis] += 2
    assert ours.stats().fallbacks == []
    other = graphc.jit(lambda x, y: xp.sum(x) * y, dims={"k": "pad"}, frontend=frontend)
    other(np.ones(3), np.ones(4))
    with pytest.raises(graphc.GraphError, match="names a size that the") as caught:
        other(np.ones(5), np.ones(4))
    assert "expected: one of n, which is x.shape[0], m\n" in str(caught.value)


@pytest.mark.parametrize("frontend", ["jax", "numpy"])
@pytest.mark.parametrize("policy", ["pad", "auto", graphc.Pad(buckets=[8])])
def test_a_policy_for_one_name(policy, frontend):
    for more in ({"shapes": "n"}, {}):
        ours = graphc.jit(twice, dims={"n": policy}, frontend=frontend, **more)
        for n in (3, 1, 4, 5, 6, 9):
            np.testing.assert_array_equal(ours(np.ones(n)), [2] * n)
        assert len(ours.stats().compilations) < 6 and ours.stats().fallbacks == []


def test_counts_have_names_of_their_own():
    def chosen(x):
        return x[x > 0]

    ours = graphc.jit(chosen, frontend="numpy", dims={"chosen_count": "pad"})
    with pytest.raises(graphc.GraphError, match="names a size") as caught:
        for n in (3, 4):
            ours(np.ones(n))
    name = str(caught.value).split("expected: one of ")[1].split(",")[0]
    ours = graphc.jit(chosen, frontend="numpy", dims={name: "pad"})
    for n in (3, 4, 5):
        np.testing.assert_array_equal(ours(np.ones(n)), np.ones(n))


def test_examples_larger_than_all_capacities():
    ours = graphc.ragged(twice, pad=graphc.Pad(buckets=[4]))
    with pytest.raises(graphc.CallError, match="no bucket has room for 9: there are"):
        ours([np.ones(3), np.ones(9)])
    np.testing.assert_array_equal(ours([np.ones(3), np.ones(2)])[1], [2, 2])
