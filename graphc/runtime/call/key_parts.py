"""The parts of arguments that decide which compilation of a program serves a call.

They are the sizes of axes, capacities where these are padded, the numbers of static
inputs, and the kinds of other scalars.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import index
from typing import Any

from graphc.ir.sizes.dims import Dim, Symbol, symbol_dim
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.call.arguments import ArgumentValues
from graphc.runtime.call.dispatch import Run
from graphc.transform.planning.plan import Plan
from graphc.transform.policies import Pad

PartRunner = Callable[[ArgumentValues], Any]


def parts_of(prepared: PreparedProgram) -> list[tuple[str, PartRunner]]:
    """Return named functions that take the parts of a program's key from arguments."""
    facts = prepared.facts
    rounded = capacities(prepared.plan) if facts.padded else {}
    parts: dict[Symbol, tuple[str, PartRunner]] = {}
    others: list[tuple[str, PartRunner]] = []
    axes: list[tuple[int, int, Dim]] = []
    for i, value in enumerate(prepared.inputs):
        symbol = value._symbol
        if value.type.rank:
            shape = enumerate(value.type.shape)
            axes += [(i, axis, n) for axis, n in shape if isinstance(n, Dim)]
        elif symbol is not None and (symbol in rounded or i in facts.statics):
            parts[symbol] = symbol.name, _number(i, rounded.get(symbol))
        else:
            others.append(("", _kind(i)))
    for i, axis, n in axes:
        symbol = n.symbols[0]
        if n is symbol_dim(symbol) and symbol not in parts:
            parts[symbol] = symbol.name, _size(i, axis, rounded.get(symbol))
    for i, axis, n in axes:
        if any(s not in parts for s in n.symbols):
            others.append((str(n), _size(i, axis, None)))
    return [*parts.values(), *others]


def shapes_and_numbers(prepared: PreparedProgram) -> PartRunner:
    """Return a function that tells arguments of different keys apart at less cost."""
    kind = _kind_text(prepared, [f"args[{i}]" for i in range(len(prepared.inputs))])
    key_of_arguments: PartRunner = eval(f"lambda args: {kind}", _KIND_SCOPE)
    return key_of_arguments


def looking_up(
    prepared: PreparedProgram,
    known: Mapping[tuple[Hashable, ...], Callable[[], Run]],
    otherwise: Run,
    failed: Callable[..., None],
) -> Run:
    """Return a function that looks up by shapes and numbers what runs a call.

    `known` maps shapes and numbers to functions that give what runs such calls.
    `otherwise` runs all other calls, and `failed` is called for known ones that raise.
    The function is printed for the arguments of a program, since every call of one that
    adapts runs it.
    """
    names = [f"a{i}" for i in range(len(prepared.inputs))]
    kind, row = _kind_text(prepared, names), ", ".join(names)
    text = _LOOKING_UP.format(kind=kind, row=row)
    scope: dict[str, Any] = {"known": known, "otherwise": otherwise, "failed": failed}
    scope |= _KIND_SCOPE
    exec(compile(text, "<graphc look-up>", "exec"), scope)
    run: Run = scope["look_up"]
    return run


_LOOKING_UP = """\
def look_up({row}):
    try:
        acquire = known.get({kind})
    except (AttributeError, TypeError):  # as of an argument that is traced
        acquire = None
    if acquire is None:
        return otherwise({row})
    try:
        return acquire()({row})
    except BaseException:
        failed({row})
        raise
"""


def _kind_text(prepared: PreparedProgram, names: Sequence[str]) -> str:
    """Print the shapes and numbers of arguments of these names as an expression."""
    inputs, statics = prepared.inputs, prepared.facts.statics
    parts = [
        f"{name}.shape"
        for v, name in zip(inputs, names, strict=True)
        if any(isinstance(n, Dim) for n in v.type.shape)
    ]
    parts += [
        f"{'index' if i in statics or v._symbol is not None else 'kind'}({names[i]})"
        for i, v in enumerate(inputs)
        if not v.type.rank
    ]
    return f"({', '.join([*parts, ''])})" if parts else "()"


def capacities(plan: Plan) -> dict[Symbol, Pad]:
    """Return the sizes that are rounded up, unless a segment needs the true one."""
    padded = plan.padded
    if padded is None:
        return {}
    keys = {s for segment in plan.segments for s in segment.keys}
    true = {padded.originals[s] for s in keys & padded.originals.keys()}
    policies = {s: p for s, p in padded.policies.items() if s not in true}
    return {s: p for s, p in policies.items() if isinstance(p, Pad)}


def _size(i: int, axis: int, pad: Pad | None) -> PartRunner:
    """Return a function that gives the size; it raises TypeError for a symbol."""
    if pad is None:
        return lambda args: index(args[i].shape[axis])
    return lambda args: pad.capacity(index(args[i].shape[axis]))


def _number(i: int, pad: Pad | None) -> PartRunner:
    if pad is None:
        return lambda args: index(args[i])
    return lambda args: pad.capacity(index(args[i]))


def _kind(i: int) -> PartRunner:
    """Return the part of the key that tells Python's scalars from arrays."""

    return lambda args: _kind_of(args[i])


def _kind_of(argument: object) -> object:
    weak = getattr(argument, "weak_type", False)
    return getattr(argument, "dtype", type(argument)), weak


_KIND_SCOPE: dict[str, object] = {"index": index, "kind": _kind_of}
