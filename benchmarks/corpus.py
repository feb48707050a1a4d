"""Programs of many kinds, with arguments long enough to measure something.

There are op families and their gradients; the catalogue of programs with varying
shapes, which tests/conformance compares with NumPy; random programs of tests/fuzz, with
gradients and loops; and all programs that the scripts in examples/ compile and call.
"""

import contextlib
import importlib
import io
import runpy
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import graphc
import graphc.tensor as gt
from benchmarks.families import FAMILIES
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.sizes.dims import Dim, Size, substitute
from tests.conformance.cases import CASES
from tests.conformance.programs import PROGRAMS
from tests.fuzz.generator import generate
from tests.fuzz.loop_steps import LOOPS, REDUCTIONS
from tests.fuzz.more_steps import MORE
from tests.fuzz.rewritable_steps import REWRITABLE

EXAMPLES = Path(__file__).parents[1] / "examples"
COMPILING = ("graphc", "graphc.runtime.ragged", "graphc.importers.jax.call.program")
FACTORS = (250_000, 50_000, 10_000, 2000, 500, 100, 25, 5, 1)
MOST = 2_000_000  # elements of a value, at most
STEPS = 2000  # steps of a loop, at most
LOOP = ("scan", "while_loop", "doubling_scan")
Rows = tuple[int, ...]


class Program(NamedTuple):
    """Inputs, outputs, arguments, and options of compilation besides the rewrites."""

    name: str
    inputs: Any
    outputs: Any
    arrays: list[Any]
    options: dict[str, Any]


SPECIALIZED = {"dims": "specialize", "unused": "ignore"}


def with_gradients(inputs: list[Value], outputs: list[Value]) -> list[Value]:
    """Return the outputs, and the gradients of their squares' sum if there are any."""
    floats = [y for y in outputs if y.dtype.kind == "f"]
    own = [x for x in inputs if x.dtype.kind == "f"]
    if not floats or not own:
        return outputs
    total = sum(gt.sum(gt.square(y)).astype("float32") for y in floats)
    try:
        return [*outputs, *graphc.grad(total, own)]
    except graphc.GraphError:  # some op has no gradient
        return outputs


def families() -> Iterator[Program]:
    """Yield each op of each family on few, some and many elements."""
    rng = np.random.default_rng(0)
    for n in (100, 10_000, 1_000_000):
        shapes = (n,), (round(n**0.5), round(n**0.5))
        arrays = [rng.normal(size=s).astype("float32") for s in shapes]
        for name, call in [(k, c) for f in FAMILIES.values() for k, c in f.items()]:
            inputs = [
                gt.tensor("x", "float32", ("n",)),
                gt.tensor("m", "float32", ("r", "c")),
            ]
            if name == "reshape" and n % 1000:
                continue
            y = with_gradients(inputs, [call(gt, *inputs)])
            yield Program(f"{name}, {n:,}", inputs, y, arrays, SPECIALIZED)


def catalogue() -> Iterator[Program]:
    """Yield the catalogue's cases as they are, and with axes many times as long."""
    for name, case in CASES.items():
        if case.check != "value" or name not in PROGRAMS:
            continue
        inputs = [gt.tensor(*declared) for declared in case.inputs]
        made = PROGRAMS[name](*inputs)
        outputs = list(made) if isinstance(made, tuple) else [made]
        given = case.make(np.random.default_rng(0))[0]

        longer = _longer(inputs, given)
        for y in (outputs, with_gradients(inputs, outputs)[len(outputs) :]):
            if y:
                what = name if y is outputs else f"gradient of {name}"
                yield from _at_length(what, inputs, y, longer)


def _longer(inputs: list[Value], given: Any) -> Callable[[int], list[np.ndarray]]:
    """Return a function that makes the symbolic axes `factor` times as long."""

    def longer(factor: int) -> list[np.ndarray]:
        return [
            _repeated(x, np.asarray(a), factor)
            for x, a in zip(inputs, given, strict=True)
        ]

    return longer


def _repeated(x: Value, array: np.ndarray, factor: int) -> np.ndarray:
    """Return an argument whose symbolic axes are `factor` times as long."""
    for axis, size in enumerate(x.type.shape):
        if not isinstance(size, int):
            array = np.concatenate([array] * factor, axis)
    return array


KINDS = (  # more steps, how many steps a program has, and the dtypes of inputs
    ((*MORE, *REWRITABLE * 4), 12, ("float32", "float64", "int32", "bool")),
    (REWRITABLE * 4, 8, ("float32",)),
    (LOOPS * 20, 4, ("float32",)),
    (REDUCTIONS * 20, 4, ("float32",)),
)


def generated(seeds: Iterable[int]) -> Iterator[Program]:
    """Yield a random program for each seed; half of them have gradients too."""
    for seed in seeds:
        more, length, dtypes = KINDS[seed % len(KINDS)]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = generate(seed, more, length, dtypes)
        made = [k.symbolic for k in program.made]
        inside = {x for n in ancestors(made) for x in n.inputs}
        ends = [y for y in made if y not in inside]
        if seed // len(KINDS) % 2:
            ends = with_gradients(program.inputs, ends)
        used = _used(program.inputs, ends)
        if used:
            inputs = [program.inputs[i] for i in used]
            longer = _longer(inputs, [program.arguments[i] for i in used])
            yield from list(_at_length(f"program {seed}", inputs, ends, longer))[-1:]


def _used(inputs: list[Value], ends: list[Value]) -> list[int]:
    """Return the inputs that are used, or that alone have a size that is used."""
    nodes = set(ancestors(ends))
    values = [v for n in nodes for v in n.outputs]
    sizes = frozenset().union(*map(_symbols, values))
    used = [i for i, x in enumerate(inputs) if x.node in nodes]
    missing = sizes.difference(*(_symbols(inputs[i]) for i in used))
    return [i for i, x in enumerate(inputs) if i in used or missing & _symbols(x)]


def _symbols(x: Value) -> frozenset[Any]:
    """Return the symbols in the sizes of a value."""
    dims = [n for n in x.type.shape if isinstance(n, Dim)]
    return frozenset().union(*(n.symbols for n in dims))


def _at_length(
    name: str,
    inputs: list[Value],
    outputs: list[Value],
    longer: Callable[[int], list[np.ndarray]],
) -> Iterator[Program]:
    """Yield the program on its own arguments, and on the longest that fit."""
    nodes = ancestors(outputs)
    values = [*inputs, *(v for n in nodes for v in n.outputs)]
    loops = any(n.primitive.name in LOOP for n in nodes)
    shapes = [np.shape(a) for a in longer(1)]
    factors = [f for f in FACTORS if _fits(inputs, values, shapes, f, loops)]
    for factor in dict.fromkeys((1, *factors[:1])):
        what = f"{name}, times {factor:,}" if factor > 1 else name
        yield Program(what, inputs, outputs, longer(factor), SPECIALIZED)


def _fits(
    inputs: list[Value],
    values: list[Value],
    shapes: list[Rows],
    factor: int,
    loops: bool,
) -> bool:
    """Whether no value is much too large if axes are `factor` times as long."""
    sizes: dict[Any, int] = {}
    for x, shape in zip(inputs, shapes, strict=True):
        for size, n in zip(x.type.shape, shape, strict=True):
            if isinstance(size, Dim):
                sizes |= dict.fromkeys(size.symbols, n * factor)
    if loops and max(sizes.values(), default=0) > STEPS:
        return False

    def known(size: Size) -> int:
        if not isinstance(size, Dim):
            return size
        found = substitute(size, {s: sizes.get(s, 4) for s in size.symbols})
        return found if isinstance(found, int) else 1

    most = max(float(np.prod([known(n) for n in v.type.shape])) for v in values)
    return most <= MOST


def examples() -> Iterator[Program]:
    """Yield the programs that the scripts compile for JAX, with their arguments."""
    for path in sorted(EXAMPLES.glob("*.py")):
        made: list[_Recorded] = []

        def recording(*args: Any, made: Any = made, **options: Any) -> Any:
            made.append(_Recorded(graphc_function(*args, **options), args, options))
            return made[-1]

        graphc_function = graphc.function
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            for name in COMPILING:
                module = importlib.import_module(name)
                stack.enter_context(mock.patch.object(module, "function", recording))
            try:
                runpy.run_path(str(path))["main"]()
            except ImportError:  # the script's package is not installed
                continue
        for number, each in enumerate(made):
            if each.given is not None and each.options.get("backend") != "numpy":
                options = {k: v for k, v in each.options.items() if k != "rewrites"}
                name = f"{path.stem}, {number}"
                yield Program(name, *each.args[:2], each.given, options)


class _Recorded:
    """A compiled function that remembers the arguments of its last call."""

    def __init__(self, function: Any, args: Any, options: dict[str, Any]) -> None:
        self._function, self.args, self.options = function, args, options
        self.given: Any = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        if not named:
            self.given = list(args)
        return self._function(*args, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)
