"""Rules of loops and branches, whose bodies are jaxprs."""

from typing import Any

from graphc.importers.jax.read.jaxprs import opened
from graphc.importers.jax.read.reader import Equation, known_size
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.ir.graph.build import cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import equal
from graphc.ir.types import BOOL, INT32


@PRIMITIVES.define("scan", sizes=("length", "unroll"))
def _scan(eqn: Equation, *inputs: Value) -> list[Value]:
    """A step for each element of sequences."""
    body = eqn.params["jaxpr"]
    carries, rows = _parts_of_scan(eqn)
    end = len(inputs) - rows
    start = end - carries
    consts, init, xs = inputs[:start], inputs[start:end], inputs[end:]

    def step(carry: list[Value], row: list[Value]) -> tuple[object, object]:
        results = eqn.body(body, [*consts, *carry, *row])
        return results[:carries], results[carries:]

    ends, stacked = F.scan(
        step,
        list(init),
        list(xs),
        length=F.size_value(eqn.size("length")),
        reverse=eqn.params["reverse"],
        unroll=_unroll(eqn),
    )
    return [*ends, *stacked]


def _unroll(eqn: Equation) -> int | bool:
    """How many steps are done at once, which changes no result.

    Of all steps, JAX tells the number; a number that depends on sizes is not known.
    """
    unroll, length = eqn.size("unroll"), eqn.size("length")
    if isinstance(unroll, int):
        return unroll
    return True if equal(unroll, length) else 1


def _parts_of_scan(eqn: Equation) -> tuple[int, int]:
    """How many values are carried, and how many sequences there are.

    Versions of JAX differ in how they say it; ranks tell it in all: a sequence has one
    axis more than its elements, what is carried as many.
    """
    inner, _ = opened(eqn.params["jaxpr"])
    results = zip(eqn.eqn.outvars, inner.outvars, strict=True)
    carries = sum(_rank(a) == _rank(b) for a, b in results)
    operands = zip(eqn.eqn.invars, inner.invars, strict=True)
    rows = sum(_rank(a) == _rank(b) + 1 for a, b in operands)
    return carries, rows


def _rank(atom: Any) -> int:
    return len(atom.aval.shape)


@PRIMITIVES.define("while")
def _while(eqn: Equation, *inputs: Value) -> list[Value]:
    """A step, as long as a condition holds; of many at once, for those it holds of."""
    params = eqn.params
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    tested, used, init = inputs[:first], inputs[first:second], inputs[second:]

    def each_goes_on(carry: list[Value]) -> Value:
        (condition,) = eqn.body(params["cond_jaxpr"], [*tested, *carry])
        return condition

    def goes_on(carry: list[Value]) -> Value:
        condition = each_goes_on(carry)
        return F.any(condition) if condition.type.rank else condition

    def step(carry: list[Value]) -> list[Value]:
        after = eqn.body(params["body_jaxpr"], [*used, *carry])
        keep = each_goes_on(carry)
        if not keep.type.rank:
            return after
        pairs = zip(after, carry, strict=True)
        return [F.where(_before(keep, new), new, old) for new, old in pairs]

    last_carry: list[Value] = F.while_loop(goes_on, step, list(init))
    return last_carry


def _before(keep: Value, like: Value) -> Value:
    """`keep` with axes of size 1 after its own, up to the rank of `like`."""
    new = tuple(range(keep.type.rank, like.type.rank))
    return F.expand_dims(keep, new) if new else keep


@PRIMITIVES.define("cond")
def _cond(eqn: Equation, index: Value, *inputs: Value) -> list[Value]:
    """The branch of a number."""
    bodies = eqn.params["branches"]
    chosen = known_size(index)
    if isinstance(chosen, int):
        return eqn.body(bodies[max(0, min(chosen, len(bodies) - 1))], inputs)
    number = cast(index, INT32) if index.dtype == BOOL else index
    branches = [lambda body=body: eqn.body(body, inputs) for body in bodies]
    results: list[Value] = F.switch(number, branches)
    return results
