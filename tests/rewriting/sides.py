"""Both sides of a rewrite: texts before and after, and values on both backends."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.ir.text.printer import to_text
from graphc.rewrites import Rules, none
from graphc.rewriting.default import DEFAULT
from graphc.rewriting.engine.fixpoint import rewritten

Build = Callable[..., Any]
Shape = tuple[Any, ...]


def variables(shapes: Mapping[str, Shape], dtypes: Any) -> list[Any]:
    """A variable for each shape; `dtypes` is one dtype for all, or one by name."""
    return [gt.tensor(k, _dtype(k, dtypes), shape) for k, shape in shapes.items()]


def _dtype(name: str, dtypes: Any) -> str:
    """The dtype of one of the variables; `i` always holds positions."""
    if isinstance(dtypes, dict):
        return dtypes[name]
    return "int64" if name == "i" else dtypes


def before_after(
    build: Build,
    shapes: Mapping[str, Shape],
    dtypes: Any = "float32",
    rules: Rules = DEFAULT,
) -> tuple[str, str]:
    """The nodes before and after the rewrite, one per line, without names of inputs."""
    inputs = variables(shapes, dtypes)
    graph = Graph(tuple(inputs), (build(*inputs),), tuple(shapes), ("",))
    return _nodes(graph), _nodes(rewritten(graph, rules).graph)


def _nodes(graph: Graph) -> str:
    lines = to_text(graph).splitlines()[1:-2]
    return "\n".join(line.strip() for line in lines)


def rules_used(
    build: Build,
    shapes: Mapping[str, Shape],
    dtypes: Any = "float32",
    rules: Rules = DEFAULT,
) -> set[str]:
    """The names of the rules that apply."""
    inputs = variables(shapes, dtypes)
    graph = Graph(tuple(inputs), (build(*inputs),), tuple(shapes), ("",))
    return {a.rule.name for a in rewritten(graph, rules).log}


def agree(
    build: Build,
    shapes: Mapping[str, Shape],
    arrays: list[list[np.ndarray]],
    rtol: float = 1e-9,
    rules: Rules = DEFAULT,
) -> None:
    """Check that values with rules, on both backends, are NumPy's without rules.

    They agree up to `rtol`, with NaN and infinities in the same places; or both raise
    the same error. JAX compiles for each shape, so it gets only the first and last
    shapes.
    """
    dtypes = {k: a.dtype.name for k, a in zip(shapes, arrays[0], strict=True)}
    inputs = variables(shapes, dtypes)
    y = build(*inputs)
    for backend in ("numpy", "jax"):
        if backend == "jax":
            ends = _shapes(arrays[0]), _shapes(arrays[-1])
            arrays = [given for given in arrays if _shapes(given) in ends]
        expected = _outcomes(inputs, y, arrays, "numpy", none)
        if backend == "jax" and any(value is None for value in expected):
            expected = _outcomes(inputs, y, arrays, "jax", none)  # other errors
        values = _outcomes(inputs, y, arrays, backend, rules)
        for new, old in zip(values, expected, strict=True):
            _same(new, old, rtol)


def _shapes(arrays: list[np.ndarray]) -> list[tuple[int, ...]]:
    return [array.shape for array in arrays]


def _outcomes(
    inputs: list[Any],
    y: Any,
    arrays: list[list[np.ndarray]],
    backend: str,
    rules: Rules,
) -> list[Any]:
    """The values of one function for each list of arrays; None where it raises."""
    f = graphc.function(inputs, y, backend=backend, rewrites=rules)
    return [_outcome(f, given) for given in arrays]


def _outcome(f: Any, given: list[np.ndarray]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(f(*given))
    except graphc.GraphError:
        return None


def _same(new: Any, old: Any, rtol: float) -> None:
    assert (new is None) == (old is None), (new, old)
    if old is None:
        return
    assert new.dtype == old.dtype and new.shape == old.shape
    wide = "complex128" if old.dtype.kind == "c" else "float64"
    new, old = new.astype(wide), old.astype(wide)
    scale = np.abs(old[np.isfinite(old)]).max(initial=1.0)
    np.testing.assert_allclose(new, old, rtol=rtol, atol=rtol * scale)


def made(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Numbers of both signs, different for each shape and seed."""
    rng = np.random.default_rng((seed, *shape, len(shape)))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    found = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.normal(size=shape)
    return found.astype(dtype)


def arrays_of(
    shapes: Mapping[str, Shape], sizes: Mapping[str, int], dtypes: Any = "float64"
) -> list[np.ndarray]:
    """Arrays of these shapes, with the given sizes for the symbolic ones."""
    return [
        made(tuple(sizes.get(n, n) for n in shape), _dtype(name, dtypes), seed)
        for seed, (name, shape) in enumerate(shapes.items())
    ]
