"""The picture of a plan as an SVG: steps one below the other, with what they pass on.

The box of a step holds the user's lines, as many as there is room for. Below it stand
the values that the step passes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from graphc.show.edges import DrawnEdge, edges_between_steps
from graphc.show.folds import runs_of
from graphc.show.records import PictureRecord, ProgramRecord, StepRecord

WIDTH, ROW, GAP, LANE = 720, 18, 26, 9
LETTERS = 96  # letters of a line that fit into the width
MOST_LINES = 6  # the user's lines in one step, at most
MOST_VALUES = 4  # values of an edge that are named, at most
_STYLE = (
    "text{font:12px ui-monospace,'DejaVu Sans Mono',monospace;fill:#1c2430}"
    ".soft{fill:#5b6675}.name{font-weight:bold}"
    "rect{fill:#f5f7f9;stroke:#d5dae1}.bar{stroke:none}"
    ".segment{fill:#2563a8}.glue{fill:#a85a00}.ends{fill:#1c2430}"
    "path{fill:none;stroke:#5b6675;stroke-width:1.2}.tip{fill:#5b6675;stroke:none}"
)


@dataclass(frozen=True, slots=True)
class Box:
    """A step as it is drawn, with lines of text, the first of which is its name."""

    kind: str
    texts: tuple[str, ...]

    @property
    def height(self) -> int:
        """The height of the box in pixels."""
        return ROW * len(self.texts) + 10


def svg(picture: PictureRecord) -> str:
    """Draw the last program of a picture, which is the one in use, as an SVG."""
    title = f"<title>{escape(picture.title)}</title>"
    if not picture.programs:
        return _svg_document([title], 40)
    program = picture.programs[-1]
    boxes = list(_boxes(program))
    edges = edges_between_steps(program.steps, program, outer=True)
    left = 24 + LANE * max([e.lane for e in edges], default=0)
    tops, y = [], 12
    for box in boxes:
        tops.append(y)
        y += box.height + GAP
    placed = zip(boxes, tops, strict=True)
    parts = [title]
    parts += [line for box, top in placed for line in _box_parts(box, left, top)]
    parts += [line for edge in edges for line in _arc(edge, boxes, tops, left)]
    parts += _edge_labels(program, edges, boxes, tops, left)
    return _svg_document(parts, y - GAP + 12)


def _svg_document(parts: list[str], height: int) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<style>{_STYLE}</style>",
            *parts,
            "</svg>\n",
        ]
    )


def _boxes(program: ProgramRecord) -> Iterator[Box]:
    yield Box("ends", ("arguments",))
    for step in program.steps:
        yield Box(_kind(step), tuple(_texts(program, step)))
    yield Box("ends", ("results",))


def _kind(step: StepRecord) -> str:
    return "segment" if step.kind in ("segment", "program") else "glue"


def _texts(program: ProgramRecord, step: StepRecord) -> Iterator[str]:
    yield step.title
    if step.kind in ("segment", "program"):
        runs = runs_of(step.nodes, program)
        places = list(dict.fromkeys(run.line for run in runs))
        for place in places[:MOST_LINES]:
            line = program.lines[place]
            yield f"{line.file}:{line.line}  {line.code}"
        if places[MOST_LINES:]:
            yield f"... {len(places) - MOST_LINES} more lines"
        keys = program.names_of(step.keys)
        if program.compiled:
            yield f"compiled per {keys}" if keys else "compiled once"
        return
    yield step.text or step.reason


def _text(x: float, y: float, text: str, style: str = "") -> str:
    shown = text if len(text) <= LETTERS else f"{text[: LETTERS - 3]}..."
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{kind}>{escape(shown)}</text>'


def _box_parts(box: Box, left: int, top: int) -> Iterator[str]:
    width = WIDTH - left - 8
    yield f'<rect x="{left}" y="{top}" width="{width}" height="{box.height}" rx="5"/>'
    yield (
        f'<rect class="bar {box.kind}" x="{left}" y="{top}" width="4" '
        f'height="{box.height}"/>'
    )
    for i, text in enumerate(box.texts):
        style = "soft" if i else f"name {box.kind}"
        yield _text(left + 12, top + ROW * (i + 1), text, style)


def _arc(
    edge: DrawnEdge, boxes: list[Box], tops: list[int], left: int
) -> Iterator[str]:
    if edge.lane == 0:
        x = left + 20
        start, end = tops[edge.start] + boxes[edge.start].height, tops[edge.end]
        yield f'<path d="M{x} {start}V{end - 5}"/>'
        yield f'<path class="tip" d="M{x - 3} {end - 6}L{x} {end}L{x + 3} {end - 6}Z"/>'
        return
    x = left - 8 - LANE * edge.lane
    start, end = tops[edge.start] + 14, tops[edge.end] + 10
    yield (
        f'<path d="M{left} {start}H{x + 5}Q{x} {start} {x} {start + 5}V{end - 5}'
        f'Q{x} {end} {x + 5} {end}H{left - 5}"/>'
    )
    tip = f"M{left - 6} {end - 3}L{left} {end}L{left - 6} {end + 3}Z"
    yield f'<path class="tip" d="{tip}"/>'


def _edge_labels(
    program: ProgramRecord,
    edges: list[DrawnEdge],
    boxes: list[Box],
    tops: list[int],
    left: int,
) -> Iterator[str]:
    """Yield, below each step, the values that it passes to others."""
    values_of_steps: dict[int, dict[int, None]] = {}
    for edge in edges:
        values_of_steps.setdefault(edge.start, {}).update(dict.fromkeys(edge.values))
    for place, values in values_of_steps.items():
        texts = list(map(program.typed_name, values))
        shown = " · ".join(texts[:MOST_VALUES])
        shown += f" and {len(texts) - MOST_VALUES} more" * (len(texts) > MOST_VALUES)
        y = tops[place] + boxes[place].height + 17
        yield _text(left + 30, y, shown, "soft")
