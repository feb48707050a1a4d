"""The calls of a padded program that run by call plans, found by their keys."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from graphc.backends.program import Outputs
from graphc.ir.types import DType, JaxArray
from graphc.runtime.cache.prepared_program import PreparedProgram
from graphc.runtime.call.arguments import ArgumentValues
from graphc.runtime.call.dispatch import Run
from graphc.runtime.call.key import kind_of
from graphc.runtime.call.lines import CallSite, Ending, plan_runner
from graphc.runtime.call.plan import call_plan

MOST_PLANS = 4096  # signatures, after which all are forgotten
_NUMBERS = (bool, float, complex)


class PlannedCalls:
    """Call plans of one program, by the signatures of calls."""

    def __init__(
        self,
        prepared: PreparedProgram,
        dtypes: Sequence[DType],
        outputs: Outputs,
        site: CallSite,
    ) -> None:
        self._prepared = prepared
        self._dtypes = dtypes
        self._outputs = outputs
        self._site = site
        self._kind = kind_of(site.jax)
        self._acquire: dict[tuple[Hashable, ...], Callable[[], Run]] = {}

    def by_plans(self, otherwise: Run) -> Run:
        """Return a function that runs calls by plans, and others by `otherwise`."""
        acquire, kind = self._acquire, self._kind

        def planned(*args: object, **named: object) -> object:
            take = None if named else acquire.get(tuple([*map(kind, args)]))
            return otherwise(*args, **named) if take is None else take()(*args)

        return planned

    def find(self, args: tuple[object, ...]) -> bool:
        """Plan calls like one that has run, and tell whether they can be planned."""
        key = tuple([*map(self._kind, args)])
        if key in self._acquire:
            return True
        may_be_planned = self._may_be_planned(args)
        run = self._planned_run(args, self._site) if may_be_planned else None
        if run is None:
            return False
        if len(self._acquire) >= MOST_PLANS:
            self._acquire.clear()
            self._site.program.forget_runs()
        self._acquire[key] = self._site.program.counting(args, run)
        return True

    def _may_be_planned(self, args: tuple[object, ...]) -> bool:
        """Whether all arguments are numbers, or arrays that may be read anywhere."""
        return self._prepared.planned and all(
            type(a) in _NUMBERS or self._is_plain(a, dtype)
            for a, dtype in zip(args, self._dtypes, strict=True)
        )

    def _is_plain(self, argument: object, dtype: DType) -> bool:
        if type(argument) is np.ndarray:
            return argument.dtype == dtype
        jax = self._site.jax
        if not isinstance(argument, jax.Array) or isinstance(argument, jax.core.Tracer):
            return False
        array = cast("JaxArray", argument)
        return array.dtype == dtype and not array.committed

    def run_with_ending(
        self, args: ArgumentValues, ending: Ending, otherwise: Run
    ) -> Run | None:
        """Return a function for calls like one that has run, which end by `ending`.

        It is None where they cannot be planned, or where a result may be an argument or
        another result. Calls that the plan is not for go to `otherwise`.
        """
        if not self._may_be_planned(args) or not self._gives_new_arrays():
            return None
        site = replace(self._site, otherwise=otherwise)
        return self._planned_run(args, site, ending)

    def _gives_new_arrays(self) -> bool:
        """Whether no result is an input, or the same as another result."""
        graph = self._prepared.plan.graph
        outputs = set(graph.outputs)
        is_repeated = len(outputs) < len(graph.outputs)
        return not is_repeated and outputs.isdisjoint(graph.inputs)

    def _planned_run(
        self, args: ArgumentValues, site: CallSite, ending: Ending | None = None
    ) -> Run | None:
        shapes = [np.shape(a) for a in args]
        try:
            plan = call_plan(self._prepared.plan, shapes, site.rooms)
        except ValueError:  # a size does not follow from shapes, or has no capacity
            return None
        if plan is None:
            return None
        return plan_runner(plan, args, self._outputs, site, ending)
