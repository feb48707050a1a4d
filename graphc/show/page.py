"""The page of a picture: one HTML file that needs no network.

The page holds the data compressed, as letters and digits alone, so that no name in them
can end the script or be markup; the script puts names into the page as text. A table of
all steps is plain HTML, for screen readers, and for browsers without scripts.
"""

import base64
import json
import zlib
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files

from graphc.errors import in_number
from graphc.show.folded_picture import page_data
from graphc.show.folds import steps_within
from graphc.show.records import PictureRecord, ProgramRecord, StepRecord

MOST_STEPS = 500  # rows of the table
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_HEADS = "step", "about", "line", "compiled per", "static", "why"

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style></head>
<body>
<header><h1>{title}</h1>
<select id="programs" aria-label="program" hidden></select>
<input id="search" type="search" placeholder="search: op, name, type, line" \
aria-label="search">
<p id="facts">{facts}</p><ul id="notes"></ul></header>
<main>
<section id="code" aria-label="your lines"></section>
<section id="plan" aria-label="plan"><h2>plan</h2><div id="parts"></div></section>
<aside id="details" aria-label="details" aria-live="polite"></aside>
</main>
<div class="below">
<section id="whatif" aria-label="what if" hidden></section>
<section id="rewrites" aria-label="rewrite steps" hidden></section>
<details id="table"><summary>All steps as a table</summary>
{table}
</details>
</div>
<script id="data" type="application/octet-stream">{data}</script>
<script>{script}</script>
</body></html>
"""


@cache
def _asset(name: str) -> str:
    return files("graphc.show").joinpath(name).read_text(encoding="utf-8")


def page(picture: PictureRecord) -> str:
    """Write the page of a picture."""
    plain = json.dumps(page_data(picture), separators=(",", ":")).encode()
    return _PAGE.format(
        policy=_POLICY,
        title=escape(picture.title),
        facts=escape(facts(picture)),
        style=_asset("page.css"),
        table="\n".join(map(_table, picture.programs)),
        data=base64.b64encode(zlib.compress(plain, 9)).decode(),
        script=_asset("page.js"),
    )


def facts(picture: PictureRecord) -> str:
    """Sum up a picture in one line."""
    counts = [
        (sum(len(p.nodes) for p in picture.programs), "node"),
        (sum(len(p.compilations) for p in picture.programs), "compilation"),
        (picture.calls, "call"),
    ]
    return ", ".join(in_number(*count) for count in counts)


def _table(program: ProgramRecord) -> str:
    heads = "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    steps = steps_within(program.steps)
    rows = "\n".join(_row(program, step) for step in steps[:MOST_STEPS])
    more = len(steps) - MOST_STEPS
    end = f"<p>{more} more steps: see f.plan.to_json()</p>" if more > 0 else ""
    caption = escape(f"{program.name} {program.serves}".strip())
    return f"<table><caption>{caption}</caption><tr>{heads}</tr>\n{rows}</table>{end}"


def _row(program: ProgramRecord, step: StepRecord) -> str:
    cells = (f"<td>{escape(text)}</td>" for text in _cells(program, step))
    return f"<tr>{''.join(cells)}</tr>"


def _cells(program: ProgramRecord, step: StepRecord) -> Iterator[str]:
    yield step.title
    yield step.text or f"{len(step.nodes)} nodes"
    line = None if step.line is None else program.lines[step.line]
    yield "" if line is None else f"{line.file}:{line.line}: {line.code}"
    yield program.names_of(step.keys)
    yield program.names_of(step.statics)
    yield step.reason
