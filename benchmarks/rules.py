"""Each default rule alone against no rules, in a program where it applies.

Each rule has two rows. "gain" is for the program for which the rule is written. "kept"
is for the worst case of most rules: all intermediate values are outputs too, so the
program still computes what the rule replaces. There is no such row if the rule waits
for values that nothing else uses. The programs are those that tests/rewriting shows.

A rule for accuracy may take time. The note has the largest error without it and with
it, in units in the last place of float32, over numbers of all magnitudes. If sizes are
read from the device, a turn makes both programs anew and calls them with several sizes:
the compilation for each size counts.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.harness import CPU, Comparison, Row, compare, row, setting
from graphc.ir.graph.nodes import Graph, Value
from graphc.ir.graph.walk import ancestors
from graphc.rewrites import Rule, Rules, default
from graphc.rewriting.rules.accelerators import ACCELERATORS
from graphc.rewriting.rules.cleanup import CLEANUP
from graphc.rewriting.rules.contraction import CONTRACTION
from graphc.rewriting.rules.selection import SELECTION
from graphc.rewriting.rules.stability import STABILITY
from tests.rewriting.written import FAMILIES, VARIABLES

SIZES = setting((300_000, 100_000, 30_000, 2000, 400), (8,))
MOST = 4_000_000  # elements of a value
CALL = 0.01  # seconds of a turn
TIME, MEMORY = 1.02, 1.05  # the most that a rule may lose
SLACK = 2**16  # bytes that do not count as a loss
COUNTS = setting(6, 2)  # draws of arguments, if programs read sizes
MAGNITUDES = np.concatenate([s * np.logspace(-7, 1.95, 60) for s in (1, -1)])
CODE = {name: code for family in FAMILIES.values() for name, code in family.items()}
INPUTS = {name: gt.tensor(name, *given) for name, given in VARIABLES.items()}


@dataclass(frozen=True)
class Case:
    """A program, a rule, and the other rules to compile it with."""

    what: str
    inputs: list[Value]
    outputs: list[Value]
    without: Rules
    rule: Rule

    @property
    def applies(self) -> bool:
        """Whether the rule changes the program."""
        log = self.function(self.without + self.rule).rewrites
        return any(a.rule.name == self.rule.name for a in log)

    def function(self, rules: Rules) -> Any:
        """Compile the program under some rules."""
        how = {"dims": "specialize", "unused": "ignore"}
        return graphc.function(self.inputs, self.outputs, rewrites=rules, **how)


def cases(rule: Rule) -> Iterator[Case]:
    """Yield the programs of a rule."""
    scope = {"graphc": graphc, "gt": gt, "np": np} | INPUTS
    value = eval(CODE[rule.name], scope)
    nodes = ancestors([value])
    words = set(re.findall(r"\w+", CODE[rule.name]))
    inputs = [x for name, x in INPUTS.items() if name in words]
    # Rules for products apply after others have simplified their operands.
    without = CLEANUP + SELECTION if rule in CONTRACTION else Rules()
    yield Case(f"{rule.name}, gain", inputs, [value], without, rule)
    used = {v for n in nodes for v in n.inputs if v.node.inputs}
    between = [v for n in nodes for v in n.outputs if v in used]
    kept = Case(f"{rule.name}, kept", inputs, [value, *between], without, rule)
    if between and kept.applies:
        yield kept


def arrays(case: Case, seed: int = 0, least: float = 0.1) -> list[Any]:
    """Draw arguments, as long as no value becomes much too large."""
    graph = Graph(tuple(case.inputs), tuple(case.outputs), (), ())
    values = [v for n in ancestors(graph.outputs) for v in n.outputs]
    for n in SIZES:
        if max(_elements(v, n) for v in values) <= MOST:
            break
    rng, found = np.random.default_rng(seed), []
    for v in case.inputs:
        shape = [size if isinstance(size, int) else n for size in v.type.shape]
        drawn: Any = rng.uniform(least, 0.9, shape)
        drawn = rng.integers(0, 2, shape) if v.dtype.kind == "i" else drawn
        with jax.enable_x64(True):
            found.append(jnp.asarray(np.asarray(drawn, v.dtype)))
    return found


def _elements(value: Value, n: int) -> int:
    """Estimate how many elements a value has if all symbols are n."""
    sizes = [size if isinstance(size, int) else n for size in value.type.shape]
    return math.prod(sizes)


def rule_rows() -> list[Row]:
    """Compare the time with each rule and without; notes have memory and work."""
    here = (default - ACCELERATORS).fused  # the others apply to nothing on a CPU
    rules = setting(tuple(here), (default["times_one"],))
    return [_row(case) for rule in rules for case in cases(rule)]


def _row(case: Case) -> Row:
    given = arrays(case)
    new, old = case.function(case.without + case.rule), case.function(case.without)
    alike(new(*given), old(*given))
    both = executables(new, old, given)
    if both is not None and text_of(both[0]) == text_of(both[1]):
        return Row(case.what, "", "", 1.0, TIME, "XLA makes the same of both")
    if both is None:
        note = f"with compilations, for {COUNTS} draws of arguments"
        return row(case.what, _over_sizes(case), TIME, note)
    note, accurate = work(*both), case.rule in STABILITY
    if accurate:
        note = f"for accuracy, ulps {_errors(case)}; {note}"
    result = _compared(new, old, given, rounds=9)
    if result.ratio > TIME and not accurate:  # it may be noise
        result = _compared(new, old, given, rounds=setting(41, 9))
    return row(case.what, result, None if accurate else TIME, note)


def _over_sizes(case: Case) -> Comparison:
    """Time new programs and their calls, with several draws of arguments."""
    # Draw both signs, so counts differ if positive numbers are selected.
    draws = [arrays(case, seed, least=-0.9) for seed in range(COUNTS)]

    def turn(rules: Rules) -> Any:
        function = case.function(rules)
        return [function(*given) for given in draws]

    with_rule = case.without + case.rule
    ours, theirs = (lambda: turn(with_rule)), (lambda: turn(case.without))
    return compare(ours, theirs, rounds=setting(9, 2), clock=CPU)


def _errors(case: Case) -> str:
    """Return the largest errors without a rule and with it, as "1e+03 -> 2"."""
    numbers = np.random.default_rng(0).permutation(np.tile(MAGNITUDES, 3))
    pairs = numbers.reshape(-1, 3)
    given = [pairs if v.type.rank == 2 else numbers for v in case.inputs]
    wide = {name: gt.tensor(name, "float64", s) for name, (_, s) in VARIABLES.items()}
    exact = eval(CODE[case.rule.name], {"gt": gt, "np": np} | wide)
    inputs, rules = [wide[v.name] for v in case.inputs], Rules((case.rule,))
    reference = graphc.function(inputs, exact, backend="numpy", rewrites=rules)
    found, least = [], np.finfo("float32").tiny  # XLA takes smaller numbers for zero
    with np.errstate(all="ignore"):
        narrow = [np.asarray(x, "float32") for x in given]
        wanted = reference(*[np.asarray(x, "float64") for x in narrow])
        for rules in (case.without, case.without + case.rule):
            made = np.asarray(case.function(rules)(*narrow)[0], "float64")
            ulp = np.spacing(np.abs(wanted).astype("float32")).astype("float64")
            known = np.isfinite(ulp) & (np.abs(wanted) >= least)
            error = (np.abs(made - wanted) / ulp)[known]
            found.append(f"{np.max(np.where(np.isnan(error), np.inf, error)):.2g}")
    return " -> ".join(found)


def _compared(new: Any, old: Any, given: list[Any], rounds: int) -> Comparison:
    calls = setting(calls_of(lambda: old(*given)), 1)
    ours, theirs = (lambda: new(*given)), (lambda: old(*given))
    return compare(ours, theirs, rounds=rounds, calls=calls, clock=CPU)


def calls_of(run: Any) -> int:
    """Return how many calls make a turn."""
    jax.block_until_ready(run())
    start = CPU()
    jax.block_until_ready([run() for _ in range(3)])
    return max(1, min(300, int(3 * CALL / (CPU() - start + 1e-6))))


def alike(new: Sequence[Any], old: Sequence[Any]) -> None:
    """Assert that both are the same, up to rounding of the largest elements."""
    for a, b in zip(new, old, strict=True):
        x, y = np.asarray(a), np.asarray(b)
        assert x.dtype == y.dtype and x.shape == y.shape
        finite = np.abs(y[np.isfinite(y)]) if y.size else np.zeros(1)
        scale = float(finite.max(initial=0)) + 1
        np.testing.assert_allclose(x, y, atol=2e-3 * scale, rtol=2e-3)


def executables(new: Any, old: Any, given: list[Any]) -> list[Any] | None:
    """Return the executables of both, if each is one program."""
    try:
        return [f.compiled(*given) for f in (new, old)]
    except graphc.GraphError:
        return None


def text_of(compiled: Any) -> str:
    """Return an executable's text, without names of modules and lines of programs."""
    _, _, text = compiled.as_text().partition("\n")
    return re.sub(r", metadata=\{[^}]*\}|HloModule[^\n]*", "", text)


def work(new: Any, old: Any) -> str:
    """Compare memory and floating-point operations with the rule and without it."""
    bytes_, flops = ([of(f) for f in (new, old)] for of in (_bytes, _flops))
    more = (bytes_[0] - bytes_[1]) / 2**20
    loses = f" LOSES {more:.2g} MiB" * loses_memory(new, old)
    return f"memory {_ratio(*bytes_):.2f}{loses}, operations {_ratio(*flops):.2f}"


def loses_memory(new: Any, old: Any) -> bool:
    """Whether the first takes more memory than a rule may cost."""
    ours, theirs = _bytes(new), _bytes(old)
    return ours > MEMORY * theirs and ours - theirs > SLACK


def _ratio(a: float, b: float) -> float:
    return a / b if b else float(a > 0) + 1.0


def _bytes(compiled: Any) -> float:
    """Return the bytes that a program takes beside its arguments."""
    found = compiled.memory_analysis()
    return float(found.temp_size_in_bytes + found.output_size_in_bytes)


def _flops(compiled: Any) -> float:
    """Return the floating-point operations that XLA counts, transcendental ones too."""
    found = compiled.cost_analysis() or {}
    return float(found.get("flops", 0.0)) + float(found.get("transcendentals", 0.0))
