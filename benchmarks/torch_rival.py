"""PyTorch's side of `benchmarks.lengths`, if it is installed: `pip install torch`.

PyTorch has no stable scan, so the GRU is left out.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

try:
    import torch
except ImportError:  # an optional rival, whose rows are left out
    torch = None

Array = Any


def _moments(x: Array) -> Array:
    parts = [x.mean(), x.var(correction=0), x.max(), torch.logsumexp(x, 0)]
    return torch.stack(parts)


def _entropy(x: Array) -> Array:
    return (torch.logsumexp(x, 1) - x[:, 0]).mean()


def _attention(x: Array) -> Array:
    return (torch.softmax(x @ x.T, -1) @ x).sum(0)


def _determinant(x: Array) -> Array:
    kernel = torch.exp(-0.5 * (x[:, None] - x) ** 2) + 0.1 * torch.eye(x.shape[0])
    return 2 * torch.log(torch.diagonal(torch.linalg.cholesky(kernel))).sum()


def _median(x: Array) -> Array:
    ordered, n = torch.sort(x)[0], x.shape[0]
    return 0.5 * (ordered[(n - 1) // 2] + ordered[n // 2])


def _convolution(x: Array) -> Array:
    taps = torch.tensor([[[0.2, 0.3, 0.5, 0.3, 0.2]]])
    found = torch.nn.functional.conv1d(x[None, None], taps, padding="same")
    return (found**2).sum()


PROGRAMS: dict[str, Callable[[Array], Array]] = {
    "likelihood sum": lambda x: (-0.5 * x**2 - 0.9).sum(),
    "mean, var, max, logsumexp": _moments,
    "cross-entropy": _entropy,
    "attention": _attention,
    "GP log determinant": _determinant,
    "median": _median,
    "convolution, squared": _convolution,
}


def compiled(name: str) -> Callable[[Array], Array] | None:
    """Compile a program of NumPy arrays; None without PyTorch, or if it has none."""
    if torch is None or name not in PROGRAMS:
        return None
    program = torch.compile(PROGRAMS[name], dynamic=True)

    def call(x: Array) -> Array:
        with torch.no_grad():
            return np.asarray(program(torch.from_numpy(x)))

    return call
