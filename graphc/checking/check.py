"""`graphc.rewrites.check`: try a rule on graphs that it matches.

Graphs are made from the rule's pattern and rewritten with this one rule. Both sides run
on the same arguments, special values and sizes among them, and so do their gradients. A
difference is shrunk to a small counterexample.
"""

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, reject, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from graphc.checking.arrays import carriers, draw_array, draw_sizes
from graphc.checking.chance import DTYPES, FLOATS, MODES, Chance, Misfit
from graphc.checking.compare import are_close, are_identical, coarsest_unit
from graphc.checking.counterexample import Counterexample, array_text, expression
from graphc.checking.graphs import DeclaredShapes, SampleGraph, build_sample, make_match
from graphc.checking.watched_rules import with_type_check
from graphc.errors import GraphError, describe, graph_error
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.verify import verify
from graphc.ir.graph.walk import ancestors
from graphc.ir.namespace import F
from graphc.ir.primitives import OP
from graphc.ir.types import NDArray, is_inexact
from graphc.rewriting.engine.fixpoint import rewritten
from graphc.rewriting.engine.rule import Rule, Rules
from graphc.runtime.compile import function
from graphc.transform.derivatives.gradients import grad

BATCH = 9  # examples; from 10 on Hypothesis mostly varies the last one
MOST_BARREN = 10  # graphs without a gradient before a search ends, if none has one
MOST_GRAPHS = 600  # graphs to make until the rule fires in one
TRIES = 10  # graphs per example until the rule fires in one


@dataclass(frozen=True)
class Stage:
    """A kind of comparison, and how much rarer it is than one of values on NumPy."""

    backend: Literal["numpy", "jax"]
    gradient: bool
    every: int


STAGES = (
    Stage("numpy", False, 1),
    Stage("numpy", True, 2),
    Stage("jax", False, 3),
    Stage("jax", True, 6),
)


@dataclass
class Checked:
    """The record of a check.

    It counts the graphs made, those in which the rule fired, those of them without a
    gradient, and the comparisons of values and of gradients.
    """

    rule: Rule
    graphs: int = 0
    fired: int = 0
    barren: int = 0
    values: int = 0
    gradients: int = 0

    def __str__(self) -> str:
        return (
            f"{self.rule.name}: fired in {self.fired} of {self.graphs} graphs; "
            f"equal in {self.values} runs and {self.gradients} gradients"
        )


class _Barren(BaseException):
    """Raised when no graph is of use, which ends a search, as no Exception would."""


def check(
    rule: Rule,
    *,
    examples: int = 20,
    build: Callable[..., object] | None = None,
    shapes: DeclaredShapes | None = None,
    dtypes: Sequence[str] | None = None,
    first: Rules | None = None,
) -> Checked:
    """Try a rule on graphs that it matches, and compare both sides.

    The graphs are made from the rule's pattern; where that yields none, `build` makes a
    value from variables, one for each of its parameters. `shapes` gives the shapes of
    these by name, `{"a": ("n", 3)}`; a named size is tried as a number and as a symbol.
    `dtypes` are the dtypes to try; `first` are rules that simplify what is built, for a
    pattern that matches only their results. Compared are values, on NumPy and JAX, bit
    for bit where the rule is exact, and gradients; also, arguments that the old graph
    refuses must still be refused.

    Raises GraphError with a small counterexample where the sides differ, or where no
    graph was found in which the rule fires.
    """
    if not isinstance(rule, Rule):
        hint = "@graphc.rewrite(...) makes a rule of a function"
        problem = "takes a rule"
        raise graph_error(problem, op="rewrites.check", got=repr(rule), hint=hint)
    report = Checked(rule)
    common = DTYPES if rule.exact else FLOATS
    for stage in STAGES:
        if stage.gradient and (rule.late or rule.last):  # made after gradients are
            continue
        if stage.gradient and stage.backend == "jax" and not report.gradients:
            continue
        chosen = tuple(dtypes or (FLOATS if stage.gradient else common))
        source = _Source(build, shapes or {}, first or Rules())
        search = _Search(rule, stage, report, source, chosen)
        try:
            search.run(max(examples // stage.every, 1))
        except GraphError:
            replace(search, modes=("inputs",)).run(2 * BATCH)  # report it with inputs
            raise
        if not report.fired:
            raise _unmatched_error(rule, report)
    return report


def _unmatched_error(rule: Rule, report: Checked) -> GraphError:
    return graph_error(
        f"the rule {rule.name} fires in none of the graphs made for it",
        op="rewrites.check",
        got=f"{report.graphs} graphs",
        hint="give build=, a function that makes a value that the rule matches "
        "from variables, and shapes=, the shapes of these variables",
        where=rule.place,
    )


@dataclass(frozen=True)
class _Trial:
    """Two sides of a graph, and arguments for both."""

    sample: SampleGraph
    sides: tuple[Value, Value]
    compared: tuple[list[Value], list[Value]]
    arguments: dict[Value, NDArray]

    @property
    def unit(self) -> float:
        """The unit in the last place of the coarsest numbers in the first graph."""
        nodes = ancestors([self.sample.value])
        return coarsest_unit(v.dtype for node in nodes for v in node.outputs)


@dataclass(frozen=True)
class _Source:
    """The source of graphs: a function of the user's, or else the rule's pattern."""

    build: Callable[..., Any] | None
    shapes: DeclaredShapes
    first: Rules

    def graph(self, c: Chance, rule: Rule) -> SampleGraph:
        """Make a graph that the rule may match. Raises Misfit where none was found."""
        if self.build is None:
            return make_match(c, rule.pattern)
        sample = build_sample(c, self.build, self.shapes)
        (value,) = rewritten(sample.graph, self.first).graph.outputs
        return SampleGraph(value, sample.wants)


@dataclass(frozen=True)
class _Search:
    """One stage of a check, which looks for a counterexample."""

    rule: Rule
    stage: Stage
    report: Checked
    source: _Source
    dtypes: tuple[str, ...]
    modes: tuple[str, ...] = MODES

    def run(self, examples: int) -> None:
        """Try `examples` graphs. Raises GraphError with the smallest counterexample."""
        for start in range(0, examples, BATCH):
            self._search(start, min(BATCH, examples - start))

    def _search(self, start: int, examples: int) -> None:
        @seed(start)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            # Pyright takes Hypothesis's list of them for one of classes.
            suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
            verbosity=Verbosity.quiet,
        )
        @given(st.data())
        def attempt(data: object) -> None:
            self.attempt(Chance(data, self.dtypes, self.modes))

        try:
            with _without_warnings(), jax.enable_x64(True):
                attempt()
        except (Unsatisfiable, _Barren):
            return  # nothing to compare in this stage, as without a gradient
        except Counterexample as counterexample:
            parts = counterexample.args[0]
            text = describe(op="rewrites.check", where=self.rule.place, **parts)
        else:
            return
        raise GraphError(text, "rules")

    def attempt(self, c: Chance) -> None:
        """Make one graph in which the rule fires, and compare both sides."""
        sample, after = self._make_match(c)
        before = sample.value
        compared = [before], [after]
        if self.stage.gradient:
            compared = self._gradients(sample, before, after)
        sizes = draw_sizes(c, (before, after, *sample.inputs))
        special = not (self.stage.gradient or self.rule.finite)
        wants = sample.wants | carriers(sizes)
        arguments = {
            x: draw_array(c, want, sizes, special) for x, want in wants.items()
        }
        self._compare(_Trial(sample, (before, after), compared, arguments))

    def _make_match(self, c: Chance) -> tuple[SampleGraph, Value]:
        """Make a graph in which the rule fires; return it and its rewritten output."""
        for _ in range(TRIES):
            try:
                sample = self.source.graph(c, self.rule)
            except Misfit:
                continue
            self.report.graphs += 1
            if self.report.graphs > MOST_GRAPHS and not self.report.fired:
                raise _Barren
            after = self._rewritten(sample)
            if after is not None:
                self.report.fired += 1
                return sample, after
        return reject()

    def _rewritten(self, sample: SampleGraph) -> Value | None:
        """The rewritten output of a graph; None where the rule does not fire."""
        try:
            result = rewritten(sample.graph, Rules((with_type_check(self.rule),)))
            verify(result.graph)
        except Counterexample:
            raise
        except Exception as error:
            raised = error
        else:
            return result.graph.outputs[0] if result.log else None
        # Raised outside of `except`, the error has no context, which might vary.
        problem = f"the rule {self.rule.name} raises {type(raised).__name__}"
        got = str(raised).split("\n  at ")[0]
        parts = {"problem": problem, "got": got}
        raise Counterexample(parts | {"expected": expression(sample.value)})

    def _gradients(
        self, sample: SampleGraph, before: Value, after: Value
    ) -> tuple[list[Value], list[Value]]:
        """The gradients of both sides with respect to the inexact inputs."""
        wrt = _differentiable_inputs(sample)
        if not wrt:
            self.report.barren += 1
            if self.report.barren > MOST_BARREN and not self.report.gradients:
                raise _Barren
            reject()
        try:
            expected = grad(_weighted_sum(before), wrt, disconnected="zero")
        except GraphError:
            return reject()  # no gradient to compare with
        problem = ""
        try:
            return expected, grad(_weighted_sum(after), wrt, disconnected="zero")
        except GraphError as error:
            problem = str(error).splitlines()[0]
        raise Counterexample(
            {
                "problem": f"the rule {self.rule.name} leaves a graph "
                "without a gradient",
                "got": f"{expression(after)}: {problem}",
                "expected": expression(before),
            }
        )

    def _compare(self, trial: _Trial) -> None:
        before, after = trial.compared
        self.report.values += not self.stage.gradient
        self.report.gradients += self.stage.gradient
        results = self._results_of(trial, [*before, *after])
        if results is None:
            if self._results_of(trial, [trial.sample.value, *before]) is None:
                self.report.values -= not self.stage.gradient
                self._require_error(trial)
                reject()  # arguments that do not fit the graph as it was
            raise Counterexample(self._error_parts(trial, after))
        pairs = zip(results[: len(before)], results[len(before) :], strict=True)
        for i, (old, new) in enumerate(pairs):
            if not self._are_same(old, new, trial.unit):
                raise Counterexample(self._difference_parts(trial, i, old, new))

    def _require_error(self, trial: _Trial) -> None:
        """Raise a Counterexample if only the old graph refuses the arguments."""
        before, after = trial.sides
        try:
            self._run(trial, [before])
        except GraphError as refusal:
            error = str(refusal).splitlines()[0]
        except Exception:
            return  # an error of NumPy, say
        else:
            return
        new = self._results_of(trial, [after])
        if new is not None:
            parts = {
                "problem": f"the result of the rule {self.rule.name} raises no error",
                "got": f"{expression(after)}: {array_text(new[0])}",
                "expected": f"{expression(before)}: {error}",
                "arguments": _arguments(trial),
            }
            raise Counterexample(parts)

    def _are_same(self, old: NDArray, new: NDArray, unit: float) -> bool:
        if self.rule.exact and not self.stage.gradient:
            return are_identical(old, new)
        return are_close(old, new, unit, finite=self.stage.gradient)

    def _results_of(self, trial: _Trial, outputs: list[Value]) -> list[NDArray] | None:
        """The outputs of a graph; None if it raises."""
        try:
            return self._run(trial, outputs)
        except Exception:
            return None

    def _run(self, trial: _Trial, outputs: list[Value]) -> list[NDArray]:
        """Run a graph; on JAX op by op, since XLA rounds fused ops differently."""
        compiled = function(
            list(trial.arguments),
            outputs,
            backend=self.stage.backend,
            jit="auto" if any(map(_has_checks, outputs)) else False,
            rewrites=Rules(),
        )
        xp = {"numpy": np, "jax": jax.numpy}[self.stage.backend]
        arguments = map(xp.asarray, trial.arguments.values())
        return [np.asarray(result) for result in compiled(*arguments)]

    def _error_parts(self, trial: _Trial, after: list[Value]) -> dict[str, str]:
        try:
            self._run(trial, after)
            error = "it cannot be computed together with the original graph"
        except Exception as failure:
            error = f"{type(failure).__name__}: {str(failure).splitlines()[0]}"
        return {
            "problem": f"the result of the rule {self.rule.name} raises an error",
            "got": f"{expression(trial.sides[1])}: {error}",
            "expected": expression(trial.sides[0]),
            "arguments": _arguments(trial),
        }

    def _difference_parts(
        self, trial: _Trial, i: int, old: NDArray, new: NDArray
    ) -> dict[str, str]:
        what = "the value"
        if self.stage.gradient:
            what = f"the gradient in {_differentiable_inputs(trial.sample)[i].name}"
        before, after = map(expression, trial.sides)
        bits = ", bit for bit" if self.rule.exact and not self.stage.gradient else ""
        return {
            "problem": f"the rule {self.rule.name} changes {what}{bits}",
            "got": f"{after}: {array_text(new)} on {self.stage.backend}",
            "expected": f"{before}: {array_text(old)}",
            "arguments": _arguments(trial),
        }


@contextmanager
def _without_warnings() -> Generator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _has_checks(value: Value) -> bool:
    """Whether a graph has checks, which an un-jitted program cannot make."""
    return any(node.primitive is OP.assert_ for node in ancestors([value]))


def _differentiable_inputs(sample: SampleGraph) -> list[Value]:
    """The inputs with respect to which there is a gradient."""
    if not is_inexact(sample.value.dtype):
        return []
    return [x for x in sample.inputs if is_inexact(x.dtype)]


def _weighted_sum(x: Value) -> Value:
    """A real scalar to which the elements contribute with weights from 1 to 5."""
    size = x.type.size
    weights = F.reshape(F.arange(size) % 5 + 1, x.type.shape)
    total = F.sum(x * F.astype(weights, x.dtype))
    return F.real(total) if x.dtype.kind == "c" else total


def _arguments(trial: _Trial) -> str:
    parts = [
        f"{x.name} = {array_text(trial.arguments[x])}" for x in trial.sample.inputs
    ]
    return ", ".join(parts) or "none"
