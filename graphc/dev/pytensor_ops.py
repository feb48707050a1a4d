"""The text of docs/pytensor_ops.md: every Op of PyTensor that has a conversion.

Run `python -m graphc.dev regenerate pytensor-ops` after adding a conversion; a test
compares the file.
"""

import graphc.pytensor  # noqa: F401  (lets the conversions join)
from graphc.pytensor.registry import RULES, ConvertOp

TESTS = {  # the family of samples in tests/pytensor/samples.py, by module
    "arrays": "arrays",
    "control": "control",
    "elemwise": "elementwise",
    "linalg": "algebra",
    "reductions": "reductions",
    "scan": "loops",
    "subtensor": "parts",
}
HEAD = """\
# Ops of PyTensor that are compiled

Written by `python -m graphc.dev regenerate pytensor-ops`.

Ops are named by their classes, whichever version of PyTensor has them; subclasses
within PyTensor are converted as their bases are, to functions of graphc, which run on
both backends. Each is compared with PyTensor's in `tests/pytensor/test_ops.py`, by the
samples of a family, and so are gradients, PyTensor's and ours: all families on NumPy,
loops, control flow and indexing on JAX too. Scalar functions are compared by dtypes and
special values in `tests/pytensor/test_scalar_ops.py`. All other Ops are performed by
PyTensor, on the host. PyMC has a few Ops of its own: `I0e`, `I1e` and `SplineWrapper`
are among these.

| module | samples | Ops |
|---|---|---|
"""


def module_of(rule: ConvertOp) -> str:
    """The module of graphc.pytensor that defines a conversion."""
    return rule.__module__.rpartition(".")[2]


def text() -> str:
    """The text of docs/pytensor_ops.md."""
    rows = []
    for module, samples in TESTS.items():
        names = sorted(n for n, rule in RULES.items() if module_of(rule) == module)
        listed = ", ".join(f"`{n}`" for n in names)
        rows.append(f"| `{module}` | {samples} | {listed} |\n")
    assert {module_of(rule) for rule in RULES.values()} == set(TESTS)
    return HEAD + "".join(rows)
