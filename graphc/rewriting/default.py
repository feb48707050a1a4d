"""The rules that are applied unless others are asked for."""

from graphc.rewriting.accelerators import ACCELERATORS
from graphc.rewriting.cleanup import CLEANUP
from graphc.rewriting.contraction import CONTRACTION
from graphc.rewriting.lifting import LIFTING
from graphc.rewriting.lookup import LOOKUP
from graphc.rewriting.loops.fuse_consumers import HOISTING
from graphc.rewriting.loops.roll import ROLLING
from graphc.rewriting.masks import MASKS
from graphc.rewriting.reduction import REDUCTION
from graphc.rewriting.rule import LIBRARY, Rules
from graphc.rewriting.selection import SELECTION
from graphc.rewriting.sharing.share import SHARING
from graphc.rewriting.stability import STABILITY

NONE = Rules()
# Attention is one op before its parts are made in tiles; steps are done together once
# all loops are there.
ALL = (
    (ACCELERATORS - "steps_together")
    + ROLLING
    + HOISTING
    + CLEANUP
    + MASKS
    + LIFTING
    + SELECTION
    + LOOKUP
    + CONTRACTION
    + REDUCTION
    + STABILITY
    + (ACCELERATORS - "fused_attention")
    + SHARING
)
LIBRARY.update((rule.name, rule) for rule in ALL)
# These two are fast, but where x and y are close, the sums cancel down to rounding.
DEFAULT = ALL - "sum_of_square" - "sum_of_power"
