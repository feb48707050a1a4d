"""Linear algebra: `gt.linalg`."""

from typing import TYPE_CHECKING

from graphc.ir.doors import entrance
from graphc.ir.namespace import F

if TYPE_CHECKING:
    from graphc.ir.functions.linalg import *  # noqa: F403
else:
    __getattr__ = entrance("linalg")
    __dir__ = F.linalg.__dir__
