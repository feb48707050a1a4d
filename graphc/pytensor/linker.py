"""The mode "GRAPHC" of PyTensor."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pytensor.compile.mode import Mode, register_mode
from pytensor.configdefaults import config
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.basic import JITLinker

from graphc.errors import CallError, NoCompileError, graph_error, shortened
from graphc.ir.forks import fork_error, jax_is_lost
from graphc.ir.namespace import misspelled
from graphc.ir.types import ConcreteArray
from graphc.pytensor import log_sums
from graphc.pytensor.forked_process import numpy_options, warn_of_numpy
from graphc.pytensor.steps import Compiled, Performed, Step, plan
from graphc.runtime.compile import check_named_options
from graphc.runtime.compile import function as compile_function
from graphc.runtime.function import Function

if TYPE_CHECKING:
    from pytensor.graph.fg import FunctionGraph


# PyTensor's rewriting takes most of the time of a compilation. Its specialisation pays
# off in calls: it moves signs and factors out of sums, which then are fewer kernels.
REWRITES = RewriteDatabaseQuery(
    include=["fast_run"],
    exclude=["fusion", "uncanonicalize", log_sums.PYTENSOR_REWRITE],
)
# Samplers call small functions millions of times, on data of few sizes.
CALLED_OFTEN = {"jit": "fewest"}
# As in PyTensor's own modes, indices out of bounds are errors.
DEFAULTS = {**CALLED_OFTEN, "check": "index"}
_PROGRAM_OF = "graphc.pytensor.program_of(f)"  # of a function of PyTensor, `f`
ERRORS: dict[str, type[Exception]] = {  # by the kind of a CallError, as PyTensor's
    "argument": TypeError,
    "dtype": TypeError,
    "index": IndexError,
    "matrix": np.linalg.LinAlgError,  # a ValueError too
    "stated": AssertionError,
    "zero": ZeroDivisionError,
}


class StepsProgram:
    """The program of a function in this mode: steps from inputs to outputs."""

    def __init__(self, fgraph: "FunctionGraph", options: dict[str, object]) -> None:
        self._options = options
        self._before_fork: list[Step] = []  # no executable is freed in a forked child
        if self._is_on_jax and jax_is_lost():
            warn_of_numpy()
            self._options = numpy_options(options)
        self.steps = plan(fgraph, self._options)
        self._inputs = tuple(fgraph.inputs)
        self._outputs = tuple(fgraph.outputs)
        self._constants = {
            v: v.data for v in fgraph.outputs if getattr(v, "data", None) is not None
        }
        self._run = self._runner()

    def __call__(self, *inputs: ConcreteArray) -> list[object] | None:
        """Run the steps. Raises the errors that PyTensor's own modes raise.

        A function without outputs returns None, as PyTensor requires.
        """
        if jax_is_lost() and self._is_on_jax:
            self._leave_jax()
        try:
            return self._run(inputs) or None
        except CallError as error:
            raise ERRORS.get(error.kind, ValueError)(str(error)) from error
        except NoCompileError as error:
            place = self.functions.index(error.function)
            raise error.of(f"{_PROGRAM_OF}.functions[{place}]") from None

    def compiles(self, owner: object) -> bool:
        """Whether the owner of a compilation is a part of this program."""
        return any(function.compiles(owner) for function in self.functions)

    @property
    def _is_on_jax(self) -> bool:
        return bool(self._options.get("backend", "jax") == "jax")

    def _leave_jax(self) -> None:
        """Continue with the same steps on NumPy, in a forked child."""
        if any(isinstance(s, Performed) and s.is_of_jax for s in self.steps):
            raise fork_error("JAXOp")
        warn_of_numpy()
        steps = [s.on_numpy() if isinstance(s, Compiled) else s for s in self.steps]
        self._before_fork, self.steps = self.steps, steps
        self._options = numpy_options(self._options)
        self._run = self._runner()

    def _runner(self) -> Callable[[Sequence[ConcreteArray]], list[object]]:
        """Return a function that runs the steps, at the least cost if there is one."""
        step = self.steps[0] if len(self.steps) == 1 else None
        if not isinstance(step, Compiled) or set(self._outputs) - set(step.outputs):
            return self._run_steps
        choose_inputs = _getter(
            [self._inputs.index(v) for v in step.inputs], self._inputs
        )
        choose_outputs = _getter(
            [step.outputs.index(v) for v in self._outputs], step.outputs
        )

        def run(inputs: Sequence[ConcreteArray]) -> list[object]:
            # The results are read before anyone can write to the arguments.
            results = step(*(choose_inputs(inputs) if choose_inputs else inputs))
            return list(
                map(np.array, choose_outputs(results) if choose_outputs else results)
            )

        return run

    def _run_steps(self, inputs: Sequence[ConcreteArray]) -> list[object]:
        stored = {**self._constants, **dict(zip(self._inputs, inputs, strict=True))}
        for step in self.steps:
            step.run(stored)
        return [_owned_array(stored[v]) for v in self._outputs]

    @property
    def functions(self) -> list[Function]:
        """The functions of the compiled parts."""
        return [s.function for s in self.steps if isinstance(s, Compiled)]

    def explain(self, full: bool = False) -> str:
        """The steps, why they are there, and the plans of the compiled parts."""
        return "\n\n".join([_step_text(step, full) for step in self.steps])


def _getter(
    places: list[int], among: Sequence[ConcreteArray]
) -> Callable[[Sequence[object]], Iterable[object]] | None:
    """Return a getter of the elements at `places`; None if they are all, in order."""
    if places == list(range(len(among))):
        return None
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: [values[i] for i in places]


def _step_text(step: Step, full: bool) -> str:
    if isinstance(step, Compiled):
        return step.function.explain(full)
    return (
        f"host: PyTensor performs {step.node.op}\n"
        f"  because {step.reason}\n"
        f"  to remove it: register one with graphc.pytensor.convert_op.register"
    )


def _owned_array(value: object) -> object:
    """A result as PyTensor's users expect it: a NumPy array that is theirs."""
    return np.array(value) if hasattr(value, "__array__") else value


class GraphcLinker(JITLinker):  # type: ignore[misc]
    """Converts a graph of PyTensor and has graphc compile it."""

    required_rewrites = ("minimum_compile",)
    incompatible_rewrites: ClassVar[tuple[str, ...]] = (
        "cxx_only",
        "BlasOpt",
        "fusion",
        "inplace",
        "local_careduce_fusion",
        "reuse_decomposition_multiple_solves",
        "reuse_lu_decomposition_multiple_solves",
        "scan_save_mem_prealloc",
        "scan_split_non_sequence_decomposition_and_solve",
        "scan_split_non_sequence_lu_decomposition_solve",
        "scan_reduce_trace_prealloc",
    )

    def __init__(self, options: dict[str, object] | None = None) -> None:
        super().__init__()
        self._options = {**DEFAULTS, **(options or {})}

    def fgraph_convert(
        self, fgraph: object, *args: object, **kwargs: object
    ) -> StepsProgram:
        """The program of a graph that PyTensor has rewritten."""
        return StepsProgram(fgraph, self._options)

    def create_thunk_inputs(self, storage_map: Mapping[object, object]) -> list[object]:
        """The cells of the inputs, whose values PyTensor reads at each call."""
        return [storage_map[v] for v in self.fgraph.inputs]

    def jit_compile(self, fn: Callable[..., object]) -> Callable[..., object]:
        """The program itself: graphc compiles its parts when they are called."""
        return fn


def program_of(compiled: object) -> StepsProgram:
    """The program of a function that PyTensor has compiled in this mode.

    Its `functions` are graphc's, its `explain()` says what runs where, and why.
    """
    program = getattr(getattr(compiled, "vm", None), "jit_fn", None)
    if not isinstance(program, StepsProgram):
        hint = 'compile it with pytensor.function(..., mode="GRAPHC")'
        got = shortened(repr(compiled))
        problem = "not a function of graphc"
        raise graph_error(problem, op="program_of", got=got, hint=hint)
    return program


NAME = "GRAPHC"
# Parameters of `graphc.function` that PyTensor sets.
SET_OPTIONS = ("inputs", "outputs", "unused")
OPTIONS = tuple(
    name for name in signature(compile_function).parameters if name not in SET_OPTIONS
)


def mode(**options: object) -> Mode:
    """Make a mode of PyTensor with options of `graphc.function`.

    Raises TypeError for other options, and GraphError for values that they do not take.
    """
    for name in options:
        if name not in OPTIONS:
            correction = misspelled(name, OPTIONS) or f"; expected {', '.join(OPTIONS)}"
            raise TypeError(
                f"mode() got an unexpected keyword argument {name!r}{correction}"
            )
    check_named_options("mode", options)
    return Mode(GraphcLinker(options), REWRITES)


def _register_name() -> None:
    """Let `pytensor.config.mode` take the name, not only PyTensor's own modes."""
    param = vars(type(config)).get("mode")
    apply = getattr(param, "_apply", None)
    if apply is not None:
        added_modes = {NAME: NAME}
        param._apply = lambda value: added_modes.get(str(value)) or apply(value)


register_mode(NAME, mode())
_register_name()
