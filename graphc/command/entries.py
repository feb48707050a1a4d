"""The entries of the troubleshooting page, to which messages point."""

import re
from importlib import resources

from graphc.command.errors import CommandError
from graphc.ir.namespace import misspelled

_ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>\n+', re.MULTILINE)
_TITLE = re.compile(r"^### (.+)$", re.MULTILINE)


def entries() -> dict[str, str]:
    """The text of each entry, in the order of the page, which lies beside this file."""
    page = resources.files("graphc.command") / "troubleshooting.md"
    _, *parts = _ANCHOR.split(page.read_text(encoding="utf-8"))
    texts = (re.split(r"^## ", part, flags=re.MULTILINE)[0] for part in parts[1::2])
    return dict(zip(parts[::2], map(str.strip, texts), strict=True))


def titles() -> dict[str, str]:
    """The titles of each entry, which are the first words of its messages."""
    return {name: "; ".join(_TITLE.findall(text)) for name, text in entries().items()}


def entry_text(name: str) -> str:
    """The text of an entry. Raises CommandError if there is no entry of that name."""
    known = entries()
    if name not in known:
        meant = misspelled(name, list(known)) or "; `graphc help` lists all"
        raise CommandError(f"there is no entry {name!r}{meant}")
    return known[name]
