"""`graphc doctor`: versions, devices, the cache, and a few programs that must run."""

import importlib.metadata
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import graphc
import graphc.tensor as gt

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "pytensor", "pymc", "safetensors")


@dataclass(frozen=True)
class Finding:
    """One line of the report: a subject, whether it is in order, and a remark."""

    subject: str
    ok: bool
    remark: str

    def __str__(self) -> str:
        return f"{'ok' if self.ok else 'FAULT':6}{self.subject}: {self.remark}"


def make_findings() -> Iterator[Finding]:
    """Yield each finding as it is made: versions first, the test programs last."""
    yield Finding("python", True, f"{platform.python_version()} on {platform.system()}")
    yield Finding("graphc", True, graphc.__version__)
    for package in PACKAGES:
        yield Finding(package, True, _version(package))
    yield Finding("devices", True, ", ".join(map(str, jax.devices())))
    yield _cache()
    for name, test in TESTS.items():
        yield _run_test(name, test)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cache() -> Finding:
    path = graphc.config.cache_dir
    if path is None:
        remark = "none: set GRAPHC_CACHE_DIR to keep programs for the next process"
        return Finding("cache", True, remark)
    folder = Path(path)
    nearest = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        return Finding("cache", False, f"{path} cannot be written")
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    return Finding("cache", True, f"{path}, {size / 2**20:.1f} MiB")


def _run_test(name: str, test: Callable[[], None]) -> Finding:
    start = time.perf_counter()
    try:
        test()
    except ModuleNotFoundError as error:  # of an extra: the required ones are there
        return Finding(name, True, f"left out: {error}")
    except Exception as error:  # whatever a broken installation raises
        return Finding(name, False, f"{type(error).__name__}: {error}")
    return Finding(name, True, f"{time.perf_counter() - start:.1f} s")


def _program(**options: Any) -> Any:
    x = gt.tensor("x", "float32", ("n",))
    return graphc.function([x], gt.sum(gt.tanh(x) ** 2), **options)


def _require_equal(got: object, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5, atol=1e-6)


def _padded() -> None:
    padded = _program(dims="pad")
    for size in (0, 1, 5, 17):
        x = np.linspace(-1, 1, size, dtype="float32")
        _require_equal(padded(x), np.sum(np.tanh(x) ** 2))


def _both_backends() -> None:
    x = np.linspace(-2, 2, 9, dtype="float32")
    _require_equal(_program(backend="numpy")(x), _program()(x))


def _gradient() -> None:
    x = gt.tensor("x", "float32", ("n",))
    gradient = graphc.function([x], graphc.grad(gt.sum(gt.sin(x)), x))
    numbers = np.linspace(-2, 2, 7, dtype="float32")
    _require_equal(gradient(numbers), np.cos(numbers))


def _data_dependent() -> None:
    x = gt.tensor("x", "float32", ("n",))
    positive = graphc.function([x], gt.sort(x[x > 0]))
    _require_equal(positive(np.array([3, -1, 2], "float32")), [2, 3])


def _jit() -> None:
    square = graphc.jit(lambda x: (x * x).sum())
    for size in (2, 3, 4):
        _require_equal(square(np.ones(size, "float32")), size)


def _file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        _program(dims="pad").export(path, {"n": [3, 20]})
        x = np.ones(5, "float32")
        _require_equal(graphc.load(path)(x), 5 * np.tanh(1) ** 2)


TESTS: dict[str, Callable[[], None]] = {
    "padded program": _padded,
    "NumPy as JAX": _both_backends,
    "gradient": _gradient,
    "size from data": _data_dependent,
    "graphc.jit": _jit,
    "exported file": _file,
}
