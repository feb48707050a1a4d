"""Special functions: SciPy's in float64, rounded to the dtype of NumPy's float ufuncs.

JAX's gamma functions, and those built on them, lose a few more units of rounding.
"""

import numpy as np
import scipy.special as sp

import graphc.tensor as gt
from tests import newest_numpy as newest
from tests.samples.spec import ALL, FLOATS, a, call, i, sample

ONE = (call(a(2, 3)), call(a(14, values="special")))
SHARE = (call(a(20, values="share")),)
POSITIVE = (call(a(20, values="positive")),)
TWO = (
    call(a(20, 1, values="positive"), a(20, values="positive")),
    call(a(3), a(4)),
)
NUMBER = (call(a(3, values="positive"), 2.5), call(1.5, a(3, values="positive")))
PAIRS = (
    call(a(14, 1, values="special"), a(14, values="special")),
    call(a(12, 12, values="special"), a(12, 12, values="across")),
)
SHARES = (
    call(a(20, 1, values="positive"), a(20, values="share")),
    call(a(3), a(3)),
    call(a(12, values="special"), a(12, values="share")),
)
BETA = (
    call(a(20, 1, values="positive"), a(20, values="positive"), a(20, values="share")),
    call(a(3, values="positive"), 2.5, a(2, 1, values="share")),
    call(a(3), a(4), a(3)),
)
SHAPES = (call(a()), call(a(0, 3)), call(a(1)))
BROADCAST = (call(a(), a()), call(a(0, 3), a(3)), call(a(2, 1), a(1, 3)))
SUMS = (call(a(2, 3)), call(a(2, 3), axis=0), call(a(4)))
FEW = (*FLOATS, "complex64")  # integers become floats, as in erf and xlogy
GAMMA = {"jax": 32}
INCOMPLETE = {"jax": 128}
BESSEL = {"jax": 32}
REAL_ORDER = {"jax": "JAX has no Bessel functions of real order"}


def rounded(function):
    """The function in float64, with its result in the dtype of `numpy.exp`."""

    def reference(*args, **options):
        dtype = np.exp(np.zeros((), np.result_type(*args))).dtype
        if dtype.kind == "c":
            raise TypeError("complex numbers")
        wide = [x if isinstance(x, int) else np.asarray(x, "float64") for x in args]
        found = function(*wide, **options)
        parts = found if isinstance(found, tuple) else [found]
        return [np.asarray(part).astype(dtype) for part in parts]

    return reference


def rounded_of_order(n, x):
    """SciPy's values, but `blank` left of zero, as ours are if n is symbolic."""
    wide = x.astype("float64")
    found = sp.polygamma(n, wide)
    return np.where((wide < 0) & (n > 0), blank(n, wide), found).astype(x.dtype)


def blank(n, x):
    """The infinity of the order's sign at poles, NaN elsewhere."""
    sign = np.where(n % 2 == 0, -np.inf, np.inf)
    return np.where(x == np.floor(x), sign, np.nan)


def plain(name, *calls, theirs=None, **options):
    """A sample of the function that SciPy has under the same name."""
    reference = rounded(theirs or getattr(sp, name))
    options = {"dtypes": FEW} | options
    return sample(f"special.{name}", *calls, numpy=reference, **options)


def ordered(name, order, calls=POSITIVE, theirs=None, **options):
    """A sample of a function whose order, a Python number, comes before the array."""
    ours, theirs = getattr(gt.special, name), theirs or getattr(sp, name)
    return sample(
        f"special.{name}",
        *calls,
        ours=lambda x: ours(order, x),
        numpy=rounded(lambda x: theirs(order, x)),
        **({"dtypes": FEW} | options),
    )


def sizes(name, **options):
    """A sample of a function at special numbers without their signs."""
    ours, theirs = getattr(gt.special, name), getattr(sp, name)
    return sample(
        f"special.{name}",
        *PAIRS,
        ours=lambda *x: ours(*map(gt.absolute, x)),
        numpy=rounded(lambda *x: theirs(*map(np.absolute, x))),
        **({"dtypes": FLOATS} | options),
    )


def without(number, name, *calls, theirs=None, **options):
    """A sample that leaves out a number at which SciPy's limit differs from JAX's."""
    ours, theirs = getattr(gt.special, name), theirs or getattr(sp, name)
    return sample(
        f"special.{name}",
        *calls,
        ours=lambda x, *y: ours(gt.where(gt.equal(x, number), 2, x), *y),
        numpy=rounded(lambda x, *y: theirs(np.where(x == number, 2, x), *y)),
        **options,
    )


def hurwitz(x, q):
    """SciPy's zeta, but NaN where ours is: at q < 0 except at poles, and at NaN."""
    outside = (x != 1) & (np.isnan(x) | ((q < 0) & (q != np.floor(q))))
    return np.where(outside, np.nan, sp.zeta(x, q))


def polygamma(n, x):
    """SciPy's, but NaN at -inf, where there is no limit and SciPy's is inf."""
    return np.where(x == -np.inf, np.nan, sp.polygamma(n, x))


def multigammaln(a, d):
    """SciPy's, but NaN outside the domain, where SciPy's raises."""
    inside = a > 0.5 * (d - 1)
    return np.where(inside, sp.multigammaln(np.where(inside, a, d), d), np.nan)


SAMPLES = [
    plain("erf", *ONE, *SHAPES, dtypes=ALL),
    plain("erfc", *ONE),
    plain("erfcx", *ONE),
    plain("erfinv", *ONE),
    plain("erfinv", *SHARE, dtypes=FLOATS),
    plain("erfcinv", *ONE),
    plain("erfcinv", *SHARE, dtypes=FLOATS),
    plain("gammaln", *ONE[:-1], looser=GAMMA),
    without(-np.inf, "gammaln", ONE[-1], dtypes=FLOATS, looser=GAMMA),
    plain("loggamma", *ONE, looser=GAMMA),
    plain("gamma", *ONE, looser=GAMMA),
    plain("gammasgn", *ONE),
    plain("digamma", *ONE, looser=GAMMA),
    plain("psi", *ONE, looser=GAMMA),
    *(ordered("polygamma", n, ONE, theirs=polygamma, looser=GAMMA) for n in (0, 1, 3)),
    *(
        sample(
            "special.multigammaln",
            *POSITIVE,
            ONE[-1],
            ours=lambda x, d=d: gt.special.multigammaln(x, d),
            numpy=rounded(lambda x, d=d: multigammaln(x, d)),
            dtypes=FEW,
            looser=GAMMA,
        )
        for d in (1, 2, 5)
    ),
    plain("beta", *TWO, *NUMBER, looser=GAMMA),
    plain("betaln", *TWO, *NUMBER, looser=GAMMA),
    sizes("beta", looser=INCOMPLETE),
    sizes("betaln", looser=GAMMA),
    plain("betaincinv", *BETA, ulps=128, looser={"jax": 2**12}, dtypes=FLOATS),
    plain("gammaincinv", *SHARES, ulps=32, looser={"jax": 2**10}, dtypes=FLOATS),
    plain("gammainccinv", *SHARES, ulps=32, looser={"jax": 2**10}, dtypes=FLOATS),
    plain("owens_t", *TWO, *PAIRS, ulps=128, dtypes=FLOATS),
    plain(
        "hyp2f1",
        call(a(3), a(4, 1, values="positive"), 2.5, a(3, values="unit")),
        ulps=128,
        dtypes=FLOATS,
    ),
    sample(
        "special.polygamma",
        call(i(4, 1, values="small"), a(20, values="positive")),
        call(i(3), a(3, values="special")),
        call(i(0, 3), a(3)),
        numpy=rounded_of_order,
        dtypes=FLOATS,
        looser={"jax": 64},
    ),
    plain("betainc", *BETA, ulps=128),  # SciPy's in float32 is like JAX's
    plain("gammainc", *TWO, *NUMBER, *PAIRS, looser=INCOMPLETE),
    plain("gammaincc", *TWO, *NUMBER, *PAIRS, looser=INCOMPLETE),
    plain("zeta", *POSITIVE, ONE[-1], theirs=lambda x: sp.zeta(x), looser=GAMMA),
    plain("zeta", *TWO, *NUMBER, theirs=hurwitz, looser=GAMMA),
    without(np.inf, "zeta", *PAIRS, theirs=hurwitz, dtypes=FLOATS, looser=GAMMA),
    plain("i0", *ONE),
    plain("i0e", *ONE),
    plain("i1", *ONE),
    plain("i1e", *ONE),
    plain("j0", *ONE, looser=BESSEL),
    plain("j1", *ONE, looser=BESSEL),
    plain("y0", *ONE, looser=BESSEL),
    plain("y1", *ONE, looser=BESSEL),
    plain("k0", *ONE, looser=BESSEL),
    plain("k1", *ONE, looser=BESSEL),
    plain("k0e", *ONE, looser=BESSEL),
    plain("k1e", *ONE, looser=BESSEL),
    *(
        ordered(name, order, looser=BESSEL)
        for name in ("jn", "yn", "kn")
        for order in (0, -1, 2, 7)
    ),
    *(
        plain(name, *TWO, *NUMBER, refused=REAL_ORDER)
        for name in ("jv", "yv", "iv", "ive", "kv", "kve")
    ),
    plain("ndtr", *ONE),
    plain("ndtri", *ONE),
    plain("ndtri", *SHARE, dtypes=FLOATS),
    plain("log_ndtr", *ONE, looser=GAMMA),
    plain("expit", *ONE),
    plain("logit", *ONE),
    plain("logit", *SHARE, dtypes=FLOATS),
    plain("spence", *ONE),
    plain("entr", *ONE),
    plain("entr", *SHARE, dtypes=FLOATS),
    sample("special.sinc", *ONE, numpy=newest.numpy.sinc, ulps=32),
    plain("softmax", *SUMS, call(a(2, 3), axis=(0, 1))),
    plain("log_softmax", *SUMS),
    plain("logsumexp", *SUMS, call(a(2, 3), 1, keepdims=True)),
    plain("logsumexp", call(a(2, 3), 1, a(3), return_sign=True), dtypes=FLOATS),
    plain("xlogy", *TWO, *NUMBER, *PAIRS, *BROADCAST, dtypes=ALL),
    plain("xlog1py", *TWO, *PAIRS),
    plain("rel_entr", *TWO, *PAIRS, looser=GAMMA),
    plain("kl_div", *TWO, *PAIRS, ulps=32),
]
