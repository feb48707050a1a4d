"""The copy of the troubleshooting page that an installed `graphc help` reads."""

from graphc.dev.clone import ROOT

_HEAD = "<!-- written by: python -m graphc.dev regenerate troubleshooting -->\n"


def text() -> str:
    """The text of the page, with a head that says where it comes from."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    return _HEAD + page
