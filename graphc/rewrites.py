"""`graphc.rewrites`: sets of rules, and what rules are written with.

    from graphc.rewrites import default, none, p, v, once

`p.exp(v.x)` is a pattern; `graphc.rewrite` makes a rule of one and of a function.
`graphc.function(..., rewrites=default + my_rule - "times_one")` chooses.
"""

from graphc.rewriting.default import DEFAULT as default
from graphc.rewriting.default import NONE as none
from graphc.rewriting.engine import Application, Rewritten, rewritten
from graphc.rewriting.pattern import once, p, v
from graphc.rewriting.rule import Rule, Rules

__all__ = [
    "Application",
    "Rewritten",
    "Rule",
    "Rules",
    "default",
    "none",
    "once",
    "p",
    "rewritten",
    "v",
]
