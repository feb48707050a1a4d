"""Values that only one branch of an `ifelse` needs are computed if it is taken.

The same holds for their checks.
"""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.ifelse import ifelse
from pytensor.raise_op import Assert

import graphc.pytensor

pytestmark = pytest.mark.usefixtures("compiled_quickly", "python_only")
c, k = pt.bscalar("c"), pt.lscalar("k")
x, y, m = pt.dvector("x"), pt.dvector("y"), pt.dmatrix("m")
ONE, TWO, THREE = np.ones(1), np.ones(2), np.ones(3)


def positive(v):
    return Assert("must be positive")(v, pt.all(v > 0))


def shared():
    """A value needed by the branch and by another output, so it is always computed."""
    z = positive(x)
    return ifelse(c, z.sum(), x.sum()) + 2 * z.sum()


PROGRAMS = {
    "check": (
        [c, x],
        lambda: ifelse(c, positive(x).sum(), x.sum()),
        [(-THREE,), (THREE,)],
    ),
    "shared": ([c, x], shared, [(-THREE,), (THREE,)]),
    "both": (
        [c, x],
        lambda: ifelse(c, positive(x).sum(), positive(x).max()),
        [(-THREE,), (THREE,)],
    ),
    "nested": (
        [c, x, k],
        lambda: ifelse(c, ifelse(k > 0, positive(x).sum(), pt.exp(x).sum()), x[0]),
        [(-THREE, 1), (-THREE, 0), (np.ones(0), 0)],
    ),
    "fitting": ([c, x, y], lambda: ifelse(c, x + y, x), [(TWO, THREE), (TWO, TWO)]),
    "item": ([c, x], lambda: ifelse(c, x[3], x.sum()), [(TWO,), (np.ones(4),)]),
    "index": ([c, x, k], lambda: ifelse(c, x[k], x.sum()), [(TWO, 5), (TWO, 1)]),
    "none": ([c, x], lambda: ifelse(c, x.max(), x.sum()), [(np.ones(0),), (TWO,)]),
    "square": (
        [c, m],
        lambda: ifelse(c, pt.linalg.inv(m), m),
        [(np.ones((2, 3)),), (np.eye(2),)],
    ),
    "slope": (
        [c, x, y],
        lambda: pytensor.grad(ifelse(c, (x * y).sum(), (x**2).sum()), x),
        [(TWO, THREE), (TWO, TWO)],
    ),
}


def outcome(f, arguments):
    """The results of a call, or the class of its error."""
    try:
        return f(*arguments)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_the_branch_that_is_taken_is_checked(name):
    inputs, build, calls = PROGRAMS[name]
    out, lazily = build(), pytensor.Mode("vm", "fast_compile")
    theirs = pytensor.function(inputs, out, mode=lazily)
    expected = {
        (i, taken): outcome(theirs, (taken, *rest))
        for i, rest in enumerate(calls)
        for taken in (0, 1)
    }
    for backend in ("numpy", "jax"):
        mode = graphc.pytensor.mode(backend=backend, check=True)
        ours = pytensor.function(inputs, out, mode=mode)
        for (i, taken), result in expected.items():
            found = outcome(ours, (taken, *calls[i]))
            if isinstance(result, type):
                assert isinstance(found, type) and issubclass(found, result), found
            else:
                np.testing.assert_allclose(found, result)


def test_sizes_that_fit_stay_on_jax():
    f = pytensor.function([c, x, y], ifelse(c, (x + y).sum(), x.sum()), mode="GRAPHC")
    assert [f(1, TWO, TWO), f(0, TWO, THREE)] == [4.0, 2.0]
    [compiled] = graphc.pytensor.program_of(f).functions
    assert compiled.backend == "jax"
    with pytest.raises(ValueError, match="shapes do not broadcast"):
        f(1, TWO, THREE)


def test_branches_of_a_step_are_checked_where_they_are_taken():
    def step(v, s):
        return ifelse(c, s + positive(v), s - v)

    out = pytensor.scan(step, x, pt.zeros(()), return_updates=False)[-1]
    for backend in ("numpy", "jax"):
        f = pytensor.function([c, x], out, mode=graphc.pytensor.mode(backend=backend))
        assert [f(0, -THREE), f(1, THREE)] == [3.0, 3.0]
        with pytest.raises(AssertionError, match="must be positive"):
            f(1, -THREE)


def test_a_division_by_zero_is_none_in_a_branch_that_is_not_taken():
    out = ifelse(c, x[: 6 // k].sum(), x.sum())
    for backend in ("numpy", "jax"):
        mode = graphc.pytensor.mode(backend=backend)
        f = pytensor.function([c, k, x], out, mode=mode)
        assert [f(0, 0, THREE), f(1, 3, THREE)] == [3.0, 2.0]
