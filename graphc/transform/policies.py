"""Policies for sizes that vary: one choice per dim."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np

from graphc.control.scan import SCAN, scan_inputs
from graphc.errors import graph_error, shortened
from graphc.ir.graph.bodies import bodies_in, bodies_of, has_bodies, sized_inner_nodes
from graphc.ir.graph.build import SIZE_OP, as_size
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.integers import as_integer, integer_or_none
from graphc.ir.namespace import misspelled
from graphc.ir.sizes.dims import Dim, Size, Symbol, less_equal, symbol_dim, symbols_in
from graphc.ir.sizes.growth import has_capacity
from graphc.ir.sizes.lines import undetermined_symbols
from graphc.ir.sizes.names import CAPACITY, distinct_names
from graphc.ir.tracebacks import with_errors_at_caller
from graphc.ir.types import product
from graphc.ops.effects.capacities import Capacities, capacity_call
from graphc.ops.indexing.scatter import SLICE_UPDATE
from graphc.transform.printed_sizes import printed_in_order


@with_errors_at_caller
@dataclass(frozen=True)
class Specialize:
    """Compile once per value, as `jax.jit` does.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.vector("x", shape=("n",))
    >>> f = graphc.function([x], gt.sum(x), dims={"n": graphc.Specialize()})
    >>> f.plan.forecast({"n": range(1, 100)}).compilations
    99
    """


@with_errors_at_caller
@dataclass(frozen=True, kw_only=True)
class Pad:
    """Run at a capacity, with the true size as a number known at run time.

    >>> import graphc, graphc.tensor as gt
    >>> x = gt.vector("x", shape=("n",))
    >>> f = graphc.function([x], gt.sum(x), dims={"n": graphc.Pad(growth=2)})
    >>> f.plan.forecast({"n": range(1, 100)}).compilations
    4

    Capacities are `minimum` times powers of `growth`, rounded up; or the listed
    `buckets`; or multiples of `multiple`. `strict`: compiling raises where an op needs
    the true size; otherwise that op is compiled for each size. `open_ended`: sizes
    beyond the last bucket are no error, but take it times powers of `growth`. Raises
    GraphError for bad capacities.
    """

    growth: float = 2.0
    minimum: int = 16
    buckets: tuple[int, ...] = ()
    multiple: int = 0
    strict: bool = False
    open_ended: bool = False

    def __post_init__(self) -> None:
        buckets: Any = self.buckets
        if not isinstance(buckets, Iterable):
            raise graph_error(
                "buckets must be a list of capacities",
                op="Pad",
                got=f"buckets={shortened(repr(buckets))}",
                hint=f"buckets=[{buckets!r}]",
            )
        _check_growth(self.growth)
        for name in ("minimum", "multiple"):
            problem = f"{name} must be an integer"
            number = as_integer(getattr(self, name), problem, "Pad")
            object.__setattr__(self, name, number)
        capacities = [as_integer(b, "buckets must be integers", "Pad") for b in buckets]
        object.__setattr__(self, "buckets", tuple(sorted(capacities)))
        problem = _problem_of(self)
        if problem:
            raise graph_error(problem, op="Pad", got=repr(self))

    def __str__(self) -> str:
        if self.buckets:
            more = " ..." if self.open_ended else ""
            return f"padded to one of {', '.join(map(str, self.buckets))}{more}"
        if self.multiple:
            return f"padded to a multiple of {self.multiple}"
        first = [self.capacity(self.minimum)]
        for _ in range(2):
            first.append(self.capacity(first[-1] + 1))
        return f"padded to {', '.join(map(str, first))} ..."

    @property
    def capacities(self) -> Capacities:
        """The policy as a param of the op that rounds up."""
        return Capacities(
            self.growth, self.minimum, self.buckets, self.multiple, self.open_ended
        )

    @property
    def of_computed(self) -> "Pad":
        """The policy for sizes computed from a padded one; buckets do not apply."""
        return replace(self, buckets=(), open_ended=False)

    @property
    def remedy(self) -> str:
        """The way out where a strict policy meets an op that needs the true size."""
        return "leave strict out: the op is then compiled for each size"

    def capacity(self, size: int) -> int:
        """The smallest capacity with room for `size`; ValueError if there is none."""
        function, options = capacity_call(self.capacities)
        return function(size, *options)


@dataclass(frozen=True, kw_only=True)
class Narrow(Pad):
    """The policy of an integer that takes small parts of long arrays.

    Slices by the integer have capacities of their own, not those of their arrays.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}, and so are the parts that it cuts"

    @property
    def of_whole(self) -> Pad:
        """The policy by which slices have the capacity of their array."""
        return Pad(growth=self.growth, minimum=self.minimum)


@with_errors_at_caller
@dataclass(frozen=True)
class Bound:
    """Store at the largest possible size, and count the true size.

    >>> import graphc, graphc.tensor as gt, numpy as np
    >>> x = gt.vector("x", shape=("n",))
    >>> f = graphc.function([x], gt.sum(x[x > 0]), dims=graphc.Bound())
    >>> print(f(np.array([3, -1, 4], "float32")))
    7.0

    This policy is for sizes that depend on data: nothing is read on the host.
    """

    def __str__(self) -> str:
        return "kept at the largest possible size"


Policy = Specialize | Pad | Bound


def _check_growth(growth: object) -> None:
    kinds = (int, float, np.integer, np.floating)
    if isinstance(growth, bool) or not isinstance(growth, kinds):
        got = shortened(repr(growth))
        raise graph_error("growth must be a number", op="Pad", got=got)


def _problem_of(pad: Pad) -> str:
    if not pad.growth > 1:
        return "capacities must grow: growth must be more than 1"
    if pad.minimum < 1 or any(b < 1 for b in pad.buckets) or pad.multiple < 0:
        return "capacities must be at least 1"
    if pad.buckets and pad.multiple:
        return "give either buckets or a multiple, not both"
    return ""


def learned(sizes: Sequence[int], most: int) -> Pad:
    """Return a `Pad` with at most `most` buckets, which waste least on these sizes.

    >>> learned([3, 3, 3, 10, 11], 2).buckets
    (3, 11)

    Dynamic programming over the histogram of sizes: the last bucket of a set is the
    largest size, and the cost of the others is the same problem with fewer sizes.
    O(distinct sizes squared times `most`).
    """
    numbers = [n for n in map(integer_or_none, sizes) if n is not None]
    buckets = integer_or_none(most)
    if not numbers or len(numbers) < len(sizes) or buckets is None:
        raise graph_error(
            "needs a list of sizes, and a number of buckets",
            op="learned",
            got=f"{shortened(repr(sizes))}, {most!r}",
            hint="graphc.learned([3, 3, 10, 11], 2)",
        )
    if buckets < 1:
        got = str(buckets)
        raise graph_error("needs at least one bucket", op="learned", got=got)
    histogram = Counter(max(n, 1) for n in numbers)
    distinct = sorted(histogram)
    total = [0, *accumulate(histogram[n] for n in distinct)]
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    best += [(float("inf"), ())] * len(distinct)
    for _ in range(buckets):
        best = [(0.0, ())] + [
            min(
                (best[i][0] + d * (total[j + 1] - total[i]), (*best[i][1], d))
                for i in range(j + 1)
            )
            for j, d in enumerate(distinct)
        ]
    return Pad(buckets=best[-1][1])


_SHARD = "graphc.Shard('data')"
CLASSES = "Specialize", "Pad", "Bound", "Budget"
NAMED: dict[str, Policy] = {"specialize": Specialize(), "pad": Pad(), "bound": Bound()}


def policies_of(graph: Graph, declared: object, before: Graph) -> dict[Symbol, Policy]:
    """The policy of each size of a graph that is not specialized.

    `declared` is one policy for all sizes that can take it, or a dict from sizes to
    policies; a size is named, or is a symbolic integer. Policies may be given by name.

    Raises GraphError for an invalid policy, and for a size that is neither in the graph
    nor in the graph `before` it was rewritten.
    """
    symbols = symbols_of(graph)
    named = _nameable_sizes(graph, before)
    if not isinstance(declared, Mapping):
        policy = policy_of(declared)
        chosen = {s: policy_of_size(s, policy) for s in symbols if _can_take(s, policy)}
    else:
        chosen = {}
        for key, value in declared.items():
            policy = Specialize() if is_auto(value) else policy_of(value, key=key)
            for symbol in _symbols_of_key(key, named):
                if not _can_take(symbol, policy):
                    raise graph_error(
                        f"Bound() is for sizes that depend on data, not {symbol.name}",
                        op="function",
                        hint="use Pad()",
                    )
                _require_determined(symbol, policy, graph)
                chosen[symbol] = policy
    padded = {s: chosen[s] for s in symbols if s in chosen}
    return {s: p for s, p in padded.items() if not isinstance(p, Specialize)}


def require_sizes(names: Iterable[object], graph: Graph, before: Graph) -> None:
    """Raise GraphError for a name of no size, in a graph or the graph `before` it."""
    sizes = _nameable_sizes(graph, before)
    for name in names:
        _symbols_of_key(name, sizes)


def _require_determined(symbol: Symbol, policy: Policy, graph: Graph) -> None:
    if isinstance(policy, Specialize) or symbol not in _never_padded(graph):
        return
    names = names_of(graph)
    name = names.get(symbol, symbol.name)
    for size in _axes_without_capacity(graph):
        if symbol in size.symbols:
            raise graph_error(
                f"{name} cannot be padded: an axis of {size} may be larger than it is "
                "at the capacities",
                op="function",
                hint=f"leave {name} out of dims: it is then compiled for each size",
            )
    results = (n for value in graph.outputs for n in value.type.shape)
    sizes = chain(_axes(graph), results)
    formulas = [n for n in sizes if isinstance(n, Dim) and len(n.symbols) > 1]
    beside = [str(n) for n in formulas if symbol in n.symbols]
    raise graph_error(
        f"{name} cannot be padded: not all sizes of an axis can be worked out from the "
        "inputs",
        op="function",
        got=f"an axis of {beside[0]}" if beside else "",
        hint="add a variable with an axis of each size to the inputs",
    )


def auto_sizes(graph: Graph, declared: object, before: Graph) -> list[Symbol]:
    """The sizes of a graph that `declared` leaves to "auto"."""
    symbols = symbols_of(graph)
    if not isinstance(declared, Mapping):
        return symbols if is_auto(declared) else []
    named = _nameable_sizes(graph, before)
    keys = [key for key, value in declared.items() if is_auto(value)]
    named_sizes = {s for key in keys for s in _symbols_of_key(key, named)}
    return [s for s in symbols if s in named_sizes]


def _nameable_sizes(graph: Graph, before: Graph) -> list[Symbol]:
    """The sizes that keys of `dims` may name."""
    sizes = [*symbols_of(graph), *sizes_of(before), *sizes_of(graph)]
    return list(dict.fromkeys(sizes))


def symbols_of(graph: Graph) -> list[Symbol]:
    """The symbols of sizes in a graph that may vary, in the order in which they occur.

    From a body come its own symbols that differ from step to step, and the symbols that
    it is given. Sizes that no axis of the inputs tells are specialized, and so are the
    sizes beside them in the size of a result, which cannot be cut.
    """
    unknown = _never_padded(graph)
    symbols: dict[Symbol, None] = dict.fromkeys(_symbols_of(graph.nodes))
    if not graph.may_have_bodies:
        return [s for s in symbols if s not in unknown]
    computed = {s for inner in bodies_in(graph.nodes) for s in inner.computed_sizes}
    for node, sizes in sized_inner_nodes(graph.nodes):
        for symbol in _symbols_of([node]) if sizes or computed else ():
            own_symbol = (symbol,) if symbol in computed else ()
            given_by = symbols_in(sizes.get(symbol)) or own_symbol
            symbols.update(dict.fromkeys(given_by))
    return [s for s in symbols if s not in unknown]


def _never_padded(graph: Graph) -> set[Symbol]:
    """The sizes that no axis tells, and the sizes beside them in results.

    Sizes of axes that would not fit in at capacities are among them.
    """
    unknown = set(undetermined_symbols(_axes(graph)))
    unknown.update(*(size.symbols for size in _axes_without_capacity(graph)))
    results = (n for v in graph.outputs for n in v.type.shape if isinstance(n, Dim))
    beside = [n.symbols for n in results if not unknown.isdisjoint(n.symbols)]
    return unknown.union(*beside)


def _axes_without_capacity(graph: Graph) -> list[Dim]:
    sizes = dict.fromkeys(n for n in _axes(graph) if isinstance(n, Dim))
    return [size for size in sizes if not (size.is_symbol or has_capacity(size))]


def _axes(graph: Graph) -> Iterator[Size]:
    return (size for value in graph.inputs for size in value.type.shape)


def sizes_of(graph: Graph) -> list[Symbol]:
    """The symbols of `symbols_of`, of sizes of inputs, and of sizes that ops need."""
    of_ops = [s for node in graph.nodes for s in printed_in_order(node)]
    of_axes = [s for n in _axes(graph) for s in symbols_in(n)]
    of_ops.sort(key=lambda s: s.serial)
    return list(dict.fromkeys([*of_axes, *symbols_of(graph), *of_ops]))


def names_of(graph: Graph) -> dict[object, str]:
    """The names that the sizes of a graph are printed with, where not their own."""
    return distinct_names(sizes_of(graph))


def names_after(written: Graph, graph: Graph) -> dict[object, str]:
    """The names of the sizes of `graph`, which rewriting has made from `written`.

    Sizes that are in both graphs keep their names.
    """
    sizes, symbols = sizes_of(written), {*sizes_of(graph)}
    names = distinct_names(sizes)
    both: dict[object, str] = {}
    both |= {s: names.get(s, s.name) for s in sizes if s in symbols}
    later = distinct_names(symbols, both).items()
    return {**names, **{s: name for s, name in later if s not in both}}


def with_names_as_keys(declared: object, graph: Graph) -> object:
    """Return `dims` with names in place of symbolic integers."""
    if not isinstance(declared, Mapping):
        return declared
    symbols, names = sizes_of(graph), names_of(graph)
    return {
        key if isinstance(key, str) else names.get(s, s.name): policy
        for key, policy in declared.items()
        for s in _symbols_of_key(key, symbols)[:1]
    }


def names_in(graph: Graph) -> set[str]:
    """The names by which `dims` may refer to sizes of a graph."""
    names = names_of(graph)
    return {name for s in sizes_of(graph) for name in (s.name, names.get(s, s.name))}


def _symbols_of(nodes: Iterable[Node]) -> Iterator[Symbol]:
    for node in nodes:
        for value in node.outputs:
            for size in value.type.shape:
                yield from symbols_in(size)
        if node.primitive is SLICE_UPDATE:  # the slice has a size, though no value has
            yield from printed_in_order(node)
        if node.primitive is SIZE_OP:  # of an argument of which only sizes matter
            yield from (s for s in printed_in_order(node) if s.origin is None)
        if has_bodies(node):  # a loop has as many steps, and no array has that size
            yield from printed_in_order(node)
            yield from _limit_symbols(node)


def _limit_symbols(node: Node) -> Iterator[Symbol]:
    """The symbols of the limit of a loop whose sizes differ from step to step."""
    if node.primitive is not SCAN or not any(b.computed_sizes for b in bodies_of(node)):
        return
    limit = scan_inputs(node.inputs, node.params).limit
    if limit is not None and limit.sizes is not None:
        for size in limit.sizes.flat:
            yield from symbols_in(size)


def _can_take(symbol: Symbol, policy: Policy) -> bool:
    return not isinstance(policy, Bound) or symbol.upper is not None


def policy_of_size(symbol: Symbol, policy: Policy) -> Policy:
    """Choose a size's policy from one for all sizes: counted elements stay bounded.

    An array of that many elements exists anyway, and nothing is read on the host.
    """
    origin = symbol.origin
    if not isinstance(policy, Pad) or not isinstance(origin, Value):
        return policy
    sizes = [product(v.type.shape) for v in origin.node.inputs]
    upper = symbol.upper
    counted = upper is not None and any(less_equal(upper, n) is True for n in sizes)
    return Bound() if counted else policy


def is_auto(declared: object) -> bool:
    """Whether the sizes of calls are to decide about a size."""
    return isinstance(declared, str) and declared == "auto"


def policy_of(declared: object, op: str = "function", key: object = None) -> Policy:
    """Return a policy, given as such or by name; raise GraphError for anything else.

    It is for all sizes, or for the size of a `key` of `dims`.
    """
    if isinstance(declared, (Specialize, Pad, Bound)):
        return declared
    if isinstance(declared, str) and declared in NAMED:
        return NAMED[declared]
    got = declared if key is None else {key: declared}
    raise graph_error(
        "not a policy for sizes" + misspelled(str(declared), [*NAMED, "auto"]),
        op=op,
        got=f"dims={shortened(repr(got))}",
        expected=(
            '"auto", Specialize(), Pad(...), Bound(), the name of one of these, or a '
            "dict of them by size"
        ),
        hint=_policy_hint(declared, "n" if key is None else key),
    )


def _policy_hint(declared: object, key: object) -> str:
    """A hint at the policy that was meant, where that can be seen."""
    name = (declared if isinstance(declared, type) else type(declared)).__name__
    if isinstance(declared, type):
        calls = {**{c: f"graphc.{c}()" for c in CLASSES}, "Shard": _SHARD}
        return f"{calls[name]} makes one" if name in calls else ""
    if str(declared).lower() == "shard" or name in ("Mesh", "P", "NamedSharding"):
        return f"dims={{{key!r}: {_SHARD}}}, with mesh=graphc.mesh(data=...)"
    if name == "Shard":
        return (
            "graphc.function shards, with mesh=graphc.mesh(...); graphc.from_jax makes "
            "a graph of a function of JAX"
        )
    if name == "Budget":
        return "a Budget is for all sizes together: dims=graphc.Budget(...)"
    listed = list(declared) if isinstance(declared, (list, tuple)) else [declared]
    if listed and all(type(n) is int and n > 0 for n in listed):
        return f"capacities are dims={{{key!r}: graphc.Pad(buckets={listed})}}"
    return ""


def _symbols_of_key(key: object, symbols: Sequence[Symbol]) -> list[Symbol]:
    """The symbols that a key of `dims` means."""
    names = distinct_names(symbols)
    if isinstance(key, str):
        stored = key.removesuffix(CAPACITY)  # messages name capacities too
        named_sizes = (
            [s for s in symbols if names.get(s) == key]
            or [s for s in symbols if s.name == key]
            or [s for s in symbols if names.get(s, s.name) == stored]
        )
    elif isinstance(key, (Value, Dim)):
        size = as_size(key)
        named_sizes = [s for s in symbols if size is symbol_dim(s)]
    else:
        named_sizes = []
    if not named_sizes:
        known = ", ".join(names.get(s, s.name) for s in symbols)
        raise graph_error(
            "`dims` names a size that the graph does not have",
            op="function",
            got=shortened(str(key)),
            expected=f"one of {known}" if known else "a graph with symbolic sizes",
        )
    return named_sizes
