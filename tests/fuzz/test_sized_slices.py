"""Slices, writes and loops bounded by numbers or steps give, padded, what NumPy gives.

A program is a list of steps, each applied to the result of the one before. It runs on
NumPy as it is, and as a graph whose sizes are padded. `GRAPHC_FUZZ=2000 pytest
tests/fuzz/test_sized_slices.py` runs that many programs.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphc
import graphc.tensor as gt

pytestmark = pytest.mark.usefixtures("wide", "compiled_quickly")
X = gt.tensor("x", "float64", ("n",))
J, K = (gt.scalar(name, "int64") for name in "jk")
COUNT = int(os.environ.get("GRAPHC_FUZZ", "6"))
BOUNDS = ("none", "1", "-2", "k", "-k", "j", "j + 1", "k - j", "n // 2")
OF_STEP = (*BOUNDS, "t", "t + 1", "-t", "t - k", "2 * t")
STRIDES = ("none", "1", "2", "-1", "-2")
STEPS = ("part", "set", "add", "kept", "summed", "stepwise set", "stepwise sum")


class Slice(NamedTuple):
    """The bounds of a slice, as code."""

    start: str
    stop: str
    stride: str

    def of(self, sizes: dict[str, Any]) -> slice:
        given = [None if b == "none" else eval(b, {}, sizes) for b in self]
        return slice(*given)


class Numbers:
    """The operations of a program, on NumPy arrays."""

    @staticmethod
    def write(x: Any, where: slice, how: str, value: Any) -> Any:
        x = x.copy()
        x[where] = value if how == "set" else x[where] + value
        return x

    @staticmethod
    def loop(steps: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
        for t in range(steps):
            init = body(t, init)
        return init

    kept = staticmethod(lambda x: np.cumsum(np.sort(x)))
    sum = staticmethod(np.sum)


class Symbols:
    """The operations of a program, on symbolic arrays."""

    @staticmethod
    def write(x: Any, where: slice, how: str, value: Any) -> Any:
        return getattr(x.at[where], how)(value)

    @staticmethod
    def loop(steps: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
        return gt.fori_loop(0, steps, body, init)

    kept = staticmethod(lambda x: gt.cumsum(gt.sort(x)))
    sum = staticmethod(gt.sum)


def result(of: Any, program: Any, x: Any, j: Any, k: Any) -> Any:
    """The array that a program makes from `x`."""
    for name, where, bound in program:
        n = x.shape[0]
        sizes = {"n": n, "j": j, "k": k}
        write = name.split()[-1]
        if name == "part":
            x = x[bound.of(sizes)]
        elif name == "kept":
            x = of.kept(x)
        elif name == "summed":
            x = x + of.sum(x[bound.of(sizes)])
        elif name in ("set", "add"):
            part = bound.of(sizes)
            x = of.write(x, part, write, x[part] * 2 + 1)
        elif name == "stepwise set":

            def written(t: Any, c: Any, at: Any = where, sizes: Any = sizes) -> Any:
                part = at.of({**sizes, "t": t})
                return of.write(c, part, "set", c[part] * 0.5 + c[t])

            x = of.loop(n, written, x)
        else:
            own = x

            def added(
                t: Any, c: Any, at: Any = where, sizes: Any = sizes, own: Any = own
            ) -> Any:
                return c + of.sum(own[at.of({**sizes, "t": t})]) * own[t]

            x = x + of.loop(n, added, np.float64(0))
    return x


def slices(bounds):
    one = st.sampled_from(bounds)
    return st.builds(Slice, one, one, st.sampled_from(STRIDES))


steps = st.tuples(st.sampled_from(STEPS), slices(OF_STEP), slices(BOUNDS))
programs = st.lists(steps, min_size=1, max_size=3)
arguments = st.tuples(st.integers(0, 6), st.integers(-3, 7), st.integers(-3, 7))
ALL = Slice("none", "none", "none")


def compared(program, f, exact, n, j, k, special=False):
    """Require that both functions give what NumPy gives, gradients included.

    Both may also raise: a slice of constant length, like x[j : j + 1], is not clipped.
    """
    x = np.linspace(-1, 1, n) ** 3 + 0.1
    if special and n:
        x[n // 2] = np.nan
    with np.errstate(all="ignore"):
        wanted = result(Numbers, program, x, j, k)
    try:
        _, expected = exact(x, j, k)
    except graphc.CallError as error:
        assert "its length is compiled as a constant" in str(error)
        with pytest.raises(graphc.CallError):
            f(x, j, k)
        return
    found, slope = f(x, j, k)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-9)


def functions(program, backend):
    y = result(Symbols, program, X, J, K)
    outputs = [y, graphc.grad(gt.sum(y * y), X)]
    how = {"unused": "ignore"}
    f = graphc.function([X, J, K], outputs, backend=backend, dims="pad", **how)
    return f, graphc.function([X, J, K], outputs, backend="numpy", **how)


@settings(max_examples=COUNT, deadline=None)
@given(programs, st.lists(arguments, min_size=3, max_size=3), st.booleans())
def test_padded_as_by_numpy(program, calls, special):
    f, exact = functions(program, "numpy")
    assert not f.plan.padded.cuts
    for n, j, k in calls:
        compared(program, f, exact, n, j, k, special)


@settings(max_examples=max(1, COUNT // 8), deadline=None)
@given(programs)
@example([("stepwise set", Slice("k - j", "t", "none"), ALL)])
def test_one_compilation_on_jax(program):
    f, exact = functions(program, "jax")
    for n, j, k in ((5, 1, 3), (6, 0, -2), (0, 2, 2), (1, 1, 1)):
        compared(program, f, exact, n, j, k)
    assert len(f.stats().compilations) == len(f.plan.segments) == 1


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_no_elements_are_taken_from_anywhere(backend):
    """Empty slices may start anywhere, as in NumPy; others must lie within the axis."""
    outputs = [X[J:J], X.at[J:J].set(7.0), graphc.grad(gt.sum(X[J:J] ** 2), X)]
    f = graphc.function([X, J], outputs, backend=backend, dims="pad")
    for n, j in ((0, 1), (3, 5), (4, -9), (4, 2)):
        x = np.ones(n)
        part, written, slope = f(x, j)
        assert part.shape == (0,)
        np.testing.assert_array_equal(written, x)
        np.testing.assert_array_equal(slope, np.zeros(n))
