"""Steps of the wider programs: functions that generator.py does not have."""

from typing import Any

import numpy as np
import scipy.special

import graphc
import graphc.tensor as gt
from tests.fuzz.generator import Known, Step, pick

MORE: list[Step] = []


def step(name: str, *, jumps: bool = False, exact: bool = True) -> Any:
    """Register the decorated function, which draws a step."""

    def join(draw: Any) -> Any:
        MORE.append(Step(name, draw, jumps, exact))
        return draw

    return join


def one(
    names: str, kinds: str, rank: int = 0, finite: bool = True, **flags: Any
) -> None:
    """Register functions of one array, each written `name` or `name(x, ...)`."""
    for text in names.split(";"):
        call = text.strip() if "(" in text else f"{text.strip()}(x)"
        function = eval(f"lambda xp, x: xp.{call}")

        def draw(rng: Any, pool: list[Known], function: Any = function) -> Any:
            x = pick(rng, pool, kinds, rank)
            if x is None or (finite and not _plain(x)):
                return None
            return (function, (x,))

        step(text.strip(), **flags)(draw)


def _plain(x: Known) -> bool:
    """Whether an array is not empty and free of NaN and infinities."""
    return bool(x.array.size) and bool(np.isfinite(x.array).all())


one("tan; arcsinh; log1p; exp2; deg2rad; rad2deg; sinc; reciprocal", "f", exact=False)
one("nan_to_num; spacing", "f", finite=False)
one("diff(x, axis=-1); ediff1d; trapezoid; average", "f", 1, exact=False)
one("diff(x, n=2, axis=0); ediff1d; cumprod", "i", 1)
one("argsort(x, axis=-1, stable=True)", "iu", 1)
one("tril; triu(x, 1); diagonal; trace; rot90; swapaxes(x, 0, 1)", "iuf", 2)
one("diag; fliplr(xp.atleast_2d(x)); column_stack((x, x))", "iuf", 1)
one("quantile(x, 0.3); percentile(x, 60.0, axis=0)", "f", 1, jumps=True, exact=False)
# NumPy always computes cov and vander in float64, graphc in the dtype given. NumPy also
# sees that an axis is a single variable, where graphc may not.
one("cov(xp.concatenate((x, x)).astype('float64'))", "f", 2, exact=False)
one("clip(x, -1, 2); ldexp(x, 2)", "f")
one("insert(x, 1, 5, axis=0); append(x, x[:1], axis=0); delete(x, 0, axis=0)", "iu", 1)
one("kron(x, xp.asarray([1, 2]))", "i", 1)
one("vander(x[:3].astype('float64'))", "f", 1, exact=False)
one("einsum('...i,...i->...', x, x); einsum('i...->...', x)", "f", 1, exact=False)
one("tensordot(x, x, axes=((0,), (0,)))", "f", 1, exact=False)
one("histogram(x, bins=3, range=(-2.0, 2.0))[0]", "f", jumps=True)
one("digitize(x, xp.asarray([-1.0, 0.0, 1.0]))", "f", jumps=True)
one("lexsort((x,))", "iu", 1)
one("nonzero(xp.ravel(x))[0]; argwhere; flatnonzero", "biu", 1)
one("pad(x, 1, mode='edge'); pad(x, 1, mode='wrap')", "iuf", 1)
one("partition(x, 0, axis=-1)[..., 0]", "iuf", 1, jumps=True)
one("nanmean; nanprod; nanvar", "f", exact=False)
one("cumsum(x, axis=0); meshgrid(x.ravel(), x.ravel())[0]", "f", 1, exact=False)
one("fft.rfft(x, axis=0); fft.fft(x, n=3, axis=-1)", "f", 1, exact=False)
one("modf(x)[0]; frexp(x)[0]; fix", "f", jumps=True)
one("angle; isreal", "c", exact=False)
one("unique(x, return_inverse=True)[1].ravel()", "iu", 1)
one("gcd(x, 6); lcm(x, 4); left_shift(x, 1); right_shift(x, 1)", "iu")


@step("take_along_axis")
def _take_along(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "iu", 1)

    def call(xp: Any, x: Any) -> Any:
        order = xp.argsort(x, axis=-1, stable=True)
        return xp.take_along_axis(x, order, axis=-1)

    return x and (call, (x,))


@step("update")
def _update(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "iuf", 1)
    if x is None or not x.array.shape[0]:
        return None
    how = str(rng.choice(["set", "add", "multiply", "min", "max"]))
    index = rng.permutation(x.array.shape[0])[:2]
    ufuncs = {"min": np.minimum, "max": np.maximum, "add": np.add}

    def call(xp: Any, x: Any) -> Any:
        if xp is gt:
            return getattr(x.at[index], how)(2)
        y = x.copy()
        ufunc = ufuncs.get(how, np.multiply)
        y[index] = 2 if how == "set" else ufunc(y[index], y.dtype.type(2))
        return y

    return (call, (x,))


@step("segment_sum", exact=False)
def _segments(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "f", 1)
    if x is None:
        return None
    ids = rng.integers(0, 3, x.array.shape[0])

    def call(xp: Any, x: Any) -> Any:
        if xp is gt:
            return gt.segment_sum(x, ids, 3)
        out = np.zeros((3, *x.shape[1:]), x.dtype)
        np.add.at(out, ids, x)
        return out

    return (call, (x,))


@step("bincount")
def _bincount(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "i", 1)
    if x is None or x.array.min(initial=0) < 0 or x.array.max(initial=0) > 50:
        return None
    return (lambda xp, x: xp.bincount(xp.ravel(x)), (x,))


@step("sum under a mask", exact=False)
def _masked_sum(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "f", 1)
    return x and (lambda xp, x: xp.sum(x[x > 0] * 2), (x,))


@step("interp", exact=False)
def _interp(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "f")
    table = np.array([-1.0, 0.0, 2.0])
    if x is None or x.array.dtype != np.float64:
        return None
    return (lambda xp, x: xp.interp(x, xp.asarray(table), xp.asarray(table**2)), (x,))


@step("special functions", exact=False)
def _special(rng: Any, pool: list[Known]) -> Any:
    names = ["gammaln", "j0", "i1e", "log_ndtr", "entr", "logit", "spence", "erfcx"]
    name, x = str(rng.choice(names)), pick(rng, pool, "f")
    if x is None or not _plain(x):
        return None

    def call(xp: Any, x: Any) -> Any:
        share = 0.25 + xp.absolute(xp.tanh(x)) / 2
        return getattr(gt.special if xp is gt else scipy.special, name)(share)

    return (call, (x,))


@step("solve", exact=False)
def _solve(rng: Any, pool: list[Known]) -> Any:
    x = pick(rng, pool, "f", 2)
    if x is None or not _plain(x):
        return None

    def call(xp: Any, x: Any) -> Any:
        small = xp.tanh(x)
        square = small @ xp.swapaxes(small, -1, -2)
        shifted = square + 2 * xp.eye(square.shape[-1], dtype=str(x.dtype))
        return xp.linalg.solve(shifted, small)

    return (call, (x,))


@step("gradient", exact=False)
def _gradient(rng: Any, pool: list[Known]) -> Any:
    """A gradient with a known formula, to have `grad` in programs."""
    x = pick(rng, pool, "f", 1)
    if x is None or not _plain(x):
        return None

    def call(xp: Any, x: Any) -> Any:
        if xp is np:
            return (1 - np.tanh(x) ** 2) * 2 * np.tanh(x)
        return graphc.grad(gt.sum(gt.tanh(x) ** 2), x)

    return (call, (x,))
