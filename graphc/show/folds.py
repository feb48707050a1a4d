"""How a picture folds: nodes by source line, and blocks of lines that are alike once.

Consecutive nodes of one line are a run. Where a row of runs is repeated with the same
lines, ops and element types, as the layers of a network are, the first is shown and the
others are counted. It takes one walk over the runs, in which a row that may be repeated
is compared once and then skipped, so the cost is linear.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.show.records import NodeRecord, ProgramRecord, StepRecord

LONGEST_ROW = 256  # runs of a row that may be repeated, at most


@dataclass(frozen=True, slots=True)
class LineRun:
    """Consecutive nodes of one line."""

    line: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FoldedRow:
    """Runs that follow one another, `count` times alike, with `nodes` in them all."""

    runs: tuple[LineRun, ...]
    count: int
    nodes: int


def runs_of(nodes: Sequence[int], program: ProgramRecord) -> list[LineRun]:
    """Return the runs of the nodes of a step, in order."""
    runs: list[LineRun] = []
    run_nodes: list[int] = []
    line = -1
    for place in nodes:
        line_of_node = program.nodes[place].line
        if line_of_node != line and run_nodes:
            runs.append(LineRun(line, tuple(run_nodes)))
            run_nodes = []
        line = line_of_node
        run_nodes.append(place)
    if run_nodes:
        runs.append(LineRun(line, tuple(run_nodes)))
    return runs


def rows_of(nodes: Sequence[int], program: ProgramRecord) -> list[FoldedRow]:
    """Return the rows of a step: single runs, and rows that are repeated."""
    runs = [part for run in runs_of(nodes, program) for part in _parts(run, program)]
    keys = [_key(run, program) for run in runs]
    following = _next_alike(keys)
    rows: list[FoldedRow] = []
    at = 0
    while at < len(runs):
        length = following[at] - at
        count = _repeats(keys, at, length) if 0 < length <= LONGEST_ROW else 1
        length = length if count > 1 else 1
        alike = runs[at : at + length * count]
        total = sum(len(run.nodes) for run in alike)
        rows.append(FoldedRow(tuple(runs[at : at + length]), count, total))
        at += length * count
    return rows


def _parts(run: LineRun, program: ProgramRecord) -> list[LineRun]:
    """Return a run, or its parts if it repeats itself, as a Python loop on one line."""
    keys = [_node_key(program.nodes[i], program) for i in run.nodes]
    following = _next_alike(keys)
    length = following[0] if keys else 0
    count = _repeats(keys, 0, length) if length > 0 else 1
    if count < 3:
        return [run]
    cut = range(0, length * count, length)
    parts = [LineRun(run.line, run.nodes[i : i + length]) for i in cut]
    remainder = run.nodes[length * count :]
    return [*parts, LineRun(run.line, remainder)] if remainder else parts


def _next_alike(keys: Sequence[object]) -> list[int]:
    """Return the place of the next equal key for each key; -1 where there is none."""
    latest: dict[object, int] = {}
    following = [-1] * len(keys)
    for i in range(len(keys) - 1, -1, -1):
        following[i] = latest.get(keys[i], -1)
        latest[keys[i]] = i
    return following


def _repeats(keys: Sequence[object], at: int, length: int) -> int:
    """Return how many times in a row the keys of this length stand at a place."""
    count, last = 1, len(keys) - length
    while at + length * count <= last and all(
        keys[at + i] == keys[at + length * count + i] for i in range(length)
    ):
        count += 1
    return count


def _key(run: LineRun, program: ProgramRecord) -> tuple[object, ...]:
    nodes = [_node_key(program.nodes[i], program) for i in run.nodes]
    return run.line, tuple(nodes)


def _node_key(node: NodeRecord, program: ProgramRecord) -> tuple[object, ...]:
    types = [program.values[v].type for v in node.outputs]
    return node.op, node.params, *types


def steps_within(steps: Sequence[StepRecord]) -> list[StepRecord]:
    """Return all steps, with those of a loop that Python runs after the loop."""
    listed: list[StepRecord] = []
    stack = list(steps)[::-1]
    while stack:
        step = stack.pop()
        listed.append(step)
        stack += step.steps[::-1]
    return listed
