"""The log density of a PyMC model and its gradient, as one function."""

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import graphc.tensor as gt
from graphc.errors import CallError
from graphc.ir.forks import jax_is_lost
from graphc.ir.graph.nodes import Graph
from graphc.ir.types import ConcreteArray, NDArray
from graphc.pymc.data import FixedSizes, ModelData, SeenData
from graphc.pymc.values import FreeValues, require_model
from graphc.pytensor.forked_process import numpy_options, warn_of_numpy
from graphc.pytensor.gradients import value_and_grad
from graphc.pytensor.linker import CALLED_OFTEN, mode
from graphc.pytensor.steps import shared_function
from graphc.runtime.driver.failure import refused_call
from graphc.runtime.driver.progress import logger
from graphc.runtime.function import Function

if TYPE_CHECKING:
    from pymc import Model

# As PyMC compiles: the density is zero where parameters are not allowed.
OUT_OF_BOUNDS = "local_check_parameter_to_ninf_switch"
SIZE_OPTIONS = ("dims", "tier", "device")  # with these, no program has fixed sizes
SYNCHRONOUS = "jax_cpu_enable_async_dispatch"

ValueAndSlope = tuple[Any, Any]  # a log density and its gradient
DensityCall = Callable[[Any], ValueAndSlope]


@dataclass(frozen=True)
class DensityProgram:
    """A compiled density; its data are at `data_places` among those of the model.

    If it is `joined`, its result is one array: the density, and then its gradient.
    """

    function: Function
    data_places: tuple[int, ...]
    joined: bool

    def on_numpy(
        self, options: Mapping[str, object], check: bool = False
    ) -> "DensityProgram":
        """The same program on NumPy; with `check`, unfit values in arrays raise."""
        assert self.function.making is not None
        graph, chosen = self.function.making.graph, numpy_options(options)
        chosen |= {"check": True} if check else {}
        function = shared_function(graph, chosen, single=self.joined)
        return replace(self, function=function)

    def data(self, values: Sequence[object]) -> list[Any]:
        """The data that the function takes, where it reads them at the least cost."""
        chosen = [values[i] for i in self.data_places]
        if self.function.backend != "jax" or not self.joined:
            return chosen
        jax = import_module("jax")
        with jax.enable_x64(True):
            return [jax.device_put(np.array(v)) for v in chosen]

    def call(self, data: Sequence[object]) -> DensityCall:
        """Bind the data: return a function of the vector that returns new arrays."""
        function, arrays = self.function, tuple(data)

        def joined(values: ConcreteArray) -> ValueAndSlope:
            both = np.array(function.lend(values, *arrays))
            return both[0], both[1:]

        def apart(values: NDArray) -> ValueAndSlope:
            value, slope = function.lend(values, *arrays)
            return np.asarray(value)[()], np.array(slope)

        return joined if self.joined else apart

    def traced(self, values: ConcreteArray, data: Sequence[object]) -> ValueAndSlope:
        """Call the program as plain JAX."""
        results = self.function.jax_callable(values, *data)
        return (results[0], results[1:]) if self.joined else tuple(results)


class BoundDensity(NamedTuple):
    """The density as a function of the vector alone, for the data that were seen."""

    seen: SeenData
    call: DensityCall


class LogDensity:
    """The log density of a model and its gradient, at a vector of its free values.

    The vector joins the values that PyMC samples, in the order of `names`. Their number
    follows the data of the model, as they are at each call. The first program is for
    the sizes that the data have when it is made; a later one is for all sizes. Integer
    data may be indices: the first call with new data checks them, so that others need
    not.
    """

    def __init__(self, model: "Model", **options: object) -> None:
        require_model(model, "logp_and_grad")
        self._model, self._options = model, {**CALLED_OFTEN, **options}
        self._free = FreeValues(model)
        self._density = self._free.of_vector(model.logp())
        self._data = ModelData.of([self._density], [self._free.vector])
        self._fixed: FixedSizes | None = None
        on_jax = options.get("backend", "jax") == "jax"
        if on_jax:
            _run_synchronously()
        if on_jax and not any(name in options for name in SIZE_OPTIONS):
            self._fixed = FixedSizes.of(self._data.current_values())
        self._program = self._make_program(self._fixed)
        self._checked: tuple[DensityProgram, DensityProgram] | None = None

    def _make_program(self, sizes: FixedSizes | None) -> DensityProgram:
        """Make the program for some sizes, or for all if `sizes` is None."""
        vector, density = self._free.vector, self._density
        if sizes is not None:
            density = sizes.fixed(self._data, density)
        rewrite = mode().including(OUT_OF_BOUNDS).optimizer.rewrite
        graph = value_and_grad(density, vector, [vector], rewrite)
        places = {v: i for i, v in enumerate(self._data.variables)}
        variables = ModelData.of([density], [vector]).variables
        value, slope = graph.outputs
        joined = sizes is not None and value.dtype == slope.dtype
        if joined:
            both = gt.concatenate([gt.expand_dims(value, 0), slope])
            graph = Graph(graph.inputs, (both,), graph.input_names, ("both",))
        function = shared_function(graph, self._options, single=joined)
        takes = tuple(places[v] for v in variables)
        return DensityProgram(function, takes, joined)

    def __getstate__(self) -> dict[str, object]:
        bound = ("_bound", "_in_child", "_checked")
        state = {name: v for name, v in vars(self).items() if name not in bound}
        return {**state, "_checked": None}

    def __copy__(self) -> "LogDensity":
        copied = object.__new__(LogDensity)
        program = replace(self._program, function=copy(self._program.function))
        copied.__dict__.update(self.__getstate__(), _program=program)
        return copied

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values in the vector, in order."""
        return self._free.names

    @property
    def function(self) -> Function:
        """The function of graphc that runs calls with the current data."""
        self._match_sizes(self._data.current_values())
        return self._program.function

    @property
    def initial(self) -> Any:
        """The vector at which PyMC starts, which PyMC computes at each access."""
        return self._free.joined(self._model.initial_point())

    def __call__(self, values: object) -> ValueAndSlope:
        """The log density and its gradient, with the current data of the model."""
        bound: BoundDensity | None = self.__dict__.get("_bound")
        try:
            if bound is None or jax_is_lost() or not bound.seen.is_unchanged():
                return self._bind_current()(values)
            return bound.call(values)
        except CallError:
            self._require_vector(values)
            raise

    def _require_vector(self, values: object) -> None:
        """Raise CallError unless there is one vector of as many numbers as are free."""
        expected = self.initial.shape
        sizes = np.asarray(values).shape
        if isinstance(values, (str, dict)) or sizes != expected:
            shape = "" if isinstance(values, dict) else f" of shape {sizes}"
            raise refused_call(
                "the free values must be one vector",
                "shape",
                op="logp_and_grad",
                got=f"{type(values).__name__}{shape}",
                expected=f"{expected[0]} numbers: {', '.join(self.names)}",
                hint="f.initial is such a vector, at which PyMC starts",
            ) from None

    def _bind_current(self) -> DensityCall:
        """Bind the density to the current data; keep the result until they change."""
        if self._is_forked:  # `_bound` stays: JAX's arrays must not be freed there
            return self.at(self._data.current_values())
        self._match_sizes(self._data.current_values())
        seen = SeenData.of(self._data, copied=self._fixed is not None)
        self._bound = BoundDensity(seen, self.at(seen.values))
        return self._bound.call

    def at(self, values: Sequence[object]) -> DensityCall:
        """Bind the density to `values`, one for each variable of the data."""
        self._match_sizes(values)
        program = self._numpy_in_child if self._is_forked else self._program
        call = program.call(program.data(values))
        if not any(_may_be_indices(values[i]) for i in program.data_places):
            return call
        return self._checking_first(call, values)

    def _checking_first(
        self, call: DensityCall, values: Sequence[object]
    ) -> DensityCall:
        """Return `call`, with a search for indices out of bounds at its first call.

        One search is enough: the indices do not depend on the free values.
        """
        is_checked = False

        def checking(vector: ConcreteArray) -> ValueAndSlope:
            nonlocal is_checked
            if not is_checked:
                self._require_indices(values, vector)
                is_checked = True
            return call(vector)

        return checking

    def _require_indices(self, values: Sequence[object], vector: ConcreteArray) -> None:
        """Raise CallError where an index among the data is out of bounds."""
        if self._checked is None or self._checked[0] is not self._program:
            checked = self._program.on_numpy(self._options, check=True)
            self._checked = self._program, checked
        _, program = self._checked
        try:
            program.call(program.data(values))(vector)
        except CallError as error:
            if error.kind == "index":
                raise

    def with_data(self, updates: Mapping[str, object]) -> DensityCall:
        """Bind the density to the current data, except for those in `updates`."""
        return self.at(self._data.with_named(updates))

    def _match_sizes(self, values: Sequence[object]) -> None:
        """Move to a program for all sizes if `values` do not have the fixed ones."""
        if self._fixed is not None and FixedSizes.of(values) != self._fixed:
            self._fixed = None
            self._program = self._make_program(None)
            self.__dict__.pop("_numpy_in_child", None)

    @property
    def _is_forked(self) -> bool:
        return jax_is_lost() and self._program.function.backend == "jax"

    @cached_property
    def _numpy_in_child(self) -> DensityProgram:
        """The program on NumPy, for a forked process in which JAX is lost."""
        warn_of_numpy()
        return self._program.on_numpy(self._options)

    @property
    def jax_callable(self) -> Callable[..., Any]:
        """The density and its gradient as plain JAX, with the current data.

        It is meant for samplers on JAX. The results are computed in the width of the
        model and returned in that of the vector, which has 32 bits where JAX allows no
        more.
        """
        jax, dtype = import_module("jax"), self._free.vector.dtype
        values = self._data.current_copies()
        self._match_sizes(values)
        program = self._program
        if any(_may_be_indices(values[i]) for i in program.data_places):
            self._require_indices(values, self.initial)
        data = program.data(values)

        def both(values: ConcreteArray) -> ValueAndSlope:
            like = jax.numpy.asarray(values).dtype
            with jax.enable_x64(True):
                value, slope = program.traced(values.astype(dtype), data)
                return value.astype(like), slope.astype(like)

        return both

    @property
    def jax_density(self) -> Callable[..., Any]:
        """The log density alone as plain JAX, with the gradient of this graph.

        It is meant for samplers that differentiate the density themselves, such as
        those of NumPyro and BlackJAX. The data are the current ones.
        """
        both = self.jax_callable
        density = import_module("jax").custom_vjp(lambda values: both(values)[0])
        density.defvjp(both, lambda slope, share: (share * slope,))
        return density


def logp_and_grad(model: "Model", **options: object) -> LogDensity:
    """The log density of a PyMC model and its gradient; options of `graphc.function`.

    f = graphc.pymc.logp_and_grad(model, backend="jax")
    value, slope = f(f.initial)
    """
    return LogDensity(model, **options)


def _may_be_indices(value: object) -> bool:
    array = np.asarray(value)
    return array.ndim > 0 and array.dtype.kind in "iu"


def _run_synchronously() -> None:
    """Have JAX run programs on the CPU in the thread that calls them, not in its own.

    A sampler waits for each result, and handing over a small program costs several
    times as much as running it. JAX reads the option once, when it first runs. Where
    the user has set the environment variable, the option is left alone.
    """
    config, variable = import_module("jax").config, SYNCHRONOUS.upper()
    if variable not in os.environ and config.values.get(SYNCHRONOUS, True):
        config.update(SYNCHRONOUS, False)
        message = "%s is False from now on in this process; %s=1 leaves it as it is"
        logger.info(message, SYNCHRONOUS, variable)
