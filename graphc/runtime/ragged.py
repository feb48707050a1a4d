"""`graphc.ragged`: one compiled call on examples of different sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from graphc.backends.program import Outputs
from graphc.backends.sharding.across import on_each_host
from graphc.control.loop_cse import merge_scans
from graphc.errors import (
    CallError,
    ErrorKind,
    graph_error,
    shortened,
)
from graphc.ir.config import Casting
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.integers import integer_or_none
from graphc.ir.sizes.dims import Symbol, evaluate, named_axes, symbol_dim
from graphc.ir.tracebacks import hide_own_frames
from graphc.ir.types import ConcreteArray, NDArray
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.engine.fixpoint import rewritten
from graphc.rewriting.engine.rule import Rules
from graphc.runtime.call.arguments import Backend
from graphc.runtime.call.nan_checks import checking_true_elements
from graphc.runtime.compile import function
from graphc.runtime.driver.failure import refused_call
from graphc.runtime.examine import examine
from graphc.runtime.function import Function
from graphc.transform.padding.ragged import RaggedGraph, batch_examples
from graphc.transform.padding.stretching import axes_maybe_one
from graphc.transform.policies import Pad
from graphc.transform.sharding.shards import Shard, Sharded
from graphc.transform.sharding.spread import spread_examples


@dataclass(frozen=True)
class Rows:
    """Examples stored one after another: all their `values`, and their `lengths`.

    >>> import graphc, numpy as np
    >>> graphc.Rows(np.array([1, 2, 3]), [1, 2]).examples()
    [array([1]), array([2, 3])]
    """

    values: Any
    lengths: Any

    def examples(self) -> list[Any]:
        """Return an array per example. Raises CallError unless the lengths add up."""
        ends = np.cumsum(np.asarray(self.lengths))
        values = np.asarray(self.values)
        if ends.size and ends[-1] != len(values):
            got = f"{len(values)} values, lengths that add up to {ends[-1]}"
            raise _refusal("the lengths do not add up", "shape", got)
        return np.split(values, ends[:-1]) if ends.size else []


def ragged(
    inputs: Sequence[Value],
    outputs: object,
    *,
    shared: Sequence[Value] = (),
    casting: Casting | None = None,
    **options: Any,
) -> "Ragged":
    """Compile the graph of one example, to be called with lists of examples.

    See `graphc.ragged`; the other options are those of `ragged_graph`.
    """
    graph, structure, _ = examine(inputs, outputs, "safe", "warn")
    for value in shared:
        if all(value is not v for v in graph.inputs):
            got = shortened(repr(value))
            raise graph_error("a shared value is not an input", op="ragged", got=got)
    return ragged_graph(graph, structure, shared, casting, **options)


def ragged_graph(
    graph: Graph,
    structure: Outputs,
    shared: Sequence[Value],
    casting: Casting | None,
    *,
    total: bool = False,
    pad: Pad | None = None,
    group: bool = False,
    batch: int | None = None,
    backend: Backend = "jax",
    rewrites: Rules = DEFAULT,
    shard: Shard | None = None,
    mesh: object = None,
) -> "Ragged":
    """Compile a program of many examples of a graph."""
    _refuse_maybe_one(graph)
    chosen = Pad() if pad is None else pad
    strict = replace(chosen, strict=True)
    simple = rewritten(merge_scans(graph), rewrites.unchecked.early).graph
    stacked = batch_examples(simple, shared, strict, total)
    rows = Pad(minimum=1) if batch is None else Pad(buckets=(batch,))
    over_devices = None if shard is None else replace(shard, pad=shard.pad or rows)
    inner = function(
        stacked.graph.inputs,
        list(stacked.graph.outputs),
        backend=backend,
        rewrites=rewrites,
        dims={symbol_dim(stacked.batch): over_devices or rows},
        casting=casting,
        mesh=mesh,
        unused="ignore",  # not every size is needed
    )
    packing = Packing(group, batch, shard is not None)
    options: dict[str, Any] = {"total": total, "pad": pad, "group": group}
    options |= {"batch": batch, "backend": backend, "rewrites": rewrites}
    options |= {"shard": shard, "mesh": mesh}
    again = partial(ragged_graph, graph, structure, shared, casting, **options)
    return Ragged(stacked, inner, structure, strict, total, packing, again)


def check_packing(
    pad: object, batch: object, total: object, group: object, shard: object
) -> None:
    """Raise GraphError for options of `ragged` that are invalid for any graph."""
    for name, flag in (("total", total), ("group", group)):
        if not isinstance(flag, bool):
            problem = f"{name} cannot be {flag!r}"
            raise graph_error(problem, op="ragged", expected="True or False")
    if pad is not None and not isinstance(pad, Pad):
        problem, got = "pad must give the capacities", f"pad={shortened(repr(pad))}"
        hint = "pad=graphc.Pad(...)"
        raise graph_error(problem, op="ragged", got=got, hint=hint)
    examples = integer_or_none(batch)
    if batch is not None and (examples is None or examples < 1):
        problem = "batch must be an integer of at least 1"
        raise graph_error(problem, op="ragged", got=repr(batch))
    if shard is not None and not isinstance(shard, Shard):
        raise graph_error(
            "shard must give the axis of the mesh that examples are spread over",
            op="ragged",
            got=f"shard={shortened(repr(shard))}",
            hint='shard=graphc.Shard("data"), mesh=graphc.mesh(data=4)',
        )


def _refuse_maybe_one(graph: Graph) -> None:
    names = [s.name for s in axes_maybe_one(graph)]
    if names:
        problem = "axes that may be 1 would stretch in only some of the examples"
        hint = "declare them without ?, and give all examples their full sizes"
        raise graph_error(problem, op="ragged", got=", ".join(names), hint=hint)


@dataclass(frozen=True)
class Packing:
    """The choice of examples that go through one call.

    With `group`, they all have the same capacities; `batch` is the most of them.
    """

    group: bool
    batch: int | None
    over_devices: bool = False

    def packs(self, sizes: NDArray, pad: Pad) -> list[list[int]]:
        """Return the numbers of each call's examples; `sizes` has a row for each."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, row in enumerate(sizes):
            key = tuple(map(pad.capacity, row)) if self.group else ()
            groups.setdefault(key, []).append(i)
        if self.batch is None:
            return list(groups.values()) or [[]]
        packs = []
        for members in groups.values():
            members.sort(key=lambda i: sizes[i].tolist())
            starts = range(0, len(members), self.batch)
            packs += [members[k : k + self.batch] for k in starts]
        return packs or [[]]


class Ragged:
    """A compiled program of many examples; see `ragged`. It runs `function`."""

    def __init__(
        self,
        stacked: RaggedGraph,
        function: Function,
        structure: Outputs,
        pad: Pad,
        total: bool,
        packing: Packing,
        again: "Callable[[], Ragged]",
    ) -> None:
        self.function = function
        self._again = again
        self._stacked_graph = stacked
        self._structure = structure
        self._pad = pad
        self._total = total
        self._packing = packing
        self._example = stacked.one.original
        self._sources = _sources(self._example, stacked)

    def __repr__(self) -> str:
        signature = self._example.signature
        return f"<graphc.ragged {signature} on {self.function.backend}>"

    def __copy__(self) -> "Ragged":
        return self._again()

    def __deepcopy__(self, memo: object) -> "Ragged":
        return self._again()

    @hide_own_frames
    def __call__(self, *args: object) -> Any:
        """Return outputs per example, or sums. Raises CallError for a misfit."""
        jax = self.function.jax
        if jax is None:
            return self._results(args)
        try:  # the padding of examples may hold anything
            return checking_true_elements(jax, self._results, args)
        except FloatingPointError as error:
            raise _refusal(f"FloatingPointError: {error}", "other") from None

    def _results(self, args: tuple[object, ...]) -> object:
        examples = self._examples(args)
        sizes = self._sizes(examples)
        self._check_room(sizes)
        parts = [
            (members, self._run(args, examples, sizes, members))
            for members in self._calls(examples, sizes)
        ]
        count = len(self._example.outputs)
        if self._total:
            sums = [sum(columns[k] for _, columns in parts) for k in range(count)]
            return self._structure.built(sums)
        results: list[list[Any]] = [[None] * len(sizes) for _ in range(count)]
        for members, columns in parts:
            for k, rows in enumerate(columns):
                for i, row in zip(members, rows, strict=True):
                    results[k][i] = row
        return self._structure.built(results)

    def _calls(self, examples: list[list[NDArray]], sizes: NDArray) -> list[list[int]]:
        """Return the examples of each call, in the order in which they are stacked."""
        packs = self._packing.packs(sizes, self._pad)
        if not self._packing.over_devices:
            return packs
        padded = self.function.plan.padded
        assert padded is not None
        policy = padded.policies[self._stacked_graph.batch]
        assert isinstance(policy, Sharded)
        devices = policy.mesh.size(policy.axis)
        counts = [sum(x[i].size for x in examples) for i in range(len(sizes))]
        return [
            spread_examples(members, counts, policy.capacity(len(members)) // devices)
            for members in packs
        ]

    def _check_room(self, sizes: NDArray) -> None:
        """Raise CallError where an example is larger than all capacities."""
        pad, largest = self._pad, int(sizes.max(initial=0))
        if pad.buckets and not pad.open_ended and largest > pad.buckets[-1]:
            problem = f"no bucket has room for {largest}: there are {pad.buckets}"
            expected = f"a larger one, as pad=graphc.Pad(buckets=[{largest}])"
            raise _refusal(problem, "shape", expected=expected)

    def _examples(self, args: tuple[object, ...]) -> list[list[NDArray]]:
        """Return the examples of each stacked input."""
        names = self._example.input_names
        if len(args) != len(names):
            got = f"{len(args)} arguments"
            kind: ErrorKind = "missing" if len(args) < len(names) else "unexpected"
            raise _refusal("wrong number of arguments", kind, got, ", ".join(names))
        columns = []
        for value, name, arg, several in zip(
            self._example.inputs, names, args, self._stacked_graph.mapped, strict=True
        ):
            if several:
                items, rule = _listed_examples(arg, name), self.function.plan.casting
                columns.append([_checked_example(x, value, name, rule) for x in items])
        counts = {len(examples) for examples in columns}
        if len(counts) > 1:
            got = ", ".join(map(str, sorted(counts)))
            problem = "the inputs have different numbers of examples"
            raise _refusal(problem, "shape", got)
        return columns

    def _sizes(self, examples: list[list[NDArray]]) -> NDArray:
        """Return the true sizes: a row per example, a column per symbol."""
        count = len(examples[0]) if examples else 0
        sizes = np.zeros((count, len(self._sources)), "int32")
        for column, (position, axis, _) in enumerate(self._sources):
            sizes[:, column] = [x.shape[axis] for x in examples[position]]
        symbols = [symbol for _, _, symbol in self._sources]
        stacked = compress(self._example.inputs, self._stacked_graph.mapped)
        for position, value in enumerate(stacked):
            for i, array in enumerate(examples[position]):
                known = dict(zip(symbols, map(int, sizes[i]), strict=True))
                expected_shape = tuple(evaluate(n, known) for n in value.type.shape)
                if array.shape != expected_shape:
                    got = f"example {i} of {value.name}: {list(array.shape)}"
                    shape = ", ".join(map(str, value.type.shape))
                    expected = f"[{shape}] = {expected_shape}"
                    raise _refusal("sizes do not agree", "shape", got, expected)
        return sizes

    def _run(
        self,
        args: tuple[object, ...],
        examples: list[list[NDArray]],
        sizes: NDArray,
        members: list[int],
    ) -> list[Any]:
        """Return, for each output, its sum or a list of arrays per example."""
        most = sizes[members].max(axis=0, initial=0).tolist()
        capacities = {
            self._stacked_graph.one.capacities[symbol]: self._pad.capacity(n)
            for (_, _, symbol), n in zip(self._sources, most, strict=True)
        }
        arrays = iter(self._stack_inputs(examples, members, capacities))
        arguments = [
            next(arrays) if several else arg
            for arg, several in zip(args, self._stacked_graph.mapped, strict=True)
        ]
        columns = [sizes[members, c] for c in range(sizes.shape[1])]
        results = self.function(*arguments, *columns)
        if self._total:
            return [np.asarray(r) for r in results]
        one, hosted = self._stacked_graph.one, list(map(self._on_host, results))
        outputs, counts = hosted[: len(one.ragged)], hosted[len(one.ragged) :]
        true_sizes = self._true_sizes(arguments, [sizes[members], *counts])
        return [
            self._cut_rows(value, axes, result, true_sizes)
            for value, axes, result in zip(
                self._example.outputs, one.ragged, outputs, strict=True
            )
        ]

    def _true_sizes(
        self, arguments: list[Any], columns: list[NDArray]
    ) -> list[dict[Symbol, int]]:
        """Return, per example, all numbers that sizes of results are computed from.

        `columns` are the sizes of axes, then the integers that the program computes.
        """
        symbols = [symbol for _, _, symbol in self._sources]
        symbols += self._stacked_graph.one.counts
        for value, argument in zip(self._example.inputs, arguments, strict=True):
            if value._symbol is not None:
                columns.append(np.broadcast_to(argument, len(columns[0])))
                symbols.append(value._symbol)
        return [
            dict(zip(symbols, numbers, strict=True))
            for numbers in np.column_stack(columns).tolist()
        ]

    def _on_host(self, array: ConcreteArray) -> NDArray:
        """Copy a result to the host, including parts that other processes hold."""
        if getattr(array, "is_fully_addressable", True):
            return np.asarray(array)
        return np.asarray(on_each_host(self.function.jax, array, array.shape))

    def _stack_inputs(
        self,
        examples: list[list[NDArray]],
        members: list[int],
        sizes: dict[Symbol, int],
    ) -> list[NDArray]:
        """Stack each input into one array, with zeros after each example's elements."""
        piles = []
        graph_inputs = self._stacked_graph.graph.inputs
        stacked = compress(graph_inputs, self._stacked_graph.mapped)
        for value, arrays in zip(stacked, examples, strict=True):
            shape = [evaluate(n, sizes) for n in value.type.shape[1:]]
            pile = np.zeros((len(members), *shape), value.dtype)
            for row, i in enumerate(members):
                pile[row, ...][tuple(map(slice, arrays[i].shape))] = arrays[i]
            piles.append(pile)
        return piles

    def _cut_rows(
        self,
        value: Value,
        axes: frozenset[int],
        result: NDArray,
        true_sizes: list[dict[Symbol, int]],
    ) -> list[NDArray]:
        if not axes:
            return list(result)
        return [
            row[
                tuple(
                    slice(evaluate(n, sizes)) if a in axes else slice(None)
                    for a, n in enumerate(value.type.shape)
                )
            ]
            for row, sizes in zip(result, true_sizes, strict=True)
        ]


def _sources(graph: Graph, stacked: RaggedGraph) -> list[tuple[int, int, Symbol]]:
    """Return, per symbol of sizes, the stacked input and the axis that tell it."""
    source_of: dict[Symbol, tuple[int, int, Symbol]] = {}
    position = -1
    for value, several in zip(graph.inputs, stacked.mapped, strict=True):
        position += several
        shape = value.type.shape if several else ()
        for symbol, axis in named_axes(shape, range(len(shape))):
            source_of.setdefault(symbol, (position, axis, symbol))
    missing = [s.name for s in stacked.one.lengths if s not in source_of]
    if missing:
        raise graph_error(
            f"the size {missing[0]} is not that of any axis of the examples",
            op="ragged",
            got=", ".join(str(v.type) for v in graph.inputs),
        )
    return [source_of[s] for s in stacked.one.lengths]


def _listed_examples(arg: Any, name: str) -> list[object]:
    if isinstance(arg, Rows):
        return arg.examples()
    if isinstance(arg, (list, tuple)) or (hasattr(arg, "shape") and len(arg.shape)):
        return list(arg)
    got = type(arg).__name__
    raise _refusal(f"input {name} must be a list of examples", "argument", got)


def _checked_example(x: object, value: Value, name: str, casting: Casting) -> NDArray:
    """Return one example as an array of the dtype and rank of its input.

    Raises CallError where the example cannot be one.
    """
    array = np.asarray(x)
    rule = casting if hasattr(x, "dtype") else "same_kind"
    if rule != "exact" and np.can_cast(array.dtype, value.dtype, rule):
        array = array.astype(value.dtype, copy=False)
    if array.dtype != value.dtype or array.ndim != value.type.rank:
        got = f"{array.dtype}{list(array.shape)}"
        kind: ErrorKind = "dtype" if array.dtype != value.dtype else "shape"
        problem = f"an example of {name} has another type"
        hint = _remedy_of_example(array, value)
        raise _refusal(problem, kind, got, str(value.type), hint)
    return array


def _remedy_of_example(array: NDArray, value: Value) -> str:
    if array.ndim == value.type.rank - 1:
        return "give a list of examples: f([x])"
    if array.dtype == value.dtype:
        return ""
    if np.can_cast(array.dtype, value.dtype, "same_kind"):
        return 'graphc.ragged(..., casting="same_kind") takes it'
    return ""


def _refusal(
    problem: str, kind: ErrorKind, got: str = "", expected: str = "", hint: str = ""
) -> CallError:
    parts = {"got": got, "expected": expected, "hint": hint}
    return refused_call(problem, kind, op="ragged", **parts)
