"""The rules that are applied unless others are asked for."""

from graphc.rewriting.engine.rule import LIBRARY, Rules
from graphc.rewriting.loops.fuse_consumers import HOISTING
from graphc.rewriting.loops.roll.chains import ROLLING
from graphc.rewriting.rules.accelerators import ACCELERATORS
from graphc.rewriting.rules.cleanup import CLEANUP
from graphc.rewriting.rules.contraction import CONTRACTION
from graphc.rewriting.rules.lifting import LIFTING
from graphc.rewriting.rules.lookup import LOOKUP
from graphc.rewriting.rules.masks import MASKS
from graphc.rewriting.rules.reduction import REDUCTION
from graphc.rewriting.rules.selection import SELECTION
from graphc.rewriting.rules.stability import STABILITY
from graphc.rewriting.sharing.share import SHARING

NONE = Rules()
# Attention becomes one op before its parts are made in tiles; steps are done together
# once all loops are there.
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
