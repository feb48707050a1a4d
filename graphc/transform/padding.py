"""Pad and mask by rule: a graph for exact sizes becomes one for capacities.

Each padded axis is stored at a capacity, its elements first; the true sizes become
integers that are known when the program runs. One pass in topological order makes
each node anew by the mask rule of its primitive (`graphc.ops.masking`). Where a rule
refuses, or there is none, the inputs are cut to their true sizes, the node is made of
these, and its results are padded again: the planner then gives it a segment that is
compiled for each true size, and the others keep theirs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from graphc.errors import GraphError, Place, graph_error, standing_at
from graphc.ir import dims
from graphc.ir.build import INPUT, SIZE_OP, as_size, as_value, variable
from graphc.ir.dims import Dim, Size, Symbol, substitute, symbol_dim
from graphc.ir.dims_growth import grows
from graphc.ir.graph import Graph, Guard, Node, Params, Value, origins
from graphc.ir.namespace import F
from graphc.ir.op import rebuild
from graphc.ir.types import INT32, TensorType, same_size
from graphc.ir.walk import ancestors, operands
from graphc.ops.buckets import bucketed
from graphc.ops.masking import Padding, Ragged, Sizes, elementwise
from graphc.transform.policies import Pad, Policy


@dataclass(frozen=True)
class Cut:
    """A node that is computed at true sizes: why, and for which line."""

    node: Node
    reason: str

    @property
    def place(self) -> Place:
        """The user's line."""
        return self.node.place


@dataclass(frozen=True)
class Padded:
    """A graph over capacities, and how it stands for `original`.

    Its inputs are those of the original, then one integer per symbol of `lengths`. Its
    outputs are those of the original, then the integers that the sizes of outputs
    depend on, `counts`. `capacities` are the sizes at which padded axes are stored,
    `ragged` the padded axes of each output. `guards` must hold for the true sizes.
    """

    original: Graph
    graph: Graph
    policies: dict[Symbol, Policy]
    capacities: dict[Symbol, Symbol]
    lengths: tuple[Symbol, ...]
    counts: tuple[Symbol, ...]
    ragged: tuple[frozenset[int], ...]
    cuts: tuple[Cut, ...]
    guards: tuple[tuple[Guard, Node], ...]
    checks: tuple[tuple[Value, str, Place], ...]


def padded(
    graph: Graph,
    policies: Mapping[Symbol, Policy],
    *,
    clean: bool = True,
    bounds_checks: bool = False,
) -> Padded:
    """The graph with the axes of these sizes padded.

    `clean`: arguments arrive with zeros in their padding; otherwise with anything.
    `bounds_checks` adds a condition per data-dependent index to `checks`.
    """
    return _Pass(graph, dict(policies), clean, bounds_checks).run()


class _Pass:
    """One walk over a graph."""

    def __init__(
        self,
        graph: Graph,
        policies: dict[Symbol, Policy],
        clean: bool,
        bounds_checks: bool,
    ) -> None:
        self._graph = graph
        nodes = ancestors(graph.outputs)
        self._checks = _bounds_checks(nodes) if bounds_checks else []
        self._nodes = ancestors([*graph.outputs, *(c for c, _, _ in self._checks)])
        self._policies = policies
        self._clean = clean
        self._made: dict[Value, Ragged] = {}
        self._exact: dict[Symbol, Size] = {}
        self._capacity: dict[Symbol, Size] = {}
        self._capacities: dict[Symbol, Symbol] = {}
        self._lengths: dict[Symbol, Value] = {}
        self._own_symbols: set[Symbol] = set()  # capacities and traced sizes
        self._stored: dict[Dim, tuple[Size, bool]] = {}
        self._cuts: list[Cut] = []
        self._trusted: set[Node] = set()

    def run(self) -> Padded:
        """The padded graph."""
        same = self._equal_sizes()
        for symbol, policy in list(self._policies.items()):
            if symbol.origin is None:
                self._pad_axis(same.get(symbol, symbol), policy)
        for symbol, first in same.items():
            if first in self._capacity:
                self._capacity[symbol] = self._capacity[first]
                self._exact[symbol] = self._exact[first]
        inputs = [self._input(v) for v in self._graph.inputs]
        self._trusted.update(v.node for v in (*inputs, *self._lengths.values()))
        for node in self._nodes:
            if node.primitive is not INPUT:
                self._visit(node)
            self._settle_sizes(node)
        counts = self._counts()
        outputs = [self._made[v].value for v in self._graph.outputs]
        outputs += [self._number(s) for s in counts]
        lengths = tuple(self._lengths)
        new = Graph(
            (*inputs, *self._lengths.values()),
            tuple(outputs),
            (*self._graph.input_names, *(s.name for s in lengths)),
            (*self._graph.output_names, *("" for _ in counts)),
        )
        return Padded(
            self._graph,
            new,
            self._policies,
            self._capacities,
            lengths,
            counts,
            tuple(self._made[v].axes for v in self._graph.outputs),
            tuple(self._cuts),
            tuple(self._guards()),
            tuple((self._made[c].value, text, at) for c, text, at in self._checks),
        )

    # Sizes.

    def _equal_sizes(self) -> dict[Symbol, Symbol]:
        """Axes that a guard needs equal share a capacity; one of a number has none.

        By symbol, the one whose capacity it shares.
        """
        groups: dict[Symbol, set[Symbol]] = {}
        fixed: set[Symbol] = set()
        for guard, _ in _all_guards(self._nodes):
            axes = {_axis_symbol(guard.left), _axis_symbol(guard.right)}
            together = {s for s in axes if s is not None}
            if guard.relation != "==" or not together:
                continue
            if isinstance(guard.left, int) or isinstance(guard.right, int):
                fixed |= together
            elif len(together) == 2:
                joined = set[Symbol]().union(*(groups.get(s, {s}) for s in together))
                groups.update(dict.fromkeys(joined, joined))
        for symbol, joined in groups.items():
            policies = [self._policies[s] for s in joined if s in self._policies]
            if policies:
                self._policies.setdefault(symbol, policies[0])
            if fixed & joined:
                fixed |= joined
        for symbol in fixed:
            self._policies.pop(symbol, None)
        return {s: min(j, key=_serial) for s, j in groups.items()}

    def _pad_axis(self, symbol: Symbol, policy: Policy) -> None:
        if symbol in self._capacity:
            return
        self._policies[symbol] = policy
        capacity = Symbol(f"{symbol.name}_capacity", lower=1)
        with standing_at(self._graph.inputs[0].node.place.plain):
            length = variable(symbol.name, TensorType(INT32, ()))
        length._symbol = Symbol(symbol.name, length, 0, symbol_dim(capacity))
        self._capacities[symbol] = capacity
        self._capacity[symbol] = symbol_dim(capacity)
        self._exact[symbol] = symbol_dim(length.symbol)
        self._lengths[symbol] = length
        self._own_symbols |= {capacity, length.symbol}

    def exact(self, size: Size) -> Size:
        """A true size in terms of what is known in the padded graph."""
        return substitute(size, self._exact) if isinstance(size, Dim) else size

    def stored(self, size: Size) -> Size:
        """The size at which an axis of a true size is kept."""
        return self._storage(size)[0]

    def _storage(self, size: Size) -> tuple[Size, bool]:
        """The stored size, and whether there is padding in it."""
        if not isinstance(size, Dim):
            return size, False
        if size not in self._stored:
            self._stored[size] = self._stored_at(size)
        return self._stored[size]

    def _stored_at(self, size: Dim) -> tuple[Size, bool]:
        ragged = [s for s in size.symbols if self._is_ragged(s)]
        if not ragged or not grows(size, ragged):
            return self.exact(size), False
        return substitute(size, self._exact | self._capacity), True

    def _is_ragged(self, symbol: Symbol) -> bool:
        return symbol in self._capacity

    def _settle_sizes(self, node: Node) -> None:
        """Outputs of the node that serve as sizes: what they are from now on."""
        for value in node.outputs:
            symbol = value._symbol
            if symbol is None:
                continue
            new = self._made[value].value
            self._exact[symbol] = as_size(new)
            policy = self._policies.get(symbol)
            if policy is not None:
                with standing_at(node.place.plain):
                    self._capacity[symbol] = self._bound(value, symbol, new, policy)
                both = (self._exact[symbol], self._capacity[symbol])
                self._own_symbols.update(s for n in both for s in _symbols(n))

    def _bound(
        self, value: Value, symbol: Symbol, new: Value, policy: Policy
    ) -> Size:
        """The capacity for a size that is a value."""
        upper = None if symbol.upper is None else self.stored(symbol.upper)
        if isinstance(policy, Pad):
            bucket = as_size(bucketed(new, policy.capacities))
            return bucket if upper is None else dims.minimum(bucket, upper)
        if upper is None:
            raise graph_error(
                f"no bound of the size {symbol.name} is known",
                op="function",
                got=f"dims {symbol.name}: Bound()",
                hint="give Pad(), or let it be specialized",
                where=value.node.place,
            )
        return upper

    # Nodes.

    def _input(self, value: Value) -> Value:
        storage = [self._storage(n) for n in value.type.shape]
        axes = frozenset(i for i, (_, padded) in enumerate(storage) if padded)
        shape = tuple(size for size, _ in storage)
        new = value
        if not all(map(same_size, shape, value.type.shape)):
            with standing_at(value.node.place.plain):
                new = variable(value.name, TensorType(value.dtype, shape))
        fill = dict.fromkeys(axes, value.dtype.type(0)) if self._clean else {}
        self._made[value] = Ragged(new, value.type, axes, fill)
        return new

    def _visit(self, node: Node) -> None:
        inputs = [self._made[v] for v in node.inputs]
        with standing_at(node.place.plain):
            results = self._results(node, inputs)
        for value, result in zip(node.outputs, results, strict=True):
            self._made[value] = result
            self._trusted.add(result.value.node)

    def _results(self, node: Node, inputs: list[Ragged]) -> list[Ragged]:
        if node.primitive is SIZE_OP:
            size = as_value(F.size_value(self.exact(node.params["size"])))
            return [Ragged(size, node.outputs[0].type)]
        if not any(r.axes for r in inputs) and not self._has_ragged_sizes(node):
            fresh = self._exactly(node, [r.value for r in inputs])
            pairs = zip(fresh, node.outputs, strict=True)
            return [Ragged(new, old.type) for new, old in pairs]
        try:
            return self._by_rule(node, inputs)
        except _Refusal as refusal:
            self._refuse_if_strict(node, inputs, str(refusal))
            self._cuts.append(Cut(node, str(refusal)))
            return self._by_cutting(node, inputs)

    def _refuse_if_strict(self, node: Node, inputs: list[Ragged], why: str) -> None:
        types = [r.type for r in inputs] + [v.type for v in node.outputs]
        symbols = dict.fromkeys(s for t in types for n in t.shape for s in _symbols(n))
        for symbol in symbols:
            policy = self._policies.get(symbol)
            if isinstance(policy, Pad) and policy.strict:
                raise graph_error(
                    f"the size {symbol.name} cannot be padded here: {why}",
                    op=node.primitive.name,
                    got=", ".join(str(r.type) for r in inputs),
                    hint="leave strict out: the op is then compiled for each size",
                    where=node.place,
                )

    def _has_ragged_sizes(self, node: Node) -> bool:
        sizes = [n for v in node.outputs for n in v.type.shape]
        for param in node.params.values():
            sizes += param if isinstance(param, tuple) else [param]
        return any(
            self._is_ragged(s) for n in sizes if isinstance(n, Dim) for s in n.symbols
        )

    def _exactly(self, node: Node, inputs: list[Value]) -> tuple[Value, ...]:
        """The node on true sizes."""
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        if same and not node.demands and not self._has_sizes(node):
            return node.outputs
        return rebuild(node, tuple(inputs), _resized(node.params, self.exact)).outputs

    def _has_sizes(self, node: Node) -> bool:
        return any(
            isinstance(n, Dim)
            for p in node.params.values()
            for n in (p if isinstance(p, tuple) else (p,))
        )

    def _by_rule(self, node: Node, inputs: list[Ragged]) -> list[Ragged]:
        primitive = node.primitive
        if primitive.padding_rule is None and not primitive.elementwise:
            raise _Refusal(primitive.no_padding_reason or "it has no mask rule")
        for guard in node.guards:
            if not self._checked_at_entry(guard):
                raise _Refusal(f"{guard.reason} depends on data")
        pad = Padding(node, self.stored, self.exact)
        try:
            if primitive.padding_rule is None:
                made: Any = elementwise(pad, inputs)
            else:
                params = _resized(node.params, self.stored)
                made = primitive.padding_rule(pad, *inputs, **params)
        except GraphError as error:
            raise _Refusal(error.args[0].splitlines()[0]) from None
        results = list(made) if isinstance(made, tuple) else [made]
        return [
            self._accepted(node, value, result)
            for value, result in zip(node.outputs, results, strict=True)
        ]

    def _accepted(self, node: Node, value: Value, made: Any) -> Ragged:
        """A result of a rule, of the right type and without conditions of its own."""
        if made is None:
            raise _Refusal("its mask rule does not cover this form")
        result = made if isinstance(made, Ragged) else Ragged(made, value.type)
        storage = [self._storage(n) for n in value.type.shape]
        new = result.value
        axes = frozenset(i for i, (_, padded) in enumerate(storage) if padded)
        if new.dtype != value.dtype or new.type.rank != value.type.rank:
            raise AssertionError(f"{node.primitive.name}: {new.type} for {value.type}")
        for size, (wanted, _) in zip(new.type.shape, storage, strict=True):
            if not same_size(size, wanted) and dims.equal(size, wanted) is not True:
                raise _Refusal(f"its result would have {size} elements, not {wanted}")
        self._require_trusted(new, self._implied(node))
        fill = {a: n for a, n in result.fill.items() if a in axes}
        return Ragged(new, value.type, axes, fill)

    def _implied(self, node: Node) -> list[tuple[Size, Size]]:
        """Pairs a <= b at capacities that follow from what the true sizes must be."""
        return [
            (self.exact(g.left), self.stored(g.right))
            for g in node.guards
            if g.relation == "<=" and not any(map(self._is_ragged, _symbols(g.left)))
        ]

    def _require_trusted(self, value: Value, implied: list[tuple[Size, Size]]) -> None:
        """What a rule made must hold for all sizes: guards are about true sizes."""
        stack, seen = [value.node], set[Node]()
        while stack:
            node = stack.pop()
            if node in self._trusted or node in seen:
                continue
            seen.add(node)
            for guard in node.guards:
                symbols = {*_symbols(guard.left), *_symbols(guard.right)}
                pair = guard.left, guard.right
                if guard.relation == "<=" and any(
                    all(map(same_size, pair, known)) for known in implied
                ):
                    continue
                if not symbols.isdisjoint(self._own_symbols):
                    shown = f"{guard.left} {guard.relation} {guard.right}"
                    raise _Refusal(f"{shown} would not hold for all sizes")
            stack += [v.node for v in operands(node)]
        self._trusted |= seen

    def _by_cutting(self, node: Node, inputs: list[Ragged]) -> list[Ragged]:
        cut = [self._cut(r) for r in inputs]
        made = self._exactly(node, cut)
        return [
            self._padded_again(value, new)
            for value, new in zip(node.outputs, made, strict=True)
        ]

    def _cut(self, ragged: Ragged) -> Value:
        """The value without its padding."""
        value = ragged.value
        for axis in sorted(ragged.axes):
            size = self.exact(ragged.type.shape[axis])
            value = F._part(value, axis, 0, size)
        return F.specify_shape(value, tuple(map(self.exact, ragged.type.shape)))

    def _padded_again(self, value: Value, new: Value) -> Ragged:
        storage = [self._storage(n) for n in value.type.shape]
        axes = frozenset(i for i, (_, padded) in enumerate(storage) if padded)
        if axes:
            ends = [
                (0, stored - n if i in axes else 0)
                for i, (n, (stored, _)) in enumerate(
                    zip(new.type.shape, storage, strict=True)
                )
            ]
            new = F.pad(new, [(0, as_value(F.size_value(e))) for _, e in ends])
            new = F.specify_shape(new, tuple(size for size, _ in storage))
        return Ragged(new, value.type, axes, dict.fromkeys(axes, value.dtype.type(0)))

    # What the entry must know.

    def _counts(self) -> tuple[Symbol, ...]:
        """The symbols of output sizes that only the program knows."""
        found: dict[Symbol, None] = {}
        for value in self._graph.outputs:
            for size in value.type.shape:
                if isinstance(size, Dim) and self._storage(size)[1]:
                    found.update(dict.fromkeys(s for s in size.symbols if _inner(s)))
        return tuple(found)

    def _number(self, symbol: Symbol) -> Value:
        """A size as an output."""
        size = as_value(F.size_value(self._exact[symbol]))
        number: Value = F.astype(size, "int32")
        return number

    def _checked_at_entry(self, guard: Guard) -> bool:
        symbols = [*_symbols(guard.left), *_symbols(guard.right)]
        return not any(_inner(s) for s in symbols)

    def _guards(self) -> Iterable[tuple[Guard, Node]]:
        for guard, node in _all_guards(self._nodes):
            symbols = [*_symbols(guard.left), *_symbols(guard.right)]
            if any(map(self._is_ragged, symbols)) and self._checked_at_entry(guard):
                yield guard, node


_serial = attrgetter("serial")


class _Refusal(Exception):
    """A node cannot be made anew on padded inputs."""


def _bounds_checks(nodes: Iterable[Node]) -> list[tuple[Value, str, Place]]:
    """What `check=True` must find true of these nodes, and messages."""
    return [
        (condition, message, node.place)
        for node in nodes
        if node.primitive.bounds_check is not None
        for condition, message in node.primitive.bounds_check(node)
    ]


def _all_guards(nodes: Iterable[Node]) -> list[tuple[Guard, Node]]:
    found: dict[Guard, Node] = {}
    for node in nodes:
        for guard in node.guards:
            found.setdefault(guard, node)
    return list(found.items())


def _symbols(size: Size) -> tuple[Symbol, ...]:
    return size.symbols if isinstance(size, Dim) else ()


def _axis_symbol(size: Size) -> Symbol | None:
    """The symbol of an axis that is a size itself."""
    if isinstance(size, Dim) and len(size.symbols) == 1:
        symbol = size.symbols[0]
        if symbol.origin is None and size is symbol_dim(symbol):
            return symbol
    return None


def _inner(symbol: Symbol) -> bool:
    """Whether a size is computed by the program, so that no argument tells it."""
    return any(v.node.primitive is not INPUT for v in origins(symbol_dim(symbol)))


def _resized(params: Params, resize: Sizes) -> dict[str, Any]:
    """Params with their sizes replaced."""

    def one(param: Any) -> Any:
        if isinstance(param, tuple):
            return tuple(map(one, param))
        return resize(param) if isinstance(param, Dim) else param

    return {name: one(param) for name, param in params.items()}
