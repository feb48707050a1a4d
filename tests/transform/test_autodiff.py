"""The engine of derivatives: structures, messages, masks, higher orders, depth."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.op import GRADIENTS, PRIMITIVES
from graphc.ir.graph.walk import ancestors


def value(outputs, given):
    """The outputs on NumPy for a dict from inputs to arrays."""
    run = graphc.function(list(given), outputs, backend="numpy")
    with np.errstate(all="ignore"):
        return run(*given.values())


def x64(function, *args):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(function)(*args))


def vector(name="x", n="n"):
    return gt.tensor(name, "float64", (n,))


X = np.array([0.5, -1.25, 2.0])
NAN, INF = np.nan, np.inf


# Structures.


Pair = namedtuple("Pair", "first second")


def test_a_value_a_list_a_tuple_and_nested_dicts():
    x, y = vector("x"), vector("y")
    cost = gt.sum(x * x * y)
    g = graphc.grad(cost, x)
    assert isinstance(g, graphc.Value)
    assert g.type == x.type

    as_list = graphc.grad(cost, [x, y])
    as_tuple = graphc.grad(cost, (y,))
    as_dict = graphc.grad(cost, {"b": {"y": y}, "a": [x, (y,)]})
    assert isinstance(as_list, list) and isinstance(as_tuple, tuple)
    assert list(as_dict) == ["b", "a"] and isinstance(as_dict["a"][1], tuple)
    assert as_list[0] is g and as_dict["a"][0] is g
    assert as_list[1] is as_tuple[0] is as_dict["b"]["y"] is as_dict["a"][1][0]


def test_named_tuples_stay_what_they_are():
    x, y = vector("x"), vector("y")
    found = graphc.grad(gt.sum(x * y), Pair(x, y))
    assert isinstance(found, Pair)
    assert found.first is not found.second


def test_empty_structures():
    x = vector()
    assert graphc.grad(gt.sum(x), []) == []
    assert graphc.grad(gt.sum(x), {}) == {}


@pytest.mark.parametrize("bad", [3, "x", np.ones(3), [1.0]])
def test_only_values_can_be_differentiated_in(bad):
    with pytest.raises(graphc.GraphError, match="needs a symbolic value, or a list"):
        graphc.grad(gt.sum(vector()), bad)


def test_what_to_differentiate_in_is_said():
    with pytest.raises(graphc.GraphError) as caught:
        graphc.grad(gt.sum(vector()), None)
    text = str(caught.value).split("\n  at ")[0]
    assert text == "grad: an argument is missing\n  expected: graphc.grad(y, x)"


def test_value_and_grad():
    x = vector()
    cost = gt.sum(x**3)
    same, g = graphc.value_and_grad(cost, x)
    assert same is cost
    assert g is graphc.grad(cost, x)


# The values to differentiate in.


def test_inner_values():
    x = vector()
    y = gt.sin(x)
    cost = gt.sum(y * y)
    found = value(graphc.grad(cost, y), {x: X})
    np.testing.assert_allclose(found, 2 * np.sin(X))


def test_a_value_given_twice_gets_its_gradient_twice():
    x = vector()
    first, second = graphc.grad(gt.sum(x * x), [x, x])
    assert first is second
    np.testing.assert_allclose(value(first, {x: X}), 2 * X)


def test_values_upstream_of_each_other_get_total_derivatives():
    x = vector()
    y = gt.exp(x)
    z = x * y
    found = value(graphc.grad(gt.sum(z * y), [x, y, z]), {x: X})
    e = np.exp(X)
    for got, expected in zip(found, [e * e * (1 + 2 * X), 2 * X * e, e], strict=True):
        np.testing.assert_allclose(got, expected)


def test_the_cost_itself():
    x = vector()
    cost = gt.sum(x)
    assert value(graphc.grad(cost, cost), {}) == 1


def test_the_gradient_keeps_dtype_and_shape():
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for shape in ((), (1,), (0, 3), ("n", 1, 2)):
            x = gt.tensor("x", dtype, shape)
            g = graphc.grad(gt.sum((x * 2.5).astype("float64")), x)
            assert g.type == x.type


def test_costs_may_be_of_another_dtype_than_inputs():
    x = gt.tensor("x", "float32", ("n",))
    y = gt.tensor("y", "float64", ("n",))
    found = graphc.grad(gt.sum(x * y), [x, y])
    a = X.astype("float32")
    gx, gy = value(found, {x: a, y: 2 * X})
    assert gx.dtype == "float32" and gy.dtype == "float64"
    np.testing.assert_allclose(gx, 2 * X)
    np.testing.assert_allclose(gy, X)


# Outputs that do not depend on an input.


def message(call):
    with pytest.raises(graphc.GraphError) as caught:
        call()
    lines = caught.value.args[0].splitlines()
    at = [i for i, line in enumerate(lines) if line.startswith("  at ")]
    assert at == [len(lines) - 1]  # the last line is the user's
    assert "test_autodiff.py" in lines[-1]
    return "\n".join(lines[:-1])


def test_disconnected_values_raise():
    x, y = vector("x"), vector("y")
    assert message(lambda: graphc.grad(gt.sum(x), [x, y])) == (
        "grad: the cost does not depend smoothly on y: "
        "nothing in the cost is computed from it\n"
        "  got: y: float64[n]\n"
        '  hint: leave it out, or ask for zeros: disconnected="zero"'
    )


def test_disconnected_by_an_integer_op():
    x = vector()
    cost = gt.sum((x > 0).astype("float64"))
    text = message(lambda: graphc.grad(cost, x))
    assert text.startswith(
        "grad: the cost does not depend smoothly on x: greater (test_autodiff.py:"
    )
    assert ") gives bool\n" in text


def test_disconnected_values_get_zeros_when_asked():
    x, y = vector("x"), vector("y", "m")
    k = gt.tensor("k", "int64", ("m",))
    found = graphc.grad(gt.sum(x * 2), [x, y, k], disconnected="zero")
    gx, gy, gk = value(found, {x: X, y: np.ones(4), k: np.ones(4, "int64")})
    assert (gx == 2).all()
    assert gy.shape == gk.shape == (4,) and not gy.any() and not gk.any()
    assert gy.dtype == "float64"
    assert gk.dtype == gt.zeros(()).dtype


def test_integers_have_no_gradient():
    x, k = vector(), gt.tensor("k", "int32", ())
    assert message(lambda: graphc.grad(gt.sum(x * k), [x, k])) == (
        "grad: the cost does not depend smoothly on k: "
        "it is int32, and only floats have gradients\n"
        "  got: k: int32[]\n"
        '  hint: leave it out, or ask for zeros: disconnected="zero"'
    )


def test_disconnected_is_one_of_two():
    x = vector()
    text = message(lambda: graphc.grad(gt.sum(x), x, disconnected="warn"))
    assert "got: 'warn'" in text and 'expected: "raise" or "zero"' in text


def test_constants_of_derivatives():
    x = vector()
    cost = gt.sum(x * graphc.stop_gradient(gt.sin(x)))
    np.testing.assert_allclose(value(graphc.grad(cost, x), {x: X}), np.sin(X))
    zero = graphc.grad(gt.sum(gt.floor(x)), x)
    assert not value(zero, {x: X}).any()


# Values that cannot be a cost.


def test_costs_are_real_scalars():
    x = vector()
    z = gt.tensor("z", "complex128", ())
    k = gt.tensor("k", "int64", ())
    assert message(lambda: graphc.grad(x * 2, x)) == (
        "grad: the cost is not a scalar\n"
        "  got: float64[n]\n"
        "  hint: reduce it: gt.sum(cost)"
    )
    assert message(lambda: graphc.grad(z * 2, z)) == (
        "grad: the cost is complex, and its gradient is not defined\n"
        "  got: complex128[]\n"
        "  hint: take gt.real(cost) or gt.abs(cost), or use graphc.vjp"
    )
    assert "the cost is not a float" in message(lambda: graphc.grad(k * 2, k))


def test_an_op_without_a_gradient_is_named_with_the_path(monkeypatch):
    monkeypatch.delitem(GRADIENTS.rules, PRIMITIVES["cbrt"])
    monkeypatch.setitem(GRADIENTS.reasons, PRIMITIVES["cbrt"], "a test forbids it")
    x = vector()
    y = gt.cbrt(gt.exp(x))
    cost = gt.sum(y * 3)
    text = message(lambda: graphc.grad(cost, x))
    head, got, hint = text.splitlines()
    assert head == "grad: there is no gradient through cbrt: a test forbids it"
    path = got.removeprefix("  got: a path ")
    names = [part.split()[0] for part in path.split(" <- ")]
    assert names == ["sum", "multiply", "cbrt"]
    assert got.count("test_autodiff.py:") == 3
    assert "graphc.stop_gradient" in hint


def test_an_input_without_a_gradient_is_named(monkeypatch):
    monkeypatch.setattr(PRIMITIVES["arctan2"], "no_gradient_for", {"y": "not that one"})
    x, y = vector("x"), vector("y")
    cost = gt.sum(gt.arctan2(x, y))
    assert graphc.grad(cost, x).type == x.type
    text = message(lambda: graphc.grad(cost, y))
    assert "no gradient through arctan2: in y: not that one" in text


# Branches not taken.


def masked(case):
    """A cost with a branch that might spoil the gradient, and the right gradient."""
    x = vector()
    positive = np.where(X > 0, 0.5 / np.sqrt(np.abs(X)), 0)
    return {
        "root": (x, gt.sum(gt.where(x > 0, gt.sqrt(x), 0)), positive),
        "reciprocal": (
            x,
            gt.sum(gt.where(x > 0, 1 / gt.where(x > 0, gt.log(x), 1), 0)),
            np.where(X > 0, -1 / (np.abs(X) * np.log(np.abs(X)) ** 2), 0),
        ),
        "other branch": (x, gt.sum(gt.where(x <= 0, 0, gt.sqrt(x))), positive),
        "twice": (
            x,
            gt.sum(gt.where(x > 0, gt.sqrt(x), 0) * gt.where(x > 0, gt.log(x), 2)),
            np.where(
                X > 0,
                0.5 * np.log(np.abs(X)) / np.sqrt(np.abs(X)) + 1 / np.sqrt(np.abs(X)),
                0,
            ),
        ),
        "through reshape": (
            x,
            gt.sum(gt.where(x > 0, gt.reshape(gt.sqrt(x[:, None]), (-1,)), 0)),
            positive,
        ),
        "chain": (
            x,
            gt.sum(gt.where(x > 0, gt.sqrt(2 * gt.exp(gt.log(x))), 0)),
            np.where(X > 0, np.sqrt(0.5 / np.abs(X)), 0),
        ),
    }[case]


CASES = ["root", "reciprocal", "other branch", "twice", "through reshape", "chain"]


@pytest.mark.parametrize("case", CASES)
def test_where_never_leaks(case):
    x, cost, expected = masked(case)
    found = value(graphc.grad(cost, x), {x: X})
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_missing_data_with_broadcasting():
    y, mu = gt.tensor("y", "float64", (4, 3)), vector("mu", 3)
    s = gt.tensor("s", "float64", (4, 1))
    cost = gt.sum(gt.where(gt.isnan(y), 0.0, ((y - mu) / s) ** 2))
    data = np.array([[1, NAN, 3], [NAN, 2, 1], [4, NAN, NAN], [0, 1, 2.0]])
    m, scale = np.array([0.5, 1, -1]), np.array([[1.0], [2], [0.5], [4]])
    found = graphc.grad(cost, [mu, s])
    gm, gs = value(found, {y: data, mu: m, s: scale})
    r = np.nan_to_num(data - m)
    np.testing.assert_allclose(gm, (-2 * r / scale**2).sum(0))
    expected = (-2 * r**2 / scale**3).sum(1, keepdims=True)
    np.testing.assert_allclose(gs, expected)


def test_nested_wheres():
    x = vector()
    root = gt.where(x > 0, gt.sqrt(x), 0)
    both = gt.where(x > 0.1, 1 / gt.where(x > 0.2, root, 1), gt.where(x < 0, x, 0))
    at = np.array([0.0, -1, 4, 0.15, 0.05])
    found = value(graphc.grad(gt.sum(both), x), {x: at})
    np.testing.assert_allclose(found, [0, 1, -0.5 * 4**-1.5, 0, 0])


def test_a_mask_goes_back_through_sums():
    x = gt.tensor("x", "float64", (3, 2))
    total = gt.sum(gt.sqrt(x), axis=1)
    cost = gt.sum(gt.where(gt.array([True, False, True]), total, 0.0))
    at = np.array([[1.0, 4], [-1, 0], [0.25, 16]])
    found = value(graphc.grad(cost, x), {x: at})
    np.testing.assert_allclose(found, [[0.5, 0.25], [0, 0], [1, 0.125]])


def test_a_value_used_inside_and_outside_a_branch():
    x = vector()
    y = gt.sqrt(x)
    cost = gt.sum(gt.where(x > 1, y, 0) + y * 2)
    at = np.array([0.25, 4.0])
    np.testing.assert_allclose(value(graphc.grad(cost, x), {x: at}), [2, 0.75])


def test_what_counts_is_not_hidden():
    """An infinite derivative where the branch is taken stays infinite."""
    x = vector()
    g = graphc.grad(gt.sum(gt.where(x >= 0, gt.sqrt(x), 0)), x)
    np.testing.assert_array_equal(value(g, {x: np.array([0.0, -1])}), [INF, 0])


def test_second_derivatives_do_not_leak():
    x = vector()
    cost = gt.sum(gt.where(x > 0, gt.sqrt(x), 0))
    found = value(graphc.hvp(cost, x, gt.ones_like(x)), {x: np.array([4.0, -1, 0])})
    np.testing.assert_allclose(found, [-0.25 * 4**-1.5, 0, 0])


# Special points.


def test_powers_at_zero():
    x, y = vector(), gt.tensor("y", "float64", ())
    zero = np.zeros(1)

    def slope(power):
        return value(graphc.grad(gt.sum(x**power), x), {x: zero})[0]

    assert (slope(0), slope(1), slope(2), slope(3)) == (0, 1, 0, 0)
    assert slope(0.5) == INF
    g = graphc.grad(gt.sum(x**y), [x, y])
    for exponent, expected in ((0.0, 0.0), (1.0, 1.0), (2.0, 0.0)):
        gx, gy = value(g, {x: zero, y: np.array(exponent)})
        assert gx[0] == expected and gy == 0


def test_negative_bases():
    x = vector()
    at = np.array([-2.0])
    assert value(graphc.grad(gt.sum(x**3), x), {x: at}) == 12
    y = gt.tensor("y", "float64", ())
    g = value(graphc.grad(gt.sum(x**y), x), {x: at, y: np.array(3.0)})
    assert g == 12


def test_roots_and_sizes_at_zero():
    x = vector()
    zeros = np.zeros(2)
    root = graphc.grad(gt.sum(gt.sqrt(x)), x)
    np.testing.assert_array_equal(value(root, {x: zeros}), [INF, INF])
    for size in (gt.linalg.norm(x), gt.hypot(x[0], x[1])):
        g = value(graphc.grad(size, x), {x: zeros})
        np.testing.assert_array_equal(g, zeros)


@pytest.mark.parametrize("function", ["maximum", "minimum"])
def test_ties_share(function):
    x, y = vector("x"), vector("y")
    found = graphc.grad(gt.sum(getattr(gt, function)(x, y)), [x, y])
    for g in value(found, {x: X, y: X.copy()}):
        np.testing.assert_array_equal(g, [0.5] * 3)


# Complex numbers: JAX's convention.


@pytest.mark.parametrize(
    "cost",
    [
        lambda np, z: np.real(np.sum(z * z * (1 + 2j))),
        lambda np, z: np.sum(np.abs(z) ** 2),
        lambda np, z: np.sum(np.real(z) * np.imag(np.exp(z))),
        lambda np, z: np.imag(np.sum(np.conj(z) * np.sin(z))),
    ],
)
def test_complex_gradients_are_jax_s(cost):
    z = gt.tensor("z", "complex128", ("n",))
    at = X + 1j * X[::-1]
    found = value(graphc.grad(cost(gt, z), z), {z: at})
    np.testing.assert_allclose(found, x64(jax.grad(lambda z: cost(jnp, z)), at))


def test_real_inputs_of_complex_results_have_real_gradients():
    x = vector()
    cost = gt.sum(gt.abs(gt.exp(1j * x) + x))
    g = graphc.grad(cost, x)
    assert g.type == x.type
    theirs = x64(jax.grad(lambda x: jnp.sum(jnp.abs(jnp.exp(1j * x) + x))), X)
    np.testing.assert_allclose(value(g, {x: X}), theirs)


# Products and higher orders.


def energy(np, x):
    return np.sum(np.sin(x) * x**2) + np.sum(x) ** 3 + np.sum(x[1:] * np.exp(x[:-1]))


def test_third_derivatives():
    x = gt.tensor("x", "float64", ())
    y = gt.sin(x) * x**4
    for _ in range(3):
        y = graphc.grad(y, x)
    theirs = jax.grad(jax.grad(jax.grad(lambda x: jnp.sin(x) * x**4)))
    np.testing.assert_allclose(value(y, {x: np.array(0.7)}), x64(theirs, 0.7))


def test_jvp_and_vjp_are_jax_s():
    x, v, ct = vector("x"), vector("v"), vector("ct")
    y = gt.cumsum(gt.sin(x)) * x
    given = {x: X, v: X[::-1].copy(), ct: X**2}
    pushed = value(graphc.pushforward(y, x, v), {x: X, v: given[v]})
    pulled = value(graphc.pullback(y, x, ct), {x: X, ct: given[ct]})

    def theirs(x):
        return jnp.cumsum(jnp.sin(x)) * x

    expected = x64(lambda: jax.jvp(theirs, (X,), (given[v],))[1])
    np.testing.assert_allclose(pushed, expected)
    expected = x64(lambda: jax.vjp(theirs, jnp.asarray(X))[1](given[ct])[0])
    np.testing.assert_allclose(pulled, expected)


def test_jvp_of_structures():
    x, y = vector("x"), vector("y")
    outputs = {"a": x * y, "b": [gt.sum(x)]}
    found = graphc.jvp(outputs, [x, y], [gt.ones_like(x), gt.zeros_like(y)])
    assert list(found) == ["a", "b"]
    a, b = value([found["a"], found["b"][0]], {x: X, y: X + 1})
    np.testing.assert_allclose(a, X + 1)
    assert b == 3


def test_products_check_their_vectors():
    x = vector()
    one = gt.tensor("one", "float32", ("n",))
    with pytest.raises(graphc.GraphError, match="1 cotangents for 2 values"):
        graphc.vjp([x, x * 2], x, [x])
    with pytest.raises(graphc.GraphError, match="a tangent does not have the type"):
        graphc.jvp(x * 2, x, one)
    with pytest.raises(graphc.GraphError, match="a cotangent does not have the type"):
        graphc.vjp(x * 2, x, gt.sum(x))


def test_jacobian_hessian_and_hvp_are_jax_s():
    x = vector()
    cost = energy(gt, x)
    v = vector("v")
    direction = np.array([1.0, -2, 0.5])
    hessian = value(graphc.hessian(cost, x), {x: X})
    theirs = x64(jax.hessian(lambda x: energy(jnp, x)), X)
    np.testing.assert_allclose(hessian, theirs)
    product = value(graphc.hvp(cost, x, v), {x: X, v: direction})
    np.testing.assert_allclose(product, theirs @ direction)

    y = gt.outer(gt.sin(x), x * x)
    jacobian = value(graphc.jacobian(y, x), {x: X})
    expected = x64(jax.jacobian(lambda x: jnp.outer(jnp.sin(x), x * x)), X)
    np.testing.assert_allclose(jacobian, expected)


def test_jacobians_of_structures():
    x, y = vector("x", 2), vector("y", 3)
    outputs = {"p": gt.outer(x, y), "s": gt.sum(x) * gt.sum(y)}
    found = graphc.jacobian(outputs, [x, y])
    shapes = {k: [v.type.shape for v in vs] for k, vs in found.items()}
    assert shapes == {"p": [(2, 3, 2), (2, 3, 3)], "s": [(2,), (3,)]}


def test_hessians_of_structures():
    x, y = vector("x", 2), vector("y", 3)
    cost = gt.sum(x) ** 2 * gt.sum(y * y)
    found = graphc.hessian(cost, {"x": x, "y": y})
    given = {x: np.array([1.0, 2]), y: X}
    got = value([found["x"]["y"], found["y"]["x"], found["y"]["y"]], given)
    assert [b.shape for b in got] == [(2, 3), (3, 2), (3, 3)]
    np.testing.assert_allclose(got[0], got[1].T)
    np.testing.assert_allclose(got[2], np.eye(3) * 18)


def test_jacobians_of_no_elements():
    x = vector("x", 0)
    found = value(graphc.jacobian(gt.sin(x), x), {x: np.zeros(0)})
    assert found.shape == (0, 0)


# The cost of the backward sweep.


def chain(length):
    x = gt.tensor("x", "float64", ())
    y = x
    for _ in range(length):
        y = gt.sin(y) * 1.01
    return x, y


def test_the_gradient_of_a_chain_is_linear_in_its_length():
    counts = []
    for length in (100, 200):
        x, y = chain(length)
        before = len(ancestors([y]))
        counts.append((before, len(ancestors([graphc.grad(y, x)]))))
    (n1, g1), (n2, g2) = counts
    assert g1 <= 4 * n1 + 10
    assert g2 - g1 <= 4 * (n2 - n1)


def test_deep_graphs_need_no_recursion():
    x, y = chain(12_500)
    assert len(ancestors([y])) > 25_000
    g = graphc.grad(y, x)
    assert len(ancestors([g])) <= 4 * len(ancestors([y])) + 10


def test_shared_values_are_visited_once():
    x = vector()
    y = x
    for _ in range(60):  # 2**60 paths
        y = y + y * 0.5
    g = graphc.grad(gt.sum(y), x)
    assert len(ancestors([g])) < 500
    np.testing.assert_allclose(value(g, {x: X}), [1.5**60] * 3)


def test_what_is_not_on_the_way_is_not_swept(monkeypatch):
    """An op without a gradient does not matter if it is off the path."""
    monkeypatch.delitem(GRADIENTS.rules, PRIMITIVES["cbrt"])
    x, y = vector("x"), vector("y")
    cost = gt.sum(x * gt.cbrt(y))
    g = value(graphc.grad(cost, x), {y: X})
    np.testing.assert_allclose(g, np.cbrt(X))
