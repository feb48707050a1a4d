"""Random draws from explicit keys: `gt.random`."""

from typing import TYPE_CHECKING

from graphc.ir.namespace import F
from graphc.ir.public_calls import getattr_of_space

if TYPE_CHECKING:
    from graphc.ir.functions.random import *  # noqa: F403
else:
    __getattr__ = getattr_of_space("random")
    __dir__ = F.random.__dir__
