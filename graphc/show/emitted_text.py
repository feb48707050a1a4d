"""The text of a program in a picture: what was printed for the plan, and no more."""

import re

from graphc.backends.prelude import helpers

LONGEST_LINE = 200
_REMARK = re.compile(r"^( *# \S.*?:\d+): .*$", re.MULTILINE)


def printed_lines(source: str) -> str:
    """Return the text without the helpers that end each program, and cut long lines.

    The user's lines appear in it by file and number alone: a picture has their texts.
    """
    program_text = _REMARK.sub(r"\1", source.removesuffix(helpers()))
    lines = [
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."
        for line in program_text.splitlines()
    ]
    return "\n".join(lines).rstrip() + "\n"
