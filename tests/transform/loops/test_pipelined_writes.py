"""Loops whose writes move to the next step, and whose reads move before the writes.

JAX runs such loops. Since it is the graph that changes, NumPy shows the results as
well.
"""

import itertools

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir.graph.nodes import Graph
from graphc.rewrites import none
from graphc.transform.loops.pipelined_writes import with_writes_in_place

PLACES = list(itertools.product((0, 2, 3, -1, -3), (0, 1, 3, -1, -4), (2, -2)))
OUTSIDE = [(4, -5, 0), (7, 1, -9), (-5, 4, 3)]  # reads are clamped, writes dropped
TABLE = gt.tensor("c", "float64", (4, 2))
ROWS = gt.tensor("rows", "int64", ("n", 3))


def between(how):
    """One element is read before a write, and another one after it."""

    def step(c, row):
        i, j, k = row[0], row[1], row[2]
        before = c[i, k % 2]
        c = getattr(c.at[j, i % 2], how)(before / 2 - 1)
        after = c[k, j % 2]
        return c.at[i, j % 2].add(after), before + 3 * after

    return step


def rows_between(c, row):
    before = c[row[0]]
    c = c.at[row[1]].multiply(before + 2)
    return c.at[row[2]].set(c[row[0]] - c[row[2]]), before


def two_writes_before(c, row):
    before = c[row[0]]
    c = c.at[row[1]].add(1).at[row[0]].max(before + 0.5)
    after = c[row[1]]
    return c.at[row[2]].min(after), before * after


def both_indices(c, row):
    i, j = row[0], row[1] % 2
    before = c[i, j]
    c = c.at[row[2], 1 - j].set(before + 1)
    return c.at[i, j].add(c[row[2], j] / 4), before


def columns_after_rows(c, row):
    """The read crosses the rows that are written, so it stays where it is."""
    before = c[row[0]]
    c = c.at[row[1]].set(before + 1)
    return c.at[row[0]].add(c[:, row[2] % 2][:2] / 4), before


def all_between(c, row):
    before = c[row[0]]
    c = c.at[row[1]].add(before / 4)
    return c.at[row[2]].set(gt.mean(c, 0)), before


def several_places(c, row):
    before = c[row[0]]
    c = c.at[row[:2]].set(before + 1)
    return c.at[row[2]].set(c[row[0]] / 2), before


MOVED = {f"between {how}": between(how) for how in "set add multiply min max".split()}
MOVED |= {f.__name__: f for f in (rows_between, two_writes_before, both_indices)}
KEPT = {f.__name__: f for f in (columns_after_rows, all_between, several_places)}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", [*MOVED, *KEPT])
def test_a_loop_gives_the_same_in_place(name, reverse):
    outputs = list(gt.scan((MOVED | KEPT)[name], TABLE, ROWS, reverse=reverse))
    inputs = (TABLE, ROWS)
    graph, made = with_writes_in_place(
        Graph(inputs, tuple(outputs), ("c", "rows"), ("", ""))
    )
    assert bool(made) == (name in MOVED)
    old, new = (
        graphc.function(inputs, list(found), backend="numpy", rewrites=none)
        for found in (outputs, graph.outputs)
    )
    table = np.linspace(-1, 2, 8).reshape(4, 2)
    for given in (PLACES, OUTSIDE, [], [(1, 1, 1)]):
        rows = np.array(given, "int64").reshape(-1, 3)
        for a, b in zip(new(table, rows), old(table, rows), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
