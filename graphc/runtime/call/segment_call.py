"""The jitted call within a planned call: its function and its operands.

A driver may compute numbers before it calls its segment: `int(0.3 * n)`, `2 ** n`,
whether `log(n)` exists. Where these depend on sizes alone, and so on the signature of a
call, they are computed once for each plan, and its calls go straight to the segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType

import numpy as np

from graphc.backends.program import function_name
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.types import NDArray
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.call.dispatch import Run
from graphc.runtime.driver import xla
from graphc.runtime.driver.ahead import OnlySegment
from graphc.runtime.driver.devices import Target
from graphc.runtime.driver.programs import LoadedProgram
from graphc.transform.planning.plan import Check, HostNode, Segment, needs_device

OnCapacities = Sequence[NDArray | int]  # arrays as they are stored, and true sizes


@dataclass(frozen=True)
class SegmentCall:
    """A jitted function, and its operands in their order.

    An operand is the position of an argument, or None for the next of `numbers`. The
    function returns a list of results, or, where it `is_single`, one result alone.
    """

    jitted: Run
    operands: tuple[int | None, ...]
    numbers: tuple[object, ...]
    is_single: bool = False


@dataclass(frozen=True)
class SegmentCalls:
    """The jitted calls of one padded program; `segment` is its driver if that is all.

    Numbers are put on the device of `target` once, where the driver would do nothing
    else with them.
    """

    loaded: LoadedProgram
    prepared: PreparedProgram
    segment: OnlySegment | None
    target: Target

    def call(self, operands: OnCapacities) -> SegmentCall:
        """Return the jitted call for operands of the driver: arrays and sizes.

        Only the shapes of the arrays count. The call is one of the driver, unless the
        operands tell all that the driver does before it calls its segment.
        """
        if self.segment is None and _computes_of_sizes_alone(self.prepared):
            call = self._straight(operands)
            if call is not None:
                return call
        return self._of_driver(operands)

    def _of_driver(self, operands: OnCapacities) -> SegmentCall:
        places, numbers = _by_places(operands, operands)
        if self.segment is not None:
            numbers = self._placed(self.segment, numbers)
        return SegmentCall(self._driver, places, numbers)

    @property
    def _driver(self) -> Run:
        driver: Run = getattr(self.loaded.module, function_name(padded=True))
        return driver

    def _straight(self, operands: OnCapacities) -> SegmentCall | None:
        """Return the call that a driver makes of its segment; None if more follows."""
        driver, (segment,) = self._driver, self.prepared.plan.segments
        assert isinstance(driver, FunctionType)
        name, is_wide = f"segment_{segment.index}", self.prepared.facts.wide
        inner = OnlySegment(driver.__globals__[name], is_wide, self.target)
        results = [object() for _ in segment.outputs]
        is_single = len(results) == 1
        arguments: tuple[object, ...] = ()

        def observed(*args: object) -> object:
            nonlocal arguments
            arguments = args
            return results[0] if is_single else results

        scope = driver.__globals__ | {name: observed}
        returned = FunctionType(driver.__code__, scope)(*operands)
        jitted = self._with_its_bits(inner)
        if jitted is None or [*map(id, returned)] != [*map(id, results)]:
            return None
        places, numbers = _by_places(arguments, operands)
        return SegmentCall(jitted, places, self._placed(inner, numbers), is_single)

    def _with_its_bits(self, inner: OnlySegment) -> Run | None:
        if not inner.wide:
            return inner.jitted
        driver = self._driver
        run = xla.with_64_bits(self.loaded.jax, driver, inner.jitted)
        return None if run is driver else run

    def _placed(
        self, segment: OnlySegment, numbers: Sequence[object]
    ) -> tuple[object, ...]:
        return tuple([segment.placed(self.loaded.jax, number) for number in numbers])


def _by_places(
    arguments: Sequence[object], operands: OnCapacities
) -> tuple[tuple[int | None, ...], tuple[object, ...]]:
    """Return each argument's position among `operands`, or None, and the numbers.

    Numbers have no position; they are the second result.
    """
    positions = {id(x): i for i, x in enumerate(operands) if isinstance(x, np.ndarray)}
    places = tuple([positions.get(id(x)) for x in arguments])
    pairs = zip(arguments, places, strict=True)
    return places, tuple([x for x, place in pairs if place is None])


def _computes_of_sizes_alone(prepared: PreparedProgram) -> bool:
    """Whether a driver ends with its segment and, before it, computes only of sizes."""
    plan, padded = prepared.plan, prepared.plan.padded
    if not plan.steps or padded is None or padded.branch_guards or prepared.foreigns:
        return False
    *before, last = plan.steps
    if type(last) is not Segment or last.statics:
        return False
    values: list[Value] = []
    for step in before:
        if type(step) is HostNode and not needs_device(step):
            values += step.node.outputs
        elif isinstance(step, Check):
            values.append(step.condition)
        else:
            return False
    arguments = {v.node for v in plan.graph.inputs[: len(padded.original.inputs)]}
    return arguments.isdisjoint(ancestors(values))
