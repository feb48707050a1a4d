"""Programs near those that rules are written for: rules do not change their results.

`GRAPHC_NEAR=100 pytest tests/rewriting/test_near.py` tests 100 of each form.
"""

import os
import re
import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.checking.compare import are_close
from graphc.ir.graph.nodes import Value
from graphc.rewrites import Rules, everything, none
from tests.rewriting.near import changed
from tests.rewriting.sides import made
from tests.rewriting.written import FAMILIES, SAME, VARIABLES, written_logsumexp

EACH = int(os.environ.get("GRAPHC_NEAR", "2"))
INPUTS = {name: gt.tensor(name, *given) for name, given in VARIABLES.items()}
FUNCTION = re.compile(r"gt(\.[a-z]\w*)+")
FAILED = (  # these failed once, and stay here
    "gt.true_divide(gt.broadcast_to(x[0], x.shape), pairs)",
    "gt.true_divide(gt.broadcast_to(x[-2], x.shape)[1:], y)",
    "(u[:, None] * pairs)[-1] @ w",
    "(lambda a: gt.sum(graphc.grad(gt.sum(gt.take_along_axis(a, gt.zeros((2, 4, 1), "
    "'int64'), -1)), a), -1))(gt.reshape(pairs, (2, 4, 3))[:1])",
)
SOME = "gt.count_nonzero(u > 0)"
CUT = f"u[:{SOME}]"
SYMBOLIC = (  # bounds that may or may not equal the size that is asked for
    *(f"gt.{op}(u)[{n}.shape[0] - 1]" for op in ("sort", "cumsum") for n in "uv"),
    f"gt.sum({CUT}[::gt.max(i) - 2])",
    f"gt.sum({CUT}[:v.shape[0]])",
    f"gt.sum({CUT}[v.shape[0] - 2:])",
    "gt.sum(u[v.shape[0] - 2:][1:])",
    "gt.broadcast_to(w, (4, 3))[v.shape[0] - 1]",
    "(s @ s)[v.shape[0] - 1]",
)
BEYOND = (  # only the last condition keeps rules from these
    *(f"gt.sum({CUT}{part})" for part in ("[-1:]", "[:1]", "[:2]", "[::2]", "[1:0]")),
    *(f"gt.sum({CUT}{part})" for part in ("[1:][::-1]", "[::-1][1:]", "[1:][1:]")),
    f"gt.sum({CUT}[gt.count_nonzero(u > 1):])",
    f"gt.sum({CUT} * {CUT}[::-1])",
    f"gt.sum({CUT}[1:] * {CUT}[1:][::-1])",
    f"gt.sum({CUT}[2:] - {CUT}[1:-1])",
    f"gt.sum(u[{SOME}:][1:])",
    f"gt.sum(u[gt.count_nonzero(u > 1):{SOME}])",
    *(f"gt.sum(x[:{SOME}, {part}])" for part in ("1:", "1", "::-1", "None")),
    f"gt.sum(x[:{SOME}], 1)[::-1]",
    f"gt.sum(gt.sum(x[:{SOME}], 1, keepdims=True) * x[:{SOME}])",
    f"gt.sum({CUT} * gt.sum({CUT}))",
    f"gt.sum({CUT}[:, None] * {CUT})",
    "gt.sum(x[x > 0] * 2, keepdims=True)",
    "gt.sum(x[x[:, 0] > 0, 1])",
    "gt.sum(x[u > 0] * x[u > 0][:, :1], 0)",
    "gt.sum(gt.broadcast_to(u[u > 0], (2, *u[u > 0].shape)), 1)",
    "gt.sum(gt.broadcast_to(u[u > 0], (*u[u > 0].shape, *u[u > 0].shape)), 0)",
    "gt.max(gt.astype(u[u > 0], 'int16'), initial=-9)",
    "gt.max(gt.astype(u[u > 0], 'complex64'))",
    *(f"u.at[u > 0].{how}(u[u > 0] * 2)" for how in ("multiply", "max", "min", "add")),
    *(f"u.at[:{SOME}].{how}({CUT} * 2)" for how in ("multiply", "max", "min")),
    "u.at[u > 0].set(u[u > 0][::-1])",
    "x.at[u > 0, 1].set(u[u > 0])",
    f"u.at[{SOME}:].set(u[:u.shape[0] - {SOME}])",
    "w[i % 2] @ gt.ones((70, 2), 'float32')",
    "table[i % 2] @ table[0]",
    "gt.sum(w[i % 2], 0)",
    "gt.sum(gt.broadcast_to(table[:, None], (2, 4, 8))[i % 2], 0)",
    "gt.sum(gt.astype(table, 'float16')[i % 2], 0)",
    "gt.sum(table[gt.expand_dims(i, 0) % 2], 0)",
    "gt.sum(many[:, None] * table[i % 2] * table[i % 2], 0)",
    "gt.sum(gt.broadcast_to(table[0], (70, 8)) * table[i % 2], 0)",
    f"{SAME}.T @ gt.broadcast_to(many[:, None], (70, 70, 2))",
    f"{SAME} @ gt.broadcast_to(pairs, (8, 8, 3))",
    "(u * w[:1])[gt.nonzero(u > 0)[0]]",
    "gt.argmax(gt.exp(x - y), 1)",
    "gt.argmax(gt.exp(x) / y, 1)",
    "gt.argmax(gt.exp(x) / gt.sum(gt.exp(gt.stack([x, y])), 0), 1)",
    "gt.argmax(gt.exp(x - w), 1)",
    "gt.take(gt.tanh(pairs + w), gt.asarray([0, 2]), 1)",
    "gt.max(gt.tanh(x.reshape(2, -1, 3)), 0, keepdims=True).reshape(-1, 3)",
    "x.at[gt.arange(x.shape[0]) < 3].set(gt.exp(u[gt.arange(x.shape[0]) < 3]))",
    written_logsumexp(0).replace("q, 0.0", "q, np.inf").replace("u[", "(u - np.inf)["),
    written_logsumexp(0).replace("-np.inf", "1e4"),
    written_logsumexp(3).replace(" + v", " * v"),
)
OPTIONS = {"backend": "numpy", "unused": "ignore"}
SIZES = ({"n": 3, "m": 2, "k": 3}, {"n": 1, "m": 4, "k": 2}, {"n": 4, "m": 1, "k": 1})
SPECIAL = 1  # the index of the sizes whose arrays have infinities and NaN


def built(code):
    """The value of some code; None if it is no program."""
    try:
        value = eval(code, {"graphc": graphc, "gt": gt, "np": np} | INPUTS)
    except (graphc.GraphError, TypeError, IndexError, ValueError, AttributeError):
        return None
    return value if isinstance(value, Value) else None


def outcome(f, arguments):
    try:
        return np.asarray(f(*arguments))
    except graphc.GraphError:
        return None


def check(code):
    """Whether a piece of code is a program; its values must be the same with rules."""
    value = built(code)
    if value is None:
        return False
    rules = Rules(tuple(rule for rule in everything if not rule.finite))
    old, *new = (
        graphc.function(list(INPUTS.values()), value, rewrites=r, **OPTIONS)
        for r in (none, everything, rules)
    )
    for seed, sizes in enumerate(SIZES):
        arguments = [_argument(name, sizes, seed) for name in VARIABLES]
        expected = outcome(old, arguments)
        for f, finite in zip(new, (True, False), strict=True):
            if finite and seed == SPECIAL:
                continue
            found = outcome(f, arguments)
            assert (found is None) == (expected is None), (code, sizes)
            if found is not None:
                unit = UNITS[expected.dtype.itemsize]
                same = are_close(expected, found, unit, finite=finite)
                assert same, (code, sizes, expected, found)
    return True


UNITS = {1: 1, 2: 1e-3, 4: 1e-7, 8: 1e-7, 16: 1e-15}


def _argument(name, sizes, seed):
    dtype, shape = VARIABLES[name]
    found = made(tuple(sizes.get(n, n) for n in shape), dtype, seed)
    if seed == SPECIAL and dtype != "int64":
        rng = np.random.default_rng(len(name))
        found.flat[rng.integers(found.size)] = rng.choice([np.inf, -np.inf, np.nan])
    return found


@pytest.mark.parametrize("code", [*FAILED, *SYMBOLIC, *BEYOND])
def test_programs_that_failed_once_or_might(code):
    assert check(code)


def forms(family):
    """The programs of a family, grouped if they differ only in their functions."""
    found = {}
    for code in FAMILIES[family].values():
        found.setdefault(FUNCTION.sub("gt.f", code), []).append(code)
    return list(found.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_near_those_of_rules(family):
    tried = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number, codes in enumerate(forms(family)):
            rng = np.random.default_rng(number)
            drawn = [codes[i] for i in rng.integers(len(codes), size=EACH)]
            tried += sum(check(changed(code, rng)) for code in drawn)
    assert tried
