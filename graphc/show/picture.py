"""A picture: its records, and everything that is made of them."""

import json
from collections.abc import Iterable, Sequence
from html import escape

from graphc.show.collect import ShownProgram, collect
from graphc.show.drawing import svg
from graphc.show.page import facts, page
from graphc.show.records import PictureRecord
from graphc.version import VERSION


class Picture:
    """The picture of a function, or of one of its plans."""

    def __init__(
        self,
        title: str,
        programs: Iterable[ShownProgram],
        calls: int,
        about: str,
        notes: Sequence[str] = (),
    ) -> None:
        records, version = tuple(map(collect, programs)), VERSION
        self.record: PictureRecord = PictureRecord(
            title, version, calls, records, tuple(notes)
        )
        self._about = about

    def to_dict(self) -> dict[str, object]:
        """Return the data of the picture."""
        return self.record.to_dict()

    def to_json(self) -> str:
        """Return the data of the picture as JSON."""
        return json.dumps(self.to_dict())

    def to_svg(self) -> str:
        """Draw the picture as an SVG, for papers."""
        return svg(self.record)

    def to_html(self) -> str:
        """Return the text of the picture's page."""
        return page(self.record)

    def summary_html(self) -> str:
        """Return a few lines about the picture."""
        counted = escape(facts(self.record))
        return f"<pre>{escape(self._about)}</pre><p>{counted}</p>"

    def notebook_html(self) -> str:
        """Return the summary, with the page to be opened below it."""
        inside = escape(self.to_html(), quote=True)
        frame = (
            f'<iframe sandbox="allow-scripts" srcdoc="{inside}" title="plan" '
            'style="width:100%;height:70vh;border:0"></iframe>'
        )
        opened = f"<details><summary>the plan</summary>{frame}</details>"
        return self.summary_html() + opened
