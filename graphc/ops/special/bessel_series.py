"""Bessel functions that JAX does not have: JAX programs contain their code.

They are Chebyshev series after C. Clenshaw, Chebyshev Series for Mathematical Functions
(1962): on [0, 8] of the function itself, beyond that of its amplitude and phase; for K,
on [0, 2] and beyond. The coefficients were computed with 50 digits.
"""


from types import ModuleType

from graphc.ir.types import JaxArray
from graphc.ops.special.series import chebyshev


def bessel_waves(order: int, x: JaxArray, jnp: ModuleType) -> tuple[JaxArray, JaxArray]:
    """J and Y of order 0 or 1 for x >= 8: an amplitude times cosine and sine."""
    p = (
        (
            0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06,
            -5.1705945376060975e-08, 1.6306464635151382e-09, -7.86409137723707e-11,
            5.168262387349193e-12, -4.3045788699253914e-13, 4.3265957431549404e-14,
            -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
            1.6305919233744186e-17, -2.880866169482871e-18,
        ),
        (
            1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06,
            6.177633960644299e-08, -1.8718907491063067e-09, 8.816898659582339e-11,
            -5.704863640395645e-12, 4.699195515230542e-13, -4.6842237839904895e-14,
            5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16,
            -1.7312313216116335e-17, 3.0492991197665872e-18,
        ),
    )
    q = (
        (
            -0.015555854605337009, 6.838519942611649e-05, -7.414498411060647e-07,
            1.7972457247968992e-08, -7.27191593686632e-10, 4.2201219046687385e-11,
            -3.206747420996635e-12, 3.006145125351706e-13, -3.336328185322427e-14,
            4.255225040245461e-15, -6.09993013164005e-16, 9.662128970303257e-17,
            -1.6686065214378146e-17, 3.1082440486738143e-18, -6.191115787358145e-19,
            1.3091448717220122e-19, -2.9211627152642775e-20,
        ),
        (
            0.04677778706953532, -9.62772354915708e-05, 9.138615257955454e-07,
            -2.0959781384083424e-08, 8.229193327650554e-10, -4.686363688176945e-11,
            3.5152187949686082e-12, -3.2643156743279e-13, 3.5967765829165294e-14,
            -4.5612523950772974e-15, 6.508282957783384e-16, -1.0269147531823243e-16,
            1.767635548776479e-17, -3.2834519872981614e-18, 6.524081149589261e-19,
            -1.3765771484849487e-19,
        ),
    )
    r = 8.0 / x
    t = 2.0 * r * r - 1.0
    cosine, sine = chebyshev(t, p[order]), r * chebyshev(t, q[order])
    c, s = jnp.cos(x), jnp.sin(x)
    a, b = (s - c, -s - c) if order else (c + s, s - c)
    scale = jnp.sqrt(0.3183098861837907 / x)  # 1 / sqrt(pi x)
    return scale * (cosine * a - sine * b), scale * (cosine * b + sine * a)


def bessel_near(order: int, second: bool, x: JaxArray) -> JaxArray:
    """J, or the regular part of Y, for abs(x) <= 8; of order 1, divided by x."""
    series = (
        (
            0.15772797147489012, -0.008723442352852221, 0.2651786132033368,
            -0.37009499387264977, 0.15806710233209725, -0.034893769411408884,
            0.004819180069467605, -0.00046062616620627504, 3.246032882100508e-05,
            -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
            7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14,
            -7.588508125447546e-16, 1.2218515873961411e-17,
        ),
        (
            0.08104484632565812, -0.1489751450676521, 0.1609992623572097,
            -0.08268049176681791, 0.022213639654966037, -0.003646940600769276,
            0.0004050337728354822, -3.255554866857259e-05, 1.9858774049915165e-06,
            -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
            3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15,
            -2.4441972916190464e-17, 3.6912682997929334e-19,
        ),
        (
            0.03645469809116044, -0.2783237094075825, 0.2960499990207148,
            0.09825508408187864, -0.10755155280627783, 0.031799074084414514,
            -0.005161397105810715, 0.0005498525320039012, -4.1996983149420134e-05,
            2.4290361107923793e-06, -1.1049969793472957e-07, 4.06651736597911e-09,
            -1.2374148898289854e-10, 3.1685725528945945e-12, -6.926956032431002e-14,
            1.3086308625876684e-15, -2.1586201986914482e-17, 3.136863182479938e-19,
        ),
        (
            0.038300769852423776, -0.08182561412732826, -0.0248677076121964,
            0.047967452752746984, -0.01852588451089802, 0.003680607687823511,
            -0.0004627254060293369, 4.06940026958087e-05, -2.6617695125295625e-06,
            1.350602691325434e-07, -5.483524110336276e-09, 1.8245086841229007e-10,
            -5.070666636591129e-12, 1.1956162517587948e-13, -2.423162442712473e-15,
            4.268126513072962e-17, -6.596060978723042e-19,
        ),
    )
    return chebyshev(x * x / 32.0 - 1.0, series[order + 2 * second])


def bessel_j(order: int, x: JaxArray, jnp: ModuleType) -> JaxArray:
    """J of order 0 or 1."""
    size = jnp.abs(x)
    far = size > 8
    inner = jnp.where(far, 8.0, size)
    near = bessel_near(order, False, inner) * (inner if order else 1.0)
    wave = bessel_waves(order, jnp.where(far, size, 8.0), jnp)[0]
    value = jnp.where(far, wave, near)
    return jnp.where(x < 0, -value, value) if order else value


def bessel_y(order: int, x: JaxArray, jnp: ModuleType) -> JaxArray:
    """Y of order 0 or 1; -inf at 0 and NaN below."""
    far = x > 8
    inner = jnp.where(far, 8.0, x)
    power = inner if order else 1.0
    log = jnp.log(0.5 * inner) * bessel_near(order, False, inner) * power
    pole = 1.0 / inner if order else 0.0
    near = 0.6366197723675814 * (log - pole)
    near = near + bessel_near(order, True, inner) * power
    wave = bessel_waves(order, jnp.where(far, x, 8.0), jnp)[1]
    value = jnp.where(far, wave, near)
    return jnp.where(x == 0, -jnp.inf, value)


def bessel_k(
    order: int, scaled: bool, x: JaxArray, jnp: ModuleType, special: ModuleType
) -> JaxArray:
    """K of order 0 or 1, times exp(x) if `scaled`; inf at 0 and NaN below."""
    near = (
        (
            -0.2676636966169514, 0.3442898999246285, 0.0359799365153615,
            0.001264615411446926, 2.286212103119452e-05, 2.5347910790261494e-07,
            1.904516377220209e-09, 1.0349695257633625e-11, 4.2598161427910826e-14,
            1.3744654358807508e-16, 3.5708965285083736e-19,
        ),
        (
            0.7626501136694739, -0.3531559607765449, -0.12261118082265715,
            -0.006975723859639864, -0.0001730288957513052, -2.4334061415659684e-06,
            -2.213387630734726e-08, -1.4114883926335278e-10, -6.666901694199329e-13,
            -2.427449850519366e-15, -7.023863479386288e-18,
        ),
    )
    far = (
        (
            1.2201515410329777, -0.0314481013119645, 0.0015698838857300533,
            -0.00012849549581627802, 1.39498137188765e-05, -1.8317555227191195e-06,
            2.766813639445015e-07, -4.660489897687948e-08, 8.574034017414225e-09,
            -1.6975345093890614e-09, 3.5773972814003283e-10, -7.957489244477396e-11,
            1.8559491149549264e-11, -4.514597883374519e-12, 1.1403405882073441e-12,
            -2.9800969231481784e-13, 8.032890775068375e-14, -2.2275133267462965e-14,
            6.340076476276646e-15, -1.848593377920907e-15, 5.5120559994043335e-16,
            -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17,
            5.3004337711773354e-18, -1.7331712005821001e-18,
        ),
        (
            1.3603130952422213, 0.10392373657681724, -0.002857816859622779,
            0.00019521551847135162, -1.936197974166083e-05, 2.406484947837217e-06,
            -3.5019606030878126e-07, 5.7410841254500495e-08, -1.0345762465678097e-08,
            2.0150497551970347e-09, -4.1903547593419254e-10, 9.218315187605315e-11,
            -2.129967838427791e-11, 5.139639673482343e-12, -1.2891739609498229e-12,
            3.348419666052243e-13, -8.976705182010146e-14, 2.4771544242195988e-14,
            -7.0198370892147685e-15, 2.038703166239861e-15, -6.057047270643018e-16,
            1.8380935752430455e-16, -5.689462849193648e-17, 1.7940510478863572e-17,
            -5.7567444820733025e-18, 1.8778651901623268e-18,
        ),
    )
    large = x > 2
    inner = jnp.where(large, 2.0, x)
    series = chebyshev(0.5 * inner * inner - 1.0, near[order])
    log = jnp.log(0.5 * inner)
    if order:
        value = series / inner + log * special.i1(inner)
    else:
        value = series - log * special.i0(inner)
    value = jnp.where(x == 0, jnp.inf, value)
    outer = jnp.where(large, x, 2.0)
    tail = chebyshev(4.0 / outer - 1.0, far[order]) / jnp.sqrt(outer)
    if scaled:
        return jnp.where(large, tail, value * jnp.exp(inner))
    return jnp.where(large, tail * jnp.exp(-outer), value)


def bessel_jn(n: int, x: JaxArray, jnp: ModuleType) -> JaxArray:
    """J of integer order n >= 2.

    Upwards from orders 0 and 1 where n < abs(x), else downwards from an order at
    which it is negligible, and scaled by 1 = J_0 + 2 (J_2 + J_4 + ...).
    """
    size = jnp.abs(x)
    up = size > n
    big = jnp.where(up, size, n + 1.0)
    low, high = bessel_j(0, big, jnp), bessel_j(1, big, jnp)
    for k in range(1, n):
        low, high = high, 2.0 * k / big * high - low
    start = 2 * ((n + 10 + int((60 * n) ** 0.5)) // 2)
    tiny, first = size < 1e-8, 1.0
    inner = jnp.where(up | tiny, 1.0, size)
    above, here = jnp.zeros_like(inner), jnp.full_like(inner, 1e-30)
    total, of_order_n = jnp.zeros_like(inner), jnp.zeros_like(inner)
    for k in range(start, 0, -1):
        above, here = here, 2.0 * k / inner * here - above
        if k - 1 == n:
            of_order_n = here
        if (k - 1) % 2 == 0:
            total = total + (2.0 if k > 1 else 1.0) * here
        shrink = jnp.where(jnp.abs(here) > 1e15, 1e-15, 1.0)
        above, here = above * shrink, here * shrink
        total, of_order_n = total * shrink, of_order_n * shrink
    for k in range(1, n + 1):
        first = first * (0.5 * size / k)
    value = jnp.where(up, high, jnp.where(tiny, first, of_order_n / total))
    value = jnp.where(jnp.isnan(x), x, value)
    return jnp.where(x < 0, -value, value) if n % 2 else value


def bessel_recurrence(
    n: int, low: JaxArray, high: JaxArray, x: JaxArray, sign: float, jnp: ModuleType
) -> JaxArray:
    """From orders 0 and 1 of Y (sign -1) or K (sign 1) up to n >= 2."""
    for k in range(1, n):
        step = 2.0 * k / x * high + sign * low
        low, high = high, jnp.where(jnp.isinf(high), high, step)
    return high
