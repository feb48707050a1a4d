"""Rules of loops and branches, whose bodies are jaxprs."""

from collections.abc import Sequence
from typing import Any

from graphc.importers.jax.read.jaxprs import open_jaxpr
from graphc.importers.jax.read.reader import Equation, known_size
from graphc.importers.jax.read.rules import PRIMITIVES
from graphc.importers.jax.read.structural import with_axes_appended
from graphc.importers.jax.read.unsupported import Unsupported
from graphc.ir.graph.build import cast
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import equal
from graphc.ir.types import BOOL, INT32


@PRIMITIVES.define("scan", sizes=("length", "unroll"))
def _scan(eqn: Equation, *inputs: Value) -> list[Value]:
    """Read a loop that takes a step for each element of its sequences."""
    body = eqn.params["jaxpr"]
    carries, rows = _parts_of_scan(eqn)
    end = len(inputs) - rows
    start = end - carries
    consts, init, xs = inputs[:start], inputs[start:end], inputs[end:]
    token = eqn.token()
    first = len(token)

    def step(carry: list[Value], row: list[Value]) -> tuple[object, object]:
        values = [*consts, *carry[first:], *row]
        results = eqn.body_after(carry[:first], body, values)
        return results[: first + carries], results[first + carries :]

    ends, stacked = F.scan(
        step,
        [*token, *init],
        list(xs),
        length=F.size_value(eqn.size("length")),
        reverse=eqn.params["reverse"],
        unroll=_unroll(eqn),
    )
    eqn.set_token(ends[:first])
    return [*ends[first:], *stacked]


def _unroll(eqn: Equation) -> int | bool:
    """The number of steps to unroll, which changes no result; True for all of them.

    If all steps are unrolled, JAX still gives their number. Any other number that
    depends on sizes is unknown, and counts as 1.
    """
    unroll, length = eqn.size("unroll"), eqn.size("length")
    if isinstance(unroll, int):
        return unroll
    return True if equal(unroll, length) else 1


def _parts_of_scan(eqn: Equation) -> tuple[int, int]:
    """The numbers of carries and of sequences.

    Versions of JAX store these numbers differently, but ranks tell them in every
    version: a sequence has one axis more than its elements, and a carry has the same
    rank inside and outside.
    """
    inner, _ = open_jaxpr(eqn.params["jaxpr"])
    results = zip(eqn.eqn.outvars, inner.outvars, strict=True)
    carries = sum(_rank(a) == _rank(b) for a, b in results)
    operands = zip(eqn.eqn.invars, inner.invars, strict=True)
    rows = sum(_rank(a) == _rank(b) + 1 for a, b in operands)
    return carries, rows


def _rank(atom: Any) -> int:
    return len(atom.aval.shape)


@PRIMITIVES.define("while")
def _while(eqn: Equation, *inputs: Value) -> list[Value]:
    """Read a loop that runs while a condition holds, or while any of several does.

    With a batch of conditions, each step changes only the elements whose condition
    holds.
    """
    params = eqn.params
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    tested, used, init = inputs[:first], inputs[first:second], inputs[second:]
    if open_jaxpr(params["cond_jaxpr"])[0].effects:
        return _while_its_condition_acts(eqn, tested, used, init)
    token = eqn.token()

    def each_goes_on(carry: list[Value]) -> Value:
        (condition,) = eqn.body(params["cond_jaxpr"], [*tested, *carry[len(token) :]])
        return condition

    def goes_on(carry: list[Value]) -> Value:
        condition = each_goes_on(carry)
        return F.any(condition) if condition.type.rank else condition

    def step(carry: list[Value]) -> list[Value]:
        before = carry[: len(token)]
        values = [*used, *carry[len(token) :]]
        after = eqn.body_after(before, params["body_jaxpr"], values)
        keep = each_goes_on(carry)
        if not keep.type.rank:
            return after
        pairs = list(zip(after, carry, strict=True))[len(token) :]
        chosen = [
            F.where(with_axes_appended(keep, new.type.rank), new, old)
            for new, old in pairs
        ]
        return [*after[: len(token)], *chosen]

    last_carry: list[Value] = F.while_loop(goes_on, step, [*token, *init])
    eqn.set_token(last_carry[: len(token)])
    return last_carry[len(token) :]


def _while_its_condition_acts(
    eqn: Equation,
    tested: Sequence[Value],
    used: Sequence[Value],
    init: Sequence[Value],
) -> list[Value]:
    """Read a loop whose condition has effects: it is computed once before each step.

    As in `_while`, the last condition is computed after all steps.
    """
    params = eqn.params

    def tested_after(token: Sequence[Value], carry: Sequence[Value]) -> list[Value]:
        values = [*tested, *carry]
        new, condition = eqn.body_after(token, params["cond_jaxpr"], values)
        if condition.type.rank:
            problem = "the conditions of several examples have side effects"
            raise Unsupported(f"while: {problem}")
        return [new, condition, *carry]

    def step(carry: list[Value]) -> list[Value]:
        values = [*used, *carry[2:]]
        new, *after = eqn.body_after(carry[:1], params["body_jaxpr"], values)
        return tested_after([new], after)

    start = tested_after(eqn.token(), init)
    last_carry: list[Value] = F.while_loop(lambda carry: carry[1], step, start)
    eqn.set_token(last_carry[:1])
    return last_carry[2:]


@PRIMITIVES.define("cond")
def _cond(eqn: Equation, index: Value, *inputs: Value) -> list[Value]:
    """Read a choice of a branch by its number."""
    bodies = eqn.params["branches"]
    chosen = known_size(index)
    if isinstance(chosen, int):
        return eqn.body(bodies[max(0, min(chosen, len(bodies) - 1))], inputs)
    number = cast(index, INT32) if index.dtype == BOOL else index
    token = eqn.token()
    branches = [lambda b=body: eqn.body_after(token, b, inputs) for body in bodies]
    results: list[Value] = F.switch(number, branches)
    eqn.set_token(results[: len(token)])
    return results[len(token) :]
