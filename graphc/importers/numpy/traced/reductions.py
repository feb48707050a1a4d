"""`reduce`, `accumulate` and `reduceat` of ufuncs for symbolic values.

Where a function does the same, as `sum` for `np.add.reduce`, it is called. Other ufuncs
join the elements one after the other, as in NumPy.
"""

from collections.abc import Callable, Sequence

import numpy as np

from graphc.errors import GraphError, graph_error
from graphc.importers.numpy.traced.sharing import CastingRule
from graphc.ir.graph.accepted_types import ArrayLike, AxesLike, DTypeLike
from graphc.ir.graph.build import as_value, cast
from graphc.ir.graph.dispatch import METHODS as FUNCTIONS_OF
from graphc.ir.graph.dispatch import apply_ufunc
from graphc.ir.graph.nodes import Value
from graphc.ir.namespace import F
from graphc.ir.types import DType

Dtypes = tuple[DType | type | None, ...]
TAKING_DTYPES = frozenset(["sum", "prod", "cumsum", "cumprod"])
_REPEATING = frozenset(["fmax", "fmin"])  # joining an element twice changes nothing
_SEGMENTS = {
    "add": F.segment_sum,
    "multiply": F.segment_prod,
    "maximum": F.segment_max,
    "minimum": F.segment_min,
}


def loop_dtypes(
    ufunc: np.ufunc,
    operands: Sequence[Value],
    dtype: DType | None,
    reducing: bool = False,
    casting: CastingRule = "same_kind",
) -> Sequence[DType]:
    """The dtypes in which a ufunc computes: those of its operands, then its results."""
    empty = [None] * ufunc.nin
    signature = (dtype, *empty) if reducing else (*empty, *[dtype] * ufunc.nout)
    # A reduced array has a dtype; giving NumPy a class there corrupts its memory.
    known = [x.dtype if reducing else _dtype_or_class(x) for x in operands]
    left = [None] * (ufunc.nin - len(known))
    dtypes: Dtypes = (*left, *known, *[None] * ufunc.nout)
    options = {} if dtype is None else {"signature": signature}
    try:
        resolved: Sequence[DType] = ufunc.resolve_dtypes(
            dtypes, casting=casting, reduction=reducing, **options
        )
    except TypeError as error:
        hint = "cast the arguments with astype"
        op = f"numpy.{ufunc.__name__}"
        raise graph_error(str(error), op=op, hint=hint) from None
    return resolved


def _dtype_or_class(operand: Value) -> DType | type:
    """The dtype of a value; for a weak one, its Python class."""
    if not operand.type.weak:
        return operand.dtype
    return {"b": bool, "i": int, "u": int, "f": float, "c": complex}[operand.dtype.kind]


class _Fold:
    """A reduction of an array along axes, whose elements a ufunc joins."""

    def __init__(
        self,
        ufunc: np.ufunc,
        x: ArrayLike,
        axis: AxesLike | None,
        dtype: DTypeLike | None,
    ) -> None:
        value = as_value(x)
        to = None if dtype is None else np.dtype(dtype)
        dtypes = loop_dtypes(ufunc, [value], to, reducing=True)
        if len(set(dtypes)) > 1:
            raise self._error(ufunc, "gives a dtype other than the one it takes")
        self._ufunc, self.dtype, self.rank = ufunc, dtypes[-1], value.ndim
        self.axes = _axes(axis, value.ndim, ufunc)
        empty = ufunc.identity is None
        self._identity = (
            None if empty else np.asarray(ufunc.identity).astype(self.dtype)
        )
        if len(self.axes) > 1 and empty and ufunc.__name__ not in _REPEATING:
            raise self._error(ufunc, "depends on the order: give one axis")
        self._shape = value.shape
        self.rows = self._in_rows(cast(value, self.dtype))

    def _in_rows(self, array: Value) -> Value:
        """Move the axes that are joined to the front, as a single axis."""
        if not self.axes:
            return F.expand_dims(array, 0)
        moved = F.moveaxis(array, self.axes, tuple(range(len(self.axes))))
        if len(self.axes) == 1:
            return moved
        return F.reshape(moved, (-1, *moved.shape[len(self.axes) :]))

    @staticmethod
    def _error(ufunc: np.ufunc, problem: str) -> GraphError:
        hint = "write the loop, or use gt.scan of graphc.tensor"
        return graph_error(problem, op=f"numpy.{ufunc.__name__}.reduce", hint=hint)

    def joined(self, one: Value, other: Value) -> Value:
        """Apply the ufunc to two rows."""
        return cast(
            as_value(apply_ufunc(self._ufunc, "__call__", (one, other), {})), self.dtype
        )

    def selected(self, where: ArrayLike, initial: ArrayLike | None) -> None:
        """Replace elements outside the mask `where` by one that changes no result."""
        identity: ArrayLike | None = self._identity
        if identity is None and self._ufunc.__name__ in _REPEATING:
            identity = initial  # joining it once more changes nothing
        if identity is None:
            problem = "has no value for the elements that `where` leaves out"
            raise self._error(self._ufunc, problem)
        mask = self._in_rows(F.broadcast_to(as_value(where), self._shape))
        self.rows = F.where(mask, self.rows, cast(as_value(identity), self.dtype))

    def total(self, initial: ArrayLike | None) -> Value:
        """Join all rows."""
        rows, number = self.rows, self._identity if initial is None else initial
        if number is None:
            start, rows = rows[0], rows[1:]
        else:
            start = F.broadcast_to(cast(as_value(number), self.dtype), rows.shape[1:])

        def step(total: Value, row: Value) -> tuple[Value, None]:
            return self.joined(total, row), None

        return as_value(F.scan(step, start, rows)[0])

    def totals(self) -> Value:
        """Join the rows up to each row."""

        def step(total: Value, at: tuple[Value, Value]) -> tuple[Value, Value]:
            new = F.where(at[0] == 0, at[1], self.joined(total, at[1]))
            return new, new

        rows = self.rows
        start = F.zeros(rows.shape[1:], self.dtype)
        totals = F.scan(step, start, (F.arange(rows.shape[0]), rows))[1]
        return F.moveaxis(totals, 0, self.axes[0])


def _axes(axis: AxesLike | None, rank: int, ufunc: np.ufunc) -> tuple[int, ...]:
    axes = range(rank) if axis is None else np.atleast_1d(axis).tolist()
    if any(not -rank <= i < rank for i in axes):
        op = f"numpy.{ufunc.__name__}.reduce"
        raise graph_error("there is no such axis", op=op, got=str(axis))
    return tuple(i % rank for i in axes)


def _reduce(
    ufunc: np.ufunc,
    x: ArrayLike,
    axis: AxesLike | None = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Value:
    name = FUNCTIONS_OF.get((ufunc.__name__, "reduce"))
    if name is not None and (dtype is None or name in TAKING_DTYPES):
        optional = {"dtype": dtype, "initial": initial, "where": where}
        options: dict[str, object] = {"axis": axis, "keepdims": keepdims}
        options |= {k: v for k, v in optional.items() if not (v is None or v is True)}
        return as_value(apply_ufunc(ufunc, "reduce", (x,), options))
    fold = _Fold(ufunc, x, axis, dtype)
    if where is not True:
        fold.selected(where, initial)
    total = fold.total(initial)
    return F.expand_dims(total, sorted(fold.axes)) if keepdims else total


def _accumulate(
    ufunc: np.ufunc, x: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None
) -> Value:
    name = FUNCTIONS_OF.get((ufunc.__name__, "accumulate"))
    if name is not None and (dtype is None or name in TAKING_DTYPES):
        options: dict[str, object] = {"axis": axis}
        if dtype is not None:
            options["dtype"] = dtype
        return as_value(apply_ufunc(ufunc, "accumulate", (x,), options))
    return _Fold(ufunc, x, axis, dtype).totals()


def _reduce_at(
    ufunc: np.ufunc,
    x: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    dtype: DTypeLike | None = None,
) -> Value:
    """Join the elements from each index to the next one; `indices` must ascend."""
    op = f"numpy.{ufunc.__name__}.reduceat"
    if ufunc.__name__ not in _SEGMENTS:
        problem = f"is compiled only for {', '.join(_SEGMENTS)}"
        hint = "write a loop over the parts: for a, b in zip(starts, ends)"
        raise graph_error(problem, op=op, hint=hint)
    fold = _Fold(ufunc, x, axis, dtype)
    if isinstance(indices, (list, tuple)) and not indices:
        indices = np.zeros(0, "int64")  # as NumPy reads no index
    rows, starts = fold.rows, F.asarray(indices)
    message = f"{op}: takes indices within the axis, in ascending order"
    within = F.all((starts >= 0) & (starts < rows.shape[0]))
    fit = F.all(starts[1:] >= starts[:-1]) & within
    starts = F.assert_(fit, message, starts)
    count, length = starts.shape[0], rows.shape[0]
    parts = F.searchsorted(starts, F.arange(length), side="right") - 1
    parts = F.where(parts < 0, count, parts)  # before the first index
    joined = _SEGMENTS[ufunc.__name__](rows, parts, count + 1)[:-1]
    ends = F.concatenate([starts[1:], F.reshape(F.asarray(length), (1,))])
    empty = F.reshape(starts >= ends, (-1, *[1] * (rows.ndim - 1)))
    chosen = F.where(empty, rows[starts], joined)
    return F.moveaxis(cast(chosen, fold.dtype), 0, fold.axes[0])


METHODS: dict[str, Callable[..., Value]] = {
    "reduce": _reduce,
    "accumulate": _accumulate,
    "reduceat": _reduce_at,
}
