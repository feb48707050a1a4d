"""docs/troubleshooting.md explains messages that the code has, in its own words."""

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
# Others begin with a capital letter, and tell of what kind the messages are.
MESSAGES = [title for title in SECTIONS if not title[0].isupper()]
JOINT = re.compile(r"""["']\s*\n\s*f?["']""")


def pattern(title):
    """A message whose first words are the title, which leaves names out."""
    return ".*".join(map(re.escape, title.split(GAP)))


@pytest.fixture(scope="module")
def texts():
    """The code, with texts that stand on several lines joined."""
    return [JOINT.sub("", path.read_text(encoding="utf-8")) for path in FILES]


@pytest.mark.parametrize("title", MESSAGES)
def test_a_title_is_the_message_that_its_block_prints(title):
    printed = "".join(re.findall(r"```text\n(.*?)```", SECTIONS[title], re.DOTALL))
    assert re.search(f"^{pattern(title)}", printed, re.MULTILINE), printed


@pytest.mark.parametrize("title", MESSAGES)
def test_a_title_stands_in_the_code(title, texts):
    """Each of its parts between gaps, so that a message that changes is noticed."""
    parts = [part.strip(" :,") for part in title.split(GAP)]
    for part in filter(None, parts):
        words = re.sub(r"^([a-z_]+:|axis|input|block) ?", "", part)
        assert any(words in text for text in texts), words


def test_a_section_says_what_to_do():
    for title, body in SECTIONS.items():
        words = body.split("```")[0].split()
        assert len(words) > 12, title
    assert len(SECTIONS) >= 20
