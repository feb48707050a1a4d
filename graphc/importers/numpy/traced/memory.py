"""The memory of arrays that NumPy writes in place, as content that is replaced.

Values never change. The content of a memory is a value or an array that nobody changes;
a write replaces it. A view reads its content from its base, and a write into a view
replaces the content of the base.
"""

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from graphc.errors import ErrorKind, graph_error, standing_at
from graphc.importers.asking import is_asked_in_user_file
from graphc.importers.lookups import looks_up, may_ask
from graphc.importers.numpy.traced.refusals import is_number, number_class
from graphc.ir.graph.build import SIZE_OP, Shape, as_value, cast, shape_text
from graphc.ir.graph.nodes import Node, Value
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import equal
from graphc.ir.types import FLOAT64, DType, NDArray, is_integer
from graphc.ops.effects.assertions import all_of
from graphc.ops.elementwise.declare import CONVERT

Content = Any  # a Value, or an array of NumPy
Rearrangement = Callable[[Content], Content]
COPY = "write to a copy: y = x.copy()"
BORROWED = "an array of NumPy has these elements too, and would not be written"
UNCLEAR = "whether arrays share memory depends on the layout: neither can be written"

_INTERFACES = "__array_interface__", "__array_struct__"
OF_MEMORY = {  # attributes that only arrays in memory have, and hints
    **dict.fromkeys(["getfield", "setfield", "data", "ctypes", "byteswap"], ""),
    **dict.fromkeys(["flags", "strides", "base"], ""),
    **dict.fromkeys(_INTERFACES, ""),
    **dict.fromkeys(["tobytes", "tofile", "dump", "dumps"], "call it on a result"),
    "setflags": "leave it out, and do not write to what must stay as it is",
    "resize": "write y = np.resize(y, shape), or y = np.zeros(shape)",
}
OF_C = frozenset(  # C code asks for these too
    ["flags", "strides", "data", "ctypes", "base", *_INTERFACES]
)
OF_NUMBERS = frozenset(["item", "tolist"])


class _Computed(threading.local):
    values: list[Value] | None = None  # contents computed so far in this trace
    raises = False  # the caller has np.errstate raise floating-point errors


_THREAD = _Computed()


def is_tracing() -> bool:
    """Whether this thread traces a function of NumPy."""
    return _THREAD.values is not None


@contextmanager
def values_computed() -> Generator[list[Value]]:
    """Yield the list of values computed within; results need some of them."""
    outer, _THREAD.values = (_THREAD.values, _THREAD.raises), []
    _THREAD.raises = bool(_RAISING.intersection(np.geterr().values()))
    try:
        yield _THREAD.values
    finally:
        _THREAD.values, _THREAD.raises = outer


def count_computed() -> int:
    """The number of values that this trace has computed so far."""
    return len(_THREAD.values or ())


def forget_computed(after: int) -> None:
    """Forget all but the first `after` values: an error has made the others useless."""
    if _THREAD.values is not None:
        del _THREAD.values[after:]


def require(holds: Value, message: str, kind: ErrorKind = "range") -> None:
    """Have programs check a condition on data where NumPy would raise."""
    _recorded(F._assert(holds, holds, message, kind))


def require_fit(number: Value, dtype: DType) -> None:
    """Note the condition that a number fits an integer dtype once truncated."""
    limits, inside = np.iinfo(dtype), list[Value]()
    if number.dtype.kind == "f":  # float64 holds the limits of all dtypes
        whole = F.trunc(cast(number, FLOAT64))
        inside = [whole >= float(limits.min), whole < float(limits.max) + 1]
    elif is_integer(number.dtype):
        source = np.iinfo(number.dtype)
        if source.min < limits.min:
            inside.append(number >= int(limits.min))
        if source.max > limits.max:
            inside.append(number <= int(limits.max))
    for holds in inside:
        problem = f"a number does not fit {dtype.name}: cast the array first, by astype"
        require(all_of(holds), problem, "range")


def cast_python_integers(numbers: Content, dtype: DType) -> Content:
    """Convert Python integers in `numbers`, nested lists too, to an integer dtype.

    Raises OverflowError for integers that do not fit, as NumPy does. Integers that are
    arguments are checked once they are known.
    """
    if isinstance(numbers, (list, tuple)):
        return [cast_python_integers(number, dtype) for number in numbers]
    if not is_integer(dtype):
        return numbers
    if isinstance(numbers, Value) and numbers.type.weak and is_integer(numbers.dtype):
        return cast(numbers, dtype)
    return np.asarray(numbers, dtype) if type(numbers) is int else numbers


def require_python_fits(nodes: Iterable[Node]) -> None:
    """Note the condition that Python numbers fit the integer dtypes they are cast to.

    Sizes are checked where they are cast, with the sizes of each call. Floats that
    become Python integers are checked where `int` takes them.
    """
    for node in nodes:
        output = node.outputs[0].type
        is_array = is_integer(output.dtype) and not output.weak
        if node.primitive is CONVERT and is_array:
            (number,) = node.inputs
            if number.type.weak and number.node.primitive is not SIZE_OP:
                with standing_at(node.place.plain):
                    require_fit(number, output.dtype)


def missing_attribute_error(
    name: str, content: Content, asking: FrameType
) -> Exception | None:
    """The error for an attribute that a traced array lacks; None where it has it.

    Attributes that only graphc's values have do not exist in NumPy, so they are absent
    here. For one that NumPy's arrays or numbers do have, the user gets a GraphError: an
    AttributeError would make `hasattr` say no.
    """
    absent = AttributeError(f"a TracedArray has no attribute {name!r}")
    by_user = is_asked_in_user_file(asking)
    if name in OF_MEMORY:
        of_c = name in OF_C and not (looks_up(asking, name) or may_ask(asking, name))
        if of_c or not by_user:
            return absent
        problem = f"an array that is traced has no {name}: it is not in memory"
        return graph_error(problem, op=name, hint=OF_MEMORY[name])
    if name.startswith("__"):
        return absent
    kind = number_class(content) if is_number(content) else np.ndarray
    of_numpy, of_content = hasattr(kind, name), hasattr(content, name)
    if by_user and of_content and not of_numpy:
        return absent
    if not (name in OF_NUMBERS and is_symbolic(content)) and (
        of_content or not (of_numpy and is_number(content))
    ):
        return None
    if not by_user:
        return absent
    problem = f"a symbolic value has no {name} while a function is traced"
    hint = f"y[0] is a number; call .{name}() on what the function returns"
    return graph_error(problem, op=name, hint=hint)


class Memory:
    """The elements of an array.

    `fixed` says why they cannot be written, and is "" where they can. `ordered` says
    that they lie in C order, so that reshaping gives a view.
    """

    __slots__ = ("__weakref__", "_borrowed", "_content", "_sharing", "fixed", "ordered")

    def __init__(
        self, content: Content, fixed: str = "", ordered: bool = False
    ) -> None:
        self._content = _recorded(content)
        self.fixed: str = fixed
        self.ordered = ordered or content.ndim < 2
        self._sharing: WeakSet[Memory] = WeakSet()  # possibly, by an unknown layout
        self._borrowed: list[ref[NDArray]] = []  # by C code

    @property
    def content(self) -> Content:
        """The current elements."""
        return self._content

    @property
    def owner(self) -> "Memory":
        """The memory at the end of a chain of views: this one, where it is no view."""
        return self

    def replace(self, content: Content) -> None:
        """Replace all elements. Raises GraphError if NumPy would change others too."""
        problem = self.fixed or (UNCLEAR if self._sharing else "")
        if any(array() is not None for array in self._borrowed):
            problem = BORROWED
        if problem:
            got = str(getattr(content, "type", content.dtype))
            raise graph_error(problem, op="index", got=got, hint=COPY)
        self._content = _recorded(content)

    def write(self, index: object, new: Content) -> None:
        """Write the elements at an index, cast to the dtype of the memory."""
        dtype = self.content.dtype
        require_real("index", dtype, new)
        if is_number(new) and dtype.kind == "i" and gives_view(index):
            require_fit(new, dtype)  # NumPy casts these by way of Python integers
        if isinstance(new, (list, tuple)):
            new = cast_python_integers(new, dtype)
        self.replace(_with_elements(self.content, index, new))

    def part(self, index: object) -> "Memory":
        """A view of the elements at an index, for which NumPy gives a view too."""
        return _View(
            self,
            lambda content: indexed(content, index),
            lambda content, new: _with_elements(content, index, new),
        )

    def rearranged(self, read: Rearrangement, fixed: str = "") -> "Memory":
        """A view of the elements in another order, which `read` gives for any array."""
        return _View(self, read, lambda old, new: _with_selected(old, read, new), fixed)

    def reshaped(self, read: Rearrangement, in_rows: bool = True) -> "Memory":
        """The elements in another shape: a view or a copy, by their layout."""
        if in_rows and self.ordered and self.owner is self:
            shape = _shape(self.content)
            return _View(self, read, lambda _, new: _reshape(new, shape), ordered=True)
        copied = Memory(read(self.content), ordered=True)
        copied.may_share(self)
        return copied

    def is_base_of(self, view: "Memory") -> bool:
        """Whether `view` surely shares this memory's elements, not just possibly."""
        return view.owner is self.owner

    def borrow(self) -> NDArray:
        """Lend the known elements as a NumPy array that cannot be written."""
        array: NDArray = self.content.view()
        array.flags.writeable = False
        self.owner._borrowed.append(ref(array))
        return array

    def may_share(self, other: "Memory") -> None:
        """Note that two memories may share elements, so that neither can be written."""
        self.owner._sharing.add(other.owner)
        other.owner._sharing.add(self.owner)


class _View(Memory):
    """A view of the elements of another memory."""

    __slots__ = ("_base", "_read", "_write")

    def __init__(
        self,
        base: Memory,
        read: Rearrangement,
        write: Callable[[Content, Content], Content],
        fixed: str = "",
        ordered: bool = False,
    ) -> None:
        super().__init__(read(base.content), fixed, ordered)
        self.ordered = ordered  # a view of a vector may have steps
        self._base, self._read, self._write = base, read, write

    @property
    def content(self) -> Content:
        return self._read(self._base.content)

    @property
    def owner(self) -> Memory:
        return self._base.owner

    def replace(self, content: Content) -> None:
        if self.fixed:
            raise graph_error(self.fixed, op="index", hint=COPY)
        self._base.replace(self._write(self._base.content, content))


_RAISING = frozenset(["raise", "call"])
_NO_FLAGS = "floating-point errors are not raised where an array is traced"
_ASK = "check the result with np.isfinite(y), or leave np.errstate to the caller"


def _recorded(content: Content) -> Content:
    """Make an array read-only, or note a value among those computed in this trace."""
    if isinstance(content, Value) and _THREAD.values is not None:
        if _RAISING.intersection(np.geterr().values()) and not _THREAD.raises:
            raise graph_error(_NO_FLAGS, op="numpy.errstate", hint=_ASK)
        _THREAD.values.append(content)
    if isinstance(content, np.ndarray):
        content = content.view()
        content.flags.writeable = False
    return content


def is_symbolic(argument: object) -> bool:
    """Whether an argument is a value, or a list, tuple or slice that holds one."""
    if isinstance(argument, (list, tuple)):
        return any(map(is_symbolic, argument))
    if isinstance(argument, slice):
        return is_symbolic((argument.start, argument.stop, argument.step))
    return isinstance(argument, Value)


def indexed(content: Content, index: Any) -> Content:
    """The elements at an index."""
    return (as_value(content) if is_symbolic(index) else content)[index]


def gives_view(index: object) -> bool:
    """Whether NumPy gives a view at an index: it does for slices and integers only."""
    items = index if isinstance(index, tuple) else (index,)
    return all(
        item is None or item is Ellipsis or isinstance(item, slice) or _is_number(item)
        for item in items
    )


def has_ellipsis(index: object) -> bool:
    """Whether an index has an ellipsis, which gives a view even without any axes."""
    items = index if isinstance(index, tuple) else (index,)
    return any(item is Ellipsis for item in items)


def in_columns(content: Content, sizes: tuple[object, ...]) -> Content:
    """The elements in another shape, read and laid out column by column."""
    array = as_value(content) if is_symbolic(sizes) else content
    return array.T.reshape(sizes).T


def _is_number(item: object) -> bool:
    if isinstance(item, Value):
        return item.ndim == 0 and is_integer(item.dtype)
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _with_elements(content: Content, index: Any, new: object) -> Content:
    """A copy of an array with other elements at an index, cast as NumPy casts them."""
    if not is_symbolic([content, index, new]):
        changed = np.array(content)
        changed[index] = new
        return changed
    old = as_value(content)
    return old.at[index].set(cast(as_value(new), old.dtype))


def require_real(op: str, dtype: DType, new: object) -> None:
    """Raise GraphError for a Python complex where elements are real, as NumPy does.

    Arrays of complex numbers and their elements are cast, as in NumPy, which only
    warns.
    """
    if isinstance(new, (list, tuple)):
        for item in new:
            require_real(op, dtype, item)
    elif type(new) is complex and dtype.kind in "biuf":
        problem = "a complex number cannot be written into an array of real ones"
        hint = "write its real part, or make the array complex first"
        got = f"{new} into {dtype}"
        raise graph_error(problem, op=op, got=got, hint=hint)


def _with_selected(old: Content, read: Rearrangement, new: Content) -> Content:
    """A copy of `old` in which the elements that `read` selects are those of `new`."""
    if is_symbolic([old, new]):
        whole = as_value(old)
        places = read(F.reshape(F.arange(whole.size), whole.shape))
        flat = F.reshape(whole, (-1,)).at[places].set(as_value(new))
        return F.reshape(flat, whole.shape)
    flat = old.flatten()
    flat[read(np.arange(old.size).reshape(old.shape))] = new
    return flat.reshape(old.shape)


def _shape(content: Content) -> object:
    return content.type.shape if isinstance(content, Value) else content.shape


def _reshape(content: Content, shape: Any) -> Content:
    if isinstance(content, Value):
        return F.reshape(content, shape)
    return content.reshape(shape)


def may_overlap(one: Content, other: Content) -> bool:
    """Whether two contents are NumPy arrays that may have elements in common."""
    known = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    return known and np.may_share_memory(one, other)


def always_copies(copy: object) -> bool:
    """Whether a `copy=` argument always copies; NumPy also has enum members for it."""
    return getattr(copy, "value", copy) in (True,)


def require_room(shape: Shape, room: Shape, stretched: bool) -> None:
    """Raise GraphError unless a result has the shape of the array that it goes to."""
    if len(shape) > len(room):
        problem = "the result has more axes than the array that it is written to"
        raise graph_error(problem, op="out", got=shape_text(shape))
    pairs = zip(shape, room, strict=len(shape) == len(room))
    unlike = len(shape) < len(room) or any(equal(a, b) is False for a, b in pairs)
    if unlike and not stretched:
        problem = "the result has another shape than the array that it is written to"
        got = f"{shape_text(shape)} for {shape_text(room)}"
        raise graph_error(problem, op="out", got=got, hint="write y[...] = result")
