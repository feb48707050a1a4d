"""NumPy functions see the keys of dicts, and return them, in Python's order."""

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

import graphc

ORDERS = ("ba", "ab", "cab")


@jax.tree_util.register_dataclass
@dataclass
class Table:
    columns: dict[Any, Any]
    more: Any


@graphc.jit(frontend="numpy", backend="numpy")
def joined(columns):
    return np.concatenate(list(columns.values()))


def doubled(columns):
    return {f"2{key}": 2 * column for key, column in columns.items()}, joined(columns)


def grouped(first, **named):
    groups = defaultdict(list)
    for key, column in named.items():
        groups[key].append(column[0] * first)
    return groups


def changed(table):
    table.columns["new"] = table.more
    table.columns.pop("a")
    return Table(dict(table.columns), {"z": table.more, "y": {"b": 1, "a": 2.0}})


CALLS = {
    "positional": (doubled, lambda f, columns: f(columns)),
    "by name": (grouped, lambda f, columns: f(2.0, **columns)),
    "of other classes": (
        changed,
        lambda f, columns: f(Table({**columns, 1: 2.0}, 3.0)),
    ),
}


def shown(results):
    """The text of results, with keys in the order found and arrays as lists."""
    if isinstance(results, Table):
        return f"Table({shown(results.columns)}, {shown(results.more)})"
    if isinstance(results, dict):
        items = ", ".join(f"{key!r}: {shown(x)}" for key, x in results.items())
        return f"{type(results).__name__}({items})"
    if isinstance(results, (list, tuple)):
        return f"{type(results).__name__}({', '.join(map(shown, results))})"
    return str(np.asarray(results).tolist())


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_keys_come_and_go_in_the_order_of_the_caller(call, backend):
    function, called = CALLS[call]
    ours = graphc.jit(function, frontend="numpy", backend=backend)
    calls = [*itertools.product((3, 4, 5), ORDERS)]
    for n, keys in calls if backend == "numpy" else calls[:4]:
        columns = {key: np.arange(n + i) + i / 2 for i, key in enumerate(keys)}
        assert shown(called(ours, columns)) == shown(called(function, columns))


def cost(columns):
    return sum((i + 1) * np.sum(columns[key] ** 2) for i, key in enumerate(columns))


@pytest.mark.parametrize("keys", ORDERS)
@pytest.mark.parametrize("how", ["grad", "value_and_grad", "jacobian", "hessian"])
def test_derivatives_have_the_order_of_the_arguments(keys, how):
    slopes_of = graphc.jit(
        getattr(graphc, how)(cost), frontend="numpy", backend="numpy"
    )
    for n in (3, 4):
        slopes = slopes_of({key: np.ones(n) for key in keys})
        slopes = slopes[1] if how == "value_and_grad" else slopes
        assert list(slopes) == list(keys)
        for i, key in enumerate(keys):
            second = {k: 0 * np.eye(n) for k in keys} | {key: 2 * (i + 1) * np.eye(n)}
            expected = second if how == "hessian" else np.full(n, 2.0 * (i + 1))
            assert shown(slopes[key]) == shown(expected)


def test_parameters_by_name_share_a_program_in_any_order():
    ours = graphc.jit(lambda *, x, y: x - y, frontend="numpy", backend="numpy")
    assert ours(x=np.ones(3), y=2.0).tolist() == ours(y=2.0, x=np.ones(3)).tolist()
    assert len(ours.stats().compilations) == 0
    assert len(ours._families) == 1


@pytest.mark.parametrize("shapes", ["n, m -> n, m", ({"b": "m", "a": "n"},)])
def test_shapes_are_said_in_the_order_of_jax(shapes):
    options = {"frontend": "numpy", "backend": "numpy", "shapes": shapes}
    ours = graphc.jit(lambda d: {key: d[key] + 1 for key in d}, **options)
    for n in (2, 3, 4):
        results = ours({"b": np.zeros(9), "a": np.zeros(n)})
        assert [(key, x.shape) for key, x in results.items()] == [
            ("b", (9,)),
            ("a", (n,)),
        ]
    assert "(m,)" in ours.explain() and "(n,)" in ours.explain()


def test_a_file_keeps_the_order_of_its_example(tmp_path):
    ours = graphc.jit(doubled, frontend="numpy")
    columns = {"b": np.ones(2), "a": np.zeros(3)}
    ours.export(tmp_path / "model.graphc", columns)
    model = graphc.load(tmp_path / "model.graphc")
    assert shown(model(columns)) == shown(doubled(columns))
