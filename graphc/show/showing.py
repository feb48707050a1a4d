"""Functions that show themselves: in a browser, in a file, in a notebook."""

import os
import sys
import tempfile
import webbrowser
from abc import abstractmethod
from os import PathLike
from pathlib import Path

from graphc.errors import graph_error
from graphc.ir.tracebacks import hide_own_frames
from graphc.show.picture import Picture


class Showing:
    """A function that can show its plan."""

    @abstractmethod
    def _picture(self) -> Picture:
        """Make a picture of the function as it is now."""

    @hide_own_frames
    def show(self, path: str | PathLike[str] | None = None, open: bool = True) -> Path:
        """Write the plan as a page, open it in a browser, and return the file's path.

        The page is one file that needs no network. Without a `path` it is written among
        temporary files. A path that ends in ".svg" gets a drawing for papers, one that
        ends in ".json" the data; neither is opened. Without a browser, or where `open`
        is False, the path is printed.
        """
        if not isinstance(open, bool):
            raise graph_error("open must be True or False", op="show", got=repr(open))
        kind = ".html" if path is None else Path(path).suffix.lower()
        if kind not in (".html", ".htm", ".svg", ".json"):
            raise graph_error(
                f"a plan cannot be written as {kind or 'a file without a suffix'}",
                op="show",
                expected="a path that ends in .html, .svg or .json",
            )
        picture = self._picture()
        if kind == ".svg":
            text = picture.to_svg()
        else:
            text = picture.to_json() if kind == ".json" else picture.to_html()
        target = _temporary_file() if path is None else Path(path).absolute()
        target.write_text(text, encoding="utf-8")
        shown = open and kind.startswith(".htm") and _open_in_browser(target)
        if not shown:
            print(f"the plan is in {target if path is None else path}")
        return target

    def _repr_html_(self) -> str:
        """Return a summary, with the page below it, for notebooks."""
        return self._picture().notebook_html()


def _temporary_file() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="graphc-plan-", suffix=".html")
    os.close(descriptor)
    return Path(name)


def _open_in_browser(target: Path) -> bool:
    """Open a page in a browser, and tell whether that worked.

    A browser that runs in the terminal is not tried, since it would take the terminal
    over.
    """
    named = os.environ.get("BROWSER")
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not (named or display):
        return False
    try:
        return webbrowser.open(target.as_uri())
    except webbrowser.Error:
        return False
