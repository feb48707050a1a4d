"""`scan_taps`: recurrences that look back over several steps, like Aesara's scan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import graph_error
from graphc.ir.graph.build import as_strong_value, as_value
from graphc.ir.graph.nodes import Value
from graphc.ir.integers import integer_or_none
from graphc.ir.namespace import F, public
from graphc.ir.sizes.dims import equal, maximum
from graphc.transform.loops.scan_api import scan

_OP = "scan_taps"


@dataclass(frozen=True)
class _TappedArray:
    """An array whose first axis is time, and the taps that a step takes of it.

    For an output, `value` holds the values before the first step, or the one value of
    tap -1.
    """

    value: Value
    taps: tuple[int, ...]

    @property
    def depth(self) -> int:
        """The number of steps that an output looks back."""
        return -min(self.taps)

    def values_at_taps(self, past: Value) -> list[Value]:
        """Select the values that a step takes from the `past` values of an output."""
        if self.depth == 1:
            return [past] * len(self.taps)
        return [past[self.depth + tap] for tap in self.taps]

    def past_after_step(self, past: Value, new: Any) -> Any:
        """Return the values to keep after a step."""
        if self.depth == 1:
            return new
        return F.concatenate([past[1:], F.expand_dims(new, 0)])


@public()
def scan_taps(
    f: Callable[..., object],
    outputs: Any,
    sequences: object = (),
    length: object = None,
    reverse: bool = False,
    until: Callable[..., object] | None = None,
) -> Any:
    """Scan `f` over elements of sequences and its own outputs of earlier steps.

    >>> import graphc, graphc.tensor as gt
    >>> start = {"initial": [1, 1], "taps": [-1, -2]}
    >>> numbers = gt.scan_taps(lambda a, b: a + b, start, length=6)
    >>> graphc.function([], numbers, backend="numpy")()
    array([ 2,  3,  5,  8, 13, 21])

    Like Aesara's scan: `f` takes, in order, the elements of each sequence and of each
    output that the taps ask for, and returns the new values of the outputs: one, or a
    tuple or list of them. Returns the outputs of all steps, stacked.

    `outputs` describes one output, or is a list with an entry for each: None, for one
    that is not fed back; a value, the one before the first step (tap -1); or
    `{"initial": values, "taps": [-1, -2]}`, where the last of `values` is that of tap
    -1, and there are as many as steps looked back (for tap -1 alone, the value itself).
    `sequences` is a value (tap 0), `{"input": x, "taps": [-1, 0, 1]}`, or a list of
    such. All sequences are read at the same time: the steps are the times at which all
    taps are within all sequences.

    `length` gives the number of steps where there are no sequences. `reverse` goes from
    the last time to the first: tap -1 of an output is then what came just before, at
    the next time. `until(*outputs)` ends the scan, see `scan`.

    Raises GraphError for taps of an output that are not negative, and for fewer initial
    values than steps looked back.
    """
    several = isinstance(outputs, (list, tuple))
    declared_outputs = [_tapped_output(o) for o in (outputs if several else [outputs])]
    fed = [o for o in declared_outputs if o is not None]

    def step(carry: list[Value], row: list[Value]) -> tuple[list[Value], list[Any]]:
        past = [
            v
            for o, remembered in zip(fed, carry, strict=True)
            for v in o.values_at_taps(remembered)
        ]
        results = _checked_outputs(f(*row, *past), len(declared_outputs), several)
        back = [
            y for y, o in zip(results, declared_outputs, strict=True) if o is not None
        ]
        triples = zip(fed, carry, back, strict=True)
        new_past = [o.past_after_step(remembered, y) for o, remembered, y in triples]
        return new_past, results

    test = None if until is None else (lambda _, results: until(*results))
    rows = _elements_of_taps([_tapped_sequence(s) for s in _as_list(sequences)])
    start = [o.value for o in fed]
    _, stacked = scan(step, start, rows, length, reverse, until=test)
    return stacked if several else stacked[0]


def _as_list(one_or_more: object) -> Sequence[Any]:
    return one_or_more if isinstance(one_or_more, (list, tuple)) else [one_or_more]


def _checked_outputs(result: object, count: int, several: bool) -> list[object]:
    """Check the outputs of a step, and return them as a list."""
    if not several:
        return [result]
    if not isinstance(result, (list, tuple)) or len(result) != count:
        got = f"{len(_as_list(result))} of them" if result is not None else "None"
        problem = "the function must return one value per output"
        raise graph_error(problem, op=_OP, got=got, expected=f"{count} of them")
    return list(result)


def _checked_taps(declared: object) -> tuple[int, ...]:
    taps = [integer_or_none(t) for t in _as_list(declared)]
    integers = tuple(t for t in taps if t is not None)
    if not taps or len(integers) < len(taps):
        problem = "taps must be integers, at least one"
        raise graph_error(problem, op=_OP, got=f"taps {declared!r}")
    return integers


def _tapped_output(declared: object) -> _TappedArray | None:
    if declared is None:
        return None
    if not isinstance(declared, dict):
        return _TappedArray(as_value(declared), (-1,))
    _require_keys(declared, "initial")
    taps, value = _checked_taps(declared.get("taps", -1)), as_value(declared["initial"])
    if max(taps) > -1:
        hint = "-1 is the previous step; give None for an output that is not fed back"
        problem = "the taps of an output must be negative"
        raise graph_error(problem, op=_OP, got=f"taps {list(taps)}", hint=hint)
    tapped = _TappedArray(value, taps)
    if tapped.depth > 1:
        if not value.type.rank or equal(value.type.shape[0], tapped.depth) is False:
            raise graph_error(
                f"taps {list(taps)} look back {tapped.depth} steps",
                op=_OP,
                got=f"an initial {value.type}",
                expected=f"{tapped.depth} values along the first axis, the latest last",
            )
        shape = (tapped.depth, *value.type.shape[1:])
        return _TappedArray(F.specify_shape(value, shape), taps)
    return tapped


def _tapped_sequence(declared: object) -> _TappedArray:
    if not isinstance(declared, dict):
        return _TappedArray(as_strong_value(declared), (0,))
    _require_keys(declared, "input")
    value = as_strong_value(declared["input"])
    return _TappedArray(value, _checked_taps(declared.get("taps", 0)))


def _require_keys(declared: dict[object, object], key: str) -> None:
    if key not in declared or not declared.keys() <= {key, "taps"}:
        raise graph_error(
            "not a sequence or output with taps",
            op=_OP,
            got=f"a dict of {', '.join(map(repr, declared)) or 'nothing'}",
            expected=f"a dict of {key!r} and 'taps'",
        )


def _elements_of_taps(sequences: Sequence[_TappedArray]) -> list[Value]:
    """The elements of each tap, from the first time at which all taps have one."""
    taps = [tap for s in sequences for tap in s.taps]
    first, last = -min([0, *taps]), max([0, *taps])
    rows = []
    for s in sequences:
        if not s.value.type.rank:
            got = str(s.value.type)
            raise graph_error("a sequence needs an axis", op=_OP, got=got)
        steps = maximum(s.value.type.shape[0] - first - last, 0)
        for tap in s.taps:
            row = s.value
            if first or last:
                row = F._part(row, 0, first + tap, first + tap + steps)
                row = F.specify_shape(row, (steps, *row.type.shape[1:]))
            rows.append(row)
    return rows
