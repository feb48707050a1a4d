"""Arrays in functions for NumPy while these are traced; they can be written in place.

Operators, methods and functions of NumPy compute on the contents, with graphc if any is
symbolic and with NumPy otherwise, and return new arrays.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.errors import graph_error
from graphc.importers.asking import is_asked_in_user_file
from graphc.importers.numpy.traced.memory import (
    Content,
    Memory,
    Rearrangement,
    gives_view,
    has_ellipsis,
    in_columns,
    indexed,
    is_symbolic,
    may_overlap,
    missing_attribute_error,
    require_real,
    require_room,
)
from graphc.importers.numpy.traced.refusals import (
    is_number,
    number_by,
    number_class,
    number_of_items,
    places_of_items,
    refuse_number,
)
from graphc.importers.numpy.traced.sharing import (
    FIXED,
    KEEPING,
    OF_NO_AXES,
    PARTS,
    REARRANGING,
    RESHAPING,
    WRITING,
    CastingRule,
    cast_arguments,
    may_return_arguments,
    may_return_itself,
    rule_of_out,
    split_out,
)
from graphc.ir.graph.accepted_types import DTypeLike, ShapeLike
from graphc.ir.graph.build import as_value
from graphc.ir.graph.dispatch import (
    apply_function,
    apply_method,
    check_options,
)
from graphc.ir.graph.nodes import Value
from graphc.ops.indexing.at import Updates

Callee = Callable[..., object]  # of NumPy
Args = tuple[object, ...]
Kwargs = dict[str, object]
Wrapped = Any  # what `as_traced` gives: traced arrays, or others
NUMBER = "a number cannot be written to"
INTO_OUTSIDE = "cannot write a symbolic value into an array from outside"
OWN_ARRAY = "make an array of the function's own first: y = np.array(y)"
ARGUMENT = "an argument would be written, and with it an array of the caller"


class TracedArray:
    """An array in a traced function; its memory may be a view of another array's."""

    __slots__ = ("memory",)

    def __init__(self, memory: Memory) -> None:
        self.memory: Memory = memory

    if not TYPE_CHECKING:

        @property
        def __class__(self) -> type:  # which `isinstance` asks for
            if not is_asked_in_user_file(sys._getframe(1)):
                return TracedArray
            return number_class(self.content) if self._is_number else np.ndarray

    @property
    def _is_number(self) -> bool:
        return self.memory.fixed == NUMBER

    def __hash__(self) -> int:
        if is_number(self.content):
            refuse_number(self.content, "hash")
        raise TypeError("unhashable type: 'numpy.ndarray'")

    @property
    def content(self) -> Content:
        """The elements as they are now."""
        return self.memory.content

    def __graphc_value__(self) -> Value:
        return as_value(self.content)

    # Attributes and methods

    def __setattr__(self, name: str, new: object) -> None:
        if name not in ("memory", "shape", "flat"):
            problem = "an attribute of a traced array cannot be set"
            raise graph_error(problem, op=name, hint="y[...] = ..., or y.astype(...)")
        super().__setattr__(name, new)

    @property
    def at(self) -> Updates:
        """Updates that return new values, as for values of graphc."""
        return as_value(self.content).at

    @property
    def shape(self) -> tuple[Wrapped, ...]:
        """The sizes: integers, or symbolic numbers as traced arrays."""
        return tuple(map(as_traced, self.content.shape))

    @shape.setter
    def shape(self, sizes: ShapeLike) -> None:
        shaped = self.reshape(sizes)
        if not (self._is_number or self.memory.is_base_of(shaped.memory)):
            hint = "write y = y.reshape(shape), which gives an array that may be a copy"
            problem = "whether the array can have a shape depends on its layout"
            raise graph_error(problem, op="shape", got=str(sizes), hint=hint)
        self.memory = shaped.memory

    @property
    def itemsize(self) -> int:
        """The number of bytes in an element."""
        return int(self.content.dtype.itemsize)

    @property
    def nbytes(self) -> Wrapped:
        """The number of bytes in all elements."""
        return self.size * self.itemsize

    @property
    def T(self) -> "TracedArray":
        """A view with the axes in reverse order."""
        return self.viewed("T", lambda content: content.T)

    @property
    def mT(self) -> "TracedArray":
        """A view with the last two axes swapped."""
        return self.viewed("mT", lambda content: content.mT)

    @property
    def real(self) -> "TracedArray":
        """The real parts."""
        return _views_of(np.real, self, (), {})

    @property
    def imag(self) -> "TracedArray":
        """The imaginary parts."""
        return _views_of(np.imag, self, (), {})

    def copy(self, order: str = "C") -> "TracedArray":
        """A new array with these elements; a number returns itself."""
        check_options("copy", {"order": order})
        memory = Memory(self.content, ordered=order == "C")
        return self if self._is_number else TracedArray(memory)

    def __deepcopy__(self, _: object) -> "TracedArray":
        return self.copy()

    def conjugate(self) -> "TracedArray":
        """The conjugate elements; the array itself if they are real."""
        return self if self.dtype.kind != "c" else call_method(self, "conj")

    conj, __copy__ = conjugate, copy

    def __getattr__(self, name: str) -> Any:
        lack = missing_attribute_error(name, self.content, sys._getframe(1))
        if lack is not None:
            raise lack
        attribute = getattr(self.content, name)
        if not callable(attribute):
            return as_traced(attribute)
        if name in REARRANGING or name in RESHAPING:
            return partial(self._by_method, name)
        return partial(self._method, name)

    def view(self, dtype: DTypeLike | None = None) -> "TracedArray":
        """A view of all elements, which must keep the dtype."""
        if dtype is not None and np.dtype(dtype) != self.content.dtype:
            problem = "the bytes of a traced array are not in memory"
            raise graph_error(problem, op="view", got=str(dtype), hint="use astype")
        return self.viewed("view", lambda content: content)

    def reshape(self, *shape: Any, order: str = "C", **options: Any) -> "TracedArray":
        """The elements in another shape, in row or column order."""
        if order == "C":
            return self._by_method("reshape", *shape, **options)
        sizes = shape[0] if len(shape) == 1 else shape
        return self._in_columns("reshape", order, content_of(sizes))

    def ravel(self, order: str = "C") -> "TracedArray":
        """The elements in one axis, in row or column order."""
        if order == "C":
            return self._by_method("ravel")
        return self._in_columns("ravel", order, -1)

    def flatten(self, order: str = "C") -> "TracedArray":
        """A copy of the elements in one axis."""
        return as_traced(content_of(self.ravel(order).copy()))

    def _in_columns(self, name: str, order: str, shape: ShapeLike) -> "TracedArray":
        if order != "F":
            hint = 'say order="C" or order="F"'
            raise graph_error(
                "knows no layout in memory", op=name, got=order, hint=hint
            )
        sizes = tuple(shape)[::-1] if isinstance(shape, (list, tuple)) else (shape,)
        read = partial(in_columns, sizes=sizes)
        if self.content.ndim < 2 and self.memory.owner is self.memory:
            return self.viewed("", read)
        return TracedArray(self.memory.reshaped(read, in_rows=False))

    def _by_method(self, name: str, *args: object, **options: object) -> "TracedArray":
        arguments, named = content_of(args), content_of(options)
        asks = is_symbolic([*arguments, *named.values()])

        def read(content: Content) -> Content:
            array = as_value(content) if asks else content
            return getattr(array, name)(*arguments, **named)

        return self.viewed(name, read)

    def viewed(self, name: str, read: Rearrangement) -> "TracedArray":
        """The view that a function of this name returns, read by a rearrangement."""
        if name == "real" and self.dtype.kind != "c":
            return self
        if self._is_number:
            result = as_traced(read(self.content))
            if name in FIXED and result.ndim:
                result.memory.fixed = FIXED[name]
            return as_array(result) if name in OF_NO_AXES else result
        if name in RESHAPING:
            return TracedArray(self.memory.reshaped(read))
        return TracedArray(self.memory.rearranged(read, FIXED.get(name, "")))

    # Elements

    def __getitem__(self, index: object) -> Wrapped:
        index = content_of(index)
        part = indexed(self.content, index)
        rank = getattr(part, "ndim", 0)  # an element of an object array may be anything
        is_view = gives_view(index) and (rank or has_ellipsis(index))
        if self._is_number:
            return as_array(as_traced(part)) if is_view else as_traced(part)
        return TracedArray(self.memory.part(index)) if is_view else as_traced(part)

    def __setitem__(self, index: object, new: object) -> None:
        self.memory.write(content_of(index), content_of(new))

    def __iter__(self) -> Iterator[object]:
        return map(self.__getitem__, places_of_items(self.content))

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(np.equal(self, item)))

    def __len__(self) -> int:
        return number_of_items(self.content)

    def __array__(self, dtype: DTypeLike | None = None, copy: object = None) -> Content:
        content = self.content
        if is_symbolic(content):
            return number_by(lambda value: value.__array__(), content)
        if copy is True or dtype not in (None, content.dtype):
            return content.astype(content.dtype if dtype is None else dtype)
        return self.memory.borrow()

    def updated(self, result: object, casting: CastingRule = "same_kind") -> object:
        """Apply the result of an in-place operation; a number is replaced instead."""
        if self._is_number:
            return result
        dtype = as_value(content_of(result)).dtype
        if not np.can_cast(dtype, self.content.dtype, casting):
            got = f"{dtype} into {self.content.dtype}"
            hint = "write y = y.astype(...) first"
            raise graph_error("cannot be cast in place", got=got, hint=hint)
        self.memory.write(..., content_of(result))
        return self


def content_of(argument: Any) -> Content:
    """Replace arrays by their contents in an argument, in lists and slices too."""
    if isinstance(argument, TracedArray):
        return argument.content
    if type(argument) in (list, tuple):
        return type(argument)(map(content_of, argument))
    if isinstance(argument, slice):
        return slice(*map(content_of, (argument.start, argument.stop, argument.step)))
    if type(argument) is dict:
        return {key: content_of(item) for key, item in argument.items()}
    return argument


def holds_arrays(argument: object) -> bool:
    """Whether an argument is a traced array, or a list that contains one."""
    if isinstance(argument, (list, tuple)):
        return any(map(holds_arrays, argument))
    return isinstance(argument, TracedArray)


def as_traced(results: object) -> Wrapped:
    """Turn contents in results into traced arrays, including symbolic numbers."""
    if isinstance(results, Value):
        return TracedArray(Memory(results, "" if results.ndim else NUMBER))
    if isinstance(results, np.ndarray):
        return TracedArray(Memory(results))
    if isinstance(results, (list, tuple)):
        items = map(as_traced, results)
        return getattr(results, "_make", type(results))(items)
    return results


def as_array(result: Wrapped) -> TracedArray:
    """Turn a result into a writeable array, even if it has no axes."""
    if isinstance(result, TracedArray) and result.memory.fixed == NUMBER:
        return TracedArray(Memory(result.content))
    return result


def as_arrays(results: Wrapped) -> Wrapped:
    """Apply `as_array` to each of several results."""
    if not isinstance(results, tuple):
        return as_array(results)
    return getattr(results, "_make", tuple)(map(as_array, results))


def array_of_argument(value: Value) -> TracedArray:
    """The traced array of a function's argument, which must not be written."""
    return TracedArray(Memory(value, ARGUMENT if value.ndim else NUMBER))


def call_on_arrays(function: Callee, args: Args, options: Kwargs) -> Wrapped:
    """Call a function of NumPy on traced arrays."""
    first: Wrapped = args[0] if args else None
    name = function.__name__
    if isinstance(first, TracedArray) and (name in WRITING or name == "insert"):
        require_real(f"numpy.{name}", first.dtype, [*args[1:], *options.values()])
    if name in WRITING:
        _require_writable(name, first)
        if not is_symbolic(content_of([*args, *options.values()])):
            numbers = first.content.copy()
            function(numbers, *content_of(args[1:]), **content_of(options))
            return first.memory.replace(numbers)
    if name in OWN:
        return OWN[name](*args, **options)
    if name.startswith("atleast_") and len(args) > 1:
        return tuple(function(array, **options) for array in args)
    if isinstance(first, TracedArray):
        if name in KEEPING and may_return_itself(name, first.dtype, args, options):
            return _laid_out(name, first, options)
        if name == "flip" and not first.content.ndim:
            return first[()]
        if name in REARRANGING or name in RESHAPING or name in PARTS:
            return _views_of(function, first, args[1:], options)
    return results_of(function, args, options)


def _require_writable(name: str, array: object) -> None:
    """Raise GraphError unless a function can write into its first argument."""
    if type(array) is not TracedArray:
        raise graph_error(INTO_OUTSIDE, op=f"numpy.{name}", hint=OWN_ARRAY)
    if array.memory.fixed == NUMBER:
        hint = "give an array, such as y[:1] in place of y[0]"
        raise graph_error(NUMBER, op=f"numpy.{name}", hint=hint)


def _laid_out(name: str, array: TracedArray, options: dict[str, object]) -> TracedArray:
    """The array itself, or a copy if a different layout is asked for."""
    in_rows = name == "ascontiguousarray" or options.get("order") == "C"
    in_columns = name == "asfortranarray" or options.get("order") == "F"
    is_there = array.memory.ordered and (array.content.ndim < 2 or not in_columns)
    if name.endswith(("ascontiguousarray", "asfortranarray")) and not array.ndim:
        return as_array(array).reshape(1)
    if array.memory.fixed == NUMBER:
        if options.get("copy") is False:
            raise graph_error("cannot be given without a copy", op=name, got="a number")
        return as_array(array)
    if is_there or not (in_rows or in_columns):
        return array
    return TracedArray(array.memory.reshaped(lambda x: x, in_rows=False))


def results_of(function: Callee, args: Args, options: Kwargs) -> object:
    """Compute results as new arrays, or write them into those that `out=` names."""
    out, args = split_out(function, args, options)
    name, rank = function.__name__, 0
    if name in KEEPING:  # these copy, so the layout tells nothing of other arrays
        options.pop("order", None)
        rank = options.pop("ndmin", 0)  # type: ignore[assignment]
    taken, named = cast_arguments(name, content_of(args), content_of(options))
    results = as_traced(compute_contents(function, taken, named))
    if out is not None:
        return write_to_out((out,), results, rule_of_out(name), name == "clip")
    note_sharing(results, args, may_return_arguments(name, args, options))
    arrays = as_arrays(results) if name in OF_NO_AXES else results
    if name in FIXED and arrays.ndim:
        arrays.memory.fixed = FIXED[name]
    return arrays[(None,) * (rank - arrays.ndim)] if rank else arrays


def note_sharing(results: object, args: Iterable[object], perhaps: bool) -> None:
    """Note which results may be views of arguments, by memory or if `perhaps`."""
    if isinstance(results, (list, tuple)):
        for result in results:
            note_sharing(result, args, perhaps)
    elif isinstance(results, TracedArray) and results.memory.fixed != NUMBER:
        for array in args:
            if isinstance(array, (list, tuple)):
                note_sharing(results, array, perhaps)
            elif isinstance(array, TracedArray) and (
                perhaps or may_overlap(results.content, array.content)
            ):
                results.memory.may_share(array.memory)


def compute_contents(function: Callee, args: Args, options: Kwargs) -> Content:
    """Compute the contents that a function of NumPy returns for contents."""
    if is_symbolic([*args, *options.values()]):
        return apply_function(function, args, options)
    return function(*args, **options)


def _views_of(
    function: Callee, array: TracedArray, args: Args, options: Kwargs
) -> Wrapped:
    """The view, or the list of views, that a NumPy function returns of an array."""
    args, options = content_of(args), content_of(options)

    def read(content: Content) -> Content:
        return compute_contents(function, (content, *args), options)

    views = read(array.content)
    if not isinstance(views, (list, tuple)):
        return array.viewed(function.__name__, read)
    if not views[0].ndim:  # numbers, from iterating over an array
        return as_traced(views)
    parts = [lambda content, i=i: read(content)[i] for i in range(len(views))]
    return type(views)([array.viewed("", part) for part in parts])


def call_method(
    self: TracedArray, name: str, *args: object, **options: object
) -> Wrapped:
    """Compute the results of a method that returns new arrays."""
    out = options.pop("out", None)
    taken, named = cast_arguments(name, content_of((self, *args)), content_of(options))
    content = as_value(taken[0]) if is_symbolic([*taken, *named.values()]) else taken[0]
    method = getattr(content, name)
    results = as_traced(apply_method(method, name, taken[1:], named))
    if out is not None:
        return write_to_out((out,), results, rule_of_out(name))
    note_sharing(results, (self,), False)
    return results


def write_to_out(
    outs: tuple[object, ...],
    one_or_more: object,
    casting: CastingRule = "same_kind",
    stretched: bool = False,
) -> Wrapped:
    """Write results into the arrays that `out=` names; return those arrays.

    The shapes must be equal, unless results may be `stretched`.
    """
    results = one_or_more if isinstance(one_or_more, tuple) else (one_or_more,)
    written = []
    for out, result in zip(outs, results, strict=True):
        if out is None:
            written.append(result)
        elif isinstance(out, TracedArray):
            _require_room(out, result, stretched)
            written.append(out.updated(result, casting))
        else:
            raise graph_error(INTO_OUTSIDE, op="out", hint=OWN_ARRAY)
    return tuple(written) if isinstance(one_or_more, tuple) else written[0]


def _require_room(out: TracedArray, result: Wrapped, stretched: bool) -> None:
    """Raise GraphError if `out=` names a number, or has no room for a result."""
    if out.memory.fixed == NUMBER:
        raise graph_error(NUMBER, op="out", hint="omit out= and use the result")
    shape, room = (as_value(content_of(x)).type.shape for x in (result, out))
    require_room(shape, room, stretched)


# NumPy functions that write, return views, or call functions of the user; see `own`.
OWN: dict[str, Callable[..., Any]] = {}
