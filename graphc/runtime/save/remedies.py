"""The call of `compile` that would have compiled a program ahead of a call."""

from collections.abc import Mapping, Sequence
from operator import index
from typing import SupportsIndex

from graphc.errors import GraphError
from graphc.ir.sizes.dims import Symbol, named_axes
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.driver.stance import Refused, Remedy
from graphc.runtime.save.lowering import steps_without_checks
from graphc.transform.planning.plan import Plan

_NUMBERS = bool, int, float, complex


def sizes_of_call(plan: Plan, args: Sequence[object]) -> dict[str, int]:
    """Return the sizes that arguments tell, by the names that `compile` takes.

    Arguments may be types, or None where nothing is told. Keys of JAX have one axis
    less than their words.
    """
    sizes: dict[Symbol, int] = {}
    for value, argument in zip(plan.called.inputs, args, strict=True):
        if value._symbol is not None and isinstance(argument, SupportsIndex):
            sizes[value._symbol] = index(argument)
        shape = getattr(argument, "shape", ())
        rank = min(len(shape), value.type.rank)
        sizes.update(named_axes(value.type.shape[:rank], shape[:rank]))
    return {s.name: sizes[s] for s in plan.called.argument_symbols if s in sizes}


def remedy(
    prepared: PreparedProgram, args: Sequence[object], refused: Refused
) -> Remedy:
    """Return the remedy for a call with these arguments.

    It has no code where the call needs a compilation for how its arguments are placed.
    """
    plan = prepared.plan
    known = sizes_of_call(plan, args)
    symbols = plan.called.argument_symbols
    if refused.segment is None or any(s.name not in known for s in symbols):
        return Remedy(dict(known), {}, "")
    try:
        reads = steps_without_checks(plan, "compile").reads
    except GraphError:
        return Remedy(dict(known), {}, "")
    read: dict[str, int] = {}
    for name, size in refused.sizes.items():
        symbol = prepared.sizes.get(name)
        original = None if symbol is None else plan.originals.get(symbol, symbol)
        for s in (symbol, original):
            if s is not None and s.name in reads:
                read.setdefault(s.name, size)
    sizes = {**known, **read}
    scalars = [a for a in args if not getattr(a, "shape", ())]
    numbers = {type(a) in _NUMBERS for a in scalars} or {True}
    if len(numbers) > 1:
        return Remedy(sizes, read, "")  # `compile` takes all of them to be alike
    arrays = "" if True in numbers else ", numbers=False"
    return Remedy(sizes, read, f"f.compile({dict_text(sizes)}{arrays})")


def dict_text(sizes: Mapping[str, int]) -> str:
    """Write sizes as code."""
    items = ", ".join(f'"{name}": {n}' for name, n in sizes.items())
    return f"{{{items}}}"
