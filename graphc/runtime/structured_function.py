"""Functions whose inputs stand in structures, which each call takes apart first."""

from collections.abc import Mapping
from typing import Any

from graphc.runtime.call.arrangement import Arrangement
from graphc.runtime.call.dispatch import CALL, LEND, acquiring
from graphc.runtime.function import Function
from graphc.runtime.pipeline import Pipeline


class ArrangedFunction(Function):
    """A compiled program that is called with arrays in structures like its inputs'."""

    def __init__(
        self,
        arrangement: Arrangement,
        pipeline: Pipeline,
        defaults: Mapping[int, object],
    ) -> None:
        super().__init__(pipeline, defaults)
        self._arrangement = arrangement

    def __call__(self, /, *args: object, **named: object) -> Any:
        """Run the program."""
        return self._flat(*self._arrangement.flat(args, named))

    def lend(self, /, *args: object, **named: object) -> Any:
        """Run the program on arrays that it may keep."""
        return self._flat_lend(*self._arrangement.flat(args, named))

    _flat: Any = acquiring(CALL)
    _flat_lend: Any = acquiring(LEND, "_acquire_borrowed")
