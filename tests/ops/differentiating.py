"""Derivatives of sample calls, found in several ways that must agree.

For a call, `cost` is a sum of its results with weights. Its gradient is compared with
central differences of the cost along a direction, with JAX's gradient of the emitted
JAX program, and with the Jacobian-vector product in that direction; the product of the
Hessian with it is compared with differences of the gradient. Many calls are compiled
together; where such a program fails as a whole, each is run by itself.
"""

import operator
import warnings
import zlib
from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Value
from graphc.ir.graph.walk import ancestors
from graphc.ir.types import is_inexact
from graphc.rewrites import default, none
from tests.ops.exempting import Exemptions, elsewhere, exempted
from tests.ops.points import Point
from tests.ops.sampling import flat

MOST = 60  # calls in one compiled function
STEP = 2e-5
REFUSAL = "there is no gradient through"
NONE: Exemptions = {}
Found = dict[str, np.ndarray]
Check = Callable[[list["Subject"]], list[str]]


def weighted(outputs: Iterable[Any], namespace: Any = gt) -> Any:
    """The weighted sum of all inexact results; None if there are none."""
    parts = []
    for y in outputs:
        if is_inexact(y.dtype):
            term = namespace.sum(_weights(y, namespace) * y)
            parts.append(namespace.real(term) if y.dtype.kind == "c" else term)
    return reduce(operator.add, parts) if parts else None


def _weights(y: Any, namespace: Any) -> Any:
    """A different number for each element; constants where the shape is known."""
    xp = np if all(isinstance(n, int) for n in y.shape) else namespace
    angle = 1 + 0.7 * xp.arange(y.size, dtype="float64")
    weights = xp.cos(angle)
    if y.dtype.kind == "c":
        weights = weights + 1j * xp.sin(angle)
    return xp.reshape(weights.astype(y.dtype), y.shape)


class Subject:
    """A cost, the values it is differentiated in, and a direction in their space."""

    def __init__(
        self, point: Point, key: str, symbolic: bool = False, only: int | None = None
    ) -> None:
        self.point = point
        self.key = key
        self.only = only  # the one array to differentiate in, the others being constant
        self.variables = point.variables(symbolic, f"x{key}")
        self.outputs = point.outputs(map(_symmetrical, self.variables, point.specs))
        self.cost = weighted(self.outputs)
        self.wrt = [
            i
            for i, v in enumerate(self.variables)
            if is_inexact(v.dtype) and only in (None, i) and self._precise(v)
        ]

    def __str__(self) -> str:
        return str(self.point) + ("" if self.only is None else f", input {self.only}")

    def _precise(self, value: Value) -> bool:
        """Whether `value` is precise enough to be moved by small steps."""
        eps = float(np.finfo(self.point.dtype).eps)
        return float(np.finfo(value.dtype).eps) <= eps

    @property
    def values(self) -> list[Value]:
        """The variables to differentiate in."""
        return [self.variables[i] for i in self.wrt]

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays at which those variables are differentiated."""
        return [self.point.arrays[i] for i in self.wrt]

    @cached_property
    def gradient(self) -> list[Value]:
        """The gradient of the cost."""
        return graphc.grad(self.cost, self.values, disconnected="zero")

    @cached_property
    def eps(self) -> float:
        """The rounding of the least precise value on the way to the cost."""
        inner = [v for node in ancestors([self.cost]) for v in node.outputs]
        kinds = {v.dtype for v in [*inner, *self.values] if is_inexact(v.dtype)}
        return max(float(np.finfo(kind).eps) for kind in kinds)

    @property
    def coarse(self) -> bool:
        """Whether a value on the way is rounded too much to take differences."""
        return self.eps > float(np.finfo(self.point.dtype).eps)

    def unlike(self, exemptions: Exemptions) -> list[np.ndarray]:
        """Masks of the elements at which a table exempts the gradient."""
        masks = exempted(self.point, exemptions)
        return [masks[i] for i in self.wrt]

    def directions(self) -> list[np.ndarray]:
        """A random direction, the same at each call."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [_direction(rng, x) for x in self.arrays]

    def at(self, step: float) -> list[np.ndarray]:
        """The arguments after `step` along the direction."""
        moved = list(self.point.arrays)
        for i, v in zip(self.wrt, self.directions(), strict=True):
            moved[i] = moved[i] + np.asarray(step * v, moved[i].dtype)
        return moved


def _symmetrical(x: Any, spec: Any) -> Any:
    """Make the argument of a function of Hermitian matrices Hermitian."""
    if spec.values != "definite":
        return x
    np = jnp if isinstance(x, jax.Array) else gt
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def _direction(rng: Any, x: np.ndarray) -> np.ndarray:
    v = rng.uniform(0.5, 1, x.shape) * rng.choice([-1, 1], x.shape)
    if x.dtype.kind == "c":
        v = v + 1j * rng.uniform(-1, 1, x.shape)
    return np.asarray(v).astype(x.dtype)


class Made(NamedTuple):
    """The subjects made from some calls, the refusals and the errors."""

    subjects: list[Subject]
    refused: list[tuple[str, str]]  # a function's name, and the message
    problems: list[str]


def subjects(points: Iterable[Point], symbolic: bool = False) -> Made:
    """Make a subject of each call that has something to differentiate."""
    made = Made([], [], [])
    for i, point in enumerate(points):
        _make(made, point, str(i), symbolic)
    return made


def _make(
    made: Made, point: Point, key: str, symbolic: bool, only: int | None = None
) -> None:
    try:
        subject = Subject(point, key, symbolic, only)
        if subject.wrt and subject.cost is not None:
            _ = subject.gradient
            made.subjects.append(subject)
    except graphc.GraphError as error:
        if REFUSAL not in str(error):
            made.problems.append(f"{point}: raises {error}")
            return
        made.refused.append((point.sample.name, str(error)))
        if only is None and len(subject.wrt) > 1:
            for i in subject.wrt:
                _make(made, point, f"{key}of{i}", symbolic, i)
    except Exception as error:
        made.problems.append(f"{point}: raises {type(error).__name__} {error}")


# The values that are computed.


def _pushed(subject: Subject) -> Value | None:
    """The cost of the Jacobian-vector products, taken in place of the results."""
    smooth = [y for y in subject.outputs if is_inexact(y.dtype)]
    tangents = [gt.asarray(v) for v in subject.directions()]
    return weighted(graphc.jvp(smooth, subject.values, tangents))


def _second(subject: Subject) -> list[Value]:
    tangents = [gt.asarray(v) for v in subject.directions()]
    return graphc.hvp(subject.cost, subject.values, tangents)


class Program:
    """The cost and derivatives of many calls, compiled together."""

    def __init__(self, made: list[Subject], second: bool, backend: str) -> None:
        self.subjects = made
        outputs: dict[str, Value] = {}
        for s in made:
            outputs[f"{s.key} cost"] = s.cost
            outputs |= _numbered(f"{s.key} grad", s.gradient)
            if second:
                outputs[f"{s.key} jvp"] = _pushed(s)
                outputs |= _numbered(f"{s.key} hvp", _second(s))
        inputs = [v for s in made for v in s.variables]
        self._run = compiled(inputs, outputs, backend)

    def at(self, step: float = 0) -> Found:
        """Return all results at `step` along the directions."""
        arrays = [x for s in self.subjects for x in s.at(step)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = self._run(*arrays)
        return {key: np.asarray(value) for key, value in found.items()}


def _numbered(key: str, values: Iterable[Value]) -> dict[str, Value]:
    return {f"{key} {i}": v for i, v in enumerate(values)}


def compiled(inputs: list[Value], outputs: Any, backend: str) -> graphc.function:
    """Compile a function that may have unused inputs; on NumPy, without rewrites."""
    rules = none if backend == "numpy" else default
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return graphc.function(inputs, outputs, backend=backend, rewrites=rules)


def listed(key: str, found: Found) -> list[np.ndarray]:
    """The numbered results of one key, in order."""
    return [v for k, v in found.items() if k.rpartition(" ")[0] == key]


# The comparisons.


def by_differences(made: list[Subject], second: bool = True) -> list[str]:
    """List the derivatives that disagree with differences or with each other.

    With `second`, the products with the Jacobian and the Hessian are tried too.
    """
    made = [s for s in made if not s.coarse]
    program = Program(made, second, backend="numpy")
    steps = (-2, -1, 0, 1, 2)
    found = {step: program.at(step * STEP) for step in steps}
    problems = []
    for s in made:
        texts = _differences(s, found)
        if second and "the gradient" not in texts:
            texts |= _second_differences(s, found)
        for kind, text in texts.items():
            if text:
                problems.append(f"{s}: {kind} {text}")
    return problems


def _differences(s: Subject, found: dict[int, Found]) -> dict[str, str]:
    here = found[0]
    grads = listed(f"{s.key} grad", here)
    typed = "".join(_misfit(g, x) for g, x in zip(grads, s.arrays, strict=True))
    if typed:
        return {"the gradient": typed}
    along, size = _along(s, grads)
    slope = _slope(f"{s.key} cost", found)
    return {"the gradient along a direction": _apart(along, slope, 1e-6 * size)}


def _second_differences(s: Subject, found: dict[int, Found]) -> dict[str, str]:
    here = found[0]
    defined = np.isfinite(here[f"{s.key} cost"])
    along, size = _along(s, listed(f"{s.key} grad", here))
    return {
        "the product with the Jacobian": _apart(
            here[f"{s.key} jvp"], along if defined else np.nan, 1e-10 * size
        ),
        "the product with the Hessian": _second_apart(s, found),
    }


def _along(s: Subject, grads: list[np.ndarray]) -> tuple[Any, Any]:
    """The slope along the direction by the gradients, and the size of its terms."""
    pairs = [(g * v).real for g, v in zip(grads, s.directions(), strict=True)]
    return sum(map(np.sum, pairs)), sum(np.abs(p).sum() for p in pairs)


def _second_apart(s: Subject, found: dict[int, Found]) -> str:
    texts = []
    for i in range(len(s.wrt)):
        product = found[0][f"{s.key} hvp {i}"]
        key = f"{s.key} grad {i}"
        size = max(_largest(product), _largest(found[0][key]))
        texts.append(_apart(product, _slope(key, found), 1e-5 * size))
    return "".join(texts)


def _slope(key: str, found: dict[int, Found]) -> np.ndarray:
    """The derivative along the direction by differences of fourth order in the step."""
    with np.errstate(all="ignore"):
        near = found[1][key] - found[-1][key]
        far = found[2][key] - found[-2][key]
        return (8 * near - far) / (12 * STEP)


def _misfit(found: np.ndarray, x: np.ndarray) -> str:
    if found.shape == x.shape and found.dtype == x.dtype:
        return ""
    return f"is {found.dtype}{found.shape}, not {x.dtype}{x.shape}; "


def _largest(x: np.ndarray) -> float:
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


def _apart(got: Any, expected: Any, tolerance: float) -> str:
    """Describe what differs, "" if nothing does.

    Where no finite number is expected, everything is right.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    with np.errstate(all="ignore"):
        near = np.abs(got - expected) <= tolerance + 1e-8
    wrong = np.flatnonzero(~(near | ~np.isfinite(expected)).ravel())[:4]
    if not wrong.size:
        return ""
    return f"is {got.ravel()[wrong]}, not {expected.ravel()[wrong]}, at {wrong}; "


# JAX's derivatives of our programs.


def by_jax(made: list[Subject], exemptions: Exemptions = NONE) -> list[str]:
    """List the gradients that differ from JAX's gradients of the same program.

    Ours are computed on NumPy, except for functions whose values differ between
    backends on purpose (NumPy draws other gamma variates): those run on JAX.
    """
    with jax.enable_x64(True):
        expected = _by_jax(made)
    problems = []
    for backend in ("numpy", "jax"):
        alone = backend == "jax"
        kept = [s for s in made if bool(s.point.sample.differs) is alone]
        kept = [s for s in kept if s.key in expected]
        found = Program(kept, second=False, backend=backend).at() if kept else {}
        for s in kept:
            theirs = elsewhere(expected[s.key], s.unlike(exemptions))
            text = agreement(listed(f"{s.key} grad", found), theirs, s.eps)
            if text:
                problems.append(f"{s}: JAX differs: the gradient {text}")
    return problems


def _by_jax(made: list[Subject]) -> dict[str, list[np.ndarray]]:
    """JAX's gradients by key, without those that JAX itself cannot compute."""
    try:
        return _gradients_by_jax(made)
    except Exception:
        if len(made) == 1:
            return {}
        half = len(made) // 2
        return _by_jax(made[:half]) | _by_jax(made[half:])


def _gradients_by_jax(made: list[Subject]) -> dict[str, list[np.ndarray]]:
    inputs = [v for s in made for v in s.variables]
    arrays = [x for s in made for x in s.point.arrays]
    smooth = [i for i, x in enumerate(arrays) if x.dtype.kind in "fc"]
    program = compiled(inputs, [s.cost for s in made], "jax").jax_callable

    def total(given: list[Any]) -> Any:
        args = list(arrays)
        for i, x in zip(smooth, given, strict=True):
            args[i] = x
        return sum(flat(program(*args)))

    gradients = quickly(jax.grad(total), [arrays[i] for i in smooth])
    found = dict(zip(smooth, gradients, strict=True))
    expected, start = {}, 0
    for s in made:
        expected[s.key] = [np.asarray(found[start + i]) for i in s.wrt]
        start += len(s.variables)
    return expected


def agreement(
    got: list[np.ndarray],
    expected: list[np.ndarray],
    rounding: float,
    ulps: float = 2.0**16,
) -> str:
    """Describe where gradients differ; where NaN is expected, any number may stand."""
    texts = []
    for g, e in zip(got, expected, strict=True):
        eps = rounding * ulps
        with np.errstate(all="ignore"):
            scale = np.maximum(np.abs(e), min(1.0, _largest(e)))
            same = (g == e) | np.isnan(e) | (np.abs(g - e) <= eps * scale + eps * 1e-4)
        wrong = np.flatnonzero(~same.ravel())[:4]
        if wrong.size:
            shown = f"is {g.ravel()[wrong]}, not {e.ravel()[wrong]}, at {wrong}; "
            texts.append(shown)
        texts.append(_misfit(g, e))
    return "".join(texts)


# JAX's derivatives of its own functions of the same names.


def of_jax(name: str) -> Callable[..., Any] | None:
    """JAX's function of the same name; None if there is none."""
    for module in (jnp, jax.scipy, jax):
        found: Any = module
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found
    return None


def by_name(made: list[Subject], exemptions: Exemptions = NONE) -> list[str]:
    """List gradients that differ from those of JAX's functions, special values too."""
    with jax.enable_x64(True):
        costs = {s: cost for s in made if (cost := _cost_by_name(s)) is not None}
        gradients = _compiled_gradients(costs) if costs else []
    if not costs:
        return []
    found = Program(list(costs), second=False, backend="numpy").at()
    problems = []
    for s, theirs in zip(costs, gradients, strict=True):
        expected = elsewhere(theirs, list(map(np.isnan, s.arrays)))  # NaN: no slope
        expected = elsewhere(expected, s.unlike(exemptions))
        text = agreement(listed(f"{s.key} grad", found), expected, s.eps)
        if text:
            problems.append(f"{s}: jax.numpy differs: the gradient {text}")
    return problems


def _cost_by_name(s: Subject) -> Callable[..., Any] | None:
    """The cost computed by JAX's function of the same name.

    None if JAX has no such function, if it does not take these arguments, or if it has
    no gradient.
    """
    function = None if s.point.sample.ours else of_jax(s.point.sample.name)
    if function is None:
        return None

    def cost(given: list[Any]) -> Any:
        args: list[Any] = list(s.point.arrays)
        for i, x in zip(s.wrt, given, strict=True):
            args[i] = x
        args = list(map(_symmetrical, map(jnp.asarray, args), s.point.specs))
        return weighted(map(jnp.asarray, flat(s.point.applied(function, args))), jnp)

    try:
        jax.eval_shape(jax.grad(cost), s.arrays)
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        return None
    return cost


def _compiled_gradients(costs: dict[Subject, Callable[..., Any]]) -> list[Any]:
    """JAX's gradients of all costs, computed by one program."""

    def total(given: list[list[Any]]) -> Any:
        return sum(cost(x) for cost, x in zip(costs.values(), given, strict=True))

    found = quickly(jax.grad(total), [s.arrays for s in costs])
    return [list(map(np.asarray, part)) for part in found]


def quickly(function: Callable[..., Any], argument: Any) -> Any:
    """Return the result of a function that is jitted for one run only."""
    lowered = jax.jit(function).lower(argument)
    return lowered.compile({"xla_backend_optimization_level": 0})(argument)


# Many calls at once.


def checked(made: list[Subject], check: Check) -> list[str]:
    """List the problems that `check` finds in many calls, `MOST` at a time."""
    found: list[str] = []
    for start in range(0, len(made), MOST):
        found += _checked(made[start : start + MOST], check)
    return found


def _checked(made: list[Subject], check: Check) -> list[str]:
    try:
        return check(made)
    except Exception as error:
        if len(made) == 1:
            return [f"{made[0]}: raises {type(error).__name__} {error}"]
        half = len(made) // 2
        return _checked(made[:half], check) + _checked(made[half:], check)
