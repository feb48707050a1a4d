"""Run samples, many calls in one compiled function.

There is one such function per dtype, backend and kind of shapes. When it fails as a
whole, each call is run by itself.
"""

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir.graph.build import as_value, strong
from graphc.ir.graph.nodes import Value
from graphc.ir.sizes.dims import Dim, evaluate
from graphc.rewrites import none
from tests.samples.spec import Array, Call, Sample

MOST = 150  # outputs of one compiled function
REFUSALS = (TypeError, ValueError, IndexError, NotImplementedError)  # NumPy's


@dataclass
class Trial:
    """One call of one sample with one dtype."""

    sample: Sample
    call: Call
    dtype: str
    expected: list[np.ndarray]
    refused: Exception | None  # what NumPy raised

    def __str__(self) -> str:
        return shown(self.sample, self.call, self.dtype)


def shown(sample: Sample, call: Call, dtype: str) -> str:
    """The call as text for a reader."""
    options = [f"{k}={_shown(v)}" for k, v in call.options.items()]
    args = ", ".join([*map(_shown, call.args), *options])
    return f"{sample.name}({args}) with {dtype}"


def _shown(arg: Any) -> str:
    if isinstance(arg, Array):
        return f"{arg.values}{list(arg.shape)}"
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(map(_shown, arg))}]"
    return repr(arg)


def replaced(arg: Any, make: Any) -> Any:
    """The argument with `make(array)` in place of each array in it."""
    if isinstance(arg, Array):
        return make(arg)
    if isinstance(arg, (list, tuple)):
        return type(arg)(replaced(item, make) for item in arg)
    if isinstance(arg, slice):
        bounds = (arg.start, arg.stop, arg.step)
        return slice(*(replaced(bound, make) for bound in bounds))
    return arg


def flat(result: Any) -> list[Any]:
    """The arrays of a result, which may be nested."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [item for part in result for item in flat(part)]
    return [result]


def applied(function: Any, call: Call, make: Any) -> Any:
    """Call `function` with `make(array)` in place of each array in the arguments."""
    options = {k: replaced(v, make) for k, v in call.options.items()}
    return function(*replaced(call.args, make), **options)


def arrays_in(call: Call) -> list[Array]:
    """The descriptions of arrays in the arguments of a call, in order."""
    found: list[Array] = []
    applied(lambda *args, **options: None, call, found.append)
    return found


def trial(sample: Sample, call: Call, dtype: str, backend: str = "") -> Trial:
    """Run a call on NumPy, with the reference that `backend` is compared with."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            make = lambda spec: spec.make(dtype)
            result = applied(sample.reference(backend), call, make)
        except REFUSALS as error:
            return Trial(sample, call, dtype, [], error)
    return Trial(sample, call, dtype, [np.asarray(r) for r in flat(result)], None)


class Batch:
    """Calls that are compiled together, with their variables."""

    def __init__(
        self, dtype: str, symbolic: bool = False, fixed: Collection[int] = ()
    ) -> None:
        self._dtype = dtype
        self._symbolic = symbolic
        self._fixed = fixed  # sizes that stay numbers even if `symbolic`
        self._variables: dict[tuple[Array, bool], Value] = {}
        self.outputs: dict[str, Value] = {}
        self.trials: list[tuple[Trial, list[str]]] = []
        self.problems: list[str] = []

    @property
    def inputs(self) -> list[Value]:
        """The variables, in the order of their first use."""
        return list(self._variables.values())

    @property
    def arrays(self) -> list[np.ndarray]:
        """An array for each of the variables."""
        return [spec.make(self._dtype) for spec, _ in self._variables]

    def add(self, trial: Trial) -> None:
        """Build one call; where NumPy refuses it, ours must refuse it too."""
        alone = len(arrays_in(trial.call)) == 1
        make = lambda spec: self._variable(spec, alone)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = flat(applied(trial.sample.function(), trial.call, make))
                values = [strong(as_value(v)) for v in made]
        except graphc.GraphError as error:
            if trial.refused is None:
                self._problem(trial, f"raises {error}")
            return
        except Exception as error:
            self._problem(trial, f"raises {type(error).__name__} {error}")
            return
        if trial.refused is not None:
            if not self._symbolic:
                self._problem(trial, f"is built, NumPy raises {trial.refused}")
            return
        names = [f"{len(self.outputs) + i}" for i in range(len(values))]
        self.outputs |= dict(zip(names, values, strict=True))
        self.trials.append((trial, names))

    def _problem(self, trial: Trial, text: str) -> None:
        kind = "symbolic" if self._symbolic else "static"
        self.problems.append(f"{trial}, {kind}: {text}")

    def _variable(self, spec: Array, alone: bool) -> Value:
        """The variable for an array; its sizes are symbolic if the batch is."""
        key = spec, alone
        if key not in self._variables:
            sizes = [self._size(n, alone) for n in spec.shape]
            name = f"x{len(self._variables)}"
            dtype = spec.dtype or self._dtype
            self._variables[key] = gt.tensor(name, dtype, sizes)
        return self._variables[key]

    def _size(self, n: int, alone: bool) -> int | str:
        """Name a size, but not a 1 where arrays meet: only a literal 1 broadcasts."""
        named = self._symbolic and n not in self._fixed
        return f"size{n}" if named and (n != 1 or alone) else n

    def run(self, backend: str, compiled: Any = None) -> None:
        """Compile, call, and compare the results with NumPy's.

        `compiled` makes the function. By default that is `graphc.function`; on NumPy it
        leaves out the rewrites, so that no rule hides what an op does.
        """
        if not self.outputs:
            return
        inputs, arrays = self.inputs, self.arrays
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = partial(graphc.function, rewrites=none)
            make = compiled or (plain if backend == "numpy" else graphc.function)
            found = make(inputs, self.outputs, backend=backend)(*arrays)
        sizes = {
            n.symbols[0]: actual
            for value, array in zip(inputs, arrays, strict=True)
            for n, actual in zip(value.type.shape, array.shape, strict=True)
            if isinstance(n, Dim)
        }
        for trial, names in self.trials:
            got = [np.asarray(found[name]) for name in names]
            values = [self.outputs[name] for name in names]
            text = _differences(trial, got, backend) or _type_errors(values, got, sizes)
            if text:
                self._problem(trial, f"{backend}: {text}")


def _differences(trial: Trial, got: list[np.ndarray], backend: str) -> str:
    """Describe what is wrong with a result; "" if nothing is."""
    alike = backend not in trial.sample.differs
    ulps = trial.sample.looser.get(backend, trial.sample.ulps)
    if len(got) != len(trial.expected):
        return f"{len(got)} results, not {len(trial.expected)}"
    for x, y in zip(got, trial.expected, strict=True):
        if x.shape != y.shape:
            return f"shape {x.shape}, not {y.shape}"
        if x.dtype != y.dtype and trial.sample.exact_dtype:
            return f"dtype {x.dtype}, not {y.dtype}"
        if alike and not close(x, y, ulps):
            wrong = np.flatnonzero(~_near(x, y, ulps).ravel())[:4]
            return f"{x.ravel()[wrong]}, not {y.ravel()[wrong]}, at {wrong}"
    return ""


def close(x: np.ndarray, y: np.ndarray, ulps: float) -> bool:
    """Whether arrays are equal, or within rounding if inexact; NaNs are equal."""
    return bool(_near(x, y, ulps).all())


def _near(x: np.ndarray, y: np.ndarray, ulps: float) -> np.ndarray:
    if y.dtype.kind in "biu":
        return x == y
    eps = ulps * float(np.finfo(y.dtype).eps)
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    x, y = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(y), min(1.0, _largest(y)))
        near = np.abs(x - y) <= eps * scale
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return same | (near & np.isfinite(y))


def _largest(y: np.ndarray) -> float:
    finite = np.abs(y[np.isfinite(y)])
    return float(finite.max(initial=0.0))


def _type_errors(values: list[Value], got: list[np.ndarray], sizes: Any) -> str:
    """Describe an inferred type that is wrong; sizes from data are not checked."""
    for value, array in zip(values, got, strict=True):
        if value.dtype != array.dtype or value.type.rank != array.ndim:
            return f"the inferred type is {value.type}, the result {array.dtype}"
        for n, actual in zip(value.type.shape, array.shape, strict=True):
            known = not isinstance(n, Dim) or set(n.symbols) <= sizes.keys()
            if known and evaluate(n, sizes) != actual:
                return f"the inferred type is {value.type}, the shape {array.shape}"
    return ""


def problems(
    samples: Iterable[Sample],
    dtype: str,
    backend: str,
    symbolic: bool,
    compiled: Any = None,
    fixed: Collection[int] = (),
) -> list[str]:
    """List what is wrong with the samples for one dtype; `fixed` sizes stay numbers."""
    tried = [s for s in samples if dtype in s.dtypes and not (symbolic and s.static)]
    trials = [trial(s, c, dtype, backend) for s in tried for c in s.calls]
    found: list[str] = []
    for start in range(0, len(trials), MOST):
        some = trials[start : start + MOST]
        found += _problems(some, backend, compiled, (dtype, symbolic, fixed))
    return found


def _problems(
    trials: list[Trial],
    backend: str,
    compiled: Any,
    how: tuple[str, bool, Collection[int]],
) -> list[str]:
    batch = Batch(*how)
    for item in trials:
        batch.add(item)
    try:
        batch.run(backend, compiled)
    except Exception as error:
        if len(trials) == 1:
            shown = f"{type(error).__name__} {error}"
            return [*batch.problems, f"{trials[0]}, {backend}: raises {shown}"]
        half = len(trials) // 2
        return [
            problem
            for part in (trials[:half], trials[half:])
            for problem in _problems(part, backend, compiled, how)
        ]
    return batch.problems
