"""Random draws with padding: the first draws of many are those of few.

Where a draw is a function of bits that are counted through in row-major order, those
along its first axis do not depend on how many follow; in JAX that holds of its default
generator with its default settings. Draws of other axes, and of the streams that
rejection samplers use on NumPy, are other numbers in longer arrays. Examples that have
keys of their own do not depend on how many examples there are.
"""

from functools import cache
from typing import Any

from graphc.ir.build import Shape
from graphc.ir.graph import Value
from graphc.ir.op import Primitive
from graphc.ir.primitives import OP
from graphc.ir.types import same_size
from graphc.ops.common.padded_reads import is_known
from graphc.ops.common.padding import NotPadded, PaddedValue, Padding


@cache
def _counted() -> frozenset[Primitive]:
    """Draws of which each is a function of bits of its own."""
    return frozenset({
        *(OP.random_split, OP.random_bits, OP.random_uniform, OP.random_normal),
        *(OP.random_truncated_normal, OP.random_lognormal, OP.random_exponential),
        *(OP.random_pareto, OP.random_rayleigh, OP.random_weibull_min),
        *(OP.random_maxwell, OP.random_laplace, OP.random_cauchy, OP.random_logistic),
        *(OP.random_gumbel, OP.random_triangular, OP.random_wald, OP.random_randint),
        *(OP.random_bernoulli, OP.random_geometric),
    })  # fmt: skip


@cache
def _whole() -> frozenset[Primitive]:
    """Draws that depend on whole parameters."""
    one_of_many = (OP.random_categorical, OP.random_choice)
    return frozenset((*one_of_many, OP.random_multivariate_normal))


def declare(primitive: Primitive) -> None:
    """Give the primitive of a random function its mask rule."""

    @primitive.padding
    def _(pad: Padding, *inputs: PaddedValue, **params: Any) -> Value:
        problem = _problem(pad, inputs)
        if problem:
            raise NotPadded(problem)
        filled = [pad.filled(x, sorted(x.axes), 1) for x in inputs]
        made: Value = primitive(*filled, **params)
        return made


def _problem(pad: Padding, inputs: tuple[PaddedValue, ...]) -> str:
    """The reason why true draws would change with padding, "" where they do not."""
    op, given = pad.node.primitive, pad.node.params
    each, shape = given.get("each", ()), given.get("shape", ())
    if each:
        own = [sum(level[i] == "1" for level in each) for i in range(len(inputs))]
        inner = any(x.axes - set(range(n)) for x, n in zip(inputs, own, strict=True))
        known = all(is_known(pad, n) for n in shape)
        if inner or not known or op is OP.random_multivariate_normal:
            return "draws of one example are others in a longer array"
        return ""
    if op not in _counted() | _whole() or given.get("replace") is False:
        return "draws are others in a longer array"
    if op in _whole() and any(x.axes for x in inputs):
        return "draws of more categories, or longer vectors, are others"
    if not is_known(pad, given.get("n", 0)) or not _is_first(pad, shape):
        return "only draws along the first axis are the same in a longer array"
    return ""


def _is_first(pad: Padding, shape: Shape) -> bool:
    """Whether all sizes are known, except the first that is not 1."""
    more = [n for n in shape if not same_size(n, 1)]
    return all(is_known(pad, n) for n in more[1:])
