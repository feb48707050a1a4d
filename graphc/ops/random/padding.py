"""Random draws with padding: the same numbers as at true sizes.

Draws are functions of bits that are counted in row-major order (in JAX with its default
generator and settings), so the first of many draws are those of a few. Along the first
axis, then, draws stay as they are. For other axes, as many as there is room for are
drawn in a row, and each element takes the draw at its number among the true elements.
Examples with keys of their own do not depend on the number of examples.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from graphc.ir.graph.build import Shape, as_value, cast
from graphc.ir.graph.nodes import Params, Value
from graphc.ir.graph.op import Primitive
from graphc.ir.namespace import F
from graphc.ir.params.kinds import Param
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import Size
from graphc.ir.types import DType, product, same_size
from graphc.ops.common.padded_reads import (
    as_int32,
    at_flat_places,
    flat_places,
    iota,
    is_known,
    read_at,
)
from graphc.ops.common.padding import NotPadded, PaddedValue, Padding

# An order is sorted by random words once more from each of these sizes on: JAX makes
# ceil(3 * log(n) / log(2**32 - 1)) rounds.
ROUNDS = (2, 1626, 2642246)


@cache
def _counting_primitives() -> frozenset[Primitive]:
    """The primitives whose draws are each a function of bits of its own.

    Poisson and binomial variates are not: JAX draws all of them again until the last
    one is accepted, so each depends on the others.
    """
    return frozenset({
        *(OP.random_split, OP.random_bits, OP.random_uniform, OP.random_normal),
        *(OP.random_truncated_normal, OP.random_lognormal, OP.random_exponential),
        *(OP.random_pareto, OP.random_rayleigh, OP.random_weibull_min),
        *(OP.random_maxwell, OP.random_laplace, OP.random_cauchy, OP.random_logistic),
        *(OP.random_gumbel, OP.random_triangular, OP.random_wald, OP.random_randint),
        *(OP.random_bernoulli, OP.random_geometric, OP.random_gamma),
        *(OP.random_loggamma, OP.random_beta, OP.random_chisquare, OP.random_t),
        *(OP.random_f, OP.random_dirichlet),
    })  # fmt: skip


@cache
def _dependent_primitives() -> frozenset[Primitive]:
    """The primitives whose draws depend on all elements of a parameter."""
    one_of_many = (OP.random_categorical, OP.random_choice)
    return frozenset((*one_of_many, OP.random_multivariate_normal))


def declare(primitive: Primitive) -> None:
    """Give the primitive of a random function its mask rule."""

    @primitive.padding
    def _(pad: Padding, *inputs: PaddedValue, **params: Param) -> Value:
        result = _draw_otherwise(pad, inputs, params)
        if result is not None:
            return result
        problem = _why_not_same(pad, inputs)
        if problem:
            raise NotPadded(problem)
        filled = [pad.filled(x, sorted(x.axes), 1) for x in inputs]
        draws: Value = primitive(*filled, **params)
        return draws


def _draw_otherwise(
    pad: Padding, inputs: Sequence[PaddedValue], params: Params
) -> Value | None:
    """Draw in another way than by the op at capacities, or return None."""
    op, true_params = pad.node.primitive, pad.node.params
    if true_params.get("each"):
        return None
    if op is OP.random_permutation:
        return _permute(pad, *inputs, axis=true_params["axis"], alike=_is_alike(pad))
    if op is OP.random_categorical and true_params["replace"]:
        return _categories(pad, *inputs)
    if op is OP.random_choice and not is_known(pad, true_params["n"]):
        return _choose_positions(pad, *inputs, **params)
    if op in _counting_primitives() - {OP.random_dirichlet} and not _is_first(
        pad, true_params["shape"]
    ):
        return _draw_as_vector(pad, inputs, params)
    return None


def _why_not_same(pad: Padding, inputs: tuple[PaddedValue, ...]) -> str:
    """The reason why true draws would change with padding, "" if they would not."""
    op, true_params = pad.node.primitive, pad.node.params
    each, shape = true_params.get("each", ()), true_params.get("shape", ())
    if each:
        depths = [sum(level[i] == "1" for level in each) for i in range(len(inputs))]
        inner = any(x.axes - set(range(n)) for x, n in zip(inputs, depths, strict=True))
        known = all(is_known(pad, n) for n in shape)
        if inner or not known or op is OP.random_multivariate_normal:
            return "the draws of one example differ in a longer array"
        return ""
    declared = _counting_primitives() | _dependent_primitives()
    if op not in declared or true_params.get("replace") is False:
        return "draws differ in a longer array"
    if op in _dependent_primitives() and any(x.axes for x in inputs):
        return "draws differ with more categories or longer vectors"
    if op is OP.random_dirichlet and not is_known(pad, pad.out[-1]):
        return "draws differ with more categories or longer vectors"
    if not is_known(pad, true_params.get("n", 0)) or not _is_first(pad, shape):
        return "only draws along the first axis are the same in a longer array"
    return ""


def _is_first(pad: Padding, shape: Shape) -> bool:
    """Whether all sizes are known but for the first one that is not 1."""
    more = [n for n in shape if not same_size(n, 1)]
    return all(is_known(pad, n) for n in more[1:])


def _draw_as_vector(
    pad: Padding, inputs: Sequence[PaddedValue], params: Params
) -> Value:
    """Draw an array as a vector; each element takes the draw at its true number."""
    true, stored = pad.node.params["shape"], params["shape"]
    count = product(stored)
    at = iota(count)
    key, *parameters = inputs
    flat = [key.value]
    for x in parameters:
        value = pad.filled(x, sorted(x.axes), 1)
        if x.type.rank:
            value = F.broadcast_to(value, stored)
            value = at_flat_places(pad, value, true, at)
        flat.append(value)
    row = pad.node.primitive(*flat, **{**params, "shape": (count,)})
    return read_at(row, 0, flat_places(pad, true))


def _is_alike(pad: Padding) -> bool:
    """Whether all rows of a random order move together."""
    true_params = pad.node.params
    return not true_params["independent"] or pad.node.inputs[1].type.rank == 1


def _permute(
    pad: Padding, key: PaddedValue, x: PaddedValue, *, axis: int, alike: bool
) -> Value | None:
    """Put the elements along an axis in the random order for their true number."""
    n = x.type.shape[axis]
    if not alike:
        return None
    if is_known(pad, n):
        params = {"axis": axis, "independent": False}
        elements: Value = OP.random_permutation(key.value, x.value, **params)
        return elements
    return read_at(x.value, axis, _order(pad, key.value, n))


def _order(pad: Padding, key: Value, n: Size) -> Value:
    """A random order of `n` positions, with the padding after them.

    Positions are sorted by random words, with the largest word for padding, as often as
    it takes for equal words not to matter.
    """
    order = iota(pad.stored(n))
    inside = order < as_int32(pad, n)
    for least in ROUNDS:
        key, drawn = (F.random.split(key)[i] for i in range(2))
        words = F.random.bits(drawn, order.type.shape, "uint32")
        words = F.where(inside, words, np.uint32(2**32 - 1))
        again = as_int32(pad, n) >= least
        order = F.where(again, F.take(order, F.argsort(words, stable=True)), order)
    return order


def _categories(pad: Padding, key: PaddedValue, logits: PaddedValue) -> Value:
    """Draw as the op does: the category with the largest logit plus Gumbel variate."""
    true_params, rank = pad.node.params, logits.type.rank
    axis, shape = true_params["axis"], true_params["shape"]
    at = len(shape) - (rank - 1) + axis
    drawn = (*shape[:at], logits.type.shape[axis], *shape[at:])
    count = product(tuple(map(pad.stored, drawn)))
    row = F.random.gumbel(key.value, (count,), logits.type.dtype)
    noise = read_at(row, 0, flat_places(pad, drawn))
    score = noise + pad.filled(logits, logits.ragged([axis]), -np.inf)
    return cast(F.argmax(score, axis=at), true_params["dtype"])


def _choose_positions(
    pad: Padding,
    key: PaddedValue,
    *chances: PaddedValue,
    n: Size,
    shape: Shape,
    replace: bool,
    dtype: DType,
) -> Value | None:
    """Choose from fewer elements than there is room for.

    With probabilities, those of the padding are 0. Without replacement, the op orders
    elements by variates, of which the first of many are those of a few.
    """
    true = pad.node.params
    if not _is_first(pad, true["shape"]):
        return None
    if chances:
        values = pad.filled(chances[0], (0,), 0)
        if replace:
            return cast(_choose_by_chance(pad, key.value, values, shape), dtype)
        params = {"n": n, "shape": shape, "replace": False, "dtype": dtype}
        draws: Value = OP.random_choice(key.value, values, **params)
        return draws
    if replace:
        most = cast(as_value(pad.length(true["n"])), dtype)
        numbers: Value = F.random.randint(key.value, shape, 0, most, dtype)
        return numbers
    order = cast(_order(pad, key.value, true["n"]), dtype)
    return F.reshape(read_at(order, 0, iota(product(shape))), shape)


def _choose_by_chance(pad: Padding, key: Value, chances: Value, shape: Shape) -> Value:
    """Find where running sums reach a share of the last one, as the op does.

    A running sum does not depend on the elements after it, not even in its rounding.
    """
    n = pad.node.params["n"]
    sums = F.cumsum(chances)
    last = read_at(sums, 0, F.maximum(as_int32(pad, n) - 1, 0))
    reach = last * (1 - F.random.uniform(key, shape, chances.dtype))
    inside = pad.mask(n, 0, 1)
    positions: Value = F.searchsorted(F.where(inside, sums, np.nan), reach)
    return positions
