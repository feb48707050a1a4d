"""The rules that are applied where nothing else is asked for."""

from graphc.rewriting.cleanup import CLEANUP
from graphc.rewriting.contraction import CONTRACTION
from graphc.rewriting.lookup import LOOKUP
from graphc.rewriting.reduction import REDUCTION
from graphc.rewriting.rule import Rules
from graphc.rewriting.selection import SELECTION
from graphc.rewriting.stability import STABILITY

DEFAULT = CLEANUP + SELECTION + LOOKUP + CONTRACTION + REDUCTION + STABILITY
NONE = Rules()
