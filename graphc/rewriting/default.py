"""The rules that are applied where nothing else is asked for."""

from graphc.rewriting.cleanup import CLEANUP
from graphc.rewriting.rule import Rules

DEFAULT = CLEANUP
NONE = Rules()
