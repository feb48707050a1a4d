"""The text of a program as a picture has it: what was printed for the plan, no more."""

import re

from graphc.backends.prelude import helpers

LONGEST_LINE = 200
_REMARK = re.compile(r"^( *# \S.*?:\d+): .*$", re.MULTILINE)


def printed_lines(source: str) -> str:
    """The text without the helpers that each program ends with, long lines cut.

    The user's lines stand in it by file and number alone: a picture has their texts.
    """
    program_text = _REMARK.sub(r"\1", source.removesuffix(helpers()))
    lines = [
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."
        for line in program_text.splitlines()
    ]
    return "\n".join(lines).rstrip() + "\n"
