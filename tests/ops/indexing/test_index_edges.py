"""Edge cases of indices: masks of rank 0, steps of any sign, empty and full ranges.

They are compared with NumPy, in loops, under gradients and `vmap`, and under every
policy.
"""

import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

X = np.array([0.3, -1.1, 2.3, 0.7])


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_slices_with_bounds_and_steps_of_any_sign(backend):
    x, a, b, s = gt.vector("x"), gt.iscalar("a"), gt.iscalar("b"), gt.iscalar("s")
    forms = {
        "from": (lambda x, a, b, s: x[a::-1]),
        "to": (lambda x, a, b, s: x[:a:-2]),
        "both": (lambda x, a, b, s: x[a:b:-1]),
        "step": (lambda x, a, b, s: x[::s]),
        "all": (lambda x, a, b, s: x[a:b:s]),
        "from by": (lambda x, a, b, s: x[a::s]),
        "within": (lambda x, a, b, s: x[1:-1:s]),
    }
    made = {name: f(x, a, b, s) for name, f in forms.items()}
    sizes = {f"size of {name}": v.shape[0] for name, v in made.items()}
    run = graphc.function([x, a, b, s], made | sizes, backend=backend)
    rng = np.random.default_rng(0)
    for _ in range(300 if backend == "numpy" else 3):
        n, start, stop = rng.integers(0, 6), *rng.integers(-7, 8, 2)
        step = int(rng.choice([-3, -2, -1, 1, 2]))
        given = np.arange(n, dtype="float32") + 1
        found = run(given, start, stop, step)
        for name, f in forms.items():
            wanted = f(given, start, stop, step)
            where = f"{name} of {n}: [{start}:{stop}:{step}]"
            np.testing.assert_array_equal(found[name], wanted, err_msg=where)
            assert found[f"size of {name}"] == len(wanted), where
    with pytest.raises(graphc.CallError, match="a slice step cannot be 0: needs 1 <="):
        run(np.ones(3, "float32"), 0, 1, 0)


EDGES = {
    "mask": (lambda x, m, s: gt.sum(x[m] ** 2), lambda x, s: (x**2).sum()),
    "mask and new axis": (lambda x, m, s: x[None, m], lambda x, s: x[None, None]),
    "update by a mask": (lambda x, m, s: x.at[m].set(x * x), lambda x, s: x * x),
    "step": (lambda x, m, s: x[::s], lambda x, s: x[::s]),
    "backwards": (lambda x, m, s: gt.sum(x[s + 4 :: -1]), lambda x, s: x[2::-1].sum()),
    "crop": (lambda x, m, s: gt.pad(x, (-1, -1)), lambda x, s: x[1:-1]),
    "one count": (lambda x, m, s: gt.repeat(x, [2]), lambda x, s: np.repeat(x, 2)),
    "slope of a mask": (
        lambda x, m, s: graphc.grad(gt.sum(x[m] ** 2), x),
        lambda x, s: 2 * x,
    ),
    "slope of an update": (
        lambda x, m, s: graphc.grad(gt.sum(x.at[m].multiply(x) ** 2), x),
        lambda x, s: 4 * x**3,
    ),
    "slope of a step": (
        lambda x, m, s: graphc.grad(gt.sum(x[::s] ** 2), x),
        lambda x, s: np.where(np.arange(4) % 2, 2 * x, 0),
    ),
    "each of rank 0": (
        lambda x, m, s: graphc.vmap(lambda r: r.at[()].add(1.0)[True])(x),
        lambda x, s: x[:, None] + 1,
    ),
    "in a loop": (
        lambda x, m, s: gt.scan(
            lambda c, r: (c.at[...].add(r) + gt.sum(x[m]), x[::s] * r), x[0] * 0, x
        ),
        lambda x, s: (5 * x.sum(), x[:, None] * x[::s]),
    ),
    "chosen in a loop": (
        lambda x, m, s: gt.scan(lambda c, r: (c.at[r > 0].add(r), c[0]), x, x)[0],
        lambda x, s: x + x[x > 0].sum(),
    ),
}


POLICIES = {"each": {"n": graphc.Specialize()}, "pad": {"n": graphc.Pad()}}


@pytest.mark.parametrize("policy", [*POLICIES, "bound"])
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_indices_at_their_edges_under_every_policy(backend, policy):
    x, m = gt.tensor("x", "float64", ("n",)), gt.tensor("m", "bool", ())
    s = gt.iscalar("s")
    made = {name: ours(x, m, s) for name, (ours, _) in EDGES.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dims = POLICIES.get(policy, policy)
        run = graphc.function([x, m, s], made, backend=backend, dims=dims)
        for _ in range(2):
            found = run(X, np.True_, -2)
    for name, (_, theirs) in EDGES.items():
        got, wanted = found[name], theirs(X, -2)
        several = name == "in a loop"
        pairs = zip(got, wanted, strict=True) if several else [(got, wanted)]
        for one, value in pairs:
            np.testing.assert_allclose(np.asarray(one), value, 1e-12, err_msg=name)
            assert np.shape(one) == np.shape(value), name


@pytest.mark.parametrize("how", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_write_to_all_of_an_array_may_be_reversed(backend, how):
    """XLA aborts when it reverses the result of a scatter that writes every element."""
    x, v = gt.vector("x", "float64"), gt.vector("v", "float64")
    k, n = gt.iscalar("k"), x.shape[0]
    outputs = [
        getattr(x.at[k:], how)(v[k:])[::-1],
        getattr(x.at[::-1], how)(v[:n])[::-1],
        getattr(x[None].at[:, k:], how)(v[k:])[:, ::-1],
        getattr(gt.full_like(x, 3.0).at[k:], how)(v[k:])[::-1],
    ]
    f = graphc.function([x, v, k], outputs, backend=backend)
    a, b = np.array([1.0, 5.0, 3.0]), np.array([4.0, 2.0, 6.0])
    change = {"set": lambda a, b: b, "add": np.add, "multiply": np.multiply}
    change |= {"min": np.minimum, "max": np.maximum}
    for start in (0, 1):
        partly = np.concatenate([a[:start], change[how](a, b)[start:]])[::-1]
        turned = change[how](a, b[::-1])[::-1]
        threes = np.full(3, 3.0)
        filled = np.concatenate([threes[:start], change[how](threes, b)[start:]])
        expected = [partly, turned, partly[None], filled[::-1]]
        for found, wanted in zip(f(a, b, start), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_write_into_an_argument_is_printed_as_users_write_it():
    """XLA aborts only on writes into one repeated number; only that is avoided."""
    x, k = gt.vector("x", "float64"), gt.iscalar("k")
    source = graphc.function([x, k], x.at[k:].add(1.0)).source
    assert "x.at[k_size:].add(" in source
    assert "slice_update_jax" not in source
    filled = graphc.function([x, k], gt.ones_like(x).at[k:].add(1.0)).source
    assert "slice_update_jax" in filled


@pytest.mark.parametrize("index", [(), ..., None], ids=str)
@pytest.mark.parametrize("how", ["set", "add", "multiply", "min", "max"])
def test_a_constant_of_no_axes_is_updated_on_both_backends(how, index):
    """JAX programs once took a NumPy number for a JAX array."""
    x = gt.scalar("x", "float64")
    y = getattr(gt.constant(np.float64(2)).at[index], how)(x) * x
    outputs = [y, graphc.grad(y, x)]
    found = [graphc.function([x], outputs, backend=b)(3.0) for b in ("numpy", "jax")]
    expected = {"set": (9, 6), "add": (15, 8), "multiply": (18, 12)}
    expected |= {"min": (6, 2), "max": (9, 6)}
    for values in found:
        np.testing.assert_allclose(values, expected[how])


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("how", ["add", "multiply"])
def test_bools_are_added_and_multiplied_as_by_numpy(how, backend):
    x, i = gt.tensor("x", "bool", ("n",)), gt.tensor("i", "int32", ("k",))
    given, places = np.array([True, False, True, False]), np.array([0, 1, 1])
    function = getattr(np, how)
    for index in (i, 1, slice(1, None), ..., x):
        for value in (True, False):
            update = getattr(x.at[index], how)(value)
            f = graphc.function([x, i], update, backend=backend, unused="ignore")
            expected = given.copy()
            at = {id(i): places, id(x): given}.get(id(index), index)
            function.at(expected, at, value)
            np.testing.assert_array_equal(f(given, places.astype("int32")), expected)
