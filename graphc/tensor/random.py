"""Random draws from explicit keys: `gt.random`."""

from typing import TYPE_CHECKING

from graphc.ir.doors import entrance
from graphc.ir.namespace import F

if TYPE_CHECKING:
    from graphc.ir.functions.random import *  # noqa: F403
else:
    __getattr__ = entrance("random")
    __dir__ = F.random.__dir__
