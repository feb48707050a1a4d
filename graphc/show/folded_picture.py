"""The data inside a page: a folded picture, with what can be opened."""

from collections.abc import Sequence
from typing import Any

from graphc.show.columns import (
    edges_columns,
    lines_columns,
    nodes_columns,
    steps_of,
    values_columns,
)
from graphc.show.edges import DrawnEdge, edges_between, edges_between_steps
from graphc.show.folds import FoldedRow, rows_of, steps_within
from graphc.show.records import PictureRecord, ProgramRecord, StepRecord

MOST_PROGRAMS = 16  # the last ones
MOST_NODES = 5000  # nodes of all programs together that a page holds
MOST_UNFOLDED = 200  # nodes of each program, however many programs there are
MOST_IN_RUN = 200  # nodes of one run
MOST_LINES = 2000  # lines of the user's, up to which all have their text
MOST_SOURCE = 400_000  # letters of a program's source
Json = Any


def page_data(picture: PictureRecord) -> Json:
    """Return the data of a page."""
    programs = picture.programs[-MOST_PROGRAMS:]
    left_out = len(picture.programs) - len(programs)
    more = [f"{left_out} earlier programs are not shown here"] if left_out else []
    share = 1 / max(len(programs), 1)
    return {
        "title": picture.title,
        "graphc": picture.graphc,
        "calls": picture.calls,
        "notes": [*picture.notes, *more],
        "programs": [_PageProgram(program, share).data() for program in programs],
    }


class _PageProgram:
    """The data of one program, in which repeated blocks appear once.

    `share` is its part of the room on a page.
    """

    def __init__(self, program: ProgramRecord, share: float) -> None:
        self._program = program
        self._most_nodes = max(int(MOST_NODES * share), MOST_UNFOLDED)
        self._most_source = int(MOST_SOURCE * share)
        self._most_lines = int(MOST_LINES * share)
        self._listed: set[int] = set()
        self._bodies: dict[int, Json] = {}
        self._values: set[int] = set()
        self._left_out = 0

    def data(self) -> Json:
        one = self._program
        steps = self._steps(one.steps, outer=True)
        self._values |= {*one.inputs, *one.outputs}
        self._values |= {s.value for s in one.symbols if s.value is not None}
        plain = one.to_plain()
        return plain | {
            "steps": steps["steps"],
            "edges": steps["edges"],
            "nodes": nodes_columns(sorted(self._listed), one.nodes, self._bodies),
            "values": values_columns(sorted(self._values), one.values),
            "lines": lines_columns(one.lines, self._lines(one)),
            "source": one.source[: self._most_source],
            "source_left": max(len(one.source) - self._most_source, 0),
            "count": len(one.nodes),
            "left_out": self._left_out,
        }

    def _lines(self, one: ProgramRecord) -> set[int]:
        """Return the lines that get their text: all, or of many, those listed here."""
        if len(one.lines) <= self._most_lines:
            return set(range(len(one.lines)))
        steps = (s.line for s in steps_within(one.steps) if s.line is not None)
        checked = (c.line for c in one.size_checks)
        nodes = (one.nodes[n].line for n in self._listed)
        return {*steps, *checked, *nodes, *(r.line for r in one.rewrites)}

    def _steps(self, steps: Sequence[StepRecord], outer: bool = False) -> Json:
        edges = edges_between_steps(steps, self._program, outer)
        return {"steps": list(map(self._step, steps)), "edges": self._edges(edges)}

    def _step(self, step: StepRecord) -> Json:
        self._values |= {*step.inputs, *step.outputs}
        inner = self._steps(step.steps) if step.steps else {}
        return {
            "kind": step.kind,
            "reason": step.reason,
            "line": step.line,
            "count": len(step.nodes),
            "inputs": step.inputs,
            "outputs": step.outputs,
            "segment": step.segment,
            "keys": step.keys,
            "statics": step.statics,
            "remedy": step.remedy,
            "text": step.text,
            "rows": self._rows(step.nodes),
            "inner": inner,
        }

    def _rows(self, nodes: Sequence[int]) -> Json:
        rows = rows_of(nodes, self._program)
        listed: list[Json] = []
        for row in rows:
            if len(self._listed) >= self._most_nodes:
                break
            listed.append(self._row(row))
        cut = rows[len(listed) :]
        self._left_out += sum(len(run.nodes) for row in cut for run in row.runs)
        shown_rows = rows[: len(listed)]
        parts = [[n for run in row.runs for n in run.nodes] for row in shown_rows]
        return {
            "rows": listed,
            "more": sum(row.nodes for row in cut),
            "edges": self._edges(edges_between(parts, self._program)),
        }

    def _row(self, row: FoldedRow) -> Json:
        """Return [how often, how many nodes in all, runs, edges between runs]."""
        parts = [run.nodes for run in row.runs]
        runs = [self._run(run.line, run.nodes) for run in row.runs]
        edges = self._edges(edges_between(parts, self._program)) if row.runs[1:] else []
        return [row.count, row.nodes, runs, edges]

    def _run(self, line: int, nodes: Sequence[int]) -> Json:
        """Return [line, nodes, how many more there are, edges between nodes]."""
        room = max(self._most_nodes - len(self._listed), 0)
        listed = nodes[: min(room, MOST_IN_RUN)]
        self._left_out += len(nodes) - len(listed)
        for node in listed:
            self._list(node)
        edges = edges_between([[n] for n in listed], self._program)
        more = len(nodes) - len(listed)
        return [line, steps_of(listed), more, self._edges(edges)]

    def _list(self, place: int) -> None:
        """List a node, and the nodes of the graphs inside it."""
        node = self._program.nodes[place]
        self._listed.add(place)
        self._values |= {*node.inputs, *node.outputs}
        if node.bodies:
            self._bodies[place] = [self._rows(body) for body in node.bodies]

    def _edges(self, edges: Sequence[DrawnEdge]) -> Json:
        for edge in edges:
            self._values |= {*edge.values}
        return edges_columns(edges)
