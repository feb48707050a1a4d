"""Linear algebra: determinants.

The gradient of a determinant is the matrix of its cofactors. Singular matrices have
cofactors as well, so their gradient is right too (JAX gives zeros for some of them).
"""

from functools import partial
from types import ModuleType
from typing import NamedTuple

from graphc.ir.graph.accepted_types import ArrayLike
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.op import Array, op
from graphc.ir.namespace import F, public
from graphc.ir.types import ConcreteArray, TensorType, real_dtype
from graphc.ops.common.batching import batch_last_axes
from graphc.ops.linalg import gradients as rules
from graphc.ops.linalg import padding
from graphc.ops.linalg.decompositions import (
    as_matrices,
    nan_if_unsolved,
    require_square,
)


@op()
def _det(x: Array) -> TensorType:
    """The determinant."""
    require_square(x)
    return x.type.like(x.type.shape[:-2])


@op()
def _slogdet(x: Array) -> tuple[TensorType, ...]:
    """The sign (or complex phase) of the determinant, and the log of its magnitude."""
    require_square(x)
    batch = x.type.shape[:-2]
    return x.type.like(batch), x.type.like(batch, real_dtype(x.dtype))


_det.emit("{xp}.linalg.det({x})")
_slogdet.emit("{xp}.linalg.slogdet({x})")
batch_last_axes(_det)
batch_last_axes(_slogdet)
_det.padding(partial(padding.det, _det))
_slogdet.padding(partial(padding.slogdet, _slogdet))


@_det.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    return (F.expand_dims(g, (-2, -1)) * _cofactors(x),)


@_slogdet.vjp
def _(g: tuple[Value | None, ...], x: Value) -> tuple[Value | None]:
    of_sign, total = g
    if of_sign is not None and x.dtype.kind == "c":  # a phase can turn, a sign cannot
        turn = F.imag(of_sign * _slogdet(x)[0])
        total = 1j * turn if total is None else total + 1j * turn
    if total is None:
        return (None,)
    weight = F.expand_dims(F.astype(total, x.dtype), (-2, -1))
    return (weight * F.linalg.inv(x).mT,)


@op()
def _cofactors(x: Array) -> TensorType:
    """The derivative of the determinant with respect to each element."""
    require_square(x)
    return x.type.like()


def cofactors(xp: ModuleType, x: ConcreteArray) -> ConcreteArray:
    """Printed into programs: cofactors by singular values, some of which may be 0."""
    u, s, vh = xp.linalg.svd(x)
    ones = xp.ones_like(s[..., :1])
    before = xp.cumprod(xp.concatenate([ones, s[..., :-1]], axis=-1), axis=-1)
    behind = xp.concatenate([ones, s[..., :0:-1]], axis=-1)
    behind = xp.cumprod(behind, axis=-1)[..., ::-1]
    others = (before * behind)[..., None, :].astype(x.dtype)
    phase = xp.linalg.det(u) * xp.linalg.det(vh)
    return phase[..., None, None] * ((u * others) @ vh).conj()


_cofactors.emit(
    numpy=nan_if_unsolved(lambda p: f"lambda a: {p.helper(cofactors)}(np, a)"),
    jax=lambda p: p.call(cofactors, "jnp", p.inputs[0]),
)
batch_last_axes(_cofactors)
padding.pad_by_unit(_cofactors)


@_cofactors.vjp
def _(g: Value, x: Value) -> tuple[Value]:
    # This uses C = det(x) x^-T: not finite if x is singular, as in JAX.
    c = _cofactors(x)
    total = F.sum(g * c, axis=(-2, -1), keepdims=True) * rules.unit(x)
    inner = total - F.matmul(g, c.mT)
    return (F.linalg.solve(x, inner).mT,)


class SlogdetResult(NamedTuple):
    """det(x) = sign * exp(logabsdet)."""

    sign: Value
    logabsdet: Value


@public(name="linalg.det")
def det(a: ArrayLike, /) -> Value:
    """The determinant, which is 1 for matrices without rows."""
    return _det(*as_matrices("linalg.det", a))


@public(name="linalg.slogdet")
def slogdet(a: ArrayLike, /) -> SlogdetResult:
    """The determinant as its sign (or phase) and the logarithm of its magnitude.

    A singular matrix gives 0 and -inf; the sign for NaN is unspecified.
    """
    return SlogdetResult(*_slogdet(*as_matrices("linalg.slogdet", a)))
