"""Guards of branches in padded graphs, numbered and checked where a branch is taken.

The entry of a padded program knows which of the guards hold. A branch whose guards do
not hold is an error in calls that take it; in other calls it is computed on whatever
fits.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from graphc.ir.graph.bodies import BodyCall
from graphc.ir.graph.nodes import Guard, Node, Value
from graphc.ir.sizes.dims import Size, Symbol, substitute, symbols_in
from graphc.ir.sizes.divisors import divisors, with_nonzero_divisors
from graphc.ir.types import TensorType, same_size
from graphc.ops.common.padding import Bodies, PaddedValue, Padding, zeros_along
from graphc.transform.loops.branch_sizes import fit_branch_result
from graphc.transform.padding.guards import (
    guard_of_divisor,
    guard_of_sizes,
    guards_of,
)
from graphc.transform.padding.storage import Storage, axis_symbol


class NumberedBranch(NamedTuple):
    """A branch as it is padded, with one size for sizes that its guards need equal."""

    call: BodyCall
    numbers: tuple[int, ...]  # of the guards that it needs


class BranchGuards:
    """The guards of the branches of a graph, in the order of their numbers."""

    def __init__(
        self,
        sizes: Storage,
        body: Bodies,
        depth: Callable[[], int],
        is_looked_at: Callable[[Guard, Node], bool],
    ) -> None:
        """`body` rebuilds a body, `depth` counts the bodies that the pass is in.

        `is_looked_at` tells whether the entry decides a guard, of sizes of the graph.
        """
        self._sizes, self._body, self._depth = sizes, body, depth
        self._is_looked_at = is_looked_at
        self._numbers: dict[Guard, int] = {}
        self._first_needs: list[Node] = []
        # The sizes of the enclosing branch, in terms of sizes of the graph.
        self._outer: Mapping[Symbol, Size] = {}
        self._branches = 0  # depth of the branches that the pass is in

    def branch(
        self, pad: Padding, call: BodyCall, inputs: Sequence[PaddedValue]
    ) -> tuple[list[Value], tuple[int, ...]]:
        """The outputs of a branch at capacities, and the numbers of its guards."""
        with self._enter_branch(call) as branch:
            pairs = zip(inputs, branch.call.types, strict=True)
            refitted = [self._refit(pad, x, type) for x, type in pairs]
            results = self._body(branch.call, refitted)
        shapes = [self._sizes.layout(v.type)[0] for v in pad.node.outputs]
        outputs = zip(results, shapes, strict=True)
        fitted = [fit_branch_result(x.value, shape) for x, shape in outputs]
        return fitted, branch.numbers

    def _refit(self, pad: Padding, x: PaddedValue, type: TensorType) -> PaddedValue:
        """An input of a branch, at the capacities of its sizes within the branch."""
        if all(map(same_size, type.shape, x.type.shape)):
            return x
        shape, axes = self._sizes.layout(type)
        value = fit_branch_result(pad.filled(x, x.axes, 0), shape)
        return PaddedValue(value, type, axes, zeros_along(axes, type.dtype))

    @property
    def all(self) -> tuple[tuple[Guard, Node], ...]:
        """Each guard with the first node that needs it."""
        return tuple(zip(self._numbers, self._first_needs, strict=True))

    @contextmanager
    def _enter_branch(self, call: BodyCall) -> Generator[NumberedBranch]:
        """Return a context in which a branch is walked.

        The guards of branches in loops belong to what is around the loop.
        """
        if self._depth() > self._branches:
            yield NumberedBranch(call, ())
            return
        guards = guards_of(call.body.nodes)
        before, sizes = self._outer, call.sizes
        here = [(guard_of_sizes(guard, sizes), node) for guard, node in guards]
        numbers = tuple(dict.fromkeys(self._number_guards(here)))
        self._outer = {s: substitute(n, before) for s, n in sizes.items()}
        self._branches += 1
        try:
            yield NumberedBranch(_unify_sizes(call, [g for g, _ in here]), numbers)
        finally:
            self._outer = before
            self._branches -= 1

    def exact(self, size: Size) -> Size:
        """A true size in terms of known sizes, as it is computed.

        A divisor of 0 is replaced by 1 where a numbered guard reports it.
        """
        exact = self._sizes.exact(size)
        guards = map(guard_of_divisor, divisors(size) if self._branches else ())
        outer = [guard_of_sizes(guard, self._outer) for guard in guards]
        numbered = outer and all(guard in self._numbers for guard in outer)
        return with_nonzero_divisors(exact) if numbered else exact

    def _number_guards(self, guards: Iterable[tuple[Guard, Node]]) -> Iterator[int]:
        for inner, node in guards:
            guard = guard_of_sizes(inner, self._outer)
            if not self._is_looked_at(guard, node):
                continue
            if guard not in self._numbers:
                self._numbers[guard] = len(self._first_needs)
                self._first_needs.append(node)
            yield self._numbers[guard]


def _unify_sizes(call: BodyCall, guards: Iterable[Guard]) -> BodyCall:
    """Write sizes that guards need equal in the same way throughout a call."""
    written: dict[Symbol, Size] = {}
    for guard in guards:
        if guard.relation == "==":
            sizes = guard.left, guard.right
            solved = _solution_of(*[substitute(n, written) for n in sizes])
            if solved is not None:
                one = dict([solved])
                written = {s: substitute(n, one) for s, n in written.items()} | one
    if not written:
        return call
    size_args = [substitute(n, written) for n in call.size_args]
    return BodyCall(
        call.body, [_type_in_sizes(t, written) for t in call.types], size_args
    )


def _solution_of(left: Size, right: Size) -> tuple[Symbol, Size] | None:
    """An axis symbol and the size equal to it; the newer of two such symbols."""
    pairs = [(left, right), (right, left)]
    symbols = [(axis_symbol(a), n) for a, n in pairs]
    axes = [(s, n) for s, n in symbols if s is not None and s not in symbols_in(n)]
    return max(axes, key=lambda pair: pair[0].serial, default=None)


def _type_in_sizes(type: TensorType, sizes: Mapping[Symbol, Size]) -> TensorType:
    return type.like(tuple([substitute(n, sizes) for n in type.shape]))
