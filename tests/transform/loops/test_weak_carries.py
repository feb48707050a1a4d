"""Carries and results of branches that are Python numbers behave as in `jax.lax`."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphError
from graphc.ir.config import default_float

DTYPES = ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32")
DTYPES += ("float64", "complex64", "complex128")
NUMBERS = (0, 1.5, 2j, True)

LOOPS = {
    "scan": lambda xp, x, s: xp.scan(lambda c, v: (c + v, c * v), s, x),
    "count": lambda xp, x, s: xp.scan(lambda c, v: (c + 1, v * c), s, x),
    "tree": lambda xp, x, s: xp.scan(
        lambda c, v: ({"a": c["a"] + v, "b": c["b"] * 2}, c["b"]), {"a": s, "b": s}, x
    ),
    "fori_loop": lambda xp, x, s: xp.fori_loop(0, 3, lambda i, c: c + x[0], s),
    "its index": lambda xp, x, s: xp.fori_loop(0, 3, lambda i, c: c + i * x[i], s),
    "while_loop": lambda xp, x, s: xp.while_loop(
        lambda c: c[1] < 3, lambda c: (c[0] + x[0], c[1] + 1), (s, 0)
    ),
    "operands of cond": lambda xp, x, s: xp.cond(
        x[0] == x[0], lambda c: c + x[0], lambda c: c * x[0], s
    ),
    "branches": lambda xp, x, s: xp.cond(x[0] == x[0], lambda: s, lambda: s) * x[0],
    "operands of switch": lambda xp, x, s: xp.switch(
        1, [lambda c: x[0] - c, lambda c: c * x[0], lambda c: x[0] + c], s
    ),
    "nested": lambda xp, x, s: xp.scan(
        lambda c, v: (xp.fori_loop(0, 2, lambda i, d: d + v, c), c), s, x
    ),
    "numbers within": lambda xp, x, s: xp.scan(
        lambda c, v: (xp.fori_loop(0, 2, lambda i, d: d + 1, c), c * v), s, x
    ),
    "the last carry": lambda xp, x, s: xp.fori_loop(0, 2, lambda i, c: c + 1, s) * x,
    "map": lambda xp, x, s: xp.map(lambda v: v + s, x),
}


def of_jax(dtype, number):
    """The types of JAX's results by loop, without those that it refuses."""
    x = jax.ShapeDtypeStruct((3,), dtype)
    types = {}
    for name, loop in LOOPS.items():
        try:
            types[name] = jax.eval_shape(
                lambda x, loop=loop: loop(jax.lax, x, number), x
            )
        except TypeError:
            continue
    return types


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_loops_have_the_dtypes_of_jax(dtype, number):
    with jax.enable_x64(True), default_float("float64"):
        types = of_jax(dtype, number)
        assert len(types) >= (len(LOOPS) if number is not True else 3)
        x = gt.tensor("x", dtype, ("n",))
        for name, type in types.items():
            pairs = zip(
                *map(jax.tree.leaves, (LOOPS[name](gt, x, number), type)), strict=True
            )
            assert all(own.dtype == theirs.dtype for own, theirs in pairs), name


# Each dtype with one of the numbers, and each number with several dtypes, since all
# pairs are tested for their types above. JAX refuses most of True.
VALUES = [(d, NUMBERS[i % 3]) for i, d in enumerate(DTYPES)]
VALUES += [("int8", True), ("float32", True)]


@pytest.mark.parametrize(("dtype", "number"), VALUES)
def test_loops_start_as_those_of_jax(dtype, number):
    with jax.enable_x64(True), default_float("float64"):
        names = of_jax(dtype, number)
        x = gt.tensor("x", dtype, ("n",))
        array = jnp.asarray([1, 2, 3]).astype(dtype)
        wanted = jax.jit(lambda x: [LOOPS[k](jax.lax, x, number) for k in names])(array)
        outputs = jax.tree.leaves([LOOPS[k](gt, x, number) for k in names])
        made = graphc.function([x], outputs, backend="numpy")(np.asarray(array))
        for own, theirs in zip(made, jax.tree.leaves(wanted), strict=True):
            assert own.dtype == theirs.dtype
            wide = [np.asarray(v).astype("complex128") for v in (own, theirs)]
            np.testing.assert_allclose(*wide, rtol=1e-2)


@pytest.mark.parametrize("number", [0, gt.inf, 1.5])
def test_both_backends_and_gradients_of_wide_rows(number):
    x = gt.tensor("x", "float64", ("n",))
    total, _ = gt.scan(lambda c, v: (gt.minimum(c + v, v * v), None), number, x)
    given = np.array([1.0, 2.0, 3.0])

    def by_jax(x):
        step = lambda c, v: (jnp.minimum(c + v, v * v), None)  # noqa: E731
        return jax.lax.scan(step, number, x)[0]

    with jax.enable_x64(True):
        wanted = jax.value_and_grad(by_jax)(jnp.asarray(given))
    for backend in ("numpy", "jax"):
        f = graphc.function([x], [total, graphc.grad(total, x)], backend=backend)
        for own, theirs in zip(f(given), wanted, strict=True):
            assert own.dtype == np.float64
            np.testing.assert_allclose(own, theirs)


def test_taps_look_back_at_numbers():
    x = gt.tensor("x", "float64", ("n",))
    sums = gt.scan_taps(operator.add, 0.0, x)
    assert sums.dtype == np.float64


def test_integers_that_are_carried_wrap_around():
    x = gt.tensor("x", "float32", ("n",))
    step = lambda c, v: (c * 6364136223846793005 + 1, v * (c % 7))  # noqa: E731
    found = graphc.function([x], gt.scan(step, 1, x), backend="numpy")
    with jax.enable_x64(True):
        wanted = jax.lax.scan(step, 1, jnp.ones(9, "float32"))
    for own, theirs in zip(found(np.ones(9, "float32")), wanted, strict=True):
        assert own.dtype == theirs.dtype
        np.testing.assert_array_equal(own, theirs)


def test_numbers_without_arrays_have_the_default_dtypes():
    ends = gt.fori_loop(0, 4, lambda i, c: (c[0] + 1, c[1] * 0.5), (0, 1))
    found = graphc.function([], list(ends), backend="numpy")()
    assert [v.dtype.name for v in found] == ["int64", "float32"]
    assert [v.item() for v in found] == [4, 1 / 16]


def test_a_body_is_traced_once_if_no_number_is_carried():
    x, traced = gt.tensor("x", "float32", ("n",)), []

    def body(c, v):
        traced.append(c)
        return c + v, None

    gt.scan(body, np.float32(0), x)
    assert len(traced) == 1


I = gt.tensor("i", "int32", ("n",))
P = gt.tensor("p", "bool", ())


def refusal(build):
    with pytest.raises(GraphError) as caught:
        build()
    lines = caught.value.args[0].splitlines()
    return [line for line in lines if " at " not in line[:5]]


def test_a_number_is_never_cut_to_the_dtype_before_it():
    start = I[0]
    text = refusal(lambda: gt.scan(lambda c, v: (2.5, None), start, I))
    assert text == [
        "scan: a step changes the type of the carry",
        "  got: weak float64[] after it",
        "  expected: int32[], as before it",
        '  hint: convert it, y.astype("int32"), or start from '
        'gt.asarray(start, "float64")',
    ]
    end, _ = gt.scan(lambda c, v: (2.5, None), gt.asarray(start, "float64"), I)
    assert end.dtype == np.float64


def test_branches_of_numbers_of_another_kind():
    text = refusal(lambda: gt.cond(P, lambda: 2.5, lambda: I[0]))
    assert text == [
        "cond: branches return different types in position 0",
        "  got: weak float64[] from branch 1",
        "  expected: int32[]",
        '  hint: convert it: gt.asarray(y, "int32")',
    ]
    chosen = gt.cond(P, lambda: 2, lambda: 2.5)
    f = graphc.function([P], chosen, backend="numpy")
    assert (f(True).item(), f(False).item()) == (2.0, 2.5)
    assert f(True).dtype == np.float32
