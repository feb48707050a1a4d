"""Axes that may be 1 and so stretch: one graph for each set of axes that are 1.

Such an axis is declared as "b?". As long as its size is unknown, shapes hold
`stretch(b, m)` and gradients hold `unstretched` nodes. Once it is known, the graph is
rebuilt with the number 1 in place of `b?`, or with a plain size, and neither is left.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.errors import graph_error, standing_at
from graphc.ir.graph.bodies import Body, bodies_of, change_bodies, has_bodies
from graphc.ir.graph.build import as_size, body_input, is_body_input, variable
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.op import rebuild
from graphc.ir.graph.replay import params_with_sizes, region_substituted, renewed
from graphc.ir.sizes.dims import (
    MOST_MAYBE_ONE,
    Dim,
    Size,
    Symbol,
    axis,
    is_one,
    substitute,
    symbol_dim,
    symbols_in,
)
from graphc.ir.sizes.names import distinct_names
from graphc.ir.types import TensorType
from graphc.transform.policies import sizes_of

SizeMap = dict[Symbol, Size]
InputAxis = tuple[int, int]  # the number of an input, and that of its axis


def axes_maybe_one(graph: Graph) -> dict[Symbol, list[InputAxis]]:
    """The axes of inputs that may be 1, by their symbols.

    Raises GraphError where no axis determines such a size, where there are too many,
    and where a plain size has the name of one.
    """
    axes: dict[Symbol, list[InputAxis]] = {}
    sizes: dict[Symbol, Value] = {}
    for position, value in enumerate(graph.inputs):
        for place, n in enumerate(value.type.shape):
            for symbol in symbols_in(n):
                sizes.setdefault(symbol, value)
                if symbol.may_be_one and n is symbol_dim(symbol):
                    axes.setdefault(symbol, []).append((position, place))
    _check_names(sizes)
    for symbol, value in sizes.items():
        if symbol.may_be_one and symbol not in axes:
            raise graph_error(
                f"no axis of the inputs has just the size {symbol.name}",
                op="function",
                got=f"{value.type}, declared at {value.node.place}",
                hint="whether it is 1 must be known from an axis of its own",
            )
    if len(axes) > MOST_MAYBE_ONE:
        named = ", ".join(s.name for s in axes)
        raise graph_error(
            f"{len(axes)} axes may be 1, which would be {2 ** len(axes)} programs",
            op="function",
            got=named,
            expected=f"at most {MOST_MAYBE_ONE}",
            hint="give axes that are 1 together one name, and axes that never are no ?",
        )
    return axes


def _check_names(sizes: dict[Symbol, Value]) -> None:
    plain = {s.name: value for s, value in sizes.items() if not s.may_be_one}
    for symbol, value in sizes.items():
        other = plain.get(symbol.name[:-1]) if symbol.may_be_one else None
        if other is not None:
            name = symbol.name
            raise graph_error(
                f"both {name} and {name[:-1]} are sizes, and no two sizes of a program "
                "may be called the same",
                op="function",
                got=f"{value.type}, declared at {value.node.place}, and {other.type}, "
                f"declared at {other.node.place}",
                hint=f'rename one of them: an axis "a?" may be 1, or else must equal '
                f"the size that it meets, as {name[:-1]}",
            )


def plain_name(symbol: Symbol) -> str:
    """The name that an axis which may be 1 has when it is not."""
    return symbol.name.removesuffix("?")


@dataclass(frozen=True)
class ResolvedGraph:
    """A graph in which it is decided which axes are 1, and its replacements."""

    graph: Graph
    sizes: SizeMap
    replacements: dict[Value, Value]


def resolved_dims(resolution: ResolvedGraph, dims: object) -> object:
    """Translate `dims`, as given for the old graph, to names and sizes of the new one.

    Where some axes are 1, sizes that no longer exist are left out.
    """
    if not isinstance(dims, Mapping):
        return dims
    dims_now = {_resolved_key(resolution, key): policy for key, policy in dims.items()}
    if not any(isinstance(n, int) for n in resolution.sizes.values()):
        return dims_now
    symbols = sizes_of(resolution.graph)
    names = {s.name for s in symbols}.union(distinct_names(symbols).values())
    return {
        key: policy
        for key, policy in dims_now.items()
        if not isinstance(key, int) and (not isinstance(key, str) or key in names)
    }


def _resolved_key(resolution: ResolvedGraph, key: object) -> object:
    if isinstance(key, str):
        return key.removesuffix("?")
    if isinstance(key, Value) and key in resolution.replacements:
        return resolution.replacements[key]
    if isinstance(key, (Value, Dim)):
        return substitute(as_size(key), resolution.sizes)
    return key


def resolve_ones(graph: Graph, ones: Collection[Symbol]) -> ResolvedGraph:
    """Rebuild a graph whose axes `ones` are 1; other axes that may be 1 are not.

    Raises GraphError where sizes then disagree.
    """
    sizes = _resolved_sizes(axes_maybe_one(graph), ones)
    replacements = {v: _resolved_input(v, sizes) for v in graph.inputs}
    _rebuild(graph.outputs, replacements, sizes)
    inputs, outputs = (
        tuple([replacements.get(v, v) for v in values])
        for values in (graph.inputs, graph.outputs)
    )
    return ResolvedGraph(
        replace(graph, inputs=inputs, outputs=outputs), sizes, replacements
    )


def _resolved_sizes(symbols: Iterable[Symbol], ones: Collection[Symbol]) -> SizeMap:
    return {s: 1 if s in ones else axis(plain_name(s)) for s in symbols}


def _resolved_input(value: Value, sizes: SizeMap) -> Value:
    """An input with these sizes; the input itself if it has none of them."""
    type = _resolved_type(value.type, sizes)
    if type.same(value.type):
        return value
    new_variable = body_input if is_body_input(value.node) else variable
    new = new_variable(value.name, type)
    new.node.place = value.node.place
    return new


def _resolved_type(type: TensorType, sizes: SizeMap) -> TensorType:
    shape = tuple([substitute(n, sizes) for n in type.shape])
    return TensorType(type.dtype, shape, type.weak)


def _rebuild(
    outputs: Sequence[Value], replacements: dict[Value, Value], sizes: SizeMap
) -> None:
    """Add the values rebuilt at other sizes to `replacements`, which has all inputs."""
    for node in region_substituted(outputs, replacements, sizes):
        if has_bodies(node):
            fresh = _rebuild_with_bodies(node, replacements, sizes)
        else:
            fresh = renewed(node, replacements, node.place, sizes)
        _require_as_expected(node, fresh, sizes)
        replacements.update(zip(node.outputs, fresh.outputs, strict=True))


def _require_as_expected(node: Node, fresh: Node, sizes: SizeMap) -> None:
    """Check that axes are 1 in the new graph exactly where the old graph said so.

    Otherwise gradients, which were made for the old graph, would not undo the
    stretching.
    """
    for old, new in zip(node.outputs, fresh.outputs, strict=True):
        expected = _resolved_type(old.type, sizes).shape
        ones = [list(map(is_one, shape)) for shape in (expected, new.type.shape)]
        if ones[0] != ones[1]:
            raise AssertionError(f"{node!r}: {new.type}, not {list(expected)}")


def _rebuild_with_bodies(
    node: Node, replacements: dict[Value, Value], sizes: SizeMap
) -> Node:
    """Rebuild a loop or a branch with bodies for the sizes that it has now."""
    params = dict(params_with_sizes(node, replacements, sizes))
    (call, *_) = node.primitive.body_calls(node)
    body_sizes: SizeMap = {}
    for s, size in call.sizes.items():
        if s.may_be_one:
            plain = symbol_dim(Symbol(plain_name(s), None, s.lower, s.upper))
            body_sizes[s] = 1 if is_one(substitute(size, sizes)) else plain
    if body_sizes:
        inputs = {
            v: _resolved_input(v, body_sizes) for b in bodies_of(node) for v in b.inputs
        }
        params = change_bodies(
            params, lambda body: _resolved_body(body, inputs, body_sizes)
        )
        pairs = zip(call.body.size_params, params["sizes"], strict=True)
        params["sizes"] = tuple(
            [n for s, n in pairs if not is_one(body_sizes.get(s, 0))]
        )
    with standing_at(node.place):
        return rebuild(
            node, tuple([replacements.get(v, v) for v in node.inputs]), params
        )


def _resolved_body(body: Body, inputs: dict[Value, Value], sizes: SizeMap) -> Body:
    replacements = dict(inputs)
    _rebuild(body.outputs, replacements, sizes)
    params = [substitute(symbol_dim(s), sizes) for s in body.size_params]
    return Body(
        tuple([inputs[v] for v in body.inputs]),
        tuple([s for n in params for s in symbols_in(n)]),
        tuple([replacements.get(v, v) for v in body.outputs]),
    )
