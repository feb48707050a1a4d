"""Series for functions that JAX lacks or computes poorly: JAX programs contain them.

`jnp` and `special` are `jax.numpy` and `jax.scipy.special` there. The coefficients were
computed with 50 digits.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from graphc.ir.types import JaxArray


def chebyshev(t: Any, coefficients: Sequence[float]) -> JaxArray:
    """A Chebyshev series at t, by Clenshaw's recurrence."""
    first, second = 0.0, 0.0
    for c in reversed(coefficients):
        first, second = 2.0 * t * first - second + c, first
    return first - t * second


def erfcx_series(x: JaxArray, jnp: ModuleType) -> JaxArray:
    """exp(x^2) erfc(x).

    For x >= 0, (1 + 2 x) times it is a series in (x - 3.75) / (x + 3.75), as in
    M. Shepherd and J. Laframboise, Math. Comp. 36 (1981).
    """
    coefficients = (
        1.1775789345674017, -0.004590054580646478, -0.08424913336651792,
        0.05920993999819189, -0.026658668435305753, 0.009074997670705265,
        -0.002413163540417608, 0.0004907758365258086, -6.916973302501207e-05,
        4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07,
        1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10,
        -6.318088340886684e-11, 2.86879501093067e-11, 1.9455868545777347e-13,
        -9.65469674843344e-13, 3.25254814814874e-14, 3.3478119482868056e-14,
        -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
        5.068148904796111e-17, -2.2370566594359995e-18, -2.187342944303018e-18,
    )
    size = jnp.abs(x)
    series = chebyshev(1.0 - 7.5 / (size + 3.75), coefficients)
    right = series / (1.0 + 2.0 * size)
    return jnp.where(x < 0, 2.0 * jnp.exp(x * x) - right, right)


def incomplete_gamma(
    a: JaxArray, x: JaxArray, upper: bool, jnp: ModuleType, special: ModuleType
) -> JaxArray:
    """Q(a, x) if `upper`, else P(a, x).

    The series and fractions of JAX lose accuracy for large `a` near x = a; there it
    is `temme_expansion`. At the ends, where `a` is 0 or inf, the limits.
    """
    mu = (x - a) / a
    least = 1000 if mu.dtype.itemsize == 8 else 25
    large = (a > least) & (jnp.abs(mu) < 0.3)
    plain = special.gammaincc if upper else special.gammainc
    result = jnp.where(
        large,
        temme_expansion(jnp.where(large, a, 1.0), mu, upper, jnp, special),
        plain(jnp.where(large, 1.0, a), x),
    )
    low, high = (0.0, 1.0) if upper else (1.0, 0.0)
    result = jnp.where((a == 0) & (x > 0), low, result)
    limit = jnp.where(x < jnp.inf, high, jnp.nan)
    return jnp.where((a == jnp.inf) & (x >= 0), limit, result)


def temme_expansion(
    a: Any, mu: JaxArray, upper: bool, jnp: ModuleType, special: ModuleType
) -> JaxArray:
    """P or Q (`upper`) at (a, a (1 + mu)) for large `a` and abs(mu) < 0.3.

    N. Temme, SIAM J. Math. Anal. 10 (1979); DLMF 8.12. Rows: powers of 1 / a.
    """
    rows = (
        (
            -0.3333333333333333, 0.08333333333333333, -0.014814814814814815,
            0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
            3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
            8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
            1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,
            -2.5514193994946248e-11,
        ),
        (
            -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
            -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
            -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
            4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
            1.1951628599778148e-08,
        ),
        (
            0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
            2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
            -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06,
            -6.298992138380055e-07,
        ),
        (
            0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
            0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
            1.1082654115347302e-05,
        ),
    )
    mu = jnp.clip(mu, -0.3, 0.3)
    series = jnp.zeros_like(mu)
    for k in range(18, 1, -1):
        series = series * -mu + 1.0 / k
    small = jnp.abs(mu) < 0.1
    half_square = jnp.where(small, mu * mu * series, mu - jnp.log1p(mu))
    eta = jnp.sign(mu) * jnp.sqrt(2.0 * half_square)
    total = 0.0
    for row in reversed(rows):
        inner = 0.0
        for c in reversed(row):
            inner = inner * eta + c
        total = total / a + inner
    side = 1.0 if upper else -1.0
    scale = jnp.exp(-a * half_square) / jnp.sqrt(6.283185307179586 * a)
    return 0.5 * special.erfc(side * eta * jnp.sqrt(0.5 * a)) + side * scale * total


def riemann_zeta(x: JaxArray, jnp: ModuleType, special: ModuleType) -> JaxArray:
    """Riemann's zeta function.

    Between -1 and 1 by P. Borwein's second algorithm (2000), below by reflection.
    """
    n, term, total, sums = 22, 1, 1, [1]  # n (n + i - 1)! 4^i / ((n - i)! (2 i)!)
    for i in range(1, n + 1):
        term = term * 4 * (n + i - 1) * (n - i + 1) // (2 * i * (2 * i - 1))
        total += term
        sums.append(total)
    middle, left = jnp.abs(x) < 1, x <= -1
    t = jnp.where(middle, x, 0.5)
    alternating = 0.0
    for k in range(n):
        weight = (-1) ** k * (1.0 - sums[k] / total)
        alternating = alternating + weight * jnp.exp(-t * jnp.log(k + 1.0))
    inner = alternating / -jnp.expm1((1.0 - t) * 0.6931471805599453)
    s = jnp.where(middle | (x == jnp.inf), 100.0, jnp.where(left, 1.0 - x, x))
    outer = special.zeta(s, 1.0)
    half = jnp.where(left, 0.5 * x, 0.0)
    turns = jnp.rint(half)
    sine = jnp.sin(3.141592653589793 * (half - turns)) * (1.0 - 2.0 * (turns % 2.0))
    power = 2.0 * jnp.exp((2.0 * half - 1.0) * 1.8378770664093453)
    size = power * special.gamma(jnp.where(left, s, 1.0)) * outer
    size = jnp.where(power == 0, jnp.inf, size)  # gamma has overflowed before
    reflected = jnp.where(sine == 0, 0.0, size * sine)
    return jnp.where(middle, inner, jnp.where(left, reflected, outer))


def stirling_rest(x: Any) -> JaxArray:
    """log(gamma(x)) less Stirling's formula, for x >= 10: DLMF 5.11.1."""
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
    total = -3617 / 122400
    for c in reversed(terms):
        total = total / (x * x) + c
    return total / x


def log_beta(
    a: JaxArray, b: JaxArray, jnp: ModuleType, special: ModuleType
) -> JaxArray:
    """log|beta(a, b)|, by Stirling's formula where that cancels large terms.

    As in A. DiDonato and A. Morris, ACM Trans. Math. Softw. 18 (1992), algorithm 708.
    """
    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    total = small + large
    plain = special.gammaln(small) + (special.gammaln(large) - special.gammaln(total))
    limit = jnp.where(small > 0, -jnp.inf, jnp.inf)
    plain = jnp.where((large == jnp.inf) & (small < jnp.inf), limit, plain)
    plain = jnp.where((a == 0) | (b == 0), jnp.inf, plain)
    far = (large >= 10) & (total >= 10) & (large < jnp.inf)
    low, high = jnp.where(far, small, 1.0), jnp.where(far, large, 10.0)
    share = jnp.log1p(low / high)
    change = stirling_rest(high) - stirling_rest(low + high)
    one = special.gammaln(low) + low - low * jnp.log(high)
    one = one - (low + high - 0.5) * share + change
    both = far & (small >= 10)
    low = jnp.where(both, small, 10.0)
    two = (low - 0.5) * jnp.log(low / (low + high)) - high * share
    two = two + 0.9189385332046727 - 0.5 * jnp.log(high) + stirling_rest(low) + change
    return jnp.where(both, two, jnp.where(far, one, plain))


def beta_sign(
    a: JaxArray, b: JaxArray, jnp: ModuleType, special: ModuleType
) -> JaxArray:
    """The sign of beta(a, b); 1 at its poles at 0, and where it is 0."""
    total = a + b
    zero = (total <= 0) & (total == jnp.floor(total))
    one = zero | (a == 0) | (b == 0)
    signs = special.gammasgn(a) * special.gammasgn(b) * special.gammasgn(total)
    return jnp.where(one, 1.0, signs)
