"""PyMC on graphc: the log density of a model and its gradient, for samplers.

`pm.sample(..., compile_kwargs={"mode": "GRAPHC"})` needs an import of this module only.
"""

from collections.abc import Callable
from copy import copy
from functools import cached_property
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType

from graphc.ir.forks import jax_is_lost
from graphc.pytensor.convert import shared_of
from graphc.pytensor.forked import numpy_options, tell_of_numpy
from graphc.pytensor.gradients import value_and_grad
from graphc.pytensor.linker import CALLED_OFTEN, mode
from graphc.pytensor.steps import shared_function
from graphc.runtime.function import Function

# As PyMC compiles: parameters that are not allowed have a density of zero.
OUT_OF_BOUNDS = "local_check_parameter_to_ninf_switch"


class LogDensity:
    """The log density of a model and its gradient, at a vector of its free values.

    The vector joins the values that PyMC samples, in the order of `names`. How many
    there are follows the data of the model, as they are at each call.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        self._model = model
        self.names = tuple(v.name for v in model.value_vars)
        joined = pt.vector("values", dtype=_dtype_of(model.value_vars))
        parts = separated(joined, model)
        logp = graph_replace(model.logp(), parts, strict=False)
        self._shared = shared_of([logp], [joined])
        rewrite = mode().including(OUT_OF_BOUNDS).optimizer.rewrite
        graph = value_and_grad(logp, joined, [joined], rewrite)
        self._dtype = joined.dtype
        self._graph, self._options = graph, {**CALLED_OFTEN, **options}
        self.function: Function = shared_function(graph, self._options)

    def __copy__(self) -> "LogDensity":
        made = object.__new__(LogDensity)
        made.__dict__.update(self.__dict__, function=copy(self.function))
        return made

    @property
    def initial(self) -> Any:
        """The vector at which PyMC starts; PyMC computes it when it is read."""
        point = self._model.initial_point()
        return np.concatenate([np.ravel(point[name]) for name in self.names])

    def __call__(self, values: Any) -> tuple[Any, Any]:
        """The log density and its gradient; data are read anew, see `pm.set_data`."""
        run = self._in_child if self._is_forked else self.function
        value, slope = run(values, *self._data())
        return np.asarray(value)[()], np.array(slope)

    @property
    def _is_forked(self) -> bool:
        return jax_is_lost() and self.function.backend == "jax"

    @cached_property
    def _in_child(self) -> Function:
        """The function in a forked process for which JAX is lost."""
        tell_of_numpy()
        return shared_function(self._graph, numpy_options(self._options))

    @property
    def jax_callable(self) -> Callable[..., Any]:
        """Both as plain JAX, with the data as they are now: for samplers on JAX.

        They are computed in the width of the model, and given in that of the vector,
        which has 32 bits where JAX has no more.
        """
        jax, dtype = import_module("jax"), self._dtype
        run, data = self.function.jax_callable, self._data()

        def both(values: Any) -> tuple[Any, Any]:
            like = jax.numpy.asarray(values).dtype
            with jax.enable_x64(True):
                value, slope = run(values.astype(dtype), *data)
                return value.astype(like), slope.astype(like)

        return both

    @property
    def jax_density(self) -> Callable[..., Any]:
        """The log density alone as plain JAX, whose gradient is the one of this graph.

        For samplers that differentiate what they are given, as those of NumPyro and
        BlackJAX do; the data are those of now.
        """
        both = self.jax_callable
        density = import_module("jax").custom_vjp(lambda values: both(values)[0])
        density.defvjp(both, lambda slope, share: (share * slope,))
        return density

    def _data(self) -> list[Any]:
        return [v.get_value(borrow=True) for v in self._shared]


def logp_and_grad(model: Any, **options: Any) -> LogDensity:
    """The log density of a PyMC model and its gradient; options of `graphc.function`.

    f = graphc.pymc.logp_and_grad(model, backend="jax")
    value, slope = f(f.initial)
    """
    return LogDensity(model, **options)


def _dtype_of(variables: Any) -> str:
    """The dtype of a vector that joins variables."""
    return np.result_type(*[v.dtype for v in variables]).name


def separated(joined: Any, model: Any) -> dict[Any, Any]:
    """The free values of a model as parts of a vector, one after the other."""
    shapes = shapes_of(model)
    whole = pt.specify_shape(joined, sum(map(prod, shapes)))
    parts, start = {}, 0
    for v, shape in zip(model.value_vars, shapes, strict=True):
        stop = start + prod(shape)
        part = whole[start:stop].reshape(shape) if shape else whole[start]
        parts[v] = part.astype(v.dtype)
        start = stop
    return parts


def shapes_of(model: Any) -> list[tuple[Any, ...]]:
    """The shape of each free value: integers, and sizes that follow the data."""
    found = [v.type.shape for v in model.value_vars]
    late = [i for i, shape in enumerate(found) if None in shape]
    if not late:
        return found
    owners = {model.rvs_to_values[rv]: rv for rv in model.free_RVs}
    sampled = [owners[model.value_vars[i]] for i in late]
    wanted = [_sampled(rv, model.rvs_to_transforms[rv]).shape for rv in sampled]
    point = model.initial_point()
    told = rewrite_graph(wanted, ("ShapeOpt", "canonicalize"))
    for i, shape in zip(late, told, strict=True):
        now = point[model.value_vars[i].name].shape
        found[i] = now if _is_random(shape) else _sizes(found[i], shape)
    return found


def _sizes(known: tuple[int | None, ...], shape: Any) -> tuple[Any, ...]:
    """The sizes in a vector, as far as they are not known already."""
    return tuple(shape[i] if n is None else n for i, n in enumerate(known))


def _sampled(rv: Any, transform: Any) -> Any:
    """The random variable as PyMC samples it."""
    return rv if transform is None else transform.forward(rv, *rv.owner.inputs)


def _is_random(shape: Any) -> bool:
    """Whether a shape depends on draws, as far as PyTensor could find out."""
    return any(isinstance(v.type, RandomType) for v in ancestors([shape]))
