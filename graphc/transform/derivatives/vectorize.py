"""vmap: the graph of a function of one example becomes one of many at once.

Each node that depends on a mapped input is built anew by the batching rule of its
primitive, with the mapped axis first, in one pass in topological order.
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from graphc.control.pytree import flatten, indexed_items, unflatten
from graphc.errors import GraphError, check_function, graph_error, standing_at
from graphc.ir.graph.build import as_strong_value, normal_axis, variable
from graphc.ir.graph.nodes import Graph, Node, Value
from graphc.ir.graph.op import BATCHING, Shared
from graphc.ir.graph.replay import params_with_sizes, rebuild_with, substituted
from graphc.ir.graph.walk import ancestors
from graphc.ir.integers import integer_or_none
from graphc.ir.namespace import F
from graphc.ir.sizes.dims import Size, Symbol, equal, named_axes, substitute
from graphc.ir.types import TensorType
from graphc.ops.common.batching import align_batches, with_batch

InAxis = int | str | None


def vmap(
    function: Callable[..., object] | Graph, in_axes: object = 0, out_axes: object = 0
) -> Callable[..., Any]:
    """Map `function` over an axis of its arguments, for all indices at once.

    A graph stands for the function of its inputs that gives its output, or a list of
    its outputs.

    An axis is a number, or the name of its size; None gives every example the whole
    argument. `in_axes` is one axis for all arguments, or a tuple or list with one per
    argument. Where an argument is a list or dict of values, they share its axis, or
    axes are given in the same structure. `out_axes` says where the new axis stands in
    the outputs; None where an output is the same for all examples.

    The returned function raises GraphError where the mapped axes differ in size, where
    an op cannot be batched, and where a size would differ between examples.
    """

    if isinstance(function, Graph):
        function = partial(_graph_of, function)
    check_function(function, "vmap")

    @wraps(function)
    def mapped(*args: object) -> Any:
        values, like = flatten(list(args), leaf=as_strong_value)
        axes = _axes_of(in_axes, list(args), "in_axes")
        places = [_mapped_axis(a, v) for a, v in zip(axes, values, strict=True)]
        batch = _Batch(*_mapped_first(values, places))
        examples = [
            v if p is None else batch.example(i)
            for i, (v, p) in enumerate(zip(values, places, strict=True))
        ]
        result = function(*unflatten(like, examples))
        outputs, form = flatten(result, leaf=as_strong_value)
        ends = _axes_of(out_axes, result, "out_axes")
        for axis, output in zip(ends, outputs, strict=True):
            if isinstance(axis, int):
                normal_axis(axis, output.type.rank + 1, "vmap")
        outputs_and_ends = zip(batch.run(outputs), ends, strict=True)
        return unflatten(
            form, [batch.move_axis(v, axis) for v, axis in outputs_and_ends]
        )

    return mapped


def _graph_of(graph: Graph, *values: Value) -> object:
    """Compute the output of a graph, or a list of several, from other inputs."""
    if len(values) != len(graph.inputs):
        problem = f"{len(values)} arguments for a graph of {len(graph.inputs)} inputs"
        raise graph_error(problem, op="vmap", got=", ".join(graph.input_names))
    sizes: dict[Symbol, Size] = {}
    new = {}
    triples = zip(graph.inputs, graph.input_names, values, strict=True)
    for declared, name, value in triples:
        if value.dtype != declared.dtype or value.type.rank != declared.type.rank:
            raise graph_error(
                f"an example does not fit the input {name} of the graph",
                op="vmap",
                got=str(value.type),
                expected=str(declared.type),
            )
        new[declared] = F.specify_shape(
            value, _shape_from_sizes(declared, value, sizes)
        )
    results = substituted(graph.outputs, new, sizes)
    return results[0] if len(results) == 1 else results


def _shape_from_sizes(
    declared: Value, value: Value, sizes: dict[Symbol, Size]
) -> list[Size]:
    """Return the shape of `declared` in sizes of `value`, which give its symbols."""
    for symbol, size in named_axes(declared.type.shape, value.type.shape):
        sizes.setdefault(symbol, size)
    return [substitute(n, sizes) for n in declared.type.shape]


def _axes_of(axes: object, args: object, what: str) -> list[InAxis]:
    """Return one axis per value of the arguments."""
    inside = indexed_items(args)
    if inside is None:
        axis = axes if isinstance(axes, str) else integer_or_none(axes)
        if axis is None and axes is not None:
            raise graph_error(f"not an axis: {axes!r} in {what}", op="vmap")
        return [axis]
    count = len(inside)
    if isinstance(axes, dict) and isinstance(args, dict) and axes.keys() == args.keys():
        parts = [axes[k] for k in args]
    elif isinstance(axes, (list, tuple)) and len(axes) == count:
        parts = list(axes)
    elif isinstance(axes, (list, tuple, dict)):
        problem = f"{what} does not have the structure of its values"
        raise graph_error(problem, op="vmap", got=f"{axes!r} for {count} values")
    else:
        parts = [axes] * count
    pairs = zip(parts, inside, strict=True)
    return [axis for part, (_, arg) in pairs for axis in _axes_of(part, arg, what)]


def _mapped_axis(axis: InAxis, value: Value) -> int | None:
    """Return the position of an argument's mapped axis; None without one."""
    if axis is None:
        return None
    if not isinstance(axis, str):
        return normal_axis(axis, value.type.rank, "vmap")
    matches = [i for i, n in enumerate(value.type.shape) if str(n) == axis]
    if len(matches) != 1:
        count = "no axis has" if not matches else f"{len(matches)} axes have"
        raise graph_error(
            f"{count} the size {axis!r}",
            op="vmap",
            got=str(value.type),
            hint="name an axis by its size, or give its number, as in_axes=0",
        )
    return matches[0]


def _mapped_first(
    values: Sequence[Value], places: Sequence[int | None]
) -> tuple[dict[int, Value], Size]:
    """Return mapped arguments by position, with the mapped axis first, and its size."""
    moved: dict[int, Value] = {}
    size: Size | None = None
    for i, (value, place) in enumerate(zip(values, places, strict=True)):
        if place is None:
            continue
        front = F.moveaxis(value, place, 0)
        n = front.type.shape[0]
        size = n if size is None else size
        if equal(n, size) is False:
            got = ", ".join(str(v.type) for v in values)
            raise graph_error(f"mapped axes differ: {size} and {n}", op="vmap", got=got)
        moved[i] = F.specify_shape(front, (size, *front.type.shape[1:]))
    if size is None:
        raise graph_error(
            "no argument is mapped", op="vmap", hint="give an axis to one: in_axes=0"
        )
    return moved, size


class _Batch:
    """A replay of a graph in which some values have a new first axis.

    Other values are rebuilt without one, if they depend on values that examples share.
    """

    def __init__(self, mapped: dict[int, Value], size: Size) -> None:
        self._mapped = mapped
        self._size = size
        self._batched: dict[Value, Value] = {}
        self._shared: dict[Value, Value] = {}

    def example(self, position: int) -> Value:
        """Make a variable for one example of a mapped argument."""
        value = self._mapped[position]
        type = TensorType(value.dtype, tuple(value.type.shape[1:]))
        one = variable(value.name or "example", type)
        self._batched[one] = value
        return one

    def run(self, outputs: list[Value]) -> list[tuple[Value, bool]]:
        """Return the outputs for all examples, and whether each has the new axis."""
        for node in ancestors(outputs):
            for value in node.demands:
                if value in self._batched:
                    raise _ragged_error(node, value)
            if any(v in self._batched for v in node.inputs):
                self._replay(node)
            else:
                rebuild_with(node, self._shared, node.place.plain)
        return [(self._replacement_of(v), v in self._batched) for v in outputs]

    def _replacement_of(self, value: Value) -> Value:
        return self._batched.get(value, self._shared.get(value, value))

    def _replay(self, node: Node) -> None:
        batched = [v in self._batched for v in node.inputs]
        inputs = [self._replacement_of(v) for v in node.inputs]
        with standing_at(node.place.plain):
            answer = self._apply_rule(node, batched, inputs)
            if isinstance(answer, Shared):
                self._shared[node.outputs[0]] = answer.value
                return
            results = answer if isinstance(answer, tuple) else (answer,)
            for old, new in zip(node.outputs, results, strict=True):
                _check_result(node, old, new)
                self._batched[old] = new

    def _apply_rule(
        self, node: Node, batched: list[bool], inputs: list[Value]
    ) -> Value | tuple[Value, ...] | Shared:
        primitive = node.primitive
        # A node that does not demand its sizes takes them as inputs.
        params = params_with_sizes(node, self._shared) if node.demands else node.params
        rule = BATCHING.find(primitive)
        if rule is not None:
            return rule(self._size, batched, *inputs, **params)
        if primitive.elementwise:
            return primitive(*align_batches(batched, inputs), **params)
        raise graph_error(
            f"{primitive.name} cannot be batched: {BATCHING.reason(primitive)}",
            op="vmap",
            got=", ".join(str(v.type) for v in inputs),
            where=node.place,
        )

    def move_axis(self, output: tuple[Value, bool], axis: InAxis) -> Value:
        """Move the new axis of an output to where it is wanted."""
        value, has_axis = output
        if axis is None and not has_axis:
            return value
        if axis is None or isinstance(axis, str):
            raise graph_error(
                "an output that differs between examples needs an axis for them",
                op="vmap",
                got=f"out_axes={axis!r} for {value.type}",
            )
        return F.moveaxis(with_batch(self._size, has_axis, value), 0, axis)


def _check_result(node: Node, old: Value, new: Value) -> None:
    shape = new.type.shape
    if not shape or not old.type.may_equal(new.type.like(shape[1:])):
        raise AssertionError(f"{node.primitive.name}: {new.type} for {old.type}")


def _ragged_error(node: Node, value: Value) -> GraphError:
    named = value.name or value.node.primitive.name
    return graph_error(
        f"the size {named} would differ between examples",
        op="vmap",
        got=f"{node.primitive.name} of {', '.join(str(v.type) for v in node.outputs)}",
        hint="compute on the largest size and mask: gt.where(gt.arange(most) < n, ...)",
        where=node.place,
    )
