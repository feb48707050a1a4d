"""`gt.special`: both backends against SciPy, at ordinary and special values."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special as sp

import graphc
import graphc.tensor as gt
from tests.ops.comparing import BACKENDS, agree
from tests.ops.refusing import refused

inf, nan = np.inf, np.nan
RNG = np.random.default_rng(3)
SPECIAL = np.array(
    [0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3.5, 10, -10, 30, -30, 100, -100.5, 1000, 1e8]
    + [-12.3, -40.7, inf, -inf, nan, 1e-8, -1e-8, 1e-20, 0.999, -0.999, 8, -8, -3.2]
)
LINE = np.concatenate([SPECIAL, RNG.normal(0, 4, 300)])
POSITIVE = np.concatenate([np.exp(RNG.normal(0, 2, 300)), [0, inf, nan]])
OTHER = np.concatenate([np.exp(RNG.normal(0, 2, 300)), [1, 1, 1]])
UNIT = np.concatenate([RNG.beta(0.4, 0.4, 300), [0, 1, 0.5]])
GRID = [a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL)]
LOOSE = {"float32": 2e-5, "float64": 3e-12}


def words(text):
    return text.split()


ON_LINE = words("""erf erfc erfinv gammaln gamma gammasgn i0 i0e i1 i1e ndtr ndtri expit
logit spence digamma psi erfcinv erfcx loggamma log_ndtr entr zeta""")
ON_POSITIVE = words("betaln beta gammainc gammaincc xlogy xlog1py rel_entr kl_div")
ON_GRID = words("xlogy xlog1py rel_entr kl_div gammainc")
BESSEL = words("j0 j1 y0 y1 k0 k1 k0e k1e")


def table(names):
    return {n: (getattr(gt.special, n), getattr(sp, n)) for n in names}


def single(function):
    """SciPy's function, computed in float64 and rounded to its argument's dtype."""

    def rounded(*args):
        wide = function(*[a.astype("float64") for a in args])
        with np.errstate(all="ignore"):
            return np.asarray(wide).astype(args[0].dtype)

    return rounded


def without(names, *documented):
    return [n for n in names if n not in documented]


def test_one_argument():
    x = LINE[np.isfinite(LINE) | (LINE > 0) | np.isnan(LINE)]  # gammaln at -inf: below
    agree(table(ON_LINE), x, rounding=LOOSE, symbolic=(True,))


def test_one_argument_in_single_precision():
    x = np.concatenate([RNG.normal(0, 2, 200), [0.0, 1, 5, 20, inf, nan]])
    names = without(ON_LINE, "entr", "erfcinv", "erfinv", "logit", "ndtri", "zeta")
    cases = {n: (getattr(gt.special, n), single(getattr(sp, n))) for n in names}
    agree(cases, x.astype("float32"), rounding={"float32": 2e-4}, symbolic=(False,))


def test_two_arguments():
    agree(table(ON_POSITIVE), POSITIVE, OTHER, rounding=LOOSE, symbolic=(True,))


def test_two_arguments_in_single_precision():
    x, y = POSITIVE[:300].astype("float32"), OTHER[:300].astype("float32")
    names = without(ON_POSITIVE, "beta")  # beta is as imprecise as its logarithm
    cases = {n: (getattr(gt.special, n), single(getattr(sp, n))) for n in names}
    agree(cases, x, y, rounding={"float32": 1e-4}, symbolic=(False,))


def test_special_values_of_two_arguments():
    agree(table(ON_GRID), *GRID, rounding=LOOSE, symbolic=(False,))


def test_betainc():
    cases = {"betainc": (gt.special.betainc, sp.betainc)}
    a, b = POSITIVE[:300], OTHER[:300]
    agree(cases, a, b, UNIT[:300], rounding={"float64": 1e-10})
    ends = [np.array(v) for v in ([1, 0, 1.0], [1, 1, -1.0], [1, 1.5, 0.5])]
    agree(cases, *ends, rounding=LOOSE)


def test_beta_of_negative_arguments():
    a, b = RNG.normal(0, 5, 300), RNG.normal(0, 5, 300)
    cases = table(["beta", "betaln"])
    with np.errstate(all="ignore"):
        kept = np.abs(sp.beta(a, b)) < 1e6
    agree(cases, a[kept], b[kept], rounding={"float64": 1e-10}, symbolic=(False,))


def test_incomplete_gamma_of_large_shape():
    """Here JAX's plain series are wrong in the second digit."""
    a = np.repeat([30.0, 300, 2e3, 3e4, 1e6, 1e8], 41)
    x = a + np.tile(np.linspace(-4, 4, 41), 6) * np.sqrt(a)
    cases = table(["gammainc", "gammaincc"])
    agree(cases, a, x, rounding={"float64": 2e-11}, symbolic=(False,))
    cases = {n: (getattr(gt.special, n), single(getattr(sp, n))) for n in cases}
    a, x = a.astype("float32"), x.astype("float32")
    agree(cases, a, x, rounding={"float32": 1e-4}, symbolic=(False,))


def test_limits_of_incomplete_gamma():
    a = np.array([0, 0, inf, inf, 1, 1, -1, nan])
    x = np.array([0.5, 0, 1, inf, inf, 0, 1, 1])
    agree(table(["gammainc", "gammaincc"]), a, x, rounding=LOOSE)


def test_polygamma():
    x = np.concatenate([LINE[np.abs(LINE) < 60], [0, -1, -7, inf, nan]])
    cases = {
        f"polygamma {n}": (
            lambda x, n=n: gt.special.polygamma(n, x),
            lambda x, n=n: sp.polygamma(n, x),
        )
        for n in (0, 1, 2, 3, 8)
    }
    agree(cases, x, rounding={"float64": 1e-10}, symbolic=(False,))


def test_zeta():
    x = np.array([2.0, 3.5, 10, 1, 0.5, nan, 1.5, 2, 30])
    q = np.array([1, 0.25, 7, 2, 1, 1, inf, 0, 3.0])
    cases = {"zeta": (gt.special.zeta, sp.zeta)}
    agree(cases, x, q, rounding=LOOSE)
    got = gt.special.zeta(gt.asarray(np.float64(2)), gt.asarray(np.float64(-9.5)))
    for backend in BACKENDS:
        assert np.isnan(graphc.function([], got, backend=backend)()), "q below 0"


def test_riemann_zeta_left_of_one():
    x = np.concatenate([np.linspace(-19.7, 0.99, 200), [0, -1, -2, -30, inf]])
    cases = {"zeta": (gt.special.zeta, lambda x: sp.zeta(x))}
    agree(cases, x, rounding={"float64": 1e-11}, symbolic=(False,))


def test_multigammaln():
    a = np.array([0.4, 1.2, 2.5, 3.0, 40, nan])

    def theirs(d):
        def function(a):
            inside = a > 0.5 * (d - 1)
            return np.where(inside, sp.multigammaln(np.where(inside, a, d), d), nan)

        return function

    cases = {
        f"d {d}": (lambda a, d=d: gt.special.multigammaln(a, d), theirs(d))
        for d in (1, 2, 3, 5)
    }
    agree(cases, a, rounding=LOOSE)


def test_gammaln_at_minus_infinity_is_as_documented():
    value = gt.special.gammaln(gt.asarray(np.float64(-inf)))
    found = {b: float(graphc.function([], value, backend=b)()) for b in BACKENDS}
    assert found == {"numpy": float(sp.gammaln(-inf)), "jax": inf}


# Bessel functions


def orders(kind, *numbers):
    ours, theirs = getattr(gt.special, kind), getattr(sp, kind)
    return {
        f"{kind} {n}": (lambda x, n=n: ours(n, x), lambda x, n=n: theirs(n, x))
        for n in numbers
    }


REAL = np.concatenate(
    [[0, 1, 8, -8, 2, nan, inf, 1e-10, 1e-300], RNG.uniform(-60, 60, 300)]
)


def test_bessel_functions():
    cases = {**table(BESSEL), **orders("jn", 0, 2, 20, -3)}
    agree(cases, REAL, rounding={"float64": 3e-12}, symbolic=(True,))
    positive = np.abs(REAL[np.abs(REAL) > 1e-3])
    cases = {**orders("yn", 1, 2, 20), **orders("kn", 0, 3, 20)}
    agree(cases, positive, rounding=LOOSE, symbolic=(False,))


def test_bessel_functions_in_single_precision():
    x = np.concatenate([RNG.uniform(0.05, 40, 200), [0]]).astype("float32")
    cases = {n: (getattr(gt.special, n), single(getattr(sp, n))) for n in BESSEL}
    more = {**orders("jn", 9), **orders("yn", 2), **orders("kn", 9)}
    cases |= {n: (ours, single(theirs)) for n, (ours, theirs) in more.items()}
    agree(cases, x, rounding={"float32": 1e-5}, symbolic=(False,))


def test_bessel_functions_of_real_order_are_refused_on_jax():
    x, names = np.linspace(0.1, 9, 20), words("jv yv iv ive kv kve")
    cases = {
        n: (
            lambda x, n=n: getattr(gt.special, n)(1.5, x),
            lambda x, n=n: getattr(sp, n)(1.5, x),
        )
        for n in names
    }
    agree(cases, x, rounding=LOOSE)  # with backend="jax" they run between segments
    v = gt.vector("v", "float64")
    with refused("iv: jax cannot run it: .* order"):
        graphc.function([v], gt.special.iv(0.5, v), backend="jax", jit=False)


# dtypes and shapes

DTYPES = words("float16 float32 float64 bool int8 uint16 int32 int64")


@pytest.mark.parametrize("name", ["erf", "gammaln", "xlogy", "log_ndtr"])
def test_dtypes_are_those_of_float_ufuncs(name):
    ours, theirs = getattr(gt.special, name), getattr(sp, name)
    xs = [np.array([1, 0, 1, 3]).astype(d) for d in DTYPES]
    xs.append(xs[0].astype(ml_dtypes.bfloat16))
    pair = name == "xlogy"
    inputs = [gt.tensor(f"x{i}", x.dtype, (4,)) for i, x in enumerate(xs)]
    results = [ours(x, x) if pair else ours(x) for x in inputs]
    for backend in BACKENDS:
        found = graphc.function(inputs, results, backend=backend)(*xs)
        for x, result, got in zip(xs, results, found, strict=True):
            wanted = np.exp(x).dtype
            assert got.dtype == result.dtype == wanted, (x.dtype, got.dtype)
            wide = x.astype("float64")
            exact = theirs(wide, wide) if pair else theirs(wide)
            digits = {2: 1e-2 if wanted.kind == "V" else 1e-3, 4: 1e-6, 8: 1e-14}
            rounding = digits[wanted.itemsize]
            np.testing.assert_allclose(
                np.asarray(got).astype("float64"), exact, rtol=rounding, atol=rounding
            )


def test_python_numbers_stay_weak():
    x = gt.vector("x", "float16")
    assert (x * gt.special.erf(0.5)).dtype == np.float16
    assert gt.special.xlogy(x, 2.0).dtype == np.float16
    scaled = gt.vector("y", "float64") * gt.special.log_ndtr(0.5)
    for backend in BACKENDS:
        inputs = [scaled.node.inputs[0]]
        got = graphc.function(inputs, scaled, backend=backend)(np.ones(1))
        np.testing.assert_allclose(got, sp.log_ndtr(0.5), rtol=1e-14)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (2, 3)])
def test_shapes(shape):
    x = RNG.uniform(0.1, 0.9, shape)
    names = ["erf", "erfcx", "log_ndtr", "rel_entr", "j1", "betaln"]
    arity = {"rel_entr": 2, "betaln": 2}
    cases = {
        n: (
            lambda x, n=n: getattr(gt.special, n)(*[x] * arity.get(n, 1)),
            lambda x, n=n: getattr(sp, n)(*[x] * arity.get(n, 1)),
        )
        for n in names
    }
    agree(cases, x, rounding=LOOSE, symbolic=(len(shape) == 2,))


def test_broadcasting():
    row, column = RNG.uniform(1, 3, (1, 4)), RNG.uniform(1, 3, (3, 1))
    third = np.array(0.3)
    names = ["gammainc", "xlogy", "betaln"]
    cases = table(names) | {
        "betainc": (lambda a, b: gt.special.betainc(a, b, 0.3),
                    lambda a, b: sp.betainc(a, b, third)),
        "zeta": (lambda a, b: gt.special.zeta(a + 1, b),
                 lambda a, b: sp.zeta(a + 1, b)),
    }
    agree(cases, row, column, rounding=LOOSE, symbolic=(True,))


def test_sinc_and_aliases():
    x = RNG.normal(size=(3, 4))
    cases = {
        "sinc": (gt.special.sinc, np.sinc),
        "softmax": (gt.special.softmax, sp.softmax),
        "log_softmax": (
            lambda x: gt.special.log_softmax(x, axis=0),
            lambda x: sp.log_softmax(x, axis=0),
        ),
        "logsumexp": (
            lambda x: gt.special.logsumexp(x, 1, b=x, return_sign=True),
            lambda x: list(sp.logsumexp(x, 1, b=x, return_sign=True)),
        ),
    }
    agree(cases, x)


# errors

z = gt.vector("z", "complex64")
v = gt.vector("v", "float64")
ERRORS = [
    (lambda: gt.special.erf(z), "special.erf: needs real numbers"),
    (lambda: gt.special.log_ndtr(z), "special.log_ndtr: needs real numbers"),
    (lambda: gt.special.xlogy(gt.zeros(3), gt.zeros(4)), "shapes do not broadcast"),
    (lambda: gt.special.polygamma(-1, v), "the order must be an integer from 0"),
    (lambda: gt.special.polygamma(v, v), "the order must be an integer from 0"),
    (lambda: gt.special.multigammaln(v, 0), "the dimension must be a positive"),
    (lambda: gt.special.jn(0.5, v), "special.jn: the order must be an integer"),
    (lambda: gt.special.kn(1000, v), "special.kn: the order must be an integer"),
]


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row[1][:30])
def test_errors(row):
    build, message = row
    with refused(message):
        build()


def test_numpy_programs_call_scipy_and_jax_programs_jax():
    x = gt.vector("x", "float32")
    f = graphc.function([x], gt.special.erf(x), backend="numpy")
    assert "import scipy.special" in f.source
    assert "scipy.special.erf(x)" in f.source
    f = graphc.function([x], gt.special.erf(x), backend="jax")
    assert "jax.scipy.special.erf(x)" in f.source
    assert "import scipy.special" not in f.source


def test_hyp2f1_in_a_compiled_loop_is_that_of_scipy():
    """All bits reach the host, although JAX casts the values that it sends there."""
    x = gt.tensor("x", "float64", ("n",))
    total = gt.scan(
        lambda c, v: (c + gt.special.hyp2f1(1.25, 1.5, 2.5, v), []), np.float64(0), x
    )[0]
    found = [total, graphc.grad(total, x)]
    a = np.array([-5.0, 0.3, 0.999])
    f = graphc.function([x], found, jit=True)
    first, slope = (np.asarray(v) for v in f(a))
    np.testing.assert_allclose(first, sp.hyp2f1(1.25, 1.5, 2.5, a).sum(), rtol=1e-15)
    wanted = 0.75 * sp.hyp2f1(2.25, 2.5, 3.5, a)
    np.testing.assert_allclose(slope, wanted, rtol=1e-14)
