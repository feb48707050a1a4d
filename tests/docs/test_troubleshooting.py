"""docs/troubleshooting.md quotes messages in the words that the code has."""

import pathlib
import re

import pytest

import graphc

HOUSE = pathlib.Path(graphc.__file__).parent
FILES = [*HOUSE.rglob("*.py"), *(HOUSE.parent / "graphc_serving").rglob("*.py")]
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "troubleshooting.md"
SECTIONS = dict(
    part.split("\n", 1)
    for part in re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
)
GAP = "…"
# The other titles begin with a capital letter, and describe kinds of messages.
MESSAGES = [title for title in SECTIONS if not title[0].isupper()]
JOINT = re.compile(r"""["']\s*\n\s*f?["']""")


def pattern(title):
    """A pattern for messages that start with the title, whose gaps stand for names."""
    return ".*".join(map(re.escape, title.split(GAP)))


@pytest.fixture(scope="module")
def texts():
    """The code files, with strings that span several lines joined."""
    return [JOINT.sub("", path.read_text(encoding="utf-8")) for path in FILES]


@pytest.mark.parametrize("title", MESSAGES)
def test_a_title_is_the_message_that_its_block_prints(title):
    printed = "".join(re.findall(r"```text\n(.*?)```", SECTIONS[title], re.DOTALL))
    assert re.search(f"^{pattern(title)}", printed, re.MULTILINE), printed


@pytest.mark.parametrize("title", MESSAGES)
def test_a_title_stands_in_the_code(title, texts):
    """Each part between gaps must occur, so that a changed message is noticed."""
    parts = [part.strip(" :,") for part in title.split(GAP)]
    for part in filter(None, parts):
        words = re.sub(r"^([a-z_]+:|axis|input|block) ?", "", part)
        assert any(words in text for text in texts), words


def test_a_section_says_what_to_do():
    for title, body in SECTIONS.items():
        words = body.split("```")[0].split()
        assert len(words) > 12, title
    assert len(SECTIONS) >= 20
