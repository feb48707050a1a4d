"""`graphc.rewrites`: sets of rules, and the tools to write rules with.

    from graphc.rewrites import default, none, p, v, once

`p.exp(v.x)` is a pattern; `graphc.rewrite` makes a rule from a pattern and a function.
`graphc.function(..., rewrites=default + my_rule - "times_one")` chooses the rules.
`everything` also has the rules that are not applied by default, `hoisting` has those
for what loops stack and what is made in blocks. `blocking(block_bytes=...)` says how
large these blocks are, `scan_in_chunks(16)` how many steps a chunk has, `rolling()`
which repeated blocks become one loop, and `sharing()` which parts become one function.
`check(my_rule)` tries a rule on graphs that it matches.
`default.on(DeviceCosts(...))` gives the rules for a device with other costs;
`python -m graphc calibrate` prints those of the device at hand.
"""

import importlib

from graphc.analysis.cost import DeviceCosts
from graphc.rewriting.default import ALL as everything
from graphc.rewriting.default import DEFAULT as default
from graphc.rewriting.default import NONE as none
from graphc.rewriting.engine.fixpoint import Application, Rewritten, rewritten
from graphc.rewriting.engine.rule import Rule, Rules
from graphc.rewriting.loops.fuse_consumers import HOISTING as hoisting
from graphc.rewriting.loops.roll.chains import rolling
from graphc.rewriting.loops.tile.reductions import blocking
from graphc.rewriting.loops.tile.strip_mine import scan_in_chunks
from graphc.rewriting.match.pattern import once, p, v
from graphc.rewriting.sharing.share import sharing


def check(rule: Rule, **options: object) -> object:
    """Try a rule on graphs that it matches; see `graphc.checking.check.check`.

    It needs Hypothesis, which graphc itself does not: `pip install hypothesis`.
    """
    return importlib.import_module("graphc.checking.check").check(rule, **options)


__all__ = [
    "Application",
    "DeviceCosts",
    "Rewritten",
    "Rule",
    "Rules",
    "blocking",
    "check",
    "default",
    "everything",
    "hoisting",
    "none",
    "once",
    "p",
    "rewritten",
    "rolling",
    "scan_in_chunks",
    "sharing",
    "v",
]
