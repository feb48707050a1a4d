"""The copy of the page of troubleshooting, which `graphc help` reads when installed."""

from graphc.dev.clone import ROOT

_HEAD = "<!-- written by: python -m graphc.dev regenerate troubleshooting -->\n"


def text() -> str:
    """The page."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    return _HEAD + page
