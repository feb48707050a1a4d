"""The calls of a padded program that run by call plans, found by their keys."""

from collections.abc import Hashable, Sequence

import numpy as np

from graphc.backends.program import Outputs
from graphc.ir.types import DType
from graphc.runtime.cache.prepared import Prepared
from graphc.runtime.call.arguments import ArgumentValues
from graphc.runtime.call.key import kind_of
from graphc.runtime.call.lines import CallSite, Run, runner
from graphc.runtime.call.plan import call_plan

MOST_PLANS = 4096  # signatures, after which all are forgotten
_NUMBERS = (bool, float, complex)


class PlannedCalls:
    """Call plans of one program, by the signatures of calls."""

    def __init__(
        self,
        prepared: Prepared,
        dtypes: Sequence[DType],
        outputs: Outputs,
        site: CallSite,
    ) -> None:
        self._prepared = prepared
        self._dtypes = dtypes
        self._outputs = outputs
        self._site = site
        self._kind = kind_of(site.jax)
        self._runs: dict[tuple[Hashable, ...], Run] = {}

    def around(self, otherwise: Run) -> Run:
        """The function that runs calls by their plans, and others by `otherwise`."""
        runs, kind = self._runs, self._kind

        def planned(*args: object, **named: object) -> object:
            run = None if named else runs.get(tuple([*map(kind, args)]))
            return otherwise(*args, **named) if run is None else run(*args)

        return planned

    def find(self, args: tuple[object, ...]) -> Run | None:
        """The function for calls like one that is done, if they can be planned."""
        key = tuple([*map(self._kind, args)])
        run = self._runs.get(key)
        if run is None and self._may_be_planned(args):
            run = self._planned(args)
            if run is not None:
                if len(self._runs) >= MOST_PLANS:
                    self._runs.clear()
                self._runs[key] = run
        return run

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
        return (
            isinstance(argument, jax.Array)
            and not isinstance(argument, jax.core.Tracer)
            and argument.dtype == dtype
            and not argument.committed
        )

    def _planned(self, args: ArgumentValues) -> Run | None:
        shapes = [np.shape(a) for a in args]
        try:
            plan = call_plan(self._prepared.plan, shapes)
        except ValueError:  # a size does not follow from shapes, or has no capacity
            return None
        if plan is None:
            return None
        return runner(plan, args, self._outputs, self._site)
