"""The text of a graph in an order that is the same in every process.

By default, nodes are printed in the order in which they were made, so a node that
another test already made comes early.
"""

import re
from collections import Counter

from graphc.ir.text.printer import to_text

BODY = re.compile(r"^  \w+ = body\(.*\n(?:    .*\n)*  }\n", re.MULTILINE)
OPAQUE = re.compile(r"opaque\((\"\w+\"), (?:\([^)]*\)|\w+)\)")
NAME = re.compile(r"(?<!\")\b[a-z]\w*\b(?![=(])")  # quoted words are no names


def ordered(graph):
    """The head of a graph and its lines, in the order of use, operands first.

    Bodies are left out.
    """
    text = OPAQUE.sub(r"opaque(\1)", BODY.sub("", to_text(graph)))
    head, *lines = (line.strip() for line in text.split("\n")[:-2])
    made = {}  # for each name: all names of its node, and the rest of the line
    for line in lines[:-1]:
        names, rest = line.split(": ", 1)
        made |= dict.fromkeys(names.split(", "), (names, rest))
    order, names = [], {}
    _place(lines[-1], made, order)
    counts = Counter()
    for group, _ in order:
        for name in group.split(", "):
            base = re.sub(r"_\d+$", "", name)
            names[name] = f"{base}_{counts[base]}" if counts[base] else base
            counts[base] += 1
    text = [": ".join(line) for line in order] + [lines[-1]]
    renamed = [NAME.sub(lambda m: names.get(m[0], m[0]), line) for line in text]
    return [head.removeprefix("graph").removesuffix(" {"), *renamed]


def _place(text, made, order):
    """Append the lines of the names in a text to `order`, each behind its operands."""
    for name in NAME.findall(text):
        if name in made and made[name] not in order:
            _place(made[name][1], made, order)
            if made[name] not in order:
                order.append(made[name])
