"""Bessel functions of the first and second kind (`gt.special`).

Functions of integer order run on both backends, to an absolute accuracy of a few units
of rounding (a relative one for K); functions of real order run on NumPy only.
"""

from collections.abc import Callable

from graphc.errors import graph_error
from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, Printing, op
from graphc.ir.integers import integer_or_none
from graphc.ir.namespace import public
from graphc.ir.types import TensorType
from graphc.ops.special import bessel_series as series
from graphc.ops.special.functions import (
    IMPORTS,
    SpecialFunction,
    on_floats,
    result_type,
    special,
)
from graphc.ops.special.gradients import of_integer_order


def _declare_first_two(
    name: str, function: Callable[..., object], order: int, kind: str
) -> SpecialFunction:
    def printed(p: Printing) -> str:
        return p.call(function, order, p.inputs[0], "jnp")

    doc = f"The Bessel function of the {kind} kind of order {order}."
    return special(name, 1, doc, jax=printed)


j0: SpecialFunction = _declare_first_two("j0", series.bessel_j, 0, "first")
j1: SpecialFunction = _declare_first_two("j1", series.bessel_j, 1, "first")
y0: SpecialFunction = _declare_first_two("y0", series.bessel_y, 0, "second")
y1: SpecialFunction = _declare_first_two("y1", series.bessel_y, 1, "second")


def _call_bessel_k(p: Printing, order: int, scaled: bool) -> str:
    return p.call(
        series.bessel_k, order, scaled, p.inputs[0], "jnp", "jax.scipy.special"
    )


def _declare_modified(order: int, scaled: bool) -> SpecialFunction:
    def printed(p: Printing) -> str:
        return _call_bessel_k(p, order, scaled)

    factor = "exp(x) times the" if scaled else "The"
    doc = f"{factor} modified Bessel function of the second kind of order {order}."
    return special(f"k{order}{'e' if scaled else ''}", 1, doc, jax=printed)


k0: SpecialFunction = _declare_modified(0, False)
k1: SpecialFunction = _declare_modified(1, False)
k0e: SpecialFunction = _declare_modified(0, True)
k1e: SpecialFunction = _declare_modified(1, True)


@op()
def _jn(x: Array, *, n: int) -> TensorType:
    """The Bessel function of the first kind of integer order n >= 2."""
    return result_type(x)


@op()
def _yn(x: Array, *, n: int) -> TensorType:
    """The Bessel function of the second kind of integer order n >= 2."""
    return result_type(x)


@op()
def _kn(x: Array, *, n: int) -> TensorType:
    """The modified Bessel function of the second kind of integer order n >= 2."""
    return result_type(x)


def _print_jn(p: Printing) -> str:
    return p.call(series.bessel_jn, p.node.params["n"], p.inputs[0], "jnp")


def _print_yn(p: Printing) -> str:
    n, x = p.node.params["n"], p.inputs[0]
    low, high = (p.call(series.bessel_y, i, x, "jnp") for i in (0, 1))
    return p.call(series.bessel_recurrence, n, low, high, x, -1.0, "jnp")


def _print_kn(p: Printing) -> str:
    n, x = p.node.params["n"], p.inputs[0]
    low, high = (_call_bessel_k(p, i, scaled=False) for i in (0, 1))
    return p.call(series.bessel_recurrence, n, low, high, x, 1.0, "jnp")


def _print_scipy(p: Printing) -> str:
    """Print a call of SciPy's `yn` or `kn`, which do not compute in float32."""
    call = f"scipy.special.{p.node.primitive.name}({p.node.params['n']}, {p.inputs[0]})"
    single = p.node.outputs[0].dtype.itemsize == 4
    return f'{call}.astype("float32")' if single else call


_jn.emit(numpy="scipy.special.jv({n}, {x})", jax=_print_jn)
_yn.emit(numpy=_print_scipy, jax=_print_yn)
_kn.emit(numpy=_print_scipy, jax=_print_kn)
for _primitive in (_jn, _yn, _kn):
    _primitive.imports = dict(IMPORTS)
    _primitive.elementwise = True


@_jn.vjp
def _(g: Value, x: Value, *, n: int) -> tuple[Value]:
    return (g * of_integer_order("jn", n, _jn(x, n=n + 1), x),)


@_yn.vjp
def _(g: Value, x: Value, *, n: int) -> tuple[Value]:
    return (g * of_integer_order("yn", n, _yn(x, n=n + 1), x),)


@_kn.vjp
def _(g: Value, x: Value, *, n: int) -> tuple[Value]:
    return (g * of_integer_order("kn", n, _kn(x, n=n + 1), x),)


def _of_order(
    name: str,
    n: int | Value,
    x: ArrayLike,
    primitives: tuple[Callable[..., Value], Callable[..., Value], Callable[..., Value]],
) -> Value:
    """Compute order `n` by primitives for orders 0, 1 and above; n < 0 by symmetry."""
    signed = integer_or_none(n)
    if signed is None or not -200 <= signed <= 200:
        problem = "the order must be an integer from -200 to 200"
        raise graph_error(problem, op=f"special.{name}", got=f"{n!r}")
    order = abs(signed)
    if order < 2:
        value: Value = primitives[order](x)
    else:
        value = on_floats(primitives[2], x, n=order)
    odd = signed < 0 and order % 2 and name != "kn"
    return -value if odd else value


@public(name="special.jn")
def jn(n: int, x: ArrayLike) -> Value:
    """The Bessel function of the first kind of an order that is a Python integer.

    Raises GraphError for other orders and above 200.
    """
    return _of_order("jn", n, x, (j0, j1, _jn))


@public(name="special.yn")
def yn(n: int, x: ArrayLike) -> Value:
    """The Bessel function of the second kind of an order that is a Python integer.

    Raises GraphError for other orders and above 200.
    """
    return _of_order("yn", n, x, (y0, y1, _yn))


@public(name="special.kn")
def kn(n: int, x: ArrayLike) -> Value:
    """The modified Bessel function of the second kind of a Python integer order.

    Raises GraphError for other orders and above 200.
    """
    return _of_order("kn", n, x, (k0, k1, _kn))


_REAL = {
    "jv": "The Bessel function of the first kind of real order: jv(order, x).",
    "yv": "The Bessel function of the second kind of real order: yv(order, x).",
    "iv": "The modified Bessel function of the first kind of real order.",
    "ive": "exp(-|x|) iv(order, x).",
    "kv": "The modified Bessel function of the second kind of real order.",
    "kve": "exp(x) kv(order, x).",
}
for _name, _doc in _REAL.items():
    special(_name, 2, _doc, refused="JAX has no Bessel functions of real order")
