"""`jax.lax.associative_scan` along an axis whose size is a symbol.

JAX halves the axis in Python until one element is left, so its steps depend on the
size. In a trace for many sizes, one loop replaces the halvings. Its steps combine the
same elements in the same order (Brent and Kung, A regular layout for parallel adders,
1982): blocks of 2, 4, 8 ..., then each element with the blocks before it. So even
functions that are not associative give the same results. For derivatives, all the
combinations are written as equations in those before them, and the derivative solves
the linearized equations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.core
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn, Literal, Var

from graphc.importers.jax.read.jaxprs import (
    array_type,
    is_array_type,
    is_key,
    open_jaxpr,
    zero_tangent,
)
from graphc.importers.jax.trace.replaced_functions import (
    needs_same_steps,
    replace_in_jax,
)
from graphc.ir.types import JaxArray

if TYPE_CHECKING:
    from graphc.importers.jax.read.jaxprs import PyTreeDef

Elements = Sequence[JaxArray]
_Inputs = tuple[Elements, Elements, Sequence[Elements]]
_Rows = list[JaxArray]
_Widths = tuple[JaxArray, JaxArray, list[JaxArray]]
_Slopes = tuple[list[JaxArray], list[JaxArray]]  # of values, and of their tangents
T = TypeVar("T")


@dataclass(frozen=True)
class _Combine:
    """The function that combines elements: `jaxpr` takes one slice of each array.

    The size of the `axis` is 1 in it. Captured values come first.
    """

    jaxpr: Any
    axis: int

    def of_slices(
        self, outside: Elements, before: Elements, after: Elements
    ) -> list[JaxArray]:
        """Combine slices that lack the axis."""
        inner, _ = open_jaxpr(self.jaxpr)
        single = [jnp.expand_dims(x, self.axis) for x in (*before, *after)]
        combined = jax.core.eval_jaxpr(inner, outside, *single)
        return [jnp.squeeze(x, self.axis) for x in combined]

    def of_rows(
        self, outside: Elements, before: Elements, after: Elements
    ) -> list[JaxArray]:
        """Combine the elements of arrays whose first axis is the scanned one."""
        each = jax.vmap(self.of_slices, (None, 0, 0))
        return list(each(list(outside), list(before), list(after)))


def _running_results(
    combine: _Combine,
    by_loop: Callable[[_Combine, Elements, Elements, Sequence[Elements]], _Rows],
    outside: Elements,
    x: Elements,
    halvings: int,
) -> _Rows:
    """All running results along the first axis.

    Pairs are combined first, `halvings` times, as in JAX; a loop scans the remaining
    ones.
    """
    spare = [lax.stop_gradient(_rows_at(x, jnp.full(1, i, "int32"))) for i in (0, 1)]
    if not halvings:
        return by_loop(combine, outside, x, spare)
    n = x[0].shape[0]
    first = jnp.arange(n // 2, dtype="int32") * 2
    pairs = combine.of_rows(outside, _rows_at(x, first), _rows_at(x, first + 1))
    odd = _running_results(combine, by_loop, outside, pairs, halvings - 1)
    index = jnp.arange(n - n // 2, dtype="int32")
    before, after = _rows_at(odd, jnp.maximum(index - 1, 0)), _rows_at(x, index * 2)
    even = _combine_some_rows(combine, outside, spare, index > 0, before, after, after)
    place = jnp.arange(n, dtype="int32")
    if halvings == 1:
        return _rows_where(
            place % 2 == 1, _rows_at(odd, place // 2), _rows_at(even, place // 2)
        )
    # A choice between computed rows would make XLA compute them twice per halving.
    return _rows_at(list(map(_interleaved, even, _rows_at(odd, index))), place)


def _interleaved(even: JaxArray, odd: JaxArray) -> JaxArray:
    """Interleave the rows of two arrays."""
    pairs = jnp.stack([even, odd], axis=1)
    return pairs.reshape(2 * even.shape[0], *even.shape[1:])


def _results_by_loop(
    combine: _Combine, outside: Elements, x: Elements, _: Sequence[Elements]
) -> _Rows:
    """All running results, in one loop: up a tree of blocks, then down."""
    size = jnp.asarray(x[0].shape[0], "int32")
    index = jnp.arange(x[0].shape[0], dtype="int32")

    def step(carry: _Widths) -> _Widths:
        width, rises, now = carry
        combined = combine.of_rows(outside, _rows_at(now, index - width), now)
        within = (index + 1) & (2 * width - 1)
        joins = jnp.where(rises, within == 0, (within == width) & (index >= width))
        goes_up = rises & (4 * width <= size)
        falling = jnp.where(rises, width, width // 2)
        width = jnp.where(goes_up, 2 * width, falling)
        return width, goes_up, _rows_where(joins, combined, now)

    start = jnp.int32(1), jnp.asarray(True), list(x)
    return list(lax.while_loop(lambda carry: carry[0] > 0, step, start)[2])


def _results_by_equations(
    combine: _Combine, outside: Elements, x: Elements, spare: Sequence[Elements]
) -> list[JaxArray]:
    """Compute the same results as solutions of equations, which can be differentiated.

    Blocks of 2^k elements form a binary tree, and are numbered in the order of their
    middles: element i is block 2 i. A result combines the result before the last block
    with that block; without elements before, it is the block itself.
    """
    n = x[0].shape[0]

    # Captured values are inputs: derivatives are traced later, when these would be
    # gone.
    def blocks_of(inputs: _Inputs, now: Elements) -> list[JaxArray]:
        outside, x, spare = inputs
        place = jnp.arange(2 * n, dtype="int32")
        half = ((place + 1) & -(place + 1)) // 2
        is_whole = (half > 0) & (place + 2 * half < 2 * n)
        left, right = _rows_at(now, place - half), _rows_at(now, place + half)
        return _combine_some_rows(combine, outside, spare, is_whole, left, right, x)

    def results_of(inputs: _Inputs, now: Elements) -> list[JaxArray]:
        outside, blocks, spare = inputs
        index, last = _last_blocks(n)
        before = _rows_at(now, index - last)
        return _combine_some_rows(
            combine, outside, spare, last <= index, before, blocks, blocks
        )

    of_elements = _rows_at(x, jnp.arange(2 * n, dtype="int32") // 2)
    blocks = _fixed_point_of(blocks_of, n)(([*outside], of_elements, spare))
    index, last = _last_blocks(n)
    own_blocks = _rows_at(blocks, 2 * index - last + 1)
    return _fixed_point_of(results_of, n)(([*outside], own_blocks, spare))


def _last_blocks(n: int) -> tuple[JaxArray, JaxArray]:
    """The positions 0 ... n-1, and the size of the last block up to each of them."""
    index = jnp.arange(n, dtype="int32")
    return index, (index + 1) & -(index + 1)


def _combine_some_rows(
    combine: _Combine,
    outside: Elements,
    spare: Sequence[Elements],
    joins: JaxArray,
    before: Elements,
    after: Elements,
    alone: Elements,
) -> list[JaxArray]:
    """Combine the rows that are to be joined, and take those `alone` elsewhere.

    For the latter, two `spare` rows are combined. JAX combines these too, so the
    function accepts their values and has a derivative there.
    """
    left = _rows_where(joins, before, spare[0])
    right = _rows_where(joins, after, spare[1])
    return _rows_where(joins, combine.of_rows(outside, left, right), alone)


def _fixed_point_of(
    update: Callable[[_Inputs, Elements], list[JaxArray]], count: int
) -> Callable[[_Inputs], list[JaxArray]]:
    """Return a function that finds the fixed point of `update`, from its second input.

    The update is triangular, and reaches the fixed point in as many steps as `count`
    has bits. The linear system of tangents and its transpose are solved in the same
    way.
    """

    def settled(once: Callable[[T], T], start: T) -> T:
        bits = jnp.asarray(count, "int32") >> jnp.arange(31, dtype="int32")
        depth = jnp.sum(bits > 0, dtype="int32")
        return lax.fori_loop(0, depth, lambda _, now: once(now), start)

    @jax.custom_jvp
    def solution(inputs: _Inputs) -> list[JaxArray]:
        return list(settled(partial(update, inputs), list(inputs[1])))

    @solution.defjvp
    def _(primals: tuple[_Inputs], tangents: tuple[_Inputs]) -> _Slopes:
        now = solution(*primals)
        floats, join = _floats_of(now)
        _, change = jax.jvp(
            lambda inputs: _floats_of(update(inputs, now))[0], primals, tangents
        )
        as_one: Any = lax.optimization_barrier  # so that JAX sees one linear function
        change = as_one(change)
        _, linear = jax.linearize(
            lambda chosen: _floats_of(update(*primals, join(chosen)))[0], floats
        )
        transposed = jax.linear_transpose(linear, floats)

        def by(function: Callable[[T], T], start: T) -> T:
            return settled(lambda v: jax.tree.map(jnp.add, start, function(v)), start)

        slopes = lax.custom_linear_solve(
            lambda v: jax.tree.map(jnp.subtract, v, linear(v)),
            change,
            lambda _, start: by(linear, start),
            lambda _, start: by(lambda v: transposed(v)[0], start),
        )
        pairs = zip(join(slopes), now, strict=True)
        return now, [zero_tangent(v) if v is slope else slope for slope, v in pairs]

    return solution


def _floats_of(
    values: Elements,
) -> tuple[list[JaxArray], Callable[[Elements], list[JaxArray]]]:
    """The floats among values, and a function that puts new floats among the others."""
    floats = [jnp.issubdtype(v.dtype, jnp.inexact) for v in values]

    def join(chosen: Elements) -> list[JaxArray]:
        remaining = iter(chosen)
        pairs = zip(values, floats, strict=True)
        return [next(remaining) if is_float else v for v, is_float in pairs]

    return [v for v, is_float in zip(values, floats, strict=True) if is_float], join


def _rows_at(x: Elements, index: JaxArray) -> list[JaxArray]:
    return [jnp.take(v, index, axis=0, mode="clip") for v in x]


def _rows_where(mask: JaxArray, x: Elements, y: Elements) -> list[JaxArray]:
    """Choose rows of one or the other by a mask."""
    pairs = zip(x, y, strict=True)
    return [jnp.where(_mask_like(mask, v), v, w) for v, w in pairs]


def _mask_like(mask: JaxArray, like: JaxArray) -> JaxArray:
    return jnp.expand_dims(mask, tuple(range(1, like.ndim)))


_HALVINGS = 4  # leave so few elements that a loop costs less than the halvings


def _differentiable_scan(combine: _Combine) -> Callable[[Elements, Elements], _Rows]:
    """Return the function of running results, with a derivative.

    Each step of a loop goes over all elements. On their own, such steps are fused and
    cost less than halvings; with derivatives, they cost several times as much.
    """

    @jax.custom_jvp
    def running(outside: Elements, x: Elements) -> _Rows:
        return _running_results(combine, _results_by_loop, outside, x, 1)

    @running.defjvp
    def _(
        primals: tuple[Elements, Elements], tangents: tuple[Elements, Elements]
    ) -> _Slopes:
        has_many = primals[1][0].shape[0] >= 2 ** (_HALVINGS + 1)
        halvings = _HALVINGS if has_many else 1  # at least two elements are left

        def halved(outside: Elements, x: Elements) -> _Rows:
            return _running_results(
                combine, _results_by_equations, outside, x, halvings
            )

        return jax.jvp(halved, primals, tangents)

    return running


def _combine_of_slices(
    fn: Callable[..., object], tree: "PyTreeDef", x: Elements, axis: int
) -> _Combine | None:
    """The function of single slices; None if it does not preserve their types."""

    def flat(*slices: object) -> list[JaxArray]:
        halves = slices[: len(x)], slices[len(x) :]
        return jax.tree.leaves(fn(*(tree.unflatten(half) for half in halves)))

    single: list[Any] = [
        array_type((*v.shape[:axis], 1, *v.shape[axis + 1 :]), v.dtype) for v in x
    ]
    jaxpr = jax.make_jaxpr(flat)(*single, *single)
    keeps_types = _types(jaxpr.out_avals) == _types(single)
    if (
        jaxpr.effects
        or not keeps_types
        or _types(jax.eval_shape(flat, *x, *x)) != _types(x)
    ):
        return None
    pairs = zip(single, x, strict=True)
    weak = [array_type(one.shape, one.dtype, _is_weak(v)) for one, v in pairs]
    of_weak = jaxpr if weak == single else jax.make_jaxpr(flat)(*weak, *weak)
    if _steps(of_weak) != _steps(jaxpr):
        return None
    return _Combine(jaxpr, axis)


def _steps(jaxpr: object) -> list[object]:
    """The steps of a function, to see whether weak types change them by promotion.

    A conversion to the same dtype does not count as a step.
    """
    inner = open_jaxpr(jaxpr)[0]
    numbers: dict[Var, int] = {}
    for var in (*inner.constvars, *inner.invars):
        numbers[var] = len(numbers)
    counted, steps = len(numbers), list[object]()

    def named(atom: Any) -> object:
        return str(atom) if isinstance(atom, Literal) else numbers[atom]

    for eqn in inner.eqns:
        inputs = [named(atom) for atom in eqn.invars]
        if _changes_nothing(eqn) and isinstance(inputs[0], int):
            numbers[eqn.outvars[0]] = inputs[0]
            continue
        steps.append((eqn.primitive.name, str(eqn.params), inputs))
        for var in eqn.outvars:
            numbers[var] = counted = counted + 1
    return [*steps, [named(atom) for atom in inner.outvars]]


def _changes_nothing(eqn: JaxprEqn) -> bool:
    avals: list[Any] = [atom.aval for atom in (*eqn.invars, *eqn.outvars)]
    return (
        eqn.primitive.name == "convert_element_type"
        and avals[0].dtype == avals[1].dtype
    )


def _is_weak(x: object) -> bool:
    return bool(getattr(jax.typeof(x), "weak_type", False))


def _types(arrays: Elements) -> list[tuple[object, object]]:
    return [(v.shape, v.dtype) for v in arrays]


def _is_plain(x: object) -> bool:
    """Whether this is an array that loops carry as it is."""
    aval = jax.typeof(x)
    return is_array_type(aval) and not is_key(aval.dtype)


def _size(x: Elements, axis: int) -> object:
    """The size of the axis if all arrays share it, else None."""
    if not x or not all(map(_is_plain, x)) or axis not in range(-x[0].ndim, x[0].ndim):
        return None
    axis %= x[0].ndim
    sizes = [v.shape[axis] for v in x if v.ndim > axis]
    alike = len(sizes) == len(x) and all(n is sizes[0] or n == sizes[0] for n in sizes)
    return sizes[0] if alike else None


def scan_associatively(
    fn: Callable[..., object], elems: object, reverse: bool = False, axis: int = 0
) -> object:
    """Scan as `jax.lax.associative_scan`, but with the same steps at many sizes."""
    tree: Any
    x, tree = jax.tree.flatten(elems)
    known = callable(fn) and all(isinstance(v, jax.Array) for v in x)
    if known and needs_same_steps(_size(x, axis)):
        axis %= x[0].ndim
        combine = _combine_of_slices(fn, tree, x, axis)
        if combine is not None:
            return tree.unflatten(_scan_along_axis(combine, x, reverse))
    return _JAX_SCAN(fn, elems, reverse, axis)


def _scan_along_axis(combine: _Combine, x: Elements, reverse: bool) -> list[JaxArray]:
    strong = [lax.convert_element_type(v, v.dtype) for v in x]
    rows = [jnp.moveaxis(v, combine.axis, 0) for v in strong]
    rows = [jnp.flip(v, 0) for v in rows] if reverse else rows
    outside = list(open_jaxpr(combine.jaxpr)[1])
    combined = _differentiable_scan(combine)(outside, rows)
    combined = [jnp.flip(v, 0) for v in combined] if reverse else combined
    return [jnp.moveaxis(v, 0, combine.axis) for v in combined]


def _replacement(
    fn: Callable[..., object], elems: object, reverse: "bool" = False, axis: "int" = 0
) -> object:
    ours = __import__(
        "graphc.importers.jax.trace.associative", fromlist=["scan_associatively"]
    )
    return ours.scan_associatively(fn, elems, reverse, axis)


_JAX_SCAN = replace_in_jax(lax.associative_scan, _replacement)
