"""Functions laid out as text, line by line."""

from collections.abc import Container, Generator, Iterable, Sequence, Set
from contextlib import contextmanager
from functools import partial

import numpy as np

from graphc.analysis.shifts import find_shifts
from graphc.backends.last_uses import last_uses
from graphc.backends.layout import indent
from graphc.backends.literals import (
    is_beside_an_array,
    is_of_python_numbers,
    number,
    typed_number,
)
from graphc.backends.module import Module
from graphc.backends.sizes import (
    Arithmetic,
    UnboundedSums,
    arithmetic_for,
    array_size,
    computes_wide,
    is_in_pieces,
    is_unbounded,
    is_wide,
    reading_call,
    solution_text,
    summed_symbols,
    widened_text,
)
from graphc.control.call import CALL
from graphc.control.switch import SWITCH
from graphc.errors import GraphError, SourceLocation, graph_error
from graphc.ir.graph import bodies
from graphc.ir.graph.build import CONSTANT, INPUT, SIZE_OP, Data, tuple_text
from graphc.ir.graph.nodes import Guard, Node, Value
from graphc.ir.graph.op import EMISSION, Emit, Opaque, Printing
from graphc.ir.params.kinds import Text
from graphc.ir.primitives import OP
from graphc.ir.sizes.dims import MOST_SHOWN, Dim, Size, Symbol, symbol_dim
from graphc.ir.sizes.names import SHOWN, naming_sizes
from graphc.ir.sizes.text import expression, shared_parts
from graphc.ir.types import INT32
from graphc.ops.common.narrow_integers import may_overflow

_LITERALS = bool, int, float, str


class PrintedBody:
    """The lines of one function.

    Sizes are bound where they are first needed: from the shape of a value in scope or,
    where `reads` allows it, from the integer of a value in scope. `inner` says that the
    function is the body of a loop or branch, `tells_misfits` that branches in it may
    report that their sizes do not fit.
    """

    def __init__(
        self,
        module: Module,
        xp: str,
        *,
        reads: bool,
        inner: bool = False,
        tells_misfits: bool = False,
    ) -> None:
        self.module = module
        self.xp: str = xp
        self.backend: str = "numpy" if xp == "np" else "jax"
        self.reads = reads
        self.inner = inner
        self.tells_misfits = tells_misfits
        self.lines: list[str] = []
        self.on_host: dict[Value, str] = {}  # names of NumPy copies
        self._names: dict[Value, str] = {}
        self._sizes: dict[Symbol, str] = {}
        self._axes: dict[Symbol, str] = {}
        self._bound: set[tuple[Size, ...]] = set()  # shapes whose axes are all in scope
        # Names of parts of long sizes, by the arithmetic that computes them.
        self._parts: dict[Arithmetic, dict[Dim, str]] = {a: {} for a in Arithmetic}
        self._wide: dict[Symbol, str] = {}
        self._place: SourceLocation | None = None
        self._line = ""  # the user's line in the last comment
        self._guarded: set[Guard] = set()
        self.copies: dict[object, str] = {}  # constrained copies of arrays
        self._shifts: set[Node] = set()
        self._wraps = True

    def line(self, text: str) -> None:
        """Append one line."""
        if not text.isprintable() and len(text.splitlines()) > 1:
            raise ValueError(f"this is more than one line: {text!r}")
        self.lines.append(text)

    def look_at(self, nodes: Sequence[Node], outputs: Set[Value]) -> None:
        """Note how all nodes use values; to be called before the nodes are printed."""
        if self.backend == "jax":
            self._shifts = find_shifts(nodes, outputs)
            self._wraps = self.inner or may_overflow(nodes)

    @contextmanager
    def in_numpy(self) -> Generator[None]:
        """Within the context, lines of a JAX program compute with NumPy, at once."""
        before = self.xp, self.backend
        self.xp, self.backend = "np", "numpy"
        try:
            yield
        finally:
            self.xp, self.backend = before

    def bind(self, value: Value, name: str) -> None:
        """Put `value` in scope as `name`, and with it the sizes of its axes.

        Lists of pieces have no axes.
        """
        self._names[value] = name
        shape = value.type.shape
        if shape in self._bound or is_in_pieces(value):
            return
        bound = True
        for axis, size in enumerate(shape):
            if isinstance(size, Dim) and len(size.symbols) == 1:
                symbol = size.symbols[0]
                if symbol not in self._axes:  # an input's axis would stay in scope
                    self._bind_axis(size, symbol, value, f"{name}.shape[{axis}]")
                bound = bound and symbol in self._axes
        if bound:
            self._bound.add(shape)

    def bind_all(self, values: Iterable[Value], names: Iterable[str]) -> None:
        """Put values in scope by these names."""
        for value, name in zip(values, names, strict=True):
            self.bind(value, name)

    def _bind_axis(self, size: Dim, symbol: Symbol, value: Value, axis: str) -> None:
        if symbol_dim(symbol) is size:
            self._axes[symbol] = axis
        elif value.node.primitive is INPUT:
            text = solution_text(size, symbol, axis)
            if text:
                self._axes[symbol] = text

    def bind_size(self, symbol: Symbol, name: str) -> None:
        """Put the integer of `symbol` in scope as `name`."""
        self._sizes[symbol] = name

    def bind_sizes(self, symbols: Iterable[Symbol], names: Iterable[str]) -> None:
        """Put the integers of symbols in scope by these names."""
        self._sizes.update(zip(symbols, names, strict=True))

    def delete(self, values: Iterable[Value]) -> None:
        """Print a statement that deletes those of these values that are arrays."""
        names = [self._forget(v) for v in values if v.type.rank]
        if names:
            self.line(f"del {', '.join(names)}")

    def _forget(self, value: Value) -> str:
        """Take `value` out of scope and return its name; sizes read from it stay."""
        name = self._names.pop(value)
        for symbol, axis in list(self._axes.items()):
            if axis.startswith(f"{name}."):
                self.size(symbol)
                del self._axes[symbol]
                self._bound.clear()
        return name

    def knows(self, symbol: Symbol) -> bool:
        """Whether the integer of `symbol` is in scope or in a shape in scope."""
        return symbol in self._sizes or symbol in self._axes

    def size(self, symbol: Symbol) -> str:
        """The name of a size; a line of its own binds the size if none has yet."""
        name = self._sizes.get(symbol)
        if name is None:
            origin = symbol.origin
            if symbol in self._axes:
                text = self._axes[symbol]
            elif isinstance(origin, Value) and self.reads:
                value = self.value(self.module.resolve(origin))
                text = reading_call(symbol, value, symbol in self.module.slice_bounds)
            elif isinstance(origin, Value):
                return self.value(self.module.resolve(origin))  # traced arithmetic
            else:
                raise AssertionError(f"no input gives the size {symbol.name}")
            name = self._sizes[symbol] = self.module.size_name(symbol)
            self.line(f"{name} = {text}")
        return name

    def take_read(self, symbol: Symbol) -> str:
        """Remove the line that reads a size, to be put elsewhere, and return it.

        Return "" if there is no such line, or if it clips the size as the bound of a
        slice.
        """
        start = f"{self._sizes.get(symbol)} = integer("
        places = [i for i, text in enumerate(self.lines) if text.startswith(start)]
        if not places or self.lines[places[0]].endswith("cut=True)"):
            return ""
        return self.lines.pop(places[0])

    def _is_integer(self, symbol: Symbol) -> bool:
        """Whether `size` returns a Python integer rather than a traced array."""
        return self.reads or symbol.origin is None or self.knows(symbol)

    def code(self, param: object) -> str:
        """A param as source text: a literal of its kind; sizes use names in scope."""
        if isinstance(param, Dim):
            return self._long_formula(param)
        if isinstance(param, tuple):
            return tuple_text(map(self.code, param))
        if isinstance(param, np.dtype):
            return f'"{param.name}"'
        if isinstance(param, Data):
            array = param.array
            if array.ndim == 0:
                return typed_number(array)
            name = self.module.constant(param)
            return name if self.backend == "numpy" else f"jnp.asarray({name})"
        if type(param) is Text:
            return repr(param.content)
        if param is None or type(param) in _LITERALS:
            return repr(param)
        raise TypeError(f"a {type(param).__name__} is not a param that can be printed")

    def _long_formula(self, size: Dim, narrow: bool = False, wide: bool = False) -> str:
        """A size as source text; parts of a long one get lines of their own."""
        how = self._arithmetic(size, narrow)
        if wide and how is Arithmetic.TRACED:
            how = Arithmetic.WIDE
        parts = shared_parts(size) if size.weight > MOST_SHOWN else ()
        for part in parts:
            one = min(how, self._arithmetic(part, narrow))
            if part not in self._parts[one]:
                text = self._formula(part, one)
                name = self._parts[one][part] = self.module.names.unique("size")
                self.line(f"{name} = {text}")
        return self._formula(size, how)

    def _arithmetic(self, size: Dim, narrow: bool) -> Arithmetic:
        static = all(map(self._is_integer, size.symbols))
        return Arithmetic.PYTHON if static else arithmetic_for(size, narrow)

    def _formula(self, size: Dim, how: Arithmetic) -> str:
        named = {**self._parts[Arithmetic.PYTHON], **self._parts[how]}
        wide = how is Arithmetic.WIDE
        name_of = partial(self._wide_size, summed_symbols(size)) if wide else self.size
        if how is not Arithmetic.PYTHON and self.backend == "jax":
            sums = UnboundedSums(self.module.helper, self._is_unbounded)
            return array_size(size, name_of, named, sums if wide else None)
        text = expression(size, name_of, named=named)
        return f"int({text})" if how is Arithmetic.TRACED else text

    def _is_unbounded(self, symbol: Symbol) -> bool:
        """Whether a symbol is an array that may hold any 64-bit integer."""
        is_array = not self._is_integer(symbol)
        return is_array and is_unbounded(symbol, self.module.slice_bounds)

    def _wide_size(self, summed: Container[Symbol], symbol: Symbol) -> str:
        """Like `size`, but a 64-bit integer where the size is a JAX array.

        Symbols that are `summed` are bounded so that sums do not wrap around.
        """
        name = self.size(symbol)
        if self._is_integer(symbol):
            return name
        if self.backend == "numpy":
            return f"int({name})"
        if is_wide(symbol) and symbol not in summed:
            return name
        if symbol not in self._wide:
            self.module.widens = True
            self.module.summed.add(symbol)
            text = widened_text(symbol, name, not self._is_unbounded(symbol))
            self._wide[symbol] = name
            if text != name:
                self._wide[symbol] = self.module.names.unique(f"{name}_wide")
                self.line(f"{self._wide[symbol]} = {text}")
        return self._wide[symbol]

    def value(self, value: Value) -> str:
        """The expression of a value in scope."""
        name = self._names.get(value)
        if name is not None:
            return name
        node = value.node
        if node.primitive is SIZE_OP:
            return self._number_text(value)
        if node.primitive is CONSTANT:
            if value.type.weak:
                return number(node.params["data"].array)
            return self.code(node.params["data"])
        if value.type.rank == 0 and value.dtype.kind in "iu":
            size = self._sizes.get(value.symbol)
            if size is not None:
                return f"np.{value.dtype.name}({size})"
        raise AssertionError(f"{value!r} of {node!r} is not in scope")

    def operand(self, node: Node, value: Value) -> str:
        """The text of an input of a node; a literal is bare if its dtype is clear."""
        value = self.module.resolve(value)
        if not value.node.primitive.inline:  # the most common case
            return self.on_host.get(value) or self.value(value)
        if value.node.primitive is CONSTANT and value.type.rank == 0:
            array = value.node.params["data"].array
            if node.primitive.literals == "always" or (
                node.primitive.literals == "beside" and is_beside_an_array(node, value)
            ):
                return number(array)
        if value.node.primitive is SIZE_OP and value not in self._names:
            converts = node.primitive is OP.convert
            narrow = converts and node.params["dtype"] == INT32
            return self._number_text(value, narrow, computes_wide(node))
        return self.on_host.get(value) or self.value(value)

    def _number_text(
        self, value: Value, narrow: bool = False, wide: bool = False
    ) -> str:
        """A size as a number in an expression; with `wide`, an array has 64 bits."""
        text = self._long_formula(value.node.params["size"], narrow, wide)
        return text if text.isidentifier() else f"({text})"

    def node(self, node: Node, emit: Emit | None = None) -> None:
        """Print the line of one node, after those of the sizes and guards it needs.

        `emit` gives its text, or else the rule of the backend.
        """
        primitive, module = node.primitive, self.module
        if primitive.inline:
            return
        name = self._name_of_size_array(node) if primitive is OP.convert else None
        if name is not None:
            self.bind(node.outputs[0], name)
            return
        rule = emit or EMISSION[self.backend].find(primitive)
        if rule is None:
            raise _refusal(node, self.backend)
        self._comment(node.place)
        self._print_guards(node)
        if self.backend in primitive.imports:
            module.imports[f"import {primitive.imports[self.backend]}"] = None
        tells = self.tells_misfits and primitive is SWITCH
        p = Printing(
            node,
            self.xp,
            tuple([self.operand(node, v) for v in node.inputs]),
            self.code,
            module.helper,
            partial(print_body, module, self.xp, node, tells=tells),
            module.foreigns.add,
            self.inner,
            tells,
            module.on_mesh,
            module.lays_by_hand,
            module.is_lowered_later,
            node in self._shifts,
            self._wraps,
        )
        text = rule(p)
        if is_of_python_numbers(node):
            text = f"{self.xp}.asarray({text})"
        names = [module.value_name(v) for v in node.outputs]
        unpacked = primitive.several and len(names) == 1
        target = f"({names[0]},)" if unpacked else ", ".join(names)
        self.line(f"{target} = {text}  # {module.type_text(node.outputs[0])}")
        self.bind_all(node.outputs, names)

    def _name_of_size_array(self, cast: Node) -> str | None:
        """The name of a scalar in scope that a cast of a size equals, or None.

        It has that dtype, so that the cast would only repeat it.
        """
        number = self.module.resolve(cast.inputs[0])
        if self.backend == "numpy" or number.node.primitive is not SIZE_OP:
            return None
        size = number.node.params["size"]
        symbol = size.symbols[0] if isinstance(size, Dim) else None
        if symbol is None or symbol_dim(symbol) is not size or self._is_integer(symbol):
            return None
        assert isinstance(symbol.origin, Value)  # of another kind, it is an integer
        scalar = self.module.resolve(symbol.origin)
        same = scalar.dtype == cast.outputs[0].dtype and not scalar.type.weak
        return self._names.get(scalar) if same else None

    def _comment(self, place: SourceLocation) -> None:
        if place is self._place:
            return
        self._place = place
        line, text = self.module.comment(place)
        if line != self._line:
            self._line = line
            self.line(text)

    def _print_guards(self, node: Node) -> None:
        for guard in node.guards:
            if guard in self._guarded:
                continue
            self._guarded.add(guard)
            self.line(self.guard_text(guard, node))

    def guard_text(self, guard: Guard, node: Node) -> str:
        """The call `require(n == m, ...)`, with names and numbers of both sizes."""
        return f"require({', '.join(self.guard_parts(guard, node))})"

    def guard_parts(self, guard: Guard, node: Node) -> tuple[str, str]:
        """The relation of a guard as text, and the other arguments of `require`."""
        left, right = self.code(guard.left), self.code(guard.right)
        numbers = ", ".join(n for n in (left, right) if not n.lstrip("-").isdigit())
        kind = "" if guard.kind == "shape" else f", kind={guard.kind!r}"
        texts = f"{node.message_of(guard)!r}, {str(node.place)!r}"
        holds = f"{left} {guard.relation} {right}"
        if isinstance(guard.steps, Dim):
            holds = f"({self.code(guard.steps)} == 0 or {holds})"
        return holds, f"{texts}, {numbers}{kind}"


def _refusal(node: Node, backend: str) -> GraphError:
    reason = EMISSION[backend].reason(node.primitive, "no rule is given")
    return graph_error(
        f"{backend} cannot run it: {reason}", op=node.primitive.name, where=node.place
    )


def print_body(
    module: Module,
    xp: str,
    user: Node,
    callee: bodies.Body | Opaque,
    jitted: bool = False,
    tells: bool = False,
) -> str:
    """Print a body as a function of its inputs and then its sizes; return its name.

    The function returns a tuple. Bodies within it are printed before it. If `callee` is
    an opaque param, the function gets that param's name. With `tells`, branches in it
    may report misfits.
    """
    graph = callee.content if isinstance(callee, Opaque) else callee
    name = callee.name if isinstance(callee, Opaque) else "body"
    if graph in module.functions:
        return module.functions[graph][0]
    (call, *_) = (c for c in user.primitive.body_calls(user) if c.body is graph)
    with naming_sizes({**SHOWN.names, **module.name_sizes(call)}):
        frees = user.primitive is CALL and xp == "np"
        function = module.names.unique(name)
        body = PrintedBody(
            module, xp, reads=graph.runs_in_python, inner=True, tells_misfits=tells
        )
        _print_function(body, graph, function, frees)
    if jitted:
        statics = range(len(graph.inputs), len(graph.inputs) + len(graph.size_params))
        marked = f", static_argnums={tuple(statics)}" if statics else ""
        lines = module.functions[graph][1]
        lines += ["", "", f"{function} = jax.jit({function}{marked})"]
    return function


def _print_function(
    body: PrintedBody, graph: bodies.Body, name: str, frees: bool
) -> None:
    """Print the function of a body, and note its name and lines in the module."""
    module = body.module
    module.functions[graph] = name, []
    for node in graph.nodes:
        if node.primitive.passes_on:
            pairs = zip(node.outputs, node.inputs, strict=False)
            module.aliases.update((v, module.resolve(x)) for v, x in pairs)
    parameters = [module.value_name(v) for v in graph.inputs]
    body.bind_all(graph.inputs, parameters)
    sizes = [module.size_name(s) for s in graph.size_params]
    body.bind_sizes(graph.size_params, sizes)
    keep = {module.resolve(v) for v in graph.outputs} | module.aliases.keys()
    dying = last_uses(graph.nodes, keep, module.resolve) if frees else {}
    body.look_at(graph.nodes, keep)
    for node in graph.nodes:
        if not node.primitive.passes_on:
            body.node(node)
        body.delete(dying.get(node, ()))
    results = [body.value(module.resolve(v)) for v in graph.outputs]
    body.line(f"return {tuple_text(results)}")
    head = f"def {name}({', '.join([*parameters, *sizes])}):"
    module.functions[graph] = name, [head, *indent(body.lines)]
