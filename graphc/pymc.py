"""PyMC on graphc: the log density of a model and its gradient, for samplers.

`pm.sample(..., compile_kwargs={"mode": "GRAPHC"})` needs an import of this module only.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from graphc.pytensor.convert import shared_of
from graphc.pytensor.gradients import value_and_grad
from graphc.runtime.compile import function
from graphc.runtime.function import Function


class LogDensity:
    """The log density of a model and its gradient, at a vector of its free values.

    `initial` is the vector at which PyMC starts; `names` are those of the values in it.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        point = model.initial_point()
        point = {v.name: point[v.name] for v in model.value_vars}
        join = import_module("pymc.pytensorf").join_nonshared_inputs
        [logp], joined = join(point, [model.logp()], model.value_vars)
        self._shared = shared_of([logp], [joined])
        graph = value_and_grad(logp, joined, [joined])
        self.names = tuple(point)
        self.initial = np.concatenate([np.ravel(v) for v in point.values()])
        self.function: Function = function(graph.inputs, graph.outputs, **options)

    def __call__(self, values: Any) -> tuple[Any, Any]:
        """The log density and its gradient; data are read anew, see `pm.set_data`."""
        value, slope = self.function(values, *self._data())
        return np.asarray(value)[()], np.array(slope)

    @property
    def jax_callable(self) -> Callable[..., Any]:
        """Both as plain JAX, with the data as they are now: for samplers on JAX."""
        run, data = self.function.jax_callable, self._data()
        return lambda values: run(values, *data)

    def _data(self) -> list[Any]:
        return [v.get_value(borrow=True) for v in self._shared]


def logp_and_grad(model: Any, **options: Any) -> LogDensity:
    """The log density of a PyMC model and its gradient; options of `graphc.function`.

    f = graphc.pymc.logp_and_grad(model, backend="jax")
    value, slope = f(f.initial)
    """
    return LogDensity(model, **options)
