"""Immutable, hash-consed nodes and the values that they produce."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from graphc.errors import (
    ErrorKind,
    GraphError,
    SourceLocation,
    graph_error,
    label,
    own_caller,
    printable,
    shortened,
    user_place,
)
from graphc.ir.foreign_names import OF_VALUES
from graphc.ir.forks import RenewedLock
from graphc.ir.graph.operators import Operators
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import (
    FUNCTIONS,
    METHODS,
    UPDATES,
    F,
    example_call,
    misspelled,
    op_as_written,
)
from graphc.ir.params.concrete import (
    described_value,
    foreign_use_error,
    no_items_error,
    no_number_error,
)
from graphc.ir.primitives import OP
from graphc.ir.public_calls import public_method
from graphc.ir.sizes.dims import Dim, Size, Symbol, minimum, symbol_dim, symbols_in
from graphc.ir.sizes.divisors import divisors, with_nonzero_divisors
from graphc.ir.types import DType, NDArray, TensorType, is_integer

if TYPE_CHECKING:
    from graphc.ir.functions.methods import Methods
    from graphc.ir.graph.op import Primitive
    from graphc.ops.indexing.at import Updates
else:
    Methods = object

Params = Mapping[str, Any]
SERIALS = count()
_NAMING = RenewedLock()
_JAX_CORE = str(Path("jax", "_src", "core.py"))


@dataclass(frozen=True, slots=True)
class Guard:
    """A relation of two sizes that must hold at each call: a cheap check on the host.

    `kind` is the kind of the error that is raised otherwise. A guard about `memory`
    requires that an array fits into memory. It is not checked for an array at a
    capacity that follows from other arrays. A guard of the body of a loop needs to hold
    only if the loop has a step: `steps` is a size that is 0 if it has none.
    """

    relation: Literal["==", "<="]
    left: Size
    right: Size
    reason: str
    kind: ErrorKind = "shape"
    memory: bool = False
    steps: Size = 1

    @property
    def sides(self) -> tuple[Size, Size]:
        """The sizes that are compared: both 0 where no step needs the guard."""
        if not isinstance(self.steps, Dim):
            return self.left, self.right
        left, right = map(with_nonzero_divisors, (self.left, self.right))
        has_steps = minimum(1, self.steps)
        return has_steps * left, has_steps * right

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


class Node:
    """One application of a primitive to values.

    `params` are static. A `Dim` in them demands that the values which its symbols stand
    for (`demands`) are on the host before the node can be compiled. `serial` grows in
    the order of creation, so that sorting by it gives a topological order.
    """

    __slots__ = (
        "__weakref__",
        "demands",
        "guards",
        "inputs",
        "outputs",
        "params",
        "place",
        "primitive",
        "serial",
    )

    def __init__(
        self,
        primitive: "Primitive",
        inputs: "tuple[Value, ...]",
        params: Params,
        types: tuple[TensorType, ...],
        guards: tuple[Guard, ...] = (),
    ) -> None:
        self.primitive: Primitive = primitive
        self.inputs: tuple[Value, ...] = inputs
        self.params: Params = params
        self.guards: tuple[Guard, ...] = guards
        self.place: SourceLocation = user_place()
        self.serial: int = next(SERIALS)
        asks = params and primitive.demanding
        self.demands: tuple[Value, ...] = _demands(params) if asks else ()
        self.outputs: tuple[Value, ...] = tuple(
            [Value(self, i, t) for i, t in enumerate(types)]
        )

    @property
    def op_called(self) -> str:
        """The op in messages about sizes: the function that the user called."""
        asking = self.params.get("asking")
        if asking is not None:
            return str(asking.content)
        return op_as_written(self.place.called, self.primitive.name)

    def message_of(self, guard: Guard) -> str:
        """The error message for a call in which a guard of this node does not hold."""
        return f"{self.op_called}: {guard.reason}: needs {guard}"

    @property
    def reported(self) -> str:
        """The op in reports: as `op_called`, but indexing by its primitive."""
        return self.primitive.name if self.op_called == "index" else self.op_called

    def __repr__(self) -> str:
        return f"<{self.primitive.name} at {self.place}>"


def entries_of(params: Params) -> Iterator[object]:
    """The params of a node, with each entry of those that are tuples."""
    for param in params.values():
        if isinstance(param, tuple):
            yield from param
        else:
            yield param


def divisors_of(node: Node) -> list[Size]:
    """The divisors in sizes among a node's params that may be 0."""
    return [by for size in entries_of(node.params) for by in divisors(size)]


def _demands(params: Params) -> "tuple[Value, ...]":
    demands: dict[Value, None] = {}
    for size in entries_of(params):
        if isinstance(size, Dim):
            demands.update(dict.fromkeys(origins(size)))
    return tuple(demands)


def origins(size: Size) -> "list[Value]":
    """The values from whose integers `size` is computed."""
    if not isinstance(size, Dim):
        return []
    return [cast(Value, s.origin) for s in size.symbols if s.origin is not None]


def sizes_needed(node: Node) -> "list[Value]":
    """The values that must be integers on the host to compile `node`."""
    needed = list(node.demands)
    for guard in node.guards:
        needed += origins(guard.left) + origins(guard.right)
    return needed


class Value(Operators, Methods):
    """One output of a node: a symbolic tensor.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.tensor("x", "float32", ("n", 3))
    >>> x.sum(axis=0) + 1
    <add: float32[3]>

    Operators and methods build new values, and so does `==`; the compiler itself
    compares values by identity. A gradient that can be derived in two ways has a
    `derivation`.
    """

    __slots__ = "__weakref__", "_symbol", "derivation", "index", "node", "sizes", "type"

    def __init__(self, node: Node, index: int, type: TensorType) -> None:
        self.node: Node = node
        self.index: int = index
        self.type: TensorType = type
        self.sizes: np.ndarray[Any, Any] | None = None
        self.derivation: object = None
        self._symbol: Symbol | None = None

    @property
    def symbol(self) -> Symbol:
        """The symbol that stands for this integer scalar where it is used as a size."""
        if self._symbol is None:
            name, lower, upper = self.node.primitive.range_of(self)
            symbol = Symbol(label(name), self, lower, upper)
            with _NAMING:  # threads share constants and sizes of axes
                self._symbol = self._symbol or symbol
        return self._symbol

    @property
    def name(self) -> str:
        """The name of an input, else of the variable assigned to the value, or ""."""
        name = self.node.params.get("name")
        return self.node.place.assigned if name is None else str(name.content)

    @property
    def dtype(self) -> DType:
        """The NumPy dtype of the elements."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.rank

    @property
    def shape(self) -> "tuple[int | Value, ...]":
        """The sizes: an int where static, otherwise a symbolic integer."""
        return tuple(F.size_value(n) for n in self.type.shape)

    @property
    def size(self) -> "int | Value":
        """The number of elements: an int where static, else a symbolic integer."""
        return F.size_value(self.type.size)

    @property
    def device(self) -> None:
        """Always None: the compiled function decides where arrays are."""
        return None

    @property
    def at(self) -> "Updates":
        """Functional updates: `x.at[index].set(v)`, `.add(v)` and so on."""
        return F.updates_of(self)

    @property
    def T(self) -> "Value":
        """The axes in reverse order."""
        return F.transpose(self)

    @property
    def mT(self) -> "Value":
        """The last two axes swapped."""
        return F.swapaxes(self, -1, -2)

    @property
    def real(self) -> "Value":
        """The real parts."""
        return F.real(self)

    @property
    def imag(self) -> "Value":
        """The imaginary parts."""
        return F.imag(self)

    def __repr__(self) -> str:
        if self.node.primitive is OP.size and self.sizes is not None:
            return str(self.sizes[()])
        return f"<{self._called()}: {self.type}>"

    def _called(self) -> str:
        """The name of an input; for other values the op, after their name, if any."""
        name, op = shortened(printable(self.name)), self.node.primitive.name
        if self.node.primitive is OP.input:
            return name or op
        return f"{name} = {op}" if name else op

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

    def __copy__(self) -> "Value":
        return self  # a value never changes and exists only once

    def __deepcopy__(self, _: object) -> "Value":
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise graph_error(
            "a value cannot be pickled: it belongs to a graph of this process",
            op="pickle",
            got=described_value(self),
            hint="keep graphc.dump(value), which is text, or save a compiled function",
        )

    if not TYPE_CHECKING:  # the stub lists the methods

        def __getattr__(self, name: str) -> Any:
            if name in METHODS:
                return partial(public_method(name), self)
            raise AttributeError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        """The message for an attribute that values lack."""
        message = f"a symbolic value has no attribute {name!r}"
        if name in UPDATES:
            return f"{message}; write x.at[index].{name}(value)"
        if name in FUNCTIONS and not name.startswith("_"):
            return f"{message}; write {example_call(name)}"
        if name in OF_VALUES:
            return f"{message}; {OF_VALUES[name]}"
        return message + misspelled(name, dir(self))

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *METHODS})

    def __iter__(self) -> "Iterator[Value]":
        self._refuse_scalar("iter")
        n = self.type.shape[0]
        if not isinstance(n, int):
            problem = f"cannot iterate over an axis of symbolic size {n}"
            hint = (
                "compute on the whole array, as gt.sum(x) and gt.any(x == y) do, or "
                "give the axis a number as size"
            )
            raise no_items_error(self, problem, "iter", hint)
        return iter([self[i] for i in range(n)])

    def __setitem__(self, index: object, value: object) -> None:
        raise self._unchanged("write y = x.at[index].set(value)")

    def __delitem__(self, index: object) -> None:
        raise self._unchanged("write y = gt.delete(x, index)")

    def _unchanged(self, remedy: str) -> GraphError:
        hint = f"{remedy}, which gives a new value"
        problem = "values are never changed"
        return graph_error(problem, op="index", got=str(self.type), hint=hint)

    def __len__(self) -> int:
        self._refuse_scalar("len")
        n = self.type.shape[0]
        if isinstance(n, int):
            return n
        caller = own_caller()
        raise graph_error(
            f"the length {n} is symbolic",
            op="len",
            got=str(self.type),
            hint=f"give a list, as gt.{caller}([x, y])" if caller else "use x.shape[0]",
        )

    def __bool__(self) -> bool:
        raise no_number_error(self, "bool")

    def __int__(self) -> int:
        raise no_number_error(self, "int")

    def __index__(self) -> int:
        raise no_number_error(self, "int")

    def __float__(self) -> float:
        raise no_number_error(self, "float")

    def __array__(self, *_: object, **__: object) -> Any:
        raise no_number_error(self, "numpy.asarray", "use a function of graphc.tensor")

    def __str__(self) -> str:
        """Like `repr`; JAX calls it where it refuses an argument of a primitive."""
        code = sys._getframe(1).f_code
        if code.co_name == "bind" and code.co_filename.endswith(_JAX_CORE):
            raise foreign_use_error(self, otherwise="jax")
        return repr(self)

    @property
    def __jax_array__(self) -> Any:
        """Refuse JAX, which reads this on objects that are not its own arrays."""
        if sys._getframe(1).f_code.co_filename.endswith("array_methods.py"):
            raise AttributeError  # JAX's operators, which then leave the rest to ours
        raise foreign_use_error(self, otherwise="jax")

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., object],
        _: object,
        args: Any = (),
        options: object = None,
    ) -> Any:
        value = next(a for a in args if isinstance(a, Value))
        raise foreign_use_error(value, f"torch.{function.__name__}")

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        hint = f'gt.debug_print("{{:{spec}}}", x) prints it when it is computed'
        raise no_number_error(self, "format", hint)

    def _refuse_scalar(self, op: str) -> None:
        if not self.type.shape:
            hint = "use the value itself, or gt.atleast_1d(x)"
            problem = "a value of rank 0 has no length and no elements"
            raise no_items_error(self, problem, op, hint)


def is_literal(value: Value) -> bool:
    """Whether a value, a constant as a rule, is printed wherever it is used."""
    return value.node.primitive.inline and not value.node.inputs


def known_sizes(value: Value) -> NDArray | None:
    """The integers that `value` holds as sizes, or None where they are not known.

    An integer scalar is always known: where no rule tells it, as its own symbol.
    """
    if value.sizes is not None:
        return value.sizes
    if value.type.rank == 0 and is_integer(value.dtype):
        sizes = np.empty((), dtype=object)
        sizes[()] = symbol_dim(value.symbol)
        return sizes
    return None


@dataclass(frozen=True)
class Graph:
    """A program: its input and output values, and the names of both."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @classmethod
    def of(cls, inputs: Iterable[Value], outputs: Iterable[Value]) -> "Graph":
        """A program whose inputs have the names of the values, and outputs no names."""
        inputs, outputs = tuple(inputs), tuple(outputs)
        names = tuple([v.name for v in inputs])
        return cls(inputs, outputs, names, ("",) * len(outputs))

    @property
    def signature(self) -> str:
        """The types of the inputs and of the outputs as text."""
        inputs, outputs = (
            ", ".join([str(v.type) for v in values])
            for values in (self.inputs, self.outputs)
        )
        return f"({inputs}) -> ({outputs})"

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that the outputs depend on, in topological order."""
        return tuple(ancestors(self.outputs))

    @cached_property
    def primitives(self) -> "frozenset[Primitive]":
        """The primitives of the nodes, not counting those in bodies."""
        return frozenset([node.primitive for node in self.nodes])

    @property
    def may_have_bodies(self) -> bool:
        """Whether some primitive may have bodies in its nodes."""
        return any([primitive.may_have_bodies for primitive in self.primitives])

    @property
    def argument_symbols(self) -> tuple[Symbol, ...]:
        """The symbols that arguments determine: sizes, and integers among them."""
        symbols: dict[Symbol, None] = {}
        for value in self.inputs:
            for n in value.type.shape:
                symbols.update(dict.fromkeys(symbols_in(n)))
            if value._symbol is not None:
                symbols[value._symbol] = None
        return tuple(symbols)

    def with_outputs(self, outputs: Iterable[Value]) -> "Graph":
        """The program with other outputs, or itself where they are the same."""
        new = tuple(outputs)
        same = all([a is b for a, b in zip(new, self.outputs, strict=True)])
        return self if same else replace(self, outputs=new)
