"""Linear algebra: `gt.linalg`."""

from typing import TYPE_CHECKING

from graphc.ir.namespace import F

if TYPE_CHECKING:
    from graphc.ir.functions.linalg import *  # noqa: F403
else:
    __getattr__ = F.linalg.__getattr__
    __dir__ = F.linalg.__dir__
