"""`check=True` also sees indices inside loops and branches."""

import numpy as np
import pytest

import graphc
import graphc.tensor as gt

X = gt.tensor("x", "float64", ("n",))
I = gt.tensor("i", "int64", ("k",))  # noqa: E741
ZERO = gt.constant(0.0, "float64")


def nested(c, k):
    return gt.scan(lambda d, m: (d + X[m] * X[k], None), c, I)[0], None


PROGRAMS = {
    "read": lambda: gt.scan(lambda c, k: (c + X[k], None), ZERO, I)[0],
    "write": lambda: gt.scan(lambda c, k: (c.at[k].add(1.0), gt.sum(c)), X, I)[1],
    "gradient": lambda: graphc.grad(
        gt.sum(gt.scan(lambda c, k: (c + X[k], c * X[k]), ZERO, I)[1]), X
    ),
    "nested": lambda: gt.scan(nested, ZERO, I)[0],
    "while": lambda: gt.while_loop(
        lambda s: s[0] < I.shape[0], lambda s: (s[0] + 1, s[1] + X[I[s[0]]]), (0, ZERO)
    )[1],
    "collect": lambda: gt.while_loop(
        lambda s: s < I.shape[0], lambda s: (s + 1, X[I[s]]), 0, collect=True
    )[1],
    "branch": lambda: gt.cond(gt.sum(I) != 99, lambda: X[I[1]], lambda: X[0]),
    "map": lambda: gt.map(lambda k: gt.take(X, k), I),
}
ARRAY = np.arange(1.0, 5.0)


def check(program, **options):
    f = graphc.function([X, I], program(), check=True, **options)
    g = graphc.function([X, I], program(), **options)
    good = np.array([0, 2, -1])
    np.testing.assert_allclose(f(ARRAY, good), g(ARRAY, good))
    first = r"^index: out of bounds for axis 0 of .*: index {}, size 4\n"
    for stray, index in (([0, 7, 1], 7), ([2, -5, 0], -5)):
        with pytest.raises(graphc.CallError, match=first.format(index)):
            f(ARRAY, np.array(stray))
    np.testing.assert_allclose(f(ARRAY, good), g(ARRAY, good))


@pytest.mark.parametrize("dims", ["specialize", "pad"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_on_numpy(program, dims):
    check(program, backend="numpy", dims=dims)


@pytest.mark.parametrize("name", ["gradient", "nested", "collect", "branch"])
def test_on_jax(name):
    check(PROGRAMS[name], backend="jax")


def test_a_branch_that_is_not_taken_and_a_loop_without_steps_check_nothing():
    branch = gt.cond(gt.sum(I) > 0, lambda: gt.sum(X), lambda: X[I[0]])
    loop = gt.scan(lambda c, k: (c + X[k], None), ZERO, I[:0])[0]
    f = graphc.function([X, I], [branch, loop], check=True, backend="numpy")
    assert [float(v) for v in f(ARRAY, np.array([9, 9]))] == [10.0, 0.0]


def test_the_message_names_the_line():
    f = graphc.function([X, I], PROGRAMS["read"](), check=True, backend="numpy")
    with pytest.raises(graphc.CallError, match=r"asked for by .*test_watched\.py"):
        f(ARRAY, np.array([4]))


def test_checks_of_indices_leave_matrices_alone():
    m, i = gt.matrix("m", "float64"), gt.iscalar("i")
    outputs = [gt.linalg.inv(m), m[i]]
    f = graphc.function([m, i], outputs, check="index", backend="numpy")
    inverse, _ = f(np.zeros((2, 2)), 1)
    assert not np.isfinite(inverse).any()
    with pytest.raises(graphc.CallError, match="out of bounds"):
        f(np.eye(2), 2)


def test_checks_of_one_segment_are_read_at_once_and_the_first_that_fails_raises():
    x, i, j = gt.vector("x"), gt.vector("i", "int64"), gt.vector("j", "int64")
    a = gt.matrix("a")
    outputs = [x[i], gt.linalg.inv(a), x[j]]
    f = graphc.function([x, i, j, a], outputs, check=True, dims=graphc.Specialize())
    data, inside = np.arange(5, dtype="float32"), np.zeros(20, "int64")
    stray = inside + np.arange(20) // 19 * 7
    eye = np.eye(2, dtype="float32")
    f(data, inside, inside, eye)
    assert f.source.count("np.asarray(checks)") == 1
    for arguments, message in (
        ((stray, inside, eye), "index 7, size 5"),
        ((inside, stray + 1, eye), "index 8, size 5"),
        ((inside, inside, 0 * eye), "inv: the matrix is singular"),
        ((stray, stray + 1, 0 * eye), "index 7, size 5"),
    ):
        with pytest.raises(graphc.CallError, match=message):
            f(data, *arguments)
    assert f(data, inside, inside, eye)[0].shape == (20,)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_indices_that_are_known_to_lie_in_their_axis_are_not_checked(backend):
    def picked(x, i):
        n = x.shape[0]
        parts = x[i % n], x[np.argsort(x)], x[x.argmax()], x[np.clip(i, 0, n - 1)]
        return *parts, np.outer(x, x)[np.arange(n), np.argmax(np.outer(x, x), axis=1)]

    f = graphc.jit(picked, frontend="numpy", backend=backend)
    i = np.array([-8, 0, 3])
    for n in (4, 5, 6):
        x = np.sin(np.arange(n) + 1.0)
        for result, exact in zip(f(x, i), picked(x, i), strict=True):
            np.testing.assert_allclose(result, exact)
    assert "out of bounds for axis" not in f.source
    clipped = graphc.jit(
        lambda x, i: x[np.clip(i, 0, x.shape[0] - 1)],
        frontend="numpy",
        backend=backend,
    )
    clipped(np.ones(3), i)
    with pytest.raises(graphc.CallError, match="out of bounds"):
        clipped(np.ones(0), i)


def test_an_index_that_may_wrap_around_is_checked():
    """Sizes bound `n * 2**40 // 2**40`, but the product may overflow 64 bits."""
    x = gt.vector("x")
    steps, checks = gt.arange(x.shape[0]), []
    for factor in (2**40, 4):
        index = steps * factor // factor
        f = graphc.function([x], x[index], check=True, backend="numpy")
        checks.append("np.any(" in f.source.model)
    assert checks == [True, False]


def test_an_index_computed_in_32_bits_is_checked():
    """The remainder is below 2**33, but cast to 32 bits it may be negative."""

    def picked(x, i):
        index = np.minimum((i % 2**33).astype("int32"), x.shape[0] - 1)
        return x[index.astype("int64")]

    f = graphc.jit(picked, frontend="numpy", backend="numpy")
    assert f(ARRAY, np.array([2])) == [3.0]
    with pytest.raises(graphc.CallError, match="index -2147483645, size 4"):
        f(ARRAY, np.array([2**31 + 3]))
